/*
 * fuzz_safetensors.c: gives the reader of safetensors files that nobody would write. What is read
 * is written and read again, and is the same. A file that isn't read leaves an RG_IO_ERROR, and
 * nothing else.
 *
 *     build/tests/fuzz/fuzz_safetensors [iterations] [seed]
 *
 * No disk is used: the library's calls of the system come here. The program mutates files of its
 * own. Built with -DRG_LIBFUZZER -fsanitize=fuzzer, it takes those of libFuzzer.
 */
#include "tensor/files/safetensors.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <stdlib.h>

static long fuzz_read; /* So many files were read. */

static void fuzz_require(bool truth, const char *what) {
    if (truth)
        return;
    fprintf(stderr, "%s\n%s\n", what, rg_error());
    abort();
}

/* ---- a file in memory --------------------------------------------------------------- */

enum { FUZZ_FILE = 1, FUZZ_FOLDER };
static const char fuzz_path[] = "/nowhere/fuzz";
static const uint8_t *fuzz_bytes; /* What is read, */
static size_t fuzz_n;
static uint8_t *fuzz_written; /* and what was written. */
static size_t fuzz_written_n, fuzz_room;

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)path;
    (void)flags;
    return mode ? FUZZ_FILE : FUZZ_FOLDER;
}

static int memory_stat(int fd, struct stat *status) {
    (void)fd;
    *status = (struct stat){ .st_mode = S_IFREG | 0600, .st_size = (off_t)fuzz_n };
    return 0;
}

static ssize_t memory_pread(int fd, void *to, size_t n, off_t at) {
    (void)fd;
    fuzz_require((uint64_t)at <= fuzz_n && n <= fuzz_n - (size_t)at, "a read beyond the end");
    if (n)
        memcpy(to, fuzz_bytes + at, n);
    return (ssize_t)n;
}

static ssize_t memory_write(int fd, const void *from, size_t n) {
    (void)fd;
    if (fuzz_written_n + n > fuzz_room) {
        fuzz_room = 2 * (fuzz_written_n + n);
        fuzz_written = realloc(fuzz_written, fuzz_room);
        fuzz_require(fuzz_written, "there is no memory");
    }
    memcpy(fuzz_written + fuzz_written_n, from, n);
    fuzz_written_n += n;
    return (ssize_t)n;
}

static int memory_fd(int fd) { return fd < 0 ? -1 : 0; }
static int memory_rename(const char *from, const char *to) { return from == to ? -1 : 0; }
static int memory_unlink(const char *path) { return path ? 0 : -1; }

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
    fuzz_written_n = 0;
    fuzz_require(rg_save_file(all, fuzz_path, .metadata = metadata), "it can't be written");
    fuzz_bytes = fuzz_written;
    fuzz_n = fuzz_written_n;
    rg_named_list back = rg_load_file(fuzz_path);
    fuzz_require(back.n >= 0, "it doesn't come back");
    fuzz_require(same_lists(all, back), "it comes back as another");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rgi_system = (rg_system){ memory_open, memory_stat, memory_pread,  memory_write,
                              memory_fd,   memory_fd,   memory_rename, memory_unlink };
    fuzz_bytes = data;
    fuzz_n = size;
    RG_SCOPE();
    rg_error_clear();
    rg_named_list all = rg_load_file(fuzz_path);
    const rg_code code = rg_error_code();
    fuzz_require(code == (all.n < 0 ? RG_IO_ERROR : RG_OK), "no error of the kind");
    rg_error_clear();
    rg_safe_file *f = rg_safe_open(fuzz_path);
    if (!f) {
        fuzz_require(all.n < 0 && rg_error_code() == RG_IO_ERROR, "the other reader takes it");
        return 0;
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
    return 0;
}

#ifndef RG_LIBFUZZER
static uint64_t fuzz_state;

static uint32_t fuzz_below(uint32_t n) {
    fuzz_state = fuzz_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((fuzz_state >> 33) % n);
}

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

/* Changes a number of the header, or puts a word in or takes some bytes out. */
static size_t fuzz_mutate(char *text, size_t n, size_t room) {
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

/* Makes a file of a seed. The length of the header and of the data are sometimes wrong. */
static size_t fuzz_make(uint8_t *file, size_t room) {
    const int seed = (int)fuzz_below(RG_COUNT(fuzz_seeds));
    size_t n = strlen(fuzz_seeds[seed].header), data = fuzz_seeds[seed].data;
    memcpy(file + 8, fuzz_seeds[seed].header, n);
    n = fuzz_mutate((char *)file + 8, n, room - 128);
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
    long iterations = argc > 1 ? atol(argv[1]) : 100000;
    fuzz_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint8_t file[1024];
    for (long i = 0; i < iterations; i++) {
        size_t n = fuzz_make(file, sizeof file);
        uint8_t *exact = malloc(n + 1); /* Memory of just its size, where a read beyond is seen. */
        memcpy(exact, file, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    free(fuzz_written);
    printf("fuzz_safetensors: %ld files, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
