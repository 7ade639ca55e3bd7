/*
 * unary.c: functions of one tensor, element by element: signs and roundings, roots and powers,
 * exponentials, trigonometry. (Functions that networks put between their layers are in
 * activation.c.)
 *
 * Most are a row of a table: name, torch's node, formula, the value that the derivative reads (x,
 * y, or only g), and the gradient.
 */
#include "elementwise.h"

#include <float.h>

/* A gradient in a row names g, x or y: VALUE_ declares it, NEEDS_ says what to keep for it. */
#define NEEDS_g 0
#define NEEDS_x RG_IN(0)
#define NEEDS_y RG_OUTPUT
#define VALUE_g (void)s
#define VALUE_x rg_tensor *x = rgi_saved(s, 0)
#define VALUE_y rg_tensor *y = rgi_saved_output(s)

#define UNARY_RULE(ident, value, gradient)                           \
    static rg_tensor *ident##_rule(const rg_step *s, rg_tensor *g) { \
        VALUE_##value;                                               \
        return gradient;                                             \
    }

/* UNARY_OP makes the row of an op, with the kernel k_ident, and the functions rg_ident and
 * rg_ident_. */
#define UNARY_OP(ident, Node, formula, value, ...)                                              \
    RG_OP(ident, .doc = formula, .node = Node "Backward0", .n_in = 1, RG_ELEMENTWISE,          \
          .kernel = &k_##ident, .grad = { RG_RULE(NEEDS_##value, ident##_rule) }, __VA_ARGS__); \
    rg_tensor *rg_##ident(rg_tensor *x) { return RG_APPLY(ident, RG_NO_ATTR, x); }              \
    rg_tensor *rg_##ident##_(rg_tensor *x) { return RG_APPLY_(ident, RG_NO_ATTR, x); }

/* ---- functions that keep an integer an integer --------------------------------- */

static bool neg_shape(rg_call *c) {
    RG_FAIL_IF(
        c->in[0]->dtype == RG_BOOL, "neg",
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead.");
    return rgi_shape_same(c);
}

static bool abs_shape(rg_call *c) { return elementwise_of_numbers(c, "abs_cpu"); }
static bool floor_shape(rg_call *c) { return elementwise_of_numbers(c, "floor_vml_cpu"); }
static bool ceil_shape(rg_call *c) { return elementwise_of_numbers(c, "ceil_vml_cpu"); }
static bool round_shape(rg_call *c) { return elementwise_of_numbers(c, "round_vml_cpu"); }
static bool trunc_shape(rg_call *c) { return elementwise_of_numbers(c, "trunc_vml_cpu"); }
static bool frac_shape(rg_call *c) { return elementwise_of_floats(c, "frac_cpu"); }

#define NUMBERS(ident, Node, formula, shape_, value, gradient, kind) \
    UNARY_RULE(ident, value, gradient)                               \
    UNARY_OP(ident, Node, formula, value, .shape = shape_, SAMPLES_1(kind, NULL))

/* The columns of a table stay as they are. */
/* clang-format off */
NUMBERS(neg,   "Neg",   "-x",                     neg_shape,      g, rg_mul(g, -1),         "")
NUMBERS(abs,   "Abs",   "|x|",                    abs_shape,      x, rg_mul(g, rg_sign(x)), "z")
NUMBERS(sign,  "Sign",  "-1, 0 or 1",             rgi_shape_same, g, rg_zeros_like(g),      "z")
NUMBERS(floor, "Floor", "the integer below x",    floor_shape,    g, rg_zeros_like(g),      "z")
NUMBERS(ceil,  "Ceil",  "the integer above x",    ceil_shape,     g, rg_zeros_like(g),      "z")
NUMBERS(round, "Round", "x, rounded to even",     round_shape,    g, rg_zeros_like(g),      "z")
NUMBERS(trunc, "Trunc", "x without its fraction", trunc_shape,    g, rg_zeros_like(g),      "z")
NUMBERS(frac,  "Frac",  "x - trunc(x)",           frac_shape,     g, g,                     "z")
/* clang-format on */

/* ---- square: x^2; gx = 2 g x. torch calls it a power --------------------------- */

/* rg_square makes an integer of a bool, which rg_square_ can't. */
static bool square_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->dtype == RG_BOOL, "square_",
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
    return x->dtype == RG_BOOL ? rg_to(x, RG_INT64) : RG_APPLY(square, RG_NO_ATTR, x);
}

rg_tensor *rg_square_(rg_tensor *x) { return RG_APPLY_(square, RG_NO_ATTR, x); }

/* ---- round_decimals: x rounded to 10^-decimals, also for negative decimals; gx = 0 ---- */

struct round_decimals_attr {
    int decimals;
};

static bool round_decimals_shape(rg_call *c) {
    bool whole = RG_ATTR(c, round_decimals)->decimals == 0;
    return elementwise_of_floats(c, whole ? "round_vml_cpu" : "round_cpu");
}

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
      RG_ELEMENTWISE, RG_WITH(round_decimals), RG_MADE(round_decimals),
      .grad = { RG_RULE(0, round_decimals_rule) },
      RG_SAMPLES({ "z(2,3)", RG_A(round_decimals, 0) }, { "z()", RG_A(round_decimals, -1) },
                 { "z(0,3)", RG_A(round_decimals, 1) }));

rg_tensor *(rg_round_decimals)(rg_tensor *x, int decimals) {
    return RG_APPLY(round_decimals, RG_A(round_decimals, decimals), x);
}

/* ---- nan_to_num: x, but k0 for NaN, k1 for infinity, k2 for -infinity; gx = g where x is none of
 *      them, else 0 -------------------------------------------------------------- */

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

/* Returns the numbers, where NaN as a bound stands for the largest that the dtype has. */
static struct nan_to_num_attr nan_to_num_numbers(const rg_tensor *x,
                                                 const rg_nan_to_num_options *o) {
    double most = x && x->dtype == RG_FLOAT32 ? FLT_MAX : DBL_MAX;
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

/* ---- functions that make an integer the default dtype -------------------------- */

static rg_tensor *bell(rg_tensor *x) { return rg_exp(rg_neg(rg_square(x))); }
static rg_tensor *circle(rg_tensor *x) { return rg_rsqrt(rg_sub(1, rg_square(x))); }

#define ERF "2 / sqrt(pi) integral of e^-t^2 from 0 to x"

#define FLOATS(ident, Node, formula, value, gradient, kind)                              \
    UNARY_RULE(ident, value, gradient)                                                   \
    UNARY_OP(ident, Node, formula, value, .typing = RG_FLOATED, .shape = rgi_shape_same, \
             SAMPLES_1(kind, NULL))

/* clang-format off */
FLOATS(exp,        "Exp",        "e^x",          y, rg_mul(g, y),                            "")
FLOATS(exp2,       "Exp2",       "2^x",          y, rg_mul(rg_mul(g, y), M_LN2),             "")
FLOATS(expm1,      "Expm1",      "e^x - 1",      y, rg_mul(g, rg_add(y, 1)),                 "")
FLOATS(log,        "Log",        "ln x",         x, rg_div(g, x),                            "p")
FLOATS(log1p,      "Log1P",      "ln(1 + x)",    x, rg_div(g, rg_add(x, 1)),                 "p")
FLOATS(log2,       "Log2",       "ln x / ln 2",  x, rg_div(g, rg_mul(x, M_LN2)),             "p")
FLOATS(log10,      "Log10",      "ln x / ln 10", x, rg_div(g, rg_mul(x, M_LN10)),            "p")
FLOATS(sqrt,       "Sqrt",       "x^(1/2)",      y, rg_div(g, rg_mul(y, 2)),                 "p")
FLOATS(rsqrt,      "Rsqrt",      "x^(-1/2)",     y, rg_mul(rg_mul(g, -0.5), rg_pow(y, 3)),   "p")
FLOATS(reciprocal, "Reciprocal", "1 / x",        y, rg_mul(rg_neg(g), rg_square(y)),         "z")
FLOATS(sin,        "Sin",        "sin x",        x, rg_mul(g, rg_cos(x)),                    "")
FLOATS(cos,        "Cos",        "cos x",        x, rg_mul(g, rg_neg(rg_sin(x))),            "")
FLOATS(tan,        "Tan",        "tan x",        y, rg_mul(g, rg_add(rg_square(y), 1)),      "s")
FLOATS(sinh,       "Sinh",       "sinh x",       x, rg_mul(g, rg_cosh(x)),                   "")
FLOATS(cosh,       "Cosh",       "cosh x",       x, rg_mul(g, rg_sinh(x)),                   "")
FLOATS(asin,       "Asin",       "asin x",       x, rg_mul(g, circle(x)),                    "s")
FLOATS(acos,       "Acos",       "acos x",       x, rg_mul(g, rg_neg(circle(x))),            "s")
FLOATS(atan,       "Atan",       "atan x",       x, rg_div(g, rg_add(rg_square(x), 1)),      "")
FLOATS(erf,        "Erf",        ERF,            x, rg_mul(rg_mul(bell(x), M_2_SQRTPI), g),  "")
FLOATS(erfc,       "Erfc",       "1 - erf x",    x, rg_mul(rg_mul(bell(x), -M_2_SQRTPI), g), "")
/* clang-format on */

/* ---- tanh; gx = g (1 - y^2) ---------------------------------------------------- */

static rg_tensor *tanh_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_mul(g, rg_sub(1, rg_square(y)));
}

static bool tanh_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_tanh_grad, rgi_saved_output(s), NULL);
}

UNARY_OP(tanh, "Tanh", "tanh x", y, .typing = RG_FLOATED, .shape = rgi_shape_same,
         .fused = tanh_fused, SAMPLES_1("", NULL))

/* ---- sigmoid: 1 / (1 + e^-x); gx = g (1 - y) y --------------------------------- */

static rg_tensor *sigmoid_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_mul(rg_mul(g, rg_sub(1, y)), y);
}

static bool sigmoid_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_sigmoid_grad, rgi_saved_output(s), NULL);
}

UNARY_OP(sigmoid, "Sigmoid", "1 / (1 + e^-x)", y, .typing = RG_FLOATED, .shape = rgi_shape_same,
         .fused = sigmoid_fused, SAMPLES_1("", NULL))
