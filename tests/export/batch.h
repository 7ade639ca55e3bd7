/*
 * batch.h: for the program that `graphs write` writes (graphs.c): the memory of a step, its inputs,
 * and the comparison of its results with those of a replay, which the file named BATCH has.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *running;
static int failed, result;

/* Copies the next bytes of the file. */
static void read_bytes(void *to, size_t n) {
    static FILE *f;
    if (!f)
        f = fopen(BATCH, "rb");
    if (!f || fread(to, 1, n, f) != n) {
        printf("%s: no numbers are left in %s\n", running, BATCH);
        exit(EXIT_FAILURE);
    }
}

/* Returns the memory of the step that is called `name`. */
static char *new_memory(const char *name, size_t bytes) {
    void *m;
    running = name;
    result = 0;
    if (posix_memalign(&m, 64, bytes))
        exit(EXIT_FAILURE);
    memset(m, 0x55, bytes);
    return m;
}

/* Returns the step's next input. */
static void *read_input(size_t bytes) {
    void *to = malloc(bytes ? bytes : 1);
    read_bytes(to, bytes);
    return to;
}

static bool is_nan(const char *x, size_t size) {
    float f;
    double d;
    if (size == 1)
        return false;
    memcpy(&f, x, sizeof f);
    if (size == sizeof f)
        return f != f;
    memcpy(&d, x, sizeof d);
    return d != d;
}

/* Compares n elements with the next ones of the file: floats of `size` bytes, or n bytes. A NaN is
 * equal to any other: the sign of a NaN depends on the compiler. */
static void compare(const void *results, size_t size, size_t n) {
    const char *got = results;
    char *wanted = malloc(n * size + 1);
    read_bytes(wanted, n * size);
    for (size_t i = 0; i < n * size; i += size)
        if (memcmp(got + i, wanted + i, size) != 0
            && !(is_nan(got + i, size) && is_nan(wanted + i, size))) {
            printf("%s: result %d, element %zu differs\n", running, result, i / size);
            failed = 1;
            break;
        }
    result++;
    free(wanted);
}
