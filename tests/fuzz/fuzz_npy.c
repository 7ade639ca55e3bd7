/*
 * fuzz_npy.c: tests the reader of .npy with files that nobody would write. If a file is read, the
 * tensor is written and read again, and must be the same. If it isn't read, the error is an
 * RG_IO_ERROR, and nothing is left behind.
 *
 *     build/tests/fuzz/fuzz_npy [iterations] [seed]
 *
 * The program mutates files of its own. Built with -DRG_LIBFUZZER -fsanitize=fuzzer, it takes those
 * of libFuzzer.
 */
#include "limited.h"
#include "tensor/dtype.h"
#include "tensor/files/files.h"
#include "tensor/shape.h"

static long fuzz_read; /* The number of files that were read. */

static void fuzz_load(void) { rg_load_npy("x"); }

static void fuzz_file(void) {
    fuzz_limited(fuzz_load);
    RG_SCOPE();
    rg_error_clear();
    rg_tensor *t = rg_load_npy("x");
    fuzz_require(rg_error_code() == (t ? RG_OK : RG_IO_ERROR), "no error of the kind");
    if (!t)
        return;
    fuzz_read++;
    fuzz_require(rg_save_npy(t, "x"), "it can't be written");
    rg_tensor *back = rg_load_npy("x");
    fuzz_require(back && back->dtype == t->dtype && rgi_same_shape(back, t), "doesn't come back");
    const size_t bytes = (size_t)t->numel * rgi_sizeof((rg_dtype)t->dtype);
    fuzz_require(!memcmp(back->data, t->data, bytes), "comes back as another");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_file_with(data, size, fuzz_file);
    return 0;
}

#ifndef RG_LIBFUZZER
#define DICT(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
    const char *dict;
    int version;
    size_t data;
} seeds[] = {
    { DICT("'<f4'", "False", "(2, 3)"), 1, 24 }, { DICT("'>i2'", "True", "(2, 3)"), 2, 12 },
    { DICT("'|b1'", "False", "()"), 3, 1 },      { DICT("'<f2'", "False", "(0, 9)"), 1, 0 },
    { DICT("'=u8'", "False", "(2L,)"), 1, 16 },  { DICT("'<f8'", "True", "(1, 2, 1)"), 1, 16 },
};
static const char *const words[] = {
    "{",          "}",
    "'",          "(",
    ")",          ",",
    ":",          " ",
    "L",          "True",
    "False",      "descr",
    "shape",      "fortran_order",
    "'<f4'",      "'>u8'",
    "|b1",        "=i8",
    "0",          "1",
    "-1",         "9223372036854775807",
    "4294967296", "[",
    "\\",         "\x93NUMPY",
    "\x01",       "\x02",
    "\x03",       "\xFF\xFF",
    "\n",
};

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 100000);
    uint8_t file[512];
    for (long i = 0; i < iterations; i++) {
        const uint32_t k = fuzz_below(RG_COUNT(seeds));
        const size_t n = strlen(seeds[k].dict), head = seeds[k].version == 1 ? 10 : 12;
        memset(file, 0, sizeof file);
        memcpy(file, "\x93NUMPY", 6);
        file[6] = (uint8_t)seeds[k].version;
        file[8] = (uint8_t)n;
        memcpy(file + head, seeds[k].dict, n);
        LLVMFuzzerTestOneInput(
            file, fuzz_mutate(file, head + n + seeds[k].data, sizeof file, words, RG_COUNT(words)));
    }
    printf("fuzz_npy: %ld files, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
