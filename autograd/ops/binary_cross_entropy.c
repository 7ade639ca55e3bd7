/*
 * binary_cross_entropy.c: the losses binary_cross_entropy, of a probability, and
 * binary_cross_entropy_with_logits, of a logit whose sigmoid is a probability. The target is in [0,
 * 1]. In the formulas, x is the probability or the logit, and t the target; g is the gradient of
 * the loss, and gx and gt are the gradients of x and t.
 */
#include "loss.h"
#include "value_check.h"

#include "autograd/checks.h"

/* ---- bce_slope: (x - t) / max((1 - x) x, c), the derivative of binary_cross_entropy by x; as in
 *      torch, and with e = 1e-12, gx = g (x^2 - 2 x t + t) / ((x + e) (1 - x + e))^2 and
 *      gt = -g / max((1 - x) x, e) -------------------------------------------- */

struct bce_slope_attr {
    double c;
};
static const double slope_e = 1e-12;

/* Returns a 0-d tensor of the dtype, or NULL if memory ran out. */
static rg_tensor *slope_number(rg_dtype dtype, double value) {
    rg_tensor *number = rgi_own(rgi_new(dtype, 0, NULL));
    if (number)
        rgi_fill_number(number, value, 0);
    return number;
}

static bool bce_slope_forward(rg_call *c) {
    RG_SCOPE();
    rg_tensor *y = c->out[0], *x = c->in[0], *t = c->in[1];
    const rg_dtype dtype = (rg_dtype)y->dtype;
    rg_tensor *between = rgi_own(rgi_new_like(y, dtype));
    rg_tensor *one = slope_number(dtype, 1);
    rg_tensor *least = slope_number(dtype, RG_ATTR(c, bce_slope)->c);
    return between && one && least && k_run(k_sub, between, one, x)
           && k_run(k_mul, between, between, x) && k_run(k_maximum, between, between, least)
           && k_run(k_sub, y, x, t) && k_run(k_div, y, y, between);
}

static rg_tensor *bce_slope_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    rg_tensor *top = rg_add(rg_sub(rg_square(x), rg_mul(rg_mul(x, t), 2)), t);
    rg_tensor *below = rg_mul(rg_add(x, slope_e), rg_add(rg_sub(1, x), slope_e));
    return rg_mul(g, rg_div(top, rg_square(below)));
}

static rg_tensor *bce_slope_rule_t(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_mul(g, rg_div(-1, rg_clamp_min(rg_mul(rg_sub(1, x), x), slope_e)));
}

RG_OP(bce_slope, .doc = "(x - t) / max((1 - x) x, c)",
      .node = "BinaryCrossEntropyBackwardBackward0", .n_in = 2, RG_WITH(bce_slope),
      .typing = RG_PROMOTED, .shape = rgi_shape_broadcast, .forward = bce_slope_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), bce_slope_rule_x),
                RG_RULE(RG_IN(0), bce_slope_rule_t) },
      RG_SAMPLES({ "u(2,3) u(2,3)", RG_A(bce_slope, 1e-12f) },
                 { "u(2,1,3) u(2,1,3)", RG_A(bce_slope, 1e-12f) },
                 { "u() u()", RG_A(bce_slope, 1e-12f) },
                 { "u(0,3) u(0,3)", RG_A(bce_slope, 1e-12f) }));

/* ---- binary_cross_entropy: -weight (t ln x + (1 - t) ln(1 - x)), where a logarithm below -100
 *      counts as -100; gx = g weight (x - t) / max((1 - x) x, c) with c = 1e-12,
 *      gt = g weight (ln(1 - x) - ln x) ---------------------------------------- */

static bool bce_forward(rg_call *c) { return rgi_loss_forward(c, K_BCE); }

static rg_tensor *bce_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    const double c = RG_ATTR(s, loss)->c;
    return rgi_loss_gradient(s, RG_APPLY(bce_slope, RG_A(bce_slope, c), x, t), g);
}

static rg_tensor *bce_rule_t(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rgi_loss_gradient(s, rg_sub(rg_log(rg_sub(1, x)), rg_log(x)), g);
}

static bool bce_fused(const rg_step *s, rg_tensor *gin[]) { return rgi_loss_fused(s, gin, K_BCE); }

#define BCE_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2))
RG_OP(binary_cross_entropy, .doc = "-weight (t ln x + (1 - t) ln(1 - x))",
      .node = "BinaryCrossEntropyBackward0", .n_in = 3, .optional = RG_IN(2), RG_WITH(loss),
      .typing = RG_PROMOTED, .shape = rgi_loss_shape, .forward = bce_forward, .fused = bce_fused,
      .grad = { RG_RULE(BCE_NEEDS, bce_rule_x), RG_RULE(BCE_NEEDS, bce_rule_t) },
      RG_SAMPLES({ "u(2,3) u(2,3) -", RG_A(loss, RG_MEAN, 1e-12f) },
                 { "u(2,1,3) u(2,1,3) i3(3)", RG_A(loss, RG_EACH, 1e-12f) },
                 { "u() u() -", RG_A(loss, RG_SUM, 1e-12f) },
                 { "u(0,3) u(0,3) -", RG_A(loss, RG_SUM, 1e-12f) }));

/* Fails with the sentence unless every element of t is in [0, 1]. */
static bool bce_within_unit(rg_tensor *t, const char *sentence) {
    RG_SCOPE();
    rg_tensor *inside = rg_all(rg_logical_and(rg_ge(rg_detach(t), 0), rg_le(rg_detach(t), 1)));
    return rgi_check_values(&(rg_value_check){
        inside, true, RG_RUNTIME_ERROR, "binary_cross_entropy", sentence });
}

static bool bce_check_shapes(const rg_tensor *p, const rg_tensor *target, const rg_tensor *w) {
    const char *name = "binary_cross_entropy";
    RG_FAIL_VALUE_IF(!rgi_same_shape(p, target), name,
                     "Using a target size (torch.Size(%s)) that is different to the input size "
                     "(torch.Size(%s)) is deprecated. Please ensure they have the same size.",
                     RG_SHAPE_TEXT(target), RG_SHAPE_TEXT(p));
    if (rgi_is_none(w))
        return true;
    for (int d = 1; d <= RG_MIN(w->ndim, p->ndim); d++) {
        int64_t mine = w->size[w->ndim - d];
        int64_t other = p->size[p->ndim - d];
        RG_FAIL_IF(mine != 1 && mine != other && other != 1, name,
                   "Attempting to broadcast a dimension of length %lld at %d! Mismatching "
                   "argument at index 1 had torch.Size(%s); but expected shape should be "
                   "broadcastable to %s",
                   (long long)mine, -d, RG_SHAPE_TEXT(w), RG_SHAPE_TEXT(p));
    }
    return true;
}

rg_tensor *rg_binary_cross_entropy_with(rg_tensor *p, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_binary_cross_entropy_with, p, target, o);
    const char *name = "binary_cross_entropy";
    RG_AS(name);
    if (!rgi_loss_check(name, p, target, &o) || !bce_check_shapes(p, target, o.weight)
        || !rgi_loss_constant(name, "weight", o.weight))
        return NULL;
    if (!rgi_want_same_dtype(name, "input", p, "target", target) || !rgi_want_float(name, p)
        || !bce_within_unit(p, "all elements of input should be between 0 and 1")
        || !bce_within_unit(target, "all elements of target should be between 0 and 1"))
        return NULL;
    RG_SCOPE();
    rg_tensor *weight = rgi_is_none(o.weight) ? RG_NONE : rg_to(o.weight, p->dtype);
    return rg_escape(
        RG_APPLY(binary_cross_entropy, RG_A(loss, o.reduction, 1e-12f), p, target, weight));
}

/* ---- binary_cross_entropy_with_logits: binary_cross_entropy of s = sigmoid(x), where the term
 *      t ln s is multiplied by p = pos_weight; gx = g weight ((p t - t + 1) s - p t), gt = g weight
 *      (ln sigmoid(-x) - p ln sigmoid(x)), which is -g weight x for p = 1 ------ */

static bool bce_with_logits_forward(rg_call *c) { return rgi_loss_forward(c, K_BCE_LOGITS); }

static rg_tensor *bce_with_logits_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    rg_tensor *p = rgi_saved(s, 3);
    if (rgi_is_none(p))
        return rgi_loss_gradient(s, rg_sub(rg_sigmoid(x), t), g);
    rg_tensor *factor = rg_add(rg_sub(rg_mul(p, t), t), 1);
    return rgi_loss_gradient(s, rg_sub(rg_mul(factor, rg_sigmoid(x)), rg_mul(p, t)), g);
}

static rg_tensor *bce_with_logits_rule_t(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *p = rgi_saved(s, 3);
    if (rgi_is_none(p))
        return rgi_loss_gradient(s, rg_neg(x), g);
    return rgi_loss_gradient(s, rg_sub(rg_logsigmoid(rg_neg(x)), rg_mul(p, rg_logsigmoid(x))), g);
}

static bool bce_with_logits_fused(const rg_step *s, rg_tensor *gin[]) {
    return rgi_loss_fused(s, gin, K_BCE_LOGITS);
}

#define BCE_LOGITS_NEEDS (RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_IN(3))
RG_OP(binary_cross_entropy_with_logits, .doc = "binary_cross_entropy of sigmoid(x)",
      .node = "BinaryCrossEntropyWithLogitsBackward0", .n_in = 4, .optional = RG_IN(2) | RG_IN(3),
      RG_WITH(loss), .typing = RG_PROMOTED, .shape = rgi_loss_shape,
      .forward = bce_with_logits_forward, .fused = bce_with_logits_fused,
      .grad = { RG_RULE(BCE_LOGITS_NEEDS, bce_with_logits_rule_x),
                RG_RULE(BCE_LOGITS_NEEDS, bce_with_logits_rule_t) },
      RG_SAMPLES({ "(2,3) u(2,3) - -", RG_A(loss, RG_MEAN, 0) },
                 { "(2,1,3) u(2,1,3) - -", RG_A(loss, RG_EACH, 0) },
                 { "() u() - -", RG_A(loss, RG_SUM, 0) },
                 { "(0,3) u(0,3) - -", RG_A(loss, RG_SUM, 0) }));

static bool bce_with_logits_check(const rg_tensor *x, const rg_tensor *target,
                                  const rg_loss_options *o) {
    const char *name = "binary_cross_entropy_with_logits";
    RG_FAIL_VALUE_IF(!rgi_same_shape(x, target), name,
                     "Target size (torch.Size(%s)) must be the same as input size (torch.Size(%s))",
                     RG_SHAPE_TEXT(target), RG_SHAPE_TEXT(x));
    if (!rgi_loss_constant(name, "weight", o->weight)
        || !rgi_loss_constant(name, "pos_weight", o->pos_weight))
        return false;
    RG_FAIL_IF(rgi_is_bool(o->pos_weight->dtype) && o->pos_weight != RG_NONE, name,
               "Subtraction, the `-` operator, with a bool tensor is not supported: pos_weight");
    return rgi_want_float(name, x)
           && rgi_want_cast(name, rgi_is_float(target->dtype), x->dtype, target->dtype);
}

/* All inputs are converted to the target's dtype, so the result has this dtype. Torch's result has
 * the target's dtype as well, because torch computes the loss in place in the tensor 1 - target. */
rg_tensor *rg_binary_cross_entropy_with_logits_with(rg_tensor *x, rg_tensor *target,
                                                    rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_binary_cross_entropy_with_logits_with, x, target, o);
    const char *name = "binary_cross_entropy_with_logits";
    if (!rgi_loss_check(name, x, target, &o) || !bce_with_logits_check(x, target, &o))
        return NULL;
    rg_tensor *in[4] = { x, target, o.weight, o.pos_weight };
    const struct loss_attr a = { o.reduction, 0 };
    RG_AS(name);
    RG_SCOPE();
    for (int i = 0; i < 4; i++)
        if (!rgi_is_none(in[i]))
            in[i] = rg_to(in[i], target->dtype);
    return rg_escape(rgi_apply(&rg_op_binary_cross_entropy_with_logits, &a, sizeof a, 4, in));
}
