/*
 * nll.c: the negative log likelihood: y = -x[target], where x holds the log-probability of each
 * class. (The loss of logits is in cross_entropy.c.) loss.h declares the functions that both files
 * use. In the formulas, g is the gradient of the loss, and gx the gradient of x.
 */
#include "elementwise.h"
#include "loss.h"

#include "autograd/checks.h"

/* ---- functions for all losses over classes ------------------------------------- */

struct nll_loss_attr rgi_nll_attributes(const rg_tensor *x, const rg_loss_options *o) {
    struct nll_loss_attr a = { .classes = x->size[x->ndim > 1],
                               .inner = 1,
                               .ignore = o->ignore_index,
                               .reduction = o->reduction };
    for (int d = 2; d < x->ndim; d++)
        a.inner = (int64_t)((uint64_t)a.inner * (uint64_t)x->size[d]);
    return a;
}

/* The shape function of nll_loss and cross_entropy. Only cross_entropy has a second output, with
 * two elements for each target. They have float32 if x has 16 bits: the gradient needs their digits
 * behind the point. */
bool rgi_nll_shape(rg_call *c) {
    if (RG_ATTR(c, nll_loss)->reduction == RG_EACH && c->in[0]->ndim > 1)
        rgi_copy_shape(c->out[0], c->in[1]);
    if (c->n_out > 1) {
        rgi_copy_shape(c->out[1], c->in[0]);
        c->out[1]->size[c->in[0]->ndim - 1] = 2;
        c->out[1]->dtype = rgi_computed_in((rg_dtype)c->in[0]->dtype);
    }
    return true;
}

/* Fails if a target is neither the ignored index nor a valid class. */
static bool nll_within(const rg_tensor *target, const struct nll_loss_attr *a) {
    const int64_t *class = (const int64_t *)target->data;
    for (int64_t i = 0; i < target->numel; i++)
        RG_FAIL_INDEX_IF((uint64_t)class[i] >= (uint64_t)a->classes && class[i] != a->ignore,
                         "nll_loss", "Target %lld is out of bounds.", (long long)class[i]);
    return true;
}

/* Returns the place of the total. While loops are traced, it must be a block of its own. */
static double *nll_place_of_total(rg_nll *z) {
    return RG_LIKELY(k_set_now() != K_TRACED) ? &z->total : rgi_scope_alloc(sizeof z->total);
}

bool rgi_nll_begin(rg_nll *z, const struct nll_loss_attr *a, rg_dtype dtype, rg_tensor *target,
                   rg_tensor *weight) {
    if (!target || !weight)
        return false;
    target = rgi_own(rgi_contiguous_copy(target, RG_INT64));
    if (!target || !nll_within(target, a))
        return false;
    z->targets = (k_nll_targets){ .target = target,
                                  .weight = rgi_is_none(weight) ? NULL : weight,
                                  .classes = a->classes,
                                  .inner = a->inner,
                                  .ignore = a->ignore };
    if (a->reduction != RG_MEAN)
        return true;
    z->targets.total = nll_place_of_total(z);
    return z->targets.total && k_nll_total(&z->targets, dtype);
}

bool rgi_nll_forward_begin(rg_nll_forward *f, rg_call *c) {
    const struct nll_loss_attr *a = RG_ATTR(c, nll_loss);
    rg_tensor *y = c->out[0];
    f->x = rgi_own(rgi_contiguous_copy(c->in[0], y->dtype));
    rg_tensor *target = rgi_own(rgi_contiguous_copy(c->in[1], RG_INT64));
    if (!f->x || !target || !rgi_nll_begin(&f->nll, a, y->dtype, target, c->in[2]))
        return false;
    f->each = a->reduction == RG_EACH ? y : rgi_own(rgi_new(y->dtype, 1, &target->numel));
    return f->each;
}

void rgi_nll_forward_end(const rg_nll_forward *f, rg_call *c) {
    rg_tensor *y = c->out[0];
    if (f->each != y)
        k_sum(y, f->each, 1);
    if (RG_ATTR(c, nll_loss)->reduction == RG_MEAN)
        k_nll_mean(&f->nll.targets, y);
}

/* The gradient of x: for each target t that isn't ignored, -weight[t] g at class t; elsewhere 0. If
 * the reduction is the mean, the gradient is divided by the sum of the targets' weights. */
rg_tensor *rgi_nll_rule(const rg_step *s, rg_tensor *g) {
    const struct nll_loss_attr *a = RG_ATTR(s, nll_loss);
    rg_dims shape = rgi_input_dims(s, 0);
    rg_tensor *t = rgi_saved(s, 1);
    rg_tensor *weight = rgi_saved(s, 2);
    rg_tensor *ignored = rg_eq(t, a->ignore);
    t = rg_masked_fill(t, ignored, 0);
    rg_tensor *weights;
    if (rgi_is_none(weight))
        weights = rg_full_like(rg_to(t, rgi_input_dtype(s, 0)), 1);
    else
        weights = rg_reshape_dims(rg_index_select(weight, 0, rg_flatten(t, 0, -1)), rg_shape(t));
    if (a->reduction == RG_MEAN) {
        rg_tensor *total = rg_sum(rg_double(rg_masked_fill(weights, ignored, 0)));
        weights = rg_mul(weights, rg_to(rg_reciprocal(total), rgi_input_dtype(s, 0)));
    }
    g = rg_masked_fill(rg_neg(rg_mul(g, weights)), ignored, 0);
    if (shape.n == 1)
        return rg_scatter(rgi_input_zeros(s), 0, t, g);
    return rg_scatter(rgi_input_zeros(s), 1, rg_unsqueeze(t, 1), rg_unsqueeze(g, 1));
}

/* ---- checks of the input, the target and the weight ---------------------------- */

static bool nll_check_target(const rg_tensor *x, const rg_tensor *t) {
    RG_FAIL_VALUE_IF(x->ndim == 0, "nll_loss", "Expected 1 or more dimensions (got 0)");
    int64_t batch = t->ndim ? t->size[0] : 0;
    RG_FAIL_VALUE_IF(x->ndim != 1 && x->size[0] != batch, "nll_loss",
                     "Expected input batch_size (%lld) to match target batch_size (%lld).",
                     (long long)x->size[0], (long long)batch);
    if (x->ndim != 1 && !rgi_want_any_dim("nll_loss", t, 0))
        return false;
    RG_FAIL_IF(x->ndim <= 2 && t->ndim > 1, "nll_loss",
               "0D or 1D target tensor expected, multi-target not supported");
    RG_FAIL_VALUE_IF(x->ndim == 1 && t->ndim == 1 && batch != 1, "nll_loss",
                     "For 1D input, 1D target must have size 1, but got target size: %lld",
                     (long long)batch);
    RG_FAIL_IF(x->ndim == 4 && t->ndim != 3, "nll_loss",
               "only batches of spatial targets supported (3D tensors) but got targets of "
               "dimension: %d",
               t->ndim);
    if (x->ndim <= 2)
        return true;
    RG_PART_HEADER(without_classes, x, (&(rg_part){ RG_PART_INDEX(1, 0) }));
    return rgi_want_shape("nll_loss", "target", t, rg_shape(&without_classes));
}

static bool nll_check_weight(const rg_tensor *x, const rg_tensor *weight) {
    int64_t classes = x->size[x->ndim > 1];
    if (!rgi_loss_constant("nll_loss", "weight", weight))
        return false;
    return rgi_want_vector("nll_loss", "weight", weight, classes);
}

bool rgi_nll_check(rg_tensor *x, rg_tensor *t, const rg_tensor *weight) {
    return nll_check_target(x, t) && nll_check_weight(x, weight)
           && rgi_want_integers("nll_loss", "target", t) && rgi_want_float("nll_loss", x)
           && rgi_want_same_dtype("nll_loss", "input", x, "weight", weight);
}

/* ---- nll_loss: -weight[t] x[t] for each target t. The classes are dim 1 of x, or dim 0 if x is a
 *      vector. The mean is the sum divided by the sum of weight[t]. gx = -weight[t] g at class t,
 *      and 0 at the other classes ----------------------------------------------- */

static bool nll_loss_forward(rg_call *c) {
    rg_nll_forward f;
    RG_SCOPE();
    if (!rgi_nll_forward_begin(&f, c))
        return false;
    if (!k_nll(&f.nll.targets, f.each, f.x))
        return false;
    rgi_nll_forward_end(&f, c);
    return true;
}

static rg_tensor *nll_loss_rule(const rg_step *s, rg_tensor *g) {
    return rgi_flat_in_input(s, rgi_nll_rule(s, g));
}

static bool nll_loss_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_dims shape = rgi_input_dims(s, 0);
    rg_dtype dtype = rgi_input_dtype(s, 0);
    rg_tensor *g = rgi_own(rgi_contiguous_copy(s->g[0], dtype));
    rg_nll z;
    if (!g || !rgi_nll_begin(&z, s->attr, dtype, rgi_saved(s, 1), rgi_saved(s, 2)))
        return false;
    gin[0] = rgi_new(dtype, shape.n, shape.v);
    if (!gin[0])
        return false;
    return k_nll_backward(&z.targets, gin[0], g);
}

RG_OP(nll_loss, RG_NAMED(nll_loss), .doc = "-weight[t] x[t]", .node = "NllLossBackward0", .n_in = 3,
      .optional = RG_IN(2), .shape = rgi_nll_shape, .forward = nll_loss_forward,
      .fused = nll_loss_fused,
      .grad = { RG_RULE(RG_IN(1) | RG_IN(2), nll_loss_rule), RG_NO_RULE, RG_NO_RULE },
      RG_SAMPLES(NLL("(3,4) i4(3) -", 4, 1, 1, RG_MEAN),
                 NLL("(2,3,2,2) i3(2,2,2) -", 3, 4, 0, RG_EACH),
                 NLL("(4) i4() -", 4, 1, -100, RG_SUM), NLL("(0,3) i3(0) -", 3, 1, -100, RG_SUM)));

rg_tensor *rg_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o) {
    RG_LOSS_AUTOCASTS(rg_nll_loss_with, x, target, o);
    if (!rgi_loss_check("nll_loss", x, target, &o))
        return NULL;
    if (rgi_is_byte(target->dtype))
        return RG_COMPOSITE("nll_loss", rg_nll_loss_with(x, rg_to(target, RG_INT64), o));
    if (!rgi_nll_check(x, target, o.weight))
        return NULL;
    struct nll_loss_attr a = rgi_nll_attributes(x, &o);
    if (o.reduction == RG_EACH && x->ndim > 2 && x->ndim != 4)
        a.node = "ViewBackward0";
    else if (x->ndim > 2)
        a.node = "NllLoss2DBackward0";
    return RG_APPLY(nll_loss, &a, x, target, o.weight);
}
