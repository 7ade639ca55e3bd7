/*
 * norm.c: norms over dims, and the functions normalize, pairwise_distance and cosine_similarity,
 * which are composed of norms. In the formulas, g is the gradient of the result, and gx the
 * gradient of x.
 */
#include "reduce.h"
#include "tensor/text/digits.h"

#include <math.h>

/* ---- norm: y = sum(|x|^p)^(1/p) over dims. For p = 0, y is the number of elements that
 *      aren't 0, for infinity max |x|, and for -infinity min |x|. gx = g x |x|^(p-2) / y^(p-1) */

/* Computes the gradient by torch's formula for each range of p. The gradient is 0 where the norm is
 * 0. If p < 1, it is also 0 where x is 0. For p = 0, returns RG_NONE, since there is no
 * gradient. */
static rg_tensor *norm_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    double p = a->p;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    if (p == 0)
        return RG_NONE;
    g = rgi_reduce_restore(g, x->ndim, a);
    if (p == 1)
        return rg_mul(rg_sign(x), g);
    y = rgi_reduce_restore(y, x->ndim, a);
    if (p == 2)
        return rg_mul(g, rg_masked_fill(rg_div(x, y), rg_eq(y, 0), 0));
    if (p == INFINITY || p == -INFINITY)
        return rg_mul(rg_sign(x), rg_mul(g, rgi_reduce_share(rg_abs(rg_detach(x)), y, a, true)));
    if (p < 1) {
        rg_tensor *power = rg_masked_fill(rg_pow(rg_abs(x), p - 1), rg_eq(x, 0), 0);
        return rg_mul(rg_mul(rg_mul(rg_sign(x), power), g), rg_pow(y, 1 - p));
    }
    rg_tensor *scale = rg_masked_fill(rg_div(g, rg_pow(y, p - 1)), rg_eq(y, 0), 0);
    if (p < 2)
        return rg_mul(rg_mul(rg_sign(x), rg_pow(rg_abs(x), p - 1)), scale);
    return rg_mul(rg_mul(x, rg_pow(rg_abs(x), p - 2)), scale);
}

static bool norm_forward(rg_call *c) {
    const struct reduce_attr *a = c->attr;
    return k_norm(c->out[0], c->in[0], a->dims, a->p);
}

RG_OP(norm, .doc = "sum(|x|^p)^(1/p) over dims", .node = "LinalgVectorNormBackward0", .n_in = 1,
      RG_WITH(reduce), .shape = rgi_reduce_shape, .forward = norm_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, norm_rule) },
      RG_SAMPLES(REDUCED("z(2,3)", RG_UNNAMED, false, 2), REDUCED("z(2,3,4)", 2, false, 1),
                 REDUCED("d(2,3,4)", 5, true, INFINITY), REDUCED("z(4,3)", 2, false, 3),
                 REDUCED("p(4,3)", 1, true, -INFINITY), REDUCED("z(4,3)", 1, false, 1.5),
                 REDUCED("z(4,3)", 2, false, 0.5), REDUCED("z(4,3)", 2, true, -1),
                 REDUCED("z(4,3)", 2, true, 0), REDUCED("z()", RG_UNNAMED, false, 2),
                 REDUCED("(0,3)", 2, false, 2), REDUCED("(3,0)", 2, false, 3)));

/* Fails if x isn't floating point. Also fails if p is negative or infinity and a reduced dim has
 * size 0, because the norm of no elements isn't defined for such a p. `dims` is the list that the
 * caller gave; an empty list means all dims. */
static bool norm_check(rg_tensor *x, double p, const rg_dims *dims) {
    if (!rgi_check(x, "norm"))
        return false;
    RG_FAIL_IF(!rgi_is_float(x->dtype), "norm",
               "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
               rgi_scalar_name(x->dtype));
    if (x->numel || !(p < 0 || p == INFINITY))
        return true;
    RG_FAIL_IF(dims->n == 0, "norm",
               "linalg.vector_norm cannot compute the %s norm on an empty tensor because the "
               "operation does not have an identity",
               rgi_number(p));
    for (int i = 0; i < RG_MIN(dims->n, RG_MAX_DIMS); i++) {
        int d;
        if (!rgi_wrap_dim("norm", dims->v[i], x->ndim, &d))
            return false;
        RG_FAIL_IF(
            x->size[d] == 0, "norm",
            "linalg.vector_norm cannot compute the %s norm on the dimension %lldbecause this "
            "dimension is empty and the operation does not have an identity",
            rgi_number(p), (long long)dims->v[i]);
    }
    return true;
}

static rg_tensor *norm_over(rg_tensor *x, double p, const rg_dims *dims, bool keepdim) {
    if (!norm_check(x, p, dims))
        return NULL;
    return rgi_reduce(&rg_op_norm, x, dims, RG_EVERY_DIM, keepdim, p);
}

rg_tensor *rg_norm(rg_tensor *x) { return rg_norm_p(x, 2); }
rg_tensor *(rg_norm_p)(rg_tensor *x, double p) { return norm_over(x, p, &rg_no_dims, false); }
rg_tensor *(rg_norm_dim)(rg_tensor *x, double p, int dim, bool keep) {
    return norm_over(x, p, &RG_DIMS(dim), keep);
}

rg_tensor *(rg_norm_dims)(rg_tensor *x, double p, rg_dims dims, bool keep) {
    return norm_over(x, p, &dims, keep);
}

/* ---- row_norms: the norms of a matrix's rows, for the max_norm of an embedding. The op norm would
 *      add its large loops to every program with an embedding, although most have no max_norm. This
 *      op needs few loops, and gives the same bits ------------------------------ */

static bool row_norms_forward(rg_call *c) {
    const struct reduce_attr *a = c->attr;
    return k_norm_in_passes(c->out[0], c->in[0], a->dims, a->p);
}

RG_OP(row_norms, .doc = "sum(|x|^p)^(1/p) over each row of a matrix", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = row_norms_forward,
      .no_grad = "embedding's max_norm changes the weights without gradients",
      RG_SAMPLES(REDUCED("z(4,3)", 2, true, 2), REDUCED("z(4,3)", 2, true, 3),
                 REDUCED("z(4,3)", 2, true, 0), REDUCED("(0,3)", 2, true, 2)));

rg_tensor *rgi_row_norms(rg_tensor *x, double p) {
    const rg_dims columns = RG_DIMS(1);
    if (!norm_check(x, p, &columns))
        return NULL;
    return rgi_reduce(&rg_op_row_norms, x, &columns, RG_EVERY_DIM, true, p);
}

/* ---- normalize: x / max(norm_p(x), eps) along dim ------------------------------ */

rg_tensor *(rg_normalize)(rg_tensor *x, double p, int dim, double eps) {
    return RG_COMPOSITE("normalize", rg_div(x, rg_clamp_min(rg_norm_dim(x, p, dim, true), eps)));
}

/* ---- pairwise_distance: norm_p(a - b + eps) along the last dim ----------------- */

rg_tensor *(rg_pairwise_distance)(rg_tensor *a, rg_tensor *b, double p, double eps, bool keepdim) {
    if (!rgi_check(a, "pairwise_distance") || !rgi_check(b, "pairwise_distance"))
        return NULL;
    int last = RG_MAX(a->ndim, b->ndim) - 1;
    return RG_COMPOSITE("pairwise_distance",
                        rg_norm_dim(rg_add(rg_sub(a, b), eps), p, last, keepdim));
}

/* ---- cosine_similarity: sum(a b / (max(norm(a), eps) max(norm(b), eps))) along dim. Very
 *      large elements give the right result here. In torch their squares overflow (from 1e19 on in
 *      float32), and the cosine is 0 or NaN. ------------------------------------ */

/* Numbers between 1 / COSINE_FAR and COSINE_FAR are safe: their squares, and sums of their squares,
 * are in the range of the dtype. */
#define COSINE_FAR_float    0x1p50
#define COSINE_FAR_double   0x1p400
#define COSINE_FAR_bfloat16 0x1p50
#define COSINE_FAR_float16  0x1p6
static double cosine_far(const rg_tensor *t) {
    static const double far[] = RG_BY_FLOAT(COSINE_FAR);
    return far[t->dtype];
}

/* Returns whether the norms of t, which is x expanded, must be computed again, after a division of
 * x (see cosine_scale). `norm` has the norms of the undivided t. The division is needed if a norm
 * is neither 0 nor in the safe range. It is also needed while a training step is recorded for
 * replays, because x may have other values in a replay. The quotient is dense, and sums of its
 * elements may be added in another order than those of an x that isn't dense: such an x is always
 * divided, so that a replay computes the bits of a call. Returns false if t has no elements. */
static bool cosine_needs_scale(const rg_tensor *x, const rg_tensor *t, const rg_tensor *norm) {
    double far = cosine_far(t);
    bool ordinary = !rgi_this.observer && rgi_is_dense(x);
    for (int64_t i = 0; i < norm->numel && ordinary; i++) {
        double v = rgi_load_f64(norm->data + i * (int64_t)rgi_sizeof(norm->dtype), norm->dtype);
        ordinary = v == 0 || (v > 1 / far && v < far);
    }
    return !ordinary && t->numel;
}

/* Returns, for each row of x along dim, the number by which the row is divided. A negative dim
 * stands for one in which x is expanded; then each element is a row. The number is exactly 1 if the
 * row's largest absolute value is in the safe range. The numbers have no history. This changes no
 * gradient, since the cosine doesn't depend on the numbers. */
static rg_tensor *cosine_scale(rg_tensor *x, int dim) {
    RG_NO_GRAD();
    double far = cosine_far(x);
    rg_tensor *largest = dim < 0 ? rg_abs(x) : rg_norm_dim(x, INFINITY, dim, true);
    rg_tensor *scale = rg_div(largest, rg_clamp(largest, 1 / far, far));
    return rg_clamp_min(scale, 1 / (far * far));
}

/* Returns x expanded to the shape. If x has that shape and a history, the result is still a view of
 * x: the gradients of its two uses are added in the view's node, and then to the gradient of x, in
 * the same order with a division of x (see cosine_scale) as without one. */
static rg_tensor *cosine_wide(rg_tensor *x, const rg_tensor *shape) {
    if (!x || (rgi_same_shape(x, shape) && (!x->history || rgi_grad_off)))
        return x;
    rg_dims dims = { .n = shape->ndim };
    memcpy(dims.v, shape->size, sizeof dims.v);
    return rg_expand_dims(x, dims);
}

/* Returns t / max(norm(t), eps), where t is x, expanded to the shape. As in torch, the denominator
 * has norm(t)'s gradient even where its value is eps. Therefore it is computed as norm(t) plus a
 * constant. If a division is needed, x is divided before it is expanded: then t has the same
 * strides as without a division, and sums are added in the same order. */
static rg_tensor *cosine_unit(rg_tensor *x, const rg_tensor *shape, int dim, double eps) {
    rg_tensor *t = cosine_wide(x, shape);
    rg_tensor *norm = rg_norm_dim(t, 2, dim, true);
    if (!norm)
        return NULL;
    if (!cosine_needs_scale(x, t, norm)) {
        rg_tensor *value = rg_detach(norm);
        return rg_div(t, rg_add(norm, rg_sub(rg_clamp_min(value, eps), value)));
    }
    const int expanded = shape->ndim - x->ndim;
    rg_tensor *scale = cosine_scale(x, dim < 0 ? dim + x->ndim : dim - expanded);
    rg_tensor *least = rg_div(eps, scale);
    t = cosine_wide(rg_div(x, scale), shape);
    norm = rg_norm_dim(t, 2, dim, true);
    rg_tensor *value = rg_detach(norm);
    return rg_div(t, rg_add(norm, rg_sub(rg_clamp_min(value, least), value)));
}

rg_tensor *(rg_cosine_similarity)(rg_tensor *a, rg_tensor *b, int dim, double eps) {
    rg_tensor wide = { 0 };
    if (!rgi_check(a, "cosine_similarity") || !rgi_check(b, "cosine_similarity"))
        return NULL;
    RG_FAIL_IF(!(eps >= 0), "cosine_similarity", "eps must be non-negative, got: %s",
               rgi_number(eps));
    rg_dtype dtype = rgi_promote(2, (rg_tensor *[]){ a, b });
    RG_FAIL_IF(!rgi_is_float(dtype), "cosine_similarity",
               "expected common dtype to be floating point, yet common dtype is %s",
               rgi_scalar_name(dtype));
    if (!rgi_broadcast_shapes("cosine_similarity", a, b, &wide))
        return NULL;
    RG_AS("cosine_similarity");
    RG_SCOPE();
    if (!rgi_is_float(a->dtype))
        a = rg_to(a, dtype);
    if (!rgi_is_float(b->dtype))
        b = rg_to(b, dtype);
    if (!a || !b)
        return NULL;
    return rg_escape(rg_sum_dim(
        rg_mul(cosine_unit(a, &wide, dim, eps), cosine_unit(b, &wide, dim, eps)), dim, false));
}
