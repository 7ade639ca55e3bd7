/*
 * mutate.h: for all fuzzers of readers: a check that ends the program and, for fuzzers without
 * libFuzzer, random numbers, and random changes of valid inputs. A fuzzer includes it once.
 */
#pragma once

#include "tensor/base.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fuzz_require(bool truth, const char *what) {
    if (truth)
        return;
    fprintf(stderr, "%s\n%s\n", what, rg_error());
    abort();
}

#ifndef RG_LIBFUZZER
static uint64_t fuzz_state;

/* Reads a fuzzer's arguments, the number of inputs and the seed. Returns the number, which is
 * `usual` if it isn't given. Nearly all inputs fail, so failures aren't printed. */
static inline long fuzz_begin(int argc, char **argv, long usual) {
    setenv("REGARD_ERRORS", "quiet", 0);
    fuzz_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return argc > 1 ? atol(argv[1]) : usual;
}

/* Returns a number of 0 .. n - 1. */
static uint32_t fuzz_below(uint32_t n) {
    fuzz_state = fuzz_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((fuzz_state >> 33) % n);
}

/* Removes, doubles, overwrites or inserts a few bytes. Returns the new length. */
static inline size_t fuzz_change(void *input, size_t n, size_t room, const char *const *words,
                                 int n_words) {
    char *v = input;
    const size_t at = fuzz_below((uint32_t)n + 1);
    const size_t most = 1 + fuzz_below(8), some = RG_MIN(most, n - at);
    const char *word = words[fuzz_below((uint32_t)n_words)];
    const size_t wide = strlen(word);
    const uint32_t kind = fuzz_below(5);
    if (kind == 0) {
        memmove(v + at, v + at + some, n - at - some);
        return n - some;
    }
    if (kind == 1 && n + some <= room) {
        memmove(v + at + some, v + at, n - at);
        return n + some;
    }
    if (kind == 2 && n + wide <= room) {
        memmove(v + at + wide, v + at, n - at);
        memcpy(v + at, word, wide);
        return n + wide;
    }
    if (kind == 3 && at < n)
        v[at] = (char)(fuzz_below(2) ? fuzz_below(256) : fuzz_below(2) * 255);
    else if (at + wide <= n)
        memcpy(v + at, word, wide);
    return n;
}

/* Changes the input a few times. Returns the new length. */
static inline size_t fuzz_mutate(void *input, size_t n, size_t room, const char *const *words,
                                 int n_words) {
    for (uint32_t times = 1 + fuzz_below(1 + fuzz_below(5)); times > 0; times--)
        n = fuzz_change(input, n, room, words, n_words);
    return n;
}
#endif
