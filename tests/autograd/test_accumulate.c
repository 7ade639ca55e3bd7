/* test_accumulate.c: backward runs to some leaves alone, and hooks that are called after a leaf's
 * gradient is accumulated. The values are those of PyTorch 2.13. */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

static rg_tensor *leaf(double x) { return rg_requires_grad_(rg_scalar(x), true); }

static bool is(rg_tensor *grad, double x) { return grad != RG_NONE && rg_item(grad) == x; }

/* ---- inputs ------------------------------------------------------------------------------ */

START_TEST(test_inputs) {
    RG_SCOPE();
    rg_tensor *a = leaf(2), *b = leaf(3), *c = leaf(5);
    rg_tensor *ab = rg_mul(a, b), *y = rg_mul(ab, c);
    ck_ok(rg_backward(y, .inputs = RG_LIST(a), .retain_graph = true));
    ck_assert(is(rg_grad_of(a), 15) && rg_grad_of(b) == RG_NONE && rg_grad_of(c) == RG_NONE);
    /* An input that is no leaf retains its gradient from now on. Gradients of several runs add
     * up. */
    ck_ok(rg_backward(y, .inputs = RG_LIST(ab, a), .retain_graph = true));
    ck_assert(is(rg_grad_of(a), 30) && is(rg_grad_of(ab), 5) && rg_grad_of(b) == RG_NONE);
    ck_assert(rg_retains_grad(ab));
    /* The run ends at ab. It leaves the graph of ab alone, and uses up the rest of y's graph. */
    ck_ok(rg_backward(y, .inputs = RG_LIST(ab)));
    ck_assert(is(rg_grad_of(ab), 10) && is(rg_grad_of(a), 30));
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "second time");
    ck_ok(rg_backward(ab));
    ck_assert(is(rg_grad_of(b), 2) && is(rg_grad_of(a), 33) && rg_grad_of(c) == RG_NONE);
    /* A leaf that the root doesn't depend on gets no gradient. */
    ck_ok(rg_backward(rg_mul(a, a), .inputs = RG_LIST(c)));
    ck_assert(rg_grad_of(c) == RG_NONE && is(rg_grad_of(a), 33));
    /* A root may be a leaf, even one that isn't among `inputs`. */
    ck_ok(rg_backward(c, .inputs = RG_LIST(a)));
    ck_assert(rg_grad_of(c) == RG_NONE && is(rg_grad_of(a), 33));
    ck_ok(rg_backward(c, .inputs = RG_LIST(c, a)));
    ck_assert(is(rg_grad_of(c), 1) && is(rg_grad_of(a), 33));
}
END_TEST

static rg_tensor *counts(rg_tensor *g, void *context) {
    ++*(int *)context;
    return g;
}

/* A run that computes only the gradient of h skips the op `behind`, of which h was made, and the op
 * `beside`, with which h doesn't share inputs. The hooks of both aren't called, and their saved
 * values are kept. */
START_TEST(test_what_is_not_asked_for) {
    for (int grad = 0; grad < 2; grad++) {
        RG_SCOPE();
        int calls = 0;
        rg_tensor *x = leaf(1), *w = leaf(3), *behind = rg_exp(x), *beside = rg_exp(w);
        rg_tensor *h = rg_mul(behind, behind), *y = rg_mul(rg_mul(h, h), beside);
        ck_assert_int_ge(rg_register_hook(behind, counts, &calls), 0);
        ck_assert_int_ge(rg_register_hook(beside, counts, &calls), 0);
        if (grad)
            ck_ok(rg_grad(y, h));
        else
            ck_ok(rg_backward(y, .inputs = RG_LIST(h)));
        ck_assert_int_eq(calls, 0);
        ck_assert(rg_grad_of(x) == RG_NONE && rg_grad_of(w) == RG_NONE);
        ck_ok(rg_backward(h) && rg_backward(beside));
        ck_assert_int_eq(calls, 2);
    }
}
END_TEST

START_TEST(test_inputs_with_a_graph) {
    RG_SCOPE();
    rg_tensor *x = leaf(3), *w = leaf(2);
    ck_ok(rg_backward(rg_mul(rg_pow(x, 3), w), .inputs = RG_LIST(x), .create_graph = true));
    rg_tensor *g = rg_grad_of(x);
    ck_assert(is(g, 54) && rg_grad_of(w) == RG_NONE);
    ck_assert(is(rg_grad(g, x, .retain_graph = true), 36) && is(rg_grad(g, w), 27));
    ck_ok(rg_set_grad(x, RG_NONE));
}
END_TEST

START_TEST(test_inputs_refused) {
    RG_SCOPE();
    rg_tensor *x = leaf(3), *y = rg_mul(x, 2);
    rg_tensor *none[1];
    rg_list empty = { 0, none }, failed = { -1, NULL };
    ck_fails(rg_backward(y, .inputs = empty), RG_RUNTIME_ERROR,
             "backward: `inputs` argument to `backward()` cannot be empty.");
    ck_fails(rg_backward(y, .inputs = failed), RG_TYPE_ERROR, "its n is -1");
    ck_fails(rg_backward(y, .inputs = RG_LIST(x, rg_ones(2))), RG_RUNTIME_ERROR,
             "can't retain_grad on Tensor that has requires_grad=False");
    ck_fails(rg_backward(y, .inputs = RG_LIST(RG_NONE)), RG_TYPE_ERROR, "got RG_NONE");
    ck_fails(rg_grad(y, x, .inputs = RG_LIST(x)), RG_TYPE_ERROR,
             "grad: grad() got multiple values for argument 'inputs'");
    ck_assert(rg_grad_of(x) == RG_NONE);
    ck_ok(rg_backward(y, .inputs = RG_LIST(x)));
    ck_assert(is(rg_grad_of(x), 2));
}
END_TEST

/* ---- hooks after accumulation ------------------------------------------------------------ */

static char calls[256];
static rg_tensor *watched;

static bool note(rg_tensor *t, void *context) {
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s%g ", (const char *)context,
             rg_item(rg_grad_of(t)));
    return true;
}

static rg_tensor *note_before(rg_tensor *grad, void *context) {
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s%g ", (const char *)context,
             rg_item(grad));
    return rg_mul(grad, 10);
}

static bool take_away(rg_tensor *t, void *context) {
    (void)context;
    RG_NO_GRAD();
    return rg_sub_(t, rg_mul(rg_grad_of(t), 0.5)) && rg_set_grad(t, RG_NONE);
}

static bool says(const char *text) {
    const bool same = strcmp(calls, text) == 0;
    if (!same)
        printf("calls: %s\n", calls);
    calls[0] = '\0';
    return same;
}

START_TEST(test_after) {
    RG_SCOPE();
    rg_tensor *x = leaf(3);
    const int first = rg_register_post_accumulate_grad_hook(x, note, "a");
    const int second = rg_register_post_accumulate_grad_hook(x, note, "b");
    const int before = rg_register_hook(x, note_before, "h");
    ck_assert(first >= 0 && second > first && before > second);
    ck_ok(rg_backward(rg_mul(x, 2)));
    ck_assert(says("h2 a20 b20 "));
    ck_assert(rg_remove_hook(x, first) && rg_remove_hook(x, before));
    ck_fails(rg_remove_hook(x, first), RG_RUNTIME_ERROR, "the tensor has no hook");
    ck_ok(rg_backward(rg_mul(x, 2)));
    ck_assert(says("b22 "));
    /* rg_grad accumulates nothing, so it calls no such hooks. */
    ck_ok(rg_grad(rg_mul(x, 2), x));
    ck_assert(says(""));
    rg_tensor *w = leaf(1);
    ck_ok(rg_backward(rg_mul(rg_mul(x, 2), w), .inputs = RG_LIST(w)));
    ck_assert(says(""));
    ck_assert(rg_remove_hook(x, second));
    ck_ok(rg_backward(rg_mul(x, 2)));
    ck_assert(says("") && is(rg_grad_of(x), 24));
}
END_TEST

/* A hook is called as soon as its leaf's gradient is complete, however many leaves there are. */
START_TEST(test_order) {
    enum { N = 40 };
    RG_SCOPE();
    rg_tensor *v[N], *y = rg_scalar(1.);
    static char names[N][16];
    char want[256] = "";
    for (int i = 0; i < N; i++) {
        v[i] = leaf(1);
        y = rg_mul(y, v[i]);
        snprintf(names[i], sizeof names[i], "%d:", i);
        if (i % 4 == 0)
            ck_assert_int_ge(rg_register_post_accumulate_grad_hook(v[i], note, names[i]), 0);
    }
    ck_ok(rg_backward(rg_mul(y, v[20])));
    for (int i = N - 4; i >= 0; i -= 4)
        snprintf(want + strlen(want), sizeof want - strlen(want), "%d:%d ", i, i == 20 ? 2 : 1);
    ck_assert(says(want));
}
END_TEST

/* A hook updates x with its gradient and then removes the gradient, as an optimizer in backward
 * does. No gradient is left when backward returns. */
START_TEST(test_steps_in_backward) {
    RG_SCOPE();
    rg_tensor *x = leaf(3);
    ck_assert_int_ge(rg_register_post_accumulate_grad_hook(x, take_away, NULL), 0);
    for (int i = 0; i < 3; i++)
        ck_ok(rg_backward(rg_mul(x, 2)));
    ck_assert(rg_grad_of(x) == RG_NONE);
    ck_assert_double_eq(rg_item(x), 0);
}
END_TEST

static bool again(rg_tensor *t, void *context) {
    int *depth = context;
    RG_ENABLE_GRAD();
    return ++*depth >= 3 || rg_backward(rg_mul(t, 2));
}

static bool adds_another(rg_tensor *t, void *context) {
    (void)context;
    return rg_register_post_accumulate_grad_hook(t, note, "new") >= 0;
}

static bool fails(rg_tensor *t, void *context) {
    (void)context;
    return rg_reshape(t, 5, 5);
}

START_TEST(test_odd_hooks) {
    RG_SCOPE();
    rg_tensor *x = leaf(3);
    int depth = 0, id = rg_register_post_accumulate_grad_hook(x, again, &depth);
    ck_ok(rg_backward(rg_mul(x, 5)));
    ck_assert(depth == 3 && is(rg_grad_of(x), 9));
    ck_assert(rg_remove_hook(x, id));
    id = rg_register_post_accumulate_grad_hook(x, adds_another, NULL);
    ck_ok(rg_backward(rg_mul(x, 1)));
    ck_assert(says(""));
    ck_assert(rg_remove_hook(x, id));
    ck_ok(rg_backward(rg_mul(x, 1)));
    ck_assert(says("new11 "));
    rg_tensor *z = leaf(3);
    ck_assert_int_ge(rg_register_post_accumulate_grad_hook(z, fails, NULL), 0);
    ck_fails(rg_backward(rg_mul(z, 4)), RG_RUNTIME_ERROR, "is invalid for input of size");
    ck_assert(is(rg_grad_of(z), 4));
    ck_fails(rg_register_post_accumulate_grad_hook(rg_mul(x, 2), note, "") >= 0, RG_RUNTIME_ERROR,
             "post accumulate grad hooks cannot be registered on non-leaf tensors");
    ck_fails(rg_register_post_accumulate_grad_hook(rg_ones(2), note, "") >= 0, RG_RUNTIME_ERROR,
             "cannot register a hook on a tensor that doesn't require gradient");
    ck_fails(rg_register_post_accumulate_grad_hook(x, NULL, NULL) >= 0, RG_TYPE_ERROR,
             "expected a function but got NULL");
    /* A hook is freed with its leaf, although the graph keeps the leaf's node. */
    watched = leaf(2);
    rg_tensor *y = rg_mul(watched, leaf(7));
    ck_assert_int_ge(rg_register_post_accumulate_grad_hook(watched, note, "gone"), 0);
    rg_drop(watched);
    ck_ok(rg_backward(y));
    ck_assert(says(""));
}
END_TEST

/* If a hook fails, the hooks of other leaves aren't called, and the run fails, although all
 * gradients are accumulated. */
START_TEST(test_a_hook_fails_before_others) {
    RG_SCOPE();
    rg_tensor *v[4], *y = rg_scalar(1.);
    for (int i = 0; i < 4; i++) {
        v[i] = leaf(2);
        y = rg_mul(y, v[i]);
        ck_assert_int_ge(rg_register_post_accumulate_grad_hook(v[i], i == 2 ? fails : note, "n"),
                         0);
    }
    ck_fails(rg_backward(y), RG_RUNTIME_ERROR, "is invalid for input of size");
    ck_assert(says("n8 "));
    for (int i = 0; i < 4; i++)
        ck_assert(is(rg_grad_of(v[i]), 8));
}
END_TEST

/* A leaf that no longer requires grad gets no gradient from an older graph. If it requires grad
 * again, the older graph leads to it again. */
START_TEST(test_frozen_leaf) {
    for (int again = 0; again < 2; again++) {
        RG_SCOPE();
        rg_tensor *x = leaf(3), *w = leaf(2), *y = rg_mul(x, w);
        ck_assert_int_ge(rg_register_post_accumulate_grad_hook(x, note, "x"), 0);
        ck_assert_int_ge(rg_register_post_accumulate_grad_hook(w, note, "w"), 0);
        ck_ok(rg_requires_grad_(x, false));
        ck_ok(!again || rg_requires_grad_(x, true));
        ck_ok(rg_backward(y));
        ck_assert(says(again ? "x2 w3 " : "w3 "));
        ck_assert(again ? is(rg_grad_of(x), 2) : rg_grad_of(x) == RG_NONE);
    }
}
END_TEST

static rg_tensor *ten_times(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 10);
}

/* As in torch, a retained gradient is what is left after all hooks of the tensor, whether they were
 * registered before rg_retain_grad or after it. */
START_TEST(test_hooks_come_before_retaining) {
    for (int last = 0; last < 2; last++) {
        rg_tensor *x = rg_requires_grad_(rg_ones(1), true), *y = rg_mul(x, 2);
        if (last)
            ck_assert_int_eq(rg_register_hook(y, ten_times, NULL), 0);
        ck_ok(rg_retain_grad(y));
        ck_assert_int_eq(rg_register_hook(y, ten_times, NULL), last);
        ck_ok(rg_backward(rg_sum(rg_mul(y, 3))));
        ck_assert(is(rg_grad_of(y), last ? 300 : 30) && is(rg_grad_of(x), last ? 600 : 60));
    }
}
END_TEST

/* rg_retain_grad does nothing for a leaf, whatever hooks it has. It works for other tensors. */
START_TEST(test_leaves_retain_nothing) {
    RG_SCOPE();
    rg_tensor *x = leaf(3), *h = rg_mul(x, 2);
    ck_assert_int_ge(rg_register_post_accumulate_grad_hook(x, note, "x"), 0);
    ck_assert_int_ge(rg_register_hook(x, note_before, "h"), 0);
    ck_ok(rg_retain_grad(x));
    ck_assert(!rg_retains_grad(x) && !rg_retains_grad(h));
    ck_ok(rg_retain_grad(h));
    ck_assert(rg_retains_grad(h));
    /* A view that isn't recorded is a leaf, too. */
    RG_NO_GRAD();
    rg_tensor *v = rg_view(x, 1, 1);
    ck_ok(rg_requires_grad(v) && rg_is_leaf(v) && rg_retain_grad(v));
    ck_assert(!rg_retains_grad(v));
}
END_TEST

/* A hook that can't be registered gets the number -1. */
START_TEST(test_numbers_of_hooks) {
    RG_SCOPE();
    rg_tensor *x = leaf(3), *plain = rg_ones(2), *h = rg_mul(x, 2);
    ck_assert_int_eq(rg_register_post_accumulate_grad_hook(NULL, note, ""), -1);
    ck_assert_int_eq(rg_register_post_accumulate_grad_hook(x, NULL, ""), -1);
    ck_assert_int_eq(rg_register_post_accumulate_grad_hook(plain, note, ""), -1);
    ck_assert_int_eq(rg_register_post_accumulate_grad_hook(h, note, ""), -1);
    ck_assert_int_eq(rg_register_hook(NULL, note_before, ""), -1);
    ck_assert_int_eq(rg_register_hook(x, NULL, ""), -1);
    ck_assert_int_eq(rg_register_hook(plain, note_before, ""), -1);
    for (int64_t fail = 1, id = -1; id < 0; fail++) {
        rg_memory_fail_at(fail);
        id = rg_register_post_accumulate_grad_hook(x, note, "");
        rg_memory_fail_at(0);
        ck_assert(id == (rg_error_code() == RG_OK ? 0 : -1));
        rg_error_clear();
    }
    /* rg_remove_hook fails if no hook has the number, however many hooks there are. */
    for (int n = 1; n < 40; n++) {
        ck_assert_int_eq(rg_register_post_accumulate_grad_hook(x, note, ""), n);
        ck_fails(rg_remove_hook(x, n + 1), RG_RUNTIME_ERROR, "the tensor has no hook");
        ck_fails(rg_remove_hook(x, -1), RG_RUNTIME_ERROR, "the tensor has no hook");
    }
}
END_TEST

static bool all_of_it(void) {
    RG_SCOPE();
    rg_tensor *x = leaf(3), *w = leaf(2);
    if (!x || !w)
        return false;
    rg_tensor *y = rg_mul(rg_mul(x, w), 2);
    calls[0] = '\0';
    bool ok = rg_register_post_accumulate_grad_hook(x, note, "x") >= 0
              && rg_register_post_accumulate_grad_hook(w, note, "w") >= 0;
    if (ok && !rg_backward(y, .retain_graph = true)) {
        ok = false;
        ck_assert(rg_grad_of(x) == RG_NONE && rg_grad_of(w) == RG_NONE && !calls[0]);
    }
    return ok && rg_backward(y, .inputs = RG_LIST(w)) && is(rg_grad_of(w), 12);
}

START_TEST(test_without_memory) { ck_assert_int_ge(deny_in_turn(all_of_it, NULL), 10); }
END_TEST

/* A leaf whose gradient has its strides keeps that gradient, without a copy. */
START_TEST(test_gradients_of_turned_leaves_are_not_copied) {
    int64_t peak[2];
    for (int turned = 0; turned < 2; turned++) {
        RG_SCOPE();
        rg_tensor *x = rg_ones(512, 512);
        x = rg_requires_grad_(turned ? rg_T(x) : x, true);
        rg_tensor *loss = rg_sum(rg_exp(x));
        rg_memory_reset_peak();
        const int64_t before = rg_memory_stats().now;
        ck_ok(rg_backward(loss));
        peak[turned] = rg_memory_stats().peak - before;
        ck_assert_int_eq(rg_stride(rg_grad_of(x), turned), 512);
    }
    ck_assert_int_eq(peak[1], peak[0]);
}
END_TEST

RG_TESTS(accumulate, test_inputs, test_what_is_not_asked_for, test_inputs_with_a_graph,
         test_inputs_refused, test_after, test_order, test_steps_in_backward, test_odd_hooks,
         test_a_hook_fails_before_others, test_frozen_leaf,
         test_hooks_come_before_retaining, test_leaves_retain_nothing, test_numbers_of_hooks,
         test_without_memory, test_gradients_of_turned_leaves_are_not_copied)
