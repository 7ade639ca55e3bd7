/*
 * test_inference.c: inference mode allows, refuses and says what PyTorch does, and gradients of
 * several batches add up to that of one.
 */
#include "tests/test.h"
#include "tests/golden.h"
#include "regard.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The tensors that each case of inference.txt begins with. The script that writes the file
 * describes them. */
typedef struct {
    rg_tensor *w, *n, *computed, *x, *r, *v, *s;
} made;

static rg_tensor *ones(void) { return rg_ones_dims(RG_DIMS(3), RG_FLOAT64); }
static rg_tensor *leaf(void) { return rg_requires_grad_(ones(), true); }

static made make(void) {
    made m = { .w = leaf(), .n = ones() };
    m.computed = rg_mul(m.w, 1);
    RG_INFERENCE_MODE();
    m.x = ones();
    m.r = leaf();
    m.v = rg_view(m.w, 3);
    m.s = rg_view(m.computed, 3);
    return m;
}

static bool product(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mul(in[0], in[1]);
    return rg_save_for_backward(ctx, in[0], in[1]);
}

static bool product_back(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    gin[0] = rg_mul(g[0], rg_saved_tensor(ctx, 1));
    gin[1] = rg_mul(g[0], rg_saved_tensor(ctx, 0));
    return true;
}

static rg_function_class product_class = { .name = "Product",
                                           .forward = product,
                                           .backward = product_back };

static rg_tensor *gradient(rg_tensor *y, rg_tensor *of) {
    return rg_backward(y) ? rg_grad_of(of) : NULL;
}

#define CASE(name, ...) \
    static rg_tensor *case_##name(made m) { __VA_ARGS__ }
#define INSIDE(name, ...) CASE(name, (void)m; RG_INFERENCE_MODE(); __VA_ARGS__)
#define SHORT(name, call) CASE(name, return call;)

SHORT(mul, rg_mul(m.x, m.w))
SHORT(square, rg_mul(m.r, m.r))
SHORT(add, rg_add(m.x, m.w))
SHORT(scaled, rg_mul(m.r, 2))
SHORT(scaled_plain, rg_mul(m.x, 2))
SHORT(view, rg_view(m.x, 3, 1))
SHORT(detach, rg_detach(m.x))
SHORT(clone, rg_clone(m.x))
SHORT(function, rg_function_apply(&product_class, NULL, m.x, m.w))
SHORT(add_, rg_add_(m.x, 1))
CASE(add_no_grad, RG_NO_GRAD(); return rg_add_(m.x, 1);)
INSIDE(add_inside, return rg_add_(m.x, 1);)
SHORT(add_view, rg_add_(rg_view(m.x, 3), 1))
SHORT(add_recorded, rg_add_(m.x, m.w))
SHORT(add_to_normal, rg_add_(m.computed, m.x))
SHORT(mul_to_normal, rg_mul_(m.computed, m.x))
SHORT(fill_, rg_fill_(m.x, 2))
SHORT(zero_, rg_zero_(m.x))
SHORT(copy_, rg_copy_(m.x, m.n))
SHORT(copy_from, rg_copy_(m.n, m.x))
SHORT(normal_, rg_normal_(m.x, 0, 1))
SHORT(set_item, rg_set_item_(m.x, 2, 0))
INSIDE(leaf_inside, return rg_add_(m.w, 1);)
SHORT(requires_grad_, rg_requires_grad_(m.x, true))
SHORT(requires_grad_again, rg_requires_grad_(m.r, true))
SHORT(requires_grad_off, rg_requires_grad_(m.r, false))
INSIDE(requires_grad_inside, return rg_requires_grad_(m.x, true);)
SHORT(backward, gradient(rg_sum(rg_add(m.r, 1)), m.r))
CASE(backward_from, return rg_backward(rg_mul(m.w, 3), .gradient = m.x) ? rg_grad_of(m.w) : NULL;)
INSIDE(backward_inside, return gradient(rg_sum(rg_mul(m.computed, 2)), m.w);)
INSIDE(made_inside, return rg_mul(m.w, 2);)
INSIDE(enable_grad_inside, RG_ENABLE_GRAD(); ck_assert(rg_is_grad_enabled());
       return rg_mul(m.w, 2);)

static rg_tensor *case_normal_inside(made m) {
    RG_INFERENCE_MODE();
    rg_inference_guard normal = rg_inference_guard_open(false);
    ck_assert(rg_is_grad_enabled() && !rg_is_inference_mode_enabled());
    rg_tensor *y = rg_mul(m.w, 2);
    rg_inference_guard_close(&normal);
    ck_assert(!rg_is_grad_enabled() && rg_is_inference_mode_enabled());
    return y;
}

static rg_tensor *case_normal_in_no_grad(made m) {
    RG_NO_GRAD();
    rg_inference_guard normal = rg_inference_guard_open(false);
    rg_tensor *y = rg_mul(m.w, 2);
    rg_inference_guard_close(&normal);
    ck_assert(!rg_is_grad_enabled());
    return y;
}

static rg_tensor *case_accumulate(made m) {
    rg_tensor *y = rg_mul(m.w, 3);
    {
        RG_INFERENCE_MODE();
        ck_ok(rg_backward(y, .gradient = ones()));
    }
    return gradient(rg_sum(rg_mul(m.w, 2)), m.w);
}

static rg_tensor *case_grad_inside(made m) {
    rg_tensor *y = rg_sum(rg_mul(m.w, m.w));
    RG_INFERENCE_MODE();
    return rg_grad(y, m.w, .create_graph = true);
}

static rg_tensor *case_step(made m) {
    rg_set_grad(m.r, ones());
    rg_optim *o = rg_optim_sgd(rg_list_of(1, &m.r), .lr = 0.5);
    bool ok = rg_optim_step(o);
    rg_optim_free(o);
    return ok ? m.r : NULL;
}

SHORT(version, rg_version(m.x) < 0 ? NULL : m.x)
SHORT(view_add_, rg_add_(m.v, 1))
SHORT(view_of_computed_add_, rg_add_(m.s, 1))
CASE(base_written, ck_ok(rg_add_(m.computed, 1)); return rg_mul(m.s, 2);)

static const struct {
    const char *name;
    rg_tensor *(*f)(made m);
} compared[] = {
#define ROW(name) \
    { #name, case_##name }
    ROW(mul),
    ROW(square),
    ROW(add),
    ROW(scaled),
    ROW(scaled_plain),
    ROW(view),
    ROW(detach),
    ROW(clone),
    ROW(function),
    ROW(add_),
    ROW(add_no_grad),
    ROW(add_inside),
    ROW(add_view),
    ROW(add_recorded),
    ROW(add_to_normal),
    ROW(mul_to_normal),
    ROW(fill_),
    ROW(zero_),
    ROW(copy_),
    ROW(copy_from),
    ROW(normal_),
    ROW(set_item),
    ROW(leaf_inside),
    ROW(requires_grad_),
    ROW(requires_grad_again),
    ROW(requires_grad_off),
    ROW(requires_grad_inside),
    ROW(backward),
    ROW(backward_from),
    ROW(backward_inside),
    ROW(made_inside),
    ROW(enable_grad_inside),
    ROW(normal_inside),
    ROW(normal_in_no_grad),
    ROW(accumulate),
    ROW(grad_inside),
    ROW(step),
    ROW(version),
    ROW(view_add_),
    ROW(view_of_computed_add_),
    ROW(base_written),
#undef ROW
};

/* Compares y, or the error, with PyTorch's. Our error has the name of the op in front. */
static void compare(const char *name, rg_tensor *y, golden_file *g) {
    char text[1024];
    snprintf(text, sizeof text, "%s", golden_text(g));
    if (strncmp(text, "ok ", 3)) {
        ck_assert_msg(!y, "%s: no error, but %s", name, text);
        ck_assert_msg(strstr(rg_error(), text), "%s: %s", name, rg_error());
        return;
    }
    ck_assert_msg(y != NULL, "%s: %s", name, rg_error());
    ck_assert_msg(rg_is_inference(y) == (text[3] == '1'), "%s: inference", name);
    ck_assert_msg(rg_requires_grad(y) == (text[5] == '1'), "%s: requires grad", name);
    char *numbers = golden_field(g, ':');
    for (int64_t i = 0; i < rg_numel(y); i++)
        ck_assert_double_eq_tol(rg_at(rg_flatten(y, 0, -1), i), golden_number(&numbers), 1e-12);
}

START_TEST(test_inference_as_in_torch) {
    rg_memory_may_stay = 1; /* The class of an op stays in memory. */
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++) {
        RG_SCOPE();
        golden_file g = golden_find("inference", "%s", compared[i].name);
        rg_error_clear();
        rg_tensor *y = compared[i].f(make());
        compare(compared[i].name, y, &g);
        rg_error_clear();
        golden_close(&g);
        ck_assert(rg_is_grad_enabled() && !rg_is_inference_mode_enabled());
    }
}
END_TEST

/* Entering inference mode disables grad mode. Inside, the program may enable it. At the end of the
 * block, grad mode is what it was before. */
START_TEST(test_grad_mode_inside) {
    for (int on = 0; on < 2; on++) {
        rg_grad_guard grad = rg_grad_guard_open(on);
        {
            RG_INFERENCE_MODE();
            ck_assert(!rg_is_grad_enabled());
            for (int inside = 0; inside < 2; inside++) {
                rg_set_grad_enabled(inside);
                ck_assert(rg_is_grad_enabled() == inside);
                {
                    RG_INFERENCE_MODE();
                    ck_assert(!rg_is_grad_enabled());
                    rg_set_grad_enabled(true);
                }
                ck_assert(rg_is_grad_enabled() == inside);
                ck_assert(rg_is_inference_mode_enabled());
            }
        }
        ck_assert(rg_is_grad_enabled() == on && !rg_is_inference_mode_enabled());
        rg_tensor *x = rg_requires_grad_(rg_ones(2), true);
        ck_assert(rg_requires_grad(rg_mul(x, 2)) == on);
        rg_grad_guard_close(&grad);
    }
}
END_TEST

/* If a backward run can't add to one of the gradients, it adds to none. */
START_TEST(test_a_refused_backward_changes_nothing) {
    rg_tensor *a = leaf(), *b = leaf();
    ck_ok(rg_backward(rg_sum(b)));
    {
        RG_INFERENCE_MODE();
        rg_set_grad(a, ones());
    }
    ck_fails(rg_backward(rg_sum(rg_mul(a, b))), RG_RUNTIME_ERROR, "outside InferenceMode");
    ck_assert(rg_equal(rg_grad_of(a), ones()) && rg_equal(rg_grad_of(b), ones()));
    /* With create_graph the gradient isn't written to, but replaced. */
    ck_ok(rg_backward(rg_sum(rg_mul(a, b)), .create_graph = true));
    ck_assert(rg_equal(rg_grad_of(a), rg_mul(ones(), 2)) && !rg_is_inference(rg_grad_of(a)));
    rg_set_grad(a, RG_NONE);
    rg_set_grad(b, RG_NONE);
}
END_TEST

/* A leaf whose data are replaced by those of an inference tensor becomes an inference tensor. */
START_TEST(test_data_taken_over) {
    made m = make();
    ck_assert(!rg_is_inference(m.n) && !rg_is_inference(m.v) && rg_is_inference(m.r));
    ck_ok(rg_set_data(m.w, m.x));
    ck_assert(rg_is_inference(m.w));
    ck_fails(rg_is_inference(NULL), RG_TYPE_ERROR, "is_inference");
}
END_TEST

/* A model computes the same bits in inference mode. Weights that were made in the mode can't be
 * saved for a backward run. */
START_TEST(test_models) {
    rg_manual_seed(0);
    rg_gpt *g = rg_nn_gpt(.block_size = 8, .vocab_size = 11, .n_layer = 2, .n_head = 2,
                          .n_embd = 8);
    rg_tensor *idx = rg_literal([ [ 1, 2, 3, 10 ], [ 0, 5, 5, 9 ] ]), *plain, *y;
    {
        RG_NO_GRAD();
        plain = rg_call(g, idx);
    }
    {
        RG_INFERENCE_MODE();
        y = rg_call(g, idx);
        ck_ok(y);
    }
    ck_assert(rg_is_inference(y) && !rg_requires_grad(y) && rg_equal(y, plain));
    rg_module_free(g);
    rg_linear_module *m;
    {
        RG_INFERENCE_MODE();
        m = rg_nn_linear(3, 2);
    }
    rg_tensor *x = rg_requires_grad_(rg_ones(1, 3), true);
    ck_assert(rg_is_inference(m->weight) && rg_requires_grad(m->weight));
    ck_fails(rg_call(m, x), RG_RUNTIME_ERROR, "Inference tensors cannot be saved for backward");
    ck_ok(rg_call(m, rg_detach(x)));
    rg_module_free(m);
}
END_TEST

static rg_tensor *inference_ones(int64_t rows, int64_t columns) {
    RG_INFERENCE_MODE();
    return rg_ones(rows, columns);
}

/* matmul, mm, mv and other products are the same op. Its errors begin with the name of the function
 * that was called. */
START_TEST(test_names_of_products) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2, 2), true), *v = rg_select(w, 0, 0);
    rg_tensor *x = inference_ones(2, 2), *row = rg_select(x, 0, 0);
    rg_tensor *batch = rg_unsqueeze(w, 0), *xs = rg_unsqueeze(x, 0);
    ck_fails(rg_matmul(w, x), RG_RUNTIME_ERROR, "matmul: Inference tensors cannot be saved");
    ck_fails(rg_mm(w, x), RG_RUNTIME_ERROR, "mm: Inference tensors cannot be saved");
    ck_fails(rg_mv(w, row), RG_RUNTIME_ERROR, "mv: Inference tensors cannot be saved");
    ck_fails(rg_dot(v, row), RG_RUNTIME_ERROR, "dot: Inference tensors cannot be saved");
    ck_fails(rg_bmm(batch, xs), RG_RUNTIME_ERROR, "bmm: Inference tensors cannot be saved");
    ck_fails(rg_addmm(w, w, x, 1, 1), RG_RUNTIME_ERROR, "addmm: Inference tensors cannot be saved");
    ck_fails(rg_baddbmm(batch, batch, xs, 1, 1), RG_RUNTIME_ERROR, "baddbmm: Inference tensors");
}
END_TEST

/* Adam's state is made by its first step. */
START_TEST(test_state_made_in_the_mode) {
    rg_tensor *w = leaf();
    rg_optim *o = rg_optim_adam(rg_list_of(1, &w), .lr = 0.5);
    rg_set_grad(w, ones());
    {
        RG_INFERENCE_MODE();
        ck_ok(rg_optim_step(o));
    }
    ck_fails(rg_optim_step(o), RG_RUNTIME_ERROR, "outside InferenceMode");
    rg_optim_free(o);
}
END_TEST

static rg_tensor *square_of(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_tensor *loss = rg_sum(rg_square((rg_tensor *)w));
    return rg_backward(loss) ? loss : NULL;
}

/* A state that is loaded in inference mode can be written to by later steps. */
START_TEST(test_state_loaded_in_the_mode) {
    for (int kind = 0; kind <= RG_LBFGS; kind++) {
        rg_tensor *w[2];
        rg_optim *o[2];
        for (int k = 0; k < 2; k++) {
            w[k] = rg_requires_grad_(rg_ones(2, 2), true);
            o[k] = rg_optim_with((rg_optim_kind)kind, RG_LIST(w[k]), RG_PARAM_GROUP_(.lr = 0.5));
            ck_ok(rg_optim_step_closure(o[k], square_of, w[k]));
        }
        {
            RG_INFERENCE_MODE();
            ck_ok(rg_optim_load_state_dict(o[1], rg_optim_state_dict(o[0])));
        }
        for (int k = 0; k < 2; k++) {
            ck_ok(rg_optim_step_closure(o[k], square_of, w[k]));
            rg_optim_free(o[k]);
        }
        ck_assert_msg(rg_equal(w[0], w[1]), "optimizer %d", kind);
    }
}
END_TEST

typedef struct {
    rg_tensor *x, *y;
} recorded;

static void inference_step(void *context) {
    RG_INFERENCE_MODE();
    recorded *r = context;
    r->y = rg_keep(rg_exp(rg_mul(r->x, 2)));
}

START_TEST(test_recorded) {
    recorded of = { ones(), NULL };
    rg_replay *r = rg_record(inference_step, &of);
    ck_ok(r);
    rg_mul_(of.x, 3);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_is_inference(of.y) && rg_equal(of.y, rg_exp(rg_mul(of.x, 2))));
    rg_drop(of.y);
    rg_replay_free(r);
}
END_TEST

static void *other_thread(void *at) {
    *(bool *)at = rg_is_inference_mode_enabled() || !rg_is_grad_enabled();
    return NULL;
}

START_TEST(test_the_mode_is_the_threads) {
    RG_INFERENCE_MODE();
    bool inside = true;
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, other_thread, &inside), 0);
    pthread_join(t, NULL);
    ck_assert(!inside);
    RG_INFERENCE_MODE(); /* Two guards may stand in one block. */
}
END_TEST

/* ---- accumulation --------------------------------------------------------------------- */

static rg_tensor *loss_of(rg_sequential *m, rg_tensor *x, rg_tensor *y) {
    return rg_mse_loss(rg_call(m, x), y);
}

/* The mean over a batch is the mean of the means over parts of equal size. */
START_TEST(test_small_batches_give_the_gradient_of_a_large_one) {
    enum { K = 4 };
    rg_manual_seed(0);
    rg_sequential *m = rg_nn_sequential(rg_nn_linear(3, 5), rg_nn_tanh(), rg_nn_linear(5, 2));
    rg_module_to(m, RG_FLOAT64);
    rg_tensor *x = rg_double(rg_randn(12, 3)), *y = rg_double(rg_randn(12, 2));
    rg_list p = rg_parameters(m);
    rg_tensor *whole[4];
    ck_ok(rg_backward(loss_of(m, x, y)));
    for (int i = 0; i < p.n; i++) {
        whole[i] = rg_grad_of(p.v[i]);
        rg_set_grad(p.v[i], RG_NONE);
    }
    rg_list xs = rg_chunk(x, K, 0), ys = rg_chunk(y, K, 0);
    for (int k = 0; k < K; k++)
        ck_ok(rg_backward(rg_div(loss_of(m, xs.v[k], ys.v[k]), K)));
    for (int i = 0; i < p.n; i++)
        ck_assert(rg_allclose(rg_grad_of(p.v[i]), whole[i], 1e-12, 1e-14));
    rg_module_free(m);
}
END_TEST

/* A gradient may be an inference tensor, unless a backward run has to add to it. */
START_TEST(test_gradients_of_inference_mode) {
    rg_tensor *x = rg_requires_grad_(rg_ones(3), true), *g;
    {
        RG_INFERENCE_MODE();
        g = rg_ones(3);
    }
    ck_ok(rg_set_grad(x, g));
    ck_ok(rg_grad(rg_sum(rg_mul(x, x)), x));
    ck_fails(rg_backward(rg_sum(rg_mul(x, x))), RG_RUNTIME_ERROR,
             "Inplace update to inference tensor outside InferenceMode is not allowed");
    ck_ok(rg_set_grad(x, RG_NONE));
    ck_ok(rg_backward(rg_sum(rg_mul(x, x))));
}
END_TEST

/* An op on inference tensors isn't recorded, even if some of its inputs are absent. */
START_TEST(test_absent_inputs) {
    rg_tensor *x, *w;
    {
        RG_INFERENCE_MODE();
        x = leaf();
        w = leaf();
    }
    rg_tensor *y[] = { rg_layer_norm(x, RG_DIMS(3), RG_NONE, RG_NONE, 1e-5),
                       rg_layer_norm(x, RG_DIMS(3), w, RG_NONE, 1e-5), rg_mul(x, w) };
    for (int i = 0; i < 3; i++)
        ck_assert_msg(y[i] && !rg_requires_grad(y[i]), "%d: %s", i, rg_error());
    rg_tensor *normal = rg_layer_norm(ones(), RG_DIMS(3), RG_NONE, leaf(), 1e-5);
    ck_assert(normal && rg_requires_grad(normal));
}
END_TEST

RG_TESTS(inference, test_absent_inputs, test_gradients_of_inference_mode, test_grad_mode_inside,
         test_a_refused_backward_changes_nothing, test_data_taken_over, test_models,
         test_names_of_products, test_state_loaded_in_the_mode, test_state_made_in_the_mode,
         test_recorded, test_the_mode_is_the_threads,
         test_small_batches_give_the_gradient_of_a_large_one, test_inference_as_in_torch)
