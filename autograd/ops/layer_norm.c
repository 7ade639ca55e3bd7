/*
 * layer_norm.c: layer norm, group norm and rms norm. They normalize x in rows: the last dims or, in
 * group norm, a group of channels. Layer norm and group norm give each row mean 0 and variance 1;
 * rms norm gives each row a mean square of 1. In the formulas, g is the gradient of y, and gx,
 * gweight and gbias are the gradients of x, weight and bias.
 */
#include "norm_dtypes.h"
#include "tensor/memory.h"
#include "tensor/kernels/limits.h"

#include <string.h>

/* ---- functions for all three norms ------------------------------------------------
 * For each row of x, y = h weight + bias, with h = (x - mean) rstd and rstd = 1 / sqrt(var + eps).
 * Let u = g weight. Then gx = rstd (u - mean(u) - h mean(u h)), gweight = sum(g h), and gbias =
 * sum(g). Each mean is over the row, and each sum is over the elements with the same weight.
 * rms_norm doesn't subtract means: h = x rstd, rstd = 1 / sqrt(mean(x^2) + eps), and gx = rstd (u -
 * h mean(u h)). */

/* The sizes of x, the input of a norm, and eps. x consists of batch * groups rows, and each row is
 * normalized by itself. A row has `channels` weights, and each weight belongs to `per` adjacent
 * elements of the row. */
struct norm_attr {
    int64_t batch, groups, channels, per;
    double eps;
};

static bool norm_centred(const rg_op *op) { return !RG_IS(op, rms_norm); }

static k_norm_rows norm_sizes(const rg_op *op, const struct norm_attr *a) {
    return (k_norm_rows){ .rows = a->batch * a->groups,
                          .n = a->channels * a->per,
                          .groups = a->groups,
                          .per = a->per,
                          .eps = a->eps,
                          .centred = norm_centred(op) };
}

/* Returns a contiguous copy of t, or NULL if t is RG_NONE or memory ran out. */
static rg_tensor *norm_contiguous(rg_tensor *t) {
    return rgi_is_none(t) ? NULL : rgi_contiguous_copy(t, (rg_dtype)t->dtype);
}

static bool norms_forward(rg_call *c) {
    rg_tensor *t[3] = { NULL, NULL, NULL };
    bool ok = true;
    for (int i = 0; i < c->n_in; i++) {
        t[i] = norm_contiguous(c->in[i]);
        ok = ok && (t[i] || rgi_is_none(c->in[i]));
    }
    k_norm_rows z = norm_sizes(c->op, c->attr);
    if (ok)
        ok = k_normalize(&z, c->out[0], t[0], t[1], t[2]);
    for (int i = 0; i < 3; i++)
        rgi_release(t[i]);
    return ok;
}

/* Returns t in the shape (batch, groups, elements of a row). */
static rg_tensor *norm_rows(const rg_step *s, rg_tensor *t) {
    const struct norm_attr *a = s->attr;
    return rg_reshape(t, a->batch, a->groups, a->channels * a->per);
}

/* Returns h, which is (x - mean) rstd or, in rms_norm, x rstd. h has the shape of norm_rows's
 * result. Sets *rstd to the rstd of each row. */
static rg_tensor *norm_unit(const rg_step *s, rg_tensor **rstd) {
    const struct norm_attr *a = s->attr;
    rg_tensor *x = norm_rows(s, rgi_saved(s, 0));
    if (norm_centred(s->op))
        x = rg_sub(x, rg_mean_dim(x, 2, true));
    *rstd = rg_rsqrt(rg_add(rg_mean_dim(rg_square(x), 2, true), a->eps));
    return rg_mul(x, *rstd);
}

static rg_tensor *norm_rule_x(const rg_step *s, rg_tensor *g) {
    const struct norm_attr *a = s->attr;
    rg_tensor *rstd;
    rg_tensor *h = norm_unit(s, &rstd);
    rg_tensor *w = rgi_saved(s, 1);
    g = norm_rows(s, g);
    if (!rgi_is_none(w)) {
        w = rg_expand(rg_reshape(w, a->groups, a->channels, 1), a->groups, a->channels, a->per);
        g = rg_mul(g, rg_reshape(w, a->groups, a->channels * a->per));
    }
    rg_tensor *along = rg_mul(h, rg_mean_dim(rg_mul(g, h), 2, true));
    if (norm_centred(s->op))
        g = rg_sub(g, rg_mean_dim(g, 2, true));
    return rg_reshape_dims(rg_mul(rstd, rg_sub(g, along)), rgi_input_dims(s, 0));
}

/* Sums t over all elements that have the same weight. Gives the result the shape of the weight
 * or bias, whichever this step computes the gradient of. */
static rg_tensor *norm_gather(const rg_step *s, rg_tensor *t) {
    const struct norm_attr *a = s->attr;
    t = rg_reshape(t, a->batch, a->groups, a->channels, a->per);
    return rg_reshape_dims(rg_sum_dims(t, RG_DIMS(0, 3), false), rgi_input_dims(s, s->input));
}

static rg_tensor *norm_rule_weight(const rg_step *s, rg_tensor *g) {
    rg_tensor *rstd;
    g = norm_rows(s, g);
    return norm_gather(s, rg_mul(g, norm_unit(s, &rstd)));
}

static rg_tensor *norm_rule_bias(const rg_step *s, rg_tensor *g) { return norm_gather(s, g); }

/* Stores n sums as the elements of `to`, the gradient of a weight or bias. */
static void norm_store(rg_tensor *to, double *sums, size_t n) {
    const int64_t steps[] = { (int64_t)rgi_sizeof(to->dtype), sizeof *sums };
    rgi_copy_loop(to->dtype, RG_FLOAT64)((char *[]){ to->data, (char *)sums }, steps, (int64_t)n,
                                         NULL);
}

/* Computes the gradients that are wanted. t holds contiguous copies of x, w and g; w may be NULL.
 * `sums` has room for k_norm_parts * 2 * weights numbers, which must be 0. The rows are divided
 * into k_norm_parts groups. In `sums`, each group has `weights` numbers for the gradient of weight,
 * and then `weights` numbers for the gradient of bias. */
static bool norm_backward(const rg_step *s, rg_tensor *gin[], rg_tensor *const t[3], double *sums,
                          size_t weights) {
    const struct norm_attr *a = s->attr;
    k_norm_rows z = norm_sizes(s->op, a);
    for (int i = 0; i < s->n_in; i++) {
        if (!rgi_wants(s, i))
            continue;
        rg_dims shape = rgi_input_dims(s, i);
        gin[i] = rgi_new(t[0]->dtype, shape.n, shape.v);
        if (!gin[i])
            return false;
    }
    bool wants_bias = s->n_in > 2 && gin[2];
    double *weight_sums = gin[1] ? sums : NULL;
    double *bias_sums = wants_bias ? sums + weights : NULL;
    if (!k_normalize_backward(&z, gin[0], weight_sums, bias_sums, t[2], t[0], t[1]))
        return false;
    if (weight_sums)
        norm_store(gin[1], weight_sums, weights);
    if (bias_sums)
        norm_store(gin[2], bias_sums, weights);
    return true;
}

/* Computes the wanted gradients. If only the bias's gradient is wanted, gin[] stays NULL, and the
 * bias's rule computes this gradient. */
static bool norm_fused(const rg_step *s, rg_tensor *gin[]) {
    const struct norm_attr *a = s->attr;
    if (!rgi_wants(s, 0) && !rgi_wants(s, 1))
        return true;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *w = rgi_wants(s, 0) ? rgi_saved(s, 1) : RG_NONE;
    if (!x || !w)
        return false;
    k_norm_rows z = norm_sizes(s->op, a);
    size_t weights = rgi_wants(s, 1) || rgi_wants(s, 2) ? (size_t)(a->groups * a->channels) : 0;
    size_t bytes = (2 * weights * (size_t)k_norm_parts(&z) + 1) * sizeof(double);
    double *sums = rgi_alloc(bytes, RG_MEM_OTHER);
    rg_tensor *t[3] = { norm_contiguous(x), norm_contiguous(w), norm_contiguous(s->g[0]) };
    bool ok = sums && t[0] && (t[1] || rgi_is_none(w)) && t[2];
    if (ok) {
        rgi_clear(sums, bytes);
        ok = norm_backward(s, gin, t, sums, weights);
    }
    for (int i = 0; i < 3; i++)
        rgi_release(t[i]);
    if (sums)
        rgi_free(sums, bytes, RG_MEM_OTHER);
    return ok;
}

/* Returns the product of the sizes of x's dims from `from` up to, but without, `to`. The product
 * may be too large for an int64 only if x has no elements. */
static int64_t norm_product(const rg_tensor *x, int from, int to) {
    uint64_t n = 1;
    for (int d = from; d < to; d++)
        n *= (uint64_t)x->size[d];
    return (int64_t)n;
}

/* Fails unless *shape has a dim, x's shape ends with *shape, and each of the n affine tensors
 * (weight, bias) is RG_NONE or has the shape *shape. `star` is the text after the asterisk in the
 * error message: torch's messages for the different norms differ there. Fills in the sizes of
 * *a. */
static bool norm_shapes(const char *op, const char *star, rg_tensor *x, const rg_dims *shape,
                        rg_tensor *const affine[], int n, struct norm_attr *a) {
    static const char *const names[] = { "weight", "bias" };
    if (!rgi_check(x, op) || !rgi_check_dims(op, shape->n))
        return false;
    for (int i = 0; i < n; i++)
        if (!rgi_check_optional(affine[i], op))
            return false;
    int first = x->ndim - shape->n;
    size_t bytes = (size_t)shape->n * sizeof(int64_t);
    RG_FAIL_IF(shape->n == 0, op,
               "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
               "one element, but got normalized_shape = []");
    for (int i = 0; i < n; i++)
        RG_FAIL_IF(
            !rgi_is_none(affine[i])
                && (affine[i]->ndim != shape->n || memcmp(affine[i]->size, shape->v, bytes)),
            op,
            "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
            "normalized_shape = %s",
            names[i], names[i], RG_SHAPE_TEXT(affine[i]), RG_DIMS_TEXT(shape));
    RG_FAIL_VALUE_IF(first < 0 && n == 1, op,
                     "Input tensor must have at least %d dimensions, but got %d", shape->n,
                     x->ndim);
    RG_FAIL_IF(first < 0 || memcmp(x->size + first, shape->v, bytes), op,
               "Given normalized_shape=%s, expected input with shape [*%s%s, but got input of "
               "size%s",
               RG_DIMS_TEXT(shape), star, RG_DIMS_TEXT(shape) + 1, RG_SHAPE_TEXT(x));
    a->groups = 1;
    a->per = 1;
    a->batch = norm_product(x, 0, first);
    a->channels = norm_product(x, first, x->ndim);
    return true;
}

static bool norm_dtypes(const char *op, const rg_tensor *x, rg_tensor *weight, rg_tensor *bias) {
    rg_tensor *const t[] = { weight, bias };
    return rgi_want_norm_dtypes(op, x, 2, t, (const char *const[]){ "weight", "bias" });
}

#define NORM_GRADIENTS                                                                        \
    .grad = { RG_RULE(RG_IN(0) | RG_IN(1), norm_rule_x), RG_RULE(RG_IN(0), norm_rule_weight), \
              RG_RULE(0, norm_rule_bias) }

/* NORM expands to a test sample (rg_sample). */
#define NORM(inputs, batch_, groups_, channels_, per_, eps_)                                       \
    {                                                                                              \
        inputs, RG_A(norm, .batch = batch_, .groups = groups_, .channels = channels_, .per = per_, \
                     .eps = eps_)                                                                  \
    }

/* ---- layer_norm: (x - mean) / sqrt(var + eps) * weight + bias, over the last dims ---- */

RG_OP(layer_norm, .doc = "(x - mean) / sqrt(var + eps) weight + bias, over the last dims",
      .node = "NativeLayerNormBackward0", .n_in = 3, .optional = RG_IN(1) | RG_IN(2), RG_WITH(norm),
      .shape = rgi_shape_same, .forward = norms_forward, .fused = norm_fused, NORM_GRADIENTS,
      RG_SAMPLES(NORM("(2,3) (3) (3)", 2, 1, 3, 1, 1e-5),
                 NORM("(2,2,3) (2,3) (2,3)", 2, 1, 6, 1, 1e-2),
                 NORM("(2,4) - (4)", 2, 1, 4, 1, 1e-5), NORM("(2,40) (40) -", 2, 1, 40, 1, 0),
                 NORM("(5,3) (3) (3)", 5, 1, 3, 1, 1e-5), NORM("(3) - -", 1, 1, 3, 1, 1e-5),
                 NORM("(0,3) (3) (3)", 0, 1, 3, 1, 1e-5)));

rg_tensor *(rg_layer_norm)(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight,
                           rg_tensor *bias, double eps) {
    struct norm_attr a = { .eps = eps };
    if (!norm_shapes("layer_norm", ", ", x, &normalized_shape, (rg_tensor *[]){ weight, bias }, 2,
                     &a)
        || !norm_dtypes("layer_norm", x, weight, bias))
        return NULL;
    return RG_APPLY(layer_norm, &a, x, weight, bias);
}

/* ---- rms_norm: x / sqrt(mean(x^2) + eps) * weight, over the last dims ---------- */

RG_OP(rms_norm, .doc = "x / sqrt(mean(x^2) + eps) weight, over the last dims",
      .node = "MulBackward0", .n_in = 2, .optional = RG_IN(1), RG_WITH(norm),
      .shape = rgi_shape_same, .forward = norms_forward, .fused = norm_fused, NORM_GRADIENTS,
      RG_SAMPLES(NORM("(2,3) (3)", 2, 1, 3, 1, 1e-5), NORM("(2,2,3) (2,3)", 2, 1, 6, 1, 1e-2),
                 NORM("(2,40) -", 2, 1, 40, 1, 0), NORM("(0,3) (3)", 0, 1, 3, 1, 1e-5)));

rg_tensor *(rg_rms_norm)(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight, double eps) {
    struct norm_attr a = { .eps = eps };
    if (eps == RG_OWN_EPS && x && rgi_is_float(x->dtype))
        a.eps = rgi_epsilon(rgi_computed_in(x->dtype));
    if (!norm_shapes("rms_norm", "", x, &normalized_shape, &weight, 1, &a)
        || !norm_dtypes("rms_norm", x, RG_NONE, RG_NONE))
        return NULL;
    if (rgi_is_none(weight) || weight->dtype == x->dtype)
        return RG_APPLY(rms_norm, &a, x, weight);
    return RG_COMPOSITE("rms_norm", RG_APPLY(rms_norm, &a, x, rg_to(weight, x->dtype)));
}

/* ---- group_norm: (x - mean) / sqrt(var + eps) * weight + bias, over groups of channels ---- */

RG_OP(group_norm, .doc = "(x - mean) / sqrt(var + eps) weight + bias, over groups of channels",
      .node = "NativeGroupNormBackward0", .n_in = 3, .optional = RG_IN(1) | RG_IN(2), RG_WITH(norm),
      .shape = rgi_shape_same, .forward = norms_forward, .fused = norm_fused, NORM_GRADIENTS,
      RG_SAMPLES(NORM("(2,6,3) (6) (6)", 2, 2, 3, 3, 1e-5), NORM("(2,6) (6) (6)", 2, 3, 2, 1, 1e-2),
                 NORM("(2,4,2,9) - -", 2, 2, 2, 18, 1e-5),
                 NORM("(2,2,20) (2) -", 2, 1, 2, 20, 1e-5),
                 NORM("(0,6,3) (6) (6)", 0, 2, 3, 3, 1e-5),
                 NORM("(2,4,0) (4) (4)", 2, 2, 2, 0, 1e-5)));

static bool group_norm_check(rg_tensor *x, int64_t groups, const rg_tensor *weight,
                             const rg_tensor *bias) {
    if (!rgi_want_dims("group_norm", "input", x, 2, RG_MAX_DIMS)
        || !rgi_want_positive("group_norm", "num_groups", 1, &groups))
        return false;
    int64_t channels = x->size[1];
    int64_t rows = x->size[0] * channels / groups;
    rg_dims values = rg_shape(x);
    values.v[0] = rows;
    values.v[1] = groups;
    RG_FAIL_VALUE_IF(x->numel && rows * norm_product(x, 2, x->ndim) == 1, "group_norm",
                     "Expected more than 1 value per channel when training, got input size %s",
                     RG_DIMS_TEXT(&values));
    RG_FAIL_IF(channels % groups, "group_norm",
               "Expected number of channels in input to be divisible by num_groups, but got input "
               "of shape %s and num_groups=%lld",
               RG_SHAPE_TEXT(x), (long long)groups);
    return rgi_want_vector("group_norm", "weight", weight, channels)
           && rgi_want_vector("group_norm", "bias", bias, channels);
}

rg_tensor *(rg_group_norm)(rg_tensor *x, int64_t groups, rg_tensor *weight, rg_tensor *bias,
                           double eps) {
    if (!rgi_check(x, "group_norm") || !rgi_check_optional(weight, "group_norm")
        || !rgi_check_optional(bias, "group_norm") || !group_norm_check(x, groups, weight, bias)
        || !norm_dtypes("group_norm", x, weight, bias))
        return NULL;
    const struct norm_attr a = { .batch = x->size[0],
                                 .groups = groups,
                                 .channels = x->size[1] / groups,
                                 .per = norm_product(x, 2, x->ndim),
                                 .eps = eps };
    return RG_APPLY(group_norm, &a, x, weight, bias);
}
