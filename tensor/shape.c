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

const char *rgi_shape_text(int n, const int64_t *size, char buf[192]) {
    int at = snprintf(buf, 192, "[");
    for (int i = 0; i < n && at < 170; i++)
        at += snprintf(buf + at, 192 - (size_t)at, "%s%lld", i ? ", " : "", (long long)size[i]);
    snprintf(buf + at, 192 - (size_t)at, "]");
    return buf;
}
