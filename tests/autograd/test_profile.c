/*
 * test_profile.c: the profiler's table: calls are counted, forward and backward,
 * and what they cost is what the shapes say.
 */
#include "autograd/autograd.h"
#include "autograd/ops.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

/* The columns of a row; false: it isn't there. */
static bool row(const char *name, long *calls, double *ms, double *gflops) {
    const char *table = rg_profile_table(), *line = table ? strstr(table, name) : NULL;
    double percent, us, gb;
    return line && sscanf(line + strlen(name), "%ld %lf %lf %lf %lf %lf", calls, ms, &percent, &us, &gb, gflops) == 6;
}

START_TEST(test_counts) {
    rg_tensor *a = rg_requires_grad_(rg_randn(40, 300), true), *b = rg_randn(300, 200);
    long calls;
    double ms, gflops;
    rg_matmul(a, b);
    ck_assert(!rg_set_profiling(true));
    for (int i = 0; i < 5; i++) rg_backward(rg_sum(rg_matmul(a, b)));
    ck_assert(rg_set_profiling(false));
    rg_matmul(a, b);
    ck_assert(row("\nmatmul  ", &calls, &ms, &gflops));
    ck_assert_int_eq(calls, 5);                         /* neither the first nor the last */
    ck_assert_double_gt(ms, 0);
    double flops = gflops * ms * 1e6, want = 5 * 2.0 * 40 * 300 * 200;
    ck_assert_msg(flops > 0.9 * want && flops < 1.1 * want, "%g for %g", flops, want);   /* printed with few digits */
    ck_assert(row("matmul, backward", &calls, &ms, &gflops));
    ck_assert_int_eq(calls, 5);
    flops = gflops * ms * 1e6;                          /* one of the two gradients is wanted */
    ck_assert_msg(flops > 0.9 * want && flops < 1.1 * want, "%g for %g", flops, want);
    ck_assert(!row("softmax", &calls, &ms, &gflops));
    ck_assert(row("sum, backward", &calls, &ms, &gflops));
}
END_TEST

static long calls_of(const char *name) {
    long calls = 0;
    double ms, gflops;
    return row(name, &calls, &ms, &gflops) ? calls : 0;
}

/* A rule's own calls are counted as theirs. */
START_TEST(test_inside) {
    rg_tensor *x = rg_requires_grad_(rg_randn(200, 200), true);
    long muls = calls_of("\nmul  "), exps = calls_of("\nexp, backward");
    rg_set_profiling(true);
    rg_tensor *g = rg_grad(rg_sum(rg_exp(x)), x, .create_graph = true);
    rg_set_profiling(false);
    ck_assert(g != NULL);
    ck_assert_int_eq(calls_of("\nmul  ") - muls, 1);
    ck_assert_int_eq(calls_of("\nexp, backward") - exps, 1);
}
END_TEST

RG_TESTS(profile, test_counts, test_inside)
