/*
 * activation.c: activation functions. They are elementwise. Each op has a rule, and most also have
 * a slope kernel, which computes the gradient in one pass over the data. Most functions of x alone
 * are rows of tensor/kernels/elementwise.def. The other functions have a section here; some of them
 * are composed of functions with an op. (Other functions of one tensor are in unary.c.) In the
 * formulas, g is the gradient of the result, gx is the gradient of x, and k0, k1 and k2 are the
 * numbers in the op's attributes (see elementwise.h).
 */
#include "autocast.h"
#include "elementwise.h"

/* ---- functions that are rows of tensor/kernels/elementwise.def ------------------- */

static bool relu_shape(rg_call *c) {
    RG_FAIL_IF(rgi_is_bool(c->in[0]->dtype), "relu", "Boolean inputs not supported for relu");
    return rgi_shape_same(c);
}

/* The derivative of silu: s (1 + x (1 - s)), with s = sigmoid(x). */
static rg_tensor *silu_slope(rg_tensor *x) {
    rg_tensor *sigmoid = rg_sigmoid(x);
    return rg_mul(sigmoid, rg_add(rg_mul(x, rg_sub(1, sigmoid)), 1));
}

/* The derivative of mish: t + x sigmoid(x) (1 - t^2), with t = tanh(softplus(x)). */
static rg_tensor *mish_slope(rg_tensor *x) {
    rg_tensor *t = rg_tanh(rg_softplus(x, 1, 20));
    return rg_add(t, rg_mul(rg_mul(x, rg_sigmoid(x)), rg_sub(1, rg_square(t))));
}

/* The gradient of hardswish: 0 where x <= -3, g where x >= 3, and g (x / 3 + 1/2) between. */
static rg_tensor *hardswish_gradient(rg_tensor *g, rg_tensor *x) {
    rg_tensor *middle = rg_mul(g, rg_add(rg_div(rg_clamp(x, -3, 3), 3), 0.5));
    return rg_masked_fill(rg_where(rg_lt(x, 3), middle, g), rg_le(x, -3), 0);
}

/* The gradient of hardsigmoid: g / 6 where -3 < x < 3, else 0. */
static rg_tensor *hardsigmoid_gradient(rg_tensor *g, rg_tensor *x) {
    const double sixth = 1 / 6.f; /* torch uses 1/6 rounded to a float, even if x is float64. */
    rg_tensor *inside = rg_logical_and(rg_gt(x, -3), rg_lt(x, 3));
    return rg_where(inside, rg_mul(g, sixth), 0);
}

/* The derivative of gelu: P(x) + x P'(x), with P(x) = (1 + erf(x / sqrt 2)) / 2. */
static rg_tensor *gelu_slope(rg_tensor *x) {
    rg_tensor *below = rg_mul(rg_add(rg_erf(rg_mul(x, M_SQRT1_2)), 1), 0.5);
    rg_tensor *density = rg_mul(rg_exp(rg_mul(rg_square(x), -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2);
    return rg_add(below, rg_mul(x, density));
}

/* The derivative of gelu_tanh: (1 + t + x (1 - t^2) c (1 + 3 * 0.044715 x^2)) / 2, with
 * t = tanh(c (x + 0.044715 x^3)) and c = sqrt(2 / pi). */
static rg_tensor *gelu_tanh_slope(rg_tensor *x) {
    const double c = M_SQRT1_2 * M_2_SQRTPI;
    const double cube = 0.044715;
    rg_tensor *xx = rg_square(x);
    rg_tensor *t = rg_tanh(rg_mul(x, rg_add(rg_mul(xx, c * cube), c)));
    rg_tensor *inner = rg_add(rg_mul(xx, 3 * c * cube), c);
    rg_tensor *slope = rg_add(rg_add(t, 1), rg_mul(x, rg_mul(rg_sub(1, rg_square(t)), inner)));
    return rg_mul(slope, 0.5);
}

#define ACTIVATION(name, Node, Module, ...)   \
    ACTIVATION_ALONE(name, Node, __VA_ARGS__) \
    FUNCTION_IN_PLACE_OF_ROW(name)
#define ACTIVATION_ALONE(name, Node, formula, weight, dtypes, samples, value, gradient, slope_, \
                         order)                                                                 \
    RULE_OF_ROW(name##_rule, value, gradient)                                                   \
    RG_OP(name, OP_OF_ROW(name, Node, formula, dtypes, value), SLOPE_OF_ROW(name, order),       \
          SAMPLES_1(samples, NULL));                                                            \
    FUNCTION_OF_ROW(name)
#include "tensor/kernels/elementwise.def"

/* ---- hardtanh: min(max(x, k0), k1); gx = 0 where x <= k0 or x >= k1, else g ---- */

static bool hardtanh_shape(rg_call *c) {
    RG_FAIL_IF(rgi_is_bool(c->in[0]->dtype), "hardtanh", "Bool inputs not supported for hardtanh");
    /* As in torch, the limits of bytes are truncated. */
    for (int i = 0; i < 2 && rgi_is_byte(c->in[0]->dtype); i++) {
        const double limit = trunc(NUMBERS_OF(c)[i]);
        RG_FAIL_IF(limit < 0, "hardtanh",
                   "cannot do hardtanh on an unsigned type with negative limits");
        if (!rgi_number_fits("hardtanh", limit, RG_UINT8))
            return false;
    }
    return rgi_shape_same(c);
}

static rg_tensor *hardtanh_rule(const rg_step *s, rg_tensor *g) {
    const double *k = NUMBERS_OF(s);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *outside = rg_logical_or(rg_le(x, k[0]), rg_ge(x, k[1]));
    return rgi_flat_in(s, x, rg_masked_fill(g, outside, 0));
}

RG_OP(hardtanh, .doc = "min(max(x, k0), k1)", RG_NAMED(numbers), .n_in = 1, RG_ELEMENTWISE,
      .shape = hardtanh_shape, .forward = rgi_elementwise_forward, .kernel = &k_hardtanh,
      .slope = &k_hardtanh_grad, .fused = rgi_elementwise_slope,
      .grad = { RG_RULE(RG_IN(0), hardtanh_rule) },
      SAMPLES_1("z", RG_A(numbers, "HardtanhBackward0", { -0.5, 0.5 })));

rg_tensor *(rg_hardtanh)(rg_tensor *x, double min, double max) {
    RG_FAIL_VALUE_IF(min > max, "hardtanh", "min_val cannot be greater than max_val");
    return RG_APPLY(hardtanh, RG_A(numbers, "HardtanhBackward0", { min, max }), x);
}

/* hardtanh_ doesn't check that min <= max: torch makes this check in hardtanh, but not in
 * hardtanh_. */
rg_tensor *(rg_hardtanh_)(rg_tensor *x, double min, double max) {
    return RG_APPLY_(hardtanh, RG_A(numbers, "HardtanhBackward0", { min, max }), x);
}

/* ---- relu6: min(max(x, 0), 6) -------------------------------------------------- */

rg_tensor *rg_relu6(rg_tensor *x) {
    RG_AS("relu6");
    return rg_hardtanh(x, 0, 6);
}

rg_tensor *rg_relu6_(rg_tensor *x) {
    const struct numbers_attr a = { "HardtanhBackward0", { 0, 6 } };
    RG_AS("relu6_");
    return rgi_apply_inplace("relu6_", &rg_op_hardtanh, &a, sizeof a, 1, &x);
}

/* ---- leaky_relu: x > 0 ? x : k0 x; gx = x > 0 ? g : k0 g ----------------------- */

static rg_tensor *leaky_relu_rule(const rg_step *s, rg_tensor *g) {
    const double *k = NUMBERS_OF(s);
    rg_tensor *x = rgi_saved(s, 0);
    return rgi_flat_in(s, x, rg_where(rg_gt(x, 0), g, rg_mul(g, k[0])));
}

RG_OP(leaky_relu, .doc = "x > 0 ? x : k0 x", RG_NAMED(numbers), .n_in = 1, RG_ELEMENTWISE,
      .shape = rgi_shape_of_floats, .forward = rgi_elementwise_forward, .kernel = &k_leaky_relu,
      .slope = &k_leaky_relu_grad, .fused = rgi_elementwise_slope_by_value,
      .grad = { RG_RULE(RG_IN(0), leaky_relu_rule) },
      SAMPLES_1("z", RG_A(numbers, "LeakyReluBackward0", { 0.1 })));

rg_tensor *(rg_leaky_relu)(rg_tensor *x, double negative_slope) {
    return RG_APPLY(leaky_relu, RG_A(numbers, "LeakyReluBackward0", { negative_slope }), x);
}

rg_tensor *(rg_leaky_relu_)(rg_tensor *x, double negative_slope) {
    return RG_APPLY_(leaky_relu, RG_A(numbers, "LeakyReluBackward1", { negative_slope }), x);
}

/* ---- prelu: x > 0 ? x : w x; gx = x > 0 ? g : w g, gw = x > 0 ? 0 : x g -----------
 * In the op, w broadcasts with x. In the public function, w has one element, or one element for
 * each channel (dim 1). */

static rg_tensor *prelu_rule_x(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(prelu_grad, RG_NO_ATTR, g, rgi_saved(s, 0), rgi_saved(s, 1));
}

/* Where x is 0, gw is x g, but is differentiated as 0, as in torch. */
static rg_tensor *prelu_rule_w(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *gw = rg_masked_fill(rg_mul(x, g), rg_gt(x, 0), 0);
    if (!s->create_graph)
        return gw;
    rg_tensor *above = rg_ge(x, 0);
    gw = rg_where(above, rg_detach(gw), rg_mul(rg_masked_fill(x, above, 0), g));
    return rgi_flat_in_input(s, gw);
}

static bool prelu_fused(const rg_step *s, rg_tensor *gin[]) {
    const rg_tensor *g = s->g[0];
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *w = rgi_saved(s, 1);
    if (!x || !w)
        return false;
    if (!rgi_wants(s, 0))
        return true;
    gin[0] = rgi_new_like(g, (rg_dtype)g->dtype);
    rg_tensor *in[] = { x, w, s->g[0] };
    if (gin[0])
        rgi_lay_out_between(gin[0], 3, in);
    return gin[0] && k_run(k_prelu_grad, gin[0], s->g[0], x, w);
}

RG_OP(prelu, .doc = "x > 0 ? x : w x", .node = "PreluKernelBackward0", .n_in = 2,
      .laid_between = true, .shape = rgi_shape_broadcast_floats, .kernel = &k_prelu,
      .fused = prelu_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), prelu_rule_x), RG_RULE(RG_IN(0), prelu_rule_w) },
      SAMPLES_2("z", "", NULL));

/* ---- prelu_grad: x > 0 ? g : w g, the gradient of prelu's x. With v for the gradient of the
 *      result, gg = x >= 0 ? v : w v, gx = 0, gw = x >= 0 ? 0 : g v. At x = 0 these don't fit the
 *      formula, but are torch's ------------------------------------------------- */

static rg_tensor *prelu_grad_rule_g(const rg_step *s, rg_tensor *v) {
    return rg_where(rg_ge(rgi_saved(s, 1), 0), v, rg_mul(rgi_saved(s, 2), v));
}

static rg_tensor *prelu_grad_rule_x(const rg_step *s, rg_tensor *v) {
    (void)s;
    return rg_zeros_like(v);
}

static rg_tensor *prelu_grad_rule_w(const rg_step *s, rg_tensor *v) {
    return rg_masked_fill(rg_mul(rgi_saved(s, 0), v), rg_ge(rgi_saved(s, 1), 0), 0);
}

RG_OP(prelu_grad, .doc = "x > 0 ? g : w g", .node = "PreluKernelBackwardBackward0", .n_in = 3,
      .laid_between = true, .shape = rgi_shape_broadcast_floats, .kernel = &k_prelu_grad,
      .grad = { RG_RULE(RG_IN(1) | RG_IN(2), prelu_grad_rule_g), RG_RULE(0, prelu_grad_rule_x),
                RG_RULE(RG_IN(0) | RG_IN(1), prelu_grad_rule_w) },
      SAMPLES_3("z", NULL));

static bool prelu_check(const rg_tensor *x, const rg_tensor *weight) {
    RG_FAIL_IF(x->dtype != weight->dtype, "prelu",
               "prelu: Type promoting not supported. Got %s and %s", rgi_scalar_name(x->dtype),
               rgi_scalar_name(weight->dtype));
    if (weight->numel != 1) {
        int64_t channels = x->ndim > 1 ? x->size[1] : 1;
        RG_FAIL_IF(x->ndim == 0, "prelu", "Not allow zero-dim input tensor.");
        RG_FAIL_IF(channels != weight->numel, "prelu",
                   "Mismatch of parameter numbers and input channel size. Found parameter numbers "
                   "= %lld and channel size = %lld.",
                   (long long)weight->numel, (long long)channels);
    }
    RG_FAIL_IF(weight->ndim > 1, "prelu",
               "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d",
               weight->ndim);
    return true;
}

rg_tensor *(rg_prelu)(rg_tensor *x, rg_tensor *weight) {
    RG_AUTOCASTS(RG_LOWER, (rg_prelu)(in[0], in[1]), x, weight);
    if (!rgi_check(x, "prelu") || !rgi_check(weight, "prelu") || !prelu_check(x, weight))
        return NULL;
    /* The weights lie along dim 1. If x has no dim 1, the weight has a single element. */
    const rg_dims aligned = rgi_dims_along(x->ndim, 1, weight->numel);
    return RG_COMPOSITE("prelu", RG_APPLY(prelu, RG_NO_ATTR, x, rg_reshape_dims(weight, aligned)));
}

/* ---- elu: x > 0 ? k0 x : k1 (e^(k2 x) - 1); gx = x <= 0 ? k1 k2 e^(k2 x) g : k0 g ---- */

/* exp is applied to -k2 relu(-x), which is k2 x where x <= 0 and 0 elsewhere. exp(k2 x) itself
 * could overflow where x > 0, although its value isn't used there. */
static rg_tensor *elu_rule(const rg_step *s, rg_tensor *g) {
    const double *k = NUMBERS_OF(s);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *below = rg_mul(rg_exp(rg_mul(rg_relu(rg_neg(x)), -k[2])), k[1] * k[2]);
    return rg_where(rg_le(x, 0), rg_mul(g, below), rg_mul(g, k[0]));
}

RG_OP(elu, .doc = "x > 0 ? k0 x : k1 (e^(k2 x) - 1)", RG_NAMED(numbers), .n_in = 1, RG_ELEMENTWISE,
      .shape = rgi_shape_of_floats, .forward = rgi_elementwise_forward, .kernel = &k_elu,
      .slope = &k_elu_grad, .fused = rgi_elementwise_slope, .grad = { RG_RULE(RG_IN(0), elu_rule) },
      SAMPLES_1("z", RG_A(numbers, "EluBackward0", { 1, 1.5, 0.5 })));

rg_tensor *(rg_elu)(rg_tensor *x, double alpha) {
    return RG_APPLY(elu, RG_A(numbers, "EluBackward0", { 1, alpha, 1 }), x);
}

rg_tensor *(rg_elu_)(rg_tensor *x, double alpha) {
    return RG_APPLY_(elu, RG_A(numbers, "EluBackward1", { 1, alpha, 1 }), x);
}

/* ---- celu: x > 0 ? x : alpha (e^(x / alpha) - 1) ------------------------------- */

rg_tensor *(rg_celu)(rg_tensor *x, double alpha) {
    RG_AS("celu");
    RG_FAIL_IF(alpha == 0, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return RG_APPLY(elu, RG_A(numbers, "CeluBackward0", { 1, alpha, 1 / alpha }), x);
}

rg_tensor *(rg_celu_)(rg_tensor *x, double alpha) {
    const struct numbers_attr a = { "CeluBackward1", { 1, alpha, 1 / alpha } };
    RG_AS("celu_");
    RG_FAIL_IF(alpha == 0, "celu_", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return rgi_apply_inplace("celu_", &rg_op_elu, &a, sizeof a, 1, &x);
}

/* ---- selu: scale (x > 0 ? x : alpha (e^x - 1)) --------------------------------- */

#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

rg_tensor *rg_selu(rg_tensor *x) {
    const struct numbers_attr a = { "EluBackward0", { SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1 } };
    RG_AS("selu");
    return RG_APPLY(elu, &a, x);
}

rg_tensor *rg_selu_(rg_tensor *x) {
    const struct numbers_attr a = { "EluBackward1", { SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1 } };
    RG_AS("selu_");
    return rgi_apply_inplace("selu_", &rg_op_elu, &a, sizeof a, 1, &x);
}

/* ---- softplus: ln(1 + e^(k0 x)) / k0, but x where k0 x > k1;
 *      gx = g sigmoid(k0 x), but g where k0 x > k1 ------------------------------ */

static rg_tensor *softplus_rule(const rg_step *s, rg_tensor *g) {
    const double *k = NUMBERS_OF(s);
    rg_tensor *scaled = rg_mul(rgi_saved(s, 0), k[0]);
    rg_tensor *curved = rg_mul(g, rg_sigmoid(rg_hardtanh(scaled, -INFINITY, k[1])));
    return rg_where(rg_gt(scaled, k[1]), g, curved);
}

RG_OP(softplus, .doc = "ln(1 + e^(k0 x)) / k0; x where k0 x > k1", RG_NAMED(numbers), .n_in = 1,
      RG_ELEMENTWISE, .shape = rgi_shape_of_floats, .forward = rgi_elementwise_forward,
      .kernel = &k_softplus, .slope = &k_softplus_grad, .fused = rgi_elementwise_slope,
      .grad = { RG_RULE(RG_IN(0), softplus_rule) },
      SAMPLES_1("", RG_A(numbers, "SoftplusBackward0", { 2, 20 })));

rg_tensor *(rg_softplus)(rg_tensor *x, double beta, double threshold) {
    return RG_APPLY(softplus, RG_A(numbers, "SoftplusBackward0", { beta, threshold }), x);
}

/* ---- softsign: x / (1 + |x|) --------------------------------------------------- */

rg_tensor *rg_softsign(rg_tensor *x) {
    return RG_COMPOSITE("softsign", rg_div(x, rg_add(rg_abs(x), 1)));
}

/* ---- logsigmoid: ln sigmoid(x); gx = g sigmoid(-x) ----------------------------- */

static rg_tensor *logsigmoid_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_mul(g, rg_sigmoid(rg_neg(x)));
}

RG_OP(logsigmoid, .doc = "ln sigmoid(x)", .node = "LogSigmoidBackward0", .n_in = 1, .inplace = true,
      .shape = rgi_shape_of_floats, .kernel = &k_logsigmoid, .slope = &k_logsigmoid_grad,
      .fused = rgi_elementwise_slope, .grad = { RG_RULE(RG_IN(0), logsigmoid_rule) },
      SAMPLES_1("", NULL));

rg_tensor *rg_logsigmoid(rg_tensor *x) { return RG_APPLY(logsigmoid, RG_NO_ATTR, x); }
