/*
 * shape.c: what shapes may do: negative dims, broadcasting, counting.
 */
#include "internal.h"

#include <stdio.h>

bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out) {
    int n = ndim ? ndim : 1;
    RG_FAIL_AS_IF(RG_INDEX_ERROR, dim < -n || dim >= n, op,
                  "Dimension out of range (expected to be in range of "
                  "[%d, %d], but got %lld)",
                  -n, n - 1, (long long)dim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return true;
}

bool rgi_wrap_dims(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again) {
    *mask = 0;
    for (int i = 0, d; i < dims->n; i++) {
        if (!rgi_wrap_dim(op, dims->v[i], ndim, &d))
            return false;
        RG_FAIL_IF(*mask >> d & 1, op, again, d);
        *mask |= 1u << d;
        dims->v[i] = d;
    }
    return true;
}

bool rgi_check_dims(const char *op, int n) {
    if (n >= 0 && n <= RG_MAX_DIMS)
        return true;
    return rgi_fail(RG_RUNTIME_ERROR, op,
                    "a tensor has at most %d dimensions, but %d were asked for", RG_MAX_DIMS, n);
}

bool rgi_broadcast_shapes(const char *op, const rg_tensor *a, const rg_tensor *b, rg_tensor *out) {
    int n = RG_MAX(a->ndim, b->ndim);
    if (rgi_same_shape(a, b))
        return rgi_copy_shape(out, a), true;
    for (int i = n - 1; i >= 0; i--) {
        int ia = i - (n - a->ndim), ib = i - (n - b->ndim);
        int64_t sa = ia < 0 ? 1 : a->size[ia], sb = ib < 0 ? 1 : b->size[ib];
        RG_FAIL_IF(sa != sb && sa != 1 && sb != 1, op,
                   "The size of tensor a (%lld) must match the size of tensor b "
                   "(%lld) at non-singleton dimension %d",
                   (long long)sa, (long long)sb, i);
        out->size[i] = sa == 1 ? sb : sa;
    }
    out->ndim = (uint8_t)n;
    return true;
}

bool rgi_expandable(const rg_tensor *from, const rg_tensor *to) {
    int shift = to->ndim - from->ndim;
    if (shift < 0)
        return false;
    for (int i = 0; i < from->ndim; i++)
        if (from->size[i] != 1 && from->size[i] != to->size[i + shift])
            return false;
    return true;
}

int64_t rgi_dims_numel(const char *op, const rg_dims *d) {
    int64_t n = 1;
    bool empty = false;
    if (!rgi_check_dims(op, d->n))
        return -1;
    for (int i = 0; i < d->n; i++) {
        empty |= d->v[i] == 0;
        if (d->v[i] < 0)
            return rgi_fail(RG_RUNTIME_ERROR, op,
                            "Trying to create tensor with negative dimension %lld: %s",
                            (long long)d->v[i], RG_DIMS_TEXT(d)),
                   -1;
    }
    for (int i = 0; i < d->n; i++)
        if (d->v[i] && (__builtin_mul_overflow(n, d->v[i], &n) || n > INT64_MAX / 16))
            return rgi_fail(RG_RUNTIME_ERROR, op,
                            "Storage size calculation overflowed with sizes=%s", RG_DIMS_TEXT(d)),
                   -1;
    return empty ? 0 : n;
}

/* ---- strides -------------------------------------------------------------------- */

/* What overflows is INT64_MAX: no memory is as large, and rgi_allocate refuses it. */
static int64_t saturating_product(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* torch's: a dim of size 0 counts as 1 for those outside it. */
void rgi_set_strides(rg_tensor *t) {
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride = saturating_product(stride, RG_MAX(t->size[i], 1));
    }
    rgi_update_flags(t);
}

void rgi_update_flags(rg_tensor *t) {
    int64_t numel = 1;
    bool contiguous = true, empty = false;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->size[i] != 1 && t->stride[i] != numel)
            contiguous = false;
        if (t->size[i] == 0)
            empty = true;
        else
            numel = saturating_product(numel, t->size[i]);
    }
    t->numel = empty ? 0 : numel;
    if (contiguous || empty)
        t->flags |= RG_CONTIGUOUS;
    else
        t->flags &= (uint8_t)~RG_CONTIGUOUS;
}

/* torch's: sorted by stride, by insertion; a stride of 0 says nothing, and of equals the larger is
 * outside. */
bool rgi_memory_order(const rg_tensor *t, int order[RG_MAX_DIMS]) {
    int n = t->ndim, last = -1;
    for (int d = 0; d < n; d++)
        order[d] = d;
    for (int d = n - 2; d >= 0; d--)
        for (int at = d, inner = d + 1; inner < n; inner++) {
            int a = order[inner], b = order[at];
            if (t->stride[a] == 0 || t->stride[b] == 0)
                continue;
            if (t->stride[a] < t->stride[b])
                break;
            if (t->stride[a] == t->stride[b] && t->size[a] <= t->size[b])
                continue;
            order[at] = a;
            order[inner] = b;
            at = inner;
        }
    for (int d = 0; d < n; d++) {
        if (t->size[order[d]] == 1)
            continue;
        if (order[d] < last)
            return false;
        last = order[d];
    }
    return true;
}

/* Sorted by stride, each dim must step over everything that those inside it reach. */
bool rgi_overlaps_itself(const rg_tensor *t) {
    int64_t size[RG_MAX_DIMS], stride[RG_MAX_DIMS], reach = 0;
    int n = 0;
    if (t->flags & RG_CONTIGUOUS)
        return false;
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] <= 1)
            continue;
        int64_t s = t->stride[d];
        int i = n++;
        for (; i > 0 && stride[i - 1] > s; i--)
            stride[i] = stride[i - 1], size[i] = size[i - 1];
        stride[i] = s;
        size[i] = t->size[d];
    }
    for (int i = 0; i < n; i++) {
        if (stride[i] <= reach)
            return true;
        reach += stride[i] * (size[i] - 1);
    }
    return false;
}

/* ---- text ----------------------------------------------------------------------- */

const char *rgi_shape_text(int n, const int64_t *size, char buf[192]) {
    int at = snprintf(buf, 192, "[");
    for (int i = 0; i < n && at < 170; i++)
        at += snprintf(buf + at, 192 - (size_t)at, "%s%lld", i ? ", " : "", (long long)size[i]);
    snprintf(buf + at, 192 - (size_t)at, "]");
    return buf;
}
