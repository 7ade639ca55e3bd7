/*
 * unary.c: elementwise functions of one tensor: signs and roundings, roots and powers,
 * exponentials, trigonometry. Most are rows of tensor/kernels/elementwise.def. (The functions that
 * networks use between their layers are in activation.c.) In the formulas, g is the gradient of the
 * result, and gx the gradient of x.
 */
#include "elementwise.h"

#include <float.h>

/* ---- functions that are rows of tensor/kernels/elementwise.def ------------------- */

static bool neg_shape(rg_call *c) {
    RG_FAIL_IF(
        rgi_is_bool(c->in[0]->dtype), "neg",
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
    return rgi_shape_same(c);
}

static rg_tensor *bell(rg_tensor *x) { return rg_exp(rg_neg(rg_square(x))); }
static rg_tensor *circle(rg_tensor *x) { return rg_rsqrt(rg_sub(1, rg_square(x))); }

#define UNARY(name, Node, formula, weight, dtypes, samples, value, gradient)              \
    RULE_OF_ROW(name##_rule, value, gradient)                                             \
    RG_OP(name, OP_OF_ROW(name, Node, formula, dtypes, value), SAMPLES_1(samples, NULL)); \
    FUNCTION_OF_ROW(name)                                                                 \
    FUNCTION_IN_PLACE_OF_ROW(name)
#include "tensor/kernels/elementwise.def"

/* ---- square: x^2; gx = 2 g x. The node has the name of torch's pow -------------- */

/* Fails if x is bool. Only rg_square_ applies the op to a bool x, and it can't write the squares,
 * which are integers, over bools. rg_square converts a bool x to int64, and doesn't apply the
 * op. */
static bool square_shape(rg_call *c) {
    RG_FAIL_IF(rgi_is_bool(c->in[0]->dtype), "square_",
               "result type Long can't be cast to the desired output type Bool");
    return rgi_shape_same(c);
}

static rg_tensor *square_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_mul(g, rg_mul(x, 2));
}

RG_OP(square, .doc = "x^2", .node = "PowBackward0", .n_in = 1, RG_ELEMENTWISE,
      .shape = square_shape, .kernel = &k_square, .grad = { RG_RULE(RG_IN(0), square_rule) },
      SAMPLES_1("", NULL));

rg_tensor *rg_square(rg_tensor *x) {
    if (!rgi_check(x, "square"))
        return NULL;
    return rgi_is_bool(x->dtype) ? rg_to(x, RG_INT64) : RG_APPLY(square, RG_NO_ATTR, x);
}

rg_tensor *rg_square_(rg_tensor *x) { return RG_APPLY_(square, RG_NO_ATTR, x); }

/* ---- round_decimals: x rounded to a multiple of 10^-decimals, where decimals may be
 *      negative; gx = 0 --------------------------------------------------------- */

struct round_decimals_attr {
    int decimals;
};

static bool round_decimals_forward(rg_call *c) {
    int decimals = RG_ATTR(c, round_decimals)->decimals;
    double k[3] = { pow(10, fabs((double)decimals)) };
    return k_run_with(decimals > 0 ? &k_round_up : &k_round_down, c->out[0], c->in, k);
}

static rg_tensor *round_decimals_rule(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_zeros_like(g);
}

RG_OP(round_decimals, .doc = "x, rounded to decimals", .node = "RoundBackward1", .n_in = 1,
      RG_ELEMENTWISE, RG_WITH(round_decimals), .shape = rgi_shape_of_floats,
      .forward = round_decimals_forward, .grad = { RG_RULE(0, round_decimals_rule) },
      RG_SAMPLES({ "z(2,3)", RG_A(round_decimals, 0) }, { "z()", RG_A(round_decimals, -1) },
                 { "z(0,3)", RG_A(round_decimals, 1) }));

rg_tensor *(rg_round_decimals)(rg_tensor *x, int decimals) {
    return RG_APPLY(round_decimals, RG_A(round_decimals, decimals), x);
}

/* ---- nan_to_num: x, with k0 in place of NaN, k1 in place of infinity, and k2 in place of
 *      -infinity; gx = g where x is finite, else 0 ------------------------------ */

struct nan_to_num_attr {
    double k[3];
};

static bool nan_to_num_forward(rg_call *c) {
    rg_tensor *x = c->in[0];
    rg_tensor *y = c->out[0];
    if (rgi_is_float(x->dtype))
        return k_run_with(&k_nan_to_num, y, c->in, RG_ATTR(c, nan_to_num)->k);
    if (y != x)
        rgi_copy_elements(y, x);
    return true;
}

static rg_tensor *nan_to_num_rule(const rg_step *s, rg_tensor *g) {
    return rg_mul(g, rg_isfinite(rgi_saved(s, 0)));
}

RG_OP(nan_to_num, .doc = "x with numbers for NaN and infinities", .node = "NanToNumBackward0",
      .n_in = 1, RG_ELEMENTWISE, RG_WITH(nan_to_num), .shape = rgi_shape_same,
      .forward = nan_to_num_forward, .grad = { RG_RULE(RG_IN(0), nan_to_num_rule) },
      SAMPLES_1("", RG_A(nan_to_num, { 1, 2, 3 })));

/* Returns the three numbers. If the caller left out posinf or neginf, the option is NaN. Then
 * posinf becomes the largest number of x's dtype, and neginf the lowest. */
static struct nan_to_num_attr nan_to_num_numbers(const rg_tensor *x,
                                                 const rg_nan_to_num_options *o) {
    const double most = x ? rgi_limit(x->dtype) : 0;
    return (struct nan_to_num_attr){ { o->nan, isnan(o->posinf) ? most : o->posinf,
                                       isnan(o->neginf) ? -most : o->neginf } };
}

rg_tensor *rg_nan_to_num_with(rg_tensor *x, rg_nan_to_num_options o) {
    struct nan_to_num_attr a = nan_to_num_numbers(x, &o);
    return RG_APPLY(nan_to_num, &a, x);
}

rg_tensor *rg_nan_to_num_with_(rg_tensor *x, rg_nan_to_num_options o) {
    struct nan_to_num_attr a = nan_to_num_numbers(x, &o);
    return RG_APPLY_(nan_to_num, &a, x);
}
