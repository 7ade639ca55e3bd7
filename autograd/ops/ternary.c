/*
 * ternary.c: functions of three tensors that broadcast: choosing by a mask,
 * bounds, and multiples added; and writing in place.
 */
#include "elementwise.h"

#include <float.h>

/* May the one element of t be written in this dtype? */
static bool ternary_fits(const char *op, const rg_tensor *t, rg_dtype d)
{
    double v = rg_load_f64(t->data, t->dtype);
    if (!rg_is_float(t->dtype) || (d == RG_INT64 ? fabs(v) <= 0x1p63 : d != RG_FLOAT32 || !(fabs(v) > FLT_MAX) || isinf(v)))
        return true;
    return rg_fail(RG_RUNTIME_ERROR, op, "value cannot be converted to type %s without overflow", d == RG_INT64 ? "int64_t" : "float");
}

/* ---- where: condition ? a : b; ga = condition ? g : 0, gb = condition ? 0 : g -------------- */

static bool where_shape(rg_call *c)
{
    if (c->in[0]->dtype != RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "where", "where expected condition to be a boolean tensor, but got a tensor with "
                       "dtype %s", rg_scalar_name(c->in[0]->dtype));
    c->out[0]->dtype = c->in[1]->dtype;
    return rg_shape_broadcast(c);
}

static rg_tensor *where_rule_a(const rg_step *s, rg_tensor *g) { return rg_where(rg_saved(s, 0), g, 0); }
static rg_tensor *where_rule_b(const rg_step *s, rg_tensor *g) { return rg_where(rg_saved(s, 0), 0, g); }

RG_OP(where, .doc = "condition ? a : b", .node = "WhereBackward0", .n_in = 3, .typing = RG_PROMOTED, .typed = RG_IN(1) | RG_IN(2),
      .shape = where_shape, .kernel = k_where,
      .grad = { RG_NO_RULE, RG_RULE(RG_IN(0), where_rule_a), RG_RULE(RG_IN(0), where_rule_b) },
      RG_SAMPLES({ "b(2,3) (2,3) (2,3)", NULL }, { "b(3) (2,1,3) (4,1)", NULL }, { "b(2,2) () (2)", NULL },
                 { "b() () ()", NULL }, { "b(0,1) (3) (0,3)", NULL }));

rg_tensor *(rg_where)(rg_tensor *condition, rg_tensor *a, rg_tensor *b) { return RG_APPLY(where, RG_NO_ATTR, condition, a, b); }

/* ---- masked_fill: mask ? value : x; gx = mask ? 0 : g, gvalue = mask ? g : 0 ------------------- */

struct masked_fill_attr { bool number, inplace; };      /* number: the value is one */

static const char *masked_fill_node(const void *attr)
{
    return ((const struct masked_fill_attr *)attr)->number ? "MaskedFillBackward0" : "MaskedFillBackward1";
}

static const char *dtype_in_c(rg_dtype d)
{
    static const char *const names[] = { "bool", "long int", "float", "double" };
    return names[d];
}

static bool masked_fill_shape(rg_call *c)
{
    rg_tensor *mask = c->in[1], *value = c->in[2];
    if (value->ndim)
        return rg_fail(RG_RUNTIME_ERROR, "masked_fill", "masked_fill_ only supports a 0-dimensional value tensor, but got "
                       "tensor with %d dimension(s).", value->ndim);
    if (mask->dtype != RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "masked_fill", "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                       dtype_in_c(mask->dtype));
    bool inplace = RG_ATTR(c, masked_fill)->inplace;    /* which torch names first */
    return rg_broadcast_shapes("masked_fill", inplace ? c->in[0] : mask, inplace ? mask : c->in[0], c->out[0]);
}

static bool masked_fill_forward(rg_call *c)
{
    k_where(c->out[0], (rg_tensor *[]){ c->in[1], c->in[2], c->in[0] });
    return true;
}

static rg_tensor *masked_fill_rule_x(const rg_step *s, rg_tensor *g) { return rg_masked_fill(g, rg_saved(s, 1), 0); }
static rg_tensor *masked_fill_rule_value(const rg_step *s, rg_tensor *g) { return rg_sum(rg_where(rg_saved(s, 1), g, 0)); }

#define MASKED_A RG_A(masked_fill, false, false)
RG_OP(masked_fill, .doc = "mask ? value : x", .node_of = masked_fill_node, .n_in = 3, .attr_size = sizeof(struct masked_fill_attr), .inplace = true,
      .shape = masked_fill_shape, .forward = masked_fill_forward,
      .grad = { RG_RULE(RG_IN(1), masked_fill_rule_x), RG_NO_RULE, RG_RULE(RG_IN(1), masked_fill_rule_value) },
      RG_SAMPLES({ "(2,3) b(2,3) ()", MASKED_A }, { "(2,1,3) b(4,1) ()", MASKED_A }, { "(3) b(2,3) ()", MASKED_A },
                 { "() b() ()", MASKED_A }, { "(0,3) b(3) ()", MASKED_A }));

/* The value in x's dtype, if it is a single one. */
static rg_tensor *masked_value(rg_tensor *x, rg_tensor *value)
{
    if (!rg_check(x, "masked_fill") || !rg_check(value, "masked_fill")) return NULL;
    if (value->ndim) return value;
    if (!ternary_fits("masked_fill", value, x->dtype)) return NULL;
    return rg_to(rg_is_float(x->dtype) ? value : rg_detach(value), x->dtype);
}

rg_tensor *(rg_masked_fill)(rg_tensor *x, rg_tensor *mask, rg_tensor *value)
{
    struct masked_fill_attr a = { elementwise_number(value), false };
    rg_tensor *y = RG_APPLY(masked_fill, &a, x, mask, masked_value(x, value));
    if (y && value->history && rg_is_grad_enabled() && !rg_is_float(x->dtype))
        return rg_fail(RG_RUNTIME_ERROR, "masked_fill", "Autograd not support dtype: %s", rg_scalar_name(x->dtype));
    return y;
}

rg_tensor *(rg_masked_fill_)(rg_tensor *x, rg_tensor *mask, rg_tensor *value)
{
    struct masked_fill_attr a = { elementwise_number(value), true };
    return RG_APPLY_(masked_fill, &a, x, mask, masked_value(x, value));
}

/* ---- clamp: min(max(x, low), high), either of which may be absent; NaN if any is -----------------
 * g goes to x where low <= x <= high; to low where x < low < high, to high where x > high or high < low */

enum clamp_form { CLAMP, CLAMP_MIN, CLAMP_MAX };
struct clamp_attr { enum clamp_form form; bool number; };       /* the bounds are numbers */

static const char *clamp_node(const void *attr)
{
    static const char *const names[][2] = { { "ClampBackward0", "ClampBackward1" },
        { "ClampMinBackward1", "ClampMinBackward0" }, { "ClampMaxBackward1", "ClampMaxBackward0" } };
    const struct clamp_attr *a = attr;
    return names[a->form][a->number];
}

static bool clamp_shape(rg_call *c)
{
    const struct clamp_attr *a = RG_ATTR(c, clamp);
    if (!rg_shape_broadcast(c)) return false;
    static const char *const cpu[][2] = { { "clamp_cpu", "clamp_scalar_cpu" }, { NULL, "clamp_min_scalar_cpu" },
                                          { NULL, "clamp_max_scalar_cpu" } };
    int form = rg_is_none(c->in[2]) ? CLAMP_MIN : rg_is_none(c->in[1]) ? CLAMP_MAX : CLAMP;
    if (c->in[0]->dtype == RG_BOOL && cpu[form][a->number])
        return rg_fail(RG_NOT_IMPLEMENTED, "clamp", "\"%s\" not implemented for 'Bool'", cpu[form][a->number]);
    return true;
}

static bool clamp_forward(rg_call *c)
{
    if (rg_is_none(c->in[2])) k_maximum(c->out[0], c->in);
    else if (rg_is_none(c->in[1])) k_minimum(c->out[0], (rg_tensor *[]){ c->in[0], c->in[2] });
    else k_clamp(c->out[0], c->in);
    return true;
}

static rg_tensor *clamp_rule_x(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0), *low = rg_saved(s, 1), *high = rg_saved(s, 2);
    if (high == RG_NONE) return rg_where(rg_ge(x, low), g, 0);
    if (low == RG_NONE) return rg_where(rg_le(x, high), g, 0);
    return rg_where(rg_logical_and(rg_ge(x, low), rg_le(x, high)), g, 0);
}

static rg_tensor *clamp_rule_low(const rg_step *s, rg_tensor *g)
{
    rg_tensor *low = rg_saved(s, 1), *high = rg_saved(s, 2), *below = rg_lt(rg_saved(s, 0), low);
    if (high != RG_NONE) below = rg_logical_and(below, rg_lt(low, high));
    return rg_where(below, g, 0);
}

static rg_tensor *clamp_rule_high(const rg_step *s, rg_tensor *g)
{
    rg_tensor *low = rg_saved(s, 1), *high = rg_saved(s, 2), *above = rg_gt(rg_saved(s, 0), high);
    if (low != RG_NONE) above = rg_logical_or(above, rg_lt(high, low));
    return rg_where(above, g, 0);
}

#define CLAMP_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2))
#define CLAMP_A RG_A(clamp, CLAMP, false)
RG_OP(clamp, .doc = "min(max(x, low), high)", .node_of = clamp_node, .n_in = 3, .attr_size = sizeof(struct clamp_attr), .typing = RG_PROMOTED,
      .optional = RG_IN(1) | RG_IN(2), .inplace = true, .shape = clamp_shape, .forward = clamp_forward,
      .grad = { RG_RULE(CLAMP_NEEDS, clamp_rule_x), RG_RULE(CLAMP_NEEDS, clamp_rule_low), RG_RULE(CLAMP_NEEDS, clamp_rule_high) },
      RG_SAMPLES({ "(3,4) s(3,4) u(3,4)", CLAMP_A }, { "(2,1,3) s(4,1) p()", CLAMP_A }, { "(3) (2,1) -", CLAMP_A },
                 { "() - ()", CLAMP_A }, { "(0,3) (3) (1)", CLAMP_A }));

/* inplace: its name, or NULL. */
static rg_tensor *clamp_with(const char *inplace, rg_tensor *x, rg_tensor *low, rg_tensor *high, enum clamp_form form)
{
    rg_tensor *in[] = { x, low, high }, *given[] = { x, low == RG_NONE ? high : low, high == RG_NONE ? low : high };
    if (low == RG_NONE && high == RG_NONE)
        return rg_fail(RG_RUNTIME_ERROR, "clamp", "torch.clamp: At least one of 'min' or 'max' must not be None");
    for (int i = 0; i < 3; i++)
        if (!rg_check(given[i], "clamp")) return NULL;
    struct clamp_attr a = { form, elementwise_number(given[1]) || elementwise_number(given[2]) };
    rg_dtype result = rg_promote(3, given);
    for (int i = 1; i < 3 && a.number; i++)
        if (elementwise_number(given[i]) && !ternary_fits("clamp", given[i], result)) return NULL;
    if (!inplace) return RG_APPLY(clamp, &a, x, low, high);
    return rg_apply_inplace(inplace, &rg_op_clamp, &a, sizeof a, 3, in);
}

rg_tensor *(rg_clamp)(rg_tensor *x, rg_tensor *min, rg_tensor *max)  { return clamp_with(NULL, x, min, max, CLAMP); }
rg_tensor *(rg_clamp_)(rg_tensor *x, rg_tensor *min, rg_tensor *max) { return clamp_with("clamp_", x, min, max, CLAMP); }
rg_tensor *(rg_clamp_min)(rg_tensor *x, rg_tensor *min)  { return clamp_with(NULL, x, min, RG_NONE, CLAMP_MIN); }
rg_tensor *(rg_clamp_max)(rg_tensor *x, rg_tensor *max)  { return clamp_with(NULL, x, RG_NONE, max, CLAMP_MAX); }
rg_tensor *(rg_clamp_min_)(rg_tensor *x, rg_tensor *min) { return clamp_with("clamp_min_", x, min, RG_NONE, CLAMP_MIN); }
rg_tensor *(rg_clamp_max_)(rg_tensor *x, rg_tensor *max) { return clamp_with("clamp_max_", x, RG_NONE, max, CLAMP_MAX); }

/* ---- lerp: a + w (b - a); ga = g (1 - w), gb = g w, gw = g (b - a) ------------------------------------ */

struct lerp_attr { bool number; };                      /* the weight is one */

static const char *lerp_node(const void *attr)
{
    return ((const struct lerp_attr *)attr)->number ? "LerpBackward0" : "LerpBackward1";
}

static bool lerp_shape(rg_call *c)
{
    const char *cpu = RG_ATTR(c, lerp)->number ? "lerp_kernel_scalar" : "lerp_kernel_tensor";
    if (!rg_is_float(c->in[0]->dtype))
        return rg_fail(RG_NOT_IMPLEMENTED, "lerp", "\"%s\" not implemented for '%s'", cpu, rg_scalar_name(c->in[0]->dtype));
    return rg_shape_broadcast(c);
}

static rg_tensor *lerp_rule_a(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_sub(1, rg_saved(s, 2))); }
static rg_tensor *lerp_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_saved(s, 2)); }
static rg_tensor *lerp_rule_w(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_sub(rg_saved(s, 1), rg_saved(s, 0))); }

#define LERP_A RG_A(lerp, false)
RG_OP(lerp, .doc = "a + weight (b - a)", .node_of = lerp_node, .n_in = 3, .attr_size = sizeof(struct lerp_attr), .inplace = true, .shape = lerp_shape, .kernel = k_lerp,
      .grad = { RG_RULE(RG_IN(2), lerp_rule_a), RG_RULE(RG_IN(2), lerp_rule_b), RG_RULE(RG_IN(0) | RG_IN(1), lerp_rule_w) },
      RG_SAMPLES({ "(2,3) (2,3) u(2,3)", LERP_A }, { "(2,1,3) (4,1) u()", LERP_A }, { "(3) (2,1) (2,3)", LERP_A },
                 { "() () ()", LERP_A }, { "(0,3) (3) (1)", LERP_A }));

/* All of one dtype, as torch asks; a weight that is 0-d is converted. */
static rg_tensor *lerp_weight(const char *op, rg_tensor *a, rg_tensor *b, rg_tensor *weight)
{
    if (!rg_check(a, op) || !rg_check(b, op) || !rg_check(weight, op)) return NULL;
    bool convert = weight->ndim == 0;
    if (a->dtype != b->dtype || (!convert && a->dtype != weight->dtype))
        return rg_fail(RG_RUNTIME_ERROR, op, "expected dtype %s for `%s` but got dtype %s", dtype_in_c(a->dtype),
                       a->dtype != b->dtype ? "end" : "weight", dtype_in_c(a->dtype != b->dtype ? b->dtype : weight->dtype));
    return convert ? rg_to(weight, a->dtype) : weight;
}

#define LERP_OF(weight) (&(struct lerp_attr){ elementwise_number(weight) })
rg_tensor *(rg_lerp)(rg_tensor *a, rg_tensor *b, rg_tensor *weight)
{
    rg_tensor *w = lerp_weight("lerp", a, b, weight);
    return w ? RG_APPLY(lerp, LERP_OF(weight), a, b, w) : NULL;
}

rg_tensor *(rg_lerp_)(rg_tensor *x, rg_tensor *b, rg_tensor *weight)
{
    rg_tensor *w = lerp_weight("lerp_", x, b, weight);
    return w ? RG_APPLY_(lerp, LERP_OF(weight), x, b, w) : NULL;
}

/* ---- addcmul: x + v a b; ga = v g b, gb = v g a -------------------------------------------------------------- */

struct addcmul_attr { double value; };

static bool addcmul_shape(rg_call *c)
{
    if (!rg_shape_broadcast(c)) return false;
    return c->in[0]->dtype != RG_BOOL || rg_fail(RG_NOT_IMPLEMENTED, "addcmul", "\"addcmul_cpu_out\" not implemented for 'Bool'");
}

static bool addcmul_forward(rg_call *c)
{
    k_addcmul(c->out[0], c->in, RG_ATTR(c, addcmul)->value);
    return true;
}

static rg_tensor *addc_rule_x(const rg_step *s, rg_tensor *g) { return (void)s, g; }
static rg_tensor *addcmul_rule_a(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_mul(rg_saved(s, 2), RG_ATTR(s, addcmul)->value)); }
static rg_tensor *addcmul_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_mul(rg_saved(s, 1), RG_ATTR(s, addcmul)->value)); }

#define ADDC_A RG_A(addcmul, 1.5)
#define ADDC_SAMPLES(z) \
    RG_SAMPLES({ "(2,3) (2,3) " z "(2,3)", ADDC_A }, { "(2,1,3) (4,1) " z "()", ADDC_A }, { "(3) (2,1) " z "(2,3)", ADDC_A }, \
               { "() () " z "()", ADDC_A }, { "(0,3) (3) " z "(1)", ADDC_A })
RG_OP(addcmul, .doc = "x + value a b", .node = "AddcmulBackward0", .n_in = 3, .attr_size = sizeof(struct addcmul_attr), .typing = RG_PROMOTED, .inplace = true,
      .shape = addcmul_shape, .forward = addcmul_forward,
      .grad = { RG_RULE(0, addc_rule_x), RG_RULE(RG_IN(2), addcmul_rule_a), RG_RULE(RG_IN(1), addcmul_rule_b) }, ADDC_SAMPLES(""));

rg_tensor *rg_addcmul(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value)
{
    return RG_APPLY(addcmul, (&(struct addcmul_attr){ value }), x, a, b);
}

rg_tensor *rg_addcmul_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value)
{
    return RG_APPLY_(addcmul, (&(struct addcmul_attr){ value }), x, a, b);
}

/* ---- addcdiv: x + v a / b; ga = v g / b, gb = -v g a / b^2 --------------------------------------------------------- */

#define addcdiv_attr addcmul_attr

static bool addcdiv_forward(rg_call *c)
{
    k_addcdiv(c->out[0], c->in, RG_ATTR(c, addcdiv)->value);
    return true;
}

static rg_tensor *addcdiv_rule_a(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_div(RG_ATTR(s, addcdiv)->value, rg_saved(s, 2))); }

static rg_tensor *addcdiv_rule_b(const rg_step *s, rg_tensor *g)
{
    rg_tensor *a = rg_saved(s, 1), *b = rg_saved(s, 2);
    return rg_mul(rg_neg(g), rg_div(rg_mul(a, RG_ATTR(s, addcdiv)->value), rg_square(b)));
}

RG_OP(addcdiv, .doc = "x + value a / b", .node = "AddcdivBackward0", .n_in = 3, .attr_size = sizeof(struct addcdiv_attr), .typing = RG_PROMOTED, .inplace = true,
      .shape = rg_shape_broadcast, .forward = addcdiv_forward,
      .grad = { RG_RULE(0, addc_rule_x), RG_RULE(RG_IN(2), addcdiv_rule_a), RG_RULE(RG_IN(1) | RG_IN(2), addcdiv_rule_b) },
      ADDC_SAMPLES("z"));

static bool addcdiv_allows(const char *op, rg_tensor *x, rg_tensor *a, rg_tensor *b)
{
    if (!rg_check(x, op) || !rg_check(a, op) || !rg_check(b, op)) return false;
    if (rg_is_float(a->dtype) || rg_is_float(b->dtype)) return true;
    return rg_fail(RG_RUNTIME_ERROR, op, "Integer division with addcdiv is no longer supported, and in a future  release "
                   "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
                   "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and "
                   "as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter "
                   "implementation: (input + value * tensor1 / tensor2), for all dtypes.");
}

rg_tensor *rg_addcdiv(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value)
{
    return addcdiv_allows("addcdiv", x, a, b) ? RG_APPLY(addcdiv, (&(struct addcdiv_attr){ value }), x, a, b) : NULL;
}

rg_tensor *rg_addcdiv_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value)
{
    return addcdiv_allows("addcdiv_", x, a, b) ? RG_APPLY_(addcdiv, (&(struct addcdiv_attr){ value }), x, a, b) : NULL;
}

/* ---- replace: source, in the shape and dtype of x: what copy_ and fill_ write; gx = 0 ------------------------------------ */

struct replace_attr { const char *node; };

static const char *replace_node(const void *attr) { return ((const struct replace_attr *)attr)->node; }

static bool replace_shape(rg_call *c)
{
    if (!rg_shape_broadcast(c)) return false;
    if (rg_same_shape(c->out[0], c->in[0])) return true;
    char a[192], b[192];
    const rg_tensor *x = c->in[0], *y = c->out[0];
    return rg_fail(RG_RUNTIME_ERROR, "copy_", "output with shape %s doesn't match the broadcast shape %s",
                   rg_shape_text(x->ndim, x->size, a), rg_shape_text(y->ndim, y->size, b));
}

static bool replace_forward(rg_call *c)
{
    rg_copy_elements(c->out[0], c->in[1]);
    return true;
}

static rg_tensor *replace_rule_x(const rg_step *s, rg_tensor *g) { return (void)s, rg_zeros_like(g); }
static rg_tensor *replace_rule_source(const rg_step *s, rg_tensor *g) { return (void)s, g; }

#define REPLACE_A RG_A(replace, "CopyBackwards")
RG_OP(replace, .doc = "source in the shape and dtype of x", .node_of = replace_node, .n_in = 2, .attr_size = sizeof(struct replace_attr), .inplace = true,
      .shape = replace_shape, .forward = replace_forward, .grad = { RG_RULE(0, replace_rule_x), RG_RULE(0, replace_rule_source) },
      RG_SAMPLES({ "(2,3) (2,3)", REPLACE_A }, { "(2,4,3) (4,1)", REPLACE_A }, { "(3) ()", REPLACE_A }, { "() ()", REPLACE_A },
                 { "(0,3) (3)", REPLACE_A }));

rg_tensor *rg_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value)
{
    struct replace_attr a = { node };
    return rg_apply_inplace(name, &rg_op_replace, &a, sizeof a, 2, (rg_tensor *[]){ x, value });
}

rg_tensor *(rg_copy_)(rg_tensor *x, rg_tensor *source) { return rg_replace_("copy_", "CopyBackwards", x, source); }

/* One value for all, which may be written where several elements share a place. */
static rg_tensor *fill_throughout(const char *name, const char *node, rg_tensor *x, rg_tensor *value)
{
    if (rg_is_grad_enabled() && (x->history || value->history)) return rg_replace_(name, node, x, value);
    if (rg_write_guard && !rg_write_guard(x, name, false)) return NULL;
    rg_copy_elements(x, value);
    rg_wrote(x, name);
    return x;
}

rg_tensor *(rg_fill_)(rg_tensor *x, rg_tensor *value)
{
    if (!rg_check(x, "fill_") || !rg_check(value, "fill_")) return NULL;
    if (value->ndim)
        return rg_fail(RG_RUNTIME_ERROR, "fill_", "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
                       value->ndim);
    bool number = elementwise_number(value);
    if (number && !ternary_fits("fill_", value, x->dtype)) return NULL;
    return fill_throughout("fill_", number ? "FillBackward2" : "FillBackward3", x, value);
}

rg_tensor *rg_zero_(rg_tensor *x)
{
    RG_SCOPE();
    rg_tensor *zero = rg_wrap_int(0);
    return rg_check(x, "zero_") && zero ? fill_throughout("zero_", "ZeroBackward0", x, zero) : NULL;
}
