/*
 * test_saved.c: hooks on saved tensors, and checkpoints, which are made with such hooks. Gradients
 * have the same bits as without them, and checkpoints take less memory.
 */
#include "autograd/op.h"
#include "autograd/tools/saved.h"
#include "tests/in_turn.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static rg_tensor *leaf(int64_t n, int64_t m) {
    rg_manual_seed((uint64_t)(n * 100 + m));
    return rg_requires_grad_(rg_randn_dims(RG_DIMS(n, m), RG_FLOAT64, rg_default_generator()),
                             true);
}

/* ---- hooks ---------------------------------------------------------------------------- */

/* A test counts the calls of its hooks until all saved values are dropped, so it opens a scope
 * after it has made the counts. */
typedef struct {
    int packed, unpacked, dropped;
    int fail_at; /* The call of a hook that fails, or 0. */
    enum { KEEP, HALVE, TURN, FAIL_TO_PACK, WRITE, WRONG_SHAPE, FAIL_TO_UNPACK, MOVE } how;
} counts;

static void *pack(rg_tensor *t, void *context) {
    counts *c = context;
    c->packed++;
    ck_assert(!rg_requires_grad(t) && !rg_is_grad_enabled());
    if (c->how == FAIL_TO_PACK || c->packed == c->fail_at)
        return NULL;
    if (c->how == WRITE)
        rg_mul_(t, 2);
    return rg_keep(c->how == HALVE ? rg_to(t, RG_FLOAT32) : rg_clone(t));
}

static rg_tensor *unpack(void *packed, void *context) {
    counts *c = context;
    c->unpacked++;
    if (c->how == FAIL_TO_UNPACK || c->unpacked == c->fail_at)
        return NULL;
    if (c->how == WRONG_SHAPE)
        return rg_ones(7);
    if (c->how == MOVE)
        return rg_add(packed, 1000000);
    if (c->how == TURN)
        return rg_t(rg_contiguous(rg_t(packed)));
    return c->how == HALVE ? rg_to(packed, RG_FLOAT64) : packed;
}

static void drop(void *packed, void *context) {
    ((counts *)context)->dropped++;
    rg_drop(packed);
}

static rg_tensor *chain(rg_tensor *x) { return rg_sum(rg_exp(rg_mul(rg_sin(x), x))); }

START_TEST(test_hooks_see_what_is_saved) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *y, *direct = rg_grad(chain(x), x);
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = chain(x);
    }
    /* sin saves its input, mul both factors, exp its result, and sum nothing: 4 values. */
    ck_assert_int_eq(c.packed, 4);
    ck_ok(rg_backward(y, .retain_graph = true));
    ck_assert_int_eq(c.unpacked, 4);
    ck_assert_int_eq(c.dropped, 0);
    ck_assert(rg_equal(rg_grad_of(x), direct));
    ck_ok(rg_backward(y));
    ck_assert_int_eq(c.unpacked, 8);
    ck_assert_int_eq(c.dropped, 4);
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "backward through the graph a second time");
    /* Outside the block the hooks aren't called. When a graph is released, its values are
     * dropped. */
    ck_ok(chain(x));
    ck_assert_int_eq(c.packed, 4);
    {
        RG_SCOPE();
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        chain(x);
    }
    ck_assert_int_eq(c.dropped, 8);
}
END_TEST

/* Kernels read a saved value with its old strides, even if the hook returns it with others. */
START_TEST(test_a_value_comes_back_turned) {
    counts c = { .how = TURN };
    RG_SCOPE();
    rg_tensor *x = leaf(3, 5), *weight = rg_randn_like(x), *y;
    rg_tensor *direct = rg_grad(rg_sum(rg_mul(rg_softmax(x, -1), weight)), x);
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = rg_softmax(x, -1);
    }
    ck_assert(rg_equal(rg_grad(rg_sum(rg_mul(y, weight)), x), direct));
    ck_assert_int_eq(c.unpacked, 1);
}
END_TEST

/* Released values can't be used again, even if only inputs were saved. */
START_TEST(test_packed_values_are_freed) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *y;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = rg_sum(rg_mul(rg_sin(x), rg_ones_like(x)));
    }
    ck_ok(rg_backward(y));
    ck_assert_int_eq(c.dropped, c.packed);
    rg_tensor *g = rg_clone(rg_grad_of(x));
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "backward through the graph a second time");
    ck_assert(rg_equal(rg_grad_of(x), g));
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = rg_sin(x);
    }
    ck_ok(rg_backward(rg_sum(y)));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, "backward through the graph a second time");
}
END_TEST

/* This hook runs backward itself. The values that are saved meanwhile don't go through hooks. */
static void *pack_and_differentiate(rg_tensor *t, void *context) {
    counts *c = context;
    c->packed++;
    RG_ENABLE_GRAD();
    rg_tensor *x = leaf(2, 2), *g = rg_grad(rg_sum(rg_mul(x, x)), x);
    ck_assert(rg_allclose(g, rg_mul(rg_detach(x), 2), 0, 0));
    return rg_keep(rg_clone(t));
}

static void saves_in_a_step(void *context) {
    counts *c = context;
    RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, c }));
    rg_tensor *x = rg_requires_grad_(rg_ones(2, 2), true);
    rg_sum(x);
    ck_assert_ptr_null(rg_sin(x));
}

START_TEST(test_hooks_in_odd_places) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *y, *direct = rg_grad(chain(x), x);
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack_and_differentiate, unpack, drop, &c }));
        y = chain(x);
    }
    ck_assert_int_eq(c.packed, 4);
    ck_assert(rg_equal(rg_grad(y, x), direct));
    ck_fails(rg_record(saves_in_a_step, &c), RG_NOT_IMPLEMENTED,
             "saved_hooks: can't be part of a recorded step");
    ck_assert(c.packed == 4 && c.dropped == 4);
}
END_TEST

/* A guard removes only its own hooks, and only once. */
START_TEST(test_guards) {
    counts c = { .how = KEEP }, outer = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3);
    ck_assert(rg_push_saved_hooks((rg_saved_hooks){ pack, unpack, drop, &outer }));
    rg_saved_guard guard = rg_saved_guard_open((rg_saved_hooks){ pack, unpack, drop, &c });
    rg_sin(x);
    for (int i = 0; i < 2; i++)
        rg_saved_guard_close(&guard);
    rg_sin(x);
    rg_saved_guard none = rg_saved_guard_open((rg_saved_hooks){ pack, NULL, NULL, NULL });
    rg_error_clear();
    rg_saved_guard_close(&none);
    rg_sin(x);
    rg_pop_saved_hooks();
    rg_sin(x);
    ck_assert_int_eq(c.packed, 1);
    ck_assert_int_eq(outer.packed, 2);
}
END_TEST

/* If the second of two values can't be packed, the first is dropped. If the second can't be
 * unpacked, nothing is dropped, and a later run succeeds. */
START_TEST(test_hooks_that_fail_in_the_middle) {
    counts c = { .how = KEEP, .fail_at = 2 };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *other = rg_clone(x), *y;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        ck_fails(rg_mul(x, other), RG_RUNTIME_ERROR, "mul: a saved tensor pack hook failed");
        ck_assert_int_eq(c.packed, 2);
        ck_assert_int_eq(c.dropped, 1);
        c = (counts){ .how = KEEP };
        y = rg_mul(x, other);
    }
    c.fail_at = 2;
    ck_fails(rg_backward(rg_sum(y)), RG_TYPE_ERROR,
             "Output of saved tensor unpack_hook expected to be a Tensor but got NULL");
    ck_assert_int_eq(c.dropped, 0);
    c.fail_at = 0;
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert_int_eq(c.dropped, 2);
    ck_assert(rg_equal(rg_grad_of(x), rg_mul(rg_detach(other), 2)));
}
END_TEST

/* Backward fails if a saved value was written to, whatever the value is used for. */
START_TEST(test_saved_values_written_over) {
    static const char modified[] = "has been modified by an inplace operation";
    rg_tensor *x = leaf(2, 3), *base = rg_mul(x, 1), *one = rg_pow(base, 0);
    ck_ok(rg_mul_(base, 2));
    ck_fails(rg_backward(rg_sum(one)), RG_RUNTIME_ERROR, modified);
    rg_tensor *far = rg_cdist(x, rg_zeros_like(x), .p = 1), *sum = rg_sum(far);
    ck_ok(rg_add_(far, 1));
    ck_fails(rg_backward(sum, .create_graph = true), RG_RUNTIME_ERROR, modified);
    rg_tensor *weight = rg_ones_dims(RG_DIMS(3), RG_FLOAT64), *class = rg_literal([ 0, 2 ]);
    rg_tensor *of_classes = rg_cross_entropy(x, class, .weight = weight);
    rg_tensor *nll = rg_nll_loss(x, class, .weight = weight);
    ck_ok(rg_mul_(weight, 2));
    for (int graph = 0; graph < 2; graph++) {
        ck_fails(rg_backward(of_classes, .create_graph = graph), RG_RUNTIME_ERROR, modified);
        ck_fails(rg_backward(nll, .create_graph = graph), RG_RUNTIME_ERROR, modified);
    }
    rg_tensor *at = rg_zeros_dims(RG_DIMS(2, 3), RG_INT64), *source = rg_detach(rg_clone(x));
    rg_tensor *joined = rg_sum(rg_scatter_reduce(x, 0, at, source, "sum"));
    ck_ok(rg_mul_(source, 2));
    ck_fails(rg_backward(joined), RG_RUNTIME_ERROR, modified);
    rg_tensor *q = rg_reshape(leaf(2, 3), 1, 1, 2, 3);
    rg_tensor *mask = rg_zeros_dims(RG_DIMS(2, 2), RG_FLOAT64);
    rg_tensor *y = rg_scaled_dot_product_attention(q, q, q, .attn_mask = mask);
    ck_ok(rg_add_(mask, 1));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, modified);
}
END_TEST

/* A value is unpacked even if the gradient is 0 whatever the value is. It isn't unpacked if only
 * the gradient of another input needs it. */
START_TEST(test_values_asked_for) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(4, 3), *w = leaf(1, 3), *y, *z;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = rg_sum(rg_pow(x, 0));
        z = rg_sum(rg_batch_norm(rg_detach(x), RG_NONE, RG_NONE, .training = true,
                                 .weight = rg_reshape(w, 3)));
    }
    c.fail_at = 1;
    ck_fails(rg_backward(y), RG_TYPE_ERROR, "unpack_hook expected to be a Tensor but got NULL");
    c.fail_at = c.unpacked = 0;
    ck_ok(rg_backward(z));
    ck_assert_int_eq(c.unpacked, 3);
}
END_TEST

/* Removing hooks has no effect if none are in force. */
START_TEST(test_taken_away_once_too_often) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3);
    for (int i = 0; i < 2; i++) {
        rg_pop_saved_hooks();
        rg_sin(x);
        ck_assert_int_eq(c.packed, i);
        ck_assert(rg_push_saved_hooks((rg_saved_hooks){ pack, unpack, drop, &c }));
        rg_sin(x);
        rg_pop_saved_hooks();
        ck_assert_int_eq(c.packed, i + 1);
    }
}
END_TEST

START_TEST(test_hooks_may_keep_less) {
    counts c = { .how = HALVE };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *y, *direct = rg_grad(chain(x), x);
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = chain(x);
    }
    rg_tensor *g = rg_grad(y, x, .create_graph = true);
    ck_assert(!rg_equal(g, direct) && rg_allclose(g, direct, 1e-6, 1e-6));
    /* Second derivatives go through packed values, too. */
    rg_tensor *z = chain(x);
    rg_tensor *second = rg_grad(rg_sum(rg_grad(z, x, .create_graph = true)), x);
    ck_assert(rg_allclose(rg_grad(rg_sum(g), x), second, 1e-5, 1e-5));
}
END_TEST

START_TEST(test_hooks_that_fail) {
    counts c = { .how = FAIL_TO_PACK };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3);
    const rg_saved_hooks hooks = { pack, unpack, drop, &c };
    {
        RG_SAVED_HOOKS(hooks);
        ck_fails(rg_sin(x), RG_RUNTIME_ERROR, "sin: a saved tensor pack hook failed");
        c.how = WRITE;
        rg_tensor *y = rg_mul(rg_detach(x), 1);
        ck_fails(rg_mul(rg_clone(x), y), RG_RUNTIME_ERROR,
                 "A saved tensor pack hook is modifying its input in place.");
        c.how = WRONG_SHAPE;
        y = rg_sin(x);
        ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
                 "sin: a saved tensor unpack hook returned [torch.FloatTensor [7]] for "
                 "[torch.DoubleTensor [2, 3]]");
        c.how = FAIL_TO_UNPACK;
        ck_fails(rg_backward(rg_sum(y)), RG_TYPE_ERROR,
                 "Output of saved tensor unpack_hook expected to be a Tensor but got NULL");
        ck_assert(rg_grad_of(x) == RG_NONE);
        c.how = KEEP;
        ck_ok(rg_backward(rg_sum(y)));
    }
    ck_fails(rg_push_saved_hooks((rg_saved_hooks){ pack, NULL, NULL, NULL }), RG_TYPE_ERROR,
             "expected pack and unpack");
    rg_pop_saved_hooks();
}
END_TEST

/* max_pool trusts the indices that it has saved itself, but not those of a hook. */
START_TEST(test_unpacked_indices_are_checked) {
    counts c = { .how = MOVE };
    RG_SCOPE();
    rg_tensor *y;
    {
        RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
        y = rg_max_pool1d(leaf(2, 6), 2);
    }
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
             "is out of bounds for a plane of size 1x6");
}
END_TEST

/* ---- checkpoints ---------------------------------------------------------------------- */

typedef struct {
    rg_tensor *w;
    int calls;
    int always; /* Each call saves this number of further values. */
    int more;   /* Each call after the first saves this number of further values. */
    bool changes, drops_out;
} block;

static rg_tensor *run_block(rg_tensor *const in[], void *context) {
    block *b = context;
    b->calls++;
    rg_tensor *y = rg_tanh(rg_matmul(in[0], b->w));
    if (b->drops_out)
        y = rg_dropout(y, 0.5, true);
    for (int i = 0; i < b->always || (i < b->always + b->more && b->calls > 1); i++)
        rg_exp(y);
    if (b->changes && b->calls > 1)
        return rg_mul(y, 2);
    return rg_mul(y, rg_exp(rg_neg(y)));
}

START_TEST(test_checkpoints_give_the_same_bits) {
    for (int drops_out = 0; drops_out < 2; drops_out++) {
        block b = { .w = leaf(3, 3), .drops_out = drops_out };
        rg_tensor *x = leaf(2, 3), *in[] = { rg_mul(x, 2) };
        rg_manual_seed(5);
        rg_tensor *y = run_block(in, &b);
        rg_tensor *want_x = rg_grad(rg_sum(y), x, .retain_graph = true);
        rg_tensor *want_w = rg_grad(rg_sum(y), b.w);
        rg_tensor *next = rg_rand(2);
        rg_manual_seed(5);
        b.calls = 0;
        rg_tensor *z = rg_checkpoint(run_block, &b, 1, in);
        ck_assert(rg_equal(z, y));
        ck_assert_int_eq(b.calls, 1);
        rg_tensor *drawn = rg_rand(2);
        ck_ok(rg_backward(rg_sum(z), .retain_graph = true));
        ck_assert_int_eq(b.calls, 2);
        ck_assert(rg_equal(rg_grad_of(x), want_x) && rg_equal(rg_grad_of(b.w), want_w));
        /* Random numbers that are drawn after the checkpoint are the same, too. */
        ck_assert(rg_equal(drawn, next));
        ck_ok(rg_backward(rg_sum(z)));
        ck_assert_int_eq(b.calls, 3);
        ck_assert(rg_equal(rg_grad_of(x), rg_mul(want_x, 2)));
    }
}
END_TEST

START_TEST(test_checkpoints_of_second_order) {
    block b = { .w = leaf(3, 3) };
    rg_tensor *x = leaf(2, 3), *in[] = { x };
    rg_tensor *g = rg_grad(rg_sum(run_block(in, &b)), x, .create_graph = true);
    rg_tensor *want = rg_grad(rg_sum(rg_square(g)), b.w);
    g = rg_grad(rg_sum(rg_checkpoint(run_block, &b, 1, in)), x, .create_graph = true);
    ck_assert(rg_equal(rg_grad(rg_sum(rg_square(g)), b.w), want));
}
END_TEST

/* A checkpoint of blocks that are checkpoints themselves. */
static rg_tensor *run_two_blocks(rg_tensor *const in[], void *context) {
    rg_tensor *y = rg_checkpoint(run_block, context, 1, in);
    return rg_checkpoint(run_block, context, 1, &y);
}

START_TEST(test_checkpoints_within) {
    block b = { .w = leaf(3, 3), .drops_out = true };
    rg_tensor *x = leaf(2, 3), *in[] = { x };
    rg_manual_seed(1);
    rg_tensor *once = run_block(in, &b);
    rg_tensor *want = rg_grad(rg_sum(run_block(&once, &b)), x);
    rg_manual_seed(1);
    ck_assert(rg_equal(rg_grad(rg_sum(rg_checkpoint(run_two_blocks, &b, 1, in)), x), want));
    /* Without grad mode nothing is saved, and nothing is computed again. */
    RG_NO_GRAD();
    b.calls = 0;
    ck_assert(!rg_requires_grad(rg_checkpoint(run_two_blocks, &b, 1, in)));
    ck_assert_int_eq(b.calls, 2);
}
END_TEST

/* A backward run in inference mode calls the function of a checkpoint in the normal mode. */
START_TEST(test_checkpoints_in_inference_mode) {
    block b = { .w = leaf(3, 3) };
    rg_tensor *x = leaf(2, 3);
    rg_tensor *want = rg_grad(rg_sum(run_block(&x, &b)), x);
    rg_tensor *y = rg_sum(rg_checkpoint(run_block, &b, 1, &x));
    RG_INFERENCE_MODE();
    rg_tensor *got = rg_grad(y, x);
    ck_assert(want && rg_equal(got, want) && rg_is_inference_mode_enabled());
}
END_TEST

static rg_tensor *own_square(rg_tensor *const in[], void *context) {
    (void)in;
    return rg_square((rg_tensor *)context);
}

/* Runs backward on its own result, which a checkpoint refuses. */
static rg_tensor *own_slope(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_grad(rg_sum(rg_exp(in[0])), in[0], .create_graph = true);
}

/* y = x exp(x), whatever the second input is; it counts its calls. */
static rg_tensor *beside_none(rg_tensor *const in[], void *context) {
    ++*(int *)context;
    ck_assert(in[1] == RG_NONE);
    return rg_mul(in[0], rg_exp(in[0]));
}

START_TEST(test_odd_functions_in_checkpoints) {
    rg_tensor *x = leaf(2, 3), *in[] = { x, RG_NONE },
              *plain = rg_requires_grad_(rg_detach(x), true);
    ck_fails(rg_checkpoint(own_slope, NULL, 1, in), RG_RUNTIME_ERROR,
             "checkpoint: a function in a checkpoint ran backward on what it computes");
    int calls = 0;
    ck_ok(rg_backward(rg_sum(rg_checkpoint(beside_none, &calls, 2, in))));
    ck_assert_int_eq(calls, 2);
    ck_ok(rg_backward(rg_sum(rg_mul(plain, rg_exp(plain)))));
    ck_assert(rg_equal(rg_grad_of(x), rg_grad_of(plain)));
    /* A write to an input before the call has no effect on the checkpoint. */
    in[0] = rg_add_(rg_mul(x, 1), 0);
    ck_ok(rg_backward(rg_sum(rg_checkpoint(beside_none, &calls, 2, in))));
    ck_assert(rg_allclose(rg_grad_of(x), rg_mul(rg_grad_of(plain), 2), 1e-12, 0));
}
END_TEST

/* Functions that write in place to a value that an op has saved. No backward run needs the value of
 * the last one. */
static rg_tensor *over_output(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul_(rg_tanh(in[0]), 0.5);
}
static rg_tensor *over_input(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *c = rg_clone(in[0]), *y = rg_square(c);
    RG_NO_GRAD();
    rg_mul_(rg_view(c, -1), 0.5);
    return y;
}
static rg_tensor *over_unneeded(rg_tensor *const in[], void *context) {
    (void)context;
    ck_ok(rg_mul_(rg_tanh(in[0]), 0.5));
    return rg_square(in[0]);
}

/* A checkpoint notices a write to a saved value as the plain graph does: once an op needs it. */
START_TEST(test_saved_values_written_over_in_checkpoints) {
    static rg_tensor *(*const functions[])(rg_tensor *const in[], void *context) = { over_output,
                                                                                     over_input };
    for (int i = 0; i < 4; i++) {
        RG_SCOPE();
        rg_tensor *x = rg_requires_grad_(rg_full(RG_DIMS(2), 0.7), true);
        rg_tensor *y = i % 2 ? rg_checkpoint(functions[i / 2], NULL, 1, &x)
                             : functions[i / 2](&x, NULL);
        ck_ok(y);
        ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
                 "one of the variables needed for gradient computation has been modified by an "
                 "inplace operation: [torch.FloatTensor [2]]");
        ck_assert(rg_grad_of(x) == RG_NONE);
    }
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_full(RG_DIMS(2), 0.7), true);
    ck_ok(rg_backward(rg_sum(rg_checkpoint(over_unneeded, NULL, 1, &x))));
    ck_assert(rg_equal(rg_grad_of(x), rg_mul(rg_detach(x), 2)));
}
END_TEST

static rg_tensor *with_noise(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(in[0], rg_exp(rg_mul(in[0], rg_rand_like(in[0]))));
}

/* Without preserve_rng_state the second call of the function draws further random numbers. With
 * preserve_rng_state it draws the numbers of the first call again, and leaves the stream as it
 * was. */
START_TEST(test_random_state_of_checkpoints) {
    rg_tensor *x = leaf(2, 3), *before;
    for (int preserved = 0; preserved < 2; preserved++) {
        rg_tensor *y = rg_checkpoint(with_noise, NULL, 1, &x, .preserve_rng_state = preserved);
        rg_rand(5);
        before = rg_generator_state(rg_default_generator());
        ck_ok(rg_backward(rg_sum(y)));
        ck_assert(rg_equal(rg_generator_state(rg_default_generator()), before) == preserved);
    }
}
END_TEST

/* Generators that the program has made. `plain` is true if the functions that draw from them are
 * called without checkpoints. */
typedef struct {
    rg_generator *generator[3];
    bool plain;
} noise;

static rg_tensor *inner_noise(rg_tensor *const in[], void *context) {
    rg_generator **g = ((noise *)context)->generator;
    rg_tensor *drawn = rg_randn_dims(rg_shape(in[0]), RG_FLOAT32, g[1]);
    ck_ok(rg_generator_seed(g[2], 5));
    return rg_exp(rg_mul(rg_dropout_with(rg_exp(in[0]), 0.5, true, g[2]), drawn));
}

/* Draws from the program's generators and from one that this function makes and frees. */
static rg_tensor *outer_noise(rg_tensor *const in[], void *context) {
    noise *n = context;
    rg_generator *own = rg_generator_new(9);
    rg_tensor *x = rg_dropout_with(rg_exp(in[0]), 0.5, true, n->generator[0]);
    x = rg_mul(x, rg_rand_dims(rg_shape(x), RG_FLOAT32, own));
    rg_generator_free(own);
    rg_tensor *y = n->plain ? inner_noise(&x, n) : rg_checkpoint(inner_noise, n, 1, &x);
    return rg_tanh(rg_mul(y, rg_sin(x)));
}

/* When backward calls a checkpoint's function again, the program's own generators give the same
 * numbers again. Afterwards they continue as if there were no checkpoint. */
START_TEST(test_generators_of_checkpoints) {
    noise n[2] = { { .plain = false }, { .plain = true } };
    rg_tensor *slope[2];
    for (int i = 0; i < 2; i++) {
        rg_tensor *x = leaf(5, 7);
        for (int k = 0; k < 3; k++)
            n[i].generator[k] = rg_generator_new((uint64_t)k + 3);
        rg_tensor *y = i ? outer_noise(&x, &n[i]) : rg_checkpoint(outer_noise, &n[i], 1, &x);
        ck_assert_ptr_nonnull(rg_randn_dims(RG_DIMS(3), RG_FLOAT32, n[i].generator[1]));
        slope[i] = rg_grad(rg_sum(y), x);
    }
    ck_assert(rg_equal(slope[0], slope[1]));
    for (int k = 0; k < 3; k++) {
        ck_assert_msg(
            rg_equal(rg_generator_state(n[0].generator[k]), rg_generator_state(n[1].generator[k])),
            "generator %d", k);
        rg_generator_free(n[0].generator[k]);
        rg_generator_free(n[1].generator[k]);
    }
}
END_TEST

/* A backward run that fails for lack of memory leaves the stream of random numbers as it was. */
START_TEST(test_a_way_back_that_fails_draws_nothing) {
    rg_tensor *x = leaf(2, 3);
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        RG_SCOPE();
        rg_tensor *y = rg_sum(rg_checkpoint(with_noise, NULL, 1, &x));
        rg_rand(5);
        rg_tensor *before = rg_generator_state(rg_default_generator());
        rg_memory_fail_at(fail);
        done = rg_backward(y);
        rg_memory_fail_at(0);
        ck_assert(done == (rg_error_code() == RG_OK));
        rg_error_clear();
        ck_assert_msg(rg_equal(rg_generator_state(rg_default_generator()), before), "request %d",
                      (int)fail);
    }
}
END_TEST

/* The sum of exp(x) over all three inputs, none of which may be NULL. */
static rg_tensor *of_three(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *sum = NULL;
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(in[i]);
        rg_tensor *it = rg_sum(rg_exp(in[i]));
        sum = i ? rg_add(sum, it) : it;
    }
    return sum;
}

/* Runs a checkpoint forward and backward. One of its inputs needs no gradient. */
static bool checkpointed(void) {
    rg_tensor *in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = rg_requires_grad_(rg_ones(2), i != 1);
        if (!in[i])
            return false;
    }
    rg_tensor *y = rg_checkpoint(of_three, NULL, 3, in);
    return y && rg_backward(y);
}

/* After a checkpoint that fails, the program's hooks are still in force. */
START_TEST(test_checkpoints_without_memory) {
    ck_assert_int_ge(deny_in_turn(checkpointed, NULL), 10);
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *x = leaf(2, 3), *in[] = { x, x, x };
    ck_assert(rg_push_saved_hooks((rg_saved_hooks){ pack, unpack, drop, &c }));
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        rg_memory_fail_at(fail);
        done = rg_checkpoint(of_three, NULL, 3, in);
        rg_memory_fail_at(0);
        ck_assert(done == (rg_error_code() == RG_OK));
        rg_error_clear();
        const int packed = c.packed;
        rg_sin(x);
        ck_assert_int_eq(c.packed, packed + 1);
    }
    rg_pop_saved_hooks();
}
END_TEST

static rg_tensor *of_two(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(rg_sin(in[0]), rg_exp(rg_mul(in[1], in[1])));
}

/* A backward run that needs only some of the recomputed values keeps the others. The next run drops
 * them. */
START_TEST(test_checkpoints_walked_in_parts) {
    rg_tensor *in[] = { leaf(2, 3), leaf(2, 3) }, *want[2];
    rg_tensor *y = rg_sum(of_two(in, NULL));
    for (int i = 0; i < 2; i++)
        want[i] = rg_grad(y, in[i], .retain_graph = true);
    rg_tensor *z = rg_sum(rg_checkpoint(of_two, NULL, 2, in));
    for (int turn = 0; turn < 4; turn++)
        ck_assert(rg_equal(rg_grad(z, in[turn % 2], .retain_graph = true), want[turn % 2]));
}
END_TEST

/* If values of an earlier run are left, and there is no memory to compute all of them again, each
 * is dropped once. */
START_TEST(test_values_left_without_memory) {
    rg_tensor *in[] = { leaf(2, 3), leaf(2, 3) };
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        RG_SCOPE();
        rg_tensor *z = rg_sum(rg_checkpoint(of_two, NULL, 2, in));
        ck_ok(rg_grad(z, in[0], .retain_graph = true));
        ck_ok(rg_grad(z, in[1], .retain_graph = true));
        rg_memory_fail_at(fail);
        done = rg_grad(z, in[0], .retain_graph = true) && rg_grad(z, in[1], .retain_graph = true);
        rg_memory_fail_at(0);
        ck_assert(done == (rg_error_code() == RG_OK));
        rg_error_clear();
        ck_ok(rg_grad(z, in[1]));
    }
}
END_TEST

START_TEST(test_what_checkpoints_refuse) {
    block b = { .w = leaf(3, 3), .changes = true };
    rg_tensor *x = leaf(2, 3), *in[] = { rg_mul(x, 1) };
    rg_tensor *y = rg_checkpoint(run_block, &b, 1, in);
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
             "A different number of tensors was saved during the original forward and "
             "recomputation. Number of tensors saved during forward: 6. Number of tensors saved "
             "during recomputation: 4.");
    for (int i = 0; i < 3 * 17; i++) {
        char said[100];
        /* The list has room for 64 values at first. */
        const int more = i % 3 + 1, always = i / 3 < 16 ? i / 3 : 64 - 6;
        b = (block){ .w = b.w, .always = always, .more = more };
        y = rg_checkpoint(run_block, &b, 1, in);
        snprintf(said, sizeof said,
                 "during forward: %d. Number of tensors saved during recomputation: %d.",
                 6 + always, 6 + always + more);
        ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR, said);
    }
    b = (block){ .w = b.w };
    y = rg_checkpoint(run_block, &b, 1, in);
    ck_ok(rg_add_(in[0], 1));
    ck_fails(rg_backward(rg_sum(y)), RG_RUNTIME_ERROR,
             "checkpoint: input 0 has been modified by an inplace operation since");
    ck_fails(rg_checkpoint(NULL, NULL, 1, in), RG_TYPE_ERROR, "checkpoint: expected a function");
    ck_fails(rg_checkpoint(run_block, &b, 1, NULL), RG_TYPE_ERROR, "and its inputs but got NULL");
    ck_fails(rg_checkpoint(run_block, &b, -1, in), RG_VALUE_ERROR, "up to 64 inputs, but got -1");
    rg_tensor *most[64];
    for (int i = 0; i < 64; i++)
        most[i] = in[0];
    ck_ok(rg_checkpoint(run_block, &b, 64, most));
    /* A function may have no inputs. */
    ck_ok(rg_checkpoint(own_square, b.w, 0, NULL));
    ck_ok(rg_backward(rg_sum(rg_checkpoint(own_square, b.w, 0, NULL))));
    ck_assert(rg_equal(rg_grad_of(b.w), rg_mul(rg_detach(b.w), 2)));
    rg_set_grad(b.w, RG_NONE);
    ck_fails(rg_checkpoint(run_block, &b, 65, in), RG_VALUE_ERROR, "takes up to 64 inputs");
    in[0] = leaf(2, 5);
    ck_fails(rg_checkpoint(run_block, &b, 1, in), RG_RUNTIME_ERROR, "matmul");
    ck_assert(rg_grad_of(b.w) == RG_NONE);
}
END_TEST

static void recorded(void *context) {
    block *b = context;
    rg_tensor *in[] = { b->w };
    rg_checkpoint(run_block, b, 1, in);
}

START_TEST(test_checkpoints_are_not_recorded) {
    block b = { .w = leaf(3, 3) };
    ck_fails(rg_record(recorded, &b), RG_NOT_IMPLEMENTED,
             "checkpoint: can't be part of a recorded");
}
END_TEST

static long peak_of(bool checkpointed) {
    enum { DEEP = 8 };
    RG_SCOPE();
    block b = { .w = leaf(64, 64) };
    rg_tensor *y = rg_requires_grad_(rg_zeros_dims(RG_DIMS(256, 64), RG_FLOAT64), true);
    rg_memory_reset_peak();
    const int64_t before = rg_memory_stats().now;
    for (int i = 0; i < DEEP; i++) {
        RG_SCOPE();
        rg_tensor *in[] = { y };
        y = rg_escape(checkpointed ? rg_checkpoint(run_block, &b, 1, in) : run_block(in, &b));
    }
    ck_ok(rg_backward(rg_sum(y)));
    return (long)(rg_memory_stats().peak - before);
}

START_TEST(test_checkpoints_take_less_memory) {
    const long plain = peak_of(false);
    const long less = peak_of(true);
    ck_assert_msg(less * 10 < plain * 6, "%ld with checkpoints, %ld without", less, plain);
}
END_TEST

static bool run_both(rg_tensor *x, block *b) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *in[] = { x };
    rg_tensor *y = rg_checkpoint(run_two_blocks, b, 1, in);
    rg_tensor *g = y ? rg_grad(rg_sum(y), x) : NULL;
    if (!g)
        return false;
    RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
    y = rg_error_code() == RG_OK ? chain(x) : NULL;
    return y && rg_grad(y, x);
}

START_TEST(test_memory_denied) {
    block b = { .w = leaf(3, 3), .drops_out = true };
    rg_tensor *x = leaf(2, 3);
    ck_ok(run_both(x, &b));
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        const int64_t before = rg_memory_stats().now;
        rg_error_clear();
        rg_memory_fail_at(n);
        done = run_both(x, &b) && rg_error_code() == RG_OK;
        rg_memory_fail_at(0);
        ck_each(done || rg_error_code() == RG_OUT_OF_MEMORY, "request %d: %s", (int)n, rg_error());
        ck_each(n == 1 || rg_memory_stats().now <= before, "request %d leaks", (int)n);
    }
    rg_error_clear();
}
END_TEST

/* An op that saves nothing packs nothing, and takes no memory for it. */
START_TEST(test_nothing_to_pack) {
    counts c = { .how = KEEP };
    RG_SCOPE();
    rg_tensor *w = leaf(2, 3);
    RG_SAVED_HOOKS(((rg_saved_hooks){ pack, unpack, drop, &c }));
    const int64_t before = rg_memory_stats().other;
    ck_ok(rg_add(w, w));
    ck_assert(c.packed == 0 && rg_memory_stats().other == before);
    ck_ok(rg_mul(w, w));
    ck_assert(c.packed == 2 && rg_memory_stats().other > before);
}
END_TEST

/* With a number as its weight, lerp keeps neither of its ends: both may be written to. */
START_TEST(test_lerp_keeps_no_end) {
    rg_tensor *w = leaf(2, 3), *a = rg_mul(w, 2), *b = rg_mul(w, 3);
    rg_tensor *y = rg_lerp(a, b, 0.25);
    rg_add_(a, 1);
    rg_add_(b, 1);
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert(rg_equal(rg_grad_of(w), rg_full_like(w, 2.25)));
}
END_TEST

RG_TESTS(saved, test_a_value_comes_back_turned, test_nothing_to_pack,
         test_unpacked_indices_are_checked, test_taken_away_once_too_often,
         test_checkpoints_without_memory, test_a_way_back_that_fails_draws_nothing,
         test_checkpoints_walked_in_parts, test_values_left_without_memory,
         test_hooks_see_what_is_saved, test_packed_values_are_freed, test_guards,
         test_hooks_in_odd_places, test_hooks_that_fail_in_the_middle, test_hooks_may_keep_less,
         test_values_asked_for, test_hooks_that_fail, test_checkpoints_give_the_same_bits,
         test_checkpoints_of_second_order, test_checkpoints_within, test_what_checkpoints_refuse,
         test_checkpoints_in_inference_mode, test_odd_functions_in_checkpoints,
         test_saved_values_written_over_in_checkpoints, test_random_state_of_checkpoints,
         test_generators_of_checkpoints, test_checkpoints_are_not_recorded,
         test_checkpoints_take_less_memory, test_memory_denied, test_saved_values_written_over,
         test_lerp_keeps_no_end)
