/*
 * loss.c: what a prediction costs: of each element, their sum or their mean.
 */
#include "autograd/op.h"

static bool loss_check(const char *name, rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    if (!rgi_check(x, name) || !rgi_check(t, name) || !rgi_check_optional(o->weight, name)
        || !rgi_check_optional(o->pos_weight, name))
        return false;
    RG_FAIL_VALUE_IF(o->reduction == RG_BATCHMEAN && strcmp(name, "kl_div"), name,
                     "batchmean is not a valid "
                     "value for reduction");
    RG_FAIL_VALUE_IF(o->reduction < RG_MEAN || o->reduction > RG_BATCHMEAN, name,
                     "%d is not a valid value "
                     "for reduction",
                     (int)o->reduction);
    return true;
}

/* torch has no gradient for the weights of most losses. */
static bool loss_constant(const char *name, const char *function, const char *what,
                          const rg_tensor *t) {
    if (rgi_is_none(t) || !t->history || !rg_is_grad_enabled())
        return true;
    return rgi_fail(RG_RUNTIME_ERROR, name,
                    "The function '%s' is not differentiable with respect to argument '%s'. "
                    "This input cannot have requires_grad True.",
                    function, what);
}

static rg_tensor *loss_reduce(rg_tensor *each, rg_reduction how) {
    return how == RG_MEAN ? rg_mean(each) : how == RG_SUM ? rg_sum(each) : each;
}

/* ---- mse, smooth_l1, huber, binary cross entropy: with d = x - t,
 *      d^2;  |d| < beta ? d^2 / 2 beta : |d| - beta / 2;  |d| <= delta ? d^2 / 2 : delta (|d| -
 * delta / 2); -weight (t ln x + (1 - t) ln(1 - x)), logarithms at least -100;  the same of
 * sigmoid(x), t counting pos_weight times. Each is written as its slope by x, from which gx = g
 * weight slope, over n for the mean. ---------------------------- */
/* c: beta, delta, or the least denominator */
struct loss_attr {
    rg_reduction reduction;
    double c;
};
static k_loss_kind loss_kind(const rg_op *op) {
    return RG_IS(op, mse_loss)               ? K_MSE
           : RG_IS(op, smooth_l1_loss)       ? K_SMOOTH_L1
           : RG_IS(op, huber_loss)           ? K_HUBER
           : RG_IS(op, binary_cross_entropy) ? K_BCE
                                             : K_BCE_LOGITS;
}

static bool loss_shape(rg_call *c) {
    rg_tensor *y = c->out[0];
    if (!rgi_broadcast_shapes(c->op->name, c->in[0], c->in[1], y))
        return false;
    for (int i = c->n_in - 1; i >= 2; i--) {
        rg_tensor *w = c->in[i], wide;
        if (rgi_is_none(w) || rgi_same_shape(w, y))
            continue;
        if (!rgi_broadcast_shapes(c->op->name, i == 2 ? y : w, i == 2 ? w : y, &wide))
            return false;
        RG_FAIL_IF(!rgi_same_shape(&wide, y), c->op->name,
                   "output with shape %s doesn't match the broadcast "
                   "shape %s",
                   RG_SHAPE_TEXT(y), RG_SHAPE_TEXT(&wide));
    }
    if (RG_ATTR(c, loss)->reduction != RG_EACH)
        y->ndim = 0;
    return true;
}

static const rg_tensor *loss_optional(int n, rg_tensor *const in[], int i) {
    return i < n && !rgi_is_none(in[i]) ? in[i] : NULL;
}

static bool loss_forward(rg_call *c) {
    const struct loss_attr *a = RG_ATTR(c, loss);
    rg_tensor *y = c->out[0], *each = y, wide;
    if (a->reduction != RG_EACH
        && !(rgi_broadcast_shapes(c->op->name, c->in[0], c->in[1], &wide)
             && (each = rgi_new(y->dtype, wide.ndim, wide.size))))
        return false;
    k_loss(loss_kind(c->op), false, each, c->in[0], c->in[1], loss_optional(c->n_in, c->in, 2),
           loss_optional(c->n_in, c->in, 3), a->c, 1);
    if (each == y)
        return true;
    (a->reduction == RG_MEAN ? k_mean : k_sum)(y, each, (1u << each->ndim) - 1);
    rgi_release(each);
    return true;
}

/* By how much g counts, where there are so many elements. */
static double loss_scale(const struct loss_attr *a, const rg_tensor *each) {
    return a->reduction == RG_MEAN ? 1 / (double)each->numel : 1;
}

static rg_tensor *loss_times(const rg_step *s, rg_tensor *slope, rg_tensor *g) {
    rg_tensor *w = s->n_in > 2 ? rgi_saved(s, 2) : RG_NONE;
    if (!slope || !w)
        return NULL;
    double scale = loss_scale(RG_ATTR(s, loss), slope);
    if (scale != 1)
        g = rg_mul(g, scale);
    return rg_mul(rgi_is_none(w) ? slope : rg_mul(slope, w), g);
}

/* d / max((1 - x) x, c). torch's derivatives of that are not its own: by x (x^2 - 2 x t + t) / ((x
 * + e) (1 - x + e))^2, by t -1 / max((1 - x) x, e), with e = 1e-12. */
static rg_tensor *loss_bce_slope(rg_tensor *x, rg_tensor *t, double c) {
    rg_tensor *x0 = rg_detach(x), *t0 = rg_detach(t), *rest = rg_sub(1, x0),
              *between = rg_mul(rest, x0);
    rg_tensor *top = rg_add(rg_sub(rg_square(x0), rg_mul(rg_mul(x0, t0), 2)), t0);
    rg_tensor *by_x = rg_div(top, rg_square(rg_mul(rg_add(x0, 1e-12), rg_add(rest, 1e-12))));
    rg_tensor *by_t = rg_div(-1, rg_clamp_min(between, 1e-12));
    rg_tensor *value = rg_div(rg_sub(x0, t0), rg_clamp_min(between, c));
    return rg_add(value, rg_add(rg_mul(by_x, rg_sub(x, x0)), rg_mul(by_t, rg_sub(t, t0))));
}

/* NaN stays */
static rg_tensor *loss_sign(rg_tensor *d) {
    return rg_where(rg_isnan(d), rg_detach(d), rg_sign(d));
}

static rg_tensor *loss_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0), *t = rgi_saved(s, 1),
              *w = s->n_in > 3 ? rgi_saved(s, 3) : RG_NONE;
    rg_tensor *d = rg_sub(x, t), *slope;
    double c = RG_ATTR(s, loss)->c;
    switch (loss_kind(s->op)) {
    case K_MSE: slope = rg_mul(d, 2); break;
    case K_SMOOTH_L1: slope = rg_where(rg_lt(rg_abs(d), c), rg_div(d, c), loss_sign(d)); break;
    case K_HUBER: slope = rg_where(rg_lt(rg_abs(d), c), d, rg_mul(loss_sign(d), c)); break;
    case K_BCE: slope = loss_bce_slope(x, t, c); break;
    default:
        slope = rgi_is_none(w) ? rg_sub(rg_sigmoid(x), t)
                               : rg_sub(rg_mul(rg_add(rg_sub(rg_mul(w, t), t), 1), rg_sigmoid(x)),
                                        rg_mul(w, t));
    }
    return loss_times(s, slope, g);
}

static rg_tensor *loss_rule_t(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0), *w = s->n_in > 3 ? rgi_saved(s, 3) : RG_NONE;
    if (RG_IS(s->op, binary_cross_entropy))
        return loss_times(s, rg_sub(rg_log(rg_sub(1, x)), rg_log(x)), g);
    if (s->n_in < 4)
        return rg_neg(loss_rule_x(s, g));
    return loss_times(
        s,
        rgi_is_none(w) ? rg_neg(x) : rg_sub(rg_logsigmoid(rg_neg(x)), rg_mul(w, rg_logsigmoid(x))),
        g);
}

static bool loss_fused(const rg_step *s, rg_tensor *gin[]) {
    const struct loss_attr *a = RG_ATTR(s, loss);
    rg_tensor *in[4], wide;
    if (!rgi_wants(s, 0))
        return true;
    for (int i = 0; i < s->n_in; i++)
        if (!(in[i] = rgi_saved(s, i)))
            return false;
    if (loss_optional(s->n_in, in, 3))
        return true;
    if (!rgi_broadcast_shapes(s->op->name, in[0], in[1], &wide)
        || !(gin[0] = rgi_new(in[0]->dtype, wide.ndim, wide.size)))
        return false;
    k_loss(loss_kind(s->op), true, gin[0], in[0], in[1], loss_optional(s->n_in, in, 2), s->g[0],
           a->c, loss_scale(a, gin[0]));
    return true;
}

#define LOSS_ROW(needs)                                                       \
    RG_WITH(loss), .typing = RG_PROMOTED, RG_MADE(loss), .fused = loss_fused, \
                   .grad = { RG_RULE(needs, loss_rule_x), RG_RULE(needs, loss_rule_t) }
#define LOSS_SAMPLES(c)                                                                        \
    RG_SAMPLES({ "d(2,3) z(2,3)", RG_A(loss, RG_MEAN, c) },                                    \
               { "d(2,2,3) z(3)", RG_A(loss, RG_SUM, c) },                                     \
               { "d(4) z(4)", RG_A(loss, RG_EACH, c) }, { "d() z()", RG_A(loss, RG_EACH, c) }, \
               { "(0,3) (0,3)", RG_A(loss, RG_SUM, c) })
RG_OP(mse_loss, .doc = "(x - t)^2", .node = "MseLossBackward0", .n_in = 2,
      LOSS_ROW(RG_IN(0) | RG_IN(1)), LOSS_SAMPLES(0));
RG_OP(smooth_l1_loss, .doc = "|d| < beta ? d^2 / 2 beta : |d| - beta / 2",
      .node = "SmoothL1LossBackward0", .n_in = 2, LOSS_ROW(RG_IN(0) | RG_IN(1)),
      LOSS_SAMPLES(0.333));
RG_OP(huber_loss, .doc = "|d| <= delta ? d^2 / 2 : delta (|d| - delta / 2)",
      .node = "HuberLossBackward0", .n_in = 2, LOSS_ROW(RG_IN(0) | RG_IN(1)), LOSS_SAMPLES(0.777));
RG_OP(binary_cross_entropy, .doc = "-weight (t ln x + (1 - t) ln(1 - x))",
      .node = "BinaryCrossEntropyBackward0", .n_in = 3, .optional = RG_IN(2),
      LOSS_ROW(RG_IN(0) | RG_IN(1) | RG_IN(2)),
      RG_SAMPLES({ "u(2,3) u(2,3) -", RG_A(loss, RG_MEAN, 1e-12f) },
                 { "u(2,1,3) u(2,1,3) i3(3)", RG_A(loss, RG_EACH, 1e-12f) },
                 { "u() u() -", RG_A(loss, RG_SUM, 1e-12f) },
                 { "u(0,3) u(0,3) -", RG_A(loss, RG_SUM, 1e-12f) }));
RG_OP(binary_cross_entropy_with_logits, .doc = "binary_cross_entropy of sigmoid(x)",
      .node = "BinaryCrossEntropyWithLogitsBackward0", .n_in = 4, .optional = RG_IN(2) | RG_IN(3),
      LOSS_ROW(RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_IN(3)),
      RG_SAMPLES({ "(2,3) u(2,3) - -", RG_A(loss, RG_MEAN, 0) },
                 { "(2,1,3) u(2,1,3) - -", RG_A(loss, RG_EACH, 0) },
                 { "() u() - -", RG_A(loss, RG_SUM, 0) },
                 { "(0,3) u(0,3) - -", RG_A(loss, RG_SUM, 0) }));

static rg_tensor *loss_apply(const rg_op *op, rg_tensor *x, rg_tensor *t, rg_reduction reduction,
                             double c) {
    rg_dtype dtype = rgi_promote(2, (rg_tensor *[]){ x, t });
    static const char *const kernel[] = { "mse_cpu", "smooth_l1_cpu", "huber_cpu" };
    RG_FAIL_DTYPE_IF(!rgi_is_float(dtype), op->name, kernel[loss_kind(op)], dtype);
    return rgi_apply(op, RG_A(loss, reduction, c), sizeof(struct loss_attr), 2,
                     (rg_tensor *[]){ x, t });
}

/* Losses weighted element by element; the mean is over the weights' sum, or over the elements. */
static rg_tensor *loss_weighted(const char *name, rg_tensor *each, rg_tensor *weight,
                                rg_reduction reduction, bool by_weight) {
    if (!each || rgi_is_none(weight))
        return loss_reduce(each, reduction);
    RG_FAIL_VALUE_IF(!rgi_same_shape(each, weight), name,
                     "Weights and input must have the same size.");
    each = rg_mul(each, weight);
    return reduction == RG_MEAN && by_weight ? rg_div(rg_sum(each), rg_sum(weight))
                                             : loss_reduce(each, reduction);
}

rg_tensor *rg_mse_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("mse_loss", x, target, &o))
        return NULL;
    if (rgi_is_none(o.weight))
        return loss_apply(&rg_op_mse_loss, x, target, o.reduction, 0);
    return RG_COMPOSITE("mse_loss", loss_weighted("mse_loss", rg_pow(rg_sub(x, target), 2),
                                                  o.weight, o.reduction, true));
}

rg_tensor *rg_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("l1_loss", x, target, &o))
        return NULL;
    return RG_COMPOSITE("l1_loss", loss_weighted("l1_loss", rg_abs(rg_sub(x, target)), o.weight,
                                                 o.reduction, true));
}

rg_tensor *rg_smooth_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("smooth_l1_loss", x, target, &o))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_is_none(o.weight), "smooth_l1_loss",
                  "smooth_l1_loss() got an unexpected "
                  "keyword argument 'weight'");
    RG_FAIL_IF(!(o.beta >= 0), "smooth_l1_loss",
               "smooth_l1_loss does not support negative values for beta.");
    RG_AS("smooth_l1_loss");
    if (o.beta == 0)
        return rg_l1_loss_with(x, target, o);
    return loss_apply(&rg_op_smooth_l1_loss, x, target, o.reduction, o.beta);
}

rg_tensor *rg_huber_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("huber_loss", x, target, &o))
        return NULL;
    RG_FAIL_IF(!(o.delta > 0), "huber_loss",
               "huber_loss does not support non-positive values for delta.");
    RG_FAIL_IF(!rgi_is_float(x->dtype) && rgi_is_float(target->dtype), "huber_loss",
               "result type %s can't be "
               "cast to the desired output type %s",
               rgi_scalar_name(target->dtype), rgi_scalar_name(x->dtype));
    RG_AS("huber_loss");
    RG_SCOPE();
    bool weighted = !rgi_is_none(o.weight);
    if (rgi_is_float(x->dtype) && !(target = rg_to(target, x->dtype)))
        return NULL;
    rg_tensor *y = loss_apply(&rg_op_huber_loss, x, target, weighted ? RG_EACH : o.reduction,
                              o.delta);
    if (weighted)
        y = loss_weighted("huber_loss", y, o.weight, o.reduction, false);
    return rg_escape(y);
}

/* Is every element in [0, 1]? */
static bool loss_within_unit(rg_tensor *t, const char *what) {
    RG_SCOPE();
    rg_tensor *inside = rg_all(rg_logical_and(rg_ge(rg_detach(t), 0), rg_le(rg_detach(t), 1)));
    if (!inside)
        return false;
    return *(const bool *)inside->data
           || rgi_fail(RG_RUNTIME_ERROR, "binary_cross_entropy",
                       "all elements of %s should be between 0 and 1", what);
}

rg_tensor *rg_binary_cross_entropy_with(rg_tensor *p, rg_tensor *target, rg_loss_options o) {
    const char *name = "binary_cross_entropy";
    if (!loss_check(name, p, target, &o))
        return NULL;
    RG_FAIL_VALUE_IF(
        !rgi_same_shape(p, target), name,
        "Using a target size (torch.Size(%s)) that is different "
        "to the input size (torch.Size(%s)) is deprecated. Please ensure they have the same "
        "size.",
        RG_SHAPE_TEXT(target), RG_SHAPE_TEXT(p));
    const rg_tensor *w = o.weight;
    for (int d = 1; !rgi_is_none(w) && d <= RG_MIN(w->ndim, p->ndim); d++) {
        int64_t mine = w->size[w->ndim - d], other = p->size[p->ndim - d];
        RG_FAIL_IF(
            mine != 1 && mine != other && other != 1, name,
            "Attempting to broadcast a dimension of "
            "length %lld at %d! Mismatching argument at index 1 had torch.Size(%s); but expected shape "
            "should be broadcastable to %s",
            (long long)mine, -d, RG_SHAPE_TEXT(w), RG_SHAPE_TEXT(p));
    }
    if (!loss_constant(name, name, "weight", o.weight))
        return NULL;
    RG_FAIL_IF(p->dtype != target->dtype, name, "Found dtype %s but expected %s",
               rgi_scalar_name(target->dtype), rgi_scalar_name(p->dtype));
    RG_FAIL_DTYPE_IF(!rgi_is_float(p->dtype), name, name, p->dtype);
    if (!loss_within_unit(p, "input") || !loss_within_unit(target, "target"))
        return NULL;
    return RG_COMPOSITE(name,
                        RG_APPLY(binary_cross_entropy, RG_A(loss, o.reduction, 1e-12f), p, target,
                                 rgi_is_none(o.weight) ? RG_NONE : rg_to(o.weight, p->dtype)));
}

/* In torch the result is written over 1 - target, so that the target's dtype is the result's. */
rg_tensor *rg_binary_cross_entropy_with_logits_with(rg_tensor *x, rg_tensor *target,
                                                    rg_loss_options o) {
    const char *name = "binary_cross_entropy_with_logits";
    if (!loss_check(name, x, target, &o))
        return NULL;
    RG_FAIL_VALUE_IF(!rgi_same_shape(x, target), name,
                     "Target size (torch.Size(%s)) must be the same as input "
                     "size (torch.Size(%s))",
                     RG_SHAPE_TEXT(target), RG_SHAPE_TEXT(x));
    if (!loss_constant(name, name, "weight", o.weight)
        || !loss_constant(name, name, "pos_weight", o.pos_weight))
        return NULL;
    RG_FAIL_DTYPE_IF(!rgi_is_float(x->dtype), name, "log_sigmoid_cpu", x->dtype);
    RG_FAIL_IF(target->dtype == RG_BOOL, name,
               "Subtraction, the `-` operator, with two bool tensors is not "
               "supported. Use the `^` or `logical_xor()` operator instead.");
    RG_FAIL_IF(!rgi_is_float(target->dtype), name,
               "result type %s can't be cast to the desired output type "
               "Long",
               rgi_scalar_name(x->dtype));
    rg_tensor *in[4] = { x, target, o.weight, o.pos_weight };
    RG_AS(name);
    RG_SCOPE();
    for (int i = 0; i < 4; i++)
        if (!rgi_is_none(in[i]))
            in[i] = rg_to(in[i], target->dtype);
    return rg_escape(rgi_apply(&rg_op_binary_cross_entropy_with_logits, RG_A(loss, o.reduction, 0),
                               sizeof(struct loss_attr), 4, in));
}

/* ---- kl_div: t (ln t - x), where 0 ln 0 = 0; log_target: e^t (t - x) ------------- */
rg_tensor *rg_kl_div_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("kl_div", x, target, &o))
        return NULL;
    RG_FAIL_IF(!rgi_is_float(x->dtype) || !rgi_is_float(target->dtype), "kl_div",
               "kl_div: Integral inputs not "
               "supported.");
    RG_AS("kl_div");
    RG_SCOPE();
    rg_tensor *y = o.log_target
                       ? rg_mul(rg_exp(target), rg_sub(target, x))
                       : rg_sub(rg_masked_fill(rg_mul(target, rg_log(target)), rg_eq(target, 0), 0),
                                rg_mul(target, x));
    if (o.reduction != RG_BATCHMEAN)
        y = loss_reduce(y, o.reduction);
    else
        y = x->ndim ? rg_div(rg_sum(y), x->size[0]) : rg_sum(y);
    return rg_escape(y);
}

/* ---- nll_loss: -weight[t] x[t] over the classes, which are dim 1 (0 of a vector); the mean is over the sum of the
 *      weights. gx = -weight[t] g at t, 0 elsewhere */
struct nll_loss_attr {
    const char *node;
    int64_t classes, inner, ignore;
    rg_reduction reduction;
};
static bool nll_loss_shape(rg_call *c) {
    if (RG_ATTR(c, nll_loss)->reduction == RG_EACH && c->in[0]->ndim > 1)
        rgi_copy_shape(c->out[0], c->in[1]);
    if (c->n_out > 1)
        c->out[1]->dtype = RG_FLOAT64, c->out[1]->ndim = 1, c->out[1]->size[0] = c->in[1]->numel;
    return true;
}

/* What the kernels work on; *scale is what g counts. */
static bool nll_loss_begin(k_nll_targets *z, const struct nll_loss_attr *a, rg_tensor *target,
                           rg_tensor *weight, double *scale) {
    if (!target || !weight || !(target = rgi_own(rgi_contiguous_copy(target, RG_INT64))))
        return false;
    *z = (k_nll_targets){ target, rgi_is_none(weight) ? NULL : weight, a->classes, a->inner,
                          a->ignore };
    *scale = a->reduction == RG_MEAN ? 1 / k_nll_total(z) : 1;
    return true;
}

static bool nll_loss_forward(rg_call *c) {
    const struct nll_loss_attr *a = RG_ATTR(c, nll_loss);
    rg_tensor *y = c->out[0], *each = y;
    k_nll_targets z;
    double scale;
    RG_SCOPE();
    rg_tensor *x = rgi_own(rgi_contiguous_copy(c->in[0], y->dtype)),
              *t = rgi_own(rgi_contiguous_copy(c->in[1], RG_INT64));
    if (!x || !t)
        return false;
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t class = ((const int64_t *)t->data)[i];
        RG_FAIL_INDEX_IF(class != a->ignore && (class < 0 || class >= a->classes), "nll_loss",
                         "Target %lld "
                         "is out of bounds.",
                         (long long)class);
    }
    if (!nll_loss_begin(&z, a, t, c->in[2], &scale))
        return false;
    if (a->reduction != RG_EACH && !(each = rgi_own(rgi_new(y->dtype, 1, &t->numel))))
        return false;
    if (c->n_out > 1)
        k_cross_entropy(&z, each, c->out[1], x);
    else
        k_nll(&z, each, x);
    if (each != y)
        k_sum(y, each, 1);
    if (a->reduction == RG_MEAN)
        rgi_store_f64(y->data, y->dtype, rgi_load_f64(y->data, y->dtype) * scale);
    return true;
}

static rg_tensor *nll_loss_rule(const rg_step *s, rg_tensor *g) {
    const struct nll_loss_attr *a = RG_ATTR(s, nll_loss);
    rg_dims shape = rgi_input_dims(s, 0);
    rg_tensor *t = rgi_saved(s, 1), *weight = rgi_saved(s, 2), *ignored;
    k_nll_targets z;
    double scale;
    if (!nll_loss_begin(&z, a, t, weight, &scale))
        return NULL;
    ignored = rg_eq(t, a->ignore);
    t = rg_masked_fill(t, ignored, 0);
    g = rg_mul(g,
               rg_masked_fill(rg_full_like(rg_to(t, rgi_input_dtype(s, 0)), -scale), ignored, 0));
    if (t && !rgi_is_none(weight))
        g = rg_mul(g,
                   rg_reshape_dims(rg_index_select(weight, 0, rg_flatten(t, 0, -1)), rg_shape(t)));
    if (shape.n == 1)
        return rg_scatter(rgi_input_zeros(s), 0, t, g);
    return rg_scatter(rgi_input_zeros(s), 1, rg_unsqueeze(t, 1), rg_unsqueeze(g, 1));
}

static bool nll_loss_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_dims shape = rgi_input_dims(s, 0);
    k_nll_targets z;
    double scale;
    rg_dtype dtype = rgi_input_dtype(s, 0);
    bool whole = s->op->n_out > 1; /* cross_entropy, below */
    rg_tensor *g = rgi_step_g(s, 0), *x = whole ? rgi_saved(s, 0) : RG_NONE,
              *lse = whole ? rgi_saved_output_at(s, 1) : RG_NONE;
    rg_tensor *g_lse = whole ? s->g[1] : NULL;
    if (!g || !x || !lse || !(g = rgi_own(rgi_contiguous_copy(g, dtype)))
        || (whole && !(x = rgi_own(rgi_contiguous_copy(x, dtype))))
        || (g_lse && !(g_lse = rgi_own(rgi_contiguous_copy(g_lse, RG_FLOAT64))))
        || !nll_loss_begin(&z, s->attr, rgi_saved(s, 1), rgi_saved(s, 2), &scale)
        || !(gin[0] = rgi_new(dtype, shape.n, shape.v)))
        return false;
    if (whole)
        k_cross_entropy_backward(&z, gin[0], lse, x, g, g_lse, scale);
    else
        k_nll_backward(&z, gin[0], g, scale);
    return true;
}
RG_OP(nll_loss, RG_NAMED(nll_loss), .doc = "-weight[t] x[t]", .node = "NllLossBackward0", .n_in = 3,
      .optional = RG_IN(2), RG_MADE(nll_loss), .fused = nll_loss_fused,
      .grad = { RG_RULE(RG_IN(1) | RG_IN(2), nll_loss_rule), RG_NO_RULE, RG_NO_RULE },
      RG_SAMPLES({ "(3,4) i4(3) -", RG_A(nll_loss, NULL, 4, 1, 1, RG_MEAN) },
                 { "(2,3,2,2) i3(2,2,2) -", RG_A(nll_loss, NULL, 3, 4, 0, RG_EACH) },
                 { "(4) i4() -", RG_A(nll_loss, NULL, 4, 1, -100, RG_SUM) },
                 { "(0,3) i3(0) -", RG_A(nll_loss, NULL, 3, 1, -100, RG_SUM) }));

static bool nll_loss_check(rg_tensor *x, rg_tensor *t, const rg_tensor *weight) {
    const char *type = rgi_scalar_name(x->dtype);
    RG_FAIL_VALUE_IF(x->ndim == 0, "nll_loss", "Expected 1 or more dimensions (got 0)");
    int64_t batch = t->ndim ? t->size[0] : 0, classes = x->size[x->ndim > 1];
    RG_FAIL_VALUE_IF(x->ndim != 1 && x->size[0] != batch, "nll_loss",
                     "Expected input batch_size (%lld) to "
                     "match target batch_size (%lld).",
                     (long long)x->size[0], (long long)batch);
    RG_FAIL_INDEX_IF(x->ndim != 1 && t->ndim == 0, "nll_loss",
                     "Dimension specified as 0 but tensor has no dimensions");
    RG_FAIL_IF(x->ndim <= 2 && t->ndim > 1, "nll_loss",
               "0D or 1D target tensor expected, multi-target not supported");
    RG_FAIL_VALUE_IF(x->ndim == 1 && t->ndim == 1 && batch != 1, "nll_loss",
                     "For 1D input, 1D target must "
                     "have size 1, but got target size: %lld",
                     (long long)batch);
    RG_FAIL_IF(x->ndim == 4 && t->ndim != 3, "nll_loss",
               "only batches of spatial targets supported (3D "
               "tensors) but got targets of dimension: %d",
               t->ndim);
    /* x without its classes */
    RG_PART_HEADER(fitting, *x, (&(rg_part){ RG_PART_INDEX(x->ndim > 1, 0) }));
    bool fits = x->ndim <= 2 || rgi_same_shape(t, &fitting);
    RG_FAIL_IF(!fits && x->ndim == 4, "nll_loss", "size mismatch (got input: %s , target: %s",
               RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(t));
    RG_FAIL_IF(!fits, "nll_loss", "Expected target size %s, got %s", RG_SHAPE_TEXT(&fitting),
               RG_SHAPE_TEXT(t));
    if (!loss_constant("nll_loss", x->ndim > 2 ? "nll_loss2d_forward" : "nll_loss_forward",
                       "weight", weight))
        return false;
    bool odd = !rgi_is_none(weight) && (weight->ndim != 1 || weight->size[0] != classes);
    RG_FAIL_IF(odd && x->ndim > 2, "nll_loss",
               "weight tensor should be defined either for all or no classes");
    RG_FAIL_IF(odd, "nll_loss",
               "weight tensor should be defined either for all %lld classes or no classes but got "
               "weight tensor of shape: %s",
               (long long)classes, RG_SHAPE_TEXT(weight));
    RG_FAIL_IF(t->dtype != RG_INT64, "nll_loss",
               "expected target dtype to be Long or Byte, but got %s", rgi_scalar_name(t->dtype));
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rgi_is_float(x->dtype), "nll_loss",
                  "\"nll_loss%s_out_frame\" not "
                  "implemented for '%s'",
                  x->ndim > 2 ? "2d_forward" : "", type);
    return rgi_is_none(weight) || weight->dtype == x->dtype
           || rgi_fail(RG_RUNTIME_ERROR, "nll_loss", "expected scalar type %s but found %s", type,
                       rgi_scalar_name(weight->dtype));
}

rg_tensor *rg_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("nll_loss", x, target, &o) || !nll_loss_check(x, target, o.weight))
        return NULL;
    bool viewed = o.reduction == RG_EACH && x->ndim > 2 && x->ndim != 4;
    struct nll_loss_attr a = { .classes = x->size[x->ndim > 1],
                               .inner = 1,
                               .ignore = o.ignore_index,
                               .reduction = o.reduction,
                               .node = viewed        ? "ViewBackward0"
                                       : x->ndim > 2 ? "NllLoss2DBackward0"
                                                     : NULL };
    for (int d = 2; d < x->ndim; d++)
        a.inner = (int64_t)((uint64_t)a.inner * (uint64_t)x->size[d]);
    return RG_APPLY(nll_loss, &a, x, target, o.weight);
}

/* ---- cross_entropy: nll_loss of log_softmax; or -sum(t log_softmax(x)) for probabilities ---- */
/* The weights along dim 1, to multiply with. */
static rg_tensor *cross_entropy_along(rg_tensor *weight, const rg_tensor *x) {
    rg_dims shape = { .n = x->ndim };
    for (int d = 0; d < x->ndim; d++)
        shape.v[d] = d == (x->ndim > 1) ? weight->size[0] : 1;
    return rg_reshape_dims(weight, shape);
}

/* Class indices in the last dim, at once: weight[t] (lse - x[t]), and lse = ln sum(e^x), in double,
 * which is all that is kept beside x: gx = G - softmax(x) (sum(G) - g_lse), where G is nll_loss's.
 */
static rg_tensor *cross_entropy_rule(const rg_step *s, rg_tensor *g) {
    int dim = rgi_input_ndim(s, 0) > 1;
    rg_tensor *p = rg_softmax(rgi_saved(s, 0), dim),
              *g_lse = rg_to(rgi_step_g(s, 1), rgi_input_dtype(s, 0));
    g = nll_loss_rule(s, g);
    return rg_sub(
        g, rg_mul(p, rg_sub(rg_sum_dim(g, dim, true), dim ? rg_unsqueeze(g_lse, 1) : g_lse)));
}
RG_OP(cross_entropy, RG_NAMED(nll_loss), .doc = "-weight[t] log_softmax(x)[t]; log sum exp",
      .node = "NllLossBackward0", .n_in = 3, .n_out = 2, .optional = RG_IN(2),
      .shape = nll_loss_shape, .forward = nll_loss_forward, .fused = nll_loss_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_OUT(1), cross_entropy_rule), RG_NO_RULE,
                RG_NO_RULE },
      RG_SAMPLES({ "(2,40) i40(2) -", RG_A(nll_loss, NULL, 40, 1, -100, RG_SUM) },
                 { "(3,4) i4(3) -", RG_A(nll_loss, NULL, 4, 1, 1, RG_EACH) },
                 { "(4) i4() -", RG_A(nll_loss, NULL, 4, 1, -100, RG_MEAN) },
                 { "(0,3) i3(0) -", RG_A(nll_loss, NULL, 3, 1, -100, RG_SUM) }));

static rg_tensor *cross_entropy_apply(rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    const struct nll_loss_attr a = { .classes = x->size[x->ndim > 1],
                                     .inner = 1,
                                     .ignore = o->ignore_index,
                                     .reduction = o->reduction };
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    return nll_loss_check(x, t, o->weight)
                   && rgi_apply_outputs(&rg_op_cross_entropy, &a, sizeof a, 3,
                                        (rg_tensor *[]){ x, t, o->weight }, out)
               ? out[0]
               : NULL;
}

static rg_tensor *cross_entropy_probabilities(rg_tensor *x, rg_tensor *t,
                                              const rg_loss_options *o) {
    int dim = x->ndim > 1;
    int64_t classes = x->size[dim];
    if (o->label_smoothing > 0)
        t = rg_add(rg_mul(t, 1 - o->label_smoothing), o->label_smoothing / (double)classes);
    rg_tensor *y = rg_mul(rg_log_softmax(x, dim), t);
    if (!rgi_is_none(o->weight))
        y = rg_mul(y, cross_entropy_along(o->weight, x));
    if (o->reduction == RG_EACH)
        return rg_neg(rg_sum_dim(y, dim, false));
    y = rg_neg(rg_sum(y));
    return o->reduction == RG_MEAN ? RG_APPLY(over, RG_NO_ATTR, y,
                                              rg_scalar(classes ? (double)(x->numel / classes) : 0))
                                   : y;
}

/* (1 - s) nll + s / classes * what a uniform target costs */
static rg_tensor *cross_entropy_smoothed(rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    int dim = x->ndim > 1;
    double s = o->label_smoothing, classes = (double)x->size[dim];
    rg_tensor *p = rg_log_softmax(x, dim), *nll = rg_nll_loss_with(p, t, *o);
    if (!nll)
        return NULL;
    rg_tensor *ignored = rg_eq(t, o->ignore_index);
    rg_tensor *smooth = rg_neg(rg_sum_dim(
        rgi_is_none(o->weight) ? p : rg_mul(p, cross_entropy_along(o->weight, x)), dim, false));
    smooth = rg_masked_fill(smooth, ignored, 0);
    if (o->reduction != RG_EACH)
        smooth = rg_sum(smooth);
    if (o->reduction == RG_MEAN) {
        k_nll_targets z = { rg_contiguous(t), rgi_is_none(o->weight) ? NULL : o->weight,
                            .ignore = o->ignore_index };
        if (!z.target || !rgi_not_again("cross_entropy"))
            return NULL;
        smooth = rg_div(smooth, k_nll_total(&z));
    }
    return rg_add(rg_mul(nll, 1 - s), rg_mul(smooth, s / classes));
}

rg_tensor *rg_cross_entropy_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    if (!loss_check("cross_entropy", x, target, &o))
        return NULL;
    int dim = x->ndim > 1;
    bool probabilities = rgi_same_shape(x, target);
    RG_FAIL_IF(probabilities && !rgi_is_float(target->dtype), "cross_entropy",
               "Expected floating point type "
               "for target with class probabilities, got %s",
               rgi_scalar_name(target->dtype));
    RG_FAIL_IF(probabilities && o.ignore_index >= 0, "cross_entropy",
               "ignore_index is not supported for "
               "floating point target");
    RG_FAIL_IF(o.label_smoothing > 1, "cross_entropy",
               "label_smoothing must be between 0.0 and 1.0. Got: %g", o.label_smoothing);
    RG_FAIL_INDEX_IF(x->ndim == 0, "cross_entropy",
                     "Dimension out of range (expected to be in range of [-1, "
                     "0], but got 1)");
    RG_FAIL_IF(probabilities && !rgi_is_none(o.weight)
                   && (o.weight->ndim != 1 || o.weight->size[0] != x->size[dim]),
               "cross_entropy",
               "cross_entropy: weight tensor should be defined either for all %lld classes or no "
               "classes but got weight tensor of shape: %s",
               (long long)x->size[dim], RG_SHAPE_TEXT(o.weight));
    return RG_COMPOSITE("cross_entropy", probabilities ? cross_entropy_probabilities(x, target, &o)
                                         : o.label_smoothing > 0
                                             ? cross_entropy_smoothed(x, target, &o)
                                         : x->ndim <= 2 && rgi_is_float(x->dtype)
                                             ? cross_entropy_apply(x, target, &o)
                                             : rg_nll_loss_with(rg_log_softmax(x, dim), target, o));
}
