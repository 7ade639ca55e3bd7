/*
 * distance.c: the distances between all rows of two matrices, or of two batches of matrices. (The
 * norm of one tensor is in norm.c.) In the formulas, g is the gradient of y, and ga and gb are the
 * gradients of a and b.
 */
#include "autocast.h"
#include "autograd/checks.h"

#include <math.h>
#include <string.h>

/* ---- functions for both distance ops ------------------------------------------- */

/* The shape function: a is (.., n, k), b is (.., m, k), and y becomes (.., n, m). Requires that a
 * and b have the same batch dims. */
static bool distance_shape(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, c->in[0]);
    y->size[y->ndim - 1] = c->in[1]->size[y->ndim - 2];
    return true;
}

/* Returns t with a new dim of size 1. `from_end` is the number of t's dims that come after the new
 * dim: 0 makes it the last dim, 1 puts it before t's last dim, and 2 before t's last two dims. */
static rg_tensor *distance_apart(rg_tensor *t, int from_end) {
    return rg_unsqueeze(t, -1 - from_end);
}

/* ---- cdist: y_ij = sum_k(|a_ik - b_jk|^p)^(1/p). For p = 0, y_ij is the number of k with
 *      a_ik != b_jk, and for p = infinity the largest |a_ik - b_jk|. With d_ijk = a_ik - b_jk, the
 *      gradients are ga_ik = sum_j(g_ij d_ijk |d_ijk|^(p-2) / y_ij^(p-1)), and gb_jk is minus the
 *      sum over i of the same terms -------------------------------------------- */

struct cdist_attr {
    double p;
};

static bool cdist_forward(rg_call *c) {
    RG_SCOPE();
    rg_tensor *a = rgi_own(rgi_contiguous_copy(c->in[0], c->in[0]->dtype));
    rg_tensor *b = rgi_own(rgi_contiguous_copy(c->in[1], c->in[1]->dtype));
    return a && b && k_distance(c->out[0], a, b, RG_ATTR(c, cdist)->p);
}

/* Returns the sign of each difference, or NaN where the difference is NaN. */
static rg_tensor *cdist_sign(rg_tensor *d) { return rg_where(rg_isnan(d), d, rg_sign(d)); }

/* Returns the derivative of the distance y with respect to each difference d. As in torch, there is
 * a formula for each range of p. The derivative is 0 where y is 0; if p < 1, it is also 0 where d
 * is 0. */
static rg_tensor *cdist_slope(rg_tensor *d, rg_tensor *y, double p) {
    if (!y)
        return NULL;
    if (p == 1)
        return cdist_sign(d);
    if (p == 2)
        return rg_masked_fill(rg_div(d, y), rg_eq(y, 0), 0);
    if (p == INFINITY)
        return rg_mul(cdist_sign(d), rg_eq(rg_abs(d), y));
    rg_tensor *flat = rg_eq(y, 0);
    if (p < 1)
        flat = rg_logical_or(flat, rg_eq(d, 0));
    rg_tensor *power = p < 2 ? rg_mul(rg_sign(d), rg_pow(rg_abs(d), p - 1))
                             : rg_mul(d, rg_pow(rg_abs(d), p - 2));
    return rg_masked_fill(rg_div(power, rg_pow(y, p - 1)), flat, 0);
}

/* Returns t with all its batch dims joined to one. */
static rg_tensor *cdist_flat(rg_tensor *t) {
    if (!rgi_check(t, "cdist"))
        return NULL;
    int64_t batch = 1;
    for (int d = 0; d < t->ndim - 2; d++)
        batch *= t->size[d];
    return rg_reshape(t, batch, t->size[t->ndim - 2], t->size[t->ndim - 1]);
}

/* Returns g times the derivative of each distance with respect to each difference. The result's
 * shape is (batch, n, m, k). */
static rg_tensor *cdist_slopes(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = distance_apart(cdist_flat(rgi_saved(s, 0)), 1);
    rg_tensor *b = distance_apart(cdist_flat(rgi_saved(s, 1)), 2);
    rg_tensor *y = distance_apart(cdist_flat(rgi_saved_output(s)), 0);
    rg_tensor *slope = cdist_slope(rg_sub(a, b), y, RG_ATTR(s, cdist)->p);
    return rg_mul(distance_apart(cdist_flat(g), 0), slope);
}

static rg_tensor *cdist_rule_a(const rg_step *s, rg_tensor *g) {
    if (RG_ATTR(s, cdist)->p == 0)
        return rgi_input_zeros(s);
    return rg_reshape_dims(rg_sum_dim(cdist_slopes(s, g), 2, false), rgi_input_dims(s, 0));
}

static rg_tensor *cdist_rule_b(const rg_step *s, rg_tensor *g) {
    if (RG_ATTR(s, cdist)->p == 0)
        return rgi_input_zeros(s);
    return rg_reshape_dims(rg_neg(rg_sum_dim(cdist_slopes(s, g), 1, false)), rgi_input_dims(s, 1));
}

static bool cdist_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *in[4] = { rgi_saved(s, 0), rgi_saved(s, 1), rgi_saved_output(s), rgi_step_g(s, 0) };
    double p = RG_ATTR(s, cdist)->p;
    for (int i = 0; i < 4; i++) {
        if (!in[i])
            return false;
        in[i] = rgi_own(rgi_contiguous_copy(in[i], in[i]->dtype));
        if (!in[i])
            return false;
    }
    for (int i = 0; i < 2 && p != 0; i++) {
        if (!rgi_wants(s, i))
            continue;
        gin[i] = rgi_new_like(in[i], in[i]->dtype);
        if (!gin[i] || !k_distance_backward(gin[i], in[3], in[i], in[1 - i], in[2], p, i == 1))
            return false;
    }
    return true;
}

#define CDIST_NEEDS (RG_IN(0) | RG_IN(1) | RG_OUTPUT)
/* CDIST(inputs, p) expands to a test sample (rg_sample). */
#define CDIST(inputs, p) \
    { inputs, RG_A(cdist, p) }
RG_OP(cdist, .doc = "distances between the rows of two matrices", .node = "CdistBackward0",
      RG_WITH(cdist), .n_in = 2, .shape = distance_shape, .forward = cdist_forward,
      .fused = cdist_fused,
      .grad = { RG_RULE(CDIST_NEEDS, cdist_rule_a), RG_RULE(CDIST_NEEDS, cdist_rule_b) },
      RG_SAMPLES(CDIST("(3,2) (4,2)", 2), CDIST("(2,3,5) (2,2,5)", 1), CDIST("(3,2) (2,2)", 3),
                 CDIST("(2,20) (3,20)", 1.5), CDIST("(2,4) (3,4)", 0.5),
                 CDIST("(2,17) (3,17)", INFINITY), CDIST("(2,4) (3,4)", 0), CDIST("(0,3) (2,3)", 2),
                 CDIST("(2,0) (3,0)", 2)));

/* ---- euclidean_dist: cdist for p = 2, computed from a matrix product: y_ij = sqrt(|a_i|^2 -
 *      2 a_i b_j + |b_j|^2), where a_i and b_j are rows, a_i b_j is their dot product, and a sum
 *      below 0 counts as 0. This is faster for many rows, and less exact for rows that are close to
 *      each other -------------------------------------------------------------- */

/* Returns the square of the norm of each row of x, with shape (.., n, 1). k_norms_2 sums the
 * squares, but doesn't take the square root. */
static rg_tensor *euclidean_squares(const rg_tensor *x) {
    rg_tensor shape = rgi_header_of(x);
    shape.size[x->ndim - 1] = 1;
    rg_tensor *squares = rgi_own(rgi_new(x->dtype, x->ndim, shape.size));
    return squares && k_reduce(&k_norms_2, squares, x, 1u << (x->ndim - 1)) ? squares : NULL;
}

static bool euclidean_dist_forward(rg_call *c) {
    rg_tensor *y = c->out[0];
    RG_SCOPE();
    rg_tensor *of_a = euclidean_squares(c->in[0]);
    rg_tensor *of_b = euclidean_squares(c->in[1]);
    rg_tensor *zero = rgi_own(rgi_new(y->dtype, 0, NULL));
    if (!of_a || !of_b || !zero)
        return false;
    rg_tensor turned = k_turned(of_b);
    rgi_fill_zero(zero);
    return k_run(k_add, y, of_a, &turned)
           && k_matmul_with(y, NULL, c->in[0], false, c->in[1], true, -2, 1)
           && k_run(k_maximum, y, y, zero) && k_run(k_sqrt, y, y);
}

/* Returns g / y, but 0 where y is 0. */
static rg_tensor *euclidean_ratio(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_masked_fill(rg_div(g, y), rg_eq(y, 0), 0);
}

static rg_tensor *euclidean_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    rg_tensor *ratio = euclidean_ratio(s, g);
    return rg_sub(rg_mul(a, rg_sum_dim(ratio, -1, true)), rg_matmul(ratio, b));
}

static rg_tensor *euclidean_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    rg_tensor *ratio = rg_mT(euclidean_ratio(s, g));
    return rg_sub(rg_mul(b, rg_sum_dim(ratio, -1, true)), rg_matmul(ratio, a));
}

RG_OP(euclidean_dist, .doc = "distances between rows by way of a product",
      .node = "EuclideanDistBackward0", .n_in = 2, .shape = distance_shape,
      .forward = euclidean_dist_forward,
      .grad = { RG_RULE(CDIST_NEEDS, euclidean_rule_a), RG_RULE(CDIST_NEEDS, euclidean_rule_b) },
      RG_SAMPLES({ "(3,2) (4,2)", NULL }, { "(2,3,5) (2,2,5)", NULL }, { "(0,3) (2,3)", NULL }));

/* ---- cdist: the choice of the method, and batches that broadcast ----------------- */

/* Sets *product to whether the distances between n rows and m rows are to be computed from a matrix
 * product. Fails if `mode` isn't one of the three names that torch allows for compute_mode. */
static bool cdist_mode(const char *mode, double p, int64_t n, int64_t m, bool *product) {
    bool always = strcmp(mode, "use_mm_for_euclid_dist") == 0;
    bool never = strcmp(mode, "donot_use_mm_for_euclid_dist") == 0;
    RG_FAIL_VALUE_IF(!always && !never && strcmp(mode, "use_mm_for_euclid_dist_if_necessary"), NULL,
                     "%s is not a valid value for compute_mode", mode);
    *product = p == 2 && !never && (always || n > 25 || m > 25);
    return true;
}

static bool cdist_check(const rg_tensor *a, const rg_tensor *b, double p) {
    if (!rgi_want_dims(NULL, "X1", a, 2, RG_MAX_DIMS)
        || !rgi_want_dims(NULL, "X2", b, 2, RG_MAX_DIMS)
        || !rgi_want_size(NULL, "X2", b, b->ndim - 1, a->size[a->ndim - 1]))
        return false;
    RG_FAIL_IF(!rgi_is_float(a->dtype), NULL,
               "cdist only supports floating-point dtypes, X1 got: %s", rgi_scalar_name(a->dtype));
    RG_FAIL_IF(!rgi_is_float(b->dtype), NULL,
               "cdist only supports floating-point dtypes, X2 got: %s", rgi_scalar_name(b->dtype));
    RG_FAIL_IF(!(p >= 0), NULL, "cdist only supports non-negative p values");
    return rgi_want_same_dtype(NULL, "X1", a, "X2", b);
}

/* Returns t with its batch dims (all but the last two) expanded to the shape of `batch`. */
static rg_tensor *cdist_batch(rg_tensor *t, const rg_tensor *batch) {
    rg_dims shape = { .n = batch->ndim + 2 };
    for (int d = 0; d < batch->ndim; d++)
        shape.v[d] = batch->size[d];
    shape.v[shape.n - 2] = t->size[t->ndim - 2];
    shape.v[shape.n - 1] = t->size[t->ndim - 1];
    rg_tensor whole;
    rgi_set_size(&whole, &shape);
    return rgi_same_shape(t, &whole) ? t : rg_expand_dims(t, shape);
}

static rg_tensor *cdist(rg_tensor *a, rg_tensor *b, const rg_cdist_options *o) {
    bool product;
    if (!rgi_check(a, NULL) || !rgi_check(b, NULL) || !rgi_given(o->compute_mode, NULL, "a text")
        || !cdist_check(a, b, o->p))
        return NULL;
    int64_t n = a->size[a->ndim - 2];
    int64_t m = b->size[b->ndim - 2];
    rg_tensor of_a = rgi_header_of(a);
    rg_tensor of_b = rgi_header_of(b);
    rg_tensor batch;
    of_a.ndim -= 2;
    of_b.ndim -= 2;
    if (!cdist_mode(o->compute_mode, o->p, n, m, &product)
        || !rgi_broadcast_shapes(NULL, &of_a, &of_b, &batch))
        return NULL;
    a = cdist_batch(a, &batch);
    b = cdist_batch(b, &batch);
    if (!product || !a || !b || a->numel == 0 || b->numel == 0)
        return RG_APPLY(cdist, RG_A(cdist, o->p), a, b);
    rg_dims shape = rg_shape(a);
    shape.v[shape.n - 1] = m;
    return rg_view_dims(RG_APPLY(euclidean_dist, RG_NO_ATTR, a, b), shape);
}

rg_tensor *rg_cdist_with(rg_tensor *a, rg_tensor *b, rg_cdist_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_cdist_with(in[0], in[1], o), a, b);
    return RG_COMPOSITE("cdist", cdist(a, b, &o));
}
