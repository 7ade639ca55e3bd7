/*
 * activation.c: functions that networks put between their layers, element by element. Beside its
 * rule each has a gradient in one pass over the data. (Other functions of one tensor are in
 * unary.c.)
 */
#include "elementwise.h"

/* An op that takes up to three numbers beside x keeps them in k; its formula calls them k0, k1,
 * k2. */
struct activation_attr {
    const char *node;
    double k[3];
};

static const double *activation_numbers(const void *attr) {
    return ((const struct activation_attr *)attr)->k;
}

/* ---- relu: max(x, 0); gx = g where y > 0, else 0 ------------------------------- */

static bool relu_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->dtype == RG_BOOL, "relu", "Boolean inputs not supported for relu");
    return rgi_shape_same(c);
}

static rg_tensor *relu_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_masked_fill(g, rg_le(y, 0), 0);
}

static bool relu_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused_by_value(s, gin, &k_relu_grad, rgi_saved_output(s), NULL);
}

RG_OP(relu, .doc = "max(x, 0)", .node = "ReluBackward0", .n_in = 1, RG_ELEMENTWISE,
      .shape = relu_shape, .kernel = &k_relu, .fused = relu_fused,
      .grad = { RG_RULE(RG_OUTPUT, relu_rule) }, SAMPLES_1("z", NULL));

rg_tensor *rg_relu(rg_tensor *x) { return RG_APPLY(relu, RG_NO_ATTR, x); }
rg_tensor *rg_relu_(rg_tensor *x) { return RG_APPLY_(relu, RG_NO_ATTR, x); }

/* ---- hardtanh: min(max(x, k0), k1); gx = g where k0 < x < k1, else 0 ----------- */

static bool hardtanh_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->dtype == RG_BOOL, "hardtanh", "Bool inputs not supported for hardtanh");
    return rgi_shape_same(c);
}

static bool hardtanh_forward(rg_call *c) {
    return k_run_with(&k_hardtanh, c->out[0], c->in, activation_numbers(c->attr));
}

static rg_tensor *hardtanh_rule(const rg_step *s, rg_tensor *g) {
    const double *k = activation_numbers(s->attr);
    rg_tensor *x = rgi_saved(s, 0);
    return rg_masked_fill(g, rg_logical_or(rg_le(x, k[0]), rg_ge(x, k[1])), 0);
}

static bool hardtanh_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_hardtanh_grad, rgi_saved(s, 0),
                             activation_numbers(s->attr));
}

RG_OP(hardtanh, .doc = "min(max(x, k0), k1)", RG_NAMED(activation), .n_in = 1, RG_ELEMENTWISE,
      .shape = hardtanh_shape, .forward = hardtanh_forward, .fused = hardtanh_fused,
      .grad = { RG_RULE(RG_IN(0), hardtanh_rule) },
      SAMPLES_1("z", RG_A(activation, "HardtanhBackward0", { -0.5, 0.5 })));

rg_tensor *rg_hardtanh(rg_tensor *x, double min, double max) {
    RG_FAIL_VALUE_IF(min > max, "hardtanh", "min_val cannot be greater than max_val");
    return RG_APPLY(hardtanh, RG_A(activation, "HardtanhBackward0", { min, max }), x);
}

/* torch looks at the order of the bounds in hardtanh alone. */
rg_tensor *rg_hardtanh_(rg_tensor *x, double min, double max) {
    return RG_APPLY_(hardtanh, RG_A(activation, "HardtanhBackward0", { min, max }), x);
}

/* ---- relu6: min(max(x, 0), 6) -------------------------------------------------- */

rg_tensor *rg_relu6(rg_tensor *x) {
    RG_AS("relu6");
    return rg_hardtanh(x, 0, 6);
}

rg_tensor *rg_relu6_(rg_tensor *x) {
    const struct activation_attr a = { "HardtanhBackward0", { 0, 6 } };
    RG_AS("relu6_");
    return rgi_apply_inplace("relu6_", &rg_op_hardtanh, &a, sizeof a, 1, &x);
}

/* ---- leaky_relu: x > 0 ? x : k0 x; gx = x > 0 ? g : k0 g ----------------------- */

static bool leaky_relu_shape(rg_call *c) { return elementwise_of_floats(c, "leaky_relu_cpu"); }

static bool leaky_relu_forward(rg_call *c) {
    return k_run_with(&k_leaky_relu, c->out[0], c->in, activation_numbers(c->attr));
}

static rg_tensor *leaky_relu_rule(const rg_step *s, rg_tensor *g) {
    const double *k = activation_numbers(s->attr);
    rg_tensor *x = rgi_saved(s, 0);
    return rg_where(rg_gt(x, 0), g, rg_mul(g, k[0]));
}

static bool leaky_relu_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused_by_value(s, gin, &k_leaky_relu_grad, rgi_saved(s, 0),
                                      activation_numbers(s->attr));
}

RG_OP(leaky_relu, .doc = "x > 0 ? x : k0 x", RG_NAMED(activation), .n_in = 1, RG_ELEMENTWISE,
      .shape = leaky_relu_shape, .forward = leaky_relu_forward, .fused = leaky_relu_fused,
      .grad = { RG_RULE(RG_IN(0), leaky_relu_rule) },
      SAMPLES_1("z", RG_A(activation, "LeakyReluBackward0", { 0.1 })));

rg_tensor *rg_leaky_relu(rg_tensor *x, double negative_slope) {
    return RG_APPLY(leaky_relu, RG_A(activation, "LeakyReluBackward0", { negative_slope }), x);
}

rg_tensor *rg_leaky_relu_(rg_tensor *x, double negative_slope) {
    return RG_APPLY_(leaky_relu, RG_A(activation, "LeakyReluBackward1", { negative_slope }), x);
}

/* ---- prelu: x > 0 ? x : w x; gx = x > 0 ? g : w g, gw = x > 0 ? 0 : x g -----------
 * The row's w broadcasts; the function's is one number, or one for each channel, which is dim 1. */

static bool prelu_shape(rg_call *c) {
    RG_FAIL_DTYPE_IF(!rgi_is_float(c->in[0]->dtype), "prelu", "prelu_cpu", c->in[0]->dtype);
    return rgi_shape_broadcast(c);
}

static rg_tensor *prelu_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *w = rgi_saved(s, 1);
    return rg_where(rg_gt(x, 0), g, rg_mul(w, g));
}

static rg_tensor *prelu_rule_w(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_masked_fill(rg_mul(x, g), rg_gt(x, 0), 0);
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
      .laid_between = true, .shape = prelu_shape, .kernel = &k_prelu, .fused = prelu_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), prelu_rule_x), RG_RULE(RG_IN(0), prelu_rule_w) },
      SAMPLES_2("z", "", NULL));

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

rg_tensor *rg_prelu(rg_tensor *x, rg_tensor *weight) {
    if (!rgi_check(x, "prelu") || !rgi_check(weight, "prelu") || !prelu_check(x, weight))
        return NULL;
    /* The weights lie along dim 1. What has no such dim has one weight. */
    const rg_dims aligned = rgi_dims_along(x->ndim, 1, weight->numel);
    return RG_COMPOSITE("prelu", RG_APPLY(prelu, RG_NO_ATTR, x, rg_reshape_dims(weight, aligned)));
}

/* ---- elu: x > 0 ? k0 x : k1 (e^(k2 x) - 1); gx = x > 0 ? k0 g : k1 k2 e^(k2 x) g ---- */

static bool elu_shape(rg_call *c) { return elementwise_of_floats(c, "elu_cpu"); }

static bool elu_forward(rg_call *c) {
    return k_run_with(&k_elu, c->out[0], c->in, activation_numbers(c->attr));
}

/* The exponential is that of -relu(-x), so that a large x doesn't overflow where it isn't used. */
static rg_tensor *elu_rule(const rg_step *s, rg_tensor *g) {
    const double *k = activation_numbers(s->attr);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *below = rg_mul(rg_exp(rg_mul(rg_relu(rg_neg(x)), -k[2])), k[1] * k[2]);
    return rg_where(rg_le(x, 0), rg_mul(g, below), rg_mul(g, k[0]));
}

static bool elu_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_elu_grad, rgi_saved(s, 0), activation_numbers(s->attr));
}

RG_OP(elu, .doc = "x > 0 ? k0 x : k1 (e^(k2 x) - 1)", RG_NAMED(activation), .n_in = 1,
      RG_ELEMENTWISE, .shape = elu_shape, .forward = elu_forward, .fused = elu_fused,
      .grad = { RG_RULE(RG_IN(0), elu_rule) },
      SAMPLES_1("z", RG_A(activation, "EluBackward0", { 1, 1.5, 0.5 })));

rg_tensor *rg_elu(rg_tensor *x, double alpha) {
    return RG_APPLY(elu, RG_A(activation, "EluBackward0", { 1, alpha, 1 }), x);
}

rg_tensor *rg_elu_(rg_tensor *x, double alpha) {
    return RG_APPLY_(elu, RG_A(activation, "EluBackward1", { 1, alpha, 1 }), x);
}

/* ---- celu: x > 0 ? x : alpha (e^(x / alpha) - 1) ------------------------------- */

rg_tensor *rg_celu(rg_tensor *x, double alpha) {
    RG_AS("celu");
    RG_FAIL_IF(alpha == 0, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return RG_APPLY(elu, RG_A(activation, "CeluBackward0", { 1, alpha, 1 / alpha }), x);
}

rg_tensor *rg_celu_(rg_tensor *x, double alpha) {
    const struct activation_attr a = { "CeluBackward1", { 1, alpha, 1 / alpha } };
    RG_AS("celu_");
    RG_FAIL_IF(alpha == 0, "celu_", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return rgi_apply_inplace("celu_", &rg_op_elu, &a, sizeof a, 1, &x);
}

/* ---- selu: scale (x > 0 ? x : alpha (e^x - 1)) --------------------------------- */

#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

rg_tensor *rg_selu(rg_tensor *x) {
    const struct activation_attr a = { "EluBackward0", { SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1 } };
    RG_AS("selu");
    return RG_APPLY(elu, &a, x);
}

rg_tensor *rg_selu_(rg_tensor *x) {
    const struct activation_attr a = { "EluBackward1", { SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1 } };
    RG_AS("selu_");
    return rgi_apply_inplace("selu_", &rg_op_elu, &a, sizeof a, 1, &x);
}

/* ---- gelu: x P(x), with P the normal distribution's; gx = g (P(x) + x P'(x)) ---- */

static bool gelu_shape(rg_call *c) { return elementwise_of_floats(c, "GeluKernelImpl"); }

static rg_tensor *gelu_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *below = rg_mul(rg_add(rg_erf(rg_mul(x, M_SQRT1_2)), 1), 0.5);
    rg_tensor *density = rg_mul(rg_exp(rg_mul(rg_square(x), -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2);
    return rg_mul(g, rg_add(below, rg_mul(x, density)));
}

static bool gelu_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_gelu_grad, rgi_saved(s, 0), NULL);
}

RG_OP(gelu, .doc = "x (1 + erf(x / sqrt 2)) / 2", .node = "GeluBackward0", .n_in = 1,
      RG_ELEMENTWISE, .shape = gelu_shape, .kernel = &k_gelu, .fused = gelu_fused,
      .grad = { RG_RULE(RG_IN(0), gelu_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_gelu(rg_tensor *x) { return RG_APPLY(gelu, RG_NO_ATTR, x); }

/* ---- gelu_tanh: x (1 + t) / 2, t = tanh(c (x + 0.044715 x^3)), c = sqrt(2 / pi);
 *      gx = g (1 + t + x (1 - t^2) c (1 + 3 * 0.044715 x^2)) / 2 ----------------- */

static bool gelu_tanh_shape(rg_call *c) { return elementwise_of_floats(c, "GeluKernelImpl"); }

static rg_tensor *gelu_tanh_rule(const rg_step *s, rg_tensor *g) {
    const double c = M_SQRT1_2 * M_2_SQRTPI;
    const double cube = 0.044715;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *xx = rg_square(x);
    rg_tensor *t = rg_tanh(rg_mul(x, rg_add(rg_mul(xx, c * cube), c)));
    rg_tensor *inner = rg_add(rg_mul(xx, 3 * c * cube), c);
    rg_tensor *slope = rg_add(rg_add(t, 1), rg_mul(x, rg_mul(rg_sub(1, rg_square(t)), inner)));
    return rg_mul(g, rg_mul(slope, 0.5));
}

static bool gelu_tanh_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_gelu_tanh_grad, rgi_saved(s, 0), NULL);
}

RG_OP(gelu_tanh, .doc = "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", .node = "GeluBackward0",
      .n_in = 1, RG_ELEMENTWISE, .shape = gelu_tanh_shape, .kernel = &k_gelu_tanh,
      .fused = gelu_tanh_fused, .grad = { RG_RULE(RG_IN(0), gelu_tanh_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_gelu_tanh(rg_tensor *x) { return RG_APPLY(gelu_tanh, RG_NO_ATTR, x); }

/* ---- silu: x s, s = sigmoid(x); gx = g s (1 + x (1 - s)) ----------------------- */

static bool silu_shape(rg_call *c) { return elementwise_of_floats(c, "silu_cpu"); }

static rg_tensor *silu_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *sigmoid = rg_sigmoid(x);
    return rg_mul(g, rg_mul(sigmoid, rg_add(rg_mul(x, rg_sub(1, sigmoid)), 1)));
}

static bool silu_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_silu_grad, rgi_saved(s, 0), NULL);
}

RG_OP(silu, .doc = "x sigmoid(x)", .node = "SiluBackward0", .n_in = 1, RG_ELEMENTWISE,
      .shape = silu_shape, .kernel = &k_silu, .fused = silu_fused,
      .grad = { RG_RULE(RG_IN(0), silu_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_silu(rg_tensor *x) { return RG_APPLY(silu, RG_NO_ATTR, x); }
rg_tensor *rg_silu_(rg_tensor *x) { return RG_APPLY_(silu, RG_NO_ATTR, x); }

/* ---- mish: x t, t = tanh(softplus(x)); gx = g (t + x sigmoid(x) (1 - t^2)) ----- */

static bool mish_shape(rg_call *c) { return elementwise_of_floats(c, "mish_cpu"); }

static rg_tensor *mish_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rg_tanh(rg_softplus(x, 1, 20));
    rg_tensor *slope = rg_add(t, rg_mul(rg_mul(x, rg_sigmoid(x)), rg_sub(1, rg_square(t))));
    return rg_mul(g, slope);
}

static bool mish_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_mish_grad, rgi_saved(s, 0), NULL);
}

RG_OP(mish, .doc = "x tanh(softplus(x))", .node = "MishBackward0", .n_in = 1, RG_ELEMENTWISE,
      .shape = mish_shape, .kernel = &k_mish, .fused = mish_fused,
      .grad = { RG_RULE(RG_IN(0), mish_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_mish(rg_tensor *x) { return RG_APPLY(mish, RG_NO_ATTR, x); }
rg_tensor *rg_mish_(rg_tensor *x) { return RG_APPLY_(mish, RG_NO_ATTR, x); }

/* ---- softplus: ln(1 + e^(k0 x)) / k0, but x where k0 x > k1;
 *      gx = g sigmoid(k0 x), but g where k0 x > k1 ------------------------------- */

static bool softplus_shape(rg_call *c) { return elementwise_of_floats(c, "softplus_cpu"); }

static bool softplus_forward(rg_call *c) {
    return k_run_with(&k_softplus, c->out[0], c->in, activation_numbers(c->attr));
}

static rg_tensor *softplus_rule(const rg_step *s, rg_tensor *g) {
    const double *k = activation_numbers(s->attr);
    rg_tensor *scaled = rg_mul(rgi_saved(s, 0), k[0]);
    rg_tensor *curved = rg_mul(g, rg_sigmoid(rg_hardtanh(scaled, -INFINITY, k[1])));
    return rg_where(rg_gt(scaled, k[1]), g, curved);
}

static bool softplus_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_softplus_grad, rgi_saved(s, 0),
                             activation_numbers(s->attr));
}

RG_OP(softplus, .doc = "ln(1 + e^(k0 x)) / k0; x where k0 x > k1", RG_NAMED(activation), .n_in = 1,
      RG_ELEMENTWISE, .shape = softplus_shape, .forward = softplus_forward,
      .fused = softplus_fused, .grad = { RG_RULE(RG_IN(0), softplus_rule) },
      SAMPLES_1("", RG_A(activation, "SoftplusBackward0", { 2, 20 })));

rg_tensor *rg_softplus(rg_tensor *x, double beta, double threshold) {
    return RG_APPLY(softplus, RG_A(activation, "SoftplusBackward0", { beta, threshold }), x);
}

/* ---- softsign: x / (1 + |x|) --------------------------------------------------- */

rg_tensor *rg_softsign(rg_tensor *x) {
    return RG_COMPOSITE("softsign", rg_div(x, rg_add(rg_abs(x), 1)));
}

/* ---- hardswish: x min(max(x + 3, 0), 6) / 6;
 *      gx = 0 for x <= -3, g for x >= 3, g (x / 3 + 1/2) between ----------------- */

static bool hardswish_shape(rg_call *c) { return elementwise_of_floats(c, "hardswish_cpu"); }

static rg_tensor *hardswish_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *middle = rg_mul(g, rg_add(rg_div(rg_clamp(x, -3, 3), 3), 0.5));
    return rg_masked_fill(rg_where(rg_lt(x, 3), middle, g), rg_le(x, -3), 0);
}

static bool hardswish_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_hardswish_grad, rgi_saved(s, 0), NULL);
}

RG_OP(hardswish, .doc = "x min(max(x + 3, 0), 6) / 6", .node = "HardswishBackward0", .n_in = 1,
      RG_ELEMENTWISE, .shape = hardswish_shape, .kernel = &k_hardswish, .fused = hardswish_fused,
      .grad = { RG_RULE(RG_IN(0), hardswish_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_hardswish(rg_tensor *x) { return RG_APPLY(hardswish, RG_NO_ATTR, x); }
rg_tensor *rg_hardswish_(rg_tensor *x) { return RG_APPLY_(hardswish, RG_NO_ATTR, x); }

/* ---- hardsigmoid: min(max(x + 3, 0), 6) / 6; gx = g / 6 where -3 < x < 3, else 0 ---- */

static bool hardsigmoid_shape(rg_call *c) { return elementwise_of_floats(c, "hardsigmoid_cpu"); }

static rg_tensor *hardsigmoid_rule(const rg_step *s, rg_tensor *g) {
    const double sixth = 1 / 6.f; /* torch's sixth is a float's, also for doubles. */
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *inside = rg_logical_and(rg_gt(x, -3), rg_lt(x, 3));
    return rg_where(inside, rg_mul(g, sixth), 0);
}

static bool hardsigmoid_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_hardsigmoid_grad, rgi_saved(s, 0), NULL);
}

RG_OP(hardsigmoid, .doc = "min(max(x + 3, 0), 6) / 6", .node = "HardsigmoidBackward0", .n_in = 1,
      RG_ELEMENTWISE, .shape = hardsigmoid_shape, .kernel = &k_hardsigmoid,
      .fused = hardsigmoid_fused, .grad = { RG_RULE(RG_IN(0), hardsigmoid_rule) },
      SAMPLES_1("", NULL));

rg_tensor *rg_hardsigmoid(rg_tensor *x) { return RG_APPLY(hardsigmoid, RG_NO_ATTR, x); }
rg_tensor *rg_hardsigmoid_(rg_tensor *x) { return RG_APPLY_(hardsigmoid, RG_NO_ATTR, x); }

/* ---- logsigmoid: ln sigmoid(x); gx = g sigmoid(-x) ----------------------------- */

static bool logsigmoid_shape(rg_call *c) { return elementwise_of_floats(c, "log_sigmoid_cpu"); }

static rg_tensor *logsigmoid_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_mul(g, rg_sigmoid(rg_neg(x)));
}

static bool logsigmoid_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_logsigmoid_grad, rgi_saved(s, 0), NULL);
}

RG_OP(logsigmoid, .doc = "ln sigmoid(x)", .node = "LogSigmoidBackward0", .n_in = 1, .inplace = true,
      .shape = logsigmoid_shape, .kernel = &k_logsigmoid, .fused = logsigmoid_fused,
      .grad = { RG_RULE(RG_IN(0), logsigmoid_rule) }, SAMPLES_1("", NULL));

rg_tensor *rg_logsigmoid(rg_tensor *x) { return RG_APPLY(logsigmoid, RG_NO_ATTR, x); }
