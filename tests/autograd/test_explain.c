/*
 * test_explain.c: the explanation of a gradient. Its paths add up to the gradient. It names the op
 * at which a gradient became zero, huge or infinite, and compares the gradient with differences.
 */
#include "autograd/tools/explain.h"
#include "autograd/tools/function.h"
#include "autograd/op.h"
#include "autograd/tools/saved.h"
#include "keeps.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rg_tensor *leaf(int64_t n, int64_t m) {
    rg_manual_seed((uint64_t)(n * 100 + m));
    return rg_requires_grad_(rg_randn_dims(RG_DIMS(n, m), RG_FLOAT64, rg_default_generator()),
                             true);
}

/* Explains the gradient, checks what must hold of every explanation, and returns the
 * explanation. */
static rg_explanation explain(rg_tensor *loss, rg_tensor *w) {
    rg_explanation e = rg_explain(loss, w, .paths = 5);
    ck_assert_msg(e.n >= 0 && rg_error_code() == RG_OK, "%s", rg_error());
    rg_tensor *g = rg_grad(loss, w, .retain_graph = true);
    ck_ok(g);
    ck_assert(rg_allclose(e.gradient, g, 1e-10, 1e-13));
    double sum = e.rest;
    for (int i = 0; i < e.n; i++) {
        sum += e.v[i].share;
        ck_assert(e.v[i].size >= fabs(e.v[i].share) - 1e-9);
        ck_assert(i == 0 || e.v[i].size <= e.v[i - 1].size);
    }
    ck_assert_msg(fabs(sum - 1) < 1e-9, "the shares add up to %g", sum);
    ck_assert(strstr(e.text, e.v[0].ops) && strncmp(e.dot, "digraph regard {", 16) == 0);
    ck_assert(!strstr(e.text, "first zero") == !e.first_zero);
    ck_assert(!strstr(e.text, "first not finite") == !e.first_not_finite);
    ck_assert(!strstr(e.text, "first huge") == !e.first_huge);
    return e;
}

START_TEST(test_shares) {
    rg_tensor *w = leaf(2, 3);
    rg_explanation e = explain(rg_sum(rg_add(rg_mul(w, 3), w)), w);
    ck_assert_int_eq(e.n, 2);
    ck_assert_str_eq(e.v[0].ops, "sum <- add <- mul");
    ck_assert_str_eq(e.v[1].ops, "sum <- add");
    ck_assert_double_eq_tol(e.v[0].share, 0.75, 1e-12);
    ck_assert_double_eq_tol(e.v[1].share, 0.25, 1e-12);
    ck_assert(e.rest == 0 && !e.first_zero && !e.first_not_finite && !e.first_huge);
    /* The two paths have opposite signs. */
    e = explain(rg_sum(rg_add(rg_mul(w, 3), rg_neg(w))), w);
    ck_assert_double_eq_tol(e.v[0].share, 1.5, 1e-12);
    ck_assert_double_eq_tol(e.v[1].share, -0.5, 1e-12);
    ck_assert_double_eq_tol(e.v[1].size, 0.5, 1e-12);
    ck_assert(strstr(e.dot, "color=red") && strstr(e.dot, "-50.0%"));
    /* Paths of the same ops are merged, unless a name tells them apart. */
    e = explain(rg_sum(rg_add(rg_mul(w, 3), rg_mul(w, 2))), w);
    ck_assert_int_eq(e.n, 1);
    e = explain(rg_sum(rg_add(rg_set_name(rg_mul(w, 3), "three"), rg_mul(w, 2))), w);
    ck_assert_int_eq(e.n, 2);
    ck_assert_str_eq(e.v[0].ops, "sum <- add <- mul 'three'");
    ck_assert_double_eq_tol(e.v[0].share, 0.6, 1e-12);
    ck_assert(strstr(e.dot, "[label=\"mul 'three'\"]"));
    rg_set_name(w, "a \"quoted\"\nname");
    ck_assert(strstr(explain(rg_sum(w), w).dot, "\"a \\\"quoted\\\" name\\n[2, 3]\""));
    e = explain(rg_sum(rg_mul(w, w)), w);
    ck_assert(e.n == 1 && fabs(e.v[0].share - 1) < 1e-12);
}
END_TEST

static bool twins(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_mul(in[0], 2);
    out[1] = rg_mul(in[0], 5);
    return true;
}

static bool twins_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_add(rg_mul(g[0], 2), rg_mul(g[1], 5));
    return true;
}

static bool zeros(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_mul(in[0], 0);
    return out[0];
}

static bool zeros_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = rg_mul(g[0], 0);
    return gin[0];
}

static rg_function_class twins_class = {
    .name = "Twins", .forward = twins, .backward = twins_back, .outputs = 2
};

/* These graphs have values that are no leaves, ops with several outputs, views, and packed saved
 * values. */
START_TEST(test_graphs) {
    rg_memory_may_stay = 1; /* The row of the op's class stays. */
    rg_tensor *x = leaf(4, 3), *w = leaf(3, 2), *y[2];
    rg_tensor *h = rg_matmul(x, w), *a = rg_tanh(h);
    rg_tensor *loss = rg_mean(rg_square(rg_add(rg_softmax(a, -1), rg_sigmoid(h))));
    explain(loss, w);
    explain(loss, x);
    explain(loss, h);
    explain(loss, a);
    ck_assert(rg_function_apply_many(&twins_class, NULL, RG_LIST(w), y));
    rg_explanation e = explain(rg_sum(rg_add(rg_mul(y[0], y[1]), rg_exp(y[1]))), w);
    ck_assert_int_eq(e.n, 2);
    for (int k = 0; k < 2; k++) {
        e = explain(rg_sum(rg_exp(y[k])), w);
        ck_assert_str_eq(e.v[0].ops, "sum <- exp <- Twins");
        ck_assert_int_eq(e.n, 1);
    }
    rg_list parts = rg_chunk(w, 3, 0);
    explain(rg_sum(rg_mul(rg_cat(RG_LIST(parts.v[0], parts.v[2], parts.v[0]), 0), 2)), w);
    explain(rg_sum(rg_mul(rg_expand(rg_narrow(w, 0, 0, 1), 5, 2), rg_narrow(w, 0, 1, 1))), w);
    rg_tensor *b = rg_mul(w, 2);
    rg_mul_(rg_select(b, 0, 0), 3);
    explain(rg_sum(rg_square(b)), w);
    explain(rg_sum(w), w);
    /* The graph can still be differentiated. */
    ck_ok(rg_backward(loss));
}
END_TEST

/* An explanation releases the gradients that reached an op with several outputs. It doesn't yet
 * release the gradients of nodes that were made before the op. */
START_TEST(test_nodes_beside_several_outputs) {
    rg_memory_may_stay = 1; /* The row of the op's class stays. */
    rg_tensor *w = leaf(3, 2), *y[2];
    rg_tensor *older[] = { rg_exp(w), rg_sin(w), rg_tanh(w) };
    ck_assert(rg_function_apply_many(&twins_class, NULL, RG_LIST(w), y));
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            explain(rg_sum(rg_mul(older[i], y[k])), w);
            explain(rg_sum(rg_mul(y[k], older[i])), w);
            explain(rg_sum(rg_mul(rg_add(older[i], older[(i + 1) % 3]), rg_mul(y[0], y[1]))), w);
        }
}
END_TEST

/* A name that is too long for its buffer is cut off. */
START_TEST(test_long_names) {
    rg_memory_may_stay = 1;
    static char name[201];
    static rg_function_class nothing = { .name = name, .forward = zeros, .backward = zeros_back };
    memset(name, 'n', 200);
    rg_tensor *w = leaf(2, 3), *y = rg_function_apply(&nothing, NULL, w);
    ck_ok(y);
    rg_explanation e = rg_explain(rg_sum(y), w);
    ck_assert(e.n == 1 && e.first_zero && !e.first_not_finite && !e.first_huge);
    ck_assert(strlen(e.first_zero) == 127 && strncmp(e.first_zero, name, 127) == 0);
}
END_TEST

START_TEST(test_packed) {
    rg_tensor *w = leaf(2, 3), *loss;
    {
        RG_SAVED_HOOKS(keeps);
        loss = rg_sum(rg_exp(rg_mul(rg_sin(w), w)));
    }
    explain(loss, w);
}
END_TEST

/* Anomaly mode keeps a trace for each node. An explanation works with traces and without them. */
START_TEST(test_with_traces) {
    rg_tensor *w = leaf(2, 3), *loss[2];
    rg_set_detect_anomaly(true);
    loss[0] = rg_sum(rg_exp(rg_mul(rg_sin(w), w)));
    {
        RG_SAVED_HOOKS(keeps);
        loss[1] = rg_sum(rg_exp(rg_mul(rg_sin(w), w)));
    }
    for (int on = 1; on >= 0; on--) {
        rg_set_detect_anomaly(on);
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(explain(loss[i], w).n, 2);
    }
}
END_TEST

static int unpacks, good;
static rg_tensor *unpacks_some(void *packed, void *context) {
    (void)context;
    return unpacks++ < good ? packed : rg_ones(7, 7);
}

/* If any saved value can't be unpacked, explaining fails. If all values can be unpacked, the next
 * explanation succeeds. */
START_TEST(test_values_that_are_gone) {
    const rg_saved_hooks hooks = { pack_copy, unpacks_some, drop_copy, NULL };
    rg_tensor *w = leaf(2, 3), *loss;
    {
        RG_SAVED_HOOKS(hooks);
        loss = rg_sum(rg_exp(rg_mul(rg_sin(w), w)));
    }
    for (good = 0; good < 4; good++) {
        unpacks = 0;
        rg_error_clear();
        ck_assert(rg_explain(loss, w).n < 0);
        ck_assert_msg(strstr(rg_error(), "a saved tensor unpack hook returned"), "%s", rg_error());
    }
    rg_error_clear();
    good = 100;
    explain(loss, w);
}
END_TEST

/* There are 2^10 paths, which differ in their order of ops. At most 24 paths are kept. */
START_TEST(test_more_paths_than_are_kept) {
    rg_tensor *w = leaf(3, 3), *x = w;
    for (int i = 0; i < 10; i++)
        x = rg_add(x, rg_tanh(rg_mul(x, 0.3)));
    rg_explanation e = explain(rg_sum(rg_square(x)), w);
    ck_assert_int_eq(e.n, 5);
    ck_assert(strstr(e.text, "all others"));
    e = rg_explain(rg_sum(rg_square(x)), w, .paths = 0);
    ck_assert(e.n == 0 && fabs(e.rest - 1) < 1e-9);
    e = rg_explain(rg_sum(rg_square(x)), w, .paths = 1000);
    ck_assert_int_eq(e.n, 24);
    /* Paths that aren't kept are added up, and their sum isn't listed as a path. */
    for (int i = 0; i < e.n; i++)
        ck_assert_msg(strncmp(e.v[i].ops, "sum <- square", 13) == 0, "%s", e.v[i].ops);
}
END_TEST

/* A very long path is cut to the 256 ops next to w. */
START_TEST(test_long_paths) {
    for (int ops = 254; ops <= 300; ops += ops < 258 ? 1 : 21) {
        RG_SCOPE();
        rg_tensor *w = leaf(1, 2), *x = rg_exp(w);
        for (int i = 2; i < ops; i++)
            x = rg_neg(x);
        rg_explanation e = explain(rg_sum(x), w);
        int told = 1;
        for (const char *at = e.v[0].ops; (at = strstr(at, " <- ")); at++)
            told++;
        ck_assert_int_eq(told, ops < 256 ? ops : 256);
        ck_assert_str_eq(e.v[0].ops + strlen(e.v[0].ops) - 17, "neg <- neg <- exp");
        ck_assert(ops > 256 || strncmp(e.v[0].ops, "sum <- neg", 10) == 0);
    }
}
END_TEST

/* A drawing has each step once, with the sum of the shares of all paths through it. */
START_TEST(test_picture) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true);
    rg_set_name(w, "the \"w\\\t\"");
    rg_tensor *h = rg_mul(w, 2), *named = rg_set_name(rg_exp(rg_mul(w, 0)), "e\"");
    rg_explanation e = rg_explain(rg_sum(rg_sub(rg_add(h, rg_add(w, h)), named)), w);
    ck_assert_str_eq(
        e.dot,
        "digraph regard {\n    rankdir=TB\n    node [fontname=\"sans-serif\"]\n"
        "    s0 [shape=box, label=\"loss\"]\n"
        "    w [shape=box, style=filled, fillcolor=lightblue, label=\"the \\\"w\\\\ \\\"\\n[2]\"]\n"
        "    s1 [label=\"sum\"]\n"
        "    s0 -> s1 [label=\"100.0%\", penwidth=5.00]\n"
        "    s2 [label=\"sub\"]\n"
        "    s1 -> s2 [label=\"100.0%\", penwidth=5.00]\n"
        "    s3 [label=\"add\"]\n"
        "    s2 -> s3 [label=\"100.0%\", penwidth=5.00]\n"
        "    s4 [label=\"add\"]\n"
        "    s3 -> s4 [label=\"60.0%\", penwidth=3.40]\n"
        "    s5 [label=\"exp 'e\\\"'\"]\n"
        "    s2 -> s5 [label=\"0.0%\", penwidth=1.00]\n"
        "    s6 [label=\"mul\"]\n"
        "    s5 -> s6 [label=\"0.0%\", penwidth=1.00]\n"
        "    s7 [label=\"mul\"]\n"
        "    s3 -> s7 [label=\"40.0%\", penwidth=2.60]\n"
        "    s8 [label=\"mul\"]\n"
        "    s4 -> s8 [label=\"40.0%\", penwidth=2.60]\n"
        "    s7 -> w [label=\"40.0%\"]\n"
        "    s8 -> w [label=\"40.0%\"]\n"
        "    s4 -> w [label=\"20.0%\"]\n"
        "    s6 -> w [label=\"0.0%\"]\n"
        "}\n");
}
END_TEST

/* If there are more paths than are kept, the largest are kept, whatever the order in which they are
 * found. Path k has k ops neg. Its size is (17 k) % 41, or falls with k. */
START_TEST(test_the_largest_are_kept) {
    enum { ALL = 40, KEPT = 24 };
    for (int descending = 0; descending < 2; descending++) {
        rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true), *sum = NULL;
        double size[ALL + 1], total = 0, rest = 0;
        for (int k = 1; k <= ALL; k++) {
            size[k] = descending ? ALL + 1 - k : (17 * k) % 41;
            rg_tensor *x = rg_mul(w, size[k]);
            for (int i = 0; i < k; i++)
                x = rg_neg(x);
            sum = sum ? rg_add(sum, x) : x;
            const double signed_size = k % 2 ? -size[k] : size[k];
            total += signed_size;
            rest += size[k] <= ALL - KEPT ? signed_size : 0;
        }
        rg_explanation e = rg_explain(rg_sum(sum), w, .paths = 1000);
        ck_assert_int_eq(e.n, KEPT);
        for (int i = 0; i < e.n; i++) {
            ck_assert_double_eq_tol(e.v[i].size, (ALL - i) / fabs(total), 1e-9);
            ck_assert_double_eq_tol(fabs(e.v[i].share), (ALL - i) / fabs(total), 1e-9);
        }
        ck_assert_double_eq_tol(e.rest, rest / total, 1e-9);
    }
}
END_TEST

/* w may be the loss itself, a tensor that the loss doesn't depend on, or one of an op's outputs. */
START_TEST(test_places_of_w) {
    rg_memory_may_stay = 1; /* The row of the op's class stays. */
    rg_tensor *w = leaf(2, 3), *loss = rg_sum(rg_exp(w)), *beside = rg_mul(w, 2), *y[2];
    rg_explanation e = explain(loss, loss);
    ck_assert(e.n == 1 && !*e.v[0].ops && fabs(e.v[0].share - 1) < 1e-12);
    e = rg_explain(loss, beside);
    ck_assert(e.n == 0 && rg_equal(e.gradient, rg_zeros_like(beside)));
    e = rg_explain(rg_sum(leaf(2, 2)), w);
    ck_assert(e.n == 0 && rg_equal(e.gradient, rg_zeros_like(w)));
    ck_assert(rg_function_apply_many(&twins_class, NULL, RG_LIST(w), y));
    rg_tensor *mixed = rg_sum(rg_add(rg_mul(rg_sin(y[0]), y[1]), rg_exp(y[1])));
    e = explain(mixed, y[0]);
    ck_assert_int_eq(e.n, 1);
    e = explain(mixed, y[1]);
    ck_assert_int_eq(e.n, 2);
    /* The report distinguishes the two inputs of a product. */
    rg_tensor *one = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    e = rg_explain(rg_sum(rg_mul(rg_zeros_dims(RG_DIMS(2, 3), RG_FLOAT64), one)), one);
    ck_assert_str_eq(e.first_zero, "mul, input 1 of [3]");
    ck_assert(e.n == 1 && isnan(e.v[0].share) && isnan(e.v[0].size));
    ck_assert(strstr(e.text, "nan%") && !strstr(e.dot, "color=red"));
}
END_TEST

/* Paths of the same size are listed in the order in which they were found: the path of the latest
 * op comes first. */
START_TEST(test_paths_of_one_size) {
    rg_tensor *w = leaf(2, 3);
    for (int turned = 0; turned < 2; turned++) {
        rg_tensor *a = rg_mul(w, 2), *b = rg_div(w, 0.5);
        rg_tensor *loss = rg_sum(turned ? rg_add(b, a) : rg_add(a, b));
        rg_tensor *c = rg_add(loss, rg_mul(loss, 2));
        rg_explanation e = rg_explain(c, w);
        ck_assert_int_eq(e.n, 4);
        for (int i = 1; i < e.n; i++)
            ck_assert_double_ge(e.v[i - 1].size, e.v[i].size);
        for (int i = 0; i < e.n; i += 2)
            ck_assert_msg(strstr(e.v[i].ops, "<- div") && strstr(e.v[i + 1].ops, "<- mul"),
                          "%s, %s", e.v[i].ops, e.v[i + 1].ops);
    }
}
END_TEST

START_TEST(test_where_a_gradient_is_lost) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    rg_explanation e = rg_explain(rg_sum(rg_exp(rg_relu(rg_neg(w)))), w);
    ck_assert_str_eq(e.first_zero, "relu, input 0 of [3]");
    ck_assert(isnan(e.rest) && strstr(e.text, "it is zero: there are no shares"));
    ck_assert(strstr(e.text, "\nfirst zero on the way back: relu, input 0 of [3]\n"));
    e = rg_explain(rg_sum(rg_mul(rg_sqrt(rg_sub(w, 1)), 0)), w);
    ck_assert_str_eq(e.first_zero, "mul, input 0 of [3]");
    ck_assert_str_eq(e.first_not_finite, "sqrt, input 0 of [3]");
    ck_assert(strstr(e.text, "it is not finite") && strstr(e.text, "way back: sqrt"));
    /* An infinite gradient isn't reported as huge as well. A gradient without elements isn't
     * reported as zero. */
    ck_assert(!e.first_huge && !strstr(e.text, "huge"));
    e = rg_explain(rg_sum(rg_sqrt(rg_sub(w, 1))), w);
    ck_assert_str_eq(e.first_not_finite, "sqrt, input 0 of [3]");
    ck_assert(!e.first_huge && !strstr(e.text, "huge"));
    rg_tensor *rows = rg_requires_grad_(rg_ones(2, 3), true), *none = rg_narrow(rows, 0, 0, 0);
    e = rg_explain(rg_sum(rg_mul(rg_cat(RG_LIST(rg_exp(none), rows), 0), 2)), rows);
    ck_assert_str_eq(e.first_zero, "slice, input 0 of [2, 3]");
    e = rg_explain(rg_add(rg_sum(rg_exp(none)), rg_sum(rows)), rows);
    ck_assert_str_eq(e.first_zero, "slice, input 0 of [2, 3]");
    e = rg_explain(rg_sum(rg_mul(rg_mul(w, 5), 1e9)), w);
    ck_assert_str_eq(e.first_huge, "mul, input 0 of [3]");
    ck_assert_double_eq_tol(e.v[0].share, 1, 1e-12);
    ck_assert(strstr(e.text, "\nfirst huge on the way back: mul, input 0 of [3]\n"));
    e = rg_explain(rg_sum(rg_mul(rg_mul(w, 5), 1e9)), w, .huge = 1e12);
    ck_assert(!e.first_huge);
    e = rg_explain(rg_sum(rg_mul(rg_mul(w, 5), 2)), w, .huge = 10);
    ck_assert(!e.first_huge);
    e = rg_explain(rg_sum(rg_mul(rg_mul(w, 5), 2)), w, .huge = 9);
    ck_assert_str_eq(e.first_huge, "mul, input 0 of [3]");
    /* An explanation contains nothing that an earlier explanation found. */
    e = rg_explain(rg_sum(rg_exp(rg_mul(rg_mul(w, 0), 3))), w);
    ck_assert_str_eq(e.first_zero, "mul, input 0 of [3]");
    e = rg_explain(rg_sum(rg_exp(rg_relu(rg_neg(rg_mul(w, 1e9))))), w);
    ck_assert_str_eq(e.first_zero, "relu, input 0 of [3]");
    ck_assert(!e.first_huge && !e.first_not_finite);
    /* A gradient is finite only if all its elements are. */
    for (int at = 0; at < 3; at++) {
        rg_tensor *g = rg_ones_dims(RG_DIMS(3), RG_FLOAT64);
        rg_set_item_(g, INFINITY, at);
        e = rg_explain(rg_sum(rg_mul(w, g)), w);
        ck_assert_str_eq(e.first_not_finite, "mul, input 0 of [3]");
    }
    /* A gradient is zero only if all its elements are. */
    for (int at = 0; at < 3; at++) {
        rg_tensor *g = rg_zeros_dims(RG_DIMS(3), RG_FLOAT64);
        rg_set_item_(g, 2, at);
        ck_assert(!rg_explain(rg_sum(rg_mul(w, g)), w).first_zero);
    }
    /* No path leads from the sum to `other`. */
    rg_tensor *other = leaf(2, 2);
    e = rg_explain(rg_sum(w), other);
    ck_assert(e.n == 0 && rg_equal(e.gradient, rg_zeros_like(other)));
}
END_TEST

static rg_tensor *honest(rg_tensor *const in[], void *x) {
    return rg_mean(rg_square(rg_tanh(rg_matmul(x, in[0]))));
}
static rg_tensor *detached(rg_tensor *const in[], void *x) {
    rg_tensor *h = rg_matmul(x, in[0]);
    return rg_mean(rg_mul(rg_tanh(h), rg_detach(h)));
}
/* Returns the sum of w^2. Its slope is 2 w, but its gradient is only w, because one of the factors
 * is detached. */
static rg_tensor *half_detached(rg_tensor *const in[], void *x) {
    (void)x;
    return rg_sum(rg_mul(in[0], rg_detach(in[0])));
}
/* Takes w from the context, since the input is the same tensor. */
static rg_tensor *of_the_context(rg_tensor *const in[], void *w) {
    ck_assert_ptr_eq(in[0], w);
    return rg_sum(rg_square(w));
}
static rg_tensor *no_result(rg_tensor *const in[], void *result) {
    (void)in;
    return result;
}
static rg_tensor *broken(rg_tensor *const in[], void *x) { return rg_matmul(in[0], x); }
/* The second element is detached, so its gradient is 0 although its slope is 5. Along the gradient
 * the slope is right nevertheless. */
static rg_tensor *last_detached(rg_tensor *const in[], void *unused) {
    (void)unused;
    rg_tensor *flat = rg_reshape(in[0], -1);
    return rg_add(rg_select(flat, 0, 0), rg_mul(rg_detach(rg_select(flat, 0, 1)), 5));
}
static rg_tensor *sum_of_squares(rg_tensor *const in[], void *unused) {
    (void)unused;
    return rg_sum(rg_square(in[0]));
}
/* Returns the first element, or NaN if it is below -0.9e-6. The steps of explain have length
 * 1e-6. */
static rg_tensor *first_with_an_end(rg_tensor *const in[], void *unused) {
    (void)unused;
    rg_tensor *first = rg_select(rg_reshape(in[0], -1), 0, 0);
    return rg_item(first) < -0.9e-6 ? rg_mul(first, NAN) : rg_mul(first, 1);
}
/* Returns *rise and 0 in turn. */
static rg_tensor *rises_by(rg_tensor *const in[], void *rise) {
    static int calls;
    return rg_add(rg_mul(rg_sum(in[0]), 0), ++calls % 2 ? *(const double *)rise : 0);
}

START_TEST(test_verdicts) {
    rg_tensor *x = leaf(4, 3), *w = leaf(3, 2), *loss = honest(&w, x);
    rg_tensor *before = rg_clone(w);
    const int64_t version = rg_version(w);
    rg_explanation e = rg_explain(loss, w, .f = honest, .context = x);
    ck_assert_msg(e.agrees && e.off < 1e-7 && strstr(e.text, "agree: off by"), "%s", e.text);
    ck_assert(rg_equal(w, before) && rg_version(w) == version);
    /* An error that occurred before the explanation doesn't change the verdict. */
    ck_assert(!rg_matmul(w, rg_ones(7)) && rg_error_code() != RG_OK);
    e = rg_explain(loss, w, .f = honest, .context = x);
    ck_assert(e.n > 0 && e.agrees);
    rg_error_clear();
    e = rg_explain(detached(&w, x), w, .f = detached, .context = x);
    ck_assert(!e.agrees && e.off > 0.01 && strstr(e.text, "DISAGREE"));
    e = rg_explain(of_the_context(&w, w), w, .f = of_the_context, .context = w);
    ck_assert_msg(e.agrees && e.off < 1e-7, "%s", e.text);
    /* The gradient is half of the true one. Along the gradient the slope is therefore twice the
     * gradient's norm, so `off`, the difference divided by the norm, is 1. */
    rg_tensor *half = half_detached(&w, NULL);
    e = rg_explain(half, w, .f = half_detached);
    ck_assert_double_eq_tol(e.off, 1, 1e-6);
    e = rg_explain(loss, w);
    ck_assert(!e.agrees && isnan(e.off) && strstr(e.text, "there is no function"));
    rg_tensor *turned = rg_requires_grad_(rg_T(rg_detach(w)), true);
    e = rg_explain(rg_sum(rg_exp(turned)), turned, .f = honest, .context = x);
    ck_assert(isnan(e.off) && !e.agrees && strstr(e.text, "the tensor isn't contiguous"));
    rg_tensor *single = rg_requires_grad_(rg_float(rg_detach(w)), true);
    e = rg_explain(rg_sum(rg_exp(single)), single, .f = honest, .context = x);
    ck_assert(isnan(e.off) && strstr(e.text, "float32 tells little"));
    rg_error_clear();
    ck_assert_int_eq(rg_explain(loss, w, .f = broken, .context = rg_ones(7)).n, -1);
    ck_assert_msg(strstr(rg_error(), "matmul: mat1 and mat2 shapes"), "%s", rg_error());
    ck_assert(rg_equal(w, before));
    ck_says(rg_explain(loss, w, .f = no_result), "explain: expected a tensor but got NULL");
    ck_says(rg_explain(loss, w, .f = no_result, .context = RG_NONE),
            "explain: expected a tensor but got RG_NONE");
    rg_error_clear();
}
END_TEST

/* The values that a write in place replaces get a gradient of zeros. This isn't where the gradient
 * of w is lost, unless nothing else reaches w. */
START_TEST(test_overwritten_values_are_no_lost_gradient) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64), true);
    rg_tensor *row = rg_select(rg_mul(w, 3), 0, 1), *y[9];
    for (int i = 0; i < 9; i++)
        y[i] = rg_mul(w, 2);
    rg_copy_(rg_select(y[0], 0, 0), row);
    rg_copy_(y[1], rg_mul(w, 3));
    rg_copy_(rg_view(y[2], 6), rg_view(rg_mul(w, 3), 6));
    rg_mul_(rg_view(y[3], 6), 3);
    rg_set_item_(y[4], row, 0);
    rg_zero_(rg_select(y[5], 0, 0));
    rg_copy_(rg_select(y[6], 0, 0), row);
    rg_zero_(rg_select(y[6], 0, 0));
    for (int i = 0; i < 7; i++) {
        rg_explanation e = rg_explain(rg_sum(y[i]), w);
        ck_assert_msg(e.n > 0 && !e.first_zero, "%d: %s", i, e.text);
        ck_assert(!strstr(e.text, "first zero"));
    }
    /* A later zero of another kind is named. */
    rg_copy_(y[7], rg_add(w, rg_relu(rg_neg(w))));
    ck_assert_str_eq(rg_explain(rg_sum(y[7]), w).first_zero, "relu, input 0 of [2, 3]");
    rg_fill_(y[8], 3);
    ck_assert_str_eq(rg_explain(rg_sum(y[8]), w).first_zero, "replace, input 0 of [2, 3]");
    rg_explanation e = rg_explain(rg_sum(rg_mul(y[8], 0)), w);
    ck_assert_str_eq(e.first_zero, "mul, input 0 of [2, 3]");
}
END_TEST

/* A gradient of zero has no direction. It agrees if the slope along other directions is zero, too.
 * A gradient that leaves an element out differs along another direction. */
START_TEST(test_verdict_of_nothing) {
    rg_tensor *w = rg_requires_grad_(rg_zeros_dims(RG_DIMS(2, 2), RG_FLOAT64), true);
    rg_explanation e = rg_explain(sum_of_squares(&w, NULL), w, .f = sum_of_squares);
    ck_assert_msg(e.agrees && e.off < 1e-6, "%s", e.text);
    e = rg_explain(last_detached(&w, NULL), w, .f = last_detached);
    ck_assert_msg(!e.agrees && e.off > 0.01, "%s", e.text);
}
END_TEST

/* If the function has no value along one direction, there is no agreement. */
START_TEST(test_verdict_without_a_value) {
    rg_tensor *w = rg_requires_grad_(rg_zeros_dims(RG_DIMS(10, 10), RG_FLOAT64), true);
    rg_explanation e = rg_explain(first_with_an_end(&w, NULL), w, .f = first_with_an_end);
    ck_assert_msg(!e.agrees && isnan(e.off), "%s", e.text);
}
END_TEST

/* Gradient and slope agree below the tolerance, which is relative to the norm, or to 0.001 if that
 * is larger. */
START_TEST(test_verdict_at_the_tolerance) {
    rg_tensor *w = rg_requires_grad_(rg_zeros_dims(RG_DIMS(2, 2), RG_FLOAT64), true);
    const double step = 1e-6;
    for (int ulps = -1; ulps <= 1; ulps++) {
        double rise = 2e-15;
        while (rise / (2 * step) / 1e-3 < 1e-6)
            rise = nextafter(rise, 1);
        while (rise / (2 * step) / 1e-3 > 1e-6)
            rise = nextafter(rise, 0);
        ck_assert(rise / (2 * step) / 1e-3 == 1e-6);
        rise *= 1 + 1e-9 * ulps;
        rg_explanation e = rg_explain(rg_mul(rg_sum(w), 0), w, .f = rises_by, .context = &rise);
        ck_assert_msg(e.agrees == (ulps < 0), "%d: %s", ulps, e.text);
    }
}
END_TEST

/* There are no shares if paths cancel each other, or if the norm overflows. */
START_TEST(test_no_shares) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    rg_tensor *loss[] = { rg_sum(rg_sub(rg_mul(w, 3), rg_div(w, 1. / 3))),
                          rg_sum(rg_add(rg_mul(w, 1e200), rg_div(w, 1e150))) };
    ck_assert_double_eq(rg_item(rg_sum(rg_grad(loss[0], w, .retain_graph = true))), 0);
    for (int i = 0; i < 2; i++) {
        rg_explanation e = rg_explain(loss[i], w);
        ck_assert_int_eq(e.n, 2);
        for (int k = 0; k < 2; k++)
            ck_assert(isnan(e.v[k].share) && isnan(e.v[k].size) && isnan(e.rest));
    }
}
END_TEST

/* The whole text, without a name and with an odd one. */
START_TEST(test_whole_texts) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2, 2), RG_FLOAT64), true);
    for (int named = 0; named < 2; named++) {
        const char *name = named ? "the %d weight" : "w";
        char want[400];
        if (named)
            rg_set_name(w, name);
        snprintf(want, sizeof want,
                 "%s: a gradient of [2, 2], norm 6\n"
                 "   share   size   path from the loss\n"
                 "  100.0%%   1.00   sum <- mul\n"
                 "    0.0%%          all others\n"
                 "no verdict by differences: there is no function to compute the loss by\n",
                 name);
        ck_assert_str_eq(rg_explain(rg_sum(rg_mul(w, 3)), w).text, want);
    }
}
END_TEST

/* If the contributions of paths nearly cancel, their shares would be huge, so that the text and the
 * drawing have their norms instead. The first gradient is 0, and the second 1e-4 of a
 * contribution. The third is large enough for shares. */
START_TEST(test_norms_of_paths_that_cancel) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(4), RG_FLOAT64), true);
    const double less[] = { 3, 3 - 3e-4, 3 - 0.03 };
    for (int i = 0; i < RG_COUNT(less); i++) {
        rg_tensor *loss = rg_sum(rg_sub(rg_mul(w, 3), rg_div(w, 1 / less[i])));
        rg_explanation e = rg_explain(loss, w, .paths = i ? 2 : 1);
        const bool cancel = i < 2;
        ck_assert_msg(!strstr(e.text, "%") == cancel && !strstr(e.dot, "%") == cancel, "%s%s",
                      e.text, e.dot);
        const char *summed = i ? "its paths cancel: the norms of their contributions add up to 12\n"
                                 "           norm   path from the loss\n"
                                 "              6   sum <- sub <- mul\n"
                                 "          5.999   sum <- sub <- div\n"
                                 "              0   all others\n"
                               : "its paths cancel: the norms of their contributions add up to 12\n"
                                 "           norm   path from the loss\n"
                                 "              6   sum <- sub <- div\n"
                                 "              6   all others\n";
        ck_assert_msg(!strstr(e.text, summed) == !cancel, "%s", e.text);
        ck_assert(!strstr(e.dot, "[label=\"norms 6\"") == !cancel);
        ck_assert(i != 1 || strstr(e.dot, "[label=\"norms 5.999\""));
    }
}
END_TEST

/* If all paths are told, no norms are left for the others, however many paths cancel. */
START_TEST(test_all_paths_that_cancel) {
    for (int n = 20; n <= 30; n += 2) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(4), RG_FLOAT64), true);
        rg_tensor *sum = rg_zeros_dims(RG_DIMS(4), RG_FLOAT64);
        for (int i = 0; i < n; i++)
            sum = i % 2 ? rg_sub(sum, rg_mul(w, 3)) : rg_add(sum, rg_mul(w, 3));
        for (int odd = 0; odd < 2; odd++) {
            rg_tensor *loss = rg_sum(odd ? rg_add(sum, rg_mul(w, 1e-6)) : sum);
            rg_explanation e = rg_explain(loss, w, .paths = n + 1);
            ck_assert(e.text && strstr(e.text, "its paths cancel"));
            ck_assert_msg(n + odd > 25 || strstr(e.text, "              0   all others\n"), "%s",
                          e.text);
        }
    }
}
END_TEST

/* If the gradient is infinite, there are no shares. */
START_TEST(test_shares_of_infinity) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    rg_explanation e = rg_explain(rg_sum(rg_mul(w, INFINITY)), w);
    ck_assert_int_eq(e.n, 1);
    ck_assert(isnan(e.rest) && isnan(e.v[0].share) && isnan(e.v[0].size));
    ck_assert_msg(strstr(e.text, "it is not finite: there are no shares"), "%s", e.text);
}
END_TEST

static void explains(void *w) { rg_explain(rg_sum(rg_exp(w)), w); }

static const char *fails(rg_explanation e) { return e.n < 0 ? NULL : "it didn't"; }

START_TEST(test_refusals) {
    rg_tensor *w = leaf(2, 2), *plain = rg_ones(2);
    ck_fails(fails(rg_explain(rg_mul(w, 2), w)), RG_RUNTIME_ERROR,
             "explain: grad can be implicitly created only for scalar outputs");
    ck_fails(fails(rg_explain(rg_sum(plain), w)), RG_RUNTIME_ERROR, "does not have a grad_fn");
    ck_fails(fails(rg_explain(rg_sum(w), plain)), RG_RUNTIME_ERROR, "does not require grad");
    ck_fails(fails(rg_explain(NULL, w)), RG_TYPE_ERROR, "explain");
    ck_fails(fails(rg_explain(rg_sum(w), w, .paths = -1)), RG_VALUE_ERROR, "paths can't be -1");
    rg_tensor *gone = rg_sum(rg_square(w));
    ck_ok(rg_backward(gone));
    ck_fails(fails(rg_explain(gone, w)), RG_RUNTIME_ERROR, "a second time");
    ck_fails(rg_record(explains, w), RG_NOT_IMPLEMENTED,
             "explain: can't be part of a recorded step");
}
END_TEST

static rg_tensor *many_paths(rg_tensor *w) {
    rg_tensor *x = w;
    for (int i = 0; i < 5; i++)
        x = rg_add(x, rg_tanh(rg_mul(x, 0.3)));
    return rg_sum(rg_square(x));
}

static void deny_each(rg_tensor *loss, rg_tensor *w, rg_function *f, rg_tensor *x) {
    for (int64_t fail = 1, spared = 0; spared < 3; fail++) {
        int64_t live = rg_live_tensors();
        bool ok;
        {
            RG_SCOPE();
            rg_error_clear();
            rg_memory_fail_at(fail);
            const rg_explanation e = rg_explain(loss, w, .f = f, .context = x);
            rg_memory_fail_at(0);
            ok = e.n >= 0;
            /* An explanation that failed has no results. */
            ck_assert(ok || (!e.gradient && !e.v && e.text && !*e.dot && !e.first_zero));
            ck_assert(ok || (isnan(e.off) && !e.agrees && !e.first_not_finite && !e.first_huge));
        }
        ck_assert_msg(rg_error_code() == (ok ? RG_OK : RG_OUT_OF_MEMORY), "request %d: %s",
                      (int)fail, rg_error());
        ck_assert_int_eq(rg_live_tensors(), live);
        spared = ok ? spared + 1 : 0;
    }
    rg_error_clear();
    ck_assert_int_ge(rg_explain(loss, w).n, 0);
}

/* Denies each request for memory in turn. The explanations have a verdict, more paths than are
 * kept, a tensor that is no leaf and whose values were packed, and gradients that become zero, huge
 * and infinite. */
START_TEST(test_out_of_memory) {
    rg_memory_may_stay = 1; /* The row of the op's class stays. */
    rg_tensor *x = leaf(4, 3), *w = leaf(3, 2);
    deny_each(honest(&w, x), w, honest, x);
    deny_each(many_paths(w), w, NULL, NULL);
    rg_tensor *lost = rg_add(rg_mul(rg_sqrt(rg_sub(w, w)), 0), rg_mul(w, 1e9));
    const rg_explanation e = rg_explain(rg_sum(lost), w);
    ck_assert(e.first_zero && e.first_not_finite && e.first_huge);
    deny_each(rg_sum(lost), w, NULL, NULL);
    rg_tensor *y[2];
    ck_assert(rg_function_apply_many(&twins_class, NULL, RG_LIST(w), y));
    deny_each(rg_sum(rg_mul(y[0], y[1])), w, NULL, NULL);
    RG_SAVED_HOOKS(keeps);
    rg_tensor *inner = rg_max_dim(rg_exp(w), 0, false).values;
    deny_each(rg_sum(rg_exp(rg_mul(rg_sin(inner), inner))), inner, NULL, NULL);
}
END_TEST

static int packs;
static void *counts_pack(rg_tensor *t, void *context) {
    packs++;
    return pack_copy(t, context);
}

/* With .paths = 1 the drawing has only the nodes of the largest path. */
START_TEST(test_one_path_of_several) {
    rg_tensor *w = rg_requires_grad_(rg_ones(4), true);
    rg_tensor *loss = rg_sum(rg_add(rg_mul(w, 9), rg_add(rg_sin(rg_mul(w, 2)), rg_tanh(w))));
    const rg_explanation all = rg_explain(loss, w, .paths = 9),
                         one = rg_explain(loss, w, .paths = 1);
    ck_assert(all.n == 3 && one.n >= 1 && all.dot && one.dot);
    ck_assert(strstr(all.dot, "sin") && strstr(all.dot, "tanh"));
    ck_assert_msg(!strstr(one.dot, "sin") && !strstr(one.dot, "tanh"), "%s", one.dot);
}
END_TEST

/* Nothing is recorded while a loss is explained. */
START_TEST(test_nothing_is_recorded) {
    rg_tensor *w = rg_requires_grad_(rg_ones(4), true), *loss = rg_sum(rg_mul(w, rg_sin(w)));
    const int64_t nodes = rg_memory_stats().nodes;
    const rg_saved_hooks hooks = { counts_pack, unpack_copy, drop_copy, NULL };
    RG_SAVED_HOOKS(hooks);
    ck_assert_int_gt(rg_explain(loss, w).n, 0);
    ck_assert_int_eq(packs, 0);
    ck_assert_int_eq(rg_memory_stats().nodes, nodes);
    ck_ok(rg_backward(loss));
}
END_TEST

/* A loss that is a leaf has a path to itself, and to no other leaf. */
START_TEST(test_loss_is_a_leaf) {
    rg_tensor *loss = rg_requires_grad_(rg_ones(1, 1), true);
    rg_tensor *w = rg_requires_grad_(rg_ones(4, 2), true);
    rg_explanation e = rg_explain(loss, w);
    ck_assert_int_eq(e.n, 0);
    ck_assert(rg_equal(e.gradient, rg_zeros(4, 2)));
    e = rg_explain(loss, loss);
    ck_assert_int_eq(e.n, 1);
    ck_assert(rg_equal(e.gradient, rg_ones(1, 1)));
}
END_TEST

static rg_tensor *product(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_sum(rg_mul(rg_sin(in[0]), in[1]));
}

/* As gradcheck, explain passes all inputs to the function. An input that isn't given is NULL. */
START_TEST(test_inputs_of_the_function) {
    rg_tensor *x = leaf(2, 3), *y = leaf(3, 2), *in[] = { x, rg_T(y) };
    ck_ok(rg_gradcheck(product, NULL, 2, in));
    rg_tensor *loss = product(in, NULL);
    rg_explanation e = rg_explain(loss, x, .f = product, .inputs = { 2, in });
    ck_assert_msg(e.n >= 0 && e.agrees, "%s", rg_error());
    ck_assert(rg_explain(loss, x, .f = product).n == -1);
    ck_assert_str_eq(rg_error(), "explain: f failed with 1 input (.inputs gives it others): mul: "
                                 "expected a tensor but got NULL");
    rg_error_clear();
    /* An unread failure stays. An explanation that succeeds leaves no failure of its own. */
    rg_zeros(-1);
    e = rg_explain(loss, x, .f = product, .inputs = { 2, in });
    ck_assert(e.n >= 0 && e.agrees);
    ck_assert(strstr(rg_error(), "zeros:"));
    rg_error_clear();
    ck_assert(rg_explain(loss, x, .f = product, .inputs = { 65, in }).n == -1);
    ck_assert_str_eq(rg_error(), "explain: takes up to 64 inputs, but got 65");
    rg_error_clear();
}
END_TEST

static rg_tensor *squares(rg_tensor *const in[], void *context) {
    return rg_sum(rg_square(context ? context : in[0]));
}
static rg_tensor *signs(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_sum(rg_sign(in[0]));
}

/* If the function doesn't read w, there is no verdict on the gradient of w. If it reads w, there is
 * a verdict, even if the function's value never changes. */
START_TEST(test_unread) {
    rg_tensor *w = leaf(3, 1), *x = leaf(3, 2), *loss = rg_sum(rg_square(w));
    rg_tensor *copy = rg_clone(rg_detach(w));
    const rg_explanation unread[] = {
        rg_explain(loss, w, .f = squares, .inputs = RG_LIST(x, w)),
        rg_explain(loss, w, .f = squares, .inputs = RG_LIST(copy)),
        rg_explain(loss, w, .f = squares, .context = x),
    };
    for (int i = 0; i < RG_COUNT(unread); i++) {
        ck_assert(unread[i].n == 1 && isnan(unread[i].off) && !unread[i].agrees);
        ck_assert(strstr(unread[i].text, "no verdict by differences: f doesn't read w, "));
    }
    rg_explanation e = rg_explain(loss, w, .f = squares, .inputs = RG_LIST(w, x));
    ck_assert(e.agrees && strstr(e.text, "agree"));
    e = rg_explain(loss, w, .f = squares, .context = w);
    ck_assert(e.agrees);
    e = rg_explain(loss, w, .f = signs);
    ck_assert(!e.agrees && e.off > 0.9 && strstr(e.text, "DISAGREE"));
    /* If neither the loss nor the function reads w, a gradient of zero is right. */
    e = rg_explain(rg_sum(rg_square(x)), w, .f = squares, .inputs = RG_LIST(x, w));
    ck_assert(e.agrees && e.off == 0);
    ck_assert(rg_is_grad_enabled());
}
END_TEST

RG_TESTS(explain, test_unread, test_inputs_of_the_function, test_no_shares, test_long_names,
         test_whole_texts, test_norms_of_paths_that_cancel, test_all_paths_that_cancel,
         test_nodes_beside_several_outputs, test_long_paths, test_verdict_of_nothing,
         test_verdict_without_a_value, test_verdict_at_the_tolerance, test_shares_of_infinity,
         test_nothing_is_recorded, test_one_path_of_several, test_shares, test_packed,
         test_more_paths_than_are_kept, test_paths_of_one_size, test_picture,
         test_the_largest_are_kept, test_places_of_w, test_where_a_gradient_is_lost,
         test_overwritten_values_are_no_lost_gradient, test_verdicts, test_refusals,
         test_out_of_memory, test_graphs, test_loss_is_a_leaf, test_with_traces,
         test_values_that_are_gone)
