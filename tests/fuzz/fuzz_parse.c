/*
 * fuzz_parse.c: gives rg_parse texts that nobody would write. If a text is read, the printed tensor
 * reads as the same tensor again. If it isn't read, the error is a ValueError, a TypeError or a
 * RuntimeError, and nothing is left behind.
 *
 *     build/tests/fuzz/fuzz_parse [iterations] [seed]
 *
 * The program mutates texts of its own. Built with -DRG_LIBFUZZER -fsanitize=fuzzer, it takes those
 * of libFuzzer.
 */
#include "mutate.h"
#include "tensor/shape.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static long fuzz_read; /* The number of texts that were read. */

static void parse_require(bool truth, const char *what, const char *text) {
    if (truth)
        return;
    fprintf(stderr, "%s: '%s'\n%s\n", what, text, rg_error());
    abort();
}

static void fuzz_parse(const char *text) {
    RG_SCOPE();
    rg_error_clear();
    rg_tensor *t = rg_parse(text);
    rg_code code = rg_error_code();
    if (!t) {
        bool named = code >= RG_RUNTIME_ERROR && code <= RG_TYPE_ERROR && *rg_error();
        parse_require(named, "no error of the kind", text);
        return;
    }
    fuzz_read++;
    parse_require(code == RG_OK, "an error in spite of a result", text);
    rg_set_printoptions(.precision = 17, .threshold = INT_MAX, .sci_mode = 1);
    rg_tensor *back = rg_parse(rg_repr(t));
    parse_require(back && back->dtype == t->dtype && rgi_same_shape(back, t), "doesn't come back",
                  text);
    parse_require(strcmp(rg_repr(back), rg_repr(t)) == 0, "comes back as another", text);
    for (int d = RG_BOOL; d <= RG_FLOAT64; d++)
        rg_parse_dtype(text, (rg_dtype)d);
    rg_set_printoptions(.precision = 4, .threshold = 10, .edgeitems = 1, .linewidth = 20);
    parse_require(rg_repr(t) && rg_repr_numpy(t) && rg_repr_tf(t) && rg_str(t), "doesn't print",
                  text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    fuzz_parse(text);
    free(text);
    return 0;
}

#ifndef RG_LIBFUZZER
static const char *const fuzz_seeds[] = {
    "[[1, 2, 3], [4, 5, 6]]",
    "tensor([[1.0000e+00, -2.5000e-03],\n        [nan, inf]], dtype=torch.float64)",
    "[[1. 0.]\n [0. 2.]]",
    "tf.Tensor(\n[[ True False]], shape=(1, 2), dtype=bool)",
    "{ { 1.5f, 0x1.8p3 }, { -2e3L, .5 } }",
    "tensor([], size=(0, 3), dtype=torch.int64)",
    "tensor(3., requires_grad=True)",
    "[float('-inf'), -float(\"nan\"), math.inf]",
    "[-9223372036854775808, 9223372036854775807ULL, 0xFFFFFFFFFFFFFFFF]",
    "tensor([1., 2.], grad_fn=<MulBackward0>)",
    "[[[[[[[[1]]]]]]]]",
    "[1, ..., 3]",
    "Parameter containing:\ntensor([True])",
};
static const char *const fuzz_words[] = {
    "[",
    "]",
    "{",
    "}",
    ",",
    " ",
    "-",
    "+",
    ".",
    "...",
    "1",
    "0",
    "e",
    "e400",
    "0x",
    "p-2000",
    "nan",
    "inf",
    "True",
    "float('",
    "')",
    "dtype=",
    "torch.",
    "size=(",
    "shape=",
    "grad_fn=<",
    ">",
    ")",
    "9999999999999999999",
    "\n",
    "\xff",
    "tensor(",
    "f",
    "ULL",
    "[]",
};

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 100000);
    char text[512];
    for (long i = 0; i < iterations; i++) {
        const char *seed = fuzz_seeds[fuzz_below(RG_COUNT(fuzz_seeds))];
        size_t n = strlen(seed);
        memcpy(text, seed, n);
        n = fuzz_mutate(text, n, sizeof text, fuzz_words, RG_COUNT(fuzz_words));
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("fuzz_parse: %ld texts, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
