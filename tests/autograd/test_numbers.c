/*
 * test_numbers.c: numbers at the ends of their ranges, where PyTorch's own values are inexact, or
 * where C has numbers that Python hasn't. (What PyTorch says of others is in test_golden.c.)
 */
#include "tests/test.h"
#include "autograd/op.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers that int64 can't hold ----------------------------------------------- */

#define ck_too_large(call) \
    ck_fails(call, RG_RUNTIME_ERROR, "value cannot be converted to type int64_t without overflow")

START_TEST(test_unsigned_numbers) {
    unsigned long long most = 18446744073709551615ull;
    uint64_t half = 1ull << 63;
    size_t fits = INT64_MAX;
    ck_assert_int_eq(rg_item_int(rg_scalar(fits)), INT64_MAX);
    ck_assert_int_eq(rg_item_int(rg_scalar(5ul)), 5);
    ck_too_large(rg_scalar(most));
    ck_fails(rg_scalar(half), RG_RUNTIME_ERROR, "9223372036854775808: value cannot be");
    rg_tensor *x = rg_arange(3);
    ck_too_large(rg_add(x, most));
    ck_too_large(rg_mul(most, rg_ones(2)));
    ck_too_large(rg_full(RG_DIMS(2), most));
    ck_too_large(rg_where(rg_gt(x, 1), x, most));
    ck_too_large(rg_fill_(x, most));
    ck_too_large(rg_set_item_(x, most, 0));
    ck_too_large(rg_index(x, most));
    ck_too_large(rg_index(x, half, 0));
    ck_too_large(rg_set_item_(x, 1, half));
    ck_assert_int_eq(rg_item_int(rg_index(x, 2ul)), 2);
    ck_assert(rg_equal(x, rg_arange(3)));
}
END_TEST

/* ---- cosine_similarity ------------------------------------------------------------- */

/* Returns the cosine of (a, b) and (c, d). */
static double cosine(double a, double b, double c, double d, rg_dtype dtype, double eps) {
    rg_tensor *x = rg_to(rg_from_double((const double[]){ a, b }, RG_DIMS(2)), dtype);
    rg_tensor *y = rg_to(rg_from_double((const double[]){ c, d }, RG_DIMS(2)), dtype);
    return rg_item(rg_cosine_similarity(x, y, 0, eps));
}

START_TEST(test_cosine_of_large_numbers) {
    ck_assert(cosine(1e20, 1, 1e20, 2, RG_FLOAT32, 1e-8) == 1);
    ck_assert(cosine(1e200, 1, 1e200, 2, RG_FLOAT64, 1e-8) == 1);
    ck_assert(cosine(3e38, 3e38, -3e38, 3e38, RG_FLOAT32, 1e-8) == 0);
    ck_assert(fabs(cosine(FLT_MAX, FLT_MAX, 0, 1, RG_FLOAT32, 1e-8) - sqrt(0.5)) < 1e-7);
    ck_assert(fabs(cosine(DBL_MAX, DBL_MAX, 0, 1, RG_FLOAT64, 1e-8) - sqrt(0.5)) < 1e-15);
    ck_assert(fabs(cosine(1e-30, 1e-30, 0, 1, RG_FLOAT32, 1e-8) - 1e-22) < 1e-28);
    ck_assert(isnan(cosine(INFINITY, 1, 1, 1, RG_FLOAT32, 1e-8)));
    ck_assert(isnan(cosine(NAN, 1, 1e20, 1, RG_FLOAT32, 1e-8)));
    ck_assert(cosine(0, 0, 1e20, 1, RG_FLOAT32, 1e-8) == 0);
}
END_TEST

static rg_tensor *cosine_of(rg_tensor *const in[], void *context) {
    (void)context;
    return rg_cosine_similarity(rg_mul(in[0], 1e300), rg_mul(in[1], 1e-2), 1, 1e-8);
}

START_TEST(test_cosine_gradients_at_any_scale) {
    rg_tensor *in[] = { rg_literal_as(RG_FLOAT64, [ [ 0.5, 2, -1 ], [ 1, 0.25, 3 ] ]),
                        rg_literal_as(RG_FLOAT64, [ [ 1, -0.5, 2 ], [ 0.75, 1.5, -1 ] ]) };
    for (int i = 0; i < 2; i++)
        rg_requires_grad_(in[i], true);
    ck_assert_msg(rg_gradcheck(cosine_of, NULL, 2, in), "%s", rg_error());
    ck_assert_msg(rg_gradgradcheck(cosine_of, NULL, 2, in), "%s", rg_error());
}
END_TEST

typedef struct {
    rg_tensor *a, *b, *cosine;
} recorded;

static void record_cosine(void *context) {
    recorded *r = context;
    rg_copy_(r->cosine, rg_cosine_similarity(r->a, r->b, 0, 1e-8));
}

/* A recorded step computes cosines of large numbers, too, although small ones were recorded. */
START_TEST(test_cosine_in_a_replay) {
    recorded r = { rg_literal([ 3., 4. ]), rg_literal([ 4., 3. ]), rg_scalar(0.) };
    rg_replay *replay = rg_record(record_cosine, &r);
    ck_ok(replay);
    ck_assert(fabs(rg_item(r.cosine) - 0.96) < 1e-6);
    rg_copy_(r.a, rg_literal([ 3e20, 4e20 ]));
    ck_assert(rg_replay_run(replay));
    ck_assert(fabs(rg_item(r.cosine) - 0.96) < 1e-6);
    rg_replay_free(replay);
}
END_TEST

typedef struct {
    rg_tensor *x, *y, *g;
    int layout;
} cosine_gradient;

/* Sets g to the gradient of x, which has another use besides the cosine. */
static void record_cosine_gradient(void *context) {
    RG_SCOPE();
    const cosine_gradient *c = context;
    rg_tensor *x = c->layout == 1 ? rg_T(c->x) : c->x;
    if (c->layout == 2)
        x = rg_narrow(x, 1, 0, 7);
    rg_tensor *cosine = rg_cosine_similarity(x, c->y, 1, 1.5);
    rg_tensor *loss = rg_add(rg_sum(rg_mul(cosine, 0.3)), rg_sum(rg_square(c->x)));
    rg_copy_(c->g, rg_grad(loss, c->x));
}

/* A replay computes the bits of a call: it divides x first, and a call doesn't. */
START_TEST(test_cosine_gradients_in_a_replay) {
    for (int layout = 0; layout < 3; layout++) {
        cosine_gradient c = { .layout = layout, .g = rg_zeros(17, 17) };
        c.x = rg_requires_grad_(rg_randn(17, 17), true);
        c.y = rg_randn(17, 1);
        rg_replay *r = rg_record(record_cosine_gradient, &c);
        ck_ok(r && rg_replay_run(r));
        rg_tensor *replayed = rg_clone(c.g);
        record_cosine_gradient(&c);
        ck_assert_msg(rg_equal(replayed, c.g), "layout %d", layout);
        rg_replay_free(r);
    }
}
END_TEST

/* A variance that is one number gives the same loss as a tensor of x's dtype filled with it. */
START_TEST(test_variance_as_a_number) {
    rg_tensor *x = rg_to(rg_arange(4.), RG_FLOAT64), *zero = rg_zeros_like(x);
    rg_tensor *many = rg_full_like(x, 0.3);
    for (int full = 0; full < 2; full++)
        ck_assert(rg_equal(rg_gaussian_nll_loss(x, zero, 0.3, .full = full),
                           rg_gaussian_nll_loss(x, zero, many, .full = full)));
}
END_TEST

/* The variance of no element is NaN, whatever the correction is. */
START_TEST(test_variance_of_nothing) {
    for (int correction = -2; correction < 3; correction++) {
        rg_tensor *none = rg_zeros(0, 2), *y = rg_var_dims(none, RG_DIMS(0), correction, false);
        ck_assert(rg_numel(y) == 2 && isnan(rg_at(y, 1)));
        ck_assert(isnan(rg_at(rg_std_dims(none, RG_DIMS(0), correction, false), 0)));
    }
}
END_TEST

/* An infinite gradient of the median reaches the median alone. */
START_TEST(test_infinite_slope_of_a_median) {
    rg_tensor *x = rg_requires_grad_(rg_literal([ 3.0, 1.0, 2.0 ]), true);
    for (int graph = 0; graph < 2; graph++) {
        rg_tensor *g = rg_grad(rg_median(x), x, .gradient = rg_scalar(INFINITY),
                               .create_graph = graph);
        ck_assert(rg_equal(g, rg_literal([ 0.0, 0.0, inf ])));
    }
}
END_TEST

/* The exponent's derivative is 0 where the base is 0. A gradient of NaN isn't hidden by it. */
START_TEST(test_exponents_of_zero) {
    rg_tensor *base = rg_zeros(2), *x = rg_requires_grad_(rg_literal([ 2.0, 0.0 ]), true);
    rg_tensor *y = rg_pow(base, x), *g = rg_literal([ 1.0, nan ]);
    ck_assert(rg_equal(rg_isnan(rg_grad(y, x, .gradient = g, .retain_graph = true)),
                       rg_literal([ false, true ])));
    ck_assert_double_eq(rg_at(rg_grad(y, x, .gradient = g), 0), 0);
}
END_TEST

/* 1 to any power is 1, and any number to the power of 1 is the number. */
START_TEST(test_powers_with_one) {
    rg_tensor *x = rg_literal_as(RG_FLOAT64, [ -2, 0, 3, NAN ]);
    ck_assert(rg_equal(rg_pow(1, x), rg_ones_like(x)));
    ck_assert(rg_allclose(rg_narrow(rg_pow(x, 1), 0, 0, 3), rg_narrow(x, 0, 0, 3), 0, 0));
    rg_tensor *whole = rg_arange(4);
    ck_assert(rg_equal(rg_pow(1, whole), rg_ones_like(whole)));
    ck_assert(rg_equal(rg_pow(whole, 1), whole));
}
END_TEST

/* The slope of |x| is the sign of x, however small x is, and 0 at 0. */
START_TEST(test_slope_of_the_least_numbers) {
    rg_tensor *x = rg_literal_as(RG_FLOAT64, [ 5e-324, 0, -1e-310, 2 ]);
    ck_ok(rg_backward(rg_norm_p(rg_requires_grad_(x, true), 1)));
    ck_assert(rg_equal(rg_grad_of(x), rg_literal_as(RG_FLOAT64, [ 1, 0, -1, 1 ])));
}
END_TEST

/* If several zeros are factors of one product, torch's second derivative is wrong. Here computing
 * it fails. The first derivative is the same with create_graph and without. */
START_TEST(test_product_of_several_zeros) {
    rg_tensor *x = rg_literal_as(RG_FLOAT64, [ 3, 5 ]);
    rg_tensor *source = rg_requires_grad_(rg_literal_as(RG_FLOAT64, [ 0, 2, 0, 7, 0 ]), true);
    rg_tensor *at = rg_literal([ 0, 0, 0, 1, 1 ]);
    rg_tensor *y = rg_sum(rg_scatter_reduce(x, 0, at, source, "prod"));
    rg_tensor *g = rg_grad(y, source, .retain_graph = true);
    ck_assert(rg_equal(g, rg_literal_as(RG_FLOAT64, [ 0, 0, 0, 0, 35 ])));
    rg_tensor *twice = rg_grad(y, source, .create_graph = true);
    ck_assert(rg_equal(rg_detach(twice), g));
    ck_fails(
        rg_grad(rg_sum(rg_mul(twice, twice)), source), RG_NOT_IMPLEMENTED,
        "Double backward is unsupported for src when >1 zeros in src are scattered to the same "
        "position in self");
}
END_TEST

/* The product of a single element is that element, and its gradient is g, even if the element isn't
 * finite. */
START_TEST(test_product_of_one) {
    rg_tensor *x = rg_requires_grad_(rg_literal([ [inf], [nan], [-inf], [2.0] ]), true);
    rg_tensor *ones = rg_ones(4, 1);
    ck_assert(rg_equal(rg_grad(rg_sum(rg_cumprod(x, 1)), x), ones));
    ck_assert(rg_equal(rg_grad(rg_sum(rg_prod_dim(x, 1, false)), x), ones));
    ck_assert(rg_equal(rg_grad(rg_sum(rg_prod_dim(x, -1, true)), x), ones));
    x = rg_requires_grad_(rg_literal([inf]), true);
    ck_assert(rg_equal(rg_grad(rg_prod_dim(x, 0, false), x), rg_ones(1)));
}
END_TEST

/* If two factors are 0, all gradients are 0, whatever the other factors are. If one factor is 0,
 * the gradient of that factor is the product of the others. */
START_TEST(test_product_with_infinity) {
    rg_tensor *x = rg_requires_grad_(rg_literal([ 0., 0., inf ]), true);
    ck_assert(rg_equal(rg_grad(rg_prod(x), x), rg_zeros(3)));
    rg_tensor *y = rg_requires_grad_(rg_literal([ 0., 2., inf ]), true);
    rg_tensor *g = rg_grad(rg_prod(y), y);
    ck_assert(g && rg_at(g, 0) == INFINITY && isnan(rg_at(g, 1)) && rg_at(g, 2) == 0);
    rg_tensor *z = rg_requires_grad_(rg_literal([ [ 0., 2. ], [ 3., 4. ] ]), true);
    for (int graph = 0; graph < 2; graph++)
        ck_assert(rg_equal(rg_detach(rg_grad(rg_prod(z), z, .create_graph = graph)),
                           rg_literal([ [ 24., 0. ], [ 0., 0. ] ])));
}
END_TEST

/* The mean over no losses is NaN, whether there are no rows or no classes. Their sum is 0. */
START_TEST(test_losses_of_nothing) {
    for (int rows = 0; rows < 3; rows += 2) {
        rg_tensor *x = rg_ones(rows, rows ? 0 : 3);
        ck_assert(isnan(rg_item(rg_cross_entropy(x, x))));
        ck_assert(rg_item(rg_cross_entropy(x, x, .reduction = RG_SUM)) == 0);
    }
}
END_TEST

/* An infinite gradient of a row stays infinite when it is divided by the row's frequency. */
START_TEST(test_infinite_gradients_of_rows) {
    rg_tensor *table = rg_requires_grad_(rg_ones(3, 1), true);
    rg_tensor *y = rg_embedding(rg_literal([ 0, 2, 2 ]), table, .scale_grad_by_freq = true);
    rg_tensor *g = rg_grad(y, table, .gradient = rg_literal([[inf], [inf], [3.0]]));
    ck_assert(rg_equal(g, rg_literal([[inf], [0.0], [inf]])));
}
END_TEST

/* The weight of a first element of -inf is NaN, as in PyTorch. Derivatives of the elements after it
 * aren't. */
START_TEST(test_running_sums_from_nothing) {
    rg_tensor *x = rg_requires_grad_(rg_literal([ -inf, 1., 2. ]), true);
    rg_tensor *g = rg_requires_grad_(rg_literal([ 1., 2., 3. ]), true);
    rg_tensor *slope = rg_grad(rg_logcumsumexp(x, 0), x, .gradient = g, .create_graph = true);
    ck_assert(isnan(rg_at(slope, 0)) && isfinite(rg_at(slope, 1)) && isfinite(rg_at(slope, 2)));
    rg_tensor *second = rg_grad(rg_index(slope, 1), x, .retain_graph = true);
    ck_assert_double_eq_tol(rg_at(second, 1), -rg_at(second, 2), 1e-6);
    ck_assert_double_eq_tol(rg_at(second, 1), 3 * 0.19661193, 1e-6);
    rg_tensor *mixed = rg_grad(rg_index(slope, 1), g);
    ck_assert_double_eq_tol(rg_at(mixed, 1), 1, 1e-6);
    ck_assert_double_eq_tol(rg_at(mixed, 2), 0.26894142, 1e-6);
}
END_TEST

/* With include_self false, amax and amin of bools ignore the element that was there before. */
START_TEST(test_extremes_of_truths) {
    for (int truth = 0; truth < 2; truth++) {
        rg_tensor *x = rg_full_dims(RG_DIMS(2), !truth, RG_BOOL), *at = rg_literal([0]);
        rg_tensor *source = rg_full_dims(RG_DIMS(1), truth, RG_BOOL);
        static const char *const hows[] = { "amax", "amin" };
        for (int k = 0; k < 2; k++) {
            rg_tensor *y = rg_scatter_reduce(x, 0, at, source, hows[k], .include_self = false);
            ck_assert(y && rg_at(y, 0) == truth && rg_at(y, 1) == !truth);
        }
    }
}
END_TEST

/* ---- shapes that a loss broadcasts ------------------------------------------------- */

static int warnings;
static char warning[300];
static void note_warning(const char *message) {
    warnings++;
    snprintf(warning, sizeof warning, "%s", message);
}

static const char sizes_differ[] =
    "Using a target size (torch.Size([2])) that is different to the input size (torch.Size([2, 1]))"
    ". This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
    "same size.";

/* As in torch, a loss is the sum over all pairs if the target's shape broadcasts with the
 * input's. */
START_TEST(test_losses_warn_of_shapes) {
    rg_on_warning(note_warning);
    rg_tensor *x = rg_requires_grad_(rg_literal([ [1.], [3.] ]), true), *t = rg_literal([ 2., 6. ]);
    for (int i = 0; i < 3; i++)
        ck_assert(rg_item(rg_mse_loss(x, t, .reduction = RG_SUM)) == 1 + 25 + 1 + 9);
    ck_assert_int_eq(warnings, 1);
    ck_assert(strstr(warning, "mse_loss: ") == warning && strstr(warning, sizes_differ));
    ck_assert(rg_item(rg_l1_loss(x, t, .reduction = RG_SUM)) == 1 + 5 + 1 + 3);
    ck_assert(rg_item(rg_smooth_l1_loss(x, t, .reduction = RG_SUM)) == 0.5 + 4.5 + 0.5 + 2.5);
    ck_assert(rg_item(rg_smooth_l1_loss(x, t, .beta = 0, .reduction = RG_SUM)) == 10);
    ck_assert(rg_item(rg_huber_loss(x, t, .reduction = RG_SUM)) == 0.5 + 4.5 + 0.5 + 2.5);
    ck_assert_int_eq(warnings, 4);
    ck_assert(strstr(warning, "huber_loss: ") == warning && strstr(warning, sizes_differ));
    ck_assert(rg_backward(rg_mse_loss(x, t)));
    ck_assert(rg_equal(rg_grad_of(x), rg_literal([ [-3.], [-1.] ])));
    ck_ok(rg_mse_loss(x, rg_ones(2, 1)));
    ck_assert_int_eq(warnings, 4);
    ck_ok(rg_kl_div(x, rg_ones(2, 1), .reduction = RG_BATCHMEAN));
    ck_assert_int_eq(warnings, 4);
    ck_ok(rg_kl_div(x, rg_ones(2, 1)));
    ck_assert(warnings == 5 && strstr(warning, "kl_div: reduction: 'mean' divides the total loss"));
}
END_TEST

/* ---- lists ------------------------------------------------------------------------- */

/* rg_matmul is a macro, so the commas of a compound literal would separate its arguments.
 * rg_list_of takes an array instead. */
START_TEST(test_lists_of_an_array) {
    rg_tensor *v[] = { rg_ones(1, 2), rg_zeros(1, 2), rg_ones(1, 2) };
    ck_assert(
        rg_equal(rg_matmul(rg_cat(rg_list_of(3, v), 0), rg_ones(2)), rg_literal([ 2., 0., 2. ])));
    ck_assert_int_eq(rg_size(rg_add(rg_stack(rg_list_of(2, v), 0), 1), 0), 2);
    ck_fails(rg_cat(rg_list_of(2, NULL), 0), RG_TYPE_ERROR, "but got NULL");
}
END_TEST

/* ---- sizes ------------------------------------------------------------------------- */

/* torch reads beyond x for paddings as negative as these, or has no message for them. */
START_TEST(test_paddings_that_overflow) {
    const int64_t least = INT64_MIN, most = INT64_MAX;
    rg_tensor *x = rg_literal([[[ 1., 2. ]]]);
#define PAD(left, right, mode) rg_pad_with(x, RG_DIMS(left, right), mode, 0)
    ck_assert(rg_equal(PAD(least, most, RG_REPLICATE), rg_literal([[[2.]]])));
    ck_assert(rg_equal(PAD(most, least, RG_REPLICATE), rg_literal([[[1.]]])));
    ck_fails(PAD(most, most, RG_REPLICATE), RG_RUNTIME_ERROR, "which is invalid");
    ck_fails(rg_pad_with(rg_ones(1, 1, 2, 2), RG_DIMS(1, 1, most, most), RG_REPLICATE, 0),
             RG_RUNTIME_ERROR, "which is invalid. Check dimension 2 of your input.");
    ck_fails(PAD(least, least, RG_REPLICATE), RG_RUNTIME_ERROR, "which is invalid");
    ck_fails(PAD(least, least, RG_CIRCULAR), RG_RUNTIME_ERROR, "an empty dimension");
    ck_fails(PAD(least, 1, RG_REFLECT), RG_RUNTIME_ERROR, "too small");
    ck_fails(PAD(least, least, RG_CONSTANT), RG_RUNTIME_ERROR, "which is invalid");
    ck_fails(PAD(most, most, RG_CONSTANT), RG_RUNTIME_ERROR, "which is invalid");
    rg_tensor *y = rg_requires_grad_(rg_clone(x), true);
    ck_assert(rg_backward(rg_sum(rg_pad_with(y, RG_DIMS(least, most), RG_REPLICATE, 0))));
    ck_assert(rg_equal(rg_grad_of(y), rg_literal([[[ 0., 1. ]]])));
}
END_TEST

/* Probabilities and targets must lie between 0 and 1, inclusive. */
START_TEST(test_targets_within_the_unit) {
    static const double out[] = { -0.01, 1.01, NAN, INFINITY };
    rg_tensor *ends = rg_literal([ 0., 1. ]), *p = rg_literal([ 0.25, 0.75 ]);
    ck_assert_double_eq_tol(rg_item(rg_binary_cross_entropy(p, ends)), -log(0.75), 1e-6);
    ck_ok(rg_binary_cross_entropy(ends, p));
    for (int i = 0; i < RG_COUNT(out); i++)
        for (int k = 0; k < 2; k++) {
            rg_tensor *bad = rg_clone(p);
            ((float *)rg_data(bad))[k] = (float)out[i];
            ck_fails(rg_binary_cross_entropy(bad, p), RG_RUNTIME_ERROR,
                     "all elements of input should be between 0 and 1");
            ck_fails(rg_binary_cross_entropy(p, bad), RG_RUNTIME_ERROR,
                     "all elements of target should be between 0 and 1");
        }
}
END_TEST

/* Whole numbers are taken exactly, even if their squares exceed int64. */
START_TEST(test_cosine_of_whole_numbers) {
    rg_tensor *large = rg_mul(rg_to(rg_ones(3), RG_INT64), 4000000000.);
    rg_tensor *whole = rg_to(large, RG_INT64), *ones = rg_ones(3);
    ck_assert_double_eq_tol(rg_item(rg_cosine_similarity(ones, whole, 0, 1e-8)), 1, 1e-6);
    ck_assert_double_eq_tol(rg_item(rg_cosine_similarity(whole, ones, 0, 1e-8)), 1, 1e-6);
}
END_TEST

/* A new dim has torch's stride, although no element is read with it. */
START_TEST(test_strides_of_new_dims) {
    rg_tensor *x = rg_zeros(2, 3, 5);
    static const int64_t strides[] = { 30, 15, 5, 1 };
    for (int d = 0; d < 4; d++)
        ck_assert_int_eq(rg_stride(rg_unsqueeze(x, d), d), strides[d]);
    ck_assert_int_eq(rg_stride(rg_unsqueeze(rg_transpose(x, 0, 2), 1), 1), 15);
    /* A single window has the stride that several would have. */
    for (int64_t step = 1; step < 4; step++) {
        ck_assert_int_eq(rg_stride(rg_unfold(x, 0, 2, step), 0), 15 * step);
        ck_assert_int_eq(rg_stride(rg_unfold(x, 0, 1, step), 0), 15 * step);
    }
}
END_TEST

/* Reflection pads a side with fewer elements than the dim has. Circular padding pads a side with at
 * most as many elements as the dim has. */
START_TEST(test_paddings_at_their_limits) {
    rg_tensor *x = rg_literal([[[ 1., 2., 3. ]]]);
    ck_ok(PAD(2, 2, RG_REFLECT));
    ck_ok(PAD(3, 3, RG_CIRCULAR));
    static const struct {
        int64_t left, right;
    } too_far[] = { { 3, 2 }, { 2, 3 }, { 3, 0 }, { 0, 3 } };
    for (int i = 0; i < RG_COUNT(too_far); i++) {
        const int64_t left = too_far[i].left, right = too_far[i].right;
        char said[200];
        snprintf(said, sizeof said,
                 "Argument #4: Padding size should be less than the corresponding input "
                 "dimension, but got: padding (%d, %d) at dimension 2 of input [1, 1, 3]",
                 (int)left, (int)right);
        ck_fails(PAD(left, right, RG_REFLECT), RG_RUNTIME_ERROR, said);
        ck_fails(PAD(left + 1, right + (right == 3), RG_CIRCULAR), RG_RUNTIME_ERROR,
                 "Padding value causes wrapping around more than once.");
    }
}
END_TEST

/* One, two or three dims are padded by reflection, replication or circularly, with a batch and
 * without. */
START_TEST(test_paddings_of_all_dims) {
    static const rg_pad_mode modes[] = { RG_REFLECT, RG_REPLICATE, RG_CIRCULAR };
    for (int n = 1; n <= 3; n++)
        for (int k = 0; k < 6; k++) {
            rg_dims shape = { n + 1 + k % 2, { 2, 2, 2, 2, 2 } };
            const rg_dims padding = { 2 * n, { 1, 1, 1, 1, 1, 1 } };
            const rg_pad_mode mode = modes[k / 2];
            rg_tensor *y = rg_pad_with(rg_full(shape, 3), padding, mode, 0);
            for (int d = shape.n - n; d < shape.n; d++)
                shape.v[d] = 4;
            ck_assert_msg(y && rg_equal(y, rg_full(shape, 3)), "%d dims, mode %d: %s", n, mode,
                          rg_error());
        }
}
END_TEST

/* A padding, dilation or stride may be up to RG_NUMEL_MAX, even if the result is too large to be
 * made. */
START_TEST(test_convolutions_at_their_limits) {
    static const char too_large[] = "a stride, padding or dilation is too large";
    static const char no_room[] = "Storage size calculation overflowed";
    const int64_t most = RG_NUMEL_MAX;
    rg_tensor *x = rg_literal([[[3.]]]), *kernel = rg_literal([[[5.]]]);
#define CONV(...) rg_conv1d(x, kernel, RG_NONE, __VA_ARGS__)
    ck_assert(rg_equal(CONV(.stride = most), rg_mul(x, 5)));
    ck_assert(rg_equal(CONV(.dilation = most), rg_mul(x, 5)));
    ck_fails(CONV(.padding = most), RG_RUNTIME_ERROR, no_room);
    ck_fails(CONV(.stride = most + 1), RG_RUNTIME_ERROR, too_large);
    ck_fails(CONV(.dilation = most + 1), RG_RUNTIME_ERROR, too_large);
    ck_fails(CONV(.padding = most + 1), RG_RUNTIME_ERROR, too_large);
    kernel = rg_ones(1, 1, 32);
    ck_fails(CONV(.dilation = most), RG_RUNTIME_ERROR, too_large);
#undef CONV
}
END_TEST

/* A threshold of 2^63 is taken, as in torch, since the largest int64 becomes 2^63 as a float. */
START_TEST(test_thresholds_of_whole_numbers) {
    rg_tensor *x = rg_arange(3);
    ck_ok(rg_threshold(x, 0x1p63, 7));
    ck_assert(rg_equal(rg_threshold(x, -0x1p63, 7), x));
    ck_ok(rg_threshold(x, 1, 0x1p63));
    ck_ok(rg_threshold(x, 1, -0x1p63));
    const double beyond = nextafter(0x1p63, INFINITY);
    for (int sign = -1; sign < 2; sign += 2) {
        ck_too_large(rg_threshold(x, sign * beyond, 7));
        ck_too_large(rg_threshold(x, 1, sign * beyond));
    }
}
END_TEST

/* Several shifts along one dim add up, also beyond the dim's size. */
START_TEST(test_shifts_add_up) {
    rg_tensor *x = rg_arange(5);
    for (int a = -12; a <= 12; a++)
        for (int b = -12; b <= 12; b++) {
            const int at = ((a + b) % 5 + 5) % 5;
            rg_tensor *y = rg_roll_dims(x, RG_DIMS(a, b), RG_DIMS(0, 0));
            ck_each(y && rg_item_int(rg_select(y, 0, at)) == 0, "%d and %d: %s", a, b, rg_repr(y));
            ck_each(rg_equal(y, rg_roll(x, a + b, 0)), "%d and %d: %s", a, b, rg_repr(y));
        }
    rg_tensor *none = rg_roll_dims(rg_zeros(0, 2), RG_DIMS(3, 4), RG_DIMS(0, 1));
    ck_assert(none && rg_size(none, 0) == 0);
    ck_ok(rg_roll_dims(rg_zeros(0, 2), RG_DIMS(3), RG_DIMS(5)));
    ck_fails(rg_roll_dims(rg_zeros(0, 2), RG_DIMS(3, 4), RG_DIMS(0, 5)), RG_INDEX_ERROR,
             "roll: Dimension out of range (expected to be in range of [-2, 1], but got 5)");
}
END_TEST

/* A single index out of bounds fails, as several indices do. */
START_TEST(test_one_index_beyond) {
    static const char *const hows[] = { "sum", "prod", "mean", "amax", "amin" };
    for (int low = 0; low < 2; low++) {
        rg_tensor *x = rg_zeros(3), *one = rg_ones(1), *i = rg_literal([3]);
        if (low)
            ck_ok(rg_fill_(i, -4));
        const char *said = low ? "index -4 is out of bounds for dimension 0 with size 3"
                               : "index 3 is out of bounds for dimension 0 with size 3";
        ck_fails(rg_gather(x, 0, i), RG_RUNTIME_ERROR, said);
        ck_fails(rg_scatter(x, 0, i, one), RG_RUNTIME_ERROR, said);
        ck_fails(rg_scatter(x, 0, i, 2), RG_RUNTIME_ERROR, said);
        ck_fails(rg_scatter_add(x, 0, i, one), RG_RUNTIME_ERROR, said);
        ck_fails(rg_index(x, i), RG_INDEX_ERROR, said);
        ck_fails(rg_set_item_(x, 1, i), RG_INDEX_ERROR, said);
        for (int k = 0; k < RG_COUNT(hows); k++)
            ck_fails(rg_scatter_reduce(x, 0, i, one, hows[k]), RG_RUNTIME_ERROR, said);
    }
}
END_TEST

/* A dim without elements has no valid index, but an empty index is accepted. */
START_TEST(test_indices_into_nothing) {
    static const char said[] = "index is out of bounds for dimension with size 0";
    rg_tensor *i = rg_literal([0]);
    ck_fails(rg_index(rg_zeros(0, 3), i, i), RG_INDEX_ERROR, said);
    ck_fails(rg_index(rg_zeros(3, 0), i, i), RG_INDEX_ERROR, said);
    ck_fails(rg_index(rg_zeros(0, 0), i, i), RG_INDEX_ERROR, said);
    for (int first = 0; first < 3; first += 2) {
        rg_tensor *none = rg_zeros_dims(RG_DIMS(first, 2 - first), RG_INT64);
        rg_tensor *y = rg_index(rg_zeros(0, 3), none);
        ck_assert(y && rg_ndim(y) == 3 && rg_size(y, 0) == first && rg_size(y, 2) == 3);
    }
}
END_TEST

/* An empty window over a 0-d tensor reads nothing. */
START_TEST(test_windows_of_nothing) {
    rg_tensor *x = rg_requires_grad_(rg_scalar(2.), true), *y = rg_unfold(x, 0, 0, 1);
    ck_assert(y && rg_ndim(y) == 1 && rg_numel(y) == 0);
    ck_ok(rg_backward(y, .gradient = rg_narrow(rg_ones(3), 0, 0, 0)));
    ck_assert(rg_equal(rg_grad_of(x), rg_scalar(0.)));
}
END_TEST

/* Returns whether a pooling window that begins at index `begin` reads one of the `size`
 * elements. */
static bool has_element(int64_t size, int64_t begin, int64_t kernel, int64_t dilation) {
    for (int64_t tap = 0; tap < kernel; tap++)
        if (begin + tap * dilation >= 0 && begin + tap * dilation < size)
            return true;
    return false;
}

/* Max-pools a tensor (1, 1, size). If each window has an element, checks the maxima and their
 * gradients, and returns 0. Otherwise checks that max_pool1d fails, and returns 1. */
static int try_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                       int64_t dilation, bool ceil_mode) {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_to(rg_add(rg_arange(size), 1), RG_FLOAT32), true);
    rg_values_indices r = rg_max_pool1d_with_indices(
        rg_reshape(x, 1, 1, -1), kernel, .stride = stride, .padding = padding, .dilation = dilation,
        .ceil_mode = ceil_mode);
    if (!r.values) {
        ck_assert_ptr_nonnull(strstr(rg_error(), "a window lies wholly in the padding"));
        rg_error_clear();
        return 1;
    }
    ck_ok(rg_backward(rg_sum(r.values)));
    float hits[8] = { 0 };
    for (int64_t i = 0; i < rg_numel(r.values); i++) {
        const int64_t at = ((int64_t *)r.indices->data)[i];
        ck_each(has_element(size, i * stride - padding, kernel, dilation), "window %lld is empty",
                (long long)i);
        ck_each(at >= 0 && at < size && ((float *)r.values->data)[i] == (float)(at + 1),
                "window %lld has its maximum at %lld of %lld", (long long)i, (long long)at,
                (long long)size);
        hits[at]++;
    }
    ck_assert(memcmp(rg_grad_of(x)->data, hits, (size_t)size * sizeof *hits) == 0);
    return 0;
}

/* A window that steps from one padding to the other without reading an element is refused. */
START_TEST(test_windows_in_the_padding) {
    int refused = 0;
    for (int64_t size = 1; size <= 5; size++)
        for (int64_t kernel = 2; kernel <= 4; kernel++)
            for (int64_t stride = 1; stride <= 3; stride++)
                for (int64_t padding = 0; padding <= kernel / 2; padding++)
                    for (int64_t dilation = 1; dilation <= 5; dilation++)
                        for (int ceil_mode = 0; ceil_mode < 2; ceil_mode++)
                            if (size + 2 * padding > dilation * (kernel - 1))
                                refused += try_windows(size, kernel, stride, padding, dilation,
                                                       ceil_mode);
    ck_assert_int_gt(refused, 10);
}
END_TEST

/* With RG_SAME, an even kernel pads one end by one element more than the other, and warns of it. So
 * a kernel of two elements fits an input of one. Odd kernels don't warn. */
START_TEST(test_kernel_that_just_fits) {
    rg_on_warning(note_warning);
    rg_tensor *x = rg_literal([[[3.]]]), *kernel = rg_literal([[[ 5., 7. ]]]);
    warnings = 0;
    ck_ok(rg_conv1d(x, rg_ones(1, 1, 3), RG_NONE, .padding = RG_SAME));
    ck_ok(rg_conv1d(x, rg_ones(1, 1, 1), RG_NONE));
    ck_assert_int_eq(warnings, 0);
    ck_assert(rg_equal(rg_conv1d(x, kernel, RG_NONE, .padding = RG_SAME), rg_mul(x, 5)));
    ck_assert_int_eq(warnings, 1);
}
END_TEST

/* ---- whole numbers ------------------------------------------------------------------ */

static rg_tensor *whole_numbers(int64_t from, rg_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n *= shape.v[d];
    return rg_reshape_dims(rg_add(rg_arange(n), from), shape);
}

/* Convolutions of whole numbers give PyTorch's results. They also equal the results in float64,
 * which are exact for these numbers. */
START_TEST(test_convolutions_of_whole_numbers) {
    rg_tensor *x = whole_numbers(-8, RG_DIMS(1, 2, 2, 4));
    rg_tensor *w = whole_numbers(-5, RG_DIMS(2, 1, 2, 3));
    rg_tensor *bias = rg_literal([ 100, -100 ]);
    rg_tensor *y = rg_conv2d(x, w, bias, .groups = 2, .strides = RG_DIMS(2, 1),
                             .paddings = RG_DIMS(1, 2), .dilations = RG_DIMS(1, 2));
    rg_tensor *torchs = rg_literal([
        108, 107, 122, 119, 122, 115, 128, 119, -88, -77, -90, -81, -74, -69, -84, -81
    ]);
    ck_assert(rg_dtype_of(y) == RG_INT64 && rg_equal(y, rg_reshape(torchs, 1, 2, 2, 4)));
    const int64_t sizes[][5] = { { 2, 3, 4, 9, 2 }, { 3, 2, 5, 70, 3 }, { 1, 1, 1, 1, 1 },
                                 { 0, 2, 3, 5, 2 }, { 2, 0, 3, 5, 2 } };
    for (int i = 0; i < RG_COUNT(sizes); i++)
        for (int stride = 1; stride < 3; stride++) {
            const int64_t *s = sizes[i];
            x = whole_numbers(-7, RG_DIMS(s[0], s[1], s[3]));
            w = whole_numbers(-3, RG_DIMS(s[2], s[1], s[4]));
            y = rg_conv1d(x, w, RG_NONE, .stride = stride, .padding = 1);
            rg_tensor *exact = rg_conv1d(rg_to(x, RG_FLOAT64), rg_to(w, RG_FLOAT64), RG_NONE,
                                         .stride = stride, .padding = 1);
            ck_each(y && rg_dtype_of(y) == RG_INT64 && rg_equal(y, rg_to(exact, RG_INT64)),
                    "sizes %d, stride %d: %s", i, stride, rg_error());
        }
    rg_tensor *large = rg_literal([[[ 4611686018427387904, 4611686018427387904, 3 ]]]);
    y = rg_conv1d(large, rg_literal([[[ 2, 2 ]]]), RG_NONE);
    ck_assert(rg_equal(y, rg_literal([[[ 0, -9223372036854775802 ]]])));
}
END_TEST

/* An eps below 0 is accepted, as in PyTorch. */
START_TEST(test_eps_below_zero) {
    rg_tensor *x = rg_literal([ 1., 2., 3. ]);
    rg_tensor *torchs = rg_literal([ 0.5222329678670, 1.044465935734, 1.566698903601 ]);
    ck_assert(rg_allclose(rg_rms_norm(x, RG_DIMS(3), RG_NONE, -1), torchs, 1e-6, 0));
    ck_assert(rg_item(rg_all(rg_isnan(rg_rms_norm(x, RG_DIMS(3), RG_NONE, -100)))));
    ck_assert(rg_allclose(rg_rms_norm(x, RG_DIMS(3), RG_NONE, RG_OWN_EPS),
                          rg_rms_norm(x, RG_DIMS(3), RG_NONE, 0), 1e-6, 0));
}
END_TEST

/* ---- functions of three numbers ------------------------------------------------------ */

/* addcmul and addcdiv multiply the first tensor by the factor before they multiply or divide by the
 * second. No overflow occurs, although the product or quotient of the two tensors would
 * overflow. */
START_TEST(test_factors_come_first) {
    enum { N = 37 }; /* The elements fill whole vectors and a part of one. */
    rg_tensor *x = rg_ones(N);
    rg_tensor *large = rg_full(RG_DIMS(N), 1e25), *small = rg_full(RG_DIMS(N), 1e-25);
    rg_tensor *product = rg_addcmul(x, large, large, 1e-30);
    rg_tensor *quotient = rg_addcdiv(x, large, small, 1e-30);
    ck_assert(rg_allclose(product, rg_full(RG_DIMS(N), 1e20), 1e-6, 0));
    ck_assert(rg_allclose(quotient, rg_full(RG_DIMS(N), 1e20), 1e-6, 0));
}
END_TEST

/* With a weight of magnitude 0.5 or more, lerp is computed from its second end. */
START_TEST(test_lerp_from_the_nearer_end) {
    static const float weights[] = { 0, 0.25f, -0.25f, 0.4999f, 0.5f, -0.5f, 0.75f, 1, 2 };
    enum { N = 37 };
    float a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i + 1) / 3;
        b[i] = (float)(i + 1) * 0.7f + 1e-3f;
    }
    for (int k = 0; k < RG_COUNT(weights); k++) {
        const float w = weights[k];
        rg_tensor *y = rg_lerp(rg_from_float(a, RG_DIMS(N)), rg_from_float(b, RG_DIMS(N)), w);
        ck_ok(y);
        for (int i = 0; i < N; i++) {
            const float rise = b[i] - a[i], step = w * rise, back = rise * (1 - w);
            const float want = fabsf(w) < 0.5f ? a[i] + step : b[i] - back;
            ck_assert_msg(((float *)y->data)[i] == want, "lerp(%a, %a, %g) is %a, not %a", a[i],
                          b[i], w, ((float *)y->data)[i], want);
        }
    }
}
END_TEST

/* ---- prelu where x is 0 ---------------------------------------------------------- */

#define F32(...) rg_literal_as(RG_FLOAT32, __VA_ARGS__)

/* Asserts that t has the elements of `want`, where -99 stands for NaN. */
static void expect(rg_tensor *t, rg_tensor *want) {
    ck_assert_msg(rg_equal(rg_where(rg_isnan(t), -99, t), want), "%s", rg_str(t));
}

/* The derivatives of prelu's gradients by x, w and g have torch's values: where x is 0, w doesn't
 * count, although it counts in the gradients themselves. */
START_TEST(test_second_derivatives_of_prelu) {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(F32([0, -0.0, 1, -2, inf, nan]), true);
    rg_tensor *w = rg_requires_grad_(F32([0.25]), true);
    rg_tensor *g = rg_requires_grad_(rg_full(RG_DIMS(6), 3.0), true);
    rg_tensor *y = rg_prelu(x, w);
    rg_tensor *v = rg_full(RG_DIMS(6), 5.0);
    rg_tensor *gx = rg_grad(y, x, .gradient = g, .create_graph = true, .retain_graph = true);
    rg_tensor *gw = rg_grad(y, w, .gradient = g, .create_graph = true);
    expect(gx, F32([0.75, 0.75, 3, 0.75, 3, 0.75]));
    ck_assert_str_eq(rg_grad_fn(gx), "PreluKernelBackwardBackward0");
    expect(rg_grad(gx, x, .gradient = v, .retain_graph = true), rg_zeros(6));
    expect(rg_grad(gx, w, .gradient = v, .retain_graph = true), F32([30.]));
    expect(rg_grad(gx, g, .gradient = v), F32([5, 5, 5, 1.25, 5, 1.25]));
    rg_tensor *u = F32([7.]);
    expect(rg_grad(gw, x, .gradient = u, .retain_graph = true), F32([0, 0, 0, 21, 0, 21.]));
    expect(rg_grad(gw, g, .gradient = u), F32([0, 0, 0, -14, 0, -99.]));
}
END_TEST

/* torch's derivatives of binary_cross_entropy at x = 0.3 and t = 0.6, up to the third. */
START_TEST(test_third_derivative_of_binary_cross_entropy) {
    rg_tensor *x = rg_requires_grad_(rg_full_dims(RG_DIMS(1), 0.3, RG_FLOAT64), true);
    rg_tensor *t = rg_requires_grad_(rg_full_dims(RG_DIMS(1), 0.6, RG_FLOAT64), true);
    rg_tensor *y = rg_binary_cross_entropy(x, t, .reduction = RG_SUM);
    const double by_x[] = { -1.4285714285714286, 7.482993197207647, -42.11208292787266 };
    for (int order = 0; order < 3; order++) {
        y = rg_grad(y, x, .create_graph = true);
        ck_assert_double_eq_tol(rg_item(y), by_x[order], 1e-13 * fabs(by_x[order]));
        if (order == 1)
            ck_assert_double_eq_tol(rg_item(rg_grad(y, t, .retain_graph = true)),
                                    9.070294784494118, 1e-12);
    }
}
END_TEST

/* In torch a loss broadcasts its operands before it promotes their dtypes. */
START_TEST(test_losses_of_a_0d_operand) {
    rg_tensor *wide = rg_full_dims(RG_DIMS(), 0.1, RG_FLOAT64), *x = rg_ones(3);
    ck_assert_int_eq(rg_dtype_of(rg_mse_loss(wide, x)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_mse_loss(x, wide)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_l1_loss(wide, x)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_l1_loss(x, wide)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_smooth_l1_loss(wide, x)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_smooth_l1_loss(x, wide)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_mse_loss(rg_ones_dims(RG_DIMS(), RG_FLOAT32), x)), RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_huber_loss(x, wide)), RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_huber_loss(wide, x)), RG_FLOAT64);
}
END_TEST

/* A gradient of 0 stays 0 where the logarithm of the target is NaN. */
START_TEST(test_kl_div_of_a_negative_target) {
    rg_tensor *t = rg_requires_grad_(rg_literal([-1., 0.5]), true);
    rg_tensor *each = rg_kl_div(rg_zeros(2), t, .reduction = RG_EACH);
    ck_ok(rg_backward(rg_select(each, 0, 1)));
    ck_assert(rg_at(rg_grad_of(t), 0) == 0);
}
END_TEST

RG_TESTS(numbers, test_third_derivative_of_binary_cross_entropy, test_losses_of_a_0d_operand,
         test_kl_div_of_a_negative_target, test_product_of_one, test_factors_come_first,
         test_lerp_from_the_nearer_end, test_second_derivatives_of_prelu,
         test_convolutions_of_whole_numbers, test_eps_below_zero, test_lists_of_an_array,
         test_losses_warn_of_shapes, test_unsigned_numbers, test_cosine_of_large_numbers,
         test_cosine_gradients_at_any_scale, test_cosine_in_a_replay,
         test_cosine_gradients_in_a_replay, test_paddings_that_overflow,
         test_paddings_at_their_limits, test_cosine_of_whole_numbers, test_strides_of_new_dims,
         test_targets_within_the_unit, test_variance_as_a_number, test_variance_of_nothing,
         test_infinite_slope_of_a_median, test_exponents_of_zero, test_powers_with_one,
         test_slope_of_the_least_numbers, test_kernel_that_just_fits, test_product_of_several_zeros,
         test_paddings_of_all_dims, test_convolutions_at_their_limits, test_shifts_add_up,
         test_thresholds_of_whole_numbers, test_one_index_beyond, test_indices_into_nothing,
         test_windows_of_nothing, test_product_with_infinity, test_running_sums_from_nothing,
         test_extremes_of_truths, test_infinite_gradients_of_rows, test_losses_of_nothing,
         test_windows_in_the_padding)
