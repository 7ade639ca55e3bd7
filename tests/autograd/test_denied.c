/*
 * test_denied.c: denies each request for memory, in turn, to functions that are made of several
 * ops, long lists, hooks and writes in place, forward and backward. test_ops.c does the same with
 * single ops.
 */
#include "regard.h"
#include "tensor/scope.h"
#include "tests/in_turn.h"
#include "tests/test.h"

#include <pthread.h>
#include <string.h>

/* Returns a leaf with numbers from 0.1 on, which lie in memory with gaps. */
static rg_tensor *leaf_of(rg_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n *= shape.v[d];
    rg_tensor *twice = rg_arange(2 * n);
    rg_tensor *x = rg_div(rg_add(rg_to(twice, RG_FLOAT32), 1), (double)(10 * n));
    rg_tensor *pairs = rg_reshape(x, n, 2);
    rg_tensor *part = rg_reshape_dims(rg_clone(rg_select(pairs, 1, 0)), shape);
    rg_tensor *leaf = part ? rg_requires_grad_(part, true) : NULL;
    return leaf && shape.n > 1 ? rg_transpose(leaf, 0, 1) : leaf;
}

static rg_tensor *whole_of(rg_dims shape) { return rg_zeros_dims(shape, RG_INT64); }

#define X(...) leaf_of(RG_DIMS(__VA_ARGS__))
#define I(...) whole_of(RG_DIMS(__VA_ARGS__))

static bool and_back(rg_tensor *y) {
    if (!y || !rg_requires_grad(y))
        return y && rg_error_code() == RG_OK;
    return rg_backward(rg_sum(y), .retain_graph = true)
           && rg_backward(rg_sum(rg_mul(y, y)), .create_graph = true);
}

static rg_tensor *halved(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 0.5);
}

static rg_tensor *with_hook(rg_tensor *x) {
    return x && rg_register_hook(x, halved, NULL) >= 0 ? rg_mul(x, 2) : NULL;
}

/* Returns a list of n views of x. */
static rg_list many(rg_tensor *x, int n) {
    static rg_tensor *v[400];
    for (int i = 0; i < n; i++) {
        v[i] = x ? rg_select(x, 0, i % 2) : NULL;
        if (!v[i])
            return (rg_list){ -1, NULL };
    }
    return (rg_list){ n, v };
}

/* Returns a list that has x n times. */
static rg_list often(rg_tensor *x, int n) {
    static rg_tensor *v[1100];
    for (int i = 0; i < n; i++)
        v[i] = x;
    return (rg_list){ x ? n : -1, v };
}

/* Runs backward from y with a gradient of float64, which must be converted. */
static rg_tensor *with_wide_gradient(rg_tensor *y) {
    rg_tensor *g = y ? rg_ones_dims(rg_shape(y), RG_FLOAT64) : NULL;
    return g && rg_backward(y, .gradient = g, .retain_graph = true) ? y : NULL;
}

static rg_tensor *doubled(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 2);
}

/* A hook replaces the gradient. */
static rg_tensor *with_replacing_hook(rg_tensor *x) {
    rg_tensor *y = x ? rg_mul(x, 2) : NULL;
    return y && rg_register_hook(y, doubled, NULL) >= 0 ? rg_mul(y, 3) : NULL;
}

/* Returns a stale view: its base was written to after it was made. If `keeps`, the view retains its
 * gradient. */
static rg_tensor *stale_view(rg_tensor *x, bool keeps) {
    rg_tensor *base = rg_mul(x, 1), *view = rg_select(base, 0, 1);
    if (!view || (keeps && !rg_retain_grad(view)) || !rg_mul_(base, 2))
        return NULL;
    return view;
}

/* Writes a part of x to another part. */
static rg_tensor *set_with_own_part(rg_tensor *x) {
    return x ? rg_set_item_(x, rg_narrow(x, 0, 1, 1), "0:1") : NULL;
}

/* Writes to a tensor of whole numbers at indices that are a part of it. */
static rg_tensor *set_with_own_index(void) {
    rg_tensor *x = rg_arange(4);
    return x ? rg_set_item_(x, 7, rg_narrow(x, 0, 1, 2)) : NULL;
}

static rg_tensor *recorded[3];
static void record_batch_norm(void *unused) {
    (void)unused;
    rg_batch_norm(recorded[0], recorded[1], recorded[2], .training = true);
}

/* Records a step in which batch_norm writes to its running mean and variance. */
static rg_tensor *batch_norm_recorded(void) {
    recorded[0] = rg_ones(4, 3);
    recorded[1] = rg_zeros(3);
    recorded[2] = rg_ones(3);
    if (!recorded[0] || !recorded[1] || !recorded[2])
        return NULL;
    rg_replay *r = rg_record(record_batch_norm, NULL);
    rg_replay_free(r);
    return r ? recorded[0] : NULL;
}

/* A checkpoint calls its function with all inputs, or not at all. */
static rg_tensor *sum_of_all(rg_tensor *const inputs[], void *context) {
    rg_tensor *sum = rg_sum(inputs[0]);
    for (int i = 1; i < *(int *)context; i++) {
        ck_assert_ptr_nonnull(inputs[i]);
        sum = rg_add(sum, rg_sum(rg_exp(inputs[i])));
    }
    return sum;
}
static rg_tensor *checkpoint_of(int n) {
    static int inputs;
    rg_tensor *in[2] = { X(2, 3), X(2, 2) };
    inputs = n;
    return in[0] && in[1] ? rg_checkpoint(sum_of_all, &inputs, n, in) : NULL;
}

/* Runs backward to n leaves that have hooks, and returns the last leaf. */
static rg_tensor *with_many_hooks(int n) {
    rg_tensor *sum = rg_zeros(1), *x = NULL;
    for (int i = 0; i < n; i++) {
        x = rg_requires_grad_(rg_scalar(2.), true);
        if (!x || rg_register_hook(x, halved, NULL) < 0)
            return NULL;
        sum = rg_add(sum, x);
    }
    return sum && rg_backward(rg_sum(sum)) ? x : NULL;
}

/* Runs backward from n leaves, and returns the last leaf. */
static rg_tensor *from_leaves(int n) {
    static rg_tensor *v[40];
    for (int i = 0; i < n; i++) {
        v[i] = rg_requires_grad_(rg_scalar(2.), true);
        if (!v[i])
            return NULL;
    }
    const rg_backward_options o = { .gradient = RG_NONE };
    return rg_backward_many(n, v, NULL, o) ? v[n - 1] : NULL;
}

/* Runs backward from one root that is given twice, both times with the gradient g. Their sum must
 * not be written over g. */
static rg_tensor *from_one_root_twice(rg_tensor *x) {
    const rg_backward_options o = { .gradient = RG_NONE };
    rg_tensor *y = rg_mul(x, 2), *g = y ? rg_ones_like(y) : NULL;
    return g && rg_backward_many(2, (rg_tensor *[]){ y, y }, (rg_tensor *[]){ g, g }, o) ? x : NULL;
}

static rg_tensor *retained_and_written(rg_tensor *y) {
    return y && rg_retain_grad(y) ? rg_mul_(y, rg_to(rg_ones(1), RG_FLOAT64)) : NULL;
}

/* Returns t if its printed text has the grad_fn of a view whose base was written to. */
static rg_tensor *shown(rg_tensor *t) {
    const char *text = t ? rg_repr(t) : NULL;
    ck_assert(!text || rg_error_code() != RG_OK || strstr(text, "grad_fn=<AsStridedBackward0>"));
    return text ? t : NULL;
}

#define CALL(name, call) \
    static bool call_##name(void) { return and_back(call); }
#include "denied.def"
#undef CALL

START_TEST(test_denied_in_turn) {
    static const struct {
        const char *name;
        bool (*call)(void);
    } calls[] = {
#define CALL(name, call) { #name, call_##name },
#include "denied.def"
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool ok;
        rg_error_clear();
        {
            RG_SCOPE();
            ok = calls[i].call();
        }
        ck_assert_msg(ok, "%s: %s", calls[i].name, rg_error());
        deny_in_turn(calls[i].call, NULL);
    }
}
END_TEST

static bool hooked_leaves(void) { return with_many_hooks(20); }
static bool leaves_as_roots(void) { return from_leaves(20); }
static bool root_given_twice(void) { return from_one_root_twice(X(2, 3)); }
static bool written(void) { return and_back(retained_and_written(rg_mul(X(2, 3), 1))); }
static bool part_written(void) {
    return and_back(retained_and_written(rg_select(rg_mul(X(2, 3), 1), 0, 1)));
}

/* Runs backward from many leaves, and to many leaves with hooks. Writes to tensors that retain
 * their gradients. */
START_TEST(test_runs_and_writes) {
    ck_assert_int_ge(deny_in_turn(hooked_leaves, NULL), 60);
    ck_assert_int_ge(deny_in_turn(leaves_as_roots, NULL), 60);
    ck_assert_int_ge(deny_in_turn(root_given_twice, NULL), 10);
    ck_assert_int_ge(deny_in_turn(written, NULL), 20);
    ck_assert_int_ge(deny_in_turn(part_written, NULL), 20);
}
END_TEST

static bool stale_and_shown(void) { return and_back(shown(stale_view(X(2, 3), false))); }

/* The printed text of a stale view has its grad_fn, or nothing is printed. */
START_TEST(test_a_stale_view_is_shown) {
    ck_assert_int_ge(deny_in_turn(stale_and_shown, NULL), 20);
}
END_TEST

/* A write to a stale view first renews the histories of its operands. If there is no memory for
 * that, the error has the name of the write, not of an op inside it. */
START_TEST(test_writes_are_named) {
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        RG_SCOPE();
        rg_tensor *view = stale_view(X(2, 3), false), *other = stale_view(X(2, 3), false);
        ck_assert(view && other);
        rg_memory_fail_at(n);
        done = rg_mul_(view, other);
        rg_memory_fail_at(0);
        const char *said = rg_error();
        said += strncmp(said, "mul_: ", 6) ? 0 : 6;
        said += strncmp(said, "mul: ", 5) ? 0 : 5;
        ck_assert_msg(done || !strncmp(said, "out of memory", 13), "%s", said);
        rg_error_clear();
    }
}
END_TEST

/* Drawing random numbers over a stale view is refused because of its history, or because there is
 * no memory to compute the history. */
START_TEST(test_draws_over_a_stale_view) {
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        RG_SCOPE();
        rg_tensor *base = rg_zeros(2, 3), *view = rg_select(base, 0, 1);
        ck_assert(rg_add_(base, X(3, 2)) && rg_error_code() == RG_OK);
        rg_memory_fail_at(n);
        ck_assert(!rg_uniform_(view, 0, 1));
        rg_memory_fail_at(0);
        done = rg_error_code() != RG_OUT_OF_MEMORY;
        ck_assert(!done || strstr(rg_error(), "grad_fn=<AsStridedBackward0> would be over"));
        rg_error_clear();
    }
}
END_TEST

/* A hook is called with a gradient, or not at all. */
static rg_tensor *halved_if_there(rg_tensor *g, void *context) {
    ck_assert_ptr_nonnull(g);
    return halved(g, context);
}

/* Runs backward twice with hooks: from y, and then from y after a write in place, which has an
 * operand of another dtype. */
static bool some_of_all(void) {
    rg_tensor *x = rg_requires_grad_(rg_ones(2), true), *g = rg_ones(2), *y = with_hook(x);
    if (!g || !y || rg_register_hook(y, halved_if_there, NULL) < 0)
        return false;
    return rg_backward(y, .gradient = g, .retain_graph = true)
           && rg_backward(rg_sum(rg_mul_(y, rg_ones_dims(RG_DIMS(1), RG_FLOAT64))));
}

/* The stack of results has 64 places at first. *fill of them are taken before the runs. */
static void *with_full_stack(void *fill) {
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        RG_SCOPE();
        rg_tensor *filled = rg_ones(1);
        for (int i = 1; i < *(int *)fill; i++)
            rgi_lend(filled);
        rg_memory_fail_at(n);
        done = some_of_all();
        rg_memory_fail_at(0);
        ck_each(done == (rg_error_code() == RG_OK), "%d before, request %d: %s", *(int *)fill,
                (int)n, rg_error());
        ck_each(done || rg_error_code() == RG_OUT_OF_MEMORY, "%d before, request %d: %s",
                *(int *)fill, (int)n, rg_error());
        rg_error_clear();
    }
    return NULL;
}

/* A thread's stack of results may become full at any step, and there may be no memory to enlarge
 * it. */
START_TEST(test_full_stacks) {
    for (int fill = 44; fill <= 64; fill++) {
        pthread_t thread;
        pthread_create(&thread, NULL, with_full_stack, &fill);
        pthread_join(thread, NULL);
    }
}
END_TEST

RG_TESTS(denied, test_draws_over_a_stale_view, test_full_stacks, test_runs_and_writes,
         test_a_stale_view_is_shown, test_denied_in_turn, test_writes_are_named)
