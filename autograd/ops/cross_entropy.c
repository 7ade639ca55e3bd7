/*
 * cross_entropy.c: the loss of logits, for a target of class indices or of class probabilities. In
 * the formulas, x holds the logits, t is a target, g is the gradient of the loss, and gx the
 * gradient of x.
 */
#include "loss.h"

#include "autograd/checks.h"
#include "tensor/observer.h"
#include "tensor/text/digits.h"

/* ---- cross_entropy: for a target of class indices, and an x whose classes are the last dim, y =
 *      -weight[t] (x[t] - max - log_total). Here max is the maximum of the row of x, and log_total
 *      = ln sum(e^(x - max)). The op computes nll_loss of log_softmax in one pass over x. For the
 *      gradient it keeps lse = max + log_total of each row, as two numbers whose sum is lse. They
 *      are the second output. If n is the gradient that nll_loss gives to log_softmax(x), gx = n -
 *      softmax(x) sum(n), where the sum is over the classes --------------------- */

static bool cross_entropy_forward(rg_call *c) {
    rg_nll_forward f;
    RG_SCOPE();
    if (!rgi_nll_forward_begin(&f, c))
        return false;
    if (!k_cross_entropy(&f.nll.targets, f.each, c->out[1], f.x))
        return false;
    rgi_nll_forward_end(&f, c);
    return true;
}

/* Returns the gradient of x for g, the gradient of the second output. No public function returns
 * this output, but each output of an op has a derivative. p is softmax(x). The first of the two
 * numbers counts as lse, and the second as a constant. That is right for rows with |max| < 1024:
 * there the first is lse rounded, and the second the rounding error (see store_shift in
 * loops/cross_entropy.h). */
static rg_tensor *cross_entropy_of_lse(rg_tensor *p, rg_tensor *g) {
    return rg_mul(p, rg_narrow(g, -1, 0, 1));
}

static rg_tensor *cross_entropy_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *p = rg_softmax(rgi_saved(s, 0), -1);
    g = rgi_nll_rule(s, g);
    rg_tensor *gx = rg_sub(g, rg_mul(p, rg_sum_dim(g, -1, true)));
    return s->g[1] ? rg_add(gx, cross_entropy_of_lse(p, rgi_step_g(s, 1))) : gx;
}

/* Computes the gradient of x. If a gradient reached the second output, leaves gin[0] NULL, and the
 * rule computes the gradient of x. */
static bool cross_entropy_fused(const rg_step *s, rg_tensor *gin[]) {
    if (s->g[1])
        return true;
    rg_dims shape = rgi_input_dims(s, 0);
    rg_dtype dtype = rgi_input_dtype(s, 0);
    rg_tensor *g = rgi_step_g(s, 0);
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *shifts = rgi_saved_output_at(s, 1);
    rg_nll z;
    if (!g || !x || !shifts)
        return false;
    g = rgi_own(rgi_contiguous_copy(g, dtype));
    if (!g)
        return false;
    x = rgi_own(rgi_contiguous_copy(x, dtype));
    if (!x)
        return false;
    if (!rgi_nll_begin(&z, s->attr, dtype, rgi_saved(s, 1), rgi_saved(s, 2)))
        return false;
    gin[0] = rgi_new(dtype, shape.n, shape.v);
    return gin[0] && k_cross_entropy_backward(&z.targets, gin[0], shifts, x, g);
}

RG_OP(cross_entropy, RG_NAMED(nll_loss),
      .doc = "-weight[t] log_softmax(x)[t]; log sum exp(x) in two numbers",
      .node = "NllLossBackward0", .n_in = 3, .n_out = 2, .optional = RG_IN(2),
      .shape = rgi_nll_shape, .forward = cross_entropy_forward, .fused = cross_entropy_fused,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1) | RG_IN(2) | RG_OUT(1), cross_entropy_rule), RG_NO_RULE,
                RG_NO_RULE },
      RG_SAMPLES(NLL("(2,40) i40(2) -", 40, 1, -100, RG_SUM),
                 NLL("(3,4) i4(3) -", 4, 1, 1, RG_EACH), NLL("(4) i4() -", 4, 1, -100, RG_MEAN),
                 NLL("(0,3) i3(0) -", 3, 1, -100, RG_SUM)));

static rg_tensor *cross_entropy_of_classes(rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    rg_tensor *in[] = { x, t, o->weight };
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (!rgi_nll_check(x, t, o->weight))
        return NULL;
    const struct nll_loss_attr a = rgi_nll_attributes(x, o);
    return rgi_apply_outputs(&rg_op_cross_entropy, &a, sizeof a, 3, in, out) ? out[0] : NULL;
}

/* ---- the public function: it applies the op, or composes other functions ---- */

/* Returns the weights of the classes in a shape that broadcasts with x: along dim 1, or along dim 0
 * if x is a vector. */
static rg_tensor *cross_entropy_along(rg_tensor *weight, const rg_tensor *x) {
    return rg_reshape_dims(weight, rgi_dims_along(x->ndim, x->ndim > 1, weight->size[0]));
}

/* Returns the loss for a target t of probabilities: -sum(weight t log_softmax(x)) over the classes,
 * reduced as the options say. With a label smoothing s, t is first replaced by (1 - s) t + s /
 * classes. */
static rg_tensor *cross_entropy_of_probabilities(rg_tensor *x, rg_tensor *t,
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
    if (o->reduction != RG_MEAN)
        return y;
    double rows = classes ? (double)(x->numel / classes) : 0;
    return RG_APPLY(over, RG_NO_ATTR, y, rg_wrap_float(rows));
}

/* Computes for each target the sum of the losses of all classes, or 0 if the target is ignored. p
 * is log_softmax(x). Returns these sums, reduced as in nll_loss. */
static rg_tensor *cross_entropy_uniform(rg_tensor *p, rg_tensor *t, const rg_loss_options *o) {
    int dim = p->ndim > 1;
    rg_tensor *ignored = rg_eq(t, o->ignore_index);
    if (!rgi_is_none(o->weight))
        p = rg_mul(p, cross_entropy_along(o->weight, p));
    rg_tensor *y = rg_masked_fill(rg_neg(rg_sum_dim(p, dim, false)), ignored, 0);
    if (o->reduction != RG_EACH)
        y = rg_sum(y);
    if (o->reduction != RG_MEAN || !y)
        return y;
    double total;
    const rg_dtype dtype = rgi_computed_in(y->dtype);
    rg_tensor *weight = rgi_is_none(o->weight) ? RG_NONE : rg_to(o->weight, dtype);
    k_nll_targets z = { .target = rg_contiguous(t),
                        .weight = rgi_is_none(weight) ? NULL : weight,
                        .ignore = o->ignore_index,
                        .total = &total };
    static const char advice[] = ", since label_smoothing reads the targets for the mean; take "
                                 "rg_mean of the losses with .reduction = RG_EACH";
    if (!weight || !z.target || !rgi_may_do_once_or("cross_entropy", advice)
        || !k_nll_total(&z, dtype))
        return NULL;
    return rg_div(y, total);
}

/* Returns (1 - s) nll_loss(log_softmax(x)) + s / classes * (the sum of the losses of all classes),
 * where s is the label smoothing. */
static rg_tensor *cross_entropy_smoothed(rg_tensor *x, rg_tensor *t, const rg_loss_options *o) {
    int dim = x->ndim > 1;
    double s = o->label_smoothing;
    double classes = (double)x->size[dim];
    rg_tensor *p = rg_log_softmax(x, dim);
    rg_tensor *nll = rg_nll_loss_with(p, t, *o);
    if (!nll)
        return NULL;
    rg_tensor *uniform = cross_entropy_uniform(p, t, o);
    return rg_add(rg_mul(nll, 1 - s), rg_mul(uniform, s / classes));
}

static bool cross_entropy_check(const rg_tensor *x, const rg_tensor *target,
                                const rg_loss_options *o) {
    bool probabilities = rgi_same_shape(x, target);
    RG_FAIL_IF(probabilities && !rgi_is_float(target->dtype), "cross_entropy",
               "Expected floating point type for target with class probabilities, got %s",
               rgi_scalar_name(target->dtype));
    RG_FAIL_IF(probabilities && o->ignore_index >= 0, "cross_entropy",
               "ignore_index is not supported for floating point target");
    RG_FAIL_IF(o->label_smoothing > 1, "cross_entropy",
               "label_smoothing must be between 0.0 and 1.0. Got: %s",
               rgi_number(o->label_smoothing));
    RG_FAIL_INDEX_IF(x->ndim == 0, "cross_entropy",
                     "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    const rg_tensor *w = o->weight;
    int64_t classes = x->size[x->ndim > 1];
    return !probabilities || rgi_want_vector("cross_entropy", "weight", w, classes);
}

rg_tensor *rg_cross_entropy_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_cross_entropy_with, x, target, o);
    if (!rgi_loss_check("cross_entropy", x, target, &o) || !cross_entropy_check(x, target, &o))
        return NULL;
    int dim = x->ndim > 1;
    RG_AS("cross_entropy");
    RG_SCOPE();
    if (rgi_is_byte(target->dtype))
        target = rg_to(target, RG_INT64);
    if (!target)
        return NULL;
    if (rgi_same_shape(x, target))
        return rg_escape(cross_entropy_of_probabilities(x, target, &o));
    if (o.label_smoothing > 0)
        return rg_escape(cross_entropy_smoothed(x, target, &o));
    if (x->ndim <= 2 && rgi_is_float(x->dtype))
        return rg_escape(cross_entropy_of_classes(x, target, &o));
    return rg_escape(rg_nll_loss_with(rg_log_softmax(x, dim), target, o));
}
