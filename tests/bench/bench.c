/*
 * bench.c: regard's side of `make bench`: one line for each row, its name and the
 * median time of one run in nanoseconds. The rows are those of bench.py.
 */
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- W0: what one small op costs ------------------------------------------------- */

static rg_tensor *a, *b, *x, *w, *s;

static void make_inputs(bool grad) {
    a = rg_requires_grad_(rg_keep(rg_ones(3, 3)), grad);
    b = rg_requires_grad_(rg_keep(rg_ones(3, 3)), grad);
    x = rg_requires_grad_(rg_keep(rg_ones(6, 3)), grad);
    w = rg_requires_grad_(rg_keep(rg_ones(3, 3)), grad);
    s = rg_requires_grad_(rg_keep(rg_ones(6, 6)), grad);
}

static void with_grad(void)    { make_inputs(true); }
static void without_grad(void) { make_inputs(false); }

static void four_by_four(void) {
    a = rg_requires_grad_(rg_keep(rg_ones(4, 4)), true);
    b = rg_requires_grad_(rg_keep(rg_ones(4, 4)), true);
}

static void run_add(void)       { rg_add(a, b); }
static void run_matmul(void)    { rg_matmul(x, w); }
static void run_softmax(void)   { rg_softmax(s, -1); }
static void run_transpose(void) { rg_transpose(x, 0, 1); }
static void run_backward(void)  { rg_backward(rg_sum(rg_mul(a, b))); }

static const struct { const char *name; void (*setup)(void), (*run)(void); } rows[] = {
    { "w0 add 3x3",                 without_grad, run_add },
    { "w0 add 3x3, grad",           with_grad,    run_add },
    { "w0 matmul 6x3 3x3",          without_grad, run_matmul },
    { "w0 matmul 6x3 3x3, grad",    with_grad,    run_matmul },
    { "w0 softmax 6x6",             without_grad, run_softmax },
    { "w0 softmax 6x6, grad",       with_grad,    run_softmax },
    { "w0 transpose 6x3",           without_grad, run_transpose },
    { "w0 transpose 6x3, grad",     with_grad,    run_transpose },
    { "w0 sum(a*b) 4x4, fwd + bwd", four_by_four, run_backward },
};

static void repeat(void (*run)(void), long n) { RG_FOR (long i = 0; i < n; i++) run(); }

int main(int argc, char **argv) {
    const char *wanted = argc > 1 ? argv[1] : "";
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (strncmp(rows[r].name, wanted, strlen(wanted))) continue;
        double times[REPEATS], begin;
        long n = 100;
        rows[r].setup();
        for (;; n *= 2) {                               /* until one timing takes 5 ms */
            begin = now();
            repeat(rows[r].run, n);
            if (now() - begin > 5e6) break;
        }
        int64_t calls = rg_memory_stats().system_calls;
        for (int i = 0; i < REPEATS; i++) {
            begin = now();
            repeat(rows[r].run, n);
            times[i] = (now() - begin) / (double)n;
        }
        qsort(times, REPEATS, sizeof times[0], by_size);
        printf("%s\t%.1f\n", rows[r].name, times[REPEATS / 2]);
        calls = rg_memory_stats().system_calls - calls;
        if (calls || rg_error_code() != RG_OK) {
            fprintf(stderr, "%s: %ld system allocations after warm-up; %s\n", rows[r].name, (long)calls, rg_error());
            return 1;
        }
    }
    return 0;
}
