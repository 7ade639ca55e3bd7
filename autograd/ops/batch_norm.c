/*
 * batch_norm.c: batch norm. In training it gives each channel mean 0 and variance 1 over the batch;
 * otherwise it normalizes each channel by the running mean and variance. (Norms of rows are in
 * layer_norm.c.) In the formulas, g is the gradient of y, and gx, gweight and gbias are the
 * gradients of x, weight and bias.
 */
#include "norm_dtypes.h"
#include "tensor/observer.h"
#include "tensor/text/digits.h"

#include <math.h>

/* ---- batch_norm: y = h weight + bias, with h = (x - mean) rstd and rstd = 1 / sqrt(var + eps).
 *      Let u = g weight. In training, gx = rstd (u - mean(u) - h mean(u h)); otherwise gx = rstd u.
 *      gweight = sum(g h), and gbias = sum(g). Each product is elementwise, and each mean and sum
 *      is over all dims except the channels ------------------------------------- */

/* The attributes of batch_norm. The op's inputs are x, weight, bias, mean and var. In training,
 * mean and var are RG_NONE. The outputs are y and the mean and var that were used. */
struct batch_norm_attr {
    double eps;
    bool training;
};

static bool batch_norm_shape(rg_call *c) {
    for (int i = 1; i < 3; i++) {
        c->out[i]->dtype = rgi_computed_in((rg_dtype)c->in[0]->dtype);
        c->out[i]->ndim = 1;
        c->out[i]->size[0] = c->in[0]->size[1];
    }
    rgi_copy_shape(c->out[0], c->in[0]);
    return true;
}

static k_batch_norm batch_norm_sizes(const struct batch_norm_attr *a, const rg_tensor *x) {
    const int64_t rows = x->size[0] * x->size[1];
    return (k_batch_norm){ .batch = x->size[0],
                           .channels = x->size[1],
                           .per = rows ? x->numel / rows : 0,
                           .eps = a->eps,
                           .training = a->training };
}

static bool batch_norm_forward(rg_call *c) {
    rg_tensor *t[3];
    const k_batch_norm z = batch_norm_sizes(c->attr, c->in[0]);
    bool ok = rgi_contiguous_copies(3, t, c->in);
    for (int i = 1; i < 3 && ok && !z.training; i++)
        rgi_copy_elements(c->out[i], c->in[i + 2]);
    ok = ok && k_batch_normalize(&z, c->out[0], c->out[1], c->out[2], t[0], t[1], t[2]);
    rgi_release_all(3, t);
    return ok;
}

/* Returns all dims except dim 1, the channels. */
static rg_dims batch_norm_dims(int ndim) {
    rg_dims dims = { .n = ndim - 1 };
    for (int d = 1; d < dims.n; d++)
        dims.v[d] = d + 1;
    return dims;
}

/* Returns t, which has an element for each channel, in a shape that broadcasts with a tensor of
 * ndim dims. */
static rg_tensor *batch_norm_wide(rg_tensor *t, int ndim) {
    return rg_reshape_dims(t, rgi_dims_along(ndim, 1, -1));
}

/* Returns x - mean, and sets *rstd to 1 / sqrt(var + eps) of each channel. If the saved x can't be
 * read, returns NULL and sets *rstd to NULL. */
static rg_tensor *batch_norm_centred(const rg_step *s, rg_tensor **rstd) {
    const struct batch_norm_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *var;
    *rstd = NULL;
    if (!x)
        return NULL;
    const int ndim = x->ndim;
    if (a->training) {
        x = rg_sub(x, rg_mean_dims(x, batch_norm_dims(ndim), true));
        var = rg_mean_dims(rg_square(x), batch_norm_dims(ndim), true);
    } else {
        x = rg_sub(x, batch_norm_wide(rgi_saved(s, 3), ndim));
        var = batch_norm_wide(rgi_saved(s, 4), ndim);
    }
    *rstd = rg_rsqrt(rg_add(var, a->eps));
    return x;
}

/* Returns g times weight, or g if there is no weight. */
static rg_tensor *batch_norm_weighted(const rg_step *s, rg_tensor *g) {
    rg_tensor *w = rgi_saved(s, 1);
    return !g || rgi_is_none(w) ? g : rg_mul(g, batch_norm_wide(w, g->ndim));
}

/* The gradient of x. In training, the outputs mean and var are computed from x, so their gradients
 * are passed on to x as well. */
static rg_tensor *batch_norm_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *rstd;
    rg_tensor *x = batch_norm_centred(s, &rstd);
    g = rgi_step_g(s, 0);
    if (!x)
        return NULL;
    const rg_dims dims = batch_norm_dims(x->ndim);
    if (!RG_ATTR(s, batch_norm)->training)
        return batch_norm_weighted(s, rg_mul(rstd, g));
    rg_tensor *h = rg_mul(x, rstd);
    rg_tensor *along = rg_mul(h, rg_mean_dims(rg_mul(g, h), dims, true));
    rg_tensor *gx = rg_mul(rstd, rg_sub(rg_sub(g, rg_mean_dims(g, dims, true)), along));
    gx = batch_norm_weighted(s, gx);
    if (!gx || (!s->g[1] && !s->g[2]))
        return gx;
    rg_tensor *of_var = rg_mul(rg_mul(batch_norm_wide(rgi_step_g(s, 2), x->ndim), x), 2);
    rg_tensor *more = rg_add(batch_norm_wide(rgi_step_g(s, 1), x->ndim), of_var);
    return rg_add(gx, rg_div(more, (double)(gx->numel / gx->size[1])));
}

/* Sums t over all dims but the channels, and gives the result the shape of the input whose gradient
 * this step computes. */
static rg_tensor *batch_norm_gather(const rg_step *s, rg_tensor *t) {
    if (!t)
        return NULL;
    t = rg_sum_dims(t, batch_norm_dims(t->ndim), false);
    return rg_reshape_dims(t, rgi_input_dims(s, s->input));
}

static rg_tensor *batch_norm_rule_weight(const rg_step *s, rg_tensor *g) {
    rg_tensor *rstd;
    rg_tensor *x = batch_norm_centred(s, &rstd);
    g = rgi_step_g(s, 0);
    return batch_norm_gather(s, rg_mul(g, rg_mul(x, rstd)));
}

static rg_tensor *batch_norm_rule_bias(const rg_step *s, rg_tensor *g) {
    (void)g;
    return batch_norm_gather(s, rgi_step_g(s, 0));
}

/* The gradient of the input mean: the gradient of the output mean, minus sum(g weight rstd) over
 * each channel, where g is the gradient of y. */
static rg_tensor *batch_norm_rule_mean(const rg_step *s, rg_tensor *g) {
    rg_tensor *rstd;
    if (!batch_norm_centred(s, &rstd))
        return NULL;
    g = batch_norm_weighted(s, rgi_step_g(s, 0));
    return rg_sub(rgi_step_g(s, 1), batch_norm_gather(s, rg_mul(g, rstd)));
}

/* The gradient of the input var: the gradient of the output var, minus sum(g weight (x - mean)
 * rstd^3) / 2 over each channel, where g is the gradient of y. */
static rg_tensor *batch_norm_rule_var(const rg_step *s, rg_tensor *g) {
    rg_tensor *rstd;
    rg_tensor *x = batch_norm_centred(s, &rstd);
    g = rg_mul(batch_norm_weighted(s, rgi_step_g(s, 0)), x);
    rg_tensor *cube = rg_mul(rg_square(rstd), rstd);
    return rg_sub(rgi_step_g(s, 2), rg_div(batch_norm_gather(s, rg_mul(g, cube)), 2));
}

/* Computes the wanted gradients of x, weight and bias, unless only the bias's gradient is wanted,
 * or a gradient reached the outputs mean or var. In these cases gin[] stays NULL, and the rules
 * compute the gradients. */
static bool batch_norm_fused(const rg_step *s, rg_tensor *gin[]) {
    if ((!rgi_wants(s, 0) && !rgi_wants(s, 1)) || s->g[1] || s->g[2])
        return true;
    rg_tensor *in[5] = { rgi_step_g(s, 0), rgi_saved(s, 0),
                         rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE, rgi_saved_output_at(s, 1),
                         rgi_saved_output_at(s, 2) };
    rg_tensor *t[5];
    for (int i = 0; i < 5; i++)
        if (!in[i])
            return false;
    bool ok = rgi_contiguous_copies(5, t, in);
    for (int i = 0; i < 3 && ok; i++) {
        if (!rgi_wants(s, i))
            continue;
        rg_dims shape = rgi_input_dims(s, i);
        gin[i] = rgi_new((rg_dtype)t[0]->dtype, shape.n, shape.v);
        ok = gin[i];
    }
    if (ok) {
        const k_batch_norm z = batch_norm_sizes(s->attr, t[1]);
        ok = k_batch_normalize_backward(&z, gin[0], gin[1], gin[2], t[0], t[1], t[2], t[3], t[4]);
    }
    rgi_release_all(5, t);
    return ok;
}

#define BATCH_NORM_SAVED (RG_IN(0) | RG_IN(3) | RG_IN(4) | RG_OUT(1) | RG_OUT(2))
/* BATCH_NORM expands to a test sample (rg_sample). */
#define BATCH_NORM(inputs, eps, training) \
    { inputs, RG_A(batch_norm, eps, training) }
RG_OP(batch_norm, .doc = "(x - mean) / sqrt(var + eps) weight + bias, over the batch",
      .node = "NativeBatchNormBackward0", .n_in = 5, .n_out = 3,
      .optional = RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4), RG_WITH(batch_norm),
      RG_MADE(batch_norm),
      .grad = { RG_RULE(RG_IN(1) | BATCH_NORM_SAVED, batch_norm_rule_x),
                RG_RULE(BATCH_NORM_SAVED, batch_norm_rule_weight), RG_RULE(0, batch_norm_rule_bias),
                RG_RULE(RG_IN(1) | BATCH_NORM_SAVED, batch_norm_rule_mean),
                RG_RULE(RG_IN(1) | BATCH_NORM_SAVED, batch_norm_rule_var) },
      .fused = batch_norm_fused,
      RG_SAMPLES(BATCH_NORM("(4,3) (3) (3) - -", 1e-5, true),
                 BATCH_NORM("(2,3,2) (3) (3) - -", 1e-2, true),
                 BATCH_NORM("(2,2,3,17) - - - -", 1e-5, true),
                 BATCH_NORM("(4,3) (3) (3) (3) p(3)", 1e-5, false),
                 BATCH_NORM("(2,3,2) - (3) (3) p(3)", 1e-2, false),
                 BATCH_NORM("(0,3) (3) (3) (3) p(3)", 1e-5, false)));

/* Copies `value` into the running mean or variance. This isn't recorded, and allocates nothing. */
static bool batch_norm_write(rg_tensor *running, rg_tensor *value) {
    rgi_copy_elements(running, value);
    rgi_count_write(running, "batch_norm");
    return rgi_observe_copy(running, value, "batch_norm");
}

/* Returns (1 - momentum) running + momentum value in this dtype. If one of the two is infinite, so
 * is the result. */
static rg_tensor *batch_norm_moved(rg_tensor *running, rg_tensor *value, double momentum,
                                   rg_dtype dtype) {
    return rg_add_alpha(rg_mul(rg_to(running, dtype), 1 - momentum), value, momentum);
}

/* Updates the running mean and variance, if there are any. The batch's variance, which has the
 * denominator n, is first multiplied by n / (n - 1), where n is the number of elements per channel.
 * If memory runs out, neither running_mean nor running_var is changed. */
static bool batch_norm_moves(rg_tensor *x, rg_tensor *running_mean, rg_tensor *running_var,
                             rg_tensor *const made[], double momentum) {
    if (rgi_is_none(running_mean))
        return true;
    RG_NO_GRAD();
    const double n = (double)(x->numel / x->size[1]);
    rg_tensor *batch_var = rg_mul(rg_detach(made[2]), n / (n - 1));
    const rg_dtype dtype = rgi_computed_in((rg_dtype)x->dtype);
    rg_tensor *mean = batch_norm_moved(running_mean, rg_detach(made[1]), momentum, dtype);
    rg_tensor *var = batch_norm_moved(running_var, batch_var, momentum, dtype);
    return mean && var && batch_norm_write(running_mean, mean)
           && batch_norm_write(running_var, var);
}

/* Returns torch's result for an x without elements: x * weight[0] + bias[0]. An absent weight or
 * bias is left out. */
static rg_tensor *batch_norm_of_none(rg_tensor *x, const rg_batch_norm_options *o) {
    rg_tensor *y = rg_clone(x);
    if (!rgi_is_none(o->weight))
        y = rg_mul(y, rg_select(o->weight, 0, 0));
    if (!rgi_is_none(o->bias))
        y = rg_add(y, rg_select(o->bias, 0, 0));
    return y;
}

/* Fails unless t is RG_NONE or has one element for each channel. */
static bool batch_norm_fits(const char *name, const rg_tensor *t, int64_t channels) {
    RG_FAIL_IF(!rgi_is_none(t) && t->numel != channels, "batch_norm",
               "%s should contain %lld elements not %lld", name, (long long)channels,
               (long long)t->numel);
    return true;
}

static bool batch_norm_allows_values(const rg_tensor *x, const rg_tensor *running_mean,
                                     const rg_tensor *running_var, const rg_batch_norm_options *o) {
    const bool none = rgi_is_none(running_mean);
    RG_FAIL_VALUE_IF(o->training && !(o->eps > 0), "batch_norm",
                     "batch_norm eps must be positive during training, but got %s",
                     rgi_python_float(o->eps));
    RG_FAIL_VALUE_IF(o->eps < 0, "batch_norm", "batch_norm eps must be non-negative, but got %s",
                     rgi_python_float(o->eps));
    RG_FAIL_VALUE_IF(o->training && none != rgi_is_none(running_var), "batch_norm",
                     "running_mean and running_var must either both be None or neither be None");
    int64_t values = x->ndim ? x->size[0] : 0;
    for (int d = 2; d < x->ndim; d++)
        values *= x->size[d];
    RG_FAIL_VALUE_IF(o->training && x->ndim > 1 && values == 1, "batch_norm",
                     "Expected more than 1 value per channel when training, got input size "
                     "torch.Size(%s)",
                     RG_SHAPE_TEXT(x));
    return true;
}

static bool batch_norm_allows(const rg_tensor *x, rg_tensor *running_mean, rg_tensor *running_var,
                              const rg_batch_norm_options *o) {
    rg_tensor *t[] = { running_mean, running_var, o->weight, o->bias };
    static const char *const names[] = { "running_mean", "running_var", "weight", "bias" };
    const int64_t channels = x->ndim > 1 ? x->size[1] : 0;
    for (int i = 0; i < 4; i++) {
        const bool needed = i < 2 && !o->training;
        if (needed && !rgi_want_given("batch_norm", names[i], t[i], "in evaluation mode"))
            return false;
        if (!batch_norm_fits(names[i], t[i], channels))
            return false;
    }
    RG_FAIL_INDEX_IF(x->ndim < 2 && x->numel, "batch_norm",
                     "Dimension out of range (expected to be in range of [%d, %d], but got 1)",
                     -RG_MAX(1, x->ndim), RG_MAX(1, x->ndim) - 1);
    if (!rgi_want_no_grad("batch_norm", names[0], t[0])
        || !rgi_want_no_grad("batch_norm", names[1], t[1]))
        return false;
    return rgi_want_norm_dtypes("batch_norm", x, 4, t, names);
}

rg_tensor *rg_batch_norm_with(rg_tensor *x, rg_tensor *running_mean, rg_tensor *running_var,
                              rg_batch_norm_options o) {
    const char *name = "batch_norm";
    if (!rgi_check(x, name) || !rgi_check_optional(running_mean, name)
        || !rgi_check_optional(running_var, name) || !rgi_check_optional(o.weight, name)
        || !rgi_check_optional(o.bias, name)
        || !batch_norm_allows_values(x, running_mean, running_var, &o)
        || (x->numel && !batch_norm_allows(x, running_mean, running_var, &o)))
        return NULL;
    RG_AS(name);
    RG_SCOPE();
    if (x->numel == 0)
        return rg_escape(batch_norm_of_none(x, &o));
    const struct batch_norm_attr a = { o.eps, o.training };
    rg_tensor *in[] = { x, o.weight, o.bias, o.training ? RG_NONE : running_mean,
                        o.training ? RG_NONE : running_var };
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (!rgi_apply_outputs(&rg_op_batch_norm, &a, sizeof a, 5, in, out))
        return NULL;
    if (o.training && !batch_norm_moves(x, running_mean, running_var, out, o.momentum))
        return NULL;
    return rg_escape(out[0]);
}
