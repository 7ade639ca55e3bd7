/*
 * ternary.c: elementwise functions of three tensors that broadcast: where, masked_fill, clamp,
 * lerp, addcmul and addcdiv. In the formulas, g is the gradient of the result, and ga is the
 * gradient of a, gx the gradient of x, and so on for the other inputs.
 */
#include "elementwise.h"

/* ---- where: condition ? a : b; ga = condition ? g : 0, gb = condition ? 0 : g ---- */

static bool where_shape(rg_call *c) {
    RG_FAIL_IF(!rgi_is_bool(c->in[0]->dtype), "where",
               "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
               rgi_scalar_name(c->in[0]->dtype));
    c->out[0]->dtype = c->in[1]->dtype;
    for (int i = 1; i < 3 && rgi_is_byte(c->in[1]->dtype) && c->given; i++)
        if (elementwise_is_number(c->given[i]) && !rgi_element_fits("where", c->given[i], RG_UINT8))
            return false;
    return rgi_shape_broadcast(c);
}

static rg_tensor *where_rule_a(const rg_step *s, rg_tensor *g) {
    return rg_where(rgi_saved(s, 0), g, 0);
}

static rg_tensor *where_rule_b(const rg_step *s, rg_tensor *g) {
    return rg_where(rgi_saved(s, 0), 0, g);
}

RG_OP(where, .moves = true, .doc = "condition ? a : b", .node = "WhereBackward0", .n_in = 3,
      .typing = RG_PROMOTED, .typed = RG_IN(1) | RG_IN(2), .laid_between = true,
      .shape = where_shape, .kernel = &k_where,
      .grad = { RG_NO_RULE, RG_RULE(RG_IN(0), where_rule_a), RG_RULE(RG_IN(0), where_rule_b) },
      RG_SAMPLES({ "b(2,3) (2,3) (2,3)", NULL }, { "b(3) (2,1,3) (4,1)", NULL },
                 { "b(2,2) () (2)", NULL }, { "b() () ()", NULL }, { "b(0,1) (3) (0,3)", NULL }));

rg_tensor *(rg_where)(rg_tensor *c, rg_tensor *a, rg_tensor *b) {
    if (c && rgi_is_byte(c->dtype)) /* As in torch, a mask. */
        return RG_COMPOSITE("where", rg_where(rg_to(c, RG_BOOL), a, b));
    return RG_APPLY(where, RG_NO_ATTR, c, a, b);
}

/* ---- masked_fill: mask ? value : x; gx = mask ? 0 : g, gvalue = sum(mask ? g : 0) ---- */

struct masked_fill_attr {
    const char *node;
    bool inplace;
};

/* Returns the attributes. As in torch, the node's name depends on whether the value is a number. */
static struct masked_fill_attr masked_fill_attributes(const rg_tensor *value, bool inplace) {
    bool number = elementwise_is_number(value);
    return (struct masked_fill_attr){ number ? "MaskedFillBackward0" : "MaskedFillBackward1",
                                      inplace };
}

/* The shape function. If the shapes don't broadcast, the error message is torch's: it names x's
 * shape first for masked_fill_, and the mask's shape first for masked_fill. */
static bool masked_fill_shape(rg_call *c) {
    rg_tensor *mask = c->in[1];
    rg_tensor *value = c->in[2];
    RG_FAIL_IF(value->ndim, "masked_fill",
               "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
               "dimension(s).",
               value->ndim);
    RG_FAIL_IF(!rgi_is_bool(mask->dtype), "masked_fill",
               "masked_fill_ only supports boolean masks, but got mask with dtype %s",
               rgi_c_name(mask->dtype));
    if (RG_ATTR(c, masked_fill)->inplace)
        return rgi_broadcast_shapes("masked_fill", c->in[0], mask, c->out[0]);
    return rgi_broadcast_shapes("masked_fill", mask, c->in[0], c->out[0]);
}

static bool masked_fill_forward(rg_call *c) {
    return k_run(k_where, c->out[0], c->in[1], c->in[2], c->in[0]);
}

static rg_tensor *masked_fill_rule_x(const rg_step *s, rg_tensor *g) {
    return rg_masked_fill(g, rgi_saved(s, 1), 0);
}

static rg_tensor *masked_fill_rule_value(const rg_step *s, rg_tensor *g) {
    return rg_sum(rg_where(rgi_saved(s, 1), g, 0));
}

#define MASKED_FILL RG_A(masked_fill, "MaskedFillBackward1", false)
RG_OP(masked_fill, .moves = true, .doc = "mask ? value : x", .n_in = 3, RG_NAMED(masked_fill),
      .inplace = true, RG_MADE(masked_fill),
      .grad = { RG_RULE(RG_IN(1), masked_fill_rule_x), RG_NO_RULE,
                RG_RULE(RG_IN(1), masked_fill_rule_value) },
      RG_SAMPLES({ "(2,3) b(2,3) ()", MASKED_FILL }, { "(2,1,3) b(4,1) ()", MASKED_FILL },
                 { "(3) b(2,3) ()", MASKED_FILL }, { "() b() ()", MASKED_FILL },
                 { "(0,3) b(3) ()", MASKED_FILL }));

/* Returns the value in x's dtype. A value with dims is returned unchanged, since the op refuses
 * it. */
static rg_tensor *masked_fill_value(rg_tensor *x, rg_tensor *value) {
    if (!rgi_check(x, "masked_fill") || !rgi_check(value, "masked_fill"))
        return NULL;
    if (value->ndim)
        return value;
    if (!rgi_element_fits("masked_fill", value, x->dtype))
        return NULL;
    return rg_to(rgi_is_float(x->dtype) ? value : rg_detach(value), x->dtype);
}

rg_tensor *(rg_masked_fill)(rg_tensor *x, rg_tensor *mask, rg_tensor *value) {
    struct masked_fill_attr a = masked_fill_attributes(value, false);
    rg_tensor *y = RG_COMPOSITE("masked_fill",
                                RG_APPLY(masked_fill, &a, x, mask, masked_fill_value(x, value)));
    return y && rgi_want_tracked("masked_fill", value, x->dtype) ? y : NULL;
}

rg_tensor *(rg_masked_fill_)(rg_tensor *x, rg_tensor *mask, rg_tensor *value) {
    struct masked_fill_attr a = masked_fill_attributes(value, true);
    return RG_COMPOSITE("masked_fill_",
                        RG_APPLY_(masked_fill, &a, x, mask, masked_fill_value(x, value)));
}

/* ---- clamp: min(max(x, low), high), where one bound may be absent. NaN if x or a bound is
 *      NaN; gx = g where low <= x <= high, else 0; glow = g where x < low < high, else 0; ghigh = g
 *      where x > high or high < low, else 0 ------------------------------------- */

/* The attributes of clamp. allows_bool is true if only one bound is given, and this bound is a
 * tensor, not a number. As in torch, x and the bound may be promoted to bool only if
 * allows_bool is true. */
struct clamp_attr {
    const char *node;
    bool allows_bool;
};

static bool clamp_shape(rg_call *c) {
    bool allows_bool = RG_ATTR(c, clamp)->allows_bool;
    return allows_bool ? rgi_shape_broadcast(c) : rgi_shape_broadcast_numbers(c);
}

static bool clamp_forward(rg_call *c) {
    if (rgi_is_none(c->in[2]))
        return k_run_with(&k_maximum, c->out[0], c->in, NULL);
    if (rgi_is_none(c->in[1]))
        return k_run(k_minimum, c->out[0], c->in[0], c->in[2]);
    return k_run_with(&k_clamp, c->out[0], c->in, NULL);
}

static rg_tensor *clamp_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *low = rgi_saved(s, 1);
    rg_tensor *high = rgi_saved(s, 2);
    if (high == RG_NONE)
        return rg_where(rg_ge(x, low), g, 0);
    if (low == RG_NONE)
        return rg_where(rg_le(x, high), g, 0);
    return rg_where(rg_logical_and(rg_ge(x, low), rg_le(x, high)), g, 0);
}

static rg_tensor *clamp_rule_low(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *low = rgi_saved(s, 1);
    rg_tensor *high = rgi_saved(s, 2);
    rg_tensor *taken = rg_lt(x, low);
    if (high != RG_NONE)
        taken = rg_logical_and(taken, rg_lt(low, high));
    return rg_where(taken, g, 0);
}

static rg_tensor *clamp_rule_high(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *low = rgi_saved(s, 1);
    rg_tensor *high = rgi_saved(s, 2);
    rg_tensor *taken = rg_gt(x, high);
    if (low != RG_NONE)
        taken = rg_logical_or(taken, rg_lt(high, low));
    return rg_where(taken, g, 0);
}

#define CLAMP_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2))
#define CLAMP       RG_A(clamp, "ClampBackward1", true)
RG_OP(clamp, .doc = "min(max(x, low), high)", .n_in = 3, RG_NAMED(clamp), .typing = RG_PROMOTED,
      .optional = RG_IN(1) | RG_IN(2), RG_ELEMENTWISE, RG_MADE(clamp),
      .grad = { RG_RULE(CLAMP_NEEDS, clamp_rule_x), RG_RULE(CLAMP_NEEDS, clamp_rule_low),
                RG_RULE(CLAMP_NEEDS, clamp_rule_high) },
      RG_SAMPLES({ "(3,4) s(3,4) u(3,4)", CLAMP }, { "(2,1,3) s(4,1) p()", CLAMP },
                 { "(3) (2,1) -", CLAMP }, { "() - ()", CLAMP }, { "(0,3) (3) (1)", CLAMP }));

/* As in torch, the node's name depends on the function that was called. The second name of each
 * pair is used if a bound is a number. */
enum clamp_bounds { CLAMP_BOTH, CLAMP_MIN, CLAMP_MAX };

static const char *const clamp_nodes[][2] = { { "ClampBackward0", "ClampBackward1" },
                                              { "ClampMinBackward1", "ClampMinBackward0" },
                                              { "ClampMaxBackward1", "ClampMaxBackward0" } };

static rg_tensor *clamp_with(const char *name, bool inplace, rg_tensor *x, rg_tensor *low,
                             rg_tensor *high, enum clamp_bounds called) {
    rg_tensor *in[] = { x, low, high };
    /* The other bound replaces an absent bound, so that all elements of given[] are tensors. */
    rg_tensor *low_or_high = low == RG_NONE ? high : low;
    rg_tensor *high_or_low = high == RG_NONE ? low : high;
    rg_tensor *given[] = { x, low_or_high, high_or_low };
    RG_AS(name);
    RG_FAIL_IF(low == RG_NONE && high == RG_NONE, "clamp",
               "torch.clamp: At least one of 'min' or 'max' must not be None");
    for (int i = 0; i < 3; i++)
        if (!rgi_check(given[i], "clamp"))
            return NULL;
    bool number = elementwise_is_number(given[1]) || elementwise_is_number(given[2]);
    bool one_bound = low == RG_NONE || high == RG_NONE;
    struct clamp_attr a = { clamp_nodes[called][number], one_bound && !number };
    rg_dtype result = rgi_promote(3, given);
    for (int i = 1; i < 3; i++)
        if (elementwise_is_number(given[i]) && !rgi_element_fits("clamp", given[i], result))
            return NULL;
    return inplace ? rgi_apply_inplace(name, &rg_op_clamp, &a, sizeof a, 3, in)
                   : rgi_apply(&rg_op_clamp, &a, sizeof a, 3, in);
}

rg_tensor *(rg_clamp)(rg_tensor *x, rg_tensor *min, rg_tensor *max) {
    return clamp_with("clamp", false, x, min, max, CLAMP_BOTH);
}

rg_tensor *(rg_clamp_)(rg_tensor *x, rg_tensor *min, rg_tensor *max) {
    return clamp_with("clamp_", true, x, min, max, CLAMP_BOTH);
}

rg_tensor *(rg_clamp_min)(rg_tensor *x, rg_tensor *min) {
    return clamp_with("clamp_min", false, x, min, RG_NONE, CLAMP_MIN);
}

rg_tensor *(rg_clamp_min_)(rg_tensor *x, rg_tensor *min) {
    return clamp_with("clamp_min_", true, x, min, RG_NONE, CLAMP_MIN);
}

rg_tensor *(rg_clamp_max)(rg_tensor *x, rg_tensor *max) {
    return clamp_with("clamp_max", false, x, RG_NONE, max, CLAMP_MAX);
}

rg_tensor *(rg_clamp_max_)(rg_tensor *x, rg_tensor *max) {
    return clamp_with("clamp_max_", true, x, RG_NONE, max, CLAMP_MAX);
}

/* ---- lerp: a + w (b - a); ga = g (1 - w), gb = g w, gw = g (b - a) ------------- */

/* The attributes of lerp. As in torch, the name of its graph node (`node`) depends on whether the
 * weight was given as a number. */
struct lerp_attr {
    const char *node;
};

static rg_tensor *lerp_rule_a(const rg_step *s, rg_tensor *g) {
    return rg_mul(g, rg_sub(1, rgi_saved(s, 2)));
}

static rg_tensor *lerp_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, rgi_saved(s, 2)); }

static rg_tensor *lerp_rule_weight(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return rg_mul(g, rg_sub(b, a));
}

RG_OP(lerp, .doc = "a + weight (b - a)", .n_in = 3, RG_NAMED(lerp), RG_ELEMENTWISE,
      .shape = rgi_shape_broadcast_floats, .kernel = &k_lerp,
      .grad = { RG_RULE(RG_IN(2), lerp_rule_a), RG_RULE(RG_IN(2), lerp_rule_b),
                RG_RULE(RG_IN(0) | RG_IN(1), lerp_rule_weight) },
      SAMPLES_3("u", RG_A(lerp, "LerpBackward1")));

/* Fails with torch's error message if the dtypes of a, b and weight differ. A weight without dims
 * may have any dtype. */
static bool lerp_check(rg_tensor *a, rg_tensor *b, rg_tensor *weight) {
    if (!rgi_check(a, "lerp") || !rgi_check(b, "lerp") || !rgi_check(weight, "lerp"))
        return false;
    RG_FAIL_IF(b->dtype != a->dtype, "lerp", "expected dtype %s for `end` but got dtype %s",
               rgi_c_name(a->dtype), rgi_c_name(b->dtype));
    RG_FAIL_IF(weight->ndim && weight->dtype != a->dtype, "lerp",
               "expected dtype %s for `weight` but got dtype %s", rgi_c_name(a->dtype),
               rgi_c_name(weight->dtype));
    return true;
}

static rg_tensor *lerp_with(rg_tensor *a, rg_tensor *b, rg_tensor *weight, bool inplace) {
    if (!lerp_check(a, b, weight))
        return NULL;
    bool number = elementwise_is_number(weight);
    if (number && rgi_is_float(a->dtype)
        && !rgi_element_fits("lerp", weight, rgi_computed_in(a->dtype)))
        return NULL;
    const struct lerp_attr attr = { number ? "LerpBackward0" : "LerpBackward1" };
    /* A number isn't rounded to 16 bits. */
    const rg_dtype dtype = number ? rgi_computed_in(a->dtype) : (rg_dtype)a->dtype;
    rg_tensor *w = weight->ndim ? weight : rg_to(weight, dtype);
    return inplace ? RG_APPLY_(lerp, &attr, a, b, w) : RG_APPLY(lerp, &attr, a, b, w);
}

rg_tensor *(rg_lerp)(rg_tensor *a, rg_tensor *b, rg_tensor *w) {
    return RG_COMPOSITE("lerp", lerp_with(a, b, w, false));
}

rg_tensor *(rg_lerp_)(rg_tensor *x, rg_tensor *b, rg_tensor *w) {
    return RG_COMPOSITE("lerp_", lerp_with(x, b, w, true));
}

/* ---- addcmul: x + k b c, where b and c are the arguments a and b of rg_addcmul; gx = g, gb = k g
 *      c, gc = k g b ------------------------------------------------------------ */

/* The attributes of addcmul and addcdiv. k[0] is torch's argument `value`, called k in the
 * formulas. The other two numbers are unused: a kernel takes an array of three. */
struct addc_attr {
    double k[3];
};

static bool addcmul_shape(rg_call *c) {
    return rgi_shape_broadcast_numbers(c)
           && rgi_factor_fits(NULL, RG_ATTR(c, addc)->k[0], rgi_computed_in(c->in[0]->dtype));
}

static bool addcmul_forward(rg_call *c) {
    return k_run_with(&k_addcmul, c->out[0], c->in, RG_ATTR(c, addc)->k);
}

static rg_tensor *addcmul_rule_b(const rg_step *s, rg_tensor *g) {
    double k = RG_ATTR(s, addc)->k[0];
    return rg_mul(g, rg_mul(rgi_saved(s, 2), k));
}

static rg_tensor *addcmul_rule_c(const rg_step *s, rg_tensor *g) {
    double k = RG_ATTR(s, addc)->k[0];
    return rg_mul(g, rg_mul(rgi_saved(s, 1), k));
}

RG_OP(addcmul, .doc = "x + value a b", .node = "AddcmulBackward0", .n_in = 3, RG_WITH(addc),
      RG_ELEMENTWISE, .typing = RG_PROMOTED, RG_MADE(addcmul),
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(RG_IN(2), addcmul_rule_b),
                RG_RULE(RG_IN(1), addcmul_rule_c) },
      SAMPLES_3("", RG_A(addc, { 1.5 })));

rg_tensor *(rg_addcmul)(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value) {
    return RG_APPLY(addcmul, RG_A(addc, { value }), x, a, b);
}

rg_tensor *(rg_addcmul_)(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value) {
    return RG_APPLY_(addcmul, RG_A(addc, { value }), x, a, b);
}

/* ---- addcdiv: x + k b / c, where b and c are the arguments a and b of rg_addcdiv; gx = g, gb = k
 *      g / c, gc = -k g b / c^2 ------------------------------------------------- */

static bool addcdiv_shape(rg_call *c) {
    return rgi_shape_broadcast(c)
           && rgi_factor_fits(NULL, RG_ATTR(c, addc)->k[0], rgi_computed_in(c->in[0]->dtype));
}

static bool addcdiv_forward(rg_call *c) {
    return k_run_with(&k_addcdiv, c->out[0], c->in, RG_ATTR(c, addc)->k);
}

static rg_tensor *addcdiv_rule_b(const rg_step *s, rg_tensor *g) {
    double k = RG_ATTR(s, addc)->k[0];
    return rg_mul(g, rg_div(k, rgi_saved(s, 2)));
}

static rg_tensor *addcdiv_rule_c(const rg_step *s, rg_tensor *g) {
    double k = RG_ATTR(s, addc)->k[0];
    rg_tensor *b = rgi_saved(s, 1);
    rg_tensor *c = rgi_saved(s, 2);
    return rg_mul(rg_neg(g), rg_div(rg_mul(b, k), rg_square(c)));
}

RG_OP(addcdiv, .doc = "x + value a / b", .node = "AddcdivBackward0", .n_in = 3, RG_WITH(addc),
      RG_ELEMENTWISE, .typing = RG_PROMOTED, RG_MADE(addcdiv),
      .grad = { RG_RULE(0, rgi_rule_same), RG_RULE(RG_IN(2), addcdiv_rule_b),
                RG_RULE(RG_IN(1) | RG_IN(2), addcdiv_rule_c) },
      SAMPLES_3("z", RG_A(addc, { 1.5 })));

/* Fails with torch's error message if neither a nor b is floating point. */
static bool addcdiv_allows(const char *op, rg_tensor *x, rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(x, op) || !rgi_check(a, op) || !rgi_check(b, op))
        return false;
    RG_FAIL_IF(
        !rgi_is_float(a->dtype) && !rgi_is_float(b->dtype), op,
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
        "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can "
        "be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
        "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
        "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
        "for all dtypes.");
    return true;
}

rg_tensor *(rg_addcdiv)(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value) {
    if (!addcdiv_allows("addcdiv", x, a, b))
        return NULL;
    return RG_APPLY(addcdiv, RG_A(addc, { value }), x, a, b);
}

rg_tensor *(rg_addcdiv_)(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value) {
    if (!addcdiv_allows("addcdiv_", x, a, b))
        return NULL;
    return RG_APPLY_(addcdiv, RG_A(addc, { value }), x, a, b);
}
