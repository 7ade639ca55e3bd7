/*
 * activation.c: what networks put between their layers, element by element. Each
 * gradient has a kernel of its own besides its rule: one pass over the data.
 */
#include "elementwise.h"

/* Up to three numbers that a function has besides x. */
struct activation_attr { double k[3]; const char *node; };

#define ACTIVATION_A(...) &(const struct activation_attr){ .k = { __VA_ARGS__ } }
#define NUMBERS_OF(s)     (((const struct activation_attr *)(s)->attr)->k)
#define ACTIVATION_SAMPLES(kind, ...)                                                           \
    RG_SAMPLES({ kind "(2,3)", ACTIVATION_A(__VA_ARGS__) }, { kind "(2,1,3)", ACTIVATION_A(__VA_ARGS__) }, \
               { kind "()", ACTIVATION_A(__VA_ARGS__) }, { kind "(0,3)", ACTIVATION_A(__VA_ARGS__) })
#define WITH_NUMBERS(ident) \
    static bool ident##_forward(rg_call *c) { return k_##ident(c->out[0], c->in, NUMBERS_OF(c)), true; } \
    FUSED(ident, x, NUMBERS_OF(s))
#define OF_FLOATS(ident, cpu) \
    static bool ident##_shape(rg_call *c) { return elementwise_takes(c, RG_FLOAT32, cpu); }

/* ---- relu: max(x, 0); gx = g where y > 0 -------------------------------------------- */

static bool relu_shape(rg_call *c)
{
    if (c->in[0]->dtype == RG_BOOL) return rg_fail(RG_RUNTIME_ERROR, "relu", "Boolean inputs not supported for relu");
    return rg_shape_same(c);
}
FUSED(relu, y, NULL)
ELEMENTWISE(relu, "Relu", "max(x, 0)", RG_AS_GIVEN, relu_shape, y, rg_masked_fill(g, rg_le(y, 0), 0),
            .fused = relu_fused, SAMPLES_1("z"))
INPLACE_1(relu)

/* ---- hardtanh: min(max(x, k0), k1); gx = g where k0 < x < k1 --------------------------- */

static bool hardtanh_shape(rg_call *c)
{
    if (c->in[0]->dtype == RG_BOOL) return rg_fail(RG_RUNTIME_ERROR, "hardtanh", "Bool inputs not supported for hardtanh");
    return rg_shape_same(c);
}
WITH_NUMBERS(hardtanh)

static rg_tensor *hardtanh_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0);
    const double *k = NUMBERS_OF(s);
    return rg_where(rg_logical_and(rg_gt(x, k[0]), rg_lt(x, k[1])), g, 0);
}

RG_OP(hardtanh, .doc = "min(max(x, k0), k1)", .node = "HardtanhBackward0", .n_in = 1, .attr_size = sizeof(struct activation_attr), .inplace = true, .shape = hardtanh_shape,
      .forward = hardtanh_forward, .fused = hardtanh_fused, .grad = { RG_RULE(RG_IN(0), hardtanh_rule) },
      ACTIVATION_SAMPLES("z", -0.5, 0.5));

rg_tensor *rg_hardtanh(rg_tensor *x, double min, double max)
{
    if (min > max) return rg_fail(RG_VALUE_ERROR, "hardtanh", "min_val cannot be greater than max_val");
    return RG_APPLY(hardtanh, ACTIVATION_A(min, max), x);
}

rg_tensor *rg_relu6(rg_tensor *x) { return rg_hardtanh(x, 0, 6); }

rg_tensor *rg_relu6_(rg_tensor *x)
{
    return rg_apply_inplace("relu6_", &rg_op_hardtanh, ACTIVATION_A(0, 6), sizeof(struct activation_attr), 1, &x);
}

/* ---- leaky_relu: x > 0 ? x : k0 x; gx = x > 0 ? g : k0 g ---------------------------------- */

OF_FLOATS(leaky_relu, "leaky_relu_cpu")
WITH_NUMBERS(leaky_relu)

static rg_tensor *leaky_relu_rule(const rg_step *s, rg_tensor *g)
{
    return rg_where(rg_gt(rg_saved(s, 0), 0), g, rg_mul(g, NUMBERS_OF(s)[0]));
}

RG_OP(leaky_relu, .doc = "x > 0 ? x : k0 x", .node = "LeakyReluBackward0", .n_in = 1, .attr_size = sizeof(struct activation_attr), .inplace = true, .shape = leaky_relu_shape,
      .forward = leaky_relu_forward, .fused = leaky_relu_fused, .grad = { RG_RULE(RG_IN(0), leaky_relu_rule) },
      ACTIVATION_SAMPLES("z", 0.1));

rg_tensor *rg_leaky_relu(rg_tensor *x, double negative_slope) { return RG_APPLY(leaky_relu, ACTIVATION_A(negative_slope), x); }

/* ---- elu and its kind: x > 0 ? k0 x : k1 (e^(k2 x) - 1); gx = x > 0 ? k0 g : k1 k2 e^(k2 x) g ---- */

static const char *elu_node(const void *attr) { return ((const struct activation_attr *)attr)->node; }
OF_FLOATS(elu, "elu_cpu")
WITH_NUMBERS(elu)

static rg_tensor *elu_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0);
    const double *k = NUMBERS_OF(s);
    rg_tensor *below = rg_mul(rg_exp(rg_mul(rg_relu(rg_neg(x)), -k[2])), k[1] * k[2]);
    return rg_where(rg_le(x, 0), rg_mul(g, below), rg_mul(g, k[0]));
}

RG_OP(elu, .doc = "x > 0 ? k0 x : k1 (e^(k2 x) - 1)", .node_of = elu_node, .n_in = 1, .attr_size = sizeof(struct activation_attr), .inplace = true, .shape = elu_shape,
      .forward = elu_forward, .fused = elu_fused, .grad = { RG_RULE(RG_IN(0), elu_rule) },
      ACTIVATION_SAMPLES("z", 1, 1.5, 0.5));

#define ELU(a, b, c, name) (&(struct activation_attr){ .k = { a, b, c }, .node = name })
#define SELU(name) ELU(1.0507009873554804934, 1.0507009873554804934 * 1.6732632423543772848, 1, name)

rg_tensor *rg_elu(rg_tensor *x, double alpha) { return RG_APPLY(elu, ELU(1, alpha, 1, "EluBackward0"), x); }
rg_tensor *rg_selu(rg_tensor *x) { return RG_APPLY(elu, SELU("EluBackward0"), x); }
rg_tensor *rg_selu_(rg_tensor *x)
{
    return rg_apply_inplace("selu_", &rg_op_elu, SELU("EluBackward1"), sizeof(struct activation_attr), 1, &x);
}

rg_tensor *rg_celu(rg_tensor *x, double alpha)
{
    if (alpha == 0) return rg_fail(RG_RUNTIME_ERROR, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return RG_APPLY(elu, ELU(1, alpha, 1 / alpha, "CeluBackward0"), x);
}

/* ---- gelu: x P(x), with P the normal distribution's; gx = g (P(x) + x P'(x)) --------------- */

OF_FLOATS(gelu, "GeluKernelImpl")
FUSED(gelu, x, NULL)

static rg_tensor *gelu_slope(rg_tensor *x)
{
    rg_tensor *below = rg_mul(rg_add(rg_erf(rg_mul(x, M_SQRT1_2)), 1), 0.5);
    return rg_add(below, rg_mul(x, rg_mul(rg_exp(rg_mul(rg_square(x), -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2)));
}

ELEMENTWISE(gelu, "Gelu", "x (1 + erf(x / sqrt 2)) / 2", RG_AS_GIVEN, gelu_shape, x, rg_mul(g, gelu_slope(x)),
            .fused = gelu_fused, SAMPLES_1(""))

/* ---- gelu_tanh: x (1 + t) / 2, t = tanh(c (x + 0.044715 x^3)), c = sqrt(2 / pi) -------------- */

#define gelu_tanh_shape gelu_shape
FUSED(gelu_tanh, x, NULL)

/* (1 + t + x (1 - t^2) c (1 + 3 * 0.044715 x^2)) / 2 */
static rg_tensor *gelu_tanh_slope(rg_tensor *x)
{
    const double c = M_SQRT1_2 * M_2_SQRTPI, cube = 0.044715;
    rg_tensor *xx = rg_square(x), *t = rg_tanh(rg_mul(x, rg_add(rg_mul(xx, c * cube), c)));
    rg_tensor *inner = rg_add(rg_mul(xx, 3 * c * cube), c);
    return rg_mul(rg_add(rg_add(t, 1), rg_mul(x, rg_mul(rg_sub(1, rg_square(t)), inner))), 0.5);
}

ELEMENTWISE(gelu_tanh, "Gelu", "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", RG_AS_GIVEN, gelu_tanh_shape, x,
            rg_mul(g, gelu_tanh_slope(x)), .fused = gelu_tanh_fused, SAMPLES_1(""))

/* ---- silu: x s, s = sigmoid(x); gx = g s (1 + x (1 - s)) -------------------------------------- */

OF_FLOATS(silu, "silu_cpu")
FUSED(silu, x, NULL)

static rg_tensor *silu_slope(rg_tensor *x)
{
    rg_tensor *s = rg_sigmoid(x);
    return rg_mul(s, rg_add(rg_mul(x, rg_sub(1, s)), 1));
}

ELEMENTWISE(silu, "Silu", "x sigmoid(x)", RG_AS_GIVEN, silu_shape, x, rg_mul(g, silu_slope(x)), .fused = silu_fused, SAMPLES_1(""))
INPLACE_1(silu)

/* ---- mish: x t, t = tanh(softplus(x)); gx = g (t + x sigmoid(x) (1 - t^2)) ------------------------ */

OF_FLOATS(mish, "mish_cpu")
FUSED(mish, x, NULL)

static rg_tensor *mish_slope(rg_tensor *x)
{
    rg_tensor *t = rg_tanh(rg_softplus(x, 1, 20));
    return rg_add(t, rg_mul(rg_mul(x, rg_sigmoid(x)), rg_sub(1, rg_square(t))));
}

ELEMENTWISE(mish, "Mish", "x tanh(softplus(x))", RG_AS_GIVEN, mish_shape, x, rg_mul(g, mish_slope(x)), .fused = mish_fused, SAMPLES_1(""))
INPLACE_1(mish)

/* ---- softplus: ln(1 + e^(k0 x)) / k0, x where k0 x > k1; gx = g sigmoid(k0 x), g there ------------- */

OF_FLOATS(softplus, "softplus_cpu")
WITH_NUMBERS(softplus)

static rg_tensor *softplus_rule(const rg_step *s, rg_tensor *g)
{
    const double *k = NUMBERS_OF(s);
    rg_tensor *bx = rg_mul(rg_saved(s, 0), k[0]);
    return rg_where(rg_gt(bx, k[1]), g, rg_mul(g, rg_sigmoid(rg_hardtanh(bx, -INFINITY, k[1]))));
}

RG_OP(softplus, .doc = "ln(1 + e^(k0 x)) / k0; x where k0 x > k1", .node = "SoftplusBackward0", .n_in = 1, .attr_size = sizeof(struct activation_attr), .inplace = true,
      .shape = softplus_shape, .forward = softplus_forward, .fused = softplus_fused,
      .grad = { RG_RULE(RG_IN(0), softplus_rule) }, ACTIVATION_SAMPLES("", 2, 20));

rg_tensor *rg_softplus(rg_tensor *x, double beta, double threshold) { return RG_APPLY(softplus, ACTIVATION_A(beta, threshold), x); }

/* ---- softsign: x / (1 + |x|) ------------------------------------------------------------------------ */

rg_tensor *rg_softsign(rg_tensor *x) { return RG_COMPOSITE(rg_div(x, rg_add(rg_abs(x), 1))); }

/* ---- hardswish: x min(max(x + 3, 0), 6) / 6; gx = g (x / 3 + 1/2) between -3 and 3, 0 below, g above ---- */

OF_FLOATS(hardswish, "hardswish_cpu")
FUSED(hardswish, x, NULL)

static rg_tensor *hardswish_gradient(rg_tensor *g, rg_tensor *x)
{
    rg_tensor *middle = rg_mul(g, rg_add(rg_div(rg_clamp(x, -3, 3), 3), 0.5));
    return rg_masked_fill(rg_where(rg_lt(x, 3), middle, g), rg_le(x, -3), 0);
}

ELEMENTWISE(hardswish, "Hardswish", "x min(max(x + 3, 0), 6) / 6", RG_AS_GIVEN, hardswish_shape, x, hardswish_gradient(g, x),
            .fused = hardswish_fused, SAMPLES_1(""))
INPLACE_1(hardswish)

/* ---- hardsigmoid: min(max(x + 3, 0), 6) / 6; gx = g / 6 between -3 and 3, a sixth being torch's: a float's ---- */

OF_FLOATS(hardsigmoid, "hardsigmoid_cpu")
FUSED(hardsigmoid, x, NULL)
ELEMENTWISE(hardsigmoid, "Hardsigmoid", "min(max(x + 3, 0), 6) / 6", RG_AS_GIVEN, hardsigmoid_shape, x,
            rg_where(rg_logical_and(rg_gt(x, -3), rg_lt(x, 3)), rg_mul(g, (double)(1 / 6.f)), 0), .fused = hardsigmoid_fused, SAMPLES_1(""))
INPLACE_1(hardsigmoid)

/* ---- logsigmoid: ln sigmoid(x); gx = g sigmoid(-x) ---------------------------------------------------------- */

OF_FLOATS(logsigmoid, "log_sigmoid_cpu")
FUSED(logsigmoid, x, NULL)
ELEMENTWISE(logsigmoid, "LogSigmoid", "ln sigmoid(x)", RG_AS_GIVEN, logsigmoid_shape, x, rg_mul(g, rg_sigmoid(rg_neg(x))),
            .fused = logsigmoid_fused, SAMPLES_1(""))
