/*
 * unary.c: functions of one tensor, element by element: signs and roundings,
 * roots and powers, exponentials, trigonometry. (What networks put between
 * their layers is in activation.c.)
 */
#include "elementwise.h"

/* ---- of numbers: integers stay integers -------------------------------------------- */

static bool neg_shape(rg_call *c)
{
    if (c->in[0]->dtype == RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "neg", "Negation, the `-` operator, on a bool tensor is not supported. "
                       "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    return rg_shape_same(c);
}
static bool abs_shape(rg_call *c)   { return elementwise_takes(c, RG_INT64, "abs_cpu"); }
static bool floor_shape(rg_call *c) { return elementwise_takes(c, RG_INT64, "floor_vml_cpu"); }
static bool ceil_shape(rg_call *c)  { return elementwise_takes(c, RG_INT64, "ceil_vml_cpu"); }
static bool round_shape(rg_call *c) { return elementwise_takes(c, RG_INT64, "round_vml_cpu"); }
static bool trunc_shape(rg_call *c) { return elementwise_takes(c, RG_INT64, "trunc_vml_cpu"); }
static bool frac_shape(rg_call *c)  { return elementwise_takes(c, RG_FLOAT32, "frac_cpu"); }

#define NUMBERS(ident, Node, formula, shape, of, gradient, kind) \
    ELEMENTWISE(ident, Node, formula, RG_AS_GIVEN, shape, of, gradient, SAMPLES_1(kind))

NUMBERS(neg,   "Neg",   "-x",                    neg_shape,     g, rg_mul(g, -1),            "")
NUMBERS(abs,   "Abs",   "|x|",                   abs_shape,     x, rg_mul(g, rg_sign(x)),    "z")
NUMBERS(sign,  "Sign",  "-1, 0 or 1",            rg_shape_same, g, rg_zeros_like(g),         "z")
NUMBERS(floor, "Floor", "the integer below x",   floor_shape,   g, rg_zeros_like(g),         "z")
NUMBERS(ceil,  "Ceil",  "the integer above x",   ceil_shape,    g, rg_zeros_like(g),         "z")
NUMBERS(round, "Round", "x, rounded to even",    round_shape,   g, rg_zeros_like(g),         "z")
NUMBERS(trunc, "Trunc", "x without its fraction", trunc_shape,  g, rg_zeros_like(g),         "z")
NUMBERS(frac,  "Frac",  "x - trunc(x)",          frac_shape,    g, g,                        "z")

/* ---- square: x^2; gx = 2 g x. torch calls it a power ------------------------------------ */

static bool square_shape(rg_call *c)                    /* rg_square makes an integer of a bool; rg_square_ can't */
{
    if (c->in[0]->dtype == RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "square_", "result type Long can't be cast to the desired output type Bool");
    return rg_shape_same(c);
}

static bool square_forward(rg_call *c) { return k_square(c->out[0], c->in, NULL), true; }
static rg_tensor *square_rule(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_mul(rg_saved(s, 0), 2)); }

RG_OP(square, .doc = "x^2", .node = "PowBackward0", .n_in = 1, .inplace = true, .shape = square_shape,
      .forward = square_forward, .grad = { RG_RULE(RG_IN(0), square_rule) }, SAMPLES_1(""));

rg_tensor *rg_square(rg_tensor *x)
{
    if (!rg_check(x, "square")) return NULL;
    if (x->dtype == RG_BOOL) return rg_to(x, RG_INT64);
    return RG_APPLY(square, RG_NO_ATTR, x);
}

rg_tensor *rg_square_(rg_tensor *x) { return RG_APPLY_(square, RG_NO_ATTR, x); }

/* ---- round_decimals: to a number of decimals, which may be negative ---------------------- */

struct round_decimals_attr { int decimals; };

static bool round_decimals_shape(rg_call *c)
{
    return elementwise_takes(c, RG_FLOAT32, RG_ATTR(c, round_decimals)->decimals ? "round_cpu" : "round_vml_cpu");
}

static bool round_decimals_forward(rg_call *c)
{
    int decimals = RG_ATTR(c, round_decimals)->decimals;
    double ten[3] = { pow(10, fabs((double)decimals)) };    /* a loop takes three numbers */
    (decimals > 0 ? k_round_up : k_round_down)(c->out[0], c->in, ten);
    return true;
}

static rg_tensor *round_decimals_rule(const rg_step *s, rg_tensor *g) { return (void)s, rg_zeros_like(g); }

RG_OP(round_decimals, .doc = "x, rounded to decimals", .node = "RoundBackward1", .n_in = 1, .inplace = true,
      .attr_size = sizeof(struct round_decimals_attr), .shape = round_decimals_shape, .forward = round_decimals_forward, .grad = { RG_RULE(0, round_decimals_rule) },
      RG_SAMPLES({ "z(2,3)", RG_A(round_decimals, 0) }, { "z()", RG_A(round_decimals, -1) }, { "z(0,3)", RG_A(round_decimals, 1) }));

rg_tensor *rg_round_decimals(rg_tensor *x, int decimals)
{
    return RG_APPLY(round_decimals, (&(struct round_decimals_attr){ decimals }), x);
}

/* ---- of floats: integers become the default dtype ------------------------------------------ */

#define FLOATS(ident, Node, formula, of, gradient, kind) \
    ELEMENTWISE(ident, Node, formula, RG_FLOATED, rg_shape_same, of, gradient, SAMPLES_1(kind))

static rg_tensor *bell(rg_tensor *x) { return rg_exp(rg_neg(rg_square(x))); }
static rg_tensor *circle(rg_tensor *x) { return rg_rsqrt(rg_sub(1, rg_square(x))); }

FLOATS(exp,   "Exp",   "e^x",      y, rg_mul(g, y),                          "")
FLOATS(exp2,  "Exp2",  "2^x",      y, rg_mul(rg_mul(g, y), M_LN2),           "")
FLOATS(expm1, "Expm1", "e^x - 1",  y, rg_mul(g, rg_add(y, 1)),               "")
FLOATS(log,   "Log",   "ln x",     x, rg_div(g, x),                          "p")
FLOATS(log1p, "Log1P", "ln(1 + x)", x, rg_div(g, rg_add(x, 1)),              "p")
FLOATS(log2,  "Log2",  "ln x / ln 2", x, rg_div(g, rg_mul(x, M_LN2)),        "p")
FLOATS(log10, "Log10", "ln x / ln 10", x, rg_div(g, rg_mul(x, M_LN10)),      "p")
FLOATS(sqrt,  "Sqrt",  "x^(1/2)",  y, rg_div(g, rg_mul(y, 2)),               "p")
FLOATS(rsqrt, "Rsqrt", "x^(-1/2)", y, rg_mul(rg_mul(g, -0.5), rg_pow(y, 3)), "p")
FLOATS(reciprocal, "Reciprocal", "1 / x", y, rg_mul(rg_neg(g), rg_square(y)), "z")
FLOATS(sin,   "Sin",   "sin x",    x, rg_mul(g, rg_cos(x)),                  "")
FLOATS(cos,   "Cos",   "cos x",    x, rg_mul(g, rg_neg(rg_sin(x))),          "")
FLOATS(tan,   "Tan",   "tan x",    y, rg_mul(g, rg_add(rg_square(y), 1)),    "s")
FLOATS(sinh,  "Sinh",  "sinh x",   x, rg_mul(g, rg_cosh(x)),                 "")
FLOATS(cosh,  "Cosh",  "cosh x",   x, rg_mul(g, rg_sinh(x)),                 "")
FLOATS(asin,  "Asin",  "asin x",   x, rg_mul(g, circle(x)),                  "s")
FLOATS(acos,  "Acos",  "acos x",   x, rg_mul(g, rg_neg(circle(x))),          "s")
FLOATS(atan,  "Atan",  "atan x",   x, rg_div(g, rg_add(rg_square(x), 1)),    "")
FLOATS(erf,   "Erf",   "2 / sqrt(pi) integral of e^-t^2 from 0 to x", x, rg_mul(rg_mul(bell(x), M_2_SQRTPI), g), "")
FLOATS(erfc,  "Erfc",  "1 - erf x", x, rg_mul(rg_mul(bell(x), -M_2_SQRTPI), g), "")

FUSED(tanh, y, NULL)
FUSED(sigmoid, y, NULL)
ELEMENTWISE(tanh, "Tanh", "tanh x", RG_FLOATED, rg_shape_same, y, rg_mul(g, rg_sub(1, rg_square(y))),
            .fused = tanh_fused, SAMPLES_1(""))
ELEMENTWISE(sigmoid, "Sigmoid", "1 / (1 + e^-x)", RG_FLOATED, rg_shape_same, y, rg_mul(rg_mul(g, rg_sub(1, y)), y),
            .fused = sigmoid_fused, SAMPLES_1(""))

INPLACE_1(neg) INPLACE_1(abs) INPLACE_1(sign) INPLACE_1(floor) INPLACE_1(ceil) INPLACE_1(round) INPLACE_1(trunc)
INPLACE_1(frac) INPLACE_1(exp) INPLACE_1(exp2) INPLACE_1(expm1) INPLACE_1(log) INPLACE_1(log1p) INPLACE_1(log2)
INPLACE_1(log10) INPLACE_1(sqrt) INPLACE_1(rsqrt) INPLACE_1(reciprocal) INPLACE_1(sin) INPLACE_1(cos) INPLACE_1(tan)
INPLACE_1(sinh) INPLACE_1(cosh) INPLACE_1(asin) INPLACE_1(acos) INPLACE_1(atan) INPLACE_1(erf) INPLACE_1(erfc)
INPLACE_1(tanh) INPLACE_1(sigmoid)
