/*
 * fuzz_safetensors.c: tests the reader of safetensors with files that nobody would write. If a file
 * is read, its tensors are written and read again, and must be the same. If it isn't read, the
 * error is an RG_IO_ERROR, and nothing is left behind.
 *
 *     build/tests/fuzz/fuzz_safetensors [iterations] [seed]
 *
 * No disk is used. The program mutates files of its own. Built with -DRG_LIBFUZZER
 * -fsanitize=fuzzer, it takes those of libFuzzer.
 */
#include "limited.h"
#include "tensor/files/safetensors.h"
#include "tensor/storage.h"

static long fuzz_read; /* The number of files that were read. */

/* ---- one file ----------------------------------------------------------------------- */

/* Returns whether both lists have the same tensors under the same names. */
static bool same_lists(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n;
    for (int i = 0; same && i < a.n; i++) {
        rg_tensor *x = a.v[i].tensor, *y = NULL;
        for (int k = 0; k < b.n; k++)
            if (!strcmp(a.v[i].name, b.v[k].name))
                y = b.v[k].tensor;
        same = y && x->dtype == y->dtype && rgi_same_shape(x, y)
               && !memcmp(x->data, y->data, rgi_bytes_of(x));
    }
    return same;
}

static void fuzz_again(rg_named_list all, rg_metadata metadata) {
    fuzz_require(rg_save_file(all, "x", .metadata = metadata), "it can't be written");
    rg_named_list back = rg_load_file("x");
    fuzz_require(back.n >= 0, "it doesn't come back");
    fuzz_require(same_lists(all, back), "it comes back as another");
}

static void fuzz_load(void) { rg_load_file("x"); }

static void fuzz_file(void) {
    fuzz_limited(fuzz_load);
    RG_SCOPE();
    rg_error_clear();
    rg_named_list all = rg_load_file("x");
    const rg_code code = rg_error_code();
    fuzz_require(code == (all.n < 0 ? RG_IO_ERROR : RG_OK), "no error of the kind");
    rg_error_clear();
    rg_safe_file *f = rg_safe_open("x");
    if (!f) {
        fuzz_require(all.n < 0 && rg_error_code() == RG_IO_ERROR, "the other reader takes it");
        return;
    }
    rg_names keys = rg_safe_keys(f);
    rg_metadata metadata = rg_safe_metadata(f);
    fuzz_require(keys.n >= 0 && metadata.n >= 0 && (all.n < 0 || keys.n == all.n), "other keys");
    for (int i = 0; i < keys.n; i++)
        fuzz_require(rg_safe_get_tensor(f, keys.v[i]) || all.n < 0, "a tensor isn't read");
    rg_safe_close(f);
    if (all.n >= 0) {
        fuzz_read++;
        fuzz_again(all, metadata);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_file_with(data, size, fuzz_file);
    return 0;
}

#ifndef RG_LIBFUZZER
static const struct {
    const char *header;
    size_t data;
} fuzz_seeds[] = {
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24 },
    { "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\""
      ":"
      "[0,8]},\"c\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]}}  ",
      11 },
    { "{\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},\"\":{\"dtype\":\"U64\","
      "\"shape\":[1],\"data_offsets\":[4,12]}}",
      12 },
    { "{\"e\":{\"dtype\":\"F64\",\"shape\":[0,9],\"data_offsets\":[0,0]}}", 0 },
    { "{}", 0 },
};
static const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "0",
    "1",
    "8",
    "24",
    "-1",
    "-0",
    "1.0",
    "1e1",
    "9223372036854775807",
    "18446744073709551616",
    "\"U8\"",
    "\"F8_E4M3\"",
    "\"BF16\"",
    "\"F4\"",
    "\"dtype\":",
    "\"shape\":",
    "\"data_offsets\":",
    "\"__metadata__\":{\"k\":\"v\"},",
    "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},",
    "null",
    " ",
    "\n",
    "\\u0000",
    "\xff",
};

/* Changes a number in the header, inserts a word, or removes some bytes. */
static size_t fuzz_header(char *text, size_t n, size_t room) {
    for (uint32_t times = fuzz_below(4); times--;) {
        size_t at = fuzz_below((uint32_t)n + 1), some = 1 + fuzz_below(6);
        some = RG_MIN(some, n - at);
        const char *word = fuzz_words[fuzz_below(RG_COUNT(fuzz_words))];
        const size_t wide = strlen(word);
        const uint32_t kind = fuzz_below(3);
        if (kind == 0) {
            memmove(text + at, text + at + some, n - at - some);
            n -= some;
        } else if (kind == 1 && at < n) {
            text[at] = (char)('0' + fuzz_below(10));
        } else if (n + wide <= room) {
            memmove(text + at + wide, text + at, n - at);
            memcpy(text + at, word, wide);
            n += wide;
        }
    }
    return n;
}

/* Makes a file from a seed. Sometimes the length of the header or of the data is wrong. */
static size_t fuzz_make(uint8_t *file, size_t room) {
    const int seed = (int)fuzz_below(RG_COUNT(fuzz_seeds));
    size_t n = strlen(fuzz_seeds[seed].header), data = fuzz_seeds[seed].data;
    memcpy(file + 8, fuzz_seeds[seed].header, n);
    n = fuzz_header((char *)file + 8, n, room - 128);
    uint64_t length = n;
    if (fuzz_below(20) == 0)
        length += (uint64_t)fuzz_below(40) - 20;
    if (fuzz_below(20) == 0)
        data += fuzz_below(3);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)(length >> 8 * i);
    for (size_t i = 0; i < data; i++)
        file[8 + n + i] = (uint8_t)fuzz_below(256);
    return 8 + n + data;
}

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 100000);
    uint8_t file[1024];
    for (long i = 0; i < iterations; i++) {
        size_t n = fuzz_make(file, sizeof file);
        /* The memory has just the file's size, so that AddressSanitizer notices reads beyond it. */
        uint8_t *exact = malloc(n + 1);
        memcpy(exact, file, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    printf("fuzz_safetensors: %ld files, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
