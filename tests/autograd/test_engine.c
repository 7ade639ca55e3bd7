/*
 * test_engine.c: backward runs: their order, accumulation, hooks, higher orders,
 * failures, long chains, in-place writes and threads. What single ops compute is
 * tested in test_ops.c and test_golden.c.
 */
#include "tests/test.h"
#include "regard.h"
#include "tensor/thread.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static rg_tensor *leaf(double value) {
    return rg_requires_grad_(rg_scalar_dtype(value, RG_FLOAT64), true);
}

static rg_tensor *leaf_vector(int64_t n) {
    rg_tensor *x = rg_zeros_dims(RG_DIMS(n), RG_FLOAT64);
    for (int64_t i = 0; i < n; i++)
        ((double *)rg_data(x))[i] = (double)(i + 1);
    return rg_requires_grad_(x, true);
}

static double grad_at(rg_tensor *t, int64_t i) {
    rg_tensor *g = rg_grad_of(t);
    ck_assert(g && g != RG_NONE);
    return rg_ndim(g) ? rg_at(g, i) : rg_item(g);
}

START_TEST(test_accumulates_and_zeroes) {
    rg_tensor *x = leaf(3);
    ck_assert(rg_grad_of(x) == RG_NONE);
    for (int i = 1; i <= 3; i++) {
        ck_ok(rg_backward(rg_mul(x, x)));
        ck_assert_double_eq(grad_at(x, 0), 6 * i);
    }
    ck_ok(rg_set_grad(x, RG_NONE));
    ck_assert(rg_grad_of(x) == RG_NONE);
}
END_TEST

/* An element that is no maximum or minimum has the gradient 0, as PyTorch prints it, and not -0. */
START_TEST(test_what_takes_no_part_has_no_sign) {
    rg_tensor *x = rg_requires_grad_(rg_literal([ 1., 3., 2. ]), true);
    ck_assert_str_eq(rg_repr(rg_grad(rg_neg(rg_max(x)), x)), "tensor([ 0., -1.,  0.])");
    ck_assert_str_eq(rg_repr(rg_grad(rg_neg(rg_min(x)), x)), "tensor([-1.,  0.,  0.])");
}
END_TEST

START_TEST(test_one_value_used_many_times) {
    rg_tensor *x = leaf(2), *y = x;
    for (int i = 0; i < 10; i++)
        y = rg_add(y, y);
    /* y = 1024 x, and 2^10 paths lead from it to x. */
    ck_ok(rg_backward(y));
    ck_assert_double_eq(grad_at(x, 0), 1024);
}
END_TEST

/* A node must run after all nodes that depend on it, even if one of them is on a longer path. */
START_TEST(test_paths_of_different_lengths) {
    rg_tensor *x = leaf(2), *a = rg_mul(x, 3), *b = a;
    for (int i = 0; i < 50; i++)
        b = rg_add(b, a);
    /* b a = 51 * 9 x^2 */
    ck_ok(rg_backward(rg_mul(b, a)));
    ck_assert_double_eq(grad_at(x, 0), 2 * 51 * 9 * 2);
}
END_TEST

START_TEST(test_wide_graphs_are_sorted) {
    rg_tensor *x = leaf(1), *sums[100], *total = rg_mul(x, 0);
    for (int i = 0; i < 100; i++)
        sums[i] = rg_mul(x, i);
    for (int i = 0; i < 100; i++)
        total = rg_add(total, rg_mul(sums[(i * 37) % 100], sums[(i * 61) % 100]));
    double expected = 0;
    for (int i = 0; i < 100; i++)
        expected += 2.0 * ((i * 37) % 100) * ((i * 61) % 100);
    ck_ok(rg_backward(total));
    ck_assert_double_eq(grad_at(x, 0), expected);
}
END_TEST

START_TEST(test_second_and_third_order) {
    rg_tensor *x = leaf(2), *y = rg_mul(rg_mul(x, x), rg_mul(x, x));
    rg_tensor *g1 = rg_grad(y, x, .create_graph = true);
    rg_tensor *g2 = rg_grad(g1, x, .create_graph = true), *g3 = rg_grad(g2, x);
    ck_assert_double_eq(rg_item(g1), 32);
    ck_assert_double_eq(rg_item(g2), 48);
    ck_assert_double_eq(rg_item(g3), 48);
    ck_assert(!rg_requires_grad(g3));
}
END_TEST

START_TEST(test_grad_leaves_leaves_alone) {
    rg_tensor *x = leaf(2), *w = leaf(5), *y = rg_mul(x, w);
    ck_assert_double_eq(rg_item(rg_grad(y, x)), 5);
    ck_assert(rg_grad_of(x) == RG_NONE && rg_grad_of(w) == RG_NONE);
}
END_TEST

START_TEST(test_grad_of_inner_tensors) {
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3), *y = rg_mul(h, h), *g[2];
    ck_ok(rg_grad_many(1, &y, NULL, 2, (rg_tensor *[]){ h, x }, g,
                       (rg_backward_options){ .retain_graph = true }));
    ck_assert_double_eq(rg_item(g[0]), 12);
    ck_assert_double_eq(rg_item(g[1]), 36);
    ck_assert_double_eq(rg_item(rg_grad(y, y)), 1);
}
END_TEST

START_TEST(test_unused_inputs) {
    rg_tensor *x = leaf(2), *z = leaf(1), *y = rg_mul(x, x);
    ck_fails(rg_grad(y, z, .retain_graph = true), RG_RUNTIME_ERROR,
             "appears to not have been used in the graph");
    rg_tensor *results[2];
    ck_fails(
        rg_grad_many(1, &y, (rg_tensor *[]){ rg_ones_dims(rg_shape(y), RG_FLOAT64) }, 2,
                     (rg_tensor *[]){ x, z }, results,
                     (rg_backward_options){ .gradient = RG_NONE, .retain_graph = true }),
        RG_RUNTIME_ERROR,
        "grad: The differentiated Tensor at index 1 appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior.");
    ck_assert(rg_grad(y, z, .allow_unused = true, .retain_graph = true) == RG_NONE);
    ck_fails(rg_grad(y, rg_detach(x)), RG_RUNTIME_ERROR,
             "One of the differentiated Tensors does not require grad");
    ck_fails(rg_backward(rg_detach(y)), RG_RUNTIME_ERROR,
             "element 0 of tensors does not require grad and does not have a grad_fn");
    ck_fails(rg_backward(leaf_vector(3)), RG_RUNTIME_ERROR,
             "grad can be implicitly created only for scalar outputs");
    ck_fails(rg_backward(leaf_vector(3), .gradient = rg_zeros(2)), RG_RUNTIME_ERROR,
             "Mismatch in shape");
}
END_TEST

/* A tensor that isn't in the graph of the root has no gradient, although an earlier run gave its
 * node a gradient. Without allow_unused the call fails, and all results are NULL. */
START_TEST(test_a_place_in_another_run) {
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3), *y = rg_mul(h, h), *other = rg_mul(x, 5), *g[3];
    ck_ok(rg_backward(other, .retain_graph = true));
    rg_backward_options o = { .gradient = RG_NONE, .retain_graph = true, .allow_unused = true };
    ck_ok(rg_grad_many(1, &y, NULL, 3, (rg_tensor *[]){ y, other, x }, g, o));
    ck_assert_double_eq(rg_item(g[0]), 1);
    ck_assert(g[1] == RG_NONE);
    ck_assert_double_eq(rg_item(g[2]), 36);
    o.allow_unused = false;
    for (int unused = 0; unused < 3; unused++) {
        rg_tensor *of[] = { x, x, x };
        char said[80];
        of[unused] = other;
        snprintf(said, sizeof said, "The differentiated Tensor at index %d appears", unused);
        for (int j = 0; j < 3; j++)
            g[j] = x;
        ck_fails(rg_grad_many(1, &y, NULL, 3, of, g, o), RG_RUNTIME_ERROR, said);
        ck_assert(!g[0] && !g[1] && !g[2]);
    }
}
END_TEST

/* As in PyTorch, the gradient of a result without elements is zeros, and not absent. */
START_TEST(test_a_result_without_elements) {
    rg_tensor *x = rg_requires_grad_(rg_ones(2, 3), true),
              *y = rg_requires_grad_(rg_ones(2, 3), true);
    ck_ok(rg_backward(rg_sum(rg_repeat(x, 1, 0))));
    ck_ok(rg_backward(rg_sum(rg_pad_with(y, RG_DIMS(-3, 0), RG_CIRCULAR, 0))));
    ck_assert(rg_equal(rg_grad_of(x), rg_zeros(2, 3)) && rg_equal(rg_grad_of(y), rg_zeros(2, 3)));
}
END_TEST

START_TEST(test_a_graph_is_freed_as_it_goes) {
    rg_tensor *x = leaf(2), *y = rg_mul(x, x);
    ck_ok(rg_backward(y, .retain_graph = true));
    ck_ok(rg_backward(y));
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR,
             "Trying to backward through the graph a second time");
    ck_assert_double_eq(grad_at(x, 0), 8);
    /* An addition saves nothing, so backward may run again without retain_graph, as in PyTorch. */
    rg_tensor *sum = rg_add(x, x);
    ck_ok(rg_backward(sum));
    ck_ok(rg_backward(sum));
}
END_TEST

/* ---- modes ----------------------------------------------------------------------- */

/* A gradient is added to each element of an expanded .grad, although its elements share one place
 * in memory. */
START_TEST(test_added_to_what_was_set) {
    rg_tensor *x = leaf_vector(3), *one = rg_ones_dims(RG_DIMS(1), RG_FLOAT64);
    ck_ok(rg_set_grad(x, rg_expand(one, 3)));
    ck_ok(rg_backward(rg_sum(rg_mul(x, rg_detach(x)))));
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(grad_at(x, i), 2 + i);
    ck_assert_double_eq(rg_at(one, 0), 1);
}
END_TEST

/* A wrapped number that requires grad is a tensor from then on, and takes part in type promotion
 * like other tensors. */
START_TEST(test_a_number_that_requires_grad) {
    rg_tensor *single = rg_sum(rg_ones(2)), *number = rg_wrap_float(2);
    ck_assert_int_eq(rg_dtype_of(rg_mul(single, rg_wrap_float(2))), RG_FLOAT32);
    ck_ok(rg_requires_grad_(number, true));
    ck_assert_int_eq(rg_dtype_of(rg_mul(single, number)), rg_dtype_of(number));
}
END_TEST

START_TEST(test_modes) {
    rg_tensor *x = leaf(2);
    {
        RG_NO_GRAD();
        ck_assert(!rg_requires_grad(rg_mul(x, x)) && !rg_is_grad_enabled());
        {
            RG_ENABLE_GRAD();
            ck_assert(rg_requires_grad(rg_mul(x, x)));
        }
        ck_assert(!rg_requires_grad(rg_mul(x, x)));
    }
    ck_assert(rg_requires_grad(rg_mul(x, x)) && rg_is_grad_enabled());
    rg_tensor *y = rg_mul(x, x);
    ck_assert(!rg_is_leaf(y) && rg_is_leaf(x) && rg_is_leaf(rg_detach(y)));
    ck_assert_str_eq(rg_grad_fn(y), "MulBackward0");
    ck_assert_str_eq(rg_grad_fn(x), "");
    ck_fails(rg_requires_grad_(y, false), RG_RUNTIME_ERROR,
             "you can only change requires_grad flags of leaf variables");
    ck_fails(rg_requires_grad_(rg_literal([ 1, 2 ]), true), RG_RUNTIME_ERROR,
             "only Tensors of floating point");
    ck_assert(!rg_requires_grad(rg_requires_grad_(x, false)));
    ck_assert(!rg_requires_grad(rg_detach_(y)));
}
END_TEST

/* ---- hooks ----------------------------------------------------------------------- */

static rg_tensor *times(rg_tensor *g, void *factor) { return rg_mul(g, *(double *)factor); }
static rg_tensor *count(rg_tensor *g, void *n) {
    (void)g;
    ++*(int *)n;
    return RG_NONE;
}
static int turns;
static rg_tensor *refuse(rg_tensor *g, void *context) {
    (void)context;
    return rg_reshape(g, 7, 7);
}

START_TEST(test_hooks) {
    double ten = 10;
    int seen = 0;
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3), *y = rg_mul(h, h);
    int id = rg_register_hook(h, times, &ten);
    ck_assert_int_ge(id, 0);
    ck_assert_int_ge(rg_register_hook(h, count, &seen), 0);
    ck_assert_int_ge(rg_register_hook(x, count, &seen), 0);
    ck_ok(rg_retain_grad(h));
    ck_ok(rg_backward(y, .retain_graph = true));
    ck_assert_int_eq(seen, 2);
    ck_assert_double_eq(grad_at(x, 0), 360);
    ck_assert_double_eq(grad_at(h, 0), 120);
    ck_ok(rg_remove_hook(h, id));
    ck_fails(rg_remove_hook(h, id), RG_RUNTIME_ERROR, "no hook");
    ck_ok(rg_set_grad(x, RG_NONE));
    ck_ok(rg_backward(y));
    ck_assert_double_eq(grad_at(x, 0), 36);
    ck_assert_int_eq(rg_register_hook(rg_detach(x), count, &seen), -1);
    rg_error_clear();
    ck_assert_int_eq(rg_register_hook(NULL, count, &seen), -1);
    rg_error_clear();
    ck_fails(rg_retain_grad(rg_detach(x)), RG_RUNTIME_ERROR, "can't retain_grad");
}
END_TEST

static rg_tensor *note_turn(rg_tensor *g, void *context) {
    int *turn = context;
    *turn = turns++;
    (void)g;
    return RG_NONE;
}

/* A leaf's hooks are called as soon as its gradient is complete, before gradients go on to leaves
 * that lie deeper, whichever input of an op the leaf is. */
START_TEST(test_hooks_of_near_leaves_come_first) {
    for (int place = 0; place < 3; place++) {
        int of_x = -1, of_z[3] = { 0 };
        rg_tensor *in[3];
        for (int i = 0; i < 3; i++) {
            rg_tensor *z = leaf(2);
            rg_register_hook(z, note_turn, i == place ? &of_x : &of_z[i]);
            in[i] = i == place ? z : rg_exp(rg_mul(2, z));
        }
        turns = 0;
        ck_ok(rg_backward(rg_addcmul(in[0], in[1], in[2], 3)));
        ck_assert_int_eq(of_x, 0);
        ck_assert_int_eq(of_z[0] + of_z[1] + of_z[2], 1 + 2);
    }
}
END_TEST

/* Of two tensors, the one that was made later gets its gradient first. */
START_TEST(test_the_latest_comes_first) {
    enum { N = 24 };
    rg_tensor *x = leaf(2), *w = leaf(3), *sum = rg_mul(x, 0), *h[N];
    int turn[N];
    for (int i = 0; i < N; i++) {
        h[i] = i % 3 ? rg_exp(i % 2 ? x : w) : rg_sin(i ? h[i - 1] : x);
        rg_register_hook(h[i], note_turn, &turn[i]);
    }
    for (int i = 0; i < N; i++)
        sum = rg_add(sum, h[(i * 7) % N]);
    turns = 0;
    ck_ok(rg_backward(sum));
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(turn[i], N - 1 - i);
}
END_TEST

/* A leaf's hook is called as soon as the leaf's gradient is complete, before the nodes that lead to
 * the earlier tensors run. */
START_TEST(test_leaves_do_not_wait) {
    enum { N = 20 };
    rg_tensor *x = leaf(2), *w[N], *h[N];
    int of_w[N], of_h[N], of_x;
    rg_register_hook(x, note_turn, &of_x);
    for (int i = 0; i < N; i++) {
        w[i] = i % 5 == 4 ? w[i - 1] : leaf(3);
        h[i] = rg_mul(i ? h[i - 1] : x, w[i]);
        if (i % 5 != 4)
            rg_register_hook(w[i], note_turn, &of_w[i]);
        rg_register_hook(h[i], note_turn, &of_h[i]);
    }
    for (int only = 0; only < 2; only++) {
        turns = 0;
        rg_backward_options all = { .gradient = RG_NONE, .retain_graph = true };
        rg_backward_options some = { .gradient = RG_NONE, .inputs = RG_LIST(x, w[3], w[7]) };
        ck_ok(rg_backward_with(h[N - 1], only ? some : all));
        for (int i = N - 2; i > 0; i--) {
            ck_assert_int_lt(of_h[i + 1], of_h[i]);
            if (i % 5 == 4 || (only && i != 3 && i != 7))
                continue;
            ck_assert_int_lt(of_h[i], of_w[i]);
            ck_assert_int_lt(of_w[i], of_h[i - 1]);
        }
        ck_assert_int_ge(of_x, turns - 2);
        ck_assert_int_eq(turns, only ? N + 3 : N + N * 4 / 5 + 1);
    }
}
END_TEST

/* A leaf may be a root, too. A hook that is registered on a leaf during a run is called at the
 * run's end. */
static int late;
static rg_tensor *one_more(rg_tensor *g, void *leaf) {
    (void)g;
    return rg_register_hook(leaf, note_turn, &late) >= 0 ? RG_NONE : NULL;
}

START_TEST(test_leaves_at_the_ends) {
    int of_w, of_h;
    rg_tensor *w = leaf(3), *h = rg_mul(leaf(2), 1), *y = rg_mul(rg_mul(h, w), w);
    rg_register_hook(w, note_turn, &of_w);
    rg_register_hook(h, note_turn, &of_h);
    turns = 0;
    ck_ok(rg_backward_many(2, (rg_tensor *[]){ y, w }, NULL,
                           (rg_backward_options){ .gradient = RG_NONE }));
    ck_assert(of_w == 0 && of_h == 1);
    ck_assert_double_eq(grad_at(w, 0), 13);
    rg_tensor *z = leaf(5), *k = rg_mul(z, 2);
    rg_register_hook(k, one_more, z);
    ck_ok(rg_backward(rg_mul(k, 3)));
    ck_assert_int_eq(late, 2);
    ck_assert_double_eq(grad_at(z, 0), 6);
}
END_TEST

/* New hooks take the memory of hooks that were removed. */
START_TEST(test_hooks_that_come_and_go) {
    int seen = 0;
    rg_tensor *x = leaf(2);
    ck_assert_int_ge(rg_register_hook(x, count, &seen), 0);
    int64_t most = 0;
    for (int i = 0; i < 3000; i++) {
        ck_ok(rg_remove_hook(x, rg_register_hook(x, count, &seen)));
        if (i == 10)
            most = rg_memory_stats().now;
    }
    ck_assert_int_le(rg_memory_stats().now, most);
    ck_ok(rg_backward(rg_mul(x, 2)));
    ck_assert_int_eq(seen, 1);
}
END_TEST

START_TEST(test_a_failed_run_leaves_grads_alone) {
    rg_tensor *x = leaf(2), *w = leaf(3), *h = rg_mul(x, w);
    ck_ok(rg_backward(rg_mul(w, w)));
    rg_register_hook(h, refuse, NULL);
    rg_tensor *y = rg_add(h, rg_mul(w, 5));
    ck_assert(!rg_backward(y, .retain_graph = true));
    ck_assert_double_eq(grad_at(w, 0), 6);
    ck_assert(rg_grad_of(x) == RG_NONE);
    rg_error_clear();
    /* The library goes on after a failure. */
    ck_ok(rg_backward(rg_mul(x, w)));
    ck_assert_double_eq(grad_at(w, 0), 8);
}
END_TEST

/* A leaf's gradient is a tensor of its own, even if it reached the leaf as a view. */
START_TEST(test_a_gradient_is_no_view) {
    rg_tensor *w = rg_requires_grad_(rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64), true);
    ck_ok(rg_backward(rg_sum(rg_exp(rg_reshape(w, 6)))));
    ck_ok(rg_detach_(rg_grad_of(w)));
    ck_ok(rg_backward(rg_sum(rg_exp(rg_reshape(w, 6)))));
    ck_assert(rg_allclose(rg_grad_of(w), rg_mul(rg_exp(rg_detach(w)), 2), 1e-12, 0));
}
END_TEST

/* If a leaf's hook fails, no .grad changes, even if another leaf's gradient is complete already. */
START_TEST(test_a_leafs_hook_fails) {
    rg_tensor *x = leaf(2), *w = leaf(3), *v = leaf(5);
    ck_ok(rg_backward(rg_mul(rg_mul(x, w), v)));
    const int id = rg_register_hook(w, refuse, NULL);
    rg_tensor *y = rg_mul(rg_mul(x, w), v);
    ck_assert(!rg_backward(y, .retain_graph = true));
    rg_error_clear();
    ck_assert(!rg_grad(y, w, .retain_graph = true));
    rg_error_clear();
    ck_assert(grad_at(x, 0) == 15 && grad_at(w, 0) == 10 && grad_at(v, 0) == 6);
    ck_ok(rg_remove_hook(w, id));
    ck_ok(rg_backward(y));
    ck_assert(grad_at(x, 0) == 30 && grad_at(w, 0) == 20 && grad_at(v, 0) == 12);
}
END_TEST

static rg_tensor *nested(rg_tensor *g, void *y) { return rg_backward((rg_tensor *)y) ? g : NULL; }

START_TEST(test_a_run_inside_a_run) {
    rg_tensor *x = leaf(2), *other = rg_mul(x, x), *h = rg_mul(x, 1), *y = rg_mul(h, h);
    rg_register_hook(h, nested, other);
    /* A hook may differentiate another graph, but not the one that is being differentiated. */
    ck_ok(rg_backward(y, .retain_graph = true));
    rg_tensor *z = rg_mul(h, 1), *again = rg_mul(z, 1);
    rg_register_hook(z, nested, again);
    ck_fails(rg_backward(again), RG_RUNTIME_ERROR, "is being differentiated already");
}
END_TEST

/* A hook that is registered on a leaf during a run waits for the run's end, even if the leaf's
 * gradient is complete before. */
START_TEST(test_late_hooks_come_last) {
    int of_h, of_x;
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3), *z = leaf(5), *k = rg_mul(rg_mul(z, 2), h);
    ck_assert_int_ge(rg_register_hook(x, note_turn, &of_x), 0);
    ck_assert_int_ge(rg_register_hook(h, note_turn, &of_h), 0);
    ck_assert_int_ge(rg_register_hook(k, one_more, z), 0);
    turns = 0;
    ck_ok(rg_backward(k));
    ck_assert(of_h == 0 && of_x == 1);
    ck_assert_int_eq(late, 2);
    ck_assert_double_eq(grad_at(z, 0), 12);
}
END_TEST

/* If a hook returns a wrong gradient, the error has the name of the backward run, and not the name
 * of an op that ran before. */
START_TEST(test_a_wrong_gradient_of_a_hook) {
    rg_tensor *x = leaf_vector(49), *h = rg_mul(x, 2);
    int id = rg_register_hook(x, refuse, NULL);
    static const char sentence[] =
        "backward: hook has changed the size of value (was [49] got [7, 7])";
    ck_says(rg_backward(rg_sum(rg_exp(h))), sentence);
    ck_ok(rg_remove_hook(x, id));
    ck_assert_int_ge(rg_register_hook(h, refuse, NULL), 0);
    ck_says(rg_backward(rg_sum(rg_exp(h))), sentence);
}
END_TEST

static rg_tensor *instead(rg_tensor *g, void *other) {
    (void)g;
    return other;
}

/* A hook of a leaf or of an inner tensor can't change the dtype of a gradient, or its size, even to
 * one that broadcasts or could be summed. */
START_TEST(test_a_hook_keeps_size_and_dtype) {
    const struct {
        rg_tensor *made;
        const char *sentence;
    } wrong[] = {
        { rg_ones(3, 2), "backward: hook has changed the size of value (was [2] got [3, 2])" },
        { rg_ones(1, 2), "backward: hook has changed the size of value (was [2] got [1, 2])" },
        { rg_ones(1), "backward: hook has changed the size of value (was [2] got [1])" },
        { rg_double(rg_ones(2)), "backward: hook has changed the type of value (was torch.float32 "
                                 "got torch.float64)" },
        { rg_zeros_dims(RG_DIMS(2), RG_INT64),
          "backward: hook has changed the type of value (was torch.float32 got torch.int64)" },
        { rg_zeros_dims(RG_DIMS(3), RG_BOOL),
          "backward: hook has changed the type of value (was torch.float32 got torch.bool)" },
    };
    for (int inner = 0; inner < 2; inner++) {
        rg_tensor *x = rg_requires_grad_(rg_ones(2), true), *y = inner ? rg_mul(x, 2) : x;
        for (int i = 0; i < RG_COUNT(wrong); i++) {
            const int id = rg_register_hook(y, instead, wrong[i].made);
            ck_says(rg_backward(rg_sum(rg_exp(y)), .retain_graph = true), wrong[i].sentence);
            ck_ok(rg_remove_hook(y, id));
        }
        ck_assert(rg_grad_of(x) == RG_NONE);
        rg_register_hook(y, instead, rg_ones(2));
        ck_ok(rg_backward(rg_sum(rg_exp(y))));
        ck_assert_double_eq(grad_at(x, 1), inner ? 2 : 1);
    }
}
END_TEST

/* A hook may not look at a graph that is being differentiated. root[0] is the root of the run, and
 * root[1] another root whose graph contains the run's nodes. */
typedef struct {
    rg_tensor *w, *root[2];
    int calls;
} onlooker;

static rg_tensor *looks_on(rg_tensor *g, void *context) {
    static const char sentence[] = "the graph is being differentiated already";
    onlooker *o = context;
    for (int i = 0; i < 2; i++) {
        rg_tensor *y = o->root[i];
        ck_fails(rg_graph_dot(y), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_explain(y, o->w).n >= 0, RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_backward(y), RG_RUNTIME_ERROR, sentence);
        ck_fails(rg_grad(y, o->w), RG_RUNTIME_ERROR, sentence);
    }
    o->calls++;
    return g;
}

START_TEST(test_looks_at_a_running_graph) {
    rg_tensor *w = leaf(2), *h = rg_mul(rg_exp(w), 1);
    onlooker o = { .w = w, .root = { rg_mul(h, 3), rg_neg(rg_mul(h, 5)) } };
    ck_assert_int_ge(rg_register_hook(h, looks_on, &o), 0);
    for (int turn = 1; turn <= 2; turn++) {
        ck_ok(rg_backward(o.root[0], .retain_graph = true));
        ck_assert_int_eq(o.calls, turn);
        ck_assert_double_eq_tol(grad_at(w, 0), 3 * turn * exp(2), 1e-12);
        /* After the run the graph may be looked at. */
        ck_ok(rg_graph_dot(o.root[1]));
        ck_assert_int_eq(rg_explain(o.root[0], w).n, 1);
    }
}
END_TEST

/* Each output of an op has its own hooks, and retains its own gradient. If no gradient reaches an
 * output, its hooks aren't called. */
START_TEST(test_hooks_of_outputs) {
    rg_tensor *gates = rg_requires_grad_(rg_full(RG_DIMS(2, 1, 4), 0.5), true);
    rg_tensor *none = rg_zeros(1, 1);
    for (int used = 0; used < 2; used++)
        for (int retained = 0; retained < 2; retained++) {
            RG_SCOPE();
            rg_hidden_cells y = rg_lstm_scan(gates, rg_ones(4, 1), none, none, false);
            rg_tensor *out[] = { y.h, y.c };
            int calls[2] = { 0 };
            for (int k = 0; k < 2; k++)
                ck_assert_int_ge(rg_register_hook(out[k], count, &calls[k]), 0);
            ck_ok(rg_retain_grad(out[retained]));
            ck_assert(rg_retains_grad(out[retained]) && !rg_retains_grad(out[!retained]));
            ck_ok(rg_backward(rg_sum(rg_mul(out[used], 3))));
            ck_assert(calls[used] == 1 && calls[!used] == 0);
            ck_assert(rg_grad_of(out[!retained]) == RG_NONE);
            if (used == retained)
                ck_assert(rg_equal(rg_grad_of(out[used]), rg_full(RG_DIMS(2, 1, 1), 3.0)));
            else
                ck_assert(rg_grad_of(out[retained]) == RG_NONE);
        }
}
END_TEST

static rg_tensor *leaves(rg_tensor *grad, void *context) {
    (void)grad;
    struct {
        rg_tensor *t;
        int id;
    } *self = context;
    ck_ok(rg_remove_hook(self->t, self->id));
    /* The new hook is called from the next run on. */
    ck_assert_int_ge(rg_register_hook(self->t, leaves, context), 0);
    return RG_NONE;
}

START_TEST(test_a_hook_takes_itself_away) {
    int seen = 0;
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3);
    struct {
        rg_tensor *t;
        int id;
    } self = { h, rg_register_hook(h, leaves, &self) };
    rg_register_hook(h, count, &seen);
    ck_ok(rg_backward(h));
    ck_assert_int_eq(seen, 1);
}
END_TEST

static rg_tensor *drops(rg_tensor *grad, void *root) {
    rg_drop(*(rg_tensor **)root);
    *(rg_tensor **)root = NULL;
    return grad;
}

START_TEST(test_a_hook_drops_the_root) {
    rg_tensor *x = leaf(2), *root;
    {
        RG_SCOPE();
        rg_tensor *h = rg_exp(rg_mul(x, 2));
        /* root = log(exp(2 x)^2) = 4 x */
        root = rg_keep(rg_log(rg_mul(h, h)));
        rg_register_hook(h, drops, &root);
    }
    ck_ok(rg_backward(root));
    ck_assert(!root);
    ck_assert_double_eq_tol(rg_item(rg_grad_of(x)), 4, 1e-12);
}
END_TEST

/* The retained gradients of several runs add up. Each tensor has its own copy of a gradient. */
START_TEST(test_gradients_are_copies) {
    rg_tensor *x = leaf(2), *h = rg_mul(x, x), *v = rg_full(RG_DIMS(), 1.0);
    rg_retain_grad(h);
    for (int i = 1; i <= 2; i++) {
        ck_ok(rg_backward(rg_mul(h, h), .create_graph = true));
        ck_assert_double_eq(rg_item(rg_grad_of(h)), 8 * i);
        ck_assert_str_eq(rg_grad_fn(rg_grad_of(x)), i == 1 ? "CopyBackwards" : "AddBackward0");
    }
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *y = leaf(2);
        ck_ok(rg_backward(y, .gradient = v, .create_graph = graph));
        ck_ok(rg_backward(y, .gradient = v));
        ck_assert_double_eq(rg_item(v), 1);
    }
    ck_fails(rg_set_grad(x, x), RG_RUNTIME_ERROR, "can't assign Variable as its own grad");
    ck_fails(
        rg_set_grad(x, rg_ones_dims(RG_DIMS(3), RG_FLOAT64)), RG_RUNTIME_ERROR,
        "attempting to assign a gradient of size '[3]' to a tensor of size '[]'. Please ensure "
        "that the gradient and the tensor are the same size");
    ck_fails(rg_set_grad(x, rg_scalar(1)), RG_RUNTIME_ERROR,
             "attempting to assign a gradient with dtype 'long int' to a tensor with grad_dtype");
}
END_TEST

static rg_tensor *note_dtype(rg_tensor *g, void *context) {
    *(rg_dtype *)context = rg_dtype_of(g);
    return RG_NONE;
}

/* The first gradient of a run is converted to the root's dtype, for hooks and for .grad, whether
 * the root is a leaf or not. */
START_TEST(test_dtypes_of_first_gradients) {
    for (int single = 0; single < 2; single++)
        for (int inner = 0; inner < 2; inner++) {
            const rg_dtype own = single ? RG_FLOAT32 : RG_FLOAT64;
            rg_dtype seen = RG_NO_DTYPE;
            rg_tensor *x = rg_requires_grad_(rg_full_dims(RG_DIMS(2), 1, own), true);
            rg_tensor *y = inner ? rg_mul(x, 2) : x;
            rg_tensor *g = rg_full_dims(RG_DIMS(2), 3, single ? RG_FLOAT64 : RG_FLOAT32);
            ck_assert_int_ge(rg_register_hook(y, note_dtype, &seen), 0);
            ck_ok(rg_backward(y, .gradient = g));
            ck_assert(seen == own && rg_dtype_of(rg_grad_of(x)) == own);
            ck_assert_double_eq(rg_at(rg_grad_of(x), 1), inner ? 6 : 3);
        }
}
END_TEST

/* A run needs memory for many nodes. Whichever request is denied, the run fails. */
START_TEST(test_many_nodes_without_memory) {
    rg_tensor *x = leaf(0.5), *y = x, *want = NULL;
    for (int i = 0; i < 60; i++)
        y = rg_add(rg_mul(y, 0.5), rg_add(rg_sin(x), rg_exp(x)));
    for (int more = 0; more < 5; more++) {
        want = rg_grad(y, x, .retain_graph = true);
        ck_ok(want);
        for (int64_t fail = 1; fail < 20; fail++) {
            RG_SCOPE();
            rg_memory_fail_at(fail);
            rg_tensor *g = rg_grad(y, x, .retain_graph = true);
            rg_memory_fail_at(0);
            ck_assert((g != NULL) == (rg_error_code() == RG_OK));
            ck_assert(!g || rg_equal(g, want));
            rg_error_clear();
        }
        y = rg_sin(y);
    }
}
END_TEST

/* A hook for which there is no memory has no number. */
START_TEST(test_a_hook_without_memory) {
    int seen = 0;
    rg_tensor *x = leaf(2), *h = rg_mul(x, 3);
    rg_memory_fail_at(1);
    ck_assert_int_eq(rg_register_hook(h, count, &seen), -1);
    rg_memory_fail_at(0);
    ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
    rg_error_clear();
    ck_assert_int_eq(rg_register_hook(h, count, &seen), 0);
    ck_ok(rg_backward(h));
    ck_assert_int_eq(seen, 1);
}
END_TEST

static void back_with_hook(void *root) { rg_backward(root, .retain_graph = true); }

/* A hook can't be part of a recorded step, and isn't called, either. */
START_TEST(test_hooks_are_not_recorded) {
    int seen = 0;
    rg_tensor *x = leaf(2), *y = rg_mul(x, 3);
    ck_assert_int_ge(rg_register_hook(y, count, &seen), 0);
    ck_fails(rg_record(back_with_hook, y), RG_NOT_IMPLEMENTED, "a hook: can't be part of");
    ck_assert_int_eq(seen, 0);
    ck_assert(rg_grad_of(x) == RG_NONE);
    ck_ok(rg_backward(y));
    ck_assert_int_eq(seen, 1);
}
END_TEST

/* Several calls of rg_retain_grad for a tensor retain the gradient only once. */
START_TEST(test_gradients_are_kept_once) {
    int64_t kept[2];
    for (int again = 0; again < 2; again++) {
        RG_SCOPE();
        rg_tensor *y = rg_mul(leaf(2), 3);
        for (int i = 0; i <= again; i++)
            ck_ok(rg_retain_grad(y));
        rg_tensor *loss = rg_mul(y, 2);
        const int64_t live = rg_live_tensors();
        ck_ok(rg_backward(loss, .retain_graph = true));
        kept[again] = rg_live_tensors() - live;
    }
    ck_assert_int_eq(kept[0], kept[1]);
}
END_TEST

/* Memory for hooks is counted as released when their tensor is. */
START_TEST(test_hooks_are_counted) {
    int64_t before = 0;
    for (int turn = 0; turn < 3; turn++) {
        RG_SCOPE();
        rg_tensor *h = rg_mul(leaf(2), 3);
        int seen = 0;
        for (int i = 0; i < 40; i++)
            ck_assert_int_ge(rg_register_hook(h, count, &seen), 0);
        ck_assert(turn == 0 || rg_memory_stats().other == before);
        before = rg_memory_stats().other;
    }
}
END_TEST

/* A gradient that the program gave may reach x as a view. Other gradients of x are added to a copy,
 * so that the program's tensor doesn't change. */
START_TEST(test_gradients_from_outside_stay) {
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *x = rg_requires_grad_(rg_ones(2, 3), true);
        rg_tensor *y[] = { rg_reshape(x, 6), rg_mul(x, 2), rg_unsqueeze(x, 0) };
        rg_tensor *g[] = { rg_full(RG_DIMS(6), 5.0), rg_full(RG_DIMS(2, 3), 7.0),
                           rg_full(RG_DIMS(1, 2, 3), 11.0) };
        rg_tensor *sum[1];
        for (int first = 0; first < 3; first++) {
            rg_tensor *roots[] = { y[first], y[(first + 1) % 3], y[(first + 2) % 3] };
            rg_tensor *given[] = { g[first], g[(first + 1) % 3], g[(first + 2) % 3] };
            ck_ok(rg_grad_many(3, roots, given, 1, &x, sum,
                               (rg_backward_options){ .gradient = RG_NONE,
                                                      .retain_graph = true,
                                                      .create_graph = graph }));
            ck_assert_double_eq(rg_at(sum[0], 1, 2), 5 + 14 + 11);
            for (int k = 0; k < 3; k++)
                ck_assert(rg_equal(g[k], rg_full_like(g[k], k == 0 ? 5 : k == 1 ? 7 : 11)));
        }
    }
}
END_TEST

/* A root that isn't among `inputs`, and doesn't depend on a tensor among them, gets no gradient.
 * Its hooks aren't called. */
START_TEST(test_roots_that_are_not_asked_for) {
    rg_tensor *x = leaf(2), *a = leaf(2), *b = rg_mul(a, 2), *g;
    int calls = 0;
    ck_assert_int_ge(rg_register_hook(a, count, &calls), 0);
    ck_assert_int_ge(rg_register_hook(b, count, &calls), 0);
    rg_tensor *y[] = { rg_mul(x, x), a, b }, *given[3];
    for (int i = 0; i < 3; i++)
        given[i] = rg_ones_like(y[i]);
    ck_ok(rg_grad_many(3, y, given, 1, &x, &g,
                       (rg_backward_options){ .gradient = RG_NONE, .retain_graph = true }));
    ck_assert_double_eq(rg_item(g), 4);
    ck_assert_int_eq(calls, 0);
    ck_ok(rg_grad_many(3, y, given, 1, &a, &g, (rg_backward_options){ .gradient = RG_NONE }));
    ck_assert_double_eq(rg_item(g), 3);
    ck_assert_int_eq(calls, 2);
}
END_TEST

/* One gradient reaches a, and a view of it reaches w. Another gradient of w, which comes before or
 * after, must not change the gradient of a. */
START_TEST(test_a_gradient_that_two_have) {
    for (int later = 0; later < 4; later++) {
        rg_tensor *w = rg_requires_grad_(rg_ones(2, 3), true);
        rg_tensor *a = rg_requires_grad_(rg_ones(6), true);
        rg_tensor *before = rg_mul(w, 3);
        rg_tensor *view = rg_reshape(w, 6), *both;
        both = later & 2 ? rg_add(a, view) : rg_add(view, a);
        rg_tensor *after = later & 1 ? rg_mul(w, 3) : before;
        ck_ok(rg_backward(rg_add(rg_sum(rg_mul(both, 5)), rg_sum(after))));
        ck_assert(rg_equal(rg_grad_of(a), rg_full(RG_DIMS(6), 5.0)));
        ck_assert(rg_equal(rg_grad_of(w), rg_full(RG_DIMS(2, 3), 8.0)));
    }
}
END_TEST

START_TEST(test_what_is_missing_is_refused) {
    rg_tensor *x = leaf(2), *y = rg_mul(x, x), *g;
    rg_backward_options o = { .gradient = RG_NONE };
    ck_fails(rg_grad_many(1, &y, NULL, 0, &x, &g, o), RG_RUNTIME_ERROR, "cannot be empty");
    ck_fails(rg_grad_many(1, &y, NULL, 1, NULL, &g, o), RG_RUNTIME_ERROR, "cannot be empty");
    ck_fails(rg_grad_many(1, &y, NULL, 1, &x, NULL, o), RG_TYPE_ERROR, "results");
    ck_fails(rg_grad_many(1, NULL, NULL, 1, &x, &g, o), RG_TYPE_ERROR, "NULL");
    ck_fails(rg_backward_many(1, NULL, NULL, o), RG_TYPE_ERROR, "NULL");
    ck_fails(rg_backward_many(-1, NULL, NULL, o), RG_TYPE_ERROR, "backward: expected a list");
    ck_fails(rg_gradcheck(NULL, NULL, 1, &x), RG_TYPE_ERROR, "NULL");
}
END_TEST

/* ---- memory ---------------------------------------------------------------------- */

START_TEST(test_recorded_gradients_make_no_cycle) {
    int64_t tensors = rg_live_tensors(), nodes = rg_memory_stats().nodes;
    {
        RG_SCOPE();
        rg_tensor *x = leaf(2), *h = rg_mul(x, x);
        rg_retain_grad(h);
        ck_ok(rg_backward(rg_mul(h, h), .create_graph = true));
        ck_assert(rg_requires_grad(rg_grad_of(x)) && rg_requires_grad(rg_grad_of(h)));
        rg_tensor *y = leaf(2), *kept;
        /* A leaf may be its own gradient. */
        ck_ok(rg_backward(y, .gradient = y, .create_graph = true));
        /* A leaf may have a view of itself as its gradient, and shares its storage. */
        rg_tensor *z = rg_ones(3), *v = rg_requires_grad_(rg_ones(2), true);
        ck_ok(rg_set_grad(z, rg_slice(z, 0, 0, 3, 1)) && rg_set_grad(v, rg_view(v, 2)));
        rg_fill_(z, 4);
        ck_assert_str_eq(rg_str(rg_grad_of(z)), "tensor([4., 4., 4.])");
        {
            /* The tensor that retains this gradient is gone when the gradient is computed. */
            RG_SCOPE();
            h = rg_mul(y, y);
            rg_retain_grad(h);
            kept = rg_escape(rg_mul(h, h));
        }
        ck_ok(rg_backward(kept, .create_graph = true));
    }
    ck_assert_int_eq(rg_live_tensors(), tensors);
    ck_assert_int_eq(rg_memory_stats().nodes, nodes);
}
END_TEST

START_TEST(test_ending_a_scope_keeps_the_graph) {
    rg_tensor *x = leaf(2), *y;
    {
        RG_SCOPE();
        rg_tensor *h = rg_mul(x, x);
        y = rg_escape(rg_mul(h, h));
    }
    ck_ok(rg_backward(y));
    ck_assert_double_eq(grad_at(x, 0), 32);
}
END_TEST

/* Differentiates x^n as a chain of products; this takes linear time and little of the C stack. */
static double chain(int n) {
    RG_SCOPE();
    rg_tensor *x = leaf(1), *y = rg_keep(rg_mul(x, 1));
    RG_FOR (int i = 1; i < n; i++) {
        rg_tensor *next = rg_keep(rg_mul(y, x));
        rg_drop(y);
        y = next;
    }
    ck_ok(rg_backward(y));
    double g = grad_at(x, 0);
    rg_drop(y);
    return g;
}

START_TEST(test_a_chain_of_a_million) {
    /* Sanitizers make frames larger, so a shorter chain would fill their stack, too. */
    const int links = rg_slow() ? 100000 : 1000000;
    struct rlimit stack;
    getrlimit(RLIMIT_STACK, &stack);
    ck_assert(stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur <= 64 << 20);
    int64_t before = rg_live_tensors(), nodes = rg_memory_stats().nodes;
    ck_assert_double_eq(chain(links), links);
    ck_assert_int_eq(rg_live_tensors(), before);
    {
        /* A chain that nobody differentiates is released as well. */
        RG_SCOPE();
        rg_tensor *y = rg_keep(leaf(1));
        RG_FOR (int i = 0; i < links; i++) {
            rg_tensor *next = rg_keep(rg_add(y, 1));
            rg_drop(y);
            y = next;
        }
        rg_drop(y);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
    ck_assert_int_eq(rg_memory_stats().nodes, nodes);
}
END_TEST

START_TEST(test_slices_share_one_buffer) {
    enum { N = 2000 };
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_ones_dims(RG_DIMS(N, 64), RG_FLOAT64), true),
              *y = rg_sum(rg_select(x, 0, 0));
    for (int i = 1; i < N; i++)
        y = rg_add(y, rg_mul(rg_sum(rg_select(x, 0, i)), i));
    rg_memory_reset_peak();
    int64_t before = rg_memory_stats().now;
    ck_ok(rg_backward(y));
    ck_assert_double_eq(rg_at(rg_grad_of(x), N - 1, 63), N - 1);
    ck_assert_int_lt(rg_memory_stats().peak - before, 3 * N * 64 * (int64_t)sizeof(double));
}
END_TEST

/* Returns the peak of memory of a backward run in which four gradients reach x, as they are or as
 * views. */
static int64_t peak_of_four(bool views) {
    RG_SCOPE();
    enum { N = 1 << 16 };
    rg_tensor *x = rg_requires_grad_(rg_ones(N), true), *y = rg_scalar(0.);
    for (int i = 1; i <= 4; i++) {
        rg_tensor *c = rg_full(RG_DIMS(N), (double)i);
        y = rg_add(y, rg_sum(views ? rg_mul(rg_reshape(x, 2, N / 2), rg_reshape(c, 2, N / 2))
                                   : rg_mul(x, c)));
    }
    rg_memory_reset_peak();
    const int64_t before = rg_memory_stats().now;
    ck_ok(rg_backward(y));
    ck_assert_double_eq(grad_at(x, N - 1), 10);
    return rg_memory_stats().peak - before;
}

/* If the gradient of x is a view, the next gradient of x is added to it in place, unless another
 * tensor shares its memory. */
START_TEST(test_views_are_added_to_in_place) {
    peak_of_four(true);
    const int64_t plain = peak_of_four(false);
    ck_assert_int_le(peak_of_four(true), plain + (1 << 16));
}
END_TEST

/* ---- in place, and views --------------------------------------------------------- */

START_TEST(test_in_place_is_recorded) {
    rg_tensor *x = leaf_vector(3), *y = rg_mul(x, 2);
    rg_tensor *same = rg_add_(y, x);
    ck_assert(same == y);
    ck_assert_str_eq(rg_grad_fn(y), "AddBackward0");
    ck_ok(rg_backward(rg_sum(rg_mul(y, 1))));
    ck_assert_double_eq(grad_at(x, 0), 3);
    ck_assert_int_eq(rg_version(y), 1);
}
END_TEST

/* The operand shares the memory that is written to, in another order. The whole operand is read
 * before the write. */
START_TEST(test_in_place_reads_first) {
    double v[9] = { 1, 2, 4, 8, 16, 32, 64, 128, 256 };
    for (int way = 0; way < 4; way++) {
        rg_tensor *m = rg_from_double(v, RG_DIMS(3, 3)), *t = way & 1 ? rg_select(m, 0, 1) : m;
        rg_tensor *x = way & 1 ? rg_select(m, 1, 1) : rg_T(m);
        rg_tensor *want = rg_sub(t, x);
        if (way & 2) {
            t = rg_narrow(m, 0, 0, 2);
            x = rg_narrow(m, 0, 1, 2);
            want = rg_sub(t, x);
        }
        ck_ok(rg_sub_(t, x));
        ck_assert_msg(rg_equal(t, want), "%d: %s", way, rg_repr(t));
    }
}
END_TEST

START_TEST(test_in_place_is_refused) {
    rg_tensor *x = leaf_vector(3), *v = rg_select(x, 0, 1);
    ck_fails(rg_add_(x, 1), RG_RUNTIME_ERROR,
             "a leaf Variable that requires grad is being used in an in-place operation");
    ck_fails(rg_uniform_(x, 0, 1), RG_RUNTIME_ERROR,
             "uniform_: a leaf Variable that requires grad is being used in");
    ck_fails(rg_uniform_(rg_mul(x, 2), 0, 1), RG_RUNTIME_ERROR,
             "a tensor with grad_fn=<MulBackward0> would be overwritten");
    ck_fails(rg_add_(v, 1), RG_RUNTIME_ERROR,
             "a view of a leaf Variable that requires grad is being used in an in-place operation");
    ck_fails(rg_add_(rg_expand(rg_zeros(1), 3), 1), RG_RUNTIME_ERROR,
             "more than one element of the written-to tensor");
    ck_fails(rg_add_(rg_zeros(3), rg_zeros(2, 3)), RG_RUNTIME_ERROR,
             "doesn't match the broadcast shape [2, 3]");
    ck_fails(rg_add_(rg_literal([ 1, 2 ]), 0.5), RG_RUNTIME_ERROR,
             "result type Float can't be cast to the desired output type Long");
    {
        RG_NO_GRAD();
        /* An optimizer writes to leaves in this way. */
        ck_ok(rg_add_(x, 1));
    }
    ck_assert_double_eq(rg_at(x, 0), 2);
}
END_TEST

START_TEST(test_a_mutated_saved_value_is_named) {
    rg_tensor *x = rg_set_name(leaf_vector(3), "W"), *y = rg_mul(x, x);
    {
        RG_NO_GRAD();
        rg_add_(x, 1);
    }
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "modified by an inplace operation");
    ck_assert(!rg_backward(rg_sum(y)));
    const char *message = rg_error();
    ck_assert_msg(strstr(message, "mul: ") && strstr(message, "named W") && strstr(message, "add_")
                      && strstr(message, "DoubleTensor [3]")
                      && strstr(message, "version 1; expected version 0"),
                  "%s", message);
}
END_TEST

static rg_tensor *add_one(rg_tensor *x) {
    RG_NO_GRAD();
    return rg_add_(x, 1);
}

#define HAS_BEEN(op, type, what)                                                                 \
    op ": one of the variables needed for gradient computation has been modified by an inplace " \
       "operation: [torch." type "], which is " what ", is at version 1; expected version 0 "    \
       "instead. The last write was by add_."

/* If a saved value was written to, the error has the value's index among the op's inputs or
 * outputs. */
START_TEST(test_a_mutated_saved_value_has_a_number) {
    rg_tensor *a = leaf_vector(3), *b = leaf_vector(3), *y = rg_mul(a, b);
    ck_ok(add_one(b));
    ck_says(rg_backward(rg_sum(y)), HAS_BEEN("mul", "DoubleTensor [3]", "input 1 of MulBackward0"));
    y = rg_mul(a, rg_ones_like(b));
    ck_says(rg_backward(rg_sum(y)), "");
    rg_tensor *c = leaf_vector(3);
    y = rg_mul(c, a);
    ck_ok(add_one(c));
    ck_says(rg_backward(rg_sum(y)), HAS_BEEN("mul", "DoubleTensor [3]", "input 0 of MulBackward0"));
    y = rg_exp(a);
    ck_ok(add_one(y));
    ck_says(rg_backward(rg_sum(y)),
            HAS_BEEN("exp", "DoubleTensor [3]", "output 0 of ExpBackward0"));
    rg_tensor *gates = rg_requires_grad_(rg_zeros(2, 1, 4), true), *none = rg_zeros(1, 1);
    rg_hidden_cells cells = rg_lstm_scan(gates, rg_ones(4, 1), none, none, false);
    ck_ok(add_one(cells.c));
    char said[300];
    rg_error_clear();
    ck_assert(!rg_backward(rg_sum(cells.h)));
    snprintf(said, sizeof said, "[torch.FloatTensor [2, 1, 1]], which is output 1 of %s, is at ",
             rg_grad_fn(cells.h));
    ck_assert_msg(strstr(rg_error(), said), "%s", rg_error());
    rg_error_clear();
}
END_TEST

/* A tensor and its node in the graph have the same name. If a request for memory fails, both keep
 * the old one. */
START_TEST(test_a_name_is_given_whole_or_not) {
    rg_tensor *x = rg_set_name(leaf(2), "old");
    bool named = false;
    for (int64_t fail = 1; !named; fail++) {
        rg_memory_fail_at(fail);
        named = rg_set_name(x, "new") != NULL;
        rg_memory_fail_at(0);
        rg_error_clear();
        ck_assert_str_eq(rg_name(x), named ? "new" : "old");
        ck_assert(strstr(rg_graph_dot(rg_mul(x, x)), named ? "new" : "old"));
        ck_assert(!strstr(rg_graph_dot(rg_mul(x, x)), named ? "old" : "new"));
    }
    ck_assert_str_eq(rg_name(rg_set_name(x, NULL)), "");
}
END_TEST

/* A name is written so that Graphviz reads it: quotes are escaped, control characters are blanks,
 * and bytes that aren't UTF-8 are question marks. */
START_TEST(test_names_in_drawings) {
    rg_tensor *x = rg_set_name(leaf(2), "a\"b\\c\nd\xc3\xa9\xff\xe2\x82\xac\xe2\x82");
    ck_assert(strstr(rg_graph_dot(rg_mul(x, x)), "\"a\\\"b\\\\c d\xc3\xa9?\xe2\x82\xac??\\n[]\""));
}
END_TEST

/* If a base is changed in place after a view was taken, the view gets a new history from the base.
 * (test_views.c has more tests of views.) */
START_TEST(test_a_stale_view_is_renewed) {
    rg_tensor *x = leaf_vector(3), *y = rg_mul(x, 2), *v = rg_select(y, 0, 0);
    rg_mul_(y, 3);
    ck_ok(rg_backward(rg_mul(v, 1)));
    ck_assert_double_eq(grad_at(x, 0), 6);
}
END_TEST

/* ---- threads --------------------------------------------------------------------- */

typedef struct {
    rg_tensor *w;
    double input;
    bool ok;
} job;

static void *train(void *context) {
    job *j = context;
    j->ok = true;
    RG_FOR (int i = 0; i < 200; i++)
        j->ok = j->ok && rg_backward(rg_mul(rg_mul(j->w, j->input), 1));
    return NULL;
}

START_TEST(test_threads_share_parameters) {
    rg_tensor *w = leaf(2);
    job jobs[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){ w, i + 1, false };
        pthread_create(&threads[i], NULL, train, &jobs[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(jobs[i].ok);
    }
    ck_assert_double_eq(grad_at(w, 0), 200 * (1 + 2 + 3 + 4));
}
END_TEST

typedef struct {
    rg_tensor *x, *y;
} handed;

/* Adds many nodes to a graph. Each raises this thread's `clock` (autograd/node.c). */
static void *go_on(void *context) {
    handed *h = context;
    rg_tensor *y = h->y;
    for (int i = 0; i < 500; i++)
        y = rg_add(rg_mul(y, 1), rg_mul(h->x, 1));
    h->y = rg_keep(rg_mul(y, y));
    return NULL;
}

/* Adds nodes to the graph that go_on kept, releases what go_on kept, and returns the new end. */
static rg_tensor *end_turn(const handed *h) {
    rg_tensor *y = rg_mul(rg_add(h->y, rg_mul(h->y, h->x)), 1e-6);
    rg_drop(h->y);
    return y;
}

/* Two threads add nodes to a graph in turn. In backward a node runs after all nodes that depend on
 * it, whichever thread made it. */
START_TEST(test_threads_hand_a_graph_on) {
    pthread_t thread;
    handed h = { .x = leaf(2) };
    h.y = h.x;
    for (int turn = 0; turn < 2; turn++) {
        pthread_create(&thread, NULL, go_on, &h);
        pthread_join(thread, NULL);
        /* This thread's `clock` is below that of the other thread. */
        h.y = end_turn(&h);
    }
    rg_tensor *again = leaf(2);
    handed alone = { .x = again, .y = again };
    for (int turn = 0; turn < 2; turn++) {
        go_on(&alone);
        alone.y = end_turn(&alone);
    }
    ck_ok(rg_backward(h.y));
    ck_ok(rg_backward(alone.y));
    ck_assert_double_eq(grad_at(h.x, 0), grad_at(again, 0));
    ck_assert_double_ne(grad_at(again, 0), 0);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------- */

/* A failure in the step of a node has the name of the node's op. A failure outside of the steps has
 * the name of the run. */
START_TEST(test_failures_of_backward_have_names) {
    rg_tensor *x = leaf_vector(3);
    int of_softmax = 0, of_run = 0;
    bool ok = false;
    for (int64_t fail = 1; !ok; fail++) {
        RG_SCOPE();
        rg_tensor *y = rg_sum(rg_softmax(rg_mul(x, x), 0));
        rg_memory_fail_at(fail);
        ok = rg_backward(y);
        rg_memory_fail_at(0);
        of_softmax += strncmp(rg_error(), "softmax: out of memory", 22) == 0;
        of_run += strncmp(rg_error(), "backward: out of memory", 23) == 0;
        ck_assert(ok || rg_error_code() == RG_OUT_OF_MEMORY);
        rg_error_clear();
    }
    ck_assert_int_gt(of_softmax, 0);
    ck_assert_int_gt(of_run, 0);
    /* Later errors don't have the run's name. */
    rg_memory_fail_at(1);
    ck_assert(!rg_from(((int[]){ 1, 2 }), 2));
    rg_memory_fail_at(0);
    ck_assert_msg(!strstr(rg_error(), "backward") && !strstr(rg_error(), "softmax"), "%s",
                  rg_error());
}
END_TEST

/* Returns the number of requests for memory that a backward run from a sum of n leaves makes. If
 * `asked_for`, the leaves are given as `inputs`. */
static int64_t requests_of_run(int n, bool asked_for) {
    RG_SCOPE();
    const int64_t most = 1 << 20;
    rg_tensor *v[40], *y = NULL;
    for (int i = 0; i < n; i++) {
        v[i] = leaf(i);
        y = y ? rg_add(y, v[i]) : v[i];
        ck_ok(rg_set_grad(v[i], rg_scalar_dtype(1., RG_FLOAT64)));
    }
    const rg_backward_options all = { .gradient = RG_NONE };
    const rg_backward_options some = { .gradient = RG_NONE, .inputs = rg_list_of(n, v) };
    rg_memory_fail_at(most);
    ck_ok(rg_backward_with(y, asked_for ? some : all));
    const int64_t left = rgi_me->fail_at;
    rg_memory_fail_at(0);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq(grad_at(v[i], 0), 2);
    return most - left;
}

/* Up to 15 leaves, a run requests memory for gradients only, so each leaf adds the same number of
 * requests. A run with `inputs` also requests memory to mark the nodes that lead to the inputs. */
START_TEST(test_small_runs_take_little) {
    const int64_t two = requests_of_run(2, false), more = requests_of_run(3, false) - two;
    for (int n = 2; n <= 15; n++) {
        ck_assert_int_eq(requests_of_run(n, false), two + (n - 2) * more);
        ck_assert_int_gt(requests_of_run(n, true), requests_of_run(n, false));
    }
    ck_assert_int_gt(requests_of_run(16, false), two + 14 * more);
}
END_TEST

START_TEST(test_detached_in_place) {
    rg_tensor *x = leaf(2), *y = rg_mul(x, 3), *v = rg_reshape(rg_mul(x, 3), 1);
    ck_ok(rg_detach_(y));
    ck_assert(!rg_requires_grad(y) && rg_is_leaf(y));
    ck_ok(rg_detach_(y));
    ck_fails(rg_detach_(v), RG_RUNTIME_ERROR, "Can't detach views in-place");
    ck_assert(rg_requires_grad(v));
    ck_ok(rg_detach_(x));
    ck_assert(!rg_requires_grad(x));
}
END_TEST

/* However many leaves there are, each gets its gradient. */
START_TEST(test_many_leaves) {
    for (int n = 1; n <= 700; n += n < 40 ? 1 : 220) {
        RG_SCOPE();
        rg_tensor **leaf = malloc((size_t)n * sizeof *leaf), *sum = rg_zeros(2);
        for (int i = 0; i < n; i++) {
            leaf[i] = rg_requires_grad_(rg_full(RG_DIMS(2), (double)i), true);
            sum = rg_add(sum, rg_mul(rg_mul(leaf[i], leaf[i]), 0.5));
        }
        ck_ok(rg_backward(rg_sum(sum)));
        for (int i = 0; i < n; i++)
            ck_each(rg_equal(rg_grad_of(leaf[i]), rg_detach(leaf[i])), "leaf %d of %d", i, n);
        free(leaf);
    }
}
END_TEST

/* cat and hstack skip tensors of the shape (0,), which take part nevertheless: as in torch, their
 * gradients are empty, not absent. */
START_TEST(test_gradients_of_skipped_tensors) {
    RG_SCOPE();
    rg_tensor *x = leaf_vector(3), *y = rg_requires_grad_(rg_ones(2, 2), true);
    rg_tensor *none = rg_masked_select(x, rg_lt(x, 0));
    rg_tensor *joined[] = { rg_cat(RG_LIST(none, y), 0), rg_cat(RG_LIST(y, none), 1),
                            rg_hstack(RG_LIST(none, y)), rg_cat(RG_LIST(none, none), 0) };
    for (int i = 0; i < RG_COUNT(joined); i++) {
        rg_tensor *g = rg_grad(rg_sum(joined[i]), x, .retain_graph = true);
        ck_ok(g);
        ck_assert(rg_equal(g, rg_zeros_like(x)));
        g = rg_grad(rg_sum(joined[i]), none, .retain_graph = true);
        ck_ok(g);
        ck_assert_int_eq(rg_numel(g), 0);
    }
}
END_TEST

/* The node and the zeros are torch's. Otherwise p would have no gradient. */
START_TEST(test_draws_have_gradients_of_zeros) {
    RG_SCOPE();
    rg_tensor *p = rg_requires_grad_(rg_full(RG_DIMS(3), 0.5), true);
    rg_tensor *drawn = rg_bernoulli(p);
    ck_assert_str_eq(rg_grad_fn(drawn), "BernoulliBackward0");
    ck_ok(rg_backward(rg_sum(drawn)));
    ck_assert(rg_equal(rg_grad_of(p), rg_zeros(3)));
    {
        RG_NO_GRAD();
        ck_assert(!rg_requires_grad(rg_bernoulli(p)));
    }
    ck_assert(!rg_requires_grad(rg_bernoulli(rg_detach(p))));
    ck_assert(!rg_requires_grad(rg_multinomial(p, 2, false)));
    ck_assert(!rg_requires_grad(rg_rand_like(p)) && !rg_requires_grad(rg_randn_like(p)));
}
END_TEST

RG_TESTS_UNGUARDED(
    engine, test_gradients_of_skipped_tensors, test_draws_have_gradients_of_zeros,
    test_a_hook_without_memory, test_many_nodes_without_memory, test_dtypes_of_first_gradients,
    test_hooks_are_not_recorded, test_gradients_are_kept_once, test_many_leaves,
    test_accumulates_and_zeroes, test_what_takes_no_part_has_no_sign,
    test_one_value_used_many_times, test_paths_of_different_lengths, test_wide_graphs_are_sorted,
    test_second_and_third_order, test_grad_leaves_leaves_alone, test_grad_of_inner_tensors,
    test_unused_inputs, test_a_result_without_elements, test_a_graph_is_freed_as_it_goes,
    test_modes, test_hooks, test_a_hook_takes_itself_away, test_gradients_are_copies,
    test_a_gradient_that_two_have, test_roots_that_are_not_asked_for, test_hooks_are_counted,
    test_gradients_from_outside_stay, test_what_is_missing_is_refused, test_the_latest_comes_first,
    test_leaves_do_not_wait, test_leaves_at_the_ends, test_hooks_that_come_and_go,
    test_a_failed_run_leaves_grads_alone, test_a_leafs_hook_fails, test_a_gradient_is_no_view,
    test_a_run_inside_a_run, test_recorded_gradients_make_no_cycle,
    test_ending_a_scope_keeps_the_graph, test_a_chain_of_a_million, test_a_hook_drops_the_root,
    test_slices_share_one_buffer, test_in_place_is_recorded, test_in_place_is_refused,
    test_a_mutated_saved_value_is_named, test_a_stale_view_is_renewed,
    test_threads_share_parameters, test_a_name_is_given_whole_or_not, test_names_in_drawings,
    test_threads_hand_a_graph_on, test_failures_of_backward_have_names, test_detached_in_place,
    test_a_place_in_another_run, test_looks_at_a_running_graph, test_hooks_of_outputs,
    test_a_mutated_saved_value_has_a_number, test_small_runs_take_little, test_late_hooks_come_last,
    test_hooks_of_near_leaves_come_first, test_a_wrong_gradient_of_a_hook,
    test_a_hook_keeps_size_and_dtype, test_views_are_added_to_in_place, test_added_to_what_was_set,
    test_a_number_that_requires_grad, test_in_place_reads_first)
