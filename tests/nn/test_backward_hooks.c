/* test_backward_hooks.c: full backward hooks of modules are called when PyTorch's are, with the
 * same gradients. Each line of calls is what a Python program with the same hooks printed. */
#include "tests/test.h"
#include "regard.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- what is called ---------------------------------------------------------------------- */

static char calls[1024];

static void say(const char *text) {
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s", text);
}

static void say_tensor(rg_tensor *t) {
    char number[32];
    if (t == RG_NONE)
        say("None");
    for (int64_t i = 0; t != RG_NONE && i < rg_numel(t); i++) {
        snprintf(number, sizeof number, i ? ",%g" : "%g", rg_at(rg_detach(t), i));
        say(number);
    }
}

/* Returns whether calls[] has this text, and clears calls[]. */
static bool called(const char *text) {
    const bool same = strcmp(calls, text) == 0;
    if (!same)
        printf("called: %s\n", calls);
    calls[0] = '\0';
    return same;
}

/* The context of a hook. The hook notes its name, and multiplies the gradient by `times` unless
 * `times` is 0. */
typedef struct {
    const char *name;
    double times;
} hook;

static bool full(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *context) {
    const hook *h = context;
    (void)m;
    say(h->name);
    say("(");
    for (int i = 0; i < n; i++) {
        say(i ? " " : "");
        say_tensor(grad_input[i]);
        if (h->times != 0 && grad_input[i] != RG_NONE)
            grad_input[i] = rg_mul(grad_input[i], h->times);
    }
    say("|");
    say_tensor(grad);
    say(") ");
    return rg_error_code() == RG_OK;
}

static rg_tensor *pre(rg_module *m, rg_tensor *grad, void *context) {
    const hook *h = context;
    (void)m;
    say(h->name);
    say("[");
    say_tensor(grad);
    say("] ");
    if (rg_error_code() != RG_OK)
        return NULL;
    return h->times == 0 ? RG_NONE : rg_mul(grad, h->times);
}

/* ---- modules ----------------------------------------------------------------------------- */

typedef struct {
    rg_module base;
} Product;

static rg_tensor *product1(rg_module *m, rg_tensor *a) {
    (void)m;
    return rg_mul(a, 3);
}

static rg_tensor *product2(rg_module *m, rg_tensor *a, rg_tensor *b) {
    return b == RG_NONE ? product1(m, a) : rg_mul(rg_mul(a, b), 2);
}

static rg_tensor *product3(rg_module *m, rg_tensor *a, rg_tensor *b, rg_tensor *c) {
    (void)c;
    return product2(m, a, b);
}

static const rg_module_class product_class = {
    .name = "Product", .forward = product1, .forward2 = product2, .forward3 = product3
};

typedef struct {
    rg_module base;
    rg_tensor *w;
} Scale;

/* A forward is never called without its input. */
static rg_tensor *scale_forward(rg_module *m, rg_tensor *x) {
    ck_assert(x != NULL);
    return rg_mul(x, ((Scale *)m)->w);
}

static const rg_module_class scale_class = { .name = "Scale", .forward = scale_forward };

static rg_tensor *in_place_forward(rg_module *m, rg_tensor *x) {
    (void)m;
    return rg_mul_(x, 2);
}

static const rg_module_class in_place_class = { .name = "InPlace", .forward = in_place_forward };

static rg_module *product(void) {
    Product *self = RG_MODULE(Product, &product_class);
    return RG_READY(&self->base);
}

static Scale *scale(void) {
    Scale *self = RG_MODULE(Scale, &scale_class);
    RG_PARAMETER(self, w, rg_literal_as(RG_FLOAT32, [ 2, 3 ]));
    return RG_READY(self);
}

static bool back(rg_tensor *y) { return rg_backward(rg_sum(y)); }

/* Returns whether the gradient of t is (a, b), and clears the gradient. */
static bool grad_is(rg_tensor *t, double a, double b) {
    rg_tensor *g = rg_grad_of(t);
    const bool same = g != RG_NONE && rg_at(g, 0) == a && rg_at(g, 1) == b;
    if (!same)
        printf("the gradient is %s\n", g == RG_NONE ? "none" : rg_repr(g));
    return rg_set_grad(t, RG_NONE) && same;
}

#define VECTOR(...) rg_literal_as(RG_FLOAT32, [__VA_ARGS__])

START_TEST(test_calls) {
    RG_SCOPE();
    static hook a = { "A", 0 }, b = { "B", 10 }, p = { "P", 0 }, q = { "Q", 2 };
    rg_module *m = product();
    ck_assert_int_ge(rg_register_full_backward_hook(m, full, &a), 0);
    ck_assert_int_ge(rg_register_full_backward_pre_hook(m, pre, &p), 0);
    ck_assert_int_ge(rg_register_full_backward_hook(m, full, &b), 0);
    ck_assert_int_ge(rg_register_full_backward_pre_hook(m, pre, &q), 0);
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true), *k = VECTOR(5, 6);
    rg_tensor *z = rg_requires_grad_(VECTOR(3, 4), true);
    rg_tensor *y = rg_call(m, x), *sum = rg_sum(y);
    ck_assert_str_eq(rg_grad_fn(y), "BackwardHookFunctionBackward");
    ck_ok(rg_backward(sum, .retain_graph = true));
    ck_assert(called("P[1,1] Q[1,1] A(6,6|2,2) B(6,6|2,2) ") && grad_is(x, 60, 60));
    ck_ok(rg_backward(sum));
    ck_assert(called("P[1,1] Q[1,1] A(6,6|2,2) B(6,6|2,2) ") && grad_is(x, 60, 60));
    ck_ok(back(rg_call(m, x, z)));
    ck_assert(called("P[1,1] Q[1,1] A(12,16 4,8|2,2) B(12,16 4,8|2,2) "));
    ck_assert(grad_is(x, 120, 160) && grad_is(z, 40, 80));
    ck_ok(back(rg_call(m, x, k)));
    ck_assert(called("P[1,1] Q[1,1] A(20,24 0,0|2,2) B(20,24 0,0|2,2) "));
    ck_assert(grad_is(x, 200, 240) && rg_grad_of(k) == RG_NONE);
    ck_ok(back(rg_call(m, x, RG_NONE, k)));
    ck_assert(called("P[1,1] Q[1,1] A(6,6 None 0,0|2,2) B(6,6 None 0,0|2,2) "));
    ck_assert(grad_is(x, 60, 60));
    ck_assert(!rg_requires_grad(rg_call(m, k, k, x)) && called(""));
    ck_ok(back(rg_call(m, x, k, z)));
    ck_assert(called("P[1,1] Q[1,1] A(20,24 0,0 0,0|2,2) B(20,24 0,0 0,0|2,2) "));
    ck_assert(grad_is(x, 200, 240) && grad_is(z, 0, 0));
    ck_ok(back(rg_call(m, x, x)));
    ck_assert(called("P[1,1] Q[1,1] A(4,8 4,8|2,2) B(4,8 4,8|2,2) ") && grad_is(x, 80, 160));
    /* The backward run from g doesn't pass through the result of the module's call, so it calls no
     * hook. */
    rg_tensor *g = rg_grad(rg_sum(rg_call(m, x, z)), x, .create_graph = true);
    ck_assert(called("P[1,1] Q[1,1] A(12,16 4,8|2,2) B(12,16 4,8|2,2) "));
    ck_assert(rg_at(rg_detach(g), 1) == 160);
    ck_ok(back(g));
    ck_assert(called("") && grad_is(x, 0, 0) && grad_is(z, 40, 40));
    g = rg_grad(rg_sum(rg_call(m, x, z)), z);
    ck_assert(called("P[1,1] Q[1,1] A(12,16 4,8|2,2) B(12,16 4,8|2,2) ") && rg_at(g, 1) == 80);
    {
        RG_NO_GRAD();
        ck_assert_str_eq(rg_grad_fn(rg_call(m, x)), "");
    }
    ck_assert(rg_live_tensors() > 0 && called(""));
    rg_module_free(m);
}
END_TEST

static int warnings;

static void count_warning(const char *sentence) {
    warnings += strstr(sentence, "Full backward hook is firing when gradients are computed with "
                                 "respect to module outputs since no inputs require gradients.")
                != NULL;
}

START_TEST(test_parameters) {
    RG_SCOPE();
    static hook l = { "L", 0 }, p = { "P", 2 };
    Scale *s = scale();
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true), *k = VECTOR(5, 6);
    const int id = rg_register_full_backward_hook(&s->base, full, &l);
    ck_assert_int_ge(rg_register_full_backward_pre_hook(&s->base, pre, &p), 0);
    rg_warning_handler *before = rg_on_warning(count_warning);
    ck_ok(back(rg_call(s, k)));
    rg_on_warning(before);
    ck_assert_int_eq(warnings, 1);
    ck_assert(called("P[1,1] L(None|2,2) ") && grad_is(s->w, 10, 12));
    /* A backward run calls the hooks that the module had when it was called. */
    rg_tensor *y = rg_call(s, x);
    ck_ok(rg_remove_forward_hook(&s->base, id));
    ck_ok(back(y));
    ck_assert(called("P[1,1] L(4,6|2,2) ") && grad_is(x, 4, 6) && grad_is(s->w, 2, 4));
    rg_register_full_backward_hook(&s->base, full, &l);
    ck_ok(rg_grad(rg_sum(rg_call(s, x)), s->w));
    ck_assert(called("P[1,1] "));
    rg_module_free(s);
}
END_TEST

START_TEST(test_nested) {
    RG_SCOPE();
    static hook a = { "a", 0 }, b = { "b", 0 }, s = { "S", 0 };
    Scale *first = scale();
    rg_module *second = product();
    void *both = rg_nn_sequential(first, second);
    rg_register_full_backward_hook(&first->base, full, &a);
    rg_register_full_backward_hook(second, full, &b);
    rg_register_full_backward_hook(both, full, &s);
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true);
    ck_ok(back(rg_call(both, x)));
    ck_assert(called("b(3,3|1,1) a(6,9|3,3) S(6,9|1,1) "));
    void *copy = rg_deepcopy(both);
    ck_ok(back(rg_call(copy, x)));
    ck_assert(called("b(3,3|1,1) a(6,9|3,3) S(6,9|1,1) "));
    ck_fails(rg_add_(rg_call(both, x), 1), RG_RUNTIME_ERROR,
             "Output 0 of BackwardHookFunction is a view and is being modified inplace");
    rg_module_free(copy);
    rg_module_free(both);
}
END_TEST

/* The gradient of the result is kept until the gradients of the inputs have been computed. If a run
 * never computes them, the next run replaces the kept gradient. At the end, no gradient is kept. */
START_TEST(test_gradients_that_wait) {
    static hook f = { "F", 0 };
    Scale *s = scale();
    rg_register_full_backward_hook(&s->base, full, &f);
    const int64_t alive = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true), *y = rg_sum(rg_call(s, x));
        for (int i = 0; i < 3; i++)
            ck_ok(rg_grad(y, s->w, .retain_graph = true));
        ck_assert(called(""));
        ck_ok(rg_grad(y, x));
        ck_assert(called("F(2,3|1,1) "));
    }
    ck_assert_int_eq(rg_live_tensors(), alive);
    rg_module_free(s);
}
END_TEST

static rg_tensor *sees_forward(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    say(context);
    say(y == RG_NONE ? "< " : "> ");
    return RG_NONE;
}

/* A module has hooks of all four kinds, and each hook is called at its own time. */
START_TEST(test_all_kinds) {
    static hook f = { "F", 0 }, p = { "P", 2 };
    rg_module *m = product();
    rg_register_forward_hook(m, sees_forward, "after");
    rg_register_full_backward_hook(m, full, &f);
    rg_register_forward_pre_hook(m, sees_forward, "before");
    rg_register_full_backward_pre_hook(m, pre, &p);
    rg_register_forward_hook(m, sees_forward, "last");
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true);
    ck_ok(back(rg_call(m, x)));
    ck_assert(called("before< after> last> P[1,1] F(6,6|2,2) ") && grad_is(x, 6, 6));
    rg_module_free(m);
}
END_TEST

static rg_tensor *gives_none(rg_module *m, rg_tensor *x) {
    (void)m;
    (void)x;
    return RG_NONE;
}
static const rg_module_class none_class = { .name = "None", .forward = gives_none };

static rg_tensor *gives_null(rg_module *m, rg_tensor *x) {
    (void)m;
    (void)x;
    return NULL;
}
static const rg_module_class null_class = { .name = "Null", .forward = gives_null };

/* A result that needs no gradient is returned as it is, although the module has a hook. */
START_TEST(test_results_without_gradients) {
    static hook f = { "F", 0 };
    rg_module *none = RG_READY(&RG_MODULE(Product, &none_class)->base);
    rg_module *same = &rg_nn_identity()->base;
    rg_register_full_backward_hook(none, full, &f);
    rg_register_full_backward_hook(same, full, &f);
    rg_tensor *x = VECTOR(1, 2), *w = rg_requires_grad_(VECTOR(3, 4), true);
    ck_assert(rg_call(none, x) == RG_NONE && rg_call(none, w) == RG_NONE);
    ck_assert(rg_call(same, x) == x && rg_call(same, w) != w);
    {
        RG_NO_GRAD();
        ck_assert(rg_call(same, w) == w);
    }
    ck_assert(rg_error_code() == RG_OK && called(""));
    rg_module *failed = RG_READY(&RG_MODULE(Product, &null_class)->base);
    rg_register_full_backward_hook(failed, full, &f);
    ck_fails(rg_call(failed, w), RG_TYPE_ERROR,
             "Null: expected a tensor of forward and its hooks but got NULL");
    rg_module_free(failed);
    rg_module_free(none);
    rg_module_free(same);
}
END_TEST

/* ---- hooks that go wrong ------------------------------------------------------------------ */

static bool other_size(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *c) {
    (void)m;
    (void)n;
    (void)grad;
    (void)c;
    grad_input[0] = rg_ones(5);
    return true;
}

static bool broken(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *c) {
    (void)m;
    (void)n;
    (void)c;
    grad_input[0] = rg_reshape(grad, 7, 7);
    return c == NULL;
}

static bool refuses(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *c) {
    (void)m;
    (void)n;
    (void)grad_input;
    (void)grad;
    (void)c;
    return rg_fail(RG_VALUE_ERROR, "refuses", "it is refused");
}

static rg_tensor *other_size_pre(rg_module *m, rg_tensor *grad, void *context) {
    (void)m;
    (void)grad;
    return context ? NULL : rg_ones(5);
}

static bool other_dtype(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *c) {
    (void)m;
    (void)n;
    (void)c;
    grad_input[0] = rg_double(grad);
    return true;
}

static rg_tensor *other_dtype_pre(rg_module *m, rg_tensor *grad, void *context) {
    (void)m;
    (void)context;
    return rg_double(grad);
}

START_TEST(test_dtypes_stay) {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true);
    rg_module *m = &scale()->base;
    int id = rg_register_full_backward_hook(m, other_dtype, NULL);
    ck_fails(back(rg_call(m, x)), RG_RUNTIME_ERROR,
             "hook 'full_backward_hook' has changed the type of value (was torch.float32 got "
             "torch.float64)");
    ck_ok(rg_remove_forward_hook(m, id));
    id = rg_register_full_backward_pre_hook(m, other_dtype_pre, NULL);
    ck_fails(back(rg_call(m, x)), RG_RUNTIME_ERROR,
             "hook 'full_backward_pre_hook' has changed the type of value (was torch.float32 got "
             "torch.float64)");
    rg_module_free(m);
}
END_TEST

START_TEST(test_errors) {
    RG_SCOPE();
    static hook h = { "h", 3 };
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true), *k = VECTOR(5, 6);
    Scale *s = scale();
    rg_module *m = &s->base;
    int id = rg_register_full_backward_hook(m, other_size, NULL);
    ck_fails(back(rg_call(m, x)), RG_RUNTIME_ERROR,
             "hook 'full_backward_hook' has changed the size of value");
    ck_fails(back(rg_call(m, k)), RG_RUNTIME_ERROR,
             "Backward hook for Modules where no input requires gradient should always return None "
             "or None for all gradients.");
    ck_ok(rg_remove_forward_hook(m, id));
    for (int way = 0; way < 2; way++) {
        id = rg_register_full_backward_hook(m, broken, way ? &h : NULL);
        ck_fails(back(rg_call(m, x)), RG_RUNTIME_ERROR, "is invalid for input of size 2");
        ck_fails(back(rg_call(m, k)), RG_RUNTIME_ERROR, "is invalid for input of size 2");
        ck_ok(rg_remove_forward_hook(m, id));
    }
    id = rg_register_full_backward_hook(m, refuses, NULL);
    ck_fails(back(rg_call(m, x)), RG_VALUE_ERROR, "refuses: it is refused");
    ck_fails(back(rg_call(m, k)), RG_VALUE_ERROR, "refuses: it is refused");
    ck_ok(rg_remove_forward_hook(m, id));
    id = rg_register_full_backward_pre_hook(m, other_size_pre, NULL);
    ck_fails(back(rg_call(m, x)), RG_RUNTIME_ERROR,
             "hook 'full_backward_pre_hook' has changed the size of value");
    ck_ok(rg_remove_forward_hook(m, id));
    id = rg_register_full_backward_pre_hook(m, other_size_pre, &h);
    ck_assert(!back(rg_call(m, x)));
    rg_error_clear();
    ck_assert(rg_grad_of(x) == RG_NONE && rg_grad_of(s->w) == RG_NONE);
    ck_ok(rg_remove_forward_hook(m, id));
    ck_fails(rg_remove_forward_hook(m, id), RG_VALUE_ERROR, "the module has no hook");
    ck_fails(rg_register_full_backward_hook(m, NULL, NULL) >= 0, RG_TYPE_ERROR,
             "register_full_backward_hook: expected a function but got NULL");
    ck_fails(rg_register_full_backward_pre_hook(NULL, pre, NULL) >= 0, RG_TYPE_ERROR,
             "expected a module but got NULL");
    /* If a module has a backward hook, its result can't be written to in place. Inside its forward,
     * its input can't be written to, either. */
    rg_register_full_backward_hook(m, full, &h);
    ck_fails(rg_mul_(rg_call(m, x), 2), RG_RUNTIME_ERROR, "is being modified inplace");
    rg_module *w = RG_READY(&RG_MODULE(Product, &in_place_class)->base);
    rg_register_full_backward_hook(w, full, &h);
    ck_fails(rg_call(w, rg_mul(x, 1)), RG_RUNTIME_ERROR, "is being modified inplace");
    /* A call that is never differentiated, and one whose graph is dropped, leave nothing. */
    ck_ok(rg_call(m, x));
    rg_module_free(w);
    rg_module_free(m);
}
END_TEST

/* Calls the module and runs backward, while requests for memory are denied in turn. */
static bool all_hooked(rg_module *m, rg_tensor *x) {
    RG_SCOPE();
    calls[0] = '\0';
    rg_tensor *y = rg_call(m, x);
    return y && back(y) && rg_set_grad(x, RG_NONE);
}

START_TEST(test_without_memory) {
    static hook h = { "h", 3 };
    RG_SCOPE();
    Scale *s = scale();
    rg_tensor *x = rg_requires_grad_(VECTOR(1, 2), true);
    rg_register_full_backward_hook(&s->base, full, &h);
    rg_register_full_backward_pre_hook(&s->base, pre, &h);
    bool done = false;
    ck_assert(all_hooked(&s->base, x));
    rg_set_grad(s->w, RG_NONE);
    const int64_t alive = rg_live_tensors(), other = rg_memory_stats().other;
    for (int n = 1; !done; n++) {
        rg_error_clear();
        rg_memory_fail_at(n);
        done = all_hooked(&s->base, x);
        rg_memory_fail_at(0);
        rg_set_grad(s->w, RG_NONE);
        ck_assert_msg(done != (rg_error_code() == RG_OUT_OF_MEMORY), "request %d: %s", n,
                      rg_error());
        ck_assert_int_eq(rg_live_tensors(), alive);
        ck_assert_int_eq(rg_memory_stats().other, other);
        ck_assert_int_lt(n, 1000);
    }
    rg_module_free(s);
}
END_TEST

/* The ops that call the hooks are made once, and stay in memory until the program ends. */
__attribute__((constructor)) static void ops_stay(void) { rg_memory_may_stay = 1; }

/* Registering and removing a hook 2,000 times takes no more memory than doing so 20 times. */
START_TEST(test_hooks_that_come_and_go) {
    Scale *s = scale();
    int64_t room = 0;
    ck_assert(rg_register_full_backward_pre_hook(&s->base, pre, NULL) >= 0);
    for (int i = 0; i < 2000; i++) {
        const int id = rg_register_full_backward_pre_hook(&s->base, pre, NULL);
        ck_ok(rg_remove_forward_hook(&s->base, id));
        if (i == 20)
            room = rg_memory_stats().other;
    }
    ck_assert_int_eq(rg_memory_stats().other, room);
    rg_module_free(s);
}
END_TEST

RG_TESTS(backward_hooks, test_dtypes_stay, test_hooks_that_come_and_go, test_calls, test_parameters,
         test_nested, test_gradients_that_wait, test_all_kinds, test_results_without_gradients,
         test_errors, test_without_memory)
