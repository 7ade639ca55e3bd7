/*
 * fuzz_zip.c: tests the readers of archives and of .npz with files that nobody would write. If a
 * file is read, its members are written and read again, and must be the same. If it isn't read, the
 * error is an RG_IO_ERROR, and nothing is left behind. After most mutations a CRC is wrong, so the
 * file is also inflated as bare deflated bytes.
 *
 *     build/tests/fuzz/fuzz_zip [iterations] [seed]
 *
 * The program mutates files of its own. Built with -DRG_LIBFUZZER -fsanitize=fuzzer, it takes those
 * of libFuzzer.
 */
#include "limited.h"
#include "tensor/dtype.h"
#include "tensor/files/files.h"
#include "tensor/files/inflate.h"
#include "tensor/files/zip.h"
#include "tensor/shape.h"

static long fuzz_read; /* The number of files that were read. */

enum { FUZZ_INFLATED = 1 << 18 };

/* Inflates the whole file as deflated bytes, first byte by byte. */
static void fuzz_inflate(size_t size) {
    static rg_inflate i;
    static char to[FUZZ_INFLATED];
    rg_file f;
    fuzz_require(rgi_file_open(&f, "fuzz", "x"), "it can't be opened");
    rgi_inflate_begin(&i, &f, 0, size, "it");
    size_t n = 0;
    while (n < sizeof to && rgi_inflate_read(&i, to + n, 1))
        n++;
    fuzz_require(n <= size * RG_INFLATE_MOST, "it inflates to more than it can");
    fuzz_require(n == sizeof to || rg_error_code() == RG_IO_ERROR, "no error of the kind");
    /* Reading all bytes at once gives the same bytes, and finds the end. */
    static char again[FUZZ_INFLATED];
    rg_error_clear();
    rgi_inflate_begin(&i, &f, 0, size, "it");
    fuzz_require(rgi_inflate_read(&i, again, n) && !memcmp(again, to, n), "it isn't the same");
    rgi_inflate_end(&i);
    rgi_file_close(&f);
}

static void fuzz_members(void) {
    rg_zip z;
    rg_error_clear();
    if (!rgi_zip_open(&z, "fuzz", "x")) {
        fuzz_require(rg_error_code() == RG_IO_ERROR, "no error of the kind");
        return;
    }
    for (size_t i = 0; i < z.n; i++) {
        static char to[1 << 16];
        const rg_zip_member *m = &z.v[i];
        fuzz_require(rgi_zip_find(&z, m->name) == m, "a member isn't found");
        fuzz_require(m->bytes <= memory_file.n * RG_INFLATE_MOST,
                     "a member is larger than it can be");
        if (m->bytes <= sizeof to)
            rgi_zip_read(&z, m, to);
    }
    rgi_zip_close(&z);
}

static void fuzz_again(rg_named_list all) {
    fuzz_require(rg_save_npz(all, "x"), "it can't be written");
    rg_named_list back = rg_load_npz("x");
    fuzz_require(back.n == all.n, "it doesn't come back");
    for (int i = 0; i < all.n; i++) {
        const rg_tensor *x = all.v[i].tensor, *y = back.v[i].tensor;
        const size_t bytes = (size_t)x->numel * rgi_sizeof((rg_dtype)x->dtype);
        fuzz_require(!strcmp(all.v[i].name, back.v[i].name) && x->dtype == y->dtype
                         && rgi_same_shape(x, y) && !memcmp(x->data, y->data, bytes),
                     "it comes back as another");
    }
}

static void fuzz_load(void) { rg_load_npz("x"); }

static void fuzz_arrays(void) {
    RG_SCOPE();
    rg_error_clear();
    rg_named_list all = rg_load_npz("x");
    fuzz_require(rg_error_code() == (all.n < 0 ? RG_IO_ERROR : RG_OK), "no error of the kind");
    if (all.n >= 0) {
        fuzz_read++;
        fuzz_again(all);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_file_begin();
    memory_file_set(data, size);
    rg_error_clear();
    fuzz_inflate(size);
    fuzz_members();
    fuzz_limited(fuzz_load);
    fuzz_arrays();
    memory_file_end();
    return 0;
}

#ifndef RG_LIBFUZZER
/* Returns an archive that the library has written: of two arrays, or if `packed`, of one member
 * that is deflated. */
static size_t make_seed(uint8_t *to, bool packed) {
    static const uint8_t deflated[] = { 0x4B, 0x4C, 0x4A, 0x4E, 0x24, 0x17, 0x01, 0x00 };
    RG_SCOPE();
    rg_zip_writer z;
    memory_file_begin();
    const rg_named arrays[] = { { "x", rg_arange(5) }, { "y", rg_ones(2, 3) } };
    fuzz_require(rg_save_npz((rg_named_list){ 2, arrays }, "x"), "it can't be written");
    if (packed) {
        fuzz_require(rgi_zip_begin(&z, "fuzz", "x"), "it can't be written");
        rgi_zip_member_begin(&z, "z.npy", sizeof deflated, 64);
        rgi_zip_put(&z, deflated, sizeof deflated);
        fuzz_require(rgi_zip_end(&z), "it can't be written");
        /* The compression method becomes 8, deflate. */
        memory_file.v[8] = 8;
        char *entry = memory_file.v + memory_file.n - 22 - 46 - 5;
        entry[10] = 8;
        entry[24] = 60;
    }
    const size_t n = memory_file.n;
    memcpy(to, memory_file.v, n);
    memory_file_end();
    return n;
}

static const char *const words[] = {
    "PK\1\2", "PK\3\4",   "PK\5\6",           "PK\6\6", "PK\6\7", "\x93NUMPY\1", "x.npy",  "y.npy",
    "'<f4'",  "\xFF\xFF", "\xFF\xFF\xFF\xFF", "\1",     "\x08",   "\x10",        "(2, 3)",
};

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 20000);
    static uint8_t seeds[2][4096], file[4096];
    const size_t n[] = { make_seed(seeds[0], false), make_seed(seeds[1], true) };
    for (long i = 0; i < iterations; i++) {
        const uint32_t k = fuzz_below(2);
        memcpy(file, seeds[k], n[k]);
        LLVMFuzzerTestOneInput(file, fuzz_mutate(file, n[k], sizeof file, words, RG_COUNT(words)));
    }
    printf("fuzz_zip: %ld files, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
