/*
 * binary.c: arithmetic on two tensors that broadcast, element by element.
 */
#include "elementwise.h"

#define BINARY(ident, formula, typing_, shape_, ...)                                            \
    RG_OP(ident, .doc = formula, .n_in = 2, .typing = typing_, .inplace = true, .shape = shape_, __VA_ARGS__)
#define BINARY_FUNCTIONS(ident)                                                                 \
    rg_tensor *(rg_##ident)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(ident, RG_NO_ATTR, a, b); }
#define INPLACE_2(ident)                                                                        \
    rg_tensor *(rg_##ident##_)(rg_tensor *x, rg_tensor *b) { return RG_APPLY_(ident, RG_NO_ATTR, x, b); }

/* ---- add: a + b ---------------------------------------------------------------------- */

static rg_tensor *add_rule(const rg_step *s, rg_tensor *g) { return (void)s, g; }

BINARY(add, "a + b", RG_PROMOTED, rg_shape_broadcast, .node = "AddBackward0", .kernel = k_add,
       .grad = { RG_RULE(0, add_rule), RG_RULE(0, add_rule) }, SAMPLES_2("", ""));
BINARY_FUNCTIONS(add)
INPLACE_2(add)

/* ---- sub: a - b; gb = -g ----------------------------------------------------------------- */

static bool sub_allows(const char *op, rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(a, op) || !rg_check(b, op)) return false;
    if (RG_LIKELY(a->dtype != RG_BOOL && b->dtype != RG_BOOL)) return true;
    if (a->dtype == b->dtype)
        return rg_fail(RG_RUNTIME_ERROR, op, "Subtraction, the `-` operator, with two bool tensors is not supported. "
                       "Use the `^` or `logical_xor()` operator instead.");
    return rg_fail(RG_RUNTIME_ERROR, op, "Subtraction, the `-` operator, with a bool tensor is not supported. "
                   "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
}

static rg_tensor *sub_rule_b(const rg_step *s, rg_tensor *g) { return (void)s, rg_neg(g); }

BINARY(sub, "a - b", RG_PROMOTED, rg_shape_broadcast, .node = "SubBackward0", .kernel = k_sub,
       .grad = { RG_RULE(0, add_rule), RG_RULE(0, sub_rule_b) }, SAMPLES_2("", ""));

rg_tensor *(rg_sub)(rg_tensor *a, rg_tensor *b) { return sub_allows("sub", a, b) ? RG_APPLY(sub, RG_NO_ATTR, a, b) : NULL; }
rg_tensor *(rg_sub_)(rg_tensor *x, rg_tensor *b) { return sub_allows("sub_", x, b) ? RG_APPLY_(sub, RG_NO_ATTR, x, b) : NULL; }

/* ---- add_alpha: a + alpha b; gb = alpha g. sub_alpha is the same with -alpha ----------------- */

struct add_alpha_attr { double alpha; int64_t integer; rg_dtype dtype; const char *node; };   /* dtype: of alpha */

static const char *add_alpha_node(const void *attr) { return ((const struct add_alpha_attr *)attr)->node; }

static bool add_alpha_forward(rg_call *c)
{
    const struct add_alpha_attr *a = RG_ATTR(c, add_alpha);
    rg_dtype result = c->in[0]->dtype;
    if (a->dtype == RG_BOOL && result != RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "add", "Boolean alpha only supported for Boolean results.");
    if (rg_is_float(a->dtype) && !rg_is_float(result))
        return rg_fail(RG_RUNTIME_ERROR, "add", "For integral input tensors, argument alpha must not be a floating point number.");
    k_add_alpha(c->out[0], c->in, a->alpha, a->integer);
    return true;
}

static rg_tensor *add_alpha_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, RG_ATTR(s, add_alpha)->alpha); }

#define ALPHA_A RG_A(add_alpha, 2.5, 2, RG_FLOAT64, "AddBackward0")
BINARY(add_alpha, "a + alpha b", RG_PROMOTED, rg_shape_broadcast, .node_of = add_alpha_node, .attr_size = sizeof(struct add_alpha_attr), .forward = add_alpha_forward,
       .grad = { RG_RULE(0, add_rule), RG_RULE(0, add_alpha_rule_b) },
       RG_SAMPLES({ "(2,3) (2,3)", ALPHA_A }, { "(2,1,3) (4,1)", ALPHA_A }, { "() (2)", ALPHA_A }, { "(0,3) (3)", ALPHA_A }));

static bool alpha_of(const char *op, rg_tensor *alpha, bool minus, struct add_alpha_attr *out)
{
    if (!rg_check(alpha, op)) return false;
    if (alpha->numel != 1 || alpha->history)
        return rg_fail(RG_TYPE_ERROR, op, "argument 'alpha' must be Number, not Tensor");
    double v = rg_load_f64(alpha->data, alpha->dtype);
    uint64_t i = (uint64_t)rg_load_i64(alpha->data, alpha->dtype);
    *out = (struct add_alpha_attr){ minus ? -v : v, (int64_t)(minus ? -i : i), alpha->dtype, minus ? "SubBackward0" : "AddBackward0" };
    return true;
}

rg_tensor *(rg_add_alpha)(rg_tensor *a, rg_tensor *b, rg_tensor *alpha)
{
    struct add_alpha_attr attr;
    return alpha_of("add", alpha, false, &attr) ? RG_APPLY(add_alpha, &attr, a, b) : NULL;
}

rg_tensor *(rg_sub_alpha)(rg_tensor *a, rg_tensor *b, rg_tensor *alpha)
{
    struct add_alpha_attr attr;
    return sub_allows("sub", a, b) && alpha_of("sub", alpha, true, &attr) ? RG_APPLY(add_alpha, &attr, a, b) : NULL;
}

rg_tensor *(rg_add_alpha_)(rg_tensor *x, rg_tensor *b, rg_tensor *alpha)
{
    struct add_alpha_attr attr;
    return alpha_of("add_", alpha, false, &attr) ? RG_APPLY_(add_alpha, &attr, x, b) : NULL;
}

/* ---- mul: a b; ga = g b, gb = g a ------------------------------------------------------------ */

static rg_tensor *mul_rule_a(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_saved(s, 1)); }
static rg_tensor *mul_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_saved(s, 0)); }

BINARY(mul, "a b", RG_PROMOTED, rg_shape_broadcast, .node = "MulBackward0", .kernel = k_mul,
       .grad = { RG_RULE(RG_IN(1), mul_rule_a), RG_RULE(RG_IN(0), mul_rule_b) }, SAMPLES_2("", ""));
BINARY_FUNCTIONS(mul)
INPLACE_2(mul)

/* ---- div: a / b; ga = g / b, gb = -g (a / b) / b ------------------------------------------------- */

static rg_tensor *div_rule_a(const rg_step *s, rg_tensor *g) { return rg_div(g, rg_saved(s, 1)); }

static rg_tensor *div_rule_b(const rg_step *s, rg_tensor *g)
{
    rg_tensor *b = rg_saved(s, 1);
    return rg_mul(rg_neg(g), rg_div(rg_div(rg_saved(s, 0), b), b));
}

#define DIV_ROW(ident, node_)                                                                   \
    BINARY(ident, "a / b", RG_FLOATED, rg_shape_broadcast, .node = node_, .kernel = k_div,      \
           .grad = { RG_RULE(RG_IN(1), div_rule_a), RG_RULE(RG_IN(0) | RG_IN(1), div_rule_b) }, SAMPLES_2("", "z"));
DIV_ROW(div, "DivBackward0")
DIV_ROW(over, "DivBackward1")                           /* as torch's own code divides by a number */
BINARY_FUNCTIONS(div)
INPLACE_2(div)

/* ---- with rounding: zero gradients, or none ---------------------------------------------------------- */

/* Not of bool, and no division of integers by 0. cpu: torch's kernel. */
static bool divided_shape(rg_call *c, const char *cpu)
{
    if (!rg_shape_broadcast(c)) return false;
    return c->in[0]->dtype != RG_BOOL || rg_fail(RG_NOT_IMPLEMENTED, c->op->name, "\"%s\" not implemented for 'Bool'", cpu);
}

static bool divided_forward(rg_call *c, rg_kernel *kernel)
{
    if (c->in[0]->dtype == RG_INT64 && c->out[0]->numel && k_has_zero(c->in[1]))
        return rg_fail(RG_RUNTIME_ERROR, c->op->name, "ZeroDivisionError");
    kernel(c->out[0], c->in);
    return true;
}

#define DIVIDED(ident, cpu)                                                                     \
    static bool ident##_shape(rg_call *c)   { return divided_shape(c, cpu); }                   \
    static bool ident##_forward(rg_call *c) { return divided_forward(c, k_##ident); }
DIVIDED(div_floor, "div_floor_cpu")
DIVIDED(div_trunc, "div_trunc_cpu")
DIVIDED(remainder, "remainder_cpu")
DIVIDED(fmod, "fmod_cpu")
static rg_tensor *flat_rule(const rg_step *s, rg_tensor *g) { return (void)s, rg_zeros_like(g); }

BINARY(div_floor, "floor(a / b)", RG_PROMOTED, div_floor_shape, .node = "DivBackward2", .forward = div_floor_forward,
       .grad = { RG_RULE(0, flat_rule), RG_RULE(0, flat_rule) }, SAMPLES_2("", "z"));
BINARY_FUNCTIONS(div_floor)

BINARY(div_trunc, "trunc(a / b)", RG_PROMOTED, div_trunc_shape, .node = "DivBackward2", .forward = div_trunc_forward,
       .grad = { RG_RULE(0, flat_rule), RG_RULE(0, flat_rule) }, SAMPLES_2("", "z"));
BINARY_FUNCTIONS(div_trunc)

BINARY(floor_divide, "floor(a / b)", RG_PROMOTED, div_floor_shape, .node = "NotImplemented", .forward = div_floor_forward,
       .no_grad = "a quotient rounded down is flat almost everywhere, and torch refuses it too; rg_div_floor gives zeros",
       SAMPLES_2("", "z"));
BINARY_FUNCTIONS(floor_divide)
INPLACE_2(floor_divide)

/* ---- remainder: a - b floor(a / b), fmod: a - b trunc(a / b); ga = g, gb = -g (that quotient) ------------ */

enum remainder_form { BY_NUMBER, OF_TENSORS, OF_NUMBER };      /* b is a number; neither; a is */
struct remainder_attr { enum remainder_form form; };
#define fmod_attr remainder_attr

static const char *remainder_node(const void *attr)
{
    static const char *const names[] = { "RemainderBackward0", "RemainderBackward1", "NotImplemented" };
    return names[((const struct remainder_attr *)attr)->form];
}

static const char *fmod_node(const void *attr)
{
    return ((const struct remainder_attr *)attr)->form == BY_NUMBER ? "FmodBackward0" : "FmodBackward1";
}

static rg_tensor *remainder_rule_b(const rg_step *s, rg_tensor *g)
{
    if (RG_ATTR(s, remainder)->form == OF_NUMBER)
        return rg_fail(RG_NOT_IMPLEMENTED, "remainder", "the derivative is not implemented: torch has none for a number's remainder");
    return rg_mul(rg_neg(g), rg_div_floor(rg_saved(s, 0), rg_saved(s, 1)));
}

static rg_tensor *fmod_rule_b(const rg_step *s, rg_tensor *g)
{
    return rg_mul(rg_neg(g), rg_div_trunc(rg_saved(s, 0), rg_saved(s, 1)));
}

#define REMAINDER_A RG_A(remainder, OF_TENSORS)
#define REMAINDER_SAMPLES RG_SAMPLES({ "(2,3) p(2,3)", REMAINDER_A }, { "z(2,1,3) z(4,1)", REMAINDER_A }, { "() p()", REMAINDER_A }, \
                                     { "(0,3) (3)", REMAINDER_A })
BINARY(remainder, "a - b floor(a / b)", RG_PROMOTED, remainder_shape, .node_of = remainder_node, .attr_size = sizeof(struct remainder_attr), .forward = remainder_forward,
       .grad = { RG_RULE(0, add_rule), RG_RULE(RG_IN(0) | RG_IN(1), remainder_rule_b) }, REMAINDER_SAMPLES);
BINARY(fmod, "a - b trunc(a / b)", RG_PROMOTED, fmod_shape, .node_of = fmod_node, .attr_size = sizeof(struct fmod_attr), .forward = fmod_forward,
       .grad = { RG_RULE(0, add_rule), RG_RULE(RG_IN(0) | RG_IN(1), fmod_rule_b) }, REMAINDER_SAMPLES);

#define REMAINDER_OF(a, b) \
    (&(struct remainder_attr){ elementwise_number(b) ? BY_NUMBER : elementwise_number(a) ? OF_NUMBER : OF_TENSORS })
rg_tensor *(rg_remainder)(rg_tensor *a, rg_tensor *b)  { return RG_APPLY(remainder, REMAINDER_OF(a, b), a, b); }
rg_tensor *(rg_remainder_)(rg_tensor *x, rg_tensor *b) { return RG_APPLY_(remainder, REMAINDER_OF(x, b), x, b); }
rg_tensor *(rg_fmod)(rg_tensor *a, rg_tensor *b)       { return RG_APPLY(fmod, REMAINDER_OF(a, b), a, b); }
rg_tensor *(rg_fmod_)(rg_tensor *x, rg_tensor *b)      { return RG_APPLY_(fmod, REMAINDER_OF(x, b), x, b); }

/* ---- pow: a^b; ga = g b a^(b-1), gb = g y ln a; 0 where b == 0, and where a == 0 and b >= 0 ------------------ */

enum pow_form { POW_NUMBER, POW_TENSORS, POW_OF_NUMBER };       /* the exponent is a number; neither; the base is */
struct pow_attr { enum pow_form form; double exponent; };

static const char *pow_node(const void *attr)
{
    static const char *const names[] = { "PowBackward0", "PowBackward1", "PowBackward2" };
    return names[((const struct pow_attr *)attr)->form];
}

static bool pow_shape(rg_call *c)
{
    const struct pow_attr *p = RG_ATTR(c, pow);
    if (!rg_shape_broadcast(c)) return false;
    if (c->in[0]->dtype == RG_BOOL && p->form != POW_NUMBER)
        return rg_fail(RG_NOT_IMPLEMENTED, "pow", "\"pow\" not implemented for 'Bool'");
    if (c->in[0]->dtype == RG_INT64 && p->form == POW_NUMBER && p->exponent < 0)
        return rg_fail(RG_RUNTIME_ERROR, "pow", "Integers to negative integer powers are not allowed.");
    return true;
}

static bool pow_forward(rg_call *c)
{
    const struct pow_attr *p = RG_ATTR(c, pow);
    rg_kernel_with *kernel = NULL;
    if (p->form == POW_NUMBER && rg_is_float(c->out[0]->dtype))
        kernel = p->exponent == 2 ? k_square : p->exponent == 3 ? k_cube : p->exponent == 0.5 ? k_sqrt
               : p->exponent == -0.5 ? k_rsqrt : p->exponent == -1 ? k_reciprocal
               : p->exponent == -2 ? k_reciprocal_square : NULL;
    if (kernel) kernel(c->out[0], c->in, NULL);
    else k_pow(c->out[0], c->in);
    return true;
}

static rg_tensor *pow_rule_a(const rg_step *s, rg_tensor *g)
{
    const struct pow_attr *p = RG_ATTR(s, pow);
    rg_tensor *a = rg_saved(s, 0), *b = p->form == POW_NUMBER ? RG_NONE : rg_saved(s, 1);
    if (b != RG_NONE) return rg_where(rg_eq(b, 0), 0, rg_mul(g, rg_mul(rg_pow(a, rg_sub(b, 1)), b)));
    if (p->exponent == 0) return a ? rg_zeros_like(g) : NULL;
    return rg_mul(g, rg_mul(rg_pow(a, p->exponent - 1), p->exponent));
}

static rg_tensor *pow_rule_b(const rg_step *s, rg_tensor *g)
{
    rg_tensor *a = rg_saved(s, 0), *b = rg_saved(s, 1);
    return rg_where(rg_logical_and(rg_eq(a, 0), rg_ge(b, 0)), 0, rg_mul(g, rg_mul(rg_saved_output(s), rg_log(a))));
}

#define POW_A RG_A(pow, POW_TENSORS, 0)
BINARY(pow, "a^b", RG_PROMOTED, pow_shape, .node_of = pow_node, .attr_size = sizeof(struct pow_attr), .forward = pow_forward,
       .grad = { RG_RULE(RG_IN(0) | RG_IN(1), pow_rule_a), RG_RULE(RG_IN(0) | RG_IN(1) | RG_OUTPUT, pow_rule_b) },
       RG_SAMPLES({ "p(2,3) (2,3)", POW_A }, { "p(2,1,3) (4,1)", POW_A }, { "p(3) (2,3)", POW_A }, { "p() ()", POW_A },
                  { "p(0,3) (3)", POW_A }));

static struct pow_attr pow_of(const rg_tensor *a, const rg_tensor *b)
{
    if (elementwise_number(b)) return (struct pow_attr){ POW_NUMBER, rg_load_f64(b->data, b->dtype) };
    return (struct pow_attr){ elementwise_number(a) ? POW_OF_NUMBER : POW_TENSORS, 0 };
}

rg_tensor *(rg_pow)(rg_tensor *a, rg_tensor *b)  { struct pow_attr p = pow_of(a, b); return RG_APPLY(pow, &p, a, b); }
rg_tensor *(rg_pow_)(rg_tensor *x, rg_tensor *b) { struct pow_attr p = pow_of(x, b); return RG_APPLY_(pow, &p, x, b); }

/* ---- atan2: the angle of (b, a); ga = g b / (a^2 + b^2), gb = -g a / (a^2 + b^2); 0 at (0, 0) -------------------------------- */

static rg_tensor *atan2_part(rg_tensor *g, rg_tensor *part, const rg_step *s)
{
    rg_tensor *r = rg_add(rg_square(rg_saved(s, 0)), rg_square(rg_saved(s, 1)));
    return rg_mul(rg_mul(g, part), rg_masked_fill(rg_reciprocal(r), rg_eq(r, 0), 0));
}
static rg_tensor *atan2_rule_a(const rg_step *s, rg_tensor *g) { return atan2_part(g, rg_saved(s, 1), s); }
static rg_tensor *atan2_rule_b(const rg_step *s, rg_tensor *g) { return atan2_part(g, rg_neg(rg_saved(s, 0)), s); }

BINARY(atan2, "the angle of the point (b, a)", RG_FLOATED, rg_shape_broadcast, .node = "Atan2Backward0", .kernel = k_atan2,
       .grad = { RG_RULE(RG_IN(0) | RG_IN(1), atan2_rule_a), RG_RULE(RG_IN(0) | RG_IN(1), atan2_rule_b) }, SAMPLES_2("z", "z"));
BINARY_FUNCTIONS(atan2)
INPLACE_2(atan2)

/* ---- maximum, minimum: NaN if either is; g to the one chosen, half to each of two that are equal ------------------ */

/* Where it is equal half of g, where `other` is chosen nothing. */
static rg_tensor *extreme_part(rg_tensor *g, rg_tensor *equal, rg_tensor *other)
{
    return rg_masked_fill(rg_where(equal, rg_div(g, 2), g), other, 0);
}

#define EXTREME_RULE(name, mine, beats, other)                                                  \
    static rg_tensor *name(const rg_step *s, rg_tensor *g)                                      \
    {                                                                                           \
        rg_tensor *a = rg_saved(s, mine), *b = rg_saved(s, other);                              \
        return extreme_part(g, rg_eq(a, b), beats(b, a));                                       \
    }
EXTREME_RULE(maximum_rule_a, 0, rg_gt, 1)
EXTREME_RULE(maximum_rule_b, 1, rg_gt, 0)
EXTREME_RULE(minimum_rule_a, 0, rg_lt, 1)
EXTREME_RULE(minimum_rule_b, 1, rg_lt, 0)

#define EXTREME(ident, Node, formula)                                                           \
    BINARY(ident, formula, RG_PROMOTED, rg_shape_broadcast, .node = Node, .kernel = k_##ident,   \
           .grad = { RG_RULE(RG_IN(0) | RG_IN(1), ident##_rule_a), RG_RULE(RG_IN(0) | RG_IN(1), ident##_rule_b) }, \
           SAMPLES_2("", "")); \
    BINARY_FUNCTIONS(ident)
EXTREME(maximum, "MaximumBackward0", "a > b ? a : b; NaN if either is")
EXTREME(minimum, "MinimumBackward0", "a < b ? a : b; NaN if either is")

/* ---- fmax, fmin: the other where one is NaN; all of g to a where they are equal --------------------------------------- */

#define FEXTREME_RULES(ident, at_least)                                                         \
    static rg_tensor *ident##_of_a(const rg_step *s)                                            \
    {                                                                                           \
        rg_tensor *a = rg_saved(s, 0), *b = rg_saved(s, 1);                                     \
        return rg_logical_or(at_least(a, b), rg_isnan(b));                                      \
    }                                                                                           \
    static rg_tensor *ident##_rule_a(const rg_step *s, rg_tensor *g) { return rg_where(ident##_of_a(s), g, 0); } \
    static rg_tensor *ident##_rule_b(const rg_step *s, rg_tensor *g) { return rg_where(ident##_of_a(s), 0, g); }
FEXTREME_RULES(fmax, rg_ge)
FEXTREME_RULES(fmin, rg_le)
EXTREME(fmax, "FmaxBackward0", "a > b ? a : b; the other where one is NaN")
EXTREME(fmin, "FminBackward0", "a < b ? a : b; the other where one is NaN")
