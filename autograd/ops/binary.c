/*
 * binary.c: arithmetic on two tensors that broadcast, element by element.
 */
#include "elementwise.h"

/* What each of the two gradients is of (see RULE), and the gradient; with its kernel k_ident. */
#define BINARY(ident, Node, formula, typing_, of_a, ga, of_b, gb, kind_a, kind_b)        \
    RULE(ident##_rule_a, of_a, ga)                                                       \
    RULE(ident##_rule_b, of_b, gb)                                                       \
    RG_OP(ident, .doc = formula, .node = Node "Backward0", .n_in = 2, .typing = typing_, \
          .inplace = true, .shape = rgi_shape_broadcast, .kernel = &k_##ident,           \
          .grad = { RULED(ident##_rule_a), RULED(ident##_rule_b) },                      \
          SAMPLES_2(kind_a, kind_b, NULL))

/* ---- add: a + b ------------------------------------------------------------------ */
BINARY(add, "Add", "a + b", RG_PROMOTED, g, g, g, g, "", "");
FUNCTIONS_2(add)

/* ---- sub: a - b; gb = -g --------------------------------------------------------- */
BINARY(sub, "Sub", "a - b", RG_PROMOTED, g, g, g, rg_neg(g), "", "");

static bool sub_allows(const char *op, rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, op) || !rgi_check(b, op))
        return false;
    if (RG_LIKELY(a->dtype != RG_BOOL && b->dtype != RG_BOOL))
        return true;
    RG_FAIL_IF(a->dtype == b->dtype, op,
               "Subtraction, the `-` operator, with two bool tensors is not "
               "supported. Use the `^` or `logical_xor()` operator instead.");
    return rgi_fail(
        RG_RUNTIME_ERROR, op,
        "Subtraction, the `-` operator, with a bool tensor is not supported. "
        "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
}

#define SUB(name, apply)                                                      \
    rg_tensor *(rg_##name)(rg_tensor * a, rg_tensor * b) {                    \
        return sub_allows(#name, a, b) ? apply(sub, RG_NO_ATTR, a, b) : NULL; \
    }
SUB(sub, RG_APPLY)
SUB(sub_, RG_APPLY_)

/* ---- add_alpha: a + alpha b; gb = alpha g. sub_alpha is the same with -alpha ----- */
/* dtype: of alpha */
struct add_alpha_attr {
    const char *node;
    double alpha;
    int64_t integer;
    rg_dtype dtype;
};
static bool add_alpha_forward(rg_call *c) {
    const struct add_alpha_attr *a = RG_ATTR(c, add_alpha);
    rg_dtype result = c->in[0]->dtype;
    RG_FAIL_IF(a->dtype == RG_BOOL && result != RG_BOOL, "add",
               "Boolean alpha only supported for Boolean "
               "results.");
    RG_FAIL_IF(rgi_is_float(a->dtype) && !rgi_is_float(result), "add",
               "For integral input tensors, argument "
               "alpha must not be a floating point number.");
    double numbers[3] = { a->alpha };
    if (result == RG_INT64)
        memcpy(numbers, &a->integer, sizeof a->integer);
    return k_run_with(&k_add_alpha, c->out[0], c->in, numbers);
}
RULE(add_alpha_rule_b, g, rg_mul(g, RG_ATTR(s, add_alpha)->alpha))
RG_OP(add_alpha, .doc = "a + alpha b", .n_in = 2, RG_NAMED(add_alpha), .typing = RG_PROMOTED,
      .inplace = true, .shape = rgi_shape_broadcast, .forward = add_alpha_forward,
      .grad = { RULED(add_rule_a), RULED(add_alpha_rule_b) },
      SAMPLES_2("", "", RG_A(add_alpha, "AddBackward0", 2.5, 2, RG_FLOAT64)));

static rg_tensor *add_multiple(const char *op, rg_tensor *a, rg_tensor *b, rg_tensor *alpha,
                               bool minus, bool inplace) {
    if (!rgi_check(alpha, op))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, alpha->numel != 1 || alpha->history, op,
                  "argument 'alpha' must be Number, "
                  "not Tensor");
    double v = rgi_load_f64(alpha->data, alpha->dtype);
    uint64_t i = (uint64_t)rgi_load_i64(alpha->data, alpha->dtype);
    const struct add_alpha_attr attr = { minus ? "SubBackward0" : "AddBackward0", minus ? -v : v,
                                         (int64_t)(minus ? -i : i), alpha->dtype };
    return inplace ? RG_APPLY_(add_alpha, &attr, a, b) : RG_APPLY(add_alpha, &attr, a, b);
}

#define ADD_ALPHA(name, op, minus, inplace)                                                   \
    rg_tensor *(rg_##name)(rg_tensor * a, rg_tensor * b, rg_tensor * alpha) {                 \
        RG_AS(op);                                                                            \
        return !minus || sub_allows(op, a, b) ? add_multiple(op, a, b, alpha, minus, inplace) \
                                              : NULL;                                         \
    }
ADD_ALPHA(add_alpha, "add", false, false)
ADD_ALPHA(sub_alpha, "sub", true, false)
ADD_ALPHA(add_alpha_, "add_", false, true)

/* ---- mul: a b; ga = g b, gb = g a. div: a / b; ga = g / b, gb = -g (a / b) / b ---- */
BINARY(mul, "Mul", "a b", RG_PROMOTED, b, rg_mul(g, b), a, rg_mul(g, a), "", "");
FUNCTIONS_2(mul)

BINARY(div, "Div", "a / b", RG_FLOATED, b, rg_div(g, b), ab,
       rg_mul(rg_neg(g), rg_div(rg_div(a, b), b)), "", "z");
FUNCTIONS_2(div)

RG_OP(over, .doc = "a / b", .node = "DivBackward1", .n_in = 2, .typing = RG_FLOATED,
      .inplace = true, .shape = rgi_shape_broadcast, .kernel = &k_div,
      .grad = { RULED(div_rule_a), RULED(div_rule_b) },
      SAMPLES_2("", "z", NULL)); /* as torch's own code divides by a number */

/* ---- with rounding: zero gradients, or none -------------------------------------- */

/* Not of bool, and no division of integers by 0. */
static bool divided_forward(rg_call *c, const rg_kernel *kernel) {
    RG_FAIL_IF(c->in[0]->dtype == RG_INT64 && c->out[0]->numel && k_has_zero(c->in[1]), c->op->name,
               "ZeroDivisionError");
    return k_run_with(kernel, c->out[0], c->in, NULL);
}

/* cpu: torch's kernel. */
#define DIVIDED(ident, kernel, formula, cpu, ...)                                   \
    static bool ident##_shape(rg_call *c) { return elementwise_broadcast(c, cpu); } \
    static bool ident##_forward(rg_call *c) { return divided_forward(c, &kernel); } \
    RG_OP(ident, .doc = formula, .n_in = 2, .typing = RG_PROMOTED, .inplace = true, \
          .shape = ident##_shape, .forward = ident##_forward, __VA_ARGS__)
RULE(flat_rule, g, rg_zeros_like(g))
DIVIDED(div_floor, k_div_floor, "floor(a / b)", "div_floor_cpu", .node = "DivBackward2",
        .grad = { RULED(flat_rule), RULED(flat_rule) }, SAMPLES_2("", "z", NULL));
FUNCTION_2(div_floor)

DIVIDED(div_trunc, k_div_trunc, "trunc(a / b)", "div_trunc_cpu", .node = "DivBackward2",
        .grad = { RULED(flat_rule), RULED(flat_rule) }, SAMPLES_2("", "z", NULL));
FUNCTION_2(div_trunc)

DIVIDED(
    floor_divide, k_div_floor, "floor(a / b)", "div_floor_cpu", .node = "NotImplemented",
    .no_grad =
        "a quotient rounded down is flat almost everywhere, and torch refuses it too; rg_div_floor gives "
        "zeros",
    SAMPLES_2("", "z", NULL));
FUNCTIONS_2(floor_divide)

/* ---- what torch names, and differentiates, by whether a number stands for b, for neither, or for a ---- */
enum form { BY_NUMBER, OF_TENSORS, OF_NUMBER };
/* number: b, if it is one */
struct formed_attr {
    const char *node;
    enum form form;
    double number;
};

static struct formed_attr formed(const char *const nodes[], const rg_tensor *a,
                                 const rg_tensor *b) {
    enum form form = elementwise_number(b)   ? BY_NUMBER
                     : elementwise_number(a) ? OF_NUMBER
                                             : OF_TENSORS;
    return (struct formed_attr){ nodes[form], form,
                                 form == BY_NUMBER ? rgi_load_f64(b->data, b->dtype) : 0 };
}

#define FORMED_FUNCTION(name, ident, apply)                 \
    rg_tensor *(rg_##name)(rg_tensor * a, rg_tensor * b) {  \
        struct formed_attr f = formed(ident##_nodes, a, b); \
        return apply(ident, &f, a, b);                      \
    }
#define FORMED_FUNCTIONS(ident, ...)                            \
    static const char *const ident##_nodes[] = { __VA_ARGS__ }; \
    FORMED_FUNCTION(ident, ident, RG_APPLY)                     \
    FORMED_FUNCTION(ident##_, ident, RG_APPLY_)
#define FORMED_A(node) RG_A(formed, node, OF_TENSORS, 0)

/* ---- remainder: a - b floor(a / b), fmod: a - b trunc(a / b); ga = g, gb = -g (that quotient) ---- */
static rg_tensor *remainder_rule_b(const rg_step *s, rg_tensor *g) {
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, RG_ATTR(s, formed)->form == OF_NUMBER, "remainder",
                  "the derivative is "
                  "not implemented: torch has none for a number's remainder");
    return rg_mul(rg_neg(g), rg_div_floor(rgi_saved(s, 0), rgi_saved(s, 1)));
}
DIVIDED(remainder, k_remainder, "a - b floor(a / b)", "remainder_cpu", RG_NAMED(formed),
        .grad = { RULED(add_rule_a), RG_RULE(RG_IN(0) | RG_IN(1), remainder_rule_b) },
        SAMPLES_2("z", "z", FORMED_A("RemainderBackward1")));
FORMED_FUNCTIONS(remainder, "RemainderBackward0", "RemainderBackward1", "NotImplemented")

RULE(fmod_rule_b, ab, rg_mul(rg_neg(g), rg_div_trunc(a, b)))
DIVIDED(fmod, k_fmod, "a - b trunc(a / b)", "fmod_cpu", RG_NAMED(formed),
        .grad = { RULED(add_rule_a), RULED(fmod_rule_b) },
        SAMPLES_2("z", "z", FORMED_A("FmodBackward1")));
FORMED_FUNCTIONS(fmod, "FmodBackward0", "FmodBackward1", "FmodBackward1")

/* ---- pow: a^b; ga = g b a^(b-1), gb = g y ln a; 0 where b == 0, and where a == 0 and b >= 0 ---- */
static bool pow_shape(rg_call *c) {
    const struct formed_attr *f = RG_ATTR(c, formed);
    if (!elementwise_broadcast(c, f->form == BY_NUMBER ? NULL : "pow"))
        return false;
    RG_FAIL_IF(c->in[0]->dtype == RG_INT64 && f->form == BY_NUMBER && f->number < 0, "pow",
               "Integers to "
               "negative integer powers are not allowed.");
    return true;
}

static bool pow_forward(rg_call *c) {
    static const struct {
        double exponent;
        const rg_kernel *kernel;
    } short_ways[] = { { 2, &k_square },   { 3, &k_cube },        { 0.5, &k_sqrt },
                       { -0.5, &k_rsqrt }, { -1, &k_reciprocal }, { -2, &k_reciprocal_square } };
    const struct formed_attr *f = RG_ATTR(c, formed);
    const rg_kernel *kernel = &k_pow;
    for (int i = 0;
         i < RG_COUNT(short_ways) && f->form == BY_NUMBER && rgi_is_float(c->out[0]->dtype); i++)
        if (f->number == short_ways[i].exponent)
            kernel = short_ways[i].kernel;
    if (f->form == BY_NUMBER && f->number == 1)
        rgi_copy_elements(c->out[0], c->in[0]);
    else
        return k_run_with(kernel, c->out[0], c->in, NULL);
    return true;
}

static rg_tensor *pow_rule_a(const rg_step *s, rg_tensor *g) {
    const struct formed_attr *f = RG_ATTR(s, formed);
    rg_tensor *a = rgi_saved(s, 0), *b = f->form == BY_NUMBER ? RG_NONE : rgi_saved(s, 1);
    if (b != RG_NONE)
        return rg_where(rg_eq(b, 0), 0, rg_mul(g, rg_mul(rg_pow(a, rg_sub(b, 1)), b)));
    if (f->number == 0)
        return a ? rg_zeros_like(g) : NULL;
    return rg_mul(g, rg_mul(rg_pow(a, f->number - 1), f->number));
}

#define OF_aby                                                                             \
    RG_IN(0) | RG_IN(1) | RG_OUTPUT, rg_tensor *a = rgi_saved(s, 0), *b = rgi_saved(s, 1), \
                                               *y = rgi_saved_output(s);
RULE(pow_rule_b, aby,
     rg_where(rg_logical_and(rg_eq(a, 0), rg_ge(b, 0)), 0, rg_mul(g, rg_mul(y, rg_log(a)))))
RG_OP(pow, .doc = "a^b", .n_in = 2, RG_NAMED(formed), .typing = RG_PROMOTED, .inplace = true,
      RG_MADE(pow), .grad = { RG_RULE(RG_IN(0) | RG_IN(1), pow_rule_a), RULED(pow_rule_b) },
      SAMPLES_2("p", "", FORMED_A("PowBackward1")));
FORMED_FUNCTIONS(pow, "PowBackward0", "PowBackward1", "PowBackward2")

/* ---- atan2: the angle of (b, a); ga = g b / (a^2 + b^2), gb = -g a / (a^2 + b^2); 0 at (0, 0) ---- */
static rg_tensor *over_square(rg_tensor *part, rg_tensor *a, rg_tensor *b) {
    rg_tensor *r = rg_add(rg_square(a), rg_square(b));
    return rg_mul(part, rg_masked_fill(rg_reciprocal(r), rg_eq(r, 0), 0));
}
BINARY(atan2, "Atan2", "the angle of the point (b, a)", RG_FLOATED, ab,
       over_square(rg_mul(g, b), a, b), ab, over_square(rg_mul(g, rg_neg(a)), a, b), "z", "z");
FUNCTIONS_2(atan2)

/* ---- maximum, minimum: NaN if either is; g to the one chosen, half to each of two that are equal ---- */
static rg_tensor *shared(rg_tensor *g, rg_tensor *equal, rg_tensor *not_chosen) {
    return rg_masked_fill(rg_where(equal, rg_div(g, 2), g), not_chosen, 0);
}
BINARY(maximum, "Maximum", "a > b ? a : b; NaN if either is", RG_PROMOTED, ab,
       shared(g, rg_eq(a, b), rg_gt(b, a)), ab, shared(g, rg_eq(a, b), rg_gt(a, b)), "", "");
BINARY(minimum, "Minimum", "a < b ? a : b; NaN if either is", RG_PROMOTED, ab,
       shared(g, rg_eq(a, b), rg_lt(b, a)), ab, shared(g, rg_eq(a, b), rg_lt(a, b)), "", "");
FUNCTION_2(maximum)
FUNCTION_2(minimum)

/* ---- fmax, fmin: the other where one is NaN; all of g to a where they are equal ---- */
BINARY(fmax, "Fmax", "a > b ? a : b; the other where one is NaN", RG_PROMOTED, ab,
       rg_where(rg_logical_or(rg_ge(a, b), rg_isnan(b)), g, 0), ab,
       rg_where(rg_logical_or(rg_ge(a, b), rg_isnan(b)), 0, g), "", "");
BINARY(fmin, "Fmin", "a < b ? a : b; the other where one is NaN", RG_PROMOTED, ab,
       rg_where(rg_logical_or(rg_le(a, b), rg_isnan(b)), g, 0), ab,
       rg_where(rg_logical_or(rg_le(a, b), rg_isnan(b)), 0, g), "", "");
FUNCTION_2(fmax)
FUNCTION_2(fmin)
