/*
 * test_profile.c: the profiler's table counts calls, forward and backward. The costs in it must be
 * exactly those that follow from the shapes.
 */
#include "autograd/autograd.h"
#include "autograd/tools/function.h"
#include "autograd/op.h"
#include "autograd/ops/ops.h"
#include "tests/test.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Reads the columns of a row; returns false if the row isn't there. */
static bool row(const char *name, long *calls, double *ms, double *us, double *gflops) {
    const char *table = rg_profile_table();
    const char *line = table ? strstr(table, name) : NULL;
    double percent, gb;
    return line
           && sscanf(line + strlen(name), "%ld %lf %lf %lf %lf %lf", calls, ms, &percent, us, &gb,
                     gflops)
                  == 6;
}

/* Checks what a row has counted since `before`. */
static void check_cost_since(rg_cost before, const char *name, int64_t calls, double flops,
                             double bytes) {
    rg_cost c = rg_profile_cost(name);
    ck_assert_int_eq(c.calls - before.calls, calls);
    ck_assert_double_eq(c.flops - before.flops, flops);
    ck_assert_double_eq(c.bytes - before.bytes, bytes);
    ck_assert(calls == 0 || c.ns > before.ns);
}

static void check_cost(const char *name, int64_t calls, double flops, double bytes) {
    check_cost_since((rg_cost){ 0 }, name, calls, flops, bytes);
}

/* Reads the name in a line of the table, and returns the costs of its row. */
static rg_cost cost_of_line(const char *line, char name[37]) {
    sscanf(line, "%36[^\n]", name);
    for (size_t n = strlen(name); n && name[n - 1] == ' ';)
        name[--n] = 0;
    return rg_profile_cost(name);
}

/* The table has the numbers that rg_profile_cost returns, and its rows are sorted by time. */
START_TEST(test_columns) {
    rg_tensor *a = rg_requires_grad_(rg_randn(40, 300), true), *b = rg_randn(300, 200);
    rg_set_profiling(true);
    for (int i = 0; i < 3; i++)
        rg_backward(rg_sum(rg_tanh(rg_matmul(a, b))));
    rg_set_profiling(false);
    const char *table = rg_profile_table();
    char name[37];
    double all = 0, before = INFINITY, shares = 0;
    int rows = 0;
    for (const char *line = strchr(table, '\n') + 1; *line; line = strchr(line, '\n') + 1)
        all += cost_of_line(line, name).ns;
    for (const char *line = strchr(table, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        const rg_cost c = cost_of_line(line, name);
        long calls;
        double ms, percent, us, gb, gflops;
        ck_assert_int_eq(
            sscanf(line + 36, "%ld %lf %lf %lf %lf %lf", &calls, &ms, &percent, &us, &gb, &gflops),
            6);
        ck_assert_msg(calls == c.calls && calls > 0, "%s", name);
        ck_assert_double_eq_tol(ms, c.ns / 1e6, 0.0006);
        ck_assert_double_eq_tol(us, c.ns / 1e3 / (double)calls, 0.0006);
        ck_assert_double_eq_tol(percent, 100 * c.ns / all, 0.06);
        ck_assert_double_eq_tol(gb, c.bytes / c.ns, 0.006);
        ck_assert_double_eq_tol(gflops, c.flops / c.ns, 0.006);
        ck_assert(c.ns <= before);
        before = c.ns;
        shares += percent;
        rows++;
    }
    ck_assert_int_ge(rows, 6);
    ck_assert_double_eq_tol(shares, 100, 0.05 * rows + 0.01);
}
END_TEST

START_TEST(test_counts) {
    rg_tensor *a = rg_requires_grad_(rg_randn(40, 300), true), *b = rg_randn(300, 200);
    long calls;
    double ms, us, gflops;
    rg_matmul(a, b);
    ck_assert(!rg_set_profiling(true));
    for (int i = 0; i < 5; i++)
        rg_backward(rg_sum(rg_matmul(a, b)));
    ck_assert(rg_set_profiling(false));
    rg_matmul(a, b);
    ck_assert(row("\nmatmul  ", &calls, &ms, &us, &gflops));
    /* The first and the last call came while the profiler was off. */
    ck_assert_int_eq(calls, 5);
    const double want = 5 * 2.0 * 40 * 300 * 200;
    const double ns = rg_profile_cost("matmul").ns;
    /* The table is rounded to 3 digits of a millisecond and to 2 of GFLOP/s. */
    ck_assert_double_eq_tol(ms, ns / 1e6, 0.0006);
    ck_assert_double_eq_tol(us, ns / 1e3 / 5, 0.0006);
    ck_assert_double_eq_tol(gflops, want / ns, 0.006);
    check_cost("matmul", 5, want, 5 * 4.0 * (40 * 300 + 300 * 200 + 40 * 200));
    ck_assert(row("matmul, backward", &calls, &ms, &us, &gflops));
    ck_assert_int_eq(calls, 5);
    /* Only one of the two gradients is computed. */
    check_cost("matmul, backward", 5, want, 5 * 4.0 * (40 * 300 + 300 * 200 + 40 * 200));
    ck_assert(!row("softmax", &calls, &ms, &us, &gflops));
    ck_assert(row("sum, backward", &calls, &ms, &us, &gflops));
}
END_TEST

/* Calls before and after the profiler is on aren't counted, forward or backward, even if another
 * observer is on. */
START_TEST(test_while_it_is_off) {
    rg_tensor *x = rg_requires_grad_(rg_ones(4), true);
    const rg_cost there = rg_profile_cost("exp"), back = rg_profile_cost("exp, backward");
    for (int turn = 0; turn < 4; turn++) {
        rg_set_profiling(turn == 1);
        rg_set_detect_anomaly(turn > 1);
        ck_ok(rg_backward(rg_sum(rg_exp(x))));
        ck_assert_int_eq(rg_profile_cost("exp").calls - there.calls, turn > 0);
        ck_assert_int_eq(rg_profile_cost("exp, backward").calls - back.calls, turn > 0);
    }
    rg_set_detect_anomaly(false);
}
END_TEST

/* The number of terms of a product depends on an input that needs no gradient. The profiler takes
 * that input's shape from its saved value. */
START_TEST(test_other_inputs) {
    rg_tensor *a = rg_randn(2, 5, 7), *w = rg_requires_grad_(rg_randn(7, 3), true);
    rg_tensor *weight = rg_requires_grad_(rg_randn(3, 7), true), *ones = rg_ones(2, 5, 3);
    rg_set_profiling(true);
    rg_cost products = rg_profile_cost("matmul, backward");
    rg_backward(rg_matmul(a, w), .gradient = ones);
    double flops = rg_profile_cost("matmul, backward").flops - products.flops;
    ck_assert_double_eq(flops, 2 * 10 * 7 * 3);
    rg_cost layers = rg_profile_cost("linear, backward");
    rg_backward(rg_linear(a, weight, RG_NONE), .gradient = ones);
    flops = rg_profile_cost("linear, backward").flops - layers.flops;
    ck_assert_double_eq(flops, 2 * 10 * 7 * 3);
    rg_set_profiling(false);
}
END_TEST

/* The addition of a bias isn't counted among the operations of a product. addmm has no fused
 * derivative, so its rules call matmul, which counts the operations. The row of addmm's backward
 * must not count them again. */
START_TEST(test_products) {
    rg_tensor *x = rg_requires_grad_(rg_randn(2, 5, 7), true),
              *w = rg_requires_grad_(rg_randn(3, 7), true);
    rg_tensor *bias = rg_requires_grad_(rg_randn(3), true), *ones = rg_ones(2, 5, 3);
    double before = rg_profile_cost("matmul").flops, sums = rg_profile_cost("sum").bytes;
    rg_set_profiling(true);
    rg_backward(rg_linear(x, w, bias), .gradient = ones);
    check_cost("linear", 1, 2 * 10 * 7 * 3, 4 * (70 + 21 + 3 + 30));
    check_cost("linear, backward", 1, 2 * 2 * 10 * 7 * 3, 4 * (30 + 70 + 21 + 70 + 21));
    /* The bias's gradient is 3 sums of 10 numbers. */
    ck_assert_double_eq(rg_profile_cost("sum").bytes - sums, 4 * (30 + 3));
    rg_backward(rg_addmm(bias, rg_select(x, 0, 0), rg_T(w), 1, 1),
                .gradient = rg_select(ones, 0, 0));
    rg_set_profiling(false);
    ck_assert_double_eq(rg_profile_cost("addmm").flops, 2 * 5 * 7 * 3);
    ck_assert_double_eq(rg_profile_cost("addmm, backward").flops, 0);
    ck_assert_double_eq(rg_profile_cost("matmul").flops - before, 2 * 2 * 5 * 7 * 3);
}
END_TEST

/* Returns the time in nanoseconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The forward takes until the clock's next second begins. */
static bool waits_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    const double begin = now();
    while (floor(now() / 1e9) == floor(begin / 1e9))
        usleep(1000);
    out[0] = rg_mul(in[0], 2);
    return out[0] != NULL;
}

/* A time is right even if the clock's second changes in between. */
START_TEST(test_seconds_pass) {
    static rg_function_class waits = { .name = "Waits", .forward = waits_forward };
    rg_tensor *x = rg_ones(3);
    rg_set_profiling(true);
    const double began = now();
    rg_function_apply(&waits, NULL, x);
    const double took = now() - began;
    rg_set_profiling(false);
    const rg_cost cost = rg_profile_cost("Waits");
    ck_assert_int_eq(cost.calls, 1);
    ck_assert_msg(cost.ns > 0.9 * took - 2e6 && cost.ns <= took, "%g of %g", cost.ns, took);
}
END_TEST

/* An output of a convolution is a sum over the kernel's elements and the channels. Each gradient
 * costs as much as the convolution. */
START_TEST(test_convolutions) {
    rg_tensor *x = rg_requires_grad_(rg_randn(2, 3, 8, 9), true);
    rg_tensor *w = rg_requires_grad_(rg_randn(5, 3, 2, 4), true);
    rg_set_profiling(true);
    rg_backward(rg_sum(rg_conv2d(x, w, RG_NONE)));
    rg_set_profiling(false);
    const double there = 2 * 2 * 5 * 7 * 6 * (3 * 2 * 4);
    const rg_cost cost = rg_profile_cost("conv"), back = rg_profile_cost("conv, backward");
    ck_assert_msg(fabs(cost.flops - there) < 1e-6 * there, "%g, not %g", cost.flops, there);
    ck_assert_msg(fabs(back.flops - 2 * there) < 1e-6 * there, "%g, not %g", back.flops, 2 * there);
    /* One of no images costs nothing. */
    rg_set_profiling(true);
    rg_backward(rg_sum(rg_conv2d(rg_narrow(x, 0, 0, 0), w, RG_NONE)));
    rg_set_profiling(false);
    ck_assert_double_eq(rg_profile_cost("conv").flops, cost.flops);
    ck_assert_double_eq(rg_profile_cost("conv, backward").flops, back.flops);
}
END_TEST

/* Runs backward from the sum of y, and returns the operations that were counted in the named
 * row. */
static double flops_back(const char *name, rg_tensor *y) {
    const double before = rg_profile_cost(name).flops;
    rg_set_profiling(true);
    ck_ok(rg_backward(rg_sum(y)));
    rg_set_profiling(false);
    return rg_profile_cost(name).flops - before;
}

/* Each gradient of a product that is computed costs as much as the product, whether the others are
 * computed or not. */
START_TEST(test_each_gradient_of_a_product) {
    for (int wanted = 1; wanted < 8; wanted++) {
        const int of_two = (wanted & 1) + (wanted >> 1 & 1);
        rg_tensor *x = rg_requires_grad_(rg_randn(5, 7), wanted & 1);
        rg_tensor *w = rg_requires_grad_(rg_randn(3, 7), wanted & 2);
        rg_tensor *bias = rg_requires_grad_(rg_randn(3), wanted & 4);
        ck_assert_double_eq(flops_back("linear, backward", rg_linear(x, w, bias)),
                            of_two * 2. * 5 * 3 * 7);
        if (of_two)
            ck_assert_double_eq(flops_back("matmul, backward", rg_matmul(x, rg_T(w))),
                                of_two * 2. * 5 * 3 * 7);
        rg_tensor *image = rg_requires_grad_(rg_randn(2, 4, 6), wanted & 1);
        rg_tensor *kernel = rg_requires_grad_(rg_randn(3, 4, 2), wanted & 2);
        const double flops = flops_back("conv, backward", rg_conv1d(image, kernel, bias));
        ck_assert_double_eq_tol(flops, of_two * 2. * 2 * 3 * 5 * (4 * 2), 1e-9);
    }
}
END_TEST

/* A scan multiplies h with the weight in each step. The product has two gradients, each of which
 * costs as much as the product, whichever outputs are used. */
START_TEST(test_scans) {
    for (int gates = 1; gates <= 5; gates++) {
        static const char *const names[] = { "rnn_scan", "", "gru_scan", "lstm_scan", "lstm_scan" };
        if (gates == 2)
            continue;
        const int width = gates == 5 ? 12 : 3 * gates;
        rg_tensor *x = rg_requires_grad_(rg_randn(5, 2, width), true), *y, *h = rg_zeros(2, 3);
        rg_tensor *weight = rg_requires_grad_(rg_randn(width, 3), true);
        char back[32];
        const rg_cost before = rg_profile_cost(names[gates - 1]);
        rg_set_profiling(true);
        if (gates == 1)
            y = rg_rnn_scan(x, weight, h, false, false);
        else if (gates == 3)
            y = rg_gru_scan(x, weight, RG_NONE, h, false);
        else
            y = gates == 4 ? rg_lstm_scan(x, weight, h, h, false).h
                           : rg_lstm_scan(x, weight, h, h, false).c;
        const double flops = rg_profile_cost(names[gates - 1]).flops - before.flops;
        ck_assert_double_eq(flops, 2 * (5 * 2 * 3) * width);
        snprintf(back, sizeof back, "%s, backward", names[gates - 1]);
        ck_assert_double_eq(flops_back(back, y), 2 * flops);
    }
}
END_TEST

/* An op that goes element by element costs one operation for each element, forward and backward. */
START_TEST(test_elements) {
    rg_tensor *x = rg_requires_grad_(rg_randn(5, 7), true);
    ck_assert_double_eq(flops_back("relu, backward", rg_relu(x)), 5 * 7);
    /* The gradients of a long list are made by a rule, one by one, and cost no operations of the op
     * itself. */
    rg_tensor *many[40];
    for (int i = 0; i < 40; i++)
        many[i] = x;
    const rg_cost before = rg_profile_cost("cat, backward");
    flops_back("cat, backward", rg_cat(rg_list_of(40, many), 0));
    check_cost_since(before, "cat, backward", 1, 0, 0);
}
END_TEST

static bool pair_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_add(in[0], in[1]);
    out[1] = rg_sub(in[0], in[1]);
    return out[0] && out[1];
}
static bool pair_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_add(g[0], g[1]);
    gin[1] = rg_sub(g[0], g[1]);
    return gin[0] && gin[1];
}
static bool constant_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    (void)in;
    out[0] = rg_ones(5);
    return out[0] != NULL;
}

/* Backward of an op that the program defines costs an operation for each element of each gradient
 * that it makes, whichever outputs are used. */
START_TEST(test_ops_of_the_program) {
    static rg_function_class pair = {
        .name = "Pair", .forward = pair_forward, .backward = pair_backward, .outputs = 2
    };
    for (int wanted = 1; wanted < 4; wanted++)
        for (int output = 0; output < 2; output++) {
            rg_tensor *a = rg_requires_grad_(rg_randn(2, 3), wanted & 1), *y[2];
            rg_tensor *b = rg_requires_grad_(rg_randn(2, 3), wanted & 2);
            ck_ok(rg_function_apply_many(&pair, NULL, RG_LIST(a, b), y));
            ck_assert_double_eq(flops_back("Pair, backward", y[output]), wanted == 3 ? 12 : 6);
        }
}
END_TEST

/* An op may have no inputs. */
START_TEST(test_op_without_inputs) {
    static rg_function_class constant = { .name = "Constant", .forward = constant_forward };
    rg_set_profiling(true);
    rg_tensor *five = rg_function_apply_list(&constant, NULL, (rg_list){ 0, NULL });
    rg_set_profiling(false);
    ck_assert_msg(five && rg_equal(five, rg_ones(5)), "%s", rg_error());
    check_cost("Constant", 1, 5, 5 * 4);
}
END_TEST

/* A call that fails isn't counted, forward or backward. */
START_TEST(test_a_failed_step_costs_nothing) {
    rg_tensor *x = rg_requires_grad_(rg_randn(2, 3), true), *h = rg_mul(x, 1);
    rg_tensor *y = rg_sum(rg_exp(rg_square(h)));
    ck_ok(rg_add_(h, 1));
    const rg_cost back = rg_profile_cost("square, backward"), there = rg_profile_cost("matmul");
    rg_set_profiling(true);
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "modified by an inplace operation");
    ck_fails(rg_matmul(x, x), RG_RUNTIME_ERROR, "cannot be multiplied");
    rg_set_profiling(false);
    check_cost_since(back, "square, backward", 0, 0, 0);
    check_cost_since(there, "matmul", 0, 0, 0);
}
END_TEST

/* A product with a vector has as many terms as the vector has elements. */
START_TEST(test_products_of_vectors) {
    rg_tensor *a = rg_randn(5, 7), *v = rg_randn(7), *w = rg_randn(5), *out;
    struct {
        rg_tensor *a, *b;
        double flops;
    } rows[] = { { v, v, 2 * 7 }, { a, v, 2 * 5 * 7 }, { w, a, 2 * 5 * 7 } };
    for (int i = 0; i < 3; i++) {
        const double before = rg_profile_cost("matmul").flops;
        rg_set_profiling(true);
        out = rg_matmul(rows[i].a, rows[i].b);
        rg_set_profiling(false);
        ck_ok(out);
        ck_assert_double_eq(rg_profile_cost("matmul").flops - before, rows[i].flops);
    }
}
END_TEST

/* With the causal mask the first three of 6 queries see 1, 2 and 3 keys, and the others all 3 keys.
 * These are 15 of 18 pairs. Backward also computes the weights and their gradients. */
START_TEST(test_attention) {
    rg_tensor *q = rg_requires_grad_(rg_randn(2, 4, 6, 8), true),
              *k = rg_requires_grad_(rg_randn(2, 4, 3, 8), true);
    rg_tensor *v = rg_requires_grad_(rg_randn(2, 4, 3, 8), true), *ones = rg_ones(2, 4, 6, 8);
    double flops = rg_profile_cost("attention").flops,
           back = rg_profile_cost("attention, backward").flops;
    rg_set_profiling(true);
    for (int causal = 0; causal < 2; causal++) {
        rg_backward(rg_scaled_dot_product_attention(q, k, v, .is_causal = causal),
                    .gradient = ones);
        flops += 2 * 2.0 * 8 * 8 * (causal ? 15 : 18);
        back += 5 * 2.0 * 8 * 8 * (causal ? 15 : 18);
        ck_assert_double_eq(rg_profile_cost("attention").flops, flops);
        ck_assert_double_eq(rg_profile_cost("attention, backward").flops, back);
    }
    rg_set_profiling(false);
}
END_TEST

static bool fails_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    (void)in;
    (void)out;
    return false;
}

/* A call that fails isn't counted, whether it fails in a check, in a conversion or in forward. */
START_TEST(test_failed_calls) {
    static rg_function_class fails = { .name = "Fails", .forward = fails_forward };
    rg_tensor *x = rg_ones(2, 3);
    int64_t products = rg_profile_cost("matmul").calls, sums = rg_profile_cost("add").calls;
    rg_set_profiling(true);
    ck_fails(rg_matmul(x, x), RG_RUNTIME_ERROR, "cannot be multiplied");
    ck_fails(rg_matmul(x, rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64)), RG_RUNTIME_ERROR, "");
    ck_fails(rg_add(x, rg_ones(4)), RG_RUNTIME_ERROR, "must match the size");
    ck_fails(rg_add(x, rg_ones_dims(RG_DIMS(4), RG_FLOAT64)), RG_RUNTIME_ERROR, "must match");
    ck_fails(rg_add(x, (rg_tensor *)NULL), RG_TYPE_ERROR, "");
    ck_fails(rg_function_apply(&fails, NULL, x), RG_RUNTIME_ERROR, "forward failed");
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost("Fails").calls, 0);
    ck_assert_int_eq(rg_profile_cost("matmul").calls, products);
    ck_assert_int_eq(rg_profile_cost("add").calls, sums);
}
END_TEST

/* The table has room for a limited number of ops. It leaves out the ops that come later. */
START_TEST(test_many_ops) {
    enum { OPS = 2000 };
    static rg_op ops[OPS];
    static char names[OPS][16];
    rg_tensor *x = rg_ones(2);
    rg_set_profiling(true);
    for (int i = 0; i < OPS; i++) {
        snprintf(names[i], sizeof names[i], "op%d", i);
        ops[i] = rg_op_relu;
        ops[i].name = names[i];
        ck_ok(rgi_apply(&ops[i], NULL, 0, 1, &x));
    }
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost("op0").calls, 1);
    ck_assert_int_eq(rg_profile_cost("op1999").calls, 0);
    int rows = 0;
    for (const char *line = rg_profile_table(); line; line = strchr(line + 1, '\n'))
        rows++;
    ck_assert_int_ge(rows, 1024);
    ck_assert_int_lt(rows, 1100);
    /* A name that the program gives gets no row either, however long it is. */
    const char *table = rg_profile_table();
    static const char late[] = "a name that is given when the table is full, and a long one";
    rg_set_profiling(true);
    rg_profile_end(late, rg_profile_begin(), 12);
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost(late).calls, 0);
    ck_assert_str_eq(rg_profile_table(), table);
}
END_TEST

static long calls_of(const char *name) {
    long calls = 0;
    double ms, us, gflops;
    return row(name, &calls, &ms, &us, &gflops) ? calls : 0;
}

/* Calls that a rule makes are counted in rows of their own. */
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

/* The time of a call excludes the time of the calls inside it, so the sum of all times isn't longer
 * than the run. Nearly all of addmm's backward is spent in products. */
START_TEST(test_times_are_each_calls_own) {
    rg_tensor *c = rg_requires_grad_(rg_randn(200, 200), true),
              *a = rg_requires_grad_(rg_randn(200, 200), true);
    double counted = rg_profile_cost(NULL).ns, began = now();
    rg_set_profiling(true);
    for (int i = 0; i < 5; i++)
        rg_grad(rg_sum(rg_addmm(c, a, a, 1, 1)), a, .create_graph = true);
    rg_set_profiling(false);
    double took = now() - began;
    ck_assert_double_le(rg_profile_cost(NULL).ns - counted, took);
}
END_TEST

/* A call that fails isn't counted. */
START_TEST(test_what_fails_costs_nothing) {
    rg_cost before = rg_profile_cost("add");
    rg_set_profiling(true);
    ck_fails(rg_add(rg_ones(2), rg_ones(3)), RG_RUNTIME_ERROR, "must match the size of tensor b");
    rg_set_profiling(false);
    check_cost_since(before, "add", 0, 0, 0);
}
END_TEST

/* The costliest row comes first. */
START_TEST(test_rows_are_in_order) {
    rg_tensor *x = rg_requires_grad_(rg_randn(100, 100), true);
    rg_cost exps = rg_profile_cost("exp");
    rg_cost selects = rg_profile_cost("select");
    rg_set_profiling(true);
    rg_exp(rg_select(rg_detach(x), 0, 0));
    rg_backward(rg_sum(rg_matmul(rg_exp(x), x)));
    rg_backward(rg_sum(rg_matmul(rg_tanh(x), x)));
    rg_set_profiling(false);
    const char *line = rg_profile_table();
    double before = 0, ms = 0, percent, percents = 0;
    int rows = 0;
    for (line = strchr(line, '\n'); line && line[1]; line = strchr(line, '\n')) {
        line++;
        char name[37];
        long calls;
        ck_assert_int_eq(sscanf(line, "%36c %ld %lf %lf", name, &calls, &ms, &percent), 4);
        ck_assert(rows == 0 || ms <= before);
        before = ms;
        percents += percent;
        rows++;
    }
    ck_assert_int_ge(rows, 8);
    ck_assert_double_eq_tol(percents, 100, 0.06 * rows);
    /* A view costs no operations. exp costs one for each element. */
    check_cost_since(exps, "exp", 2, 100 + 100 * 100, 2 * 4.0 * (100 + 100 * 100));
    check_cost_since(selects, "select", 1, 0, 0);
}
END_TEST

/* ---- functions and times that aren't ops ------------------------------------------- */

static void read_batch(void) {
    RG_RECORD_FUNCTION("read a batch");
    rg_exp(rg_ones(1 << 20));
    {
        RG_RECORD_FUNCTION("turn it");
        usleep(2000);
    }
    { RG_RECORD_FUNCTION(NULL); }
}

/* The row of a function leaves out the ops and functions that it calls. */
START_TEST(test_functions) {
    const rg_cost exps = rg_profile_cost("exp"), before = rg_profile_cost(NULL);
    read_batch();
    rg_set_profiling(true);
    const double began = now();
    read_batch();
    read_batch();
    const double took = now() - began;
    rg_set_profiling(false);
    read_batch();
    check_cost("read a batch", 2, 0, 0);
    check_cost("turn it", 2, 0, 0);
    check_cost_since(exps, "exp", 2, 2 << 20, 2 * 4 * (2 << 20));
    const double own = rg_profile_cost("read a batch").ns, inner = rg_profile_cost("turn it").ns;
    const double op = rg_profile_cost("exp").ns - exps.ns;
    ck_assert_msg(inner >= 2 * 2e6, "%g", inner);
    ck_assert_msg(own + inner + op <= took, "%g, %g and %g of %g", own, inner, op, took);
    /* The times of functions are part of the sum of all times. */
    ck_assert_double_ge(rg_profile_cost(NULL).ns - before.ns, 0.999 * (own + inner + op));
}
END_TEST

/* The time between rg_profile_begin and rg_profile_end isn't subtracted from the time of the
 * function around them. */
START_TEST(test_beside_takes_no_time) {
    rg_set_profiling(true);
    {
        RG_RECORD_FUNCTION("around");
        const double began = rg_profile_begin();
        usleep(2000);
        rg_profile_end("inside", began, 0);
    }
    rg_set_profiling(false);
    ck_assert(rg_profile_cost("around").ns >= 2e6 && rg_profile_cost("inside").ns >= 2e6);
}
END_TEST

/* Pairs of rg_profile_begin and rg_profile_end may overlap. Their times aren't part of the sum of
 * all times. */
START_TEST(test_beside) {
    ck_assert_double_eq(rg_profile_begin(), 0);
    rg_set_profiling(true);
    const double first = rg_profile_begin(), second = rg_profile_begin();
    ck_assert(first > 0 && second >= first);
    rg_exp2(rg_ones(10));
    usleep(1000);
    rg_profile_end("first", first, 100);
    const double ns = rg_profile_cost("exp2").ns;
    rg_exp2(rg_ones(10));
    const double all = rg_profile_cost(NULL).ns;
    rg_profile_end("second", second, 20);
    ck_assert(rg_profile_cost(NULL).ns == all);
    rg_set_profiling(false);
    /* The time `first` began while the profiler was on, so its end is counted. */
    rg_profile_end("first", first, 1);
    /* A time that began while the profiler was off isn't counted, nor is a time that is 0, negative
     * or NaN. */
    rg_profile_end("first", rg_profile_begin(), 1000);
    rg_profile_end("first", 0, 1000);
    rg_profile_end("first", -1, 1000);
    rg_profile_end("first", NAN, 1000);
    rg_profile_end("first", INFINITY, 1000);
    rg_profile_end("first", 1e300, 1000);
    rg_profile_end("first", first, NAN);
    rg_profile_end("first", first, INFINITY);
    rg_profile_end(NULL, first, 1000);
    check_cost("first", 2, 0, 101);
    check_cost("second", 1, 0, 20);
    ck_assert(rg_profile_cost("first").ns > 1e6 && ns > 0);
    /* The row has no percentage, so it has one number less than others. */
    double numbers[6];
    ck_assert_int_eq(sscanf(strstr(rg_profile_table(), "\nfirst ") + 7, "%lf %lf %lf %lf %lf %lf",
                            &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4],
                            &numbers[5]),
                     5);
    ck_assert(rg_profile_cost("exp2").calls == 2);
}
END_TEST

/* Names are copied. Each has a row of its own, also if an op has the same name. */
START_TEST(test_names) {
    char name[100], row[64];
    rg_set_profiling(true);
    { RG_RECORD_FUNCTION(NULL); }
    const double began = rg_profile_begin();
    for (int i = 0; i < 6; i++) {
        memset(name, 'x', sizeof name);
        /* The 63rd byte counts, and the 64th doesn't. */
        name[62] = (char)('a' + i / 3);
        name[63] = (char)('a' + i);
        name[99] = 0;
        rg_profile_end(name, began, 1 + i);
    }
    rg_profile_end("sigmoid", began, 5);
    rg_sigmoid(rg_ones(10));
    rg_profile_end("both", began, 3);
    { RG_RECORD_FUNCTION("both"); }
    rg_set_profiling(false);
    snprintf(row, sizeof row, "%062d%c", 0, 'a');
    memset(row, 'x', 62);
    check_cost(row, 3, 0, 1 + 2 + 3);
    row[62] = 'b';
    check_cost(row, 3, 0, 4 + 5 + 6);
    check_cost(name, 3, 0, 4 + 5 + 6);
    check_cost("sigmoid", 2, 10, 5 + 2 * 40);
    const char *table = rg_profile_table(), *line = strstr(table, "\nsigmoid ");
    /* A time that rg_profile_begin began and a function of the same name have different rows. */
    line = strstr(table, "\nboth ");
    ck_assert(line && strstr(line + 1, "\nboth "));
    /* All names that are cut off in the same way have one row. */
    for (int i = 0; i < 2; i++) {
        row[62] = (char)('a' + i);
        const char *first = strstr(table, row);
        ck_assert(first && !strstr(first + 1, row));
    }
    ck_assert(line && strstr(line + 1, "\nsigmoid "));
}
END_TEST

static void *profile_often(void *unused) {
    for (int i = 0; i < 10000; i++) {
        RG_SCOPE();
        RG_RECORD_FUNCTION("often");
        rg_profile_end("often beside", rg_profile_begin(), 1);
        rg_asin(rg_ones(1));
        ck_each(rg_profile_cost("often").calls <= 20000, "too many calls");
    }
    return unused;
}

/* No count is lost where threads count at once. */
START_TEST(test_threads_count_together) {
    pthread_t thread[2];
    rg_set_profiling(true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, profile_often, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost("often").calls, 20000);
    ck_assert_int_eq(rg_profile_cost("asin").calls, 20000);
    ck_assert_double_eq(rg_profile_cost("often beside").bytes, 20000);
}
END_TEST

/* ---- REGARD_PROFILE ---------------------------------------------------------------- */

static bool profiled_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        rg_exp(rg_ones(3));
        exit(0);
    }
    return child > 0 && waitpid(child, NULL, 0) == child;
}

/* A child of fork writes nothing. Writing an event needs no memory. */
static int profiled(void) {
    RG_RECORD_FUNCTION("a \"quoted\"\nname\\\x1f \xc3\xa9");
    const double began = rg_profile_begin();
    rg_tensor *x = rg_requires_grad_(rg_ones(3), true);
    for (int i = 0; i < 3; i++)
        rg_backward(rg_sum(rg_exp(x)));
    const bool forked = profiled_child();
    rg_memory_fail_at(1);
    rg_profile_end("first", began, 12);
    rg_profile_end("second", began, 3e9);
    rg_memory_fail_at(0);
    return !forked || rg_error_code() != RG_OK;
}

/* Returns the number behind the text in the line, and fails if the text isn't there. */
static double number_behind(const char *line, const char *text) {
    const char *at = line ? strstr(line, text) : NULL;
    ck_assert_msg(at != NULL, "no %s", text);
    return atof(at + strlen(text));
}

/* A time between rg_profile_begin and rg_profile_end is written as two events with the same id, at
 * its begin and its end. The events enclose the calls in between. */
static void check_beside(const char *json, const char *name, const char *bytes) {
    char begin[64], end[64];
    snprintf(begin, sizeof begin, "{\"name\": \"%s\", \"cat\": \"beside\", \"ph\": \"b\"", name);
    snprintf(end, sizeof end, "{\"name\": \"%s\", \"cat\": \"beside\", \"ph\": \"e\"", name);
    const char *from = strstr(json, begin), *to = strstr(json, end);
    const char *call = strstr(json, "{\"name\": \"exp\", \"cat\": \"backward\"");
    ck_assert(number_behind(from, "\"id\": ") == number_behind(to, "\"id\": "));
    ck_assert(strstr(from, bytes) && strstr(from, bytes) < to);
    const double began = number_behind(call, "\"ts\": ");
    ck_assert(number_behind(from, "\"ts\": ") < began);
    ck_assert(number_behind(to, "\"ts\": ") > began + number_behind(call, "\"dur\": "));
}

/* Runs this program in the folder, with the arguments and this value of REGARD_PROFILE, and reads
 * what it writes to standard error. */
static void run_in(const char *folder, const char *value, const char *arguments, char *text,
                   size_t room) {
    static char command[8192];
    snprintf(command, sizeof command, "cd '%s' && REGARD_PROFILE='%s' /proc/%d/exe %s 2>&1", folder,
             value, getpid(), arguments);
    FILE *pipe = popen(command, "r");
    ck_assert(pipe != NULL);
    text[fread(text, 1, room - 1, pipe)] = 0;
    ck_assert_int_eq(pclose(pipe), 0);
}

static void run_profiled(const char *value, char *text, size_t room) {
    run_in("/", value, "", text, room);
}

/* With REGARD_PROFILE=1 the table is printed at the program's end. If REGARD_PROFILE is a path, the
 * calls are also written to that file. */
START_TEST(test_environment) {
    static char text[8192], json[8192];
    /* A child would run on the machine itself, where a program for an emulated machine can't
     * run. */
    if (rg_emulated() || getenv("EMULATED"))
        return;
    run_profiled("0", text, sizeof text);
    ck_assert_str_eq(text, "");
    run_profiled("", text, sizeof text);
    ck_assert_str_eq(text, "");
    run_in("/", "1", "without-memory", text, sizeof text);
    ck_assert_str_eq(text, "");
    run_profiled("1", text, sizeof text);
    ck_assert_msg(strncmp(text, "op ", 3) == 0 && strstr(text, "\nexp ")
                      && strstr(text, "\nexp, backward "),
                  "%s", text);
    run_profiled("/nowhere/at/all.json", text, sizeof text);
    ck_assert(strstr(text, "REGARD_PROFILE: can't write to '/nowhere/at/all.json'\n"));
    char path[] = "/tmp/profileXXXXXX";
    int made = mkstemp(path);
    ck_assert_int_ge(made, 0);
    close(made);
    run_profiled(path, text, sizeof text);
    ck_assert(strncmp(text, "op ", 3) == 0);
    FILE *file = fopen(path, "r");
    json[fread(json, 1, sizeof json - 1, file)] = 0;
    fclose(file);
    remove(path);
    /* A list of objects, with a comma between two of them. */
    static const char exp[] = "{\"name\": \"exp\", \"cat\": \"forward\"";
    int objects = 0, commas = 0, forwards = 0;
    for (const char *p = json; *p; p++) {
        objects += *p == '{';
        commas += strncmp(p, "},\n{", 4) == 0;
        forwards += strncmp(p, exp, strlen(exp)) == 0;
    }
    ck_assert(strncmp(json, "[\n{", 3) == 0 && strcmp(json + strlen(json) - 4, "}\n]\n") == 0);
    ck_assert_int_ge(objects, 12);
    /* Two of the objects are nested, so they aren't separated by commas. */
    ck_assert_int_eq(commas, objects - 2 - 1);
    ck_assert_int_eq(forwards, 3);
    ck_assert(strstr(json, "{\"name\": \"a \\\"quoted\\\"\\u000aname\\\\\\u001f \xc3\xa9\", "
                           "\"cat\": \"function\""));
    /* The function begins before the calls inside it, and ends after them. */
    const char *around = strstr(json, "\"cat\": \"function\""), *call = strstr(json, exp);
    const double began = number_behind(around, "\"ts\": ");
    ck_assert(began <= number_behind(call, "\"ts\": "));
    ck_assert(began + number_behind(around, "\"dur\": ")
              >= number_behind(call, "\"ts\": ") + number_behind(call, "\"dur\": "));
    check_beside(json, "first", "\"args\": {\"bytes\": 12}}");
    check_beside(json, "second", "\"args\": {\"bytes\": 3000000000}}");
    ck_assert(number_behind(strstr(json, "\"first\""), "\"id\": ")
              != number_behind(strstr(json, "\"second\""), "\"id\": "));
}
END_TEST

/* If a file can't be written to its end, an error says why. */
START_TEST(test_full_disk) {
    static char text[8192];
    if (rg_emulated() || getenv("EMULATED") || access("/dev/full", W_OK) != 0)
        return;
    run_profiled("/dev/full", text, sizeof text);
    static const char told[] = "REGARD_PROFILE: '/dev/full' is incomplete: No space left";
    ck_assert_msg(strstr(text, told) != NULL, "%s", text);
}
END_TEST

/* Returns the number of files in the folder, removes them, and copies the name of one to `name`. */
static int take_files(const char *folder, char name[256]) {
    char path[300];
    int n = 0;
    DIR *opened = opendir(folder);
    ck_assert(opened != NULL);
    for (const struct dirent *d; (d = readdir(opened));) {
        if (d->d_name[0] == '.')
            continue;
        n++;
        snprintf(name, 256, "%s", d->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        ck_assert_int_eq(remove(path), 0);
    }
    closedir(opened);
    return n;
}

/* %p in the path stands for the process's number, so each process has its own file. A % with
 * another letter stays as it is. The value 1 isn't taken for a path. */
START_TEST(test_file_of_a_process) {
    static char text[8192];
    char folder[] = "/tmp/profileXXXXXX", path[64], name[256];
    if (rg_emulated() || getenv("EMULATED"))
        return;
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/100%%-%%p-and-%%p%%", folder);
    long before = 0;
    for (int i = 0; i < 2; i++) {
        long a, b;
        int end = 0;
        run_profiled(path, text, sizeof text);
        ck_assert_int_eq(take_files(folder, name), 1);
        ck_assert_msg(sscanf(name, "100%%-%ld-and-%ld%%%n", &a, &b, &end) == 2
                          && end == (int)strlen(name),
                      "%s", name);
        ck_assert(a == b && a > 0 && a != before);
        before = a;
    }
    run_in(folder, "1", "", text, sizeof text);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* A path that is too long is refused, and not cut off. */
START_TEST(test_longest_paths) {
    static char text[16384], path[5000];
    char folder[] = "/tmp/profileXXXXXX", name[256];
    if (rg_emulated() || getenv("EMULATED"))
        return;
    ck_assert(mkdtemp(folder) != NULL);
    int written = 0, refused = 0;
    for (int length = 4076; length <= 4100; length++) {
        /* The path has more and more slashes before the file's name, which is two numbers. */
        memset(path, '/', (size_t)length);
        memcpy(path, folder, strlen(folder));
        strcpy(path + length, "%p-%p");
        run_profiled(path, text, sizeof text);
        const int files = take_files(folder, name);
        long a, b;
        if (strncmp(text, "REGARD_PROFILE: can't write to '/tmp/", 37) == 0) {
            ck_assert_int_eq(files, 0);
            refused++;
            continue;
        }
        ck_assert(files == 1 && sscanf(name, "%ld-%ld", &a, &b) == 2);
        ck_assert_msg(a == b && length + strlen(name) < 4096, "%d: %s", length, name);
        written++;
    }
    ck_assert(written > 0 && refused > 4);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* A call after the profiler's end isn't in the file. */
__attribute__((destructor(101))) static void call_at_the_very_end(void) {
    if (getenv("REGARD_PROFILE"))
        rg_profile_end("late", rg_profile_begin(), 0);
}

/* The row that is made for a class stays until the program ends. */
__attribute__((constructor)) static void rows_stay(void) { rg_memory_may_stay = 1; }

/* If this is true, the program has no memory for the table at its end. */
static bool ends_without_memory;
__attribute__((destructor(201))) static void deny_memory_at_the_end(void) {
    rg_memory_fail_at(ends_without_memory ? 1 : 0);
}

int main(int argc, char **argv) {
    (void)argv;
    setenv("REGARD_ERRORS", "quiet", 0);
    const TTest *cases[] = { test_counts, test_products, test_columns,
                             test_what_fails_costs_nothing, test_products_of_vectors,
                             test_other_inputs, test_failed_calls, test_attention, test_inside,
                             test_while_it_is_off, test_times_are_each_calls_own, test_seconds_pass,
                             test_convolutions, test_a_failed_step_costs_nothing,
                             test_what_fails_costs_nothing, test_rows_are_in_order, test_functions,
                             test_beside_takes_no_time, test_beside, test_names, test_environment,
                             test_full_disk, test_file_of_a_process, test_longest_paths,
                             test_op_without_inputs, test_threads_count_together,
                             test_each_gradient_of_a_product, test_scans, test_elements,
                             test_ops_of_the_program,
                             /* The last test fills the table, so that later ops have no row. */
                             test_many_ops };
    if (getenv("REGARD_PROFILE")) {
        ends_without_memory = argc > 1;
        return profiled();
    }
    return rg_run_tests("profile", 1, sizeof cases / sizeof cases[0], cases);
}
