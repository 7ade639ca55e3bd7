/*
 * ternary.c: functions of three tensors that broadcast: choosing by a mask,
 * bounds, and multiples added; and writing in place.
 */
#include "elementwise.h"

#include <float.h>

/* May the one element of t be written in this dtype? */
static bool ternary_fits(const char *op, const rg_tensor *t, rg_dtype d) {
    double v = rgi_load_f64(t->data, t->dtype);
    bool fits = d == RG_INT64 ? fabs(v) <= 0x1p63
                              : d != RG_FLOAT32 || !(fabs(v) > FLT_MAX) || isinf(v);
    return !rgi_is_float(t->dtype) || fits
           || rgi_fail(RG_RUNTIME_ERROR, op,
                       "value cannot be converted to type %s without "
                       "overflow",
                       d == RG_INT64 ? "int64_t" : "float");
}

#define OF_condition RG_IN(0), rg_tensor *condition = rgi_saved(s, 0);

/* ---- where: condition ? a : b; ga = condition ? g : 0, gb = condition ? 0 : g ---- */
static bool where_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->dtype != RG_BOOL, "where",
               "where expected condition to be a boolean tensor, but got "
               "a tensor with dtype %s",
               rgi_scalar_name(c->in[0]->dtype));
    c->out[0]->dtype = c->in[1]->dtype;
    return rgi_shape_broadcast(c);
}
RULE(where_rule_a, condition, rg_where(condition, g, 0))
RULE(where_rule_b, condition, rg_where(condition, 0, g))
RG_OP(where, .doc = "condition ? a : b", .node = "WhereBackward0", .n_in = 3, .typing = RG_PROMOTED,
      .typed = RG_IN(1) | RG_IN(2), .shape = where_shape, .kernel = &k_where,
      .grad = { RG_NO_RULE, RULED(where_rule_a), RULED(where_rule_b) },
      RG_SAMPLES({ "b(2,3) (2,3) (2,3)", NULL }, { "b(3) (2,1,3) (4,1)", NULL },
                 { "b(2,2) () (2)", NULL }, { "b() () ()", NULL }, { "b(0,1) (3) (0,3)", NULL }));
rg_tensor *(rg_where)(rg_tensor *c, rg_tensor *a, rg_tensor *b) {
    return RG_APPLY(where, RG_NO_ATTR, c, a, b);
}

/* ---- masked_fill: mask ? value : x; gx = mask ? 0 : g, gvalue = mask ? g : 0 ----- */
struct masked_fill_attr {
    const char *node;
    bool inplace;
};

/* torch's names for whether the value is a number. */
#define MASKED_FILL(value, inplace) \
    (&(struct masked_fill_attr){    \
        elementwise_number(value) ? "MaskedFillBackward0" : "MaskedFillBackward1", inplace })

static bool masked_fill_shape(rg_call *c) {
    rg_tensor *mask = c->in[1], *value = c->in[2];
    RG_FAIL_IF(value->ndim, "masked_fill",
               "masked_fill_ only supports a 0-dimensional value tensor, but got "
               "tensor with %d dimension(s).",
               value->ndim);
    RG_FAIL_IF(mask->dtype != RG_BOOL, "masked_fill",
               "masked_fill_ only supports boolean masks, but got mask "
               "with dtype %s",
               rgi_c_name(mask->dtype));
    bool inplace = RG_ATTR(c, masked_fill)->inplace; /* which torch names first */
    return rgi_broadcast_shapes("masked_fill", inplace ? c->in[0] : mask, inplace ? mask : c->in[0],
                                c->out[0]);
}

static bool masked_fill_forward(rg_call *c) {
    return k_run(k_where, c->out[0], c->in[1], c->in[2], c->in[0]);
}

#define OF_mask RG_IN(1), rg_tensor *mask = rgi_saved(s, 1);
RULE(masked_fill_rule_x, mask, rg_masked_fill(g, mask, 0))
RULE(masked_fill_rule_value, mask, rg_sum(rg_where(mask, g, 0)))
#define MASKED_A RG_A(masked_fill, "MaskedFillBackward1", false)
RG_OP(masked_fill, .doc = "mask ? value : x", .n_in = 3, RG_NAMED(masked_fill), .inplace = true,
      RG_MADE(masked_fill),
      .grad = { RULED(masked_fill_rule_x), RG_NO_RULE, RULED(masked_fill_rule_value) },
      RG_SAMPLES({ "(2,3) b(2,3) ()", MASKED_A }, { "(2,1,3) b(4,1) ()", MASKED_A },
                 { "(3) b(2,3) ()", MASKED_A }, { "() b() ()", MASKED_A },
                 { "(0,3) b(3) ()", MASKED_A }));

/* The value in x's dtype, if it is a single one. */
static rg_tensor *masked_value(rg_tensor *x, rg_tensor *value) {
    if (!rgi_check(x, "masked_fill") || !rgi_check(value, "masked_fill"))
        return NULL;
    if (value->ndim)
        return value;
    if (!ternary_fits("masked_fill", value, x->dtype))
        return NULL;
    return rg_to(rgi_is_float(x->dtype) ? value : rg_detach(value), x->dtype);
}

rg_tensor *(rg_masked_fill)(rg_tensor *x, rg_tensor *mask, rg_tensor *value) {
    rg_tensor *y = RG_COMPOSITE("masked_fill", RG_APPLY(masked_fill, MASKED_FILL(value, false), x,
                                                        mask, masked_value(x, value)));
    RG_FAIL_IF(y && value->history && rg_is_grad_enabled() && !rgi_is_float(x->dtype),
               "masked_fill", "Autograd not support dtype: %s", rgi_scalar_name(x->dtype));
    return y;
}

rg_tensor *(rg_masked_fill_)(rg_tensor *x, rg_tensor *mask, rg_tensor *value) {
    return RG_COMPOSITE("masked_fill_", RG_APPLY_(masked_fill, MASKED_FILL(value, true), x, mask,
                                                  masked_value(x, value)));
}

/* ---- clamp: min(max(x, low), high), either of which may be absent; NaN if any is ----
 * g goes to x where low <= x <= high; to low where x < low < high, to high where x > high or high <
 * low */
enum clamp_form { CLAMP, CLAMP_MIN, CLAMP_MAX };
struct clamp_attr {
    const char *node, *cpu;
}; /* torch's */

static bool clamp_shape(rg_call *c) { return elementwise_broadcast(c, RG_ATTR(c, clamp)->cpu); }

static bool clamp_forward(rg_call *c) {
    if (rgi_is_none(c->in[2]))
        return k_run_with(&k_maximum, c->out[0], c->in, NULL);
    if (rgi_is_none(c->in[1]))
        return k_run(k_minimum, c->out[0], c->in[0], c->in[2]);
    return k_run_with(&k_clamp, c->out[0], c->in, NULL);
}

#define OF_bounds                                                                           \
    RG_IN(0) | RG_IN(1) | RG_IN(2), rg_tensor *x = rgi_saved(s, 0), *low = rgi_saved(s, 1), \
                                              *high = rgi_saved(s, 2);
RULE(clamp_rule_x, bounds,
     rg_where(high == RG_NONE  ? rg_ge(x, low)
              : low == RG_NONE ? rg_le(x, high)
                               : rg_logical_and(rg_ge(x, low), rg_le(x, high)),
              g, 0))
RULE(clamp_rule_low, bounds,
     rg_where(high == RG_NONE ? rg_lt(x, low) : rg_logical_and(rg_lt(x, low), rg_lt(low, high)), g,
              0))
RULE(clamp_rule_high, bounds,
     rg_where(low == RG_NONE ? rg_gt(x, high) : rg_logical_or(rg_gt(x, high), rg_lt(high, low)), g,
              0))

#define CLAMP_A RG_A(clamp, "ClampBackward1", NULL)
RG_OP(clamp, .doc = "min(max(x, low), high)", .n_in = 3, RG_NAMED(clamp), .typing = RG_PROMOTED,
      .optional = RG_IN(1) | RG_IN(2), .inplace = true, RG_MADE(clamp),
      .grad = { RULED(clamp_rule_x), RULED(clamp_rule_low), RULED(clamp_rule_high) },
      RG_SAMPLES({ "(3,4) s(3,4) u(3,4)", CLAMP_A }, { "(2,1,3) s(4,1) p()", CLAMP_A },
                 { "(3) (2,1) -", CLAMP_A }, { "() - ()", CLAMP_A }, { "(0,3) (3) (1)", CLAMP_A }));

static rg_tensor *clamp_with(const char *name, bool inplace, rg_tensor *x, rg_tensor *low,
                             rg_tensor *high, enum clamp_form form) {
    static const char *const nodes[][2] = { { "ClampBackward0", "ClampBackward1" },
                                            { "ClampMinBackward1", "ClampMinBackward0" },
                                            { "ClampMaxBackward1", "ClampMaxBackward0" } };
    static const char *const cpu[][2] = { { "clamp_cpu", "clamp_scalar_cpu" },
                                          { NULL, "clamp_min_scalar_cpu" },
                                          { NULL, "clamp_max_scalar_cpu" } };
    rg_tensor *in[] = { x, low, high },
              *given[] = { x, low == RG_NONE ? high : low, high == RG_NONE ? low : high };
    RG_AS(name);
    RG_FAIL_IF(low == RG_NONE && high == RG_NONE, "clamp",
               "torch.clamp: At least one of 'min' or 'max' must "
               "not be None");
    for (int i = 0; i < 3; i++)
        if (!rgi_check(given[i], "clamp"))
            return NULL;
    bool number = elementwise_number(given[1]) || elementwise_number(given[2]);
    enum clamp_form bounds = high == RG_NONE ? CLAMP_MIN : low == RG_NONE ? CLAMP_MAX : CLAMP;
    struct clamp_attr a = { nodes[form][number], cpu[bounds][number] };
    rg_dtype result = rgi_promote(3, given);
    for (int i = 1; i < 3; i++)
        if (elementwise_number(given[i]) && !ternary_fits("clamp", given[i], result))
            return NULL;
    return inplace ? rgi_apply_inplace(name, &rg_op_clamp, &a, sizeof a, 3, in)
                   : rgi_apply(&rg_op_clamp, &a, sizeof a, 3, in);
}

rg_tensor *(rg_clamp)(rg_tensor *x, rg_tensor *min, rg_tensor *max) {
    return clamp_with("clamp", false, x, min, max, CLAMP);
}
rg_tensor *(rg_clamp_)(rg_tensor *x, rg_tensor *min, rg_tensor *max) {
    return clamp_with("clamp_", true, x, min, max, CLAMP);
}
rg_tensor *(rg_clamp_min)(rg_tensor *x, rg_tensor *min) {
    return clamp_with("clamp_min", false, x, min, RG_NONE, CLAMP_MIN);
}
rg_tensor *(rg_clamp_max)(rg_tensor *x, rg_tensor *max) {
    return clamp_with("clamp_max", false, x, RG_NONE, max, CLAMP_MAX);
}
rg_tensor *(rg_clamp_min_)(rg_tensor *x, rg_tensor *min) {
    return clamp_with("clamp_min_", true, x, min, RG_NONE, CLAMP_MIN);
}
rg_tensor *(rg_clamp_max_)(rg_tensor *x, rg_tensor *max) {
    return clamp_with("clamp_max_", true, x, RG_NONE, max, CLAMP_MAX);
}

/* ---- lerp: a + w (b - a); ga = g (1 - w), gb = g w, gw = g (b - a) --------------- */
/* torch's, for whether the weight is a number */
struct lerp_attr {
    const char *node, *cpu;
};
static bool lerp_shape(rg_call *c) {
    RG_FAIL_DTYPE_IF(!rgi_is_float(c->in[0]->dtype), "lerp", RG_ATTR(c, lerp)->cpu,
                     c->in[0]->dtype);
    return rgi_shape_broadcast(c);
}
RULE(lerp_rule_a, c, rg_mul(g, rg_sub(1, c)))
RULE(lerp_rule_b, c, rg_mul(g, c))
RULE(lerp_rule_weight, ab, rg_mul(g, rg_sub(b, a)))
RG_OP(lerp, .doc = "a + weight (b - a)", .n_in = 3, RG_NAMED(lerp), .inplace = true,
      .shape = lerp_shape, .kernel = &k_lerp,
      .grad = { RULED(lerp_rule_a), RULED(lerp_rule_b), RULED(lerp_rule_weight) },
      SAMPLES_3("u", RG_A(lerp, "LerpBackward1", "lerp_kernel_tensor")));

/* All of one dtype, as torch asks; a weight that is 0-d is converted. */
static rg_tensor *lerp_with(rg_tensor *a, rg_tensor *b, rg_tensor *weight, bool inplace) {
    if (!rgi_check(a, "lerp") || !rgi_check(b, "lerp") || !rgi_check(weight, "lerp"))
        return NULL;
    const rg_tensor *odd = a->dtype != b->dtype                        ? b
                           : weight->ndim && a->dtype != weight->dtype ? weight
                                                                       : NULL;
    RG_FAIL_IF(odd, "lerp", "expected dtype %s for `%s` but got dtype %s", rgi_c_name(a->dtype),
               odd == b ? "end" : "weight", rgi_c_name(odd->dtype));
    struct lerp_attr attr = { "LerpBackward1", "lerp_kernel_tensor" };
    if (elementwise_number(weight))
        attr = (struct lerp_attr){ "LerpBackward0", "lerp_kernel_scalar" };
    rg_tensor *w = weight->ndim ? weight : rg_to(weight, a->dtype);
    return inplace ? RG_APPLY_(lerp, &attr, a, b, w) : RG_APPLY(lerp, &attr, a, b, w);
}

rg_tensor *(rg_lerp)(rg_tensor *a, rg_tensor *b, rg_tensor *w) {
    return RG_COMPOSITE("lerp", lerp_with(a, b, w, false));
}
rg_tensor *(rg_lerp_)(rg_tensor *x, rg_tensor *b, rg_tensor *w) {
    return RG_COMPOSITE("lerp_", lerp_with(x, b, w, true));
}

/* ---- addcmul: x + k0 b c; gb = k0 g c, gc = k0 g b. addcdiv: x + k0 b / c; gb = k0 g / c, gc = -k0 g b / c^2 ---- */
struct addc_attr {
    double k[3];
}; /* as a loop takes them */

#define VALUE (RG_ATTR(s, addc)->k[0])
#define ADDC(ident, Node, formula, shape_, of_b, gb, of_c, gc, kind)                           \
    static bool ident##_forward(rg_call *c) {                                                  \
        return k_run_with(&k_##ident, c->out[0], c->in, RG_ATTR(c, addc)->k);                  \
    }                                                                                          \
    RULE(ident##_rule_b, of_b, gb)                                                             \
    RULE(ident##_rule_c, of_c, gc)                                                             \
    RG_OP(ident, .doc = formula, .node = Node, .n_in = 3, RG_WITH(addc), .inplace = true,      \
          .typing = RG_PROMOTED, .shape = shape_, .forward = ident##_forward,                  \
          .grad = { RG_RULE(0, rgi_rule_same), RULED(ident##_rule_b), RULED(ident##_rule_c) }, \
          SAMPLES_3(kind, RG_A(addc, .k = { 1.5 })))

static bool addcmul_shape(rg_call *c) { return elementwise_broadcast(c, "addcmul_cpu_out"); }
ADDC(addcmul, "AddcmulBackward0", "x + value a b", addcmul_shape, c, rg_mul(g, rg_mul(c, VALUE)), b,
     rg_mul(g, rg_mul(b, VALUE)), "");
ADDC(addcdiv, "AddcdivBackward0", "x + value a / b", rgi_shape_broadcast, c,
     rg_mul(g, rg_div(VALUE, c)), bc, rg_mul(rg_neg(g), rg_div(rg_mul(b, VALUE), rg_square(c))),
     "z");

static bool addcdiv_allows(const char *op, rg_tensor *x, rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(x, op) || !rgi_check(a, op) || !rgi_check(b, op))
        return false;
    if (rgi_is_float(a->dtype) || rgi_is_float(b->dtype))
        return true;
    return rgi_fail(
        RG_RUNTIME_ERROR, op,
        "Integer division with addcdiv is no longer supported, and in a future  release "
        "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
        "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and "
        "as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter "
        "implementation: (input + value * tensor1 / tensor2), for all dtypes.");
}

#define ADDC_FUNCTION(name, ident, apply, allowed)                                 \
    rg_tensor *rg_##name(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value) { \
        return (allowed) ? apply(ident, RG_A(addc, { value }), x, a, b) : NULL;    \
    }
ADDC_FUNCTION(addcmul, addcmul, RG_APPLY, true)
ADDC_FUNCTION(addcmul_, addcmul, RG_APPLY_, true)
ADDC_FUNCTION(addcdiv, addcdiv, RG_APPLY, addcdiv_allows("addcdiv", x, a, b))
ADDC_FUNCTION(addcdiv_, addcdiv, RG_APPLY_, addcdiv_allows("addcdiv_", x, a, b))

/* ---- replace: source, in the shape and dtype of x: what copy_ and fill_ write; gx = 0 ---- */
struct replace_attr {
    const char *node;
};
static bool replace_shape(rg_call *c) {
    if (!rgi_shape_broadcast(c))
        return false;
    RG_FAIL_IF(!rgi_same_shape(c->out[0], c->in[0]), NULL,
               "output with shape %s doesn't match the broadcast "
               "shape %s",
               RG_SHAPE_TEXT(c->in[0]), RG_SHAPE_TEXT(c->out[0]));
    return true;
}

static bool replace_forward(rg_call *c) { return rgi_copy_elements(c->out[0], c->in[1]), true; }
RULE(replace_rule_x, g, rg_zeros_like(g))
#define REPLACE_A RG_A(replace, "CopyBackwards")
RG_OP(replace, .doc = "source in the shape and dtype of x", .n_in = 2, RG_NAMED(replace),
      .inplace = true, RG_MADE(replace),
      .grad = { RULED(replace_rule_x), RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3) (2,3)", REPLACE_A }, { "(2,4,3) (4,1)", REPLACE_A },
                 { "(3) ()", REPLACE_A }, { "() ()", REPLACE_A }, { "(0,3) (3)", REPLACE_A }));

rg_tensor *rgi_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value) {
    struct replace_attr a = { node };
    RG_AS(name);
    return rgi_apply_inplace(name, &rg_op_replace, &a, sizeof a, 2, (rg_tensor *[]){ x, value });
}

rg_tensor *(rg_copy_)(rg_tensor *x, rg_tensor *source) {
    return rgi_replace_("copy_", "CopyBackwards", x, source);
}

/* One value for all, which may be written where several elements share a place. */
static rg_tensor *fill_throughout(const char *name, const char *node, rg_tensor *x,
                                  rg_tensor *value) {
    if (rg_is_grad_enabled() && (x->history || value->history))
        return rgi_replace_(name, node, x, value);
    if (rgi_write_guard && !rgi_write_guard(x, name, false))
        return NULL;
    rgi_copy_elements(x, value);
    if (rgi_noting() && rgi_made_again(x, name))
        rgi_note_copy(x, value);
    rgi_count_write(x, name);
    return x;
}

rg_tensor *(rg_fill_)(rg_tensor *x, rg_tensor *value) {
    if (!rgi_check(x, "fill_") || !rgi_check(value, "fill_"))
        return NULL;
    RG_FAIL_IF(value->ndim, "fill_",
               "fill_ only supports 0-dimension value tensor but got tensor with %d "
               "dimensions.",
               value->ndim);
    bool number = elementwise_number(value);
    if (number && !ternary_fits("fill_", value, x->dtype))
        return NULL;
    return fill_throughout("fill_", number ? "FillBackward2" : "FillBackward3", x, value);
}

rg_tensor *rg_zero_(rg_tensor *x) {
    RG_SCOPE();
    rg_tensor *zero = rg_wrap_int(0);
    return rgi_check(x, "zero_") && zero ? fill_throughout("zero_", "ZeroBackward0", x, zero)
                                         : NULL;
}
