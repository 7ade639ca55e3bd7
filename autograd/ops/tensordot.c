/*
 * tensordot.c: outer, kron, inner and tensordot, which are composed of products of matrices and
 * elementwise products.
 */
#include "autograd/checks.h"

/* ---- outer: y_ij = a_i b_j ----------------------------------------------------- */

rg_tensor *(rg_outer)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "outer") || !rgi_check(b, "outer") || !rgi_want_dims("outer", "self", a, 1, 1)
        || !rgi_want_dims("outer", "vec2", b, 1, 1))
        return NULL;
    return RG_COMPOSITE("outer", rg_mul(rg_unsqueeze(a, 1), b));
}

/* ---- kron: y[i * m + j] = a[i] b[j] along each dim, where m is b's size along that dim. For the
 * product, a dim in which neither a nor b has size 1 becomes two: a's and b's. ---------------- */

/* Returns the size of dim d of t after dims of size 1 are added in front until t has n dims. */
static int64_t kron_size(const rg_tensor *t, int d, int n) {
    const int own = d - (n - t->ndim);
    return own < 0 ? 1 : t->size[own];
}

rg_tensor *(rg_kron)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "kron") || !rgi_check(b, "kron"))
        return NULL;
    const int n = RG_MAX(a->ndim, b->ndim);
    int all = n;
    for (int d = 0; d < n; d++)
        all += kron_size(a, d, n) != 1 && kron_size(b, d, n) != 1;
    if (!rgi_check_dims("kron", all))
        return NULL;
    rg_dims of_a = { 0 };
    rg_dims of_b = { 0 };
    rg_dims shape = { .n = n };
    for (int d = 0; d < n; d++) {
        const int64_t in_a = kron_size(a, d, n), in_b = kron_size(b, d, n);
        const bool two = in_a != 1 && in_b != 1;
        of_a.v[of_a.n++] = in_a;
        of_b.v[of_b.n++] = two ? 1 : in_b;
        if (two) {
            of_a.v[of_a.n++] = 1;
            of_b.v[of_b.n++] = in_b;
        }
        if (__builtin_mul_overflow(in_a, in_b, &shape.v[d]))
            shape.v[d] = INT64_MAX;
    }
    RG_AS("kron");
    RG_SCOPE();
    rg_tensor *y = rg_mul(rg_reshape_dims(a, of_a), rg_reshape_dims(b, of_b));
    return rg_escape(rgi_reshape_own("UnsafeViewBackward0", y, shape));
}

/* ---- inner: sums of products over the last dims of a and b; if a or b has no dims, the
 *      product a b -------------------------------------------------------------- */

rg_tensor *(rg_inner)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "inner") || !rgi_check(b, "inner"))
        return NULL;
    RG_AS("inner");
    if (a->ndim == 0 || b->ndim == 0)
        return rg_mul(a, b);
    RG_FAIL_IF(a->size[a->ndim - 1] != b->size[b->ndim - 1], "inner",
               "inner() the last dimension must match on both input tensors but got shapes %s and "
               "%s",
               RG_SHAPE_TEXT(a), RG_SHAPE_TEXT(b));
    if (a->dtype == b->dtype && a->ndim == 1 && b->ndim == 1)
        return RG_COMPOSITE("inner", rg_reshape_dims(rg_dot(a, b), (rg_dims){ 0 }));
    return rg_tensordot_dims(a, b, RG_DIMS(-1), RG_DIMS(-1));
}

/* ---- tensordot: sums of products over given dims of a and b; the other dims remain ---- */

rg_tensor *(rg_tensordot)(rg_tensor *a, rg_tensor *b, int n) {
    rg_dims in_a = { .n = n };
    rg_dims in_b = { .n = n };
    if (!rgi_check(a, "tensordot") || !rgi_check(b, "tensordot"))
        return NULL;
    RG_FAIL_IF(n < 0, "tensordot", "tensordot expects dims >= 0, but got dims=%d", n);
    RG_FAIL_IF(n > RG_MIN(a->ndim, b->ndim), "tensordot",
               "tensordot expects dims < ndim_a or ndim_b, but got dims=%d", n);
    for (int d = 0; d < n; d++) {
        in_a.v[d] = d - n;
        in_b.v[d] = d;
    }
    return rg_tensordot_dims(a, b, in_a, in_b);
}

/* Copies the list of dims `named` to *wrapped, with dim + t->ndim in place of each negative dim.
 * Sets *mask to the mask of these dims. Fails if a dim is twice in the list, or doesn't exist. */
static bool tensordot_wrap(const rg_tensor *t, const rg_dims *named, rg_dims *wrapped,
                           uint32_t *mask) {
    *mask = 0;
    wrapped->n = named->n;
    for (int i = 0; i < named->n; i++) {
        int d;
        if (!rgi_wrap_dim("tensordot", named->v[i], t->ndim, &d))
            return false;
        RG_FAIL_IF(*mask >> d & 1, "tensordot", "dim %d appears multiple times in the list of dims",
                   d);
        if (!rgi_want_any_dim("tensordot", t, named->v[i]))
            return false;
        *mask |= 1u << d;
        wrapped->v[i] = d;
    }
    return true;
}

/* Returns t as a matrix, or NULL on failure. If named_first is set, the dims in `named` become the
 * rows of the matrix, and the other dims become its columns. Otherwise the other dims become the
 * rows. Appends the sizes of the other dims to *shape. */
static rg_tensor *tensordot_matrix(rg_tensor *t, const rg_dims *named, bool named_first,
                                   rg_dims *shape) {
    rg_dims wrapped;
    uint32_t mask;
    if (!tensordot_wrap(t, named, &wrapped, &mask))
        return NULL;
    int first_named = named_first ? 0 : t->ndim - named->n;
    int next_other = named_first ? named->n : 0;
    int64_t named_size = 1;
    int64_t other_size = 1;
    rg_dims order = { .n = t->ndim };
    for (int i = 0; i < named->n; i++) {
        order.v[first_named + i] = wrapped.v[i];
        named_size *= t->size[wrapped.v[i]];
    }
    for (int d = 0; d < t->ndim; d++) {
        if (mask >> d & 1)
            continue;
        order.v[next_other++] = d;
        shape->v[shape->n++] = t->size[d];
        other_size *= t->size[d];
    }
    t = rg_permute_dims(t, order);
    return named_first ? rg_reshape(t, named_size, other_size)
                       : rg_reshape(t, other_size, named_size);
}

/* Prepares the sum of products over dim_a of *a and dim_b of *b. Fails unless the two dims have the
 * same size, or one has size 1. If only one has size 1, the other tensor is summed over its dim
 * first, in its own dtype. This gives the same result as broadcasting the dim of size 1. */
static bool tensordot_sum_pair(rg_tensor **a, rg_tensor **b, int64_t dim_a, int64_t dim_b) {
    int da, db;
    if (!rgi_wrap_dim("tensordot", dim_a, (*a)->ndim, &da)
        || !rgi_wrap_dim("tensordot", dim_b, (*b)->ndim, &db))
        return false;
    int64_t size_a = (*a)->ndim ? (*a)->size[da] : 1;
    int64_t size_b = (*b)->ndim ? (*b)->size[db] : 1;
    RG_FAIL_IF(size_a != size_b && size_a != 1 && size_b != 1, "tensordot",
               "contracted dimensions need to match, but first has size %lld in dim %lld and "
               "second has size %lld in dim %lld",
               (long long)size_a, (long long)dim_a, (long long)size_b, (long long)dim_b);
    if (size_a == size_b)
        return true;
    const rg_dtype dtype = (rg_dtype)(*a)->dtype;
    if (size_a == 1)
        *b = rg_to(rg_sum_dim(*b, db, true), dtype);
    else
        *a = rg_to(rg_sum_dim(*a, da, true), dtype);
    return *a && *b;
}

rg_tensor *(rg_tensordot_dims)(rg_tensor *a, rg_tensor *b, rg_dims in_a, rg_dims in_b) {
    if (!rgi_check(a, "tensordot") || !rgi_check(b, "tensordot")
        || !rgi_check_dims("tensordot", in_a.n) || !rgi_check_dims("tensordot", in_b.n))
        return NULL;
    RG_FAIL_IF(in_a.n != in_b.n, "tensordot", "both dimension lists should have same length");
    if (!rgi_want_same_dtype("tensordot", "a", a, "b", b)
        || !rgi_check_dims("tensordot", RG_MAX(0, a->ndim + b->ndim - 2 * in_a.n)))
        return NULL;
    RG_AS("tensordot");
    RG_SCOPE();
    for (int i = 0; i < in_a.n; i++)
        if (!tensordot_sum_pair(&a, &b, in_a.v[i], in_b.v[i]))
            return NULL;
    rg_dims shape = { 0 };
    a = tensordot_matrix(a, &in_a, false, &shape);
    if (!a)
        return NULL;
    b = tensordot_matrix(b, &in_b, true, &shape);
    return rg_escape(rg_reshape_dims(rg_mm(a, b), shape));
}
