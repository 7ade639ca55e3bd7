/*
 * test_frozen.c: leaves whose requires_grad is set to false and to true again keep their gradients
 * and hooks. The expected numbers are PyTorch's.
 */
#include "regard.h"
#include "tests/in_turn.h"
#include "tests/test.h"

static rg_tensor *ones(void) { return rg_requires_grad_(rg_ones(2), true); }

/* Runs backward through the sum of factor * w. */
static bool go_back(rg_tensor *w, double factor) { return rg_backward(rg_sum(rg_mul(w, factor))); }

/* Returns the first element of w's gradient, or NaN if w has none. */
static double grad(rg_tensor *w) {
    rg_tensor *g = rg_grad_of(w);
    return g == RG_NONE ? NAN : rg_item(rg_select(g, 0, 0));
}

static rg_tensor *doubled(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 2);
}

static bool count(rg_tensor *t, void *calls) {
    (void)t;
    ++*(int *)calls;
    return true;
}

START_TEST(test_gradient_and_hooks_stay) {
    int calls = 0;
    rg_tensor *w = ones();
    const int id = rg_register_hook(w, doubled, NULL);
    rg_register_post_accumulate_grad_hook(w, count, &calls);
    ck_ok(go_back(w, 1));
    ck_ok(rg_requires_grad_(w, false));
    ck_assert(!rg_requires_grad(w) && rg_is_leaf(w) && grad(w) == 2);
    ck_fails(rg_register_hook(w, doubled, NULL) >= 0, RG_RUNTIME_ERROR,
             "register_hook: cannot register a hook on a tensor that doesn't require gradient");
    ck_ok(rg_requires_grad_(w, true));
    ck_ok(go_back(w, 1));
    ck_assert(grad(w) == 4 && calls == 2);
    ck_ok(rg_requires_grad_(w, false));
    ck_ok(rg_remove_hook(w, id));
    ck_ok(rg_requires_grad_(w, true));
    ck_ok(go_back(w, 3));
    ck_assert(grad(w) == 7 && calls == 3);
    ck_ok(rg_detach_(w));
    ck_assert(!rg_requires_grad(w) && grad(w) == 7);
    ck_ok(rg_requires_grad_(w, true));
    ck_ok(go_back(w, 3));
    ck_assert(grad(w) == 10 && calls == 4);
}
END_TEST

/* A leaf is frozen after a graph that leads to it was made. A backward run through the graph adds
 * nothing to the leaf's gradient while the leaf is frozen. Once it requires grad again, a run adds
 * to it. */
START_TEST(test_graphs_of_before) {
    rg_tensor *w = ones();
    rg_tensor *y = rg_sum(rg_mul(w, 2));
    ck_ok(rg_requires_grad_(w, false));
    ck_ok(rg_backward(y, .retain_graph = true));
    ck_assert(rg_grad_of(w) == RG_NONE);
    ck_fails(rg_grad(y, w, .retain_graph = true), RG_RUNTIME_ERROR,
             "grad: One of the differentiated Tensors does not require grad");
    ck_ok(rg_requires_grad_(w, true));
    ck_ok(rg_backward(y));
    ck_assert(grad(w) == 2);
}
END_TEST

START_TEST(test_gradient_is_used) {
    rg_tensor *w = ones();
    ck_ok(go_back(w, 1));
    ck_ok(rg_requires_grad_(w, false));
    rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 0.5);
    ck_ok(rg_optim_step(o));
    ck_assert(rg_item(rg_select(w, 0, 0)) == 0.5);
    ck_assert(fabs(rg_item(rg_clip_grad_norm_(RG_LIST(w), 0.1)) - 1.4142) < 1e-4);
    ck_assert(fabs(grad(w) - 0.0707) < 1e-4);
    ck_ok(rg_optim_zero_grad(o));
    ck_assert(rg_grad_of(w) == RG_NONE);
    rg_optim_free(o);
}
END_TEST

START_TEST(test_gradients_that_are_set) {
    rg_tensor *x = rg_ones(2), *n = rg_to(rg_ones(2), RG_INT64);
    ck_ok(rg_set_grad(x, rg_full(RG_DIMS(2), 3.0)));
    ck_assert(grad(x) == 3 && !rg_requires_grad(x));
    ck_ok(rg_set_grad(n, rg_clone(n)));
    ck_assert(grad(n) == 1);
    ck_ok(go_back(rg_requires_grad_(x, true), 2));
    ck_assert(grad(x) == 5);
    ck_ok(rg_set_grad(x, RG_NONE));
    ck_assert(rg_grad_of(x) == RG_NONE);
    rg_tensor *y = rg_mul(x, 2);
    ck_fails(rg_set_grad(y, rg_ones(2)), RG_RUNTIME_ERROR,
             "set_grad: the tensor neither is a leaf nor retains its grad");
    ck_ok(rg_retain_grad(y));
    ck_ok(rg_backward(rg_sum(y)));
    ck_ok(rg_detach_(y));
    ck_assert(rg_is_leaf(y) && !rg_requires_grad(y) && grad(y) == 1);
}
END_TEST

/* The name of a tensor, and what a leaf keeps while it is frozen, are in one struct
 * (tensor/text/label.h). Changing the name doesn't lose the gradient, even if the tensor is a view.
 */
START_TEST(test_names_and_views) {
    rg_tensor *w = rg_requires_grad_(rg_detach(rg_select(rg_ones(3, 2), 0, 1)), true);
    ck_ok(rg_set_name(w, "w"));
    ck_ok(go_back(w, 1));
    ck_ok(rg_requires_grad_(w, false));
    ck_assert_str_eq(rg_name(w), "w");
    ck_ok(rg_set_name(w, "a longer name"));
    ck_assert(grad(w) == 1);
    ck_ok(rg_set_name(w, NULL));
    ck_assert(grad(w) == 1);
    ck_assert_str_eq(rg_name(w), "");
    ck_ok(rg_set_name(w, "v"));
    ck_ok(rg_requires_grad_(w, true));
    ck_ok(go_back(w, 1));
    ck_assert_str_eq(rg_name(w), "v");
    ck_assert(grad(w) == 2);
    ck_ok(rg_set_data(w, rg_full(RG_DIMS(2), 5.0)));
    ck_ok(rg_requires_grad_(w, false));
    ck_ok(rg_set_data(w, rg_to(rg_ones(2), RG_INT64)));
    ck_assert(rg_grad_of(w) == RG_NONE);
    ck_fails(rg_requires_grad_(w, true), RG_RUNTIME_ERROR,
             "requires_grad_: only Tensors of floating point dtype can require gradients");
    ck_ok(rg_set_data(w, rg_to(rg_ones(2), RG_FLOAT64)));
    ck_ok(go_back(rg_requires_grad_(w, true), 1));
    ck_assert(grad(w) == 1 && rg_dtype_of(rg_grad_of(w)) == RG_FLOAT64);
}
END_TEST

/* If the gradient of a frozen leaf has a graph that leads back to the leaf, both are still
 * released. */
START_TEST(test_released) {
    const int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *w = ones();
        ck_ok(rg_backward(rg_sum(rg_mul(rg_mul(w, w), w)), .create_graph = true));
        ck_ok(rg_requires_grad_(w, false));
        ck_assert(grad(w) == 3);
        ck_ok(rg_set_grad(rg_ones(2), rg_ones(2)));
    }
    ck_assert(rg_live_tensors() == before);
}
END_TEST

static bool freeze_and_thaw(void) {
    rg_tensor *w = ones(), *x = rg_ones(2);
    return go_back(w, 1) && rg_requires_grad_(w, false) && rg_set_name(w, "w")
           && rg_requires_grad_(w, true) && go_back(w, 1) && rg_detach_(w) && grad(w) == 2
           && rg_set_grad(x, rg_ones(2)) && grad(x) == 1;
}

START_TEST(test_memory_denied) { ck_assert(deny_in_turn(freeze_and_thaw, NULL) > 10); }
END_TEST

/* Adds a gradient penalty to w's gradient. A recording of this step has tensor structs besides w
 * that belong to the same leaf. */
static void penalty(void *w) {
    rg_tensor *g = rg_grad(rg_sum(rg_pow(w, 3.)), w, .create_graph = true);
    rg_backward(rg_sum(rg_square(g)));
}

START_TEST(test_other_headers_of_the_leaf) {
    rg_tensor *w = ones();
    rg_replay *r = rg_record(penalty, w);
    ck_ok(r);
    rg_tensor *before = rg_sum(rg_mul(w, 100.));
    ck_ok(rg_requires_grad_(w, false));
    ck_ok(rg_backward(before));
    ck_assert(grad(w) == 36);
    rg_replay_free(r);
    ck_assert(grad(w) == 36);
    ck_ok(go_back(rg_requires_grad_(w, true), 1));
    ck_assert(grad(w) == 37);
}
END_TEST

/* ---- in recorded steps --------------------------------------------------------------------- */

/* Adds two gradients to w's, and freezes w between them, for a while or for good. */
static rg_tensor *w_recorded;
static bool stays_frozen;
static void recorded_step(void *context) {
    (void)context;
    rg_tensor *w = w_recorded;
    rg_set_grad(w, RG_NONE);
    rg_tensor *y = rg_sum(rg_mul(w, 2));
    rg_backward(y, .retain_graph = true);
    rg_requires_grad_(w, false);
    rg_backward(y);
    if (stays_frozen)
        return;
    rg_requires_grad_(w, true);
    go_back(w, 3);
}

START_TEST(test_recorded) {
    w_recorded = ones();
    recorded_step(NULL);
    ck_assert(grad(w_recorded) == 5);
    rg_replay *r = rg_record(recorded_step, NULL);
    ck_ok(r);
    ck_assert(grad(w_recorded) == 5);
    for (int i = 0; i < 3; i++) {
        ck_ok(rg_replay_run(r));
        ck_each(grad(w_recorded) == 5, "run %d: %g", i, grad(w_recorded));
    }
    rg_replay_free(r);
}
END_TEST

START_TEST(test_recorded_for_good) {
    w_recorded = ones();
    stays_frozen = true;
    ck_fails(rg_record(recorded_step, NULL), RG_RUNTIME_ERROR,
             "record: requires_grad of a tensor is true at the beginning of the step, and false at "
             "its end");
    stays_frozen = false;
}
END_TEST

/* Sets requires_grad of all parameters. A call that fails must have changed none of them, and all
 * must have kept their gradients. Some parameters have a name or a hook, and one is frozen
 * before. */
static bool set_all(void *m, bool on) {
    rg_list all = rg_parameters(m);
    bool before[8];
    if (all.n < 0)
        return false;
    for (int i = 0; i < all.n; i++)
        before[i] = rg_requires_grad(all.v[i]);
    const bool done = rg_module_requires_grad_(m, on);
    for (int i = 0; i < all.n; i++) {
        ck_assert_msg(rg_requires_grad(all.v[i]) == (done ? on : before[i]), "parameter %d", i);
        ck_assert((rg_grad_of(all.v[i]) == RG_NONE) == (i == 2));
    }
    return done;
}

static bool freeze_all(void) {
    rg_sequential *m = rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_relu(), rg_nn_linear(2, 2));
    if (!m)
        return false;
    rg_linear_module *first = (rg_linear_module *)m->v[0], *second = (rg_linear_module *)m->v[2];
    const bool made = rg_set_name(first->bias, "bias")
                      && rg_register_hook(first->weight, doubled, NULL) >= 0
                      && rg_requires_grad_(second->weight, false)
                      && rg_backward(rg_sum(rg_call(m, rg_ones(3, 2))));
    const bool set = made && set_all(m, false) && set_all(m, true);
    rg_module_free(m);
    return set;
}

START_TEST(test_all_or_none) { ck_assert(deny_in_turn(freeze_all, NULL) > 10); }
END_TEST

RG_TESTS(frozen, test_gradient_and_hooks_stay, test_all_or_none, test_graphs_of_before,
         test_gradient_is_used, test_gradients_that_are_set, test_names_and_views, test_released,
         test_memory_denied, test_other_headers_of_the_leaf, test_recorded,
         test_recorded_for_good)
