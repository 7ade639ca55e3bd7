/*
 * unary.c: functions of one tensor, element by element: signs and roundings,
 * roots and powers, exponentials, trigonometry. (What networks put between
 * their layers is in activation.c.)
 */
#include "elementwise.h"

/* ---- of numbers: integers stay integers -------------------------------------------- */
NOT_OF_BOOL(
    neg,
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
    "a mask, use the `~` or `logical_not()` operator instead.")
ELEMENTWISE(neg, "Neg", "-x", RG_AS_GIVEN, neg_shape, g, rg_mul(g, -1), SAMPLES_1("", NULL))
INPLACE_1(neg)

#define NUMBERS(ident, Node, formula, least, cpu, of, gradient)                        \
    static bool ident##_shape(rg_call *c) { return elementwise_takes(c, least, cpu); } \
    ELEMENTWISE(ident, Node, formula, RG_AS_GIVEN, ident##_shape, of, gradient,        \
                SAMPLES_1("z", NULL))                                                  \
    INPLACE_1(ident)

NUMBERS(abs, "Abs", "|x|", RG_INT64, "abs_cpu", x, rg_mul(g, rg_sign(x)))
NUMBERS(sign, "Sign", "-1, 0 or 1", RG_BOOL, "", g, rg_zeros_like(g))
NUMBERS(floor, "Floor", "the integer below x", RG_INT64, "floor_vml_cpu", g, rg_zeros_like(g))
NUMBERS(ceil, "Ceil", "the integer above x", RG_INT64, "ceil_vml_cpu", g, rg_zeros_like(g))
NUMBERS(round, "Round", "x, rounded to even", RG_INT64, "round_vml_cpu", g, rg_zeros_like(g))
NUMBERS(trunc, "Trunc", "x without its fraction", RG_INT64, "trunc_vml_cpu", g, rg_zeros_like(g))
NUMBERS(frac, "Frac", "x - trunc(x)", RG_FLOAT32, "frac_cpu", g, g)

/* ---- square: x^2; gx = 2 g x. torch calls it a power ----------------------------- */
/* rg_square makes an integer of a bool; rg_square_ can't */
static bool square_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->dtype == RG_BOOL, "square_",
               "result type Long can't be cast to the desired output "
               "type Bool");
    return rgi_shape_same(c);
}
RULE(square_rule, x, rg_mul(g, rg_mul(x, 2)))
RG_OP(square, .doc = "x^2", .node = "PowBackward0", .n_in = 1, .inplace = true,
      .shape = square_shape, .kernel = &k_square, .grad = { RULED(square_rule) },
      SAMPLES_1("", NULL));

rg_tensor *rg_square(rg_tensor *x) {
    if (!rgi_check(x, "square"))
        return NULL;
    return x->dtype == RG_BOOL ? rg_to(x, RG_INT64) : RG_APPLY(square, RG_NO_ATTR, x);
}
INPLACE_1(square)

/* ---- round_decimals: to a number of decimals, which may be negative -------------- */
struct round_decimals_attr {
    int decimals;
};
static bool round_decimals_shape(rg_call *c) {
    return elementwise_takes(c, RG_FLOAT32,
                             RG_ATTR(c, round_decimals)->decimals ? "round_cpu" : "round_vml_cpu");
}

static bool round_decimals_forward(rg_call *c) {
    int decimals = RG_ATTR(c, round_decimals)->decimals;
    double ten[3] = { pow(10, fabs((double)decimals)) }; /* a loop takes three numbers */
    return k_run_with(decimals > 0 ? &k_round_up : &k_round_down, c->out[0], c->in, ten);
}
RULE(round_decimals_rule, g, rg_zeros_like(g))
RG_OP(round_decimals, .doc = "x, rounded to decimals", .node = "RoundBackward1", .n_in = 1,
      .inplace = true, RG_WITH(round_decimals), RG_MADE(round_decimals),
      .grad = { RULED(round_decimals_rule) },
      RG_SAMPLES({ "z(2,3)", RG_A(round_decimals, 0) }, { "z()", RG_A(round_decimals, -1) },
                 { "z(0,3)", RG_A(round_decimals, 1) }));

rg_tensor *rg_round_decimals(rg_tensor *x, int decimals) {
    return RG_APPLY(round_decimals, RG_A(round_decimals, decimals), x);
}

/* ---- of floats: integers become the default dtype -------------------------------- */
#define FLOATS(ident, Node, formula, of, gradient, kind) \
    FLOATS_FUSED(ident, Node, formula, of, gradient, kind, NULL)
#define FLOATS_FUSED(ident, Node, formula, of, gradient, kind, fused_)                           \
    ELEMENTWISE(ident, Node, formula, RG_FLOATED, rgi_shape_same, of, gradient, .fused = fused_, \
                SAMPLES_1(kind, NULL))                                                           \
    INPLACE_1(ident)

static rg_tensor *bell(rg_tensor *x) { return rg_exp(rg_neg(rg_square(x))); }
static rg_tensor *circle(rg_tensor *x) { return rg_rsqrt(rg_sub(1, rg_square(x))); }
FLOATS(exp, "Exp", "e^x", y, rg_mul(g, y), "")
FLOATS(exp2, "Exp2", "2^x", y, rg_mul(rg_mul(g, y), M_LN2), "")
FLOATS(expm1, "Expm1", "e^x - 1", y, rg_mul(g, rg_add(y, 1)), "")
FLOATS(log, "Log", "ln x", x, rg_div(g, x), "p")
FLOATS(log1p, "Log1P", "ln(1 + x)", x, rg_div(g, rg_add(x, 1)), "p")
FLOATS(log2, "Log2", "ln x / ln 2", x, rg_div(g, rg_mul(x, M_LN2)), "p")
FLOATS(log10, "Log10", "ln x / ln 10", x, rg_div(g, rg_mul(x, M_LN10)), "p")
FLOATS(sqrt, "Sqrt", "x^(1/2)", y, rg_div(g, rg_mul(y, 2)), "p")
FLOATS(rsqrt, "Rsqrt", "x^(-1/2)", y, rg_mul(rg_mul(g, -0.5), rg_pow(y, 3)), "p")
FLOATS(reciprocal, "Reciprocal", "1 / x", y, rg_mul(rg_neg(g), rg_square(y)), "z")
FLOATS(sin, "Sin", "sin x", x, rg_mul(g, rg_cos(x)), "")
FLOATS(cos, "Cos", "cos x", x, rg_mul(g, rg_neg(rg_sin(x))), "")
FLOATS(tan, "Tan", "tan x", y, rg_mul(g, rg_add(rg_square(y), 1)), "s")
FLOATS(sinh, "Sinh", "sinh x", x, rg_mul(g, rg_cosh(x)), "")
FLOATS(cosh, "Cosh", "cosh x", x, rg_mul(g, rg_sinh(x)), "")
FLOATS(asin, "Asin", "asin x", x, rg_mul(g, circle(x)), "s")
FLOATS(acos, "Acos", "acos x", x, rg_mul(g, rg_neg(circle(x))), "s")
FLOATS(atan, "Atan", "atan x", x, rg_div(g, rg_add(rg_square(x), 1)), "")
FLOATS(erf, "Erf", "2 / sqrt(pi) integral of e^-t^2 from 0 to x", x,
       rg_mul(rg_mul(bell(x), M_2_SQRTPI), g), "")
FLOATS(erfc, "Erfc", "1 - erf x", x, rg_mul(rg_mul(bell(x), -M_2_SQRTPI), g), "")

FUSED(tanh, rgi_saved_output(s), NULL)
FUSED(sigmoid, rgi_saved_output(s), NULL)
FLOATS_FUSED(tanh, "Tanh", "tanh x", y, rg_mul(g, rg_sub(1, rg_square(y))), "", tanh_fused)
FLOATS_FUSED(sigmoid, "Sigmoid", "1 / (1 + e^-x)", y, rg_mul(rg_mul(g, rg_sub(1, y)), y), "",
             sigmoid_fused)
