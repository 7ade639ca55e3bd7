/*
 * loss.c: losses that measure the distance of a prediction from its target (squared, absolute, or a
 * mixture of both), and kl_div. (Losses over classes are in binary_cross_entropy.c, nll.c and
 * cross_entropy.c, losses of embeddings in embedding_loss.c, and losses that measure a likelihood
 * in likelihood_loss.c.) In the formulas, g is the gradient of the loss, and gx and gt are the
 * gradients of the prediction x and the target t.
 */
#include "loss.h"
#include "elementwise.h"

#include "autograd/checks.h"
#include "tensor/messages/warning.h"

/* ---- checks of the options of losses ------------------------------------------- */

bool rgi_loss_check(const char *name, rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    if (!rgi_check(x, name) || !rgi_check(t, name) || !rgi_check_optional(o->weight, name)
        || !rgi_check_optional(o->pos_weight, name))
        return false;
    return (o->reduction == RG_BATCHMEAN && strcmp(name, "kl_div") == 0)
           || rgi_loss_check_reduction(name, o->reduction);
}

bool rgi_loss_check_reduction(const char *name, rg_reduction how) {
    RG_FAIL_VALUE_IF(how == RG_BATCHMEAN, name, "batchmean is not a valid value for reduction");
    RG_FAIL_VALUE_IF(how < RG_MEAN || how > RG_BATCHMEAN, name,
                     "%d is not a valid value for reduction", (int)how);
    return true;
}

/* Warns if x and target have different shapes. They will be broadcast then, which is seldom what
 * the caller wants. */
static void loss_compares_shapes(const char *name, const rg_tensor *x, const rg_tensor *target) {
    if (RG_LIKELY(rgi_same_shape(x, target)))
        return;
    rgi_warn(name,
             "Using a target size (torch.Size(%s)) that is different to the input size "
             "(torch.Size(%s)). This will likely lead to incorrect results due to broadcasting. "
             "Please ensure they have the same size.",
             RG_SHAPE_TEXT(target), RG_SHAPE_TEXT(x));
}

bool rgi_loss_constant(const char *name, const char *what, const rg_tensor *t) {
    return rgi_grad_off || rgi_want_no_grad(name, what, t);
}

rg_tensor *rgi_loss_reduce(rg_tensor *each, rg_reduction how) {
    if (how == RG_MEAN)
        return rg_mean(each);
    return how == RG_SUM ? rg_sum(each) : each;
}

/* Multiplies the loss of each element by the element's weight, and reduces the products. For
 * RG_MEAN, their sum is divided by the sum of the weights if by_weight is set, and otherwise by the
 * number of elements. If there is no weight, the losses are reduced as they are. */
static rg_tensor *loss_weighted(const char *name, rg_tensor *each, rg_tensor *weight,
                                rg_reduction reduction, bool by_weight) {
    if (!each || rgi_is_none(weight))
        return rgi_loss_reduce(each, reduction);
    RG_FAIL_VALUE_IF(!rgi_same_shape(each, weight), name,
                     "Weights and input must have the same size.");
    each = rg_mul(each, weight);
    if (reduction == RG_MEAN && by_weight)
        return rg_div(rg_sum(each), rg_sum(weight));
    return rgi_loss_reduce(each, reduction);
}

/* ---- functions for the ops whose losses k_loss computes ---------------------- */

/* Fails unless the weight (`input` is 2) or the pos_weight (`input` is 3) can be broadcast to y's
 * shape. As in torch, the error message for a weight names y's shape first, and the error message
 * for a pos_weight names the shape of the pos_weight first. */
static bool loss_weight_fits(const rg_call *c, int input) {
    rg_tensor *y = c->out[0];
    rg_tensor *weight = c->in[input];
    rg_tensor wide;
    if (rgi_is_none(weight) || rgi_same_shape(weight, y))
        return true;
    bool y_first = input == 2;
    const rg_tensor *first = y_first ? y : weight;
    const rg_tensor *second = y_first ? weight : y;
    if (!rgi_broadcast_shapes(c->op->name, first, second, &wide))
        return false;
    return rgi_want_no_wider(c->op->name, y, &wide);
}

bool rgi_loss_shape(rg_call *c) {
    if (!rgi_broadcast_shapes(c->op->name, c->in[0], c->in[1], c->out[0]))
        return false;
    for (int i = c->n_in - 1; i >= 2; i--)
        if (!loss_weight_fits(c, i))
            return false;
    if (RG_ATTR(c, loss)->reduction != RG_EACH)
        c->out[0]->ndim = 0;
    else
        rgi_lay_out_between(c->out[0], 2, c->in);
    return true;
}

/* Returns input i, or NULL if the op has no such input or the input is RG_NONE. */
static const rg_tensor *loss_optional(int n, rg_tensor *const in[], int i) {
    return i < n && !rgi_is_none(in[i]) ? in[i] : NULL;
}

bool rgi_loss_forward(rg_call *c, k_loss_kind kind) {
    const struct loss_attr *a = RG_ATTR(c, loss);
    rg_tensor *y = c->out[0];
    rg_tensor *each = y;
    if (a->reduction != RG_EACH) {
        rg_tensor wide;
        if (!rgi_broadcast_shapes(c->op->name, c->in[0], c->in[1], &wide))
            return false;
        each = rgi_new(y->dtype, wide.ndim, wide.size);
        if (!each)
            return false;
    }
    const bool made = k_loss(kind, false, each, c->in[0], c->in[1],
                             loss_optional(c->n_in, c->in, 2), loss_optional(c->n_in, c->in, 3),
                             a->c, 1);
    if (each == y)
        return made;
    uint32_t every_dim = (1u << each->ndim) - 1;
    bool ok = a->reduction == RG_MEAN ? k_mean(y, each, every_dim) : k_sum(y, each, every_dim);
    rgi_release(each);
    return made && ok;
}

/* Returns the number by which g is multiplied: 1 / (the number of elements) if the reduction is the
 * mean, otherwise 1. */
static double loss_scale(const struct loss_attr *a, const rg_tensor *each) {
    return a->reduction == RG_MEAN ? 1 / (double)each->numel : 1;
}

rg_tensor *rgi_loss_gradient(const rg_step *s, rg_tensor *slope, rg_tensor *g) {
    rg_tensor *weight = s->n_in > 2 ? rgi_saved(s, 2) : RG_NONE;
    if (!slope)
        return NULL;
    double scale = loss_scale(RG_ATTR(s, loss), slope);
    if (scale != 1)
        g = rg_mul(g, scale);
    return rg_mul(rgi_is_none(weight) ? slope : rg_mul(slope, weight), g);
}

/* Computes x's gradient if it is wanted, unless there is a pos_weight. The gradients that this
 * function doesn't compute are computed by the rules. */
bool rgi_loss_fused(const rg_step *s, rg_tensor *gin[], k_loss_kind kind) {
    const struct loss_attr *a = RG_ATTR(s, loss);
    rg_tensor *in[4];
    rg_tensor wide;
    if (!rgi_wants(s, 0))
        return true;
    for (int i = 0; i < s->n_in; i++) {
        in[i] = rgi_saved(s, i);
        if (!in[i])
            return false;
    }
    if (loss_optional(s->n_in, in, 3))
        return true;
    if (!rgi_broadcast_shapes(s->op->name, in[0], in[1], &wide))
        return false;
    gin[0] = rgi_new(in[0]->dtype, wide.ndim, wide.size);
    if (!gin[0])
        return false;
    return k_loss(kind, true, gin[0], in[0], in[1], loss_optional(s->n_in, in, 2), s->g[0], a->c,
                  loss_scale(a, gin[0]));
}

/* ---- losses of a tensor without dims and one with dims ------------------------- */

/* Returns whether x and target have different dtypes, and one of them has no dims and isn't a
 * number. Torch expands it before it promotes the dtypes, so that it counts like any other. */
static bool loss_expands(const rg_tensor *x, const rg_tensor *target) {
    return x->dtype != target->dtype && (x->ndim == 0) != (target->ndim == 0)
           && !elementwise_is_number(x->ndim ? target : x);
}

/* Calls the loss with expanded operands. */
static rg_tensor *loss_of_expanded(rg_loss_function *loss, rg_tensor *x, rg_tensor *target,
                                   rg_loss_options o) {
    RG_SCOPE();
    if (x->ndim == 0)
        x = rg_expand_as(x, target);
    else
        target = rg_expand_as(target, x);
    return rg_escape(loss(x, target, o));
}

rg_tensor *rgi_loss_of_casts(rg_loss_function *loss, rg_tensor *const in[], rg_loss_options o) {
    o.weight = in[2];
    o.pos_weight = in[3];
    return loss(in[0], in[1], o);
}

/* ---- losses that measure the distance of x from t ------------------------------ */

#define DISTANCE_SAMPLES(c)                                                                    \
    RG_SAMPLES({ "d(2,3) z(2,3)", RG_A(loss, RG_MEAN, c) },                                    \
               { "d(2,2,3) z(3)", RG_A(loss, RG_SUM, c) },                                     \
               { "d(4) z(4)", RG_A(loss, RG_EACH, c) }, { "d() z()", RG_A(loss, RG_EACH, c) }, \
               { "(0,3) (0,3)", RG_A(loss, RG_SUM, c) })

/* Applies the op. Fails unless the dtype to which x and t are promoted is floating point. */
static rg_tensor *distance_apply(const rg_op *op, rg_tensor *x, rg_tensor *t,
                                 rg_reduction reduction, double c) {
    const struct loss_attr a = { reduction, c };
    rg_tensor *in[] = { x, t };
    rg_dtype dtype = rgi_promote(2, in);
    if (!rgi_want_dtype(op->name, rgi_is_float(dtype), dtype))
        return NULL;
    return rgi_apply(op, &a, sizeof a, 2, in);
}

/* Returns the sign of each element of d: -1, 0 or 1, or NaN for a NaN. */
static rg_tensor *distance_sign(rg_tensor *d) {
    return rg_where(rg_isnan(d), rg_detach(d), rg_sign(d));
}

/* ---- mse_loss: (x - t)^2; gx = 2 (x - t) g, gt = -gx --------------------------- */

static bool mse_loss_forward(rg_call *c) { return rgi_loss_forward(c, K_MSE); }

static rg_tensor *mse_loss_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    return rgi_loss_gradient(s, rg_mul(rg_sub(x, t), 2), g);
}

static rg_tensor *mse_loss_rule_t(const rg_step *s, rg_tensor *g) {
    return rg_neg(mse_loss_rule_x(s, g));
}

static bool mse_loss_fused(const rg_step *s, rg_tensor *gin[]) {
    return rgi_loss_fused(s, gin, K_MSE);
}

RG_OP(mse_loss, .doc = "(x - t)^2", .node = "MseLossBackward0", .n_in = 2, RG_WITH(loss),
      .typing = RG_PROMOTED, .shape = rgi_loss_shape, .forward = mse_loss_forward,
      .fused = mse_loss_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), mse_loss_rule_x),
                RG_RULE(RG_IN(0) | RG_IN(1), mse_loss_rule_t) },
      DISTANCE_SAMPLES(0));

rg_tensor *rg_mse_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_mse_loss_with, x, target, o);
    if (!rgi_loss_check("mse_loss", x, target, &o))
        return NULL;
    loss_compares_shapes("mse_loss", x, target);
    if (loss_expands(x, target))
        return loss_of_expanded(rg_mse_loss_with, x, target, o);
    if (rgi_is_none(o.weight))
        return distance_apply(&rg_op_mse_loss, x, target, o.reduction, 0);
    return RG_COMPOSITE("mse_loss", loss_weighted("mse_loss", rg_pow(rg_sub(x, target), 2),
                                                  o.weight, o.reduction, true));
}

/* ---- l1_loss: |x - t| ---------------------------------------------------------- */

rg_tensor *rg_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_l1_loss_with, x, target, o);
    if (!rgi_loss_check("l1_loss", x, target, &o))
        return NULL;
    loss_compares_shapes("l1_loss", x, target);
    if (loss_expands(x, target))
        return loss_of_expanded(rg_l1_loss_with, x, target, o);
    return RG_COMPOSITE("l1_loss", loss_weighted("l1_loss", rg_abs(rg_sub(x, target)), o.weight,
                                                 o.reduction, true));
}

/* ---- smooth_l1_loss: |d| < beta ? d^2 / (2 beta) : |d| - beta / 2, with d = x - t; gx = |d|
 *      < beta ? g d / beta : g sign(d), gt = -gx -------------------------------- */

static bool smooth_l1_loss_forward(rg_call *c) { return rgi_loss_forward(c, K_SMOOTH_L1); }

static rg_tensor *smooth_l1_loss_rule_x(const rg_step *s, rg_tensor *g) {
    double beta = RG_ATTR(s, loss)->c;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    rg_tensor *d = rg_sub(x, t);
    rg_tensor *slope = rg_where(rg_lt(rg_abs(d), beta), rg_div(d, beta), distance_sign(d));
    return rgi_loss_gradient(s, slope, g);
}

static rg_tensor *smooth_l1_loss_rule_t(const rg_step *s, rg_tensor *g) {
    return rg_neg(smooth_l1_loss_rule_x(s, g));
}

static bool smooth_l1_loss_fused(const rg_step *s, rg_tensor *gin[]) {
    return rgi_loss_fused(s, gin, K_SMOOTH_L1);
}

RG_OP(smooth_l1_loss, .doc = "|d| < beta ? d^2 / 2 beta : |d| - beta / 2",
      .node = "SmoothL1LossBackward0", .n_in = 2, RG_WITH(loss), .typing = RG_PROMOTED,
      .shape = rgi_loss_shape, .forward = smooth_l1_loss_forward, .fused = smooth_l1_loss_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), smooth_l1_loss_rule_x),
                RG_RULE(RG_IN(0) | RG_IN(1), smooth_l1_loss_rule_t) },
      DISTANCE_SAMPLES(0.333));

rg_tensor *rg_smooth_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_smooth_l1_loss_with, x, target, o);
    if (!rgi_loss_check("smooth_l1_loss", x, target, &o))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_is_none(o.weight), "smooth_l1_loss",
                  "smooth_l1_loss() got an unexpected keyword argument 'weight'");
    loss_compares_shapes("smooth_l1_loss", x, target);
    if (loss_expands(x, target))
        return loss_of_expanded(rg_smooth_l1_loss_with, x, target, o);
    RG_FAIL_IF(!(o.beta >= 0), "smooth_l1_loss",
               "smooth_l1_loss does not support negative values for beta.");
    RG_AS("smooth_l1_loss");
    if (o.beta == 0)
        return rg_l1_loss_with(x, target, o);
    return distance_apply(&rg_op_smooth_l1_loss, x, target, o.reduction, o.beta);
}

/* ---- huber_loss: |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2), with d = x - t; gx = |d|
 *      < delta ? g d : g delta sign(d), gt = -gx -------------------------------- */

static bool huber_loss_forward(rg_call *c) { return rgi_loss_forward(c, K_HUBER); }

static rg_tensor *huber_loss_rule_x(const rg_step *s, rg_tensor *g) {
    double delta = RG_ATTR(s, loss)->c;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    rg_tensor *d = rg_sub(x, t);
    rg_tensor *slope = rg_where(rg_lt(rg_abs(d), delta), d, rg_mul(distance_sign(d), delta));
    return rgi_loss_gradient(s, slope, g);
}

static rg_tensor *huber_loss_rule_t(const rg_step *s, rg_tensor *g) {
    return rg_neg(huber_loss_rule_x(s, g));
}

static bool huber_loss_fused(const rg_step *s, rg_tensor *gin[]) {
    return rgi_loss_fused(s, gin, K_HUBER);
}

RG_OP(huber_loss, .doc = "|d| <= delta ? d^2 / 2 : delta (|d| - delta / 2)",
      .node = "HuberLossBackward0", .n_in = 2, RG_WITH(loss), .typing = RG_PROMOTED,
      .shape = rgi_loss_shape, .forward = huber_loss_forward, .fused = huber_loss_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), huber_loss_rule_x),
                RG_RULE(RG_IN(0) | RG_IN(1), huber_loss_rule_t) },
      DISTANCE_SAMPLES(0.777));

rg_tensor *rg_huber_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_huber_loss_with, x, target, o);
    if (!rgi_loss_check("huber_loss", x, target, &o))
        return NULL;
    loss_compares_shapes("huber_loss", x, target);
    RG_FAIL_IF(!(o.delta > 0), "huber_loss",
               "huber_loss does not support non-positive values for delta.");
    if (!rgi_want_cast("huber_loss", rgi_is_float(x->dtype) || !rgi_is_float(target->dtype),
                       target->dtype, x->dtype))
        return NULL;
    RG_AS("huber_loss");
    RG_SCOPE();
    if (rgi_is_float(x->dtype))
        target = rg_to(target, x->dtype);
    if (!target)
        return NULL;
    bool weighted = !rgi_is_none(o.weight);
    rg_tensor *y = distance_apply(&rg_op_huber_loss, x, target, weighted ? RG_EACH : o.reduction,
                                  o.delta);
    if (weighted)
        y = loss_weighted("huber_loss", y, o.weight, o.reduction, false);
    return rg_escape(y);
}

/* ---- kl_div: t (ln t - x), where 0 ln 0 counts as 0; with log_target, e^t (t - x) ---- */

rg_tensor *rg_kl_div_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_kl_div_with, x, target, o);
    if (!rgi_loss_check("kl_div", x, target, &o))
        return NULL;
    RG_FAIL_IF(!rgi_is_float(x->dtype) || !rgi_is_float(target->dtype), "kl_div",
               "kl_div: Integral inputs not supported.");
    RG_AS("kl_div");
    RG_SCOPE();
    if (o.reduction == RG_MEAN)
        rgi_warn("kl_div",
                 "reduction: 'mean' divides the total loss by both the batch size and the support "
                 "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
                 "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
                 "major release.");
    rg_tensor *y;
    if (o.log_target) {
        y = rg_mul(rg_exp(target), rg_sub(target, x));
    } else {
        y = rg_sub(rg_xlogy(target, target), rg_mul(target, x));
    }
    if (o.reduction != RG_BATCHMEAN)
        y = rgi_loss_reduce(y, o.reduction);
    else
        y = x->ndim ? rg_div(rg_sum(y), x->size[0]) : rg_sum(y);
    return rg_escape(y);
}
