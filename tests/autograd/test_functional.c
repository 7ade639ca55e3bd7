/*
 * test_functional.c: Jacobians, Hessians, their products with vectors, and vmap. The numbers are
 * those of torch.func for the same functions, or follow from a formula.
 */
#include "autograd/tools/functional.h"
#include "autograd/op.h"
#include "autograd/tools/explain.h"
#include "autograd/tools/saved.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static rg_tensor *wave(int64_t n, int64_t m, double phase) {
    rg_tensor *x = rg_zeros_dims(m ? RG_DIMS(n, m) : RG_DIMS(n), RG_FLOAT64);
    for (int64_t i = 0; i < rg_numel(x); i++)
        ((double *)rg_data(x))[i] = sin(1.3 * (double)i + phase);
    return x;
}

static double largest_difference(rg_tensor *a, rg_tensor *b) {
    if (rg_numel(a) == 0)
        return 0;
    return rg_item(rg_max(rg_abs(rg_sub(a, b))));
}

#define ck_close(a, b)                                                                       \
    do {                                                                                     \
        rg_tensor *got_ = (a), *want_ = (b);                                                 \
        ck_assert_msg(got_ &&want_ &&rgi_same_shape(got_, want_)                             \
                          && largest_difference(got_, want_) < 1e-12,                        \
                      "%s: %s, not %s (%s)", #a, rg_repr(got_), rg_repr(want_), rg_error()); \
    } while (0)

/* y = tanh(A x), with A of the context */
static rg_tensor *layer(rg_tensor *const in[], void *context) {
    return rg_tanh(rg_matmul((rg_tensor *)context, in[0]));
}

/* dy/dx = (1 - y^2) A */
static rg_tensor *slope_of_layer(rg_tensor *a, rg_tensor *x) {
    rg_tensor *y = rg_tanh(rg_matmul(a, x));
    return rg_mul(rg_unsqueeze(rg_sub(1, rg_square(y)), 1), a);
}

START_TEST(test_jacobians) {
    rg_tensor *a = wave(5, 3, 0), *x = wave(3, 0, 1);
    ck_close(rg_jacrev(layer, a, 1, &x), slope_of_layer(a, x));
    ck_close(rg_jacfwd(layer, a, 1, &x), slope_of_layer(a, x));
    ck_close(rg_jacobian(layer, a, 1, &x), slope_of_layer(a, x));
    /* The inputs stay as they were. */
    ck_assert(!rg_requires_grad(x) && !rg_requires_grad(rg_jacrev(layer, a, 1, &x)));
    rg_tensor *leaf = rg_requires_grad_(rg_clone(x), true);
    ck_close(rg_jacrev(layer, a, 1, &leaf), slope_of_layer(a, x));
    ck_assert(rg_grad_of(leaf) == RG_NONE);
    /* The shape is that of y followed by that of x. */
    rg_tensor *w = wave(3, 2, 2);
    rg_tensor *j = rg_jacrev(layer, a, 1, &w);
    ck_assert_str_eq(rg_repr_shape(j), "torch.Size([5, 2, 3, 2])");
    ck_close(rg_jacfwd(layer, a, 1, &w), j);
    ck_close(rg_select(rg_select(j, 3, 1), 1, 1), slope_of_layer(a, rg_select(w, 1, 1)));
    ck_assert_double_eq(rg_at(j, 0, 0, 1, 1), 0);
}
END_TEST

static rg_tensor *product(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(rg_mul(in[0], in[0]), rg_sin(in[1]));
}

START_TEST(test_arguments) {
    rg_tensor *in[] = { wave(3, 0, 0), wave(3, 0, 1) };
    rg_tensor *of_first = rg_diag(rg_mul(rg_mul(in[0], 2), rg_sin(in[1])), 0);
    rg_tensor *of_second = rg_diag(rg_mul(rg_square(in[0]), rg_cos(in[1])), 0);
    ck_close(rg_jacrev(product, NULL, 2, in), of_first);
    ck_close(rg_jacrev(product, NULL, 2, in, .argnum = 1), of_second);
    ck_close(rg_jacfwd(product, NULL, 2, in, .argnum = 1), of_second);
    ck_fails(rg_jacrev(product, NULL, 2, in, .argnum = 2), RG_INDEX_ERROR, "no input 2 of 2");
    ck_fails(rg_jacrev(product, NULL, 2, in, .argnum = -1), RG_INDEX_ERROR, "no input -1 of 2");
    ck_fails(rg_jacrev(NULL, NULL, 2, in), RG_TYPE_ERROR, "jacrev: expected a function");
    ck_fails(rg_jacfwd(product, NULL, 2, NULL), RG_TYPE_ERROR, "jacfwd: expected a function");
    ck_fails(rg_jacrev(product, NULL, 65, in), RG_VALUE_ERROR, "takes up to 64 inputs");
    rg_tensor *whole[] = { rg_arange(3), in[1] };
    ck_fails(rg_jacrev(product, NULL, 2, whole), RG_RUNTIME_ERROR,
             "only Tensors of floating point dtype can require gradients");
    ck_ok(rg_jacrev(product, NULL, 2, whole, .argnum = 1));
}
END_TEST

/* The same product. Checks that only the input by which it is differentiated requires grad, as
 * batch_norm demands of its running statistics. */
static rg_tensor *product_of_one(rg_tensor *const in[], void *argnum) {
    for (int i = 0; i < 2; i++)
        ck_assert(rg_requires_grad(in[i]) == (i == *(int *)argnum));
    return product(in, NULL);
}

static rg_tensor *sum_of_one(rg_tensor *const in[], void *argnum) {
    return rg_sum(product_of_one(in, argnum));
}

START_TEST(test_other_arguments) {
    rg_tensor *in[] = { wave(3, 0, 0), wave(3, 0, 1) };
    for (int argnum = 0; argnum < 2; argnum++) {
        ck_ok(rg_jacrev(product_of_one, &argnum, 2, in, .argnum = argnum));
        ck_ok(rg_jacfwd(product_of_one, &argnum, 2, in, .argnum = argnum));
        ck_ok(rg_hessian(sum_of_one, &argnum, 2, in, .argnum = argnum));
    }
    /* An input that the program differentiates by is still reached by a graph. */
    rg_requires_grad_(in[1], true);
    rg_tensor *j = rg_jacrev(product, NULL, 2, in, .create_graph = true);
    ck_close(rg_grad(rg_sum(j), in[1]), rg_mul(rg_mul(in[0], 2), rg_cos(rg_detach(in[1]))));
    ck_assert(!rg_requires_grad(rg_jacrev(product, NULL, 2, in)));
}
END_TEST

static rg_tensor *constant(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_to(rg_gt(in[0], 0), RG_FLOAT64);
}

/* y = 3 x, with the shape that the context points to */
static rg_tensor *turned_into(rg_tensor *const in[], void *context) {
    return rg_reshape_dims(rg_mul(in[0], 3), *(const rg_dims *)context);
}

static rg_tensor *first_of(rg_tensor *const in[], void *context) {
    (void)context;
    return in[0];
}

static rg_tensor *double_of_first(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(in[0], 2);
}

START_TEST(test_functions_without_slope) {
    rg_tensor *x = wave(3, 0, 0), *v = wave(3, 0, 1), *r;
    ck_close(rg_jacrev(constant, NULL, 1, &x), rg_zeros_dims(RG_DIMS(3, 3), RG_FLOAT64));
    ck_close(rg_jacfwd(constant, NULL, 1, &x), rg_zeros_dims(RG_DIMS(3, 3), RG_FLOAT64));
    ck_close(rg_jacrev(first_of, NULL, 1, &x), rg_eye_as(3, 3, RG_FLOAT64));
    ck_close(rg_jacfwd(first_of, NULL, 1, &x), rg_eye_as(3, 3, RG_FLOAT64));
    ck_ok(rg_jvp(constant, NULL, 1, &x, &v, &r));
    ck_close(r, rg_zeros_like(x));
    ck_ok(rg_vjp(constant, NULL, 1, &x, v, &r));
    ck_close(r, rg_zeros_like(x));
    /* An input that isn't used has slope 0, while another input is used. */
    rg_tensor *two[] = { x, v }, *zeros = rg_zeros_dims(RG_DIMS(3, 3), RG_FLOAT64);
    ck_close(rg_jacrev(first_of, NULL, 2, two, .argnum = 1), zeros);
    ck_close(rg_jacfwd(first_of, NULL, 2, two, .argnum = 1), zeros);
    ck_close(rg_jacrev(double_of_first, NULL, 2, two, .argnum = 1), zeros);
    ck_close(rg_jacfwd(double_of_first, NULL, 2, two, .argnum = 1), zeros);
    ck_close(rg_hessian(first_of, NULL, 1, &x), rg_zeros_dims(RG_DIMS(3, 3, 3), RG_FLOAT64));
    rg_tensor *none = rg_zeros_dims(RG_DIMS(0), RG_FLOAT64);
    ck_assert_str_eq(rg_repr_shape(rg_jacrev(first_of, NULL, 1, &none)), "torch.Size([0, 0])");
    ck_assert_str_eq(rg_repr_shape(rg_jacfwd(first_of, NULL, 1, &none)), "torch.Size([0, 0])");
}
END_TEST

/* y = sum (x^T B x)^2 / 2 with B of the context: its gradient and Hessian are known. */
static rg_tensor *quartic(rg_tensor *const in[], void *context) {
    rg_tensor *q = rg_dot(in[0], rg_matmul((rg_tensor *)context, in[0]));
    return rg_div(rg_square(q), 2);
}

static rg_tensor *hessian_of_quartic(rg_tensor *b, rg_tensor *x) {
    rg_tensor *s = rg_add(b, rg_T(b)), *sx = rg_matmul(s, x);
    return rg_add(rg_outer(sx, sx), rg_mul(s, rg_dot(x, rg_matmul(b, x))));
}

START_TEST(test_hessians) {
    rg_tensor *b = wave(4, 4, 0), *x = wave(4, 0, 2), *v = wave(4, 0, 1), *hv;
    rg_tensor *h = hessian_of_quartic(b, x);
    ck_close(rg_hessian(quartic, b, 1, &x), h);
    ck_close(rg_hvp(quartic, b, 1, &x, &v, &hv), quartic(&x, b));
    ck_close(hv, rg_matmul(h, v));
    /* The derivative of the Hessian along v is the third derivative along v. */
    rg_tensor *leaf = rg_requires_grad_(rg_clone(x), true);
    rg_tensor *graph = rg_hessian(quartic, b, 1, &leaf, .create_graph = true);
    rg_tensor *third = rg_grad(rg_sum(graph), leaf);
    rg_tensor *up = rg_sum(hessian_of_quartic(b, rg_add(x, rg_mul(v, 1e-5))));
    rg_tensor *down = rg_sum(hessian_of_quartic(b, rg_sub(x, rg_mul(v, 1e-5))));
    ck_assert_double_eq_tol(rg_item(rg_dot(third, v)), rg_item(rg_sub(up, down)) / 2e-5, 1e-6);
    ck_fails(rg_hvp(first_of, NULL, 1, &x, &v, &hv), RG_RUNTIME_ERROR,
             "The Tensor returned by the function given to hvp should contain a single element");
    ck_assert_ptr_null(hv);
    ck_fails(rg_hessian(NULL, NULL, 1, &x), RG_TYPE_ERROR, "hessian: expected a function");
}
END_TEST

START_TEST(test_products) {
    rg_tensor *in[] = { wave(3, 0, 0), wave(3, 0, 1), rg_arange(3) };
    rg_tensor *v[] = { wave(3, 0, 2), RG_NONE, RG_NONE }, *u = wave(3, 0, 3), *r[3];
    rg_tensor *slope = rg_mul(rg_mul(in[0], 2), rg_sin(in[1]));
    ck_close(rg_jvp(product, NULL, 3, in, v, r), product(in, NULL));
    ck_close(r[0], rg_mul(slope, v[0]));
    ck_ok(rg_vjp(product, NULL, 3, in, u, r));
    ck_close(r[0], rg_mul(slope, u));
    ck_close(r[1], rg_mul(rg_mul(rg_square(in[0]), rg_cos(in[1])), u));
    ck_assert(r[2] == RG_NONE && !rg_requires_grad(r[0]));
    v[0] = RG_NONE;
    ck_ok(rg_jvp(product, NULL, 3, in, v, r));
    ck_close(r[0], rg_zeros_like(u));
    v[0] = rg_ones(2);
    ck_fails(rg_jvp(product, NULL, 3, in, v, r), RG_RUNTIME_ERROR,
             "v has invalid size: should be torch.Size([3]) but got torch.Size([2]).");
    ck_fails(rg_vjp(product, NULL, 3, in, rg_ones(2), r), RG_RUNTIME_ERROR,
             "v has invalid size: should be torch.Size([3]) but got torch.Size([2]).");
    ck_assert(!r[0] && !r[1] && !r[2]);
    ck_fails(rg_vjp(product, NULL, 3, in, RG_NONE, r), RG_RUNTIME_ERROR,
             "The vector v can only be None if");
    ck_fails(rg_vjp(product, NULL, 3, in, u, NULL), RG_TYPE_ERROR, "room for the results");
    ck_fails(rg_jvp(product, NULL, 3, in, NULL, r), RG_TYPE_ERROR, "expected vectors");
}
END_TEST

/* The sum of c x over the inputs, with c of the context, which may require grad. */
static rg_tensor *weighed(rg_tensor *const in[], void *context) {
    return rg_sum(rg_mul((rg_tensor *)context, in[0]));
}

/* Inputs that are absent or whole numbers have no gradient. Vectors for them are ignored. */
START_TEST(test_inputs_without_slope) {
    rg_tensor *x = wave(3, 0, 0), *w = rg_requires_grad_(wave(3, 0, 2), true), *r[3];
    rg_tensor *in[] = { x, RG_NONE, rg_arange(3) }, *v[] = { wave(3, 0, 1), x, rg_ones(7) };
    ck_ok(rg_vjp(double_of_first, NULL, 3, in, v[0], r));
    ck_close(r[0], rg_mul(v[0], 2));
    ck_assert(r[1] == RG_NONE && r[2] == RG_NONE);
    ck_ok(rg_jvp(double_of_first, NULL, 3, in, v, r));
    ck_close(r[0], rg_mul(v[0], 2));
    rg_tensor *j = rg_jacrev(double_of_first, NULL, 3, in);
    ck_close(j, rg_mul(rg_eye_as(3, 3, RG_FLOAT64), 2));
    ck_fails(rg_jacrev(double_of_first, NULL, 3, in, .argnum = 1), RG_RUNTIME_ERROR,
             "only Tensors of floating point dtype can require gradients");
    /* The inputs have no derivatives. The result depends on the context, which requires grad, but
     * the context is no input. */
    rg_tensor *whole[] = { in[2], RG_NONE };
    ck_close(rg_vjp(weighed, w, 2, whole, RG_NONE, r), rg_detach(weighed(whole, w)));
    ck_assert(r[0] == RG_NONE && r[1] == RG_NONE);
    ck_ok(rg_jvp(weighed, w, 2, whole, v, r));
    ck_close(r[0], rg_scalar_dtype(0, RG_FLOAT64));
    ck_close(rg_hvp(weighed, w, 1, &x, v, r), rg_detach(weighed(&x, w)));
    ck_close(r[0], rg_zeros_like(x));
    v[0] = RG_NONE;
    ck_ok(rg_hvp(weighed, w, 1, &x, v, r));
    ck_close(r[0], rg_zeros_like(x));
    /* A result of one element needs no vector. */
    ck_close(rg_vjp(weighed, w, 1, &x, RG_NONE, r), rg_detach(weighed(&x, w)));
    ck_close(r[0], rg_detach(w));
    ck_assert(!rg_requires_grad(r[0]));
    ck_ok(rg_vjp(weighed, w, 1, &x, RG_NONE, r, .create_graph = true));
    ck_assert(rg_requires_grad(r[0]));
    in[0] = NULL;
    ck_fails(rg_vjp(double_of_first, NULL, 3, in, x, r), RG_TYPE_ERROR, "expected a tensor");
    ck_assert(!r[0] && !r[1] && !r[2]);
}
END_TEST

/* A loss with a Jacobian in it has a gradient by w, which is in the context. Such losses are
 * gradient penalties. */
START_TEST(test_graphs_lead_to_the_context) {
    rg_tensor *a = rg_requires_grad_(wave(2, 3, 0), true), *x = wave(3, 0, 1);
    rg_tensor *j = rg_jacrev(layer, a, 1, &x, .create_graph = true);
    rg_tensor *f = rg_jacfwd(layer, a, 1, &x, .create_graph = true);
    rg_tensor *of_j = rg_grad(rg_sum(rg_square(j)), a);
    ck_close(of_j, rg_grad(rg_sum(rg_square(slope_of_layer(a, x))), a));
    ck_close(rg_grad(rg_sum(rg_square(f)), a), of_j);
    RG_NO_GRAD();
    ck_close(rg_jacrev(layer, a, 1, &x), rg_detach(j));
}
END_TEST

/* The same tensor is the argument and the context. Only the function's use of its argument
 * counts. */
START_TEST(test_another_use_does_not_count) {
    rg_tensor *x = rg_requires_grad_(wave(3, 3, 0), true);
    rg_tensor *j = rg_jacrev(layer, x, 1, &x, .create_graph = true);
    ck_close(rg_detach(j), rg_jacrev(layer, rg_detach(x), 1, &x));
}
END_TEST

/* ---- vmap --------------------------------------------------------------------------- */

static int calls;

static rg_tensor *dot(rg_tensor *const in[], void *context) {
    (void)context;
    calls++;
    return rg_dot(in[0], in[1]);
}

START_TEST(test_vmap) {
    rg_tensor *in[] = { wave(4, 3, 0), wave(4, 3, 1) };
    rg_tensor *dots = rg_sum_dim(rg_mul(in[0], in[1]), 1, false);
    ck_close(rg_vmap(dot, NULL, 2, in), dots);
    ck_assert_int_eq(calls, 4);
    rg_tensor *turned[] = { rg_T(in[0]), in[1] };
    ck_close(rg_vmap(dot, NULL, 2, turned, .in_dims = RG_DIMS(-1, 0)), dots);
    rg_tensor *shared[] = { in[0], rg_select(in[1], 0, 0) };
    ck_close(rg_vmap(dot, NULL, 2, shared, .in_dims = RG_DIMS(0, RG_UNMAPPED)),
             rg_matmul(in[0], shared[1]));
    ck_close(rg_vmap(first_of, NULL, 1, in, .out_dim = 1), rg_T(in[0]));
    /* The derivative of vmap is that of each example. */
    rg_tensor *x = rg_requires_grad_(rg_clone(in[0]), true);
    rg_tensor *with_grad[] = { x, in[1] };
    ck_close(rg_grad(rg_sum(rg_vmap(dot, NULL, 2, with_grad)), x), in[1]);
    rg_tensor *many = wave(1100, 2, 0);
    ck_close(rg_vmap(first_of, NULL, 1, &many), many);
}
END_TEST

static rg_tensor *narrowed(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_square(rg_to(in[0], RG_FLOAT32));
}
static rg_tensor *fails_for_all(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_matmul(in[0], in[0]);
}

/* A Jacobian by rows (jacrev) has x's dtype, as a gradient has. A Jacobian by columns (jacfwd) has
 * y's dtype. */
START_TEST(test_dtypes_of_jacobians) {
    for (int wide = 0; wide < 2; wide++) {
        rg_tensor *x = rg_to(wave(3, 0, 0), wide ? RG_FLOAT64 : RG_FLOAT32);
        for (int graph = 0; graph < 2; graph++) {
            rg_tensor *j[] = { rg_jacrev(narrowed, NULL, 1, &x, .create_graph = graph),
                               rg_jacfwd(narrowed, NULL, 1, &x, .create_graph = graph) };
            for (int i = 0; i < 2; i++) {
                ck_ok(j[i]);
                ck_assert_msg(rg_dtype_of(j[i]) == (i ? RG_FLOAT32 : rg_dtype_of(x)),
                              "%d %d %d: %s", wide, graph, i, rg_repr(j[i]));
                ck_assert(rg_allclose(rg_to(j[i], RG_FLOAT64),
                                      rg_diag_embed(rg_mul(rg_to(x, RG_FLOAT64), 2), 0, 0, 1), 1e-6,
                                      1e-7));
            }
        }
    }
}
END_TEST

static rg_tensor *order_of(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_argsort(in[0], 0, false);
}

static rg_tensor *is_positive(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_gt(rg_sum(in[0]), 0);
}

/* Whole numbers and bools have no slope, which isn't the same as a slope of 0. */
START_TEST(test_results_without_slope) {
    rg_function *const f[] = { order_of, is_positive };
    rg_tensor *x = wave(3, 0, 0), *v = wave(3, 0, 1), *r;
    for (int i = 0; i < 2; i++) {
        rg_tensor *as_y = f[i](&x, NULL);
        ck_fails(rg_jacrev(f[i], NULL, 1, &x), RG_RUNTIME_ERROR, "jacrev: the output");
        ck_fails(rg_jacfwd(f[i], NULL, 1, &x), RG_RUNTIME_ERROR, "jacfwd: the output");
        ck_fails(rg_hessian(f[i], NULL, 1, &x), RG_RUNTIME_ERROR, "hessian: the output");
        ck_fails(rg_vjp(f[i], NULL, 1, &x, as_y, &r), RG_RUNTIME_ERROR, "vjp: the output");
        ck_fails(rg_jvp(f[i], NULL, 1, &x, &v, &r), RG_RUNTIME_ERROR, "jvp: the output");
        ck_fails(rg_hvp(f[i], NULL, 1, &x, &v, &r), RG_RUNTIME_ERROR, "hvp: the output");
    }
    ck_says(rg_jacrev(order_of, NULL, 1, &x),
            "jacrev: the output of the function must be a floating point tensor, got one of dtype "
            "torch.int64");
}
END_TEST

static rg_tensor *nothing_of(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_narrow(rg_mul(in[0], 2), 0, 0, 0);
}

/* If the function's result has no elements, the Jacobian has no rows, whether a graph is created or
 * not. */
START_TEST(test_jacobians_of_nothing) {
    rg_tensor *x[] = { wave(3, 0, 0), rg_narrow(wave(3, 0, 0), 0, 0, 0) };
    for (int i = 0; i < 2; i++)
        for (int graph = 0; graph < 2; graph++) {
            rg_tensor *want = rg_zeros_dims(RG_DIMS(0, rg_numel(x[i])), RG_FLOAT64);
            rg_tensor *j[] = { rg_jacrev(nothing_of, NULL, 1, &x[i], .create_graph = graph),
                               rg_jacfwd(nothing_of, NULL, 1, &x[i], .create_graph = graph) };
            ck_assert(j[0] && j[1] && rg_equal(j[0], want) && rg_equal(j[1], want));
        }
}
END_TEST

/* A list that is NULL is refused. An error has the name of the function that was called. */
START_TEST(test_what_derivatives_ask_for) {
    rg_tensor *x = wave(3, 0, 0), *scalar = wave(1, 0, 0), *r;
    ck_fails(rg_hvp(narrowed, NULL, 1, &scalar, NULL, &r), RG_TYPE_ERROR, "hvp: expected vectors");
    ck_fails(rg_hvp(narrowed, NULL, 1, &scalar, &scalar, NULL), RG_TYPE_ERROR, "hvp: expected");
    rg_tensor *none = NULL;
    ck_says(rg_hvp(narrowed, NULL, 1, &scalar, &none, &r), "hvp: expected a tensor but got NULL");
    ck_says(rg_jvp(narrowed, NULL, 1, &x, &none, &r), "jvp: expected a tensor but got NULL");
    ck_says(rg_vjp(narrowed, NULL, 1, &x, none, &r), "vjp: expected a tensor but got NULL");
    ck_fails(rg_jvp(narrowed, NULL, 1, &x, NULL, &r), RG_TYPE_ERROR, "jvp: expected vectors");
    ck_fails(rg_jvp(narrowed, NULL, 1, &x, &x, NULL), RG_TYPE_ERROR, "jvp: expected");
    ck_fails(rg_vjp(narrowed, NULL, 1, &x, x, NULL), RG_TYPE_ERROR, "vjp: expected");
    for (int n = -1; n < 66; n += 66) {
        ck_fails(rg_hessian(narrowed, NULL, n, &x), RG_VALUE_ERROR, "hessian: takes up to 64");
        ck_fails(rg_jacrev(narrowed, NULL, n, &x), RG_VALUE_ERROR, "jacrev: takes up to 64");
        ck_fails(rg_jacfwd(narrowed, NULL, n, &x), RG_VALUE_ERROR, "jacfwd: takes up to 64");
    }
    ck_fails(rg_hessian(narrowed, NULL, 1, &x, .argnum = 1), RG_INDEX_ERROR,
             "hessian: there is no input 1 of 1");
    /* The lower 32 bits of this number are the number of an input or a dim, but the whole number
     * isn't. */
    ck_fails(rg_jacrev(narrowed, NULL, 1, &x, .argnum = 1ll << 32), RG_INDEX_ERROR,
             "jacrev: there is no input 4294967296 of 1");
    ck_fails(rg_vmap(narrowed, NULL, 1, &x, .out_dim = 1ll << 32), RG_INDEX_ERROR,
             "Dimension out of range");
    rg_tensor *odd = wave(2, 3, 0);
    ck_fails(rg_hessian(fails_for_all, NULL, 1, &odd), RG_RUNTIME_ERROR, "");
    ck_fails(rg_hessian(NULL, NULL, 1, &odd), RG_TYPE_ERROR, "hessian: expected a function");
}
END_TEST

/* Fails for the example to which the context counts down. */
static rg_tensor *fails_for_one(rg_tensor *const in[], void *left) {
    if (--*(int *)left == 0)
        return rg_fail(RG_VALUE_ERROR, "fails_for_one", "this example has no value");
    return rg_mul(in[0], 2);
}

/* If the function fails for one of many examples, no later example is computed, and the error is
 * that of the failed example. */
START_TEST(test_one_of_many_examples_fails) {
    rg_tensor *x = wave(1100, 2, 0);
    for (int failing = 100; failing <= 1100; failing += 250) {
        int left = failing;
        ck_fails(rg_vmap(fails_for_one, &left, 1, &x), RG_VALUE_ERROR,
                 "fails_for_one: this example has no value");
        ck_assert_int_eq(left, 0);
    }
}
END_TEST

/* Without create_graph the results have no history, even if a result is a tensor that the program
 * gave. */
START_TEST(test_histories_of_results) {
    rg_tensor *x = rg_requires_grad_(wave(3, 0, 0), true), *r;
    rg_tensor *v = rg_requires_grad_(wave(3, 0, 1), true);
    rg_tensor *a = rg_requires_grad_(wave(5, 3, 0), true);
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *y[] = { rg_vjp(first_of, NULL, 1, &x, v, &r, .create_graph = graph),
                           rg_jvp(layer, a, 1, &x, &v, &r, .create_graph = graph),
                           rg_hvp(weighed, a, 1, &x, &v, &r, .create_graph = graph) };
        for (int i = 0; i < 3; i++)
            ck_assert_msg(y[i] && rg_requires_grad(y[i]) == graph, "%d: %s", i, rg_error());
        rg_tensor *u = rg_requires_grad_(wave(5, 0, 1), true), *of[3];
        ck_ok(rg_vjp(first_of, NULL, 1, &x, v, &of[0], .create_graph = graph));
        ck_ok(rg_vjp(layer, a, 1, &x, u, &of[1], .create_graph = graph));
        ck_ok(rg_jvp(layer, a, 1, &x, &v, &of[2], .create_graph = graph));
        for (int i = 0; i < 3; i++)
            ck_assert_msg(rg_requires_grad(of[i]) == graph && (graph || of[i] != v), "%d", i);
        ck_close(rg_detach(of[0]), rg_detach(v));
    }
}
END_TEST

START_TEST(test_what_vmap_refuses) {
    rg_tensor *in[] = { wave(4, 3, 0), wave(3, 3, 1) };
    ck_fails(rg_vmap(dot, NULL, 2, in), RG_VALUE_ERROR,
             "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
             "[4, 3] for the mapped dimension");
    ck_fails(rg_vmap(dot, NULL, 2, in, .in_dims = RG_DIMS(2, 0)), RG_VALUE_ERROR,
             "Got in_dim=2 for some input, but that input is a Tensor of dimensionality 2");
    ck_fails(rg_vmap(dot, NULL, 2, in, .in_dims = RG_DIMS(0)), RG_VALUE_ERROR,
             "in_dims has 1 dims for 2 inputs");
    ck_fails(rg_vmap(dot, NULL, 2, in, .in_dims = RG_DIMS(RG_UNMAPPED, RG_UNMAPPED)),
             RG_VALUE_ERROR, "no input has a dim along which its examples lie");
    ck_fails(rg_vmap(dot, NULL, 2, in, .in_dims = RG_DIMS(-3, 0)), RG_VALUE_ERROR,
             "Got in_dim=-3 for some input, but that input is a Tensor of dimensionality 2");
    ck_fails(rg_vmap(dot, NULL, 2, ((rg_tensor *[]){ in[0], NULL })), RG_TYPE_ERROR,
             "vmap: expected a tensor but got NULL");
    ck_fails(rg_vmap(dot, NULL, 2, NULL), RG_TYPE_ERROR,
             "vmap: expected a function and its inputs");
    ck_close(rg_vmap(first_of, NULL, 2, ((rg_tensor *[]){ in[0], RG_NONE })), in[0]);
    ck_close(rg_vmap(first_of, NULL, 1, in, .in_dims = RG_DIMS(-2)), in[0]);
    ck_fails(rg_vmap(NULL, NULL, 2, in), RG_TYPE_ERROR, "expected a function");
    ck_fails(rg_vmap(dot, NULL, 2, ((rg_tensor *[]){ rg_zeros(0, 3), rg_ones(2, 3) })),
             RG_VALUE_ERROR, "got sizes [0, 2] for the mapped dimension");
    ck_fails(rg_vmap(dot, NULL, 0, in), RG_VALUE_ERROR, "takes 1 to 64 inputs");
    ck_fails(rg_vmap(first_of, NULL, 1, in, .out_dim = 3), RG_INDEX_ERROR, "");
    rg_tensor *none = rg_zeros(0, 3);
    ck_fails(rg_vmap(first_of, NULL, 1, &none), RG_VALUE_ERROR, "no example");
}
END_TEST

/* ---- the largest numbers of inputs and outputs --------------------------------------------- */

enum { MOST = 64 };

/* y = sum_i (i + 1) x_i^2 over MOST inputs */
static rg_tensor *weighted(rg_tensor *const in[], void *context) {
    rg_tensor *y = (rg_tensor *)context;
    for (int i = 0; i < MOST; i++)
        y = rg_add(y, rg_mul(rg_square(in[i]), i + 1));
    return y;
}

static rg_tensor *weighted_sum(rg_tensor *const in[], void *context) {
    return rg_sum(weighted(in, context));
}

static rg_tensor *product_of_none(rg_tensor *const in[], void *context) {
    (void)in;
    return (rg_tensor *)context;
}

START_TEST(test_most_inputs) {
    rg_tensor *in[MOST + 1], *v[MOST], *r[MOST + 1], *zero = wave(2, 0, 0);
    for (int i = 0; i < MOST; i++) {
        in[i] = wave(2, 0, i);
        v[i] = wave(2, 0, 2 * i);
    }
    in[MOST] = in[0];
    ck_close(rg_jacrev(weighted, zero, MOST, in, .argnum = MOST - 1),
             rg_diag(rg_mul(in[MOST - 1], 2 * MOST), 0));
    ck_ok(rg_vjp(weighted, zero, MOST, in, zero, r));
    for (int i = 0; i < MOST; i++)
        ck_close(r[i], rg_mul(rg_mul(in[i], zero), 2 * (i + 1)));
    ck_ok(rg_hvp(weighted_sum, zero, MOST, in, v, r));
    rg_tensor *along = rg_zeros_like(zero);
    for (int i = 0; i < MOST; i++) {
        ck_close(r[i], rg_mul(v[i], 2 * (i + 1)));
        along = rg_add(along, rg_mul(rg_mul(in[i], v[i]), 2 * (i + 1)));
    }
    ck_close(rg_jvp(weighted, zero, MOST, in, v, r), weighted(in, zero));
    ck_close(r[0], along);
    rg_tensor *first = rg_scalar_dtype(0, RG_FLOAT64);
    ck_close(rg_vmap(weighted, first, MOST, in), rg_sub(weighted(in, zero), zero));
    const char *said = "takes up to 64 inputs, but got 65";
    ck_fails(rg_jacrev(weighted, zero, MOST + 1, in), RG_VALUE_ERROR, said);
    ck_fails(rg_jacrev(product_of_none, zero, 0, NULL), RG_INDEX_ERROR, "no input 0 of 0");
    ck_close(rg_vjp(product_of_none, zero, 0, NULL, zero, r), zero);
    ck_fails(rg_jacrev(weighted, zero, -1, in), RG_VALUE_ERROR, "up to 64 inputs, but got -1");
    ck_fails(rg_vmap(weighted, zero, MOST + 1, in), RG_VALUE_ERROR,
             "vmap: takes 1 to 64 inputs, but got 65");
}
END_TEST

START_TEST(test_most_dims) {
    rg_tensor *x[] = { rg_reshape(wave(3, 2, 0), 3, 1, 2),
                       rg_reshape(wave(3, 2, 0), 1, 3, 1, 2, 1) };
    for (int i = 0; i < 2; i++) {
        rg_tensor *(*const how[])(rg_function *, void *, int, rg_tensor *const[],
                                  rg_derivative_options) = { rg_jacrev_with, rg_jacfwd_with };
        for (int k = 0; k < 2; k++) {
            const rg_dims dims = rg_shape(x[1 - i]);
            const rg_derivative_options options = { .argnum = 0 };
            rg_tensor *j = how[k](turned_into, (void *)&dims, 1, &x[i], options);
            ck_assert_str_eq(rg_repr_shape(j), i == 0 ? "torch.Size([1, 3, 1, 2, 1, 3, 1, 2])"
                                                      : "torch.Size([3, 1, 2, 1, 3, 1, 2, 1])");
            ck_close(rg_reshape(j, 6, 6), rg_mul(rg_eye_as(6, 6, RG_FLOAT64), 3));
        }
    }
    rg_dims dims = RG_DIMS(1, 3, 1, 2);
    ck_fails(rg_jacrev(turned_into, &dims, 1, &x[1]), RG_RUNTIME_ERROR,
             "jacrev: the Jacobian of 4 by 5 dims has more than the 8 that a tensor may have");
}
END_TEST

/* A long stack is made of halves, and each row stays in its place. */
START_TEST(test_long_stacks) {
    static const int64_t long_enough[] = { 511, 512, 513, 1025 };
    for (int i = 0; i < RG_COUNT(long_enough); i++) {
        RG_SCOPE();
        const int64_t n = long_enough[i];
        rg_tensor *a = wave(n, 2, 0), *x = wave(2, 0, 1);
        ck_close(rg_jacrev(layer, a, 1, &x), slope_of_layer(a, x));
        ck_close(rg_detach(rg_jacrev(layer, a, 1, &x, .create_graph = true)), slope_of_layer(a, x));
        ck_close(rg_vmap(first_of, NULL, 1, &a, .out_dim = 1), rg_T(a));
    }
}
END_TEST

/* ---- memory ------------------------------------------------------------------------- */

/* Differentiates functions that ignore some inputs, or all of them. Returns whether all calls
 * succeed. */
static bool run_unused(rg_tensor *x, rg_tensor *v) {
    rg_tensor *in[] = { x, v, rg_ones(2) }, *r[3];
    return in[2] && rg_vjp(first_of, NULL, 3, in, v, r) && rg_jvp(first_of, NULL, 3, in, in, r)
           && rg_vjp(constant, NULL, 1, &x, v, r) && rg_jvp(constant, NULL, 1, &x, &v, r)
           && rg_jacrev(constant, NULL, 1, &x) && rg_jacfwd(constant, NULL, 1, &x);
}

static bool run_all(rg_tensor *a, rg_tensor *x, rg_tensor *v) {
    RG_SCOPE();
    rg_tensor *r;
    if (!run_unused(x, v))
        return false;
    const bool create = rg_requires_grad(a);
    return rg_jacrev(layer, a, 1, &x, .create_graph = create) && rg_jacfwd(layer, a, 1, &x)
           && rg_hessian(quartic, a, 1, &x) && rg_hvp(quartic, a, 1, &x, &v, &r)
           && rg_jvp(layer, a, 1, &x, &v, &r) && rg_vjp(layer, a, 1, &x, v, &r)
           && rg_vmap(first_of, NULL, 1, &a);
}

/* Returns a result that doesn't depend on the inputs. */
static rg_tensor *own_constant(rg_tensor *const in[], void *context) {
    (void)in;
    return rg_mul(context, 2);
}

static rg_tensor *own_sum(rg_tensor *const in[], void *context) {
    (void)in;
    return rg_sum(context);
}

/* Returns a copy of the first input, whatever the others are. */
static rg_tensor *copy_of_first(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_mul(in[0], 1);
}

/* Calls functions that ignore an input, or all inputs. If there is no memory for such an input, the
 * derivative must fail. */
static bool run_indifferent(rg_tensor *a, rg_tensor *x) {
    rg_tensor *r;
    return rg_jacrev(own_constant, x, 1, &a) && rg_jacfwd(own_constant, x, 1, &a)
           && rg_vmap(copy_of_first, NULL, 2, ((rg_tensor *[]){ x, a }))
           && rg_vjp(own_constant, x, 1, &a, x, &r) && rg_hvp(own_sum, x, 1, &a, &a, &r);
}

START_TEST(test_memory_denied) {
    rg_tensor *a = rg_requires_grad_(wave(3, 3, 0), true), *x = wave(3, 0, 1), *v = wave(3, 0, 2);
    ck_ok(run_all(a, x, v));
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        const int64_t before = rg_memory_stats().now;
        rg_error_clear();
        rg_memory_fail_at(n);
        {
            RG_SCOPE();
            done = run_all(a, x, v) && run_indifferent(a, x);
        }
        rg_memory_fail_at(0);
        ck_each(!done || rg_error_code() == RG_OK, "request %d: %s", (int)n, rg_error());
        ck_each(done || rg_error_code() == RG_OUT_OF_MEMORY, "request %d: %s", (int)n, rg_error());
        ck_each(n == 1 || rg_memory_stats().now <= before, "request %d leaks", (int)n);
    }
    rg_error_clear();
}
END_TEST

/* A function may read one input more than it is given. It finds NULL there, and fails. */
static int given; /* The number of inputs that are given. */
static rg_tensor *reads_beyond(rg_tensor *const in[], void *context) {
    (void)context;
    for (int i = 0; i < 15; i++)
        ck_assert_ptr_null(in[given + i]);
    return rg_sum(rg_mul(in[0], in[given]));
}

static rg_list reads_beyond_list(rg_tensor *const in[], void *context) {
    static rg_tensor *y[1];
    y[0] = reads_beyond(in, context);
    return (rg_list){ 1, y };
}

static rg_tensor *sine_of_the_only_input(rg_tensor *const in[], void *context) {
    ++*(int *)context;
    for (int i = 1; i < 15; i++)
        ck_assert_ptr_null(in[i]);
    return rg_sin(rg_sin(in[0]));
}

/* That is so in the second call of a checkpoint's function, too, which a backward run makes. */
START_TEST(test_inputs_of_the_second_call) {
    RG_SCOPE();
    int made = 0;
    rg_tensor *x = rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true);
    ck_ok(rg_backward(rg_sum(rg_checkpoint(sine_of_the_only_input, &made, 1, &x))));
    ck_assert_int_eq(made, 2);
}
END_TEST

START_TEST(test_functions_that_read_too_many_inputs) {
    static const char said[] = "expected a tensor but got NULL";
    for (given = 1; given < 3; given++) {
        RG_SCOPE();
        rg_tensor *x = rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true);
        rg_tensor *in[] = { x, x }, *r[2];
        rg_tensor *const v[] = { RG_NONE, RG_NONE };
        const int n = given;
        ck_fails(rg_gradcheck(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_gradcheck_list(reads_beyond_list, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_gradgradcheck(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_gradgradcheck_list(reads_beyond_list, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_jacrev(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_jacfwd(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_hessian(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_vjp(reads_beyond, NULL, n, in, RG_NONE, r), RG_TYPE_ERROR, said);
        ck_fails(rg_jvp(reads_beyond, NULL, n, in, v, r), RG_TYPE_ERROR, said);
        ck_fails(rg_hvp(reads_beyond, NULL, n, in, v, r), RG_TYPE_ERROR, said);
        ck_fails(rg_vmap(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        ck_fails(rg_checkpoint(reads_beyond, NULL, n, in), RG_TYPE_ERROR, said);
        rg_tensor *plain = rg_detach(x), *given_in[] = { plain, plain };
        rg_replays *replays = rg_replays_new(reads_beyond, NULL);
        ck_fails(rg_replays_run(replays, n, given_in), RG_TYPE_ERROR, said);
        rg_replays_free(replays);
    }
}
END_TEST

/* x^3 * w, with w of the context, or the sum of it */
static rg_tensor *weighed_cubes(rg_tensor *const in[], void *context) {
    return rg_mul(rg_pow(in[0], 3.0), (rg_tensor *)context);
}

static rg_tensor *sum_of_cubes(rg_tensor *const in[], void *context) {
    return rg_sum(weighed_cubes(in, context));
}

/* x[i], with whole numbers i */
static rg_tensor *chosen(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_index_select(in[0], 0, in[1]);
}

/* Compares each derivative at x = [1, 2] and w = [2, 3] with its known value. */
static void check_derivatives(rg_tensor *x, rg_tensor *w, rg_tensor *v) {
    rg_tensor *j = rg_diag(rg_literal([6.0, 36.0]), 0), *r[1];
    RG_FOR (int graph = 0; graph < 2; graph++) {
        ck_close(rg_jacrev(weighed_cubes, w, 1, &x, .create_graph = graph), j);
        ck_close(rg_jacfwd(weighed_cubes, w, 1, &x, .create_graph = graph), j);
        ck_close(rg_hessian(sum_of_cubes, w, 1, &x, .create_graph = graph),
                 rg_diag(rg_literal([12.0, 36.0]), 0));
        ck_close(rg_vjp(weighed_cubes, w, 1, &x, v, r, .create_graph = graph),
                 rg_literal([2.0, 24.0]));
        ck_close(r[0], rg_literal([30.0, 36.0]));
        ck_close(rg_jvp(weighed_cubes, w, 1, &x, &v, r, .create_graph = graph),
                 rg_literal([2.0, 24.0]));
        ck_close(r[0], rg_literal([30.0, 36.0]));
        ck_close(rg_hvp(sum_of_cubes, w, 1, &x, &v, r, .create_graph = graph),
                 rg_sum(rg_literal([2.0, 24.0])));
        ck_close(r[0], rg_literal([60.0, 36.0]));
    }
}

/* As in torch.func, derivatives have the same values inside inference mode and outside, whether the
 * inputs are inference tensors or not. */
START_TEST(test_inference_mode) {
    rg_tensor *x = rg_literal([1.0, 2.0]), *w = rg_literal([2.0, 3.0]), *v = rg_literal([5.0, 1.0]);
    rg_tensor *leaf = rg_requires_grad_(rg_clone(x), true);
    rg_tensor *made, *vector, *row, *inside;
    {
        RG_INFERENCE_MODE();
        check_derivatives(x, w, v);
        check_derivatives(leaf, w, v);
        made = rg_clone(x);
        vector = rg_clone(v);
        row = rg_literal([1, 0]);
        check_derivatives(made, w, vector);
        inside = rg_jacrev(chosen, NULL, 2, ((rg_tensor *[]){ made, row }));
        ck_assert(rg_is_inference_mode_enabled() && !rg_is_grad_enabled());
    }
    check_derivatives(made, w, vector);
    ck_assert(!rg_is_inference(inside));
    ck_close(inside, rg_literal([[0.0, 1.0], [1.0, 0.0]]));
    ck_close(rg_jacrev(chosen, NULL, 2, ((rg_tensor *[]){ made, row })), inside);
    /* Inference tensors can't be saved for backward, so these calls are refused. */
    {
        RG_INFERENCE_MODE();
        w = rg_clone(w);
        ck_fails(rg_jacrev(weighed_cubes, w, 1, &x), RG_RUNTIME_ERROR,
                 "mul: Inference tensors cannot be saved for backward");
        /* gradcheck fails, as in torch, since no gradient reaches the input. */
        leaf = rg_requires_grad_(rg_ones_dims(RG_DIMS(2), RG_FLOAT64), true);
        ck_fails(rg_gradcheck(sum_of_cubes, w, 1, &leaf), RG_RUNTIME_ERROR, "gradcheck: ");
        ck_fails(rg_gradgradcheck(sum_of_cubes, w, 1, &leaf), RG_RUNTIME_ERROR,
                 "gradgradcheck: can't check gradients in inference mode");
    }
}
END_TEST

/* ---- stale views as inputs ------------------------------------------------------------- */

static rg_tensor *sines(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_sin(in[0]);
}

/* Returns a view whose base got a history after the view was made. */
static rg_tensor *stale_output(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *base = rg_ones_dims(rg_shape(in[0]), RG_FLOAT64), *view = rg_unsqueeze(base, 0);
    rg_mul_(base, rg_square(in[0]));
    return view;
}

/* These functions take the view v, and return a tensor that must lead to the leaf behind v. */
typedef rg_tensor *use_of_view(rg_tensor *v);
#define GRAPH .create_graph = true

static rg_tensor *use_jacrev(rg_tensor *v) { return rg_jacrev(sines, NULL, 1, &v, GRAPH); }
static rg_tensor *use_jacfwd(rg_tensor *v) { return rg_jacfwd(sines, NULL, 1, &v, GRAPH); }
static rg_tensor *use_hessian(rg_tensor *v) {
    return rg_hessian(sum_of_cubes, rg_ones_like(v), 1, &v, GRAPH);
}
static rg_tensor *use_vjp(rg_tensor *v) {
    return rg_vjp(sum_of_cubes, rg_ones_like(v), 1, &v, RG_NONE, (rg_tensor *[1]){ 0 }, GRAPH);
}
static rg_tensor *use_vjp_result(rg_tensor *v) {
    rg_tensor *r[1];
    return rg_vjp(sum_of_cubes, rg_ones_like(v), 1, &v, RG_NONE, r, GRAPH) ? r[0] : NULL;
}
static rg_tensor *use_jvp(rg_tensor *v) {
    rg_tensor *r[1], *one[] = { rg_ones_like(v) };
    return rg_jvp(sum_of_cubes, rg_ones_like(v), 1, &v, one, r, GRAPH) ? r[0] : NULL;
}
static rg_tensor *use_hvp(rg_tensor *v) {
    rg_tensor *r[1], *one[] = { rg_ones_like(v) };
    return rg_hvp(sum_of_cubes, rg_ones_like(v), 1, &v, one, r, GRAPH);
}
static rg_tensor *use_checkpoint(rg_tensor *v) { return rg_checkpoint(sines, NULL, 1, &v); }
static rg_tensor *use_gradcheck(rg_tensor *v) {
    return rg_gradcheck(sines, NULL, 1, &v) && rg_gradgradcheck(sines, NULL, 1, &v) ? v : NULL;
}
static rg_tensor *use_set_item(rg_tensor *v) {
    rg_tensor *rows = rg_unsqueeze(rg_zeros_dims(RG_DIMS(2, 3), RG_FLOAT64), 0);
    return rg_set_item_(rows, v, 0, 1);
}
static rg_tensor *use_attention(rg_tensor *v) {
    rg_tensor *q = rg_reshape(wave(2, 0, 3), 1, 1, 1, 2);
    rg_tensor *k = rg_reshape(wave(6, 0, 4), 1, 1, 3, 2);
    return rg_scaled_dot_product_attention(q, k, k, .attn_mask = v);
}

/* Each function takes a stale view as it takes a view that was made after the write. */
START_TEST(test_stale_views) {
    static const struct {
        const char *name;
        use_of_view *use;
    } row[] = {
        { "jacrev", use_jacrev }, { "jacfwd", use_jacfwd }, { "hessian", use_hessian },
        { "vjp", use_vjp }, { "vjp_result", use_vjp_result }, { "jvp", use_jvp },
        { "hvp", use_hvp }, { "checkpoint", use_checkpoint }, { "gradcheck", use_gradcheck },
        { "set_item", use_set_item }, { "attention", use_attention },
    };
    for (int k = 0; k < RG_COUNT(row); k++) {
        rg_tensor *grad[2];
        for (int stale = 0; stale < 2; stale++) {
            rg_tensor *w = rg_requires_grad_(wave(3, 0, 1), true), *x = wave(3, 0, 2);
            rg_tensor *early = rg_unsqueeze(x, 0);
            rg_mul_(x, w);
            rg_tensor *y = row[k].use(stale ? early : rg_unsqueeze(x, 0));
            ck_each(y && rg_backward(rg_sum(y)), "%s, stale %d: %s", row[k].name, stale,
                    rg_error());
            grad[stale] = rg_grad_of(w);
        }
        ck_each(rg_equal(grad[0], grad[1]), "%s: another gradient", row[k].name);
    }
}
END_TEST

START_TEST(test_stale_value_fills) {
    rg_tensor *w = rg_requires_grad_(rg_ones(1), true), *base = rg_ones(1);
    rg_tensor *value = rg_select(base, 0, 0), *x = rg_zeros(3), *whole = rg_literal([ 1, 2 ]);
    rg_mul_(base, w);
    rg_fill_(x, value);
    ck_ok(rg_backward(rg_sum(x)));
    ck_assert(rg_equal(rg_grad_of(w), rg_literal([ 3.0 ])));
    value = rg_select(base, 0, 0);
    rg_mul_(base, 2);
    ck_fails(rg_masked_fill(whole, rg_literal([ true, false ]), value), RG_RUNTIME_ERROR,
             "Autograd not support dtype");
}
END_TEST

/* The data of a stale view can't be replaced, because the view is no leaf. */
START_TEST(test_stale_view_is_no_leaf) {
    rg_tensor *x = rg_ones(3), *view = rg_unsqueeze(x, 0);
    rg_mul_(x, rg_requires_grad_(rg_ones(3), true));
    ck_fails(rg_set_data(view, rg_zeros(1, 3)), RG_RUNTIME_ERROR, "expects a leaf");
}
END_TEST

/* The result of the function may be a stale view, too. */
START_TEST(test_stale_outputs) {
    rg_tensor *x = rg_requires_grad_(wave(3, 0, 1), true), *r[1];
    rg_tensor *jacobian = rg_diag(rg_mul(rg_detach(x), 2), 0);
    ck_close(rg_squeeze(rg_jacrev(stale_output, NULL, 1, &x)), jacobian);
    ck_close(rg_squeeze(rg_jacfwd(stale_output, NULL, 1, &x)), jacobian);
    ck_ok(rg_vjp(stale_output, NULL, 1, &x, rg_ones_dims(RG_DIMS(1, 3), RG_FLOAT64), r));
    ck_close(r[0], rg_mul(rg_detach(x), 2));
    ck_ok(rg_gradcheck(stale_output, NULL, 1, &x));
    ck_ok(rg_gradgradcheck(stale_output, NULL, 1, &x));
    rg_tensor *base = rg_ones_dims(RG_DIMS(1), RG_FLOAT64), *loss = rg_select(base, 0, 0);
    rg_mul_(base, rg_sum(rg_square(x)));
    ck_assert_int_gt(rg_explain(loss, x).n, 0);
}
END_TEST

/* ---- gradients without a slope --------------------------------------------------------- */

static rg_tensor *hardtanh(rg_tensor *x) { return rg_hardtanh(x, -1, 1); }
static rg_tensor *leaky_relu(rg_tensor *x) { return rg_leaky_relu(x, 0.1); }
static rg_tensor *hardshrink(rg_tensor *x) { return rg_hardshrink(x, 0.5); }
static rg_tensor *softshrink(rg_tensor *x) { return rg_softshrink(x, 0.5); }
static rg_tensor *threshold(rg_tensor *x) { return rg_threshold(x, 0.1, 0); }
static rg_tensor *max_pool(rg_tensor *x) { return rg_max_pool1d(x, 2); }
static rg_tensor *avg_pool(rg_tensor *x) { return rg_avg_pool1d(x, 2); }
static rg_tensor *reflect(rg_tensor *x) { return rg_pad_with(x, RG_DIMS(1, 2), RG_REFLECT, 0); }
static rg_tensor *nll_loss(rg_tensor *x) { return rg_nll_loss(x, rg_remainder(rg_arange(4), 3)); }

/* The gradient of a function that consists of straight lines is constant between the corners. Its
 * derivative is a tensor of zeros, as in torch, and not absent. (test_golden.c compares all ops
 * with torch, in float64.) */
START_TEST(test_straight_lines) {
    rg_tensor *(*const functions[])(rg_tensor *) = {
        rg_relu,   rg_relu6,  hardtanh, leaky_relu, hardshrink, softshrink,
        threshold, max_pool,  avg_pool, reflect,    nll_loss
    };
    for (int i = 0; i < 2 * RG_COUNT(functions); i++) {
        const rg_dtype dtype = i % 2 ? RG_BFLOAT16 : RG_FLOAT32;
        rg_tensor *x = rg_requires_grad_(rg_to(rg_randn(4, 3), dtype), true);
        rg_tensor *g = rg_grad(rg_sum(functions[i / 2](x)), x, .create_graph = true);
        rg_tensor *second = rg_grad(rg_sum(rg_square(g)), x);
        ck_ok(second);
        ck_assert(rg_equal(second, rg_zeros_like(x)));
    }
}
END_TEST

RG_TESTS(functional, test_inference_mode, test_functions_that_read_too_many_inputs,
         test_results_without_slope, test_jacobians_of_nothing, test_dtypes_of_jacobians,
         test_what_derivatives_ask_for, test_jacobians, test_inputs_of_the_second_call,
         test_arguments, test_other_arguments, test_functions_without_slope, test_hessians,
         test_products, test_inputs_without_slope, test_graphs_lead_to_the_context,
         test_another_use_does_not_count, test_vmap, test_what_vmap_refuses,
         test_one_of_many_examples_fails, test_histories_of_results, test_most_inputs,
         test_most_dims, test_long_stacks, test_memory_denied,
         test_stale_views, test_stale_value_fills, test_stale_view_is_no_leaf, test_stale_outputs,
         test_straight_lines)
