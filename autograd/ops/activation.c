/*
 * activation.c: what networks put between their layers, element by element. Each
 * gradient has a kernel of its own besides its rule: one pass over the data.
 */
#include "elementwise.h"

#define OF_FLOATS(ident, cpu) \
    static bool ident##_shape(rg_call *c) { return elementwise_takes(c, RG_FLOAT32, cpu); }

/* Of x alone. cpu: torch's kernel. */
#define ACTIVATION(ident, Node, formula, cpu, gradient)                        \
    OF_FLOATS(ident, cpu)                                                      \
    FUSED(ident, rgi_saved(s, 0), NULL)                                        \
    ELEMENTWISE(ident, Node, formula, RG_AS_GIVEN, ident##_shape, x, gradient, \
                .fused = ident##_fused, SAMPLES_1("", NULL))

/* Of x and up to three numbers k, which the gradient may name. */
struct activation_attr {
    const char *node;
    double k[3];
};

#define ACTIVATION_A(node, ...) (&(const struct activation_attr){ node, { __VA_ARGS__ } })
#define NUMBERS_OF(s)           (((const struct activation_attr *)(s)->attr)->k)
#define OF_xk                                 \
    RG_IN(0), rg_tensor *x = rgi_saved(s, 0); \
    const double *k = NUMBERS_OF(s);
#define WITH_NUMBERS(ident, formula, gradient, ...)                                   \
    static bool ident##_forward(rg_call *c) {                                         \
        return k_run_with(&k_##ident, c->out[0], c->in, NUMBERS_OF(c));               \
    }                                                                                 \
    FUSED(ident, rgi_saved(s, 0), NUMBERS_OF(s))                                      \
    RULE(ident##_rule, xk, gradient)                                                  \
    RG_OP(ident, .doc = formula, .n_in = 1, RG_NAMED(activation), .inplace = true,    \
          .shape = ident##_shape, .forward = ident##_forward, .fused = ident##_fused, \
          .grad = { RULED(ident##_rule) }, __VA_ARGS__)
#define IN_PLACE_AS(ident, op, attr)                                                \
    rg_tensor *rg_##ident(rg_tensor *x) {                                           \
        RG_AS(#ident);                                                              \
        return rgi_apply_inplace(#ident, &rg_op_##op, attr, sizeof *(attr), 1, &x); \
    }

/* ---- relu: max(x, 0); gx = g where y > 0 ----------------------------------------- */
NOT_OF_BOOL(relu, "Boolean inputs not supported for relu")
FUSED(relu, rgi_saved_output(s), NULL)
ELEMENTWISE(relu, "Relu", "max(x, 0)", RG_AS_GIVEN, relu_shape, y,
            rg_masked_fill(g, rg_le(y, 0), 0), .fused = relu_fused, SAMPLES_1("z", NULL))
INPLACE_1(relu)

/* ---- hardtanh: min(max(x, k0), k1); gx = g but where x <= k0 or x >= k1 ---------- */
NOT_OF_BOOL(hardtanh, "Bool inputs not supported for hardtanh")
#define HARDTANH(min, max) ACTIVATION_A("HardtanhBackward0", min, max)
WITH_NUMBERS(hardtanh, "min(max(x, k0), k1)",
             rg_masked_fill(g, rg_logical_or(rg_le(x, k[0]), rg_ge(x, k[1])), 0),
             SAMPLES_1("z", HARDTANH(-0.5, 0.5)));

rg_tensor *rg_hardtanh(rg_tensor *x, double min, double max) {
    RG_FAIL_VALUE_IF(min > max, "hardtanh", "min_val cannot be greater than max_val");
    return RG_APPLY(hardtanh, HARDTANH(min, max), x);
}

rg_tensor *rg_relu6(rg_tensor *x) {
    RG_AS("relu6");
    return rg_hardtanh(x, 0, 6);
}
IN_PLACE_AS(relu6_, hardtanh, HARDTANH(0, 6))

/* ---- leaky_relu: x > 0 ? x : k0 x; gx = x > 0 ? g : k0 g ------------------------- */
#define LEAKY(slope) ACTIVATION_A("LeakyReluBackward0", slope)
OF_FLOATS(leaky_relu, "leaky_relu_cpu")
WITH_NUMBERS(leaky_relu, "x > 0 ? x : k0 x", rg_where(rg_gt(x, 0), g, rg_mul(g, k[0])),
             SAMPLES_1("z", LEAKY(0.1)));
rg_tensor *rg_leaky_relu(rg_tensor *x, double negative_slope) {
    return RG_APPLY(leaky_relu, LEAKY(negative_slope), x);
}

/* ---- elu and its kind: x > 0 ? k0 x : k1 (e^(k2 x) - 1); gx = x > 0 ? k0 g : k1 k2 e^(k2 x) g ---- */
static rg_tensor *elu_gradient(rg_tensor *g, rg_tensor *x, const double *k) {
    rg_tensor *below = rg_mul(rg_exp(rg_mul(rg_relu(rg_neg(x)), -k[2])), k[1] * k[2]);
    return rg_where(rg_le(x, 0), rg_mul(g, below), rg_mul(g, k[0]));
}

#define SELU(node) \
    ACTIVATION_A(node, 1.0507009873554804934, 1.0507009873554804934 * 1.6732632423543772848, 1)
OF_FLOATS(elu, "elu_cpu")
WITH_NUMBERS(elu, "x > 0 ? k0 x : k1 (e^(k2 x) - 1)", elu_gradient(g, x, k),
             SAMPLES_1("z", ACTIVATION_A("EluBackward0", 1, 1.5, 0.5)));

rg_tensor *rg_elu(rg_tensor *x, double alpha) {
    return RG_APPLY(elu, ACTIVATION_A("EluBackward0", 1, alpha, 1), x);
}
rg_tensor *rg_selu(rg_tensor *x) {
    RG_AS("selu");
    return RG_APPLY(elu, SELU("EluBackward0"), x);
}
IN_PLACE_AS(selu_, elu, SELU("EluBackward1"))

rg_tensor *rg_celu(rg_tensor *x, double alpha) {
    RG_AS("celu");
    RG_FAIL_IF(alpha == 0, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU");
    return RG_APPLY(elu, ACTIVATION_A("CeluBackward0", 1, alpha, 1 / alpha), x);
}

/* ---- gelu: x P(x), with P the normal distribution's; gx = g (P(x) + x P'(x)) ----- */
static rg_tensor *gelu_slope(rg_tensor *x) {
    rg_tensor *below = rg_mul(rg_add(rg_erf(rg_mul(x, M_SQRT1_2)), 1), 0.5);
    return rg_add(
        below, rg_mul(x, rg_mul(rg_exp(rg_mul(rg_square(x), -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2)));
}
ACTIVATION(gelu, "Gelu", "x (1 + erf(x / sqrt 2)) / 2", "GeluKernelImpl", rg_mul(g, gelu_slope(x)))

/* ---- gelu_tanh: x (1 + t) / 2, t = tanh(c (x + 0.044715 x^3)), c = sqrt(2 / pi) -----
 * its slope: (1 + t + x (1 - t^2) c (1 + 3 * 0.044715 x^2)) / 2 */
static rg_tensor *gelu_tanh_slope(rg_tensor *x) {
    const double c = M_SQRT1_2 * M_2_SQRTPI, cube = 0.044715;
    rg_tensor *xx = rg_square(x), *t = rg_tanh(rg_mul(x, rg_add(rg_mul(xx, c * cube), c)));
    rg_tensor *inner = rg_add(rg_mul(xx, 3 * c * cube), c);
    return rg_mul(rg_add(rg_add(t, 1), rg_mul(x, rg_mul(rg_sub(1, rg_square(t)), inner))), 0.5);
}
ACTIVATION(gelu_tanh, "Gelu", "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", "GeluKernelImpl",
           rg_mul(g, gelu_tanh_slope(x)))

/* ---- silu: x s, s = sigmoid(x); gx = g s (1 + x (1 - s)) ------------------------- */
static rg_tensor *silu_slope(rg_tensor *x) {
    rg_tensor *s = rg_sigmoid(x);
    return rg_mul(s, rg_add(rg_mul(x, rg_sub(1, s)), 1));
}
ACTIVATION(silu, "Silu", "x sigmoid(x)", "silu_cpu", rg_mul(g, silu_slope(x)))
INPLACE_1(silu)

/* ---- mish: x t, t = tanh(softplus(x)); gx = g (t + x sigmoid(x) (1 - t^2)) ------- */
static rg_tensor *mish_slope(rg_tensor *x) {
    rg_tensor *t = rg_tanh(rg_softplus(x, 1, 20));
    return rg_add(t, rg_mul(rg_mul(x, rg_sigmoid(x)), rg_sub(1, rg_square(t))));
}
ACTIVATION(mish, "Mish", "x tanh(softplus(x))", "mish_cpu", rg_mul(g, mish_slope(x)))
INPLACE_1(mish)

/* ---- softplus: ln(1 + e^(k0 x)) / k0, x where k0 x > k1; gx = g sigmoid(k0 x), g there ---- */
static rg_tensor *softplus_gradient(rg_tensor *g, rg_tensor *bx, double threshold) {
    return rg_where(rg_gt(bx, threshold), g,
                    rg_mul(g, rg_sigmoid(rg_hardtanh(bx, -INFINITY, threshold))));
}

#define SOFTPLUS(beta, threshold) ACTIVATION_A("SoftplusBackward0", beta, threshold)
OF_FLOATS(softplus, "softplus_cpu")
WITH_NUMBERS(softplus, "ln(1 + e^(k0 x)) / k0; x where k0 x > k1",
             softplus_gradient(g, rg_mul(x, k[0]), k[1]), SAMPLES_1("", SOFTPLUS(2, 20)));

rg_tensor *rg_softplus(rg_tensor *x, double beta, double threshold) {
    return RG_APPLY(softplus, SOFTPLUS(beta, threshold), x);
}

/* ---- softsign: x / (1 + |x|) ----------------------------------------------------- */
rg_tensor *rg_softsign(rg_tensor *x) {
    return RG_COMPOSITE("softsign", rg_div(x, rg_add(rg_abs(x), 1)));
}

/* ---- hardswish: x min(max(x + 3, 0), 6) / 6; gx = g (x / 3 + 1/2) between -3 and 3, 0 below, g above ---- */
static rg_tensor *hardswish_gradient(rg_tensor *g, rg_tensor *x) {
    rg_tensor *middle = rg_mul(g, rg_add(rg_div(rg_clamp(x, -3, 3), 3), 0.5));
    return rg_masked_fill(rg_where(rg_lt(x, 3), middle, g), rg_le(x, -3), 0);
}
ACTIVATION(hardswish, "Hardswish", "x min(max(x + 3, 0), 6) / 6", "hardswish_cpu",
           hardswish_gradient(g, x))
INPLACE_1(hardswish)

/* ---- hardsigmoid: min(max(x + 3, 0), 6) / 6; gx = g / 6 between -3 and 3, a sixth being torch's: a float's ---- */
ACTIVATION(hardsigmoid, "Hardsigmoid", "min(max(x + 3, 0), 6) / 6", "hardsigmoid_cpu",
           rg_where(rg_logical_and(rg_gt(x, -3), rg_lt(x, 3)), rg_mul(g, (double)(1 / 6.f)), 0))
INPLACE_1(hardsigmoid)

/* ---- logsigmoid: ln sigmoid(x); gx = g sigmoid(-x) ------------------------------- */
ACTIVATION(logsigmoid, "LogSigmoid", "ln sigmoid(x)", "log_sigmoid_cpu",
           rg_mul(g, rg_sigmoid(rg_neg(x))))
