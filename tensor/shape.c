/*
 * shape.c: functions for shapes. They resolve negative dims, broadcast shapes, count elements, set
 * strides, and write shapes as strings.
 */
#include "shape.h"
#include "error.h"

#include <stdio.h>

/* ---- dims ----------------------------------------------------------------------- */

bool rgi_wrap_dim_slowly(const char *op, int64_t dim, int ndim, int *out) {
    int n = ndim ? ndim : 1;
    RG_FAIL_INDEX_IF(dim < -n || dim >= n, op,
                     "Dimension out of range (expected to be in range of "
                     "[%d, %d], but got %lld)",
                     -n, n - 1, (long long)dim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return true;
}

bool rgi_wrap_dims(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again) {
    *mask = 0;
    for (int i = 0; i < dims->n; i++) {
        int d;
        if (!rgi_wrap_dim(op, dims->v[i], ndim, &d))
            return false;
        RG_FAIL_IF(*mask >> d & 1, op, again, d);
        *mask |= 1u << d;
        dims->v[i] = d;
    }
    return true;
}

RG_HOT bool rgi_check_dims(const char *op, int n) {
    RG_FAIL_IF(n < 0 || n > RG_MAX_DIMS, op,
               "a tensor has at most %d dimensions, but %d were asked for", RG_MAX_DIMS, n);
    return true;
}

/* ---- sizes ---------------------------------------------------------------------- */

rg_dims rgi_dims_along(int n, int dim, int64_t size) {
    rg_dims dims = { n, { 1, 1, 1, 1, 1, 1, 1, 1 } };
    dims.v[dim] = size;
    return dims;
}

RG_HOT bool rgi_broadcast_shapes(const char *op, const rg_tensor *a, const rg_tensor *b,
                                 rg_tensor *out) {
    int n = RG_MAX(a->ndim, b->ndim);
    if (rgi_same_shape(a, b)) {
        rgi_copy_shape(out, a);
        return true;
    }
    for (int i = n - 1; i >= 0; i--) {
        int ia = i - (n - a->ndim);
        int ib = i - (n - b->ndim);
        int64_t sa = ia < 0 ? 1 : a->size[ia];
        int64_t sb = ib < 0 ? 1 : b->size[ib];
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

bool rgi_check_sizes(const char *op, const rg_dims *d) {
    bool overflows = false;
    uint64_t numel = 1;
    int64_t stride = 1;
    if (!rgi_check_dims(op, d->n))
        return false;
    for (int i = 0; i < d->n; i++)
        RG_FAIL_IF(d->v[i] < 0, op, "Trying to create tensor with negative dimension %lld: %s",
                   (long long)d->v[i], RG_DIMS_TEXT(d));
    for (int i = 0; i < d->n; i++)
        overflows |= __builtin_mul_overflow(numel, (uint64_t)d->v[i], &numel);
    RG_FAIL_IF(overflows || numel > RG_NUMEL_MAX, op,
               "Storage size calculation overflowed with sizes=%s", RG_DIMS_TEXT(d));
    for (int i = d->n - 1; i > 0; i--)
        overflows |= __builtin_mul_overflow(stride, RG_MAX(d->v[i], 1), &stride);
    RG_FAIL_IF(overflows, op, "Stride calculation overflowed with sizes=%s", RG_DIMS_TEXT(d));
    return true;
}

/* ---- strides -------------------------------------------------------------------- */

/* Returns a * b, or INT64_MAX if that overflows. No memory is that large, so a later allocation for
 * such a size will fail. */
static int64_t saturating_product(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Sets contiguous strides as torch does: a dim of size 0 counts as one of size 1 when the strides
 * of the dims outside it are computed. */
void rgi_set_strides(rg_tensor *t) {
    int64_t stride = 1;
    if (RG_LIKELY(rgi_lay_out(t, t->ndim, t->size))) {
        t->flags |= RG_CONTIGUOUS | RG_PLAIN;
        return;
    }
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride = saturating_product(stride, RG_MAX(t->size[i], 1));
    }
    rgi_update_flags(t);
}

RG_HOT void rgi_update_flags(rg_tensor *t) {
    int64_t numel = 1;
    bool contiguous = true;
    bool plain = true;
    bool empty = false;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->stride[i] != numel) {
            plain = false;
            contiguous = contiguous && t->size[i] == 1;
        }
        if (t->size[i] == 0)
            empty = true;
        else
            numel = saturating_product(numel, t->size[i]);
    }
    t->numel = empty ? 0 : numel;
    t->flags &= (uint8_t) ~(RG_CONTIGUOUS | RG_PLAIN);
    if (contiguous || empty)
        t->flags |= RG_CONTIGUOUS;
    if (plain)
        t->flags |= RG_PLAIN;
}

typedef enum shape_order { SHAPE_IN_ORDER, SHAPE_TURNED, SHAPE_UNORDERED } shape_order;

/* Returns the stride of `in`, an input that broadcasts to y, along the dim of `in` that belongs to
 * y's dim `dim`. Returns 0 if `in` is broadcast along that dim. */
static int64_t stride_along(const rg_tensor *y, const rg_tensor *in, int dim) {
    const int d = dim - (y->ndim - in->ndim);
    return d < 0 || (in->size[d] == 1 && y->size[dim] != 1) ? 0 : in->stride[d];
}

/* Compares two dims of y, `outer` and `inner`, by their order in memory. Returns SHAPE_IN_ORDER if
 * `outer` should be outside `inner`, SHAPE_TURNED if it should be inside, and SHAPE_UNORDERED if no
 * input decides. As in torch, the first input that decides wins. An input in which the stride of
 * one of the dims is 0 decides nothing. If the strides differ, the dim with the larger stride is
 * outside. If they are equal, the result is SHAPE_TURNED if `inner` has the larger size; otherwise
 * the input decides nothing. */
static shape_order order_of(const rg_tensor *y, int n, rg_tensor *const in[], int outer,
                            int inner) {
    for (int i = 0; i < n; i++) {
        const int64_t step_in = stride_along(y, in[i], inner);
        const int64_t step_out = stride_along(y, in[i], outer);
        if (step_in == 0 || step_out == 0)
            continue;
        if (step_in != step_out)
            return step_in < step_out ? SHAPE_IN_ORDER : SHAPE_TURNED;
        if (y->size[inner] > y->size[outer])
            return SHAPE_TURNED;
    }
    return SHAPE_UNORDERED;
}

/* Sorts the dims of y into the order in memory that the n inputs in[] give (see order_of), by an
 * insertion sort that begins at the last dim. Writes the sorted dims into `order`, and returns
 * whether they are 0, 1, 2, .. */
static bool sort_dims(const rg_tensor *y, int n, rg_tensor *const in[], int order[RG_MAX_DIMS]) {
    const int dims = y->ndim;
    bool sorted = true;
    for (int d = 0; d < dims; d++)
        order[d] = d;
    for (int d = dims - 2; d >= 0; d--) {
        int at = d;
        for (int inner = d + 1; inner < dims; inner++) {
            const shape_order found = order_of(y, n, in, order[at], order[inner]);
            if (found == SHAPE_IN_ORDER)
                break;
            if (found == SHAPE_TURNED) {
                RG_SWAP(order[at], order[inner]);
                at = inner;
            }
        }
    }
    for (int d = 0; d < dims; d++)
        sorted = sorted && order[d] == d;
    return sorted;
}

bool rgi_memory_order(const rg_tensor *t, int order[RG_MAX_DIMS]) {
    int last = -1;
    sort_dims(t, 1, (rg_tensor *[]){ (rg_tensor *)t }, order);
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[order[d]] == 1)
            continue;
        if (order[d] < last)
            return false;
        last = order[d];
    }
    return true;
}

/* ---- choosing the strides of a result -------------------------------------------- */

/* Sets strides without gaps so that the dims lie in memory in this order, outermost first. A size
 * of 0 counts as `least`, which is 0 or 1. */
static void stride_in_order(rg_tensor *t, const int order[], int64_t least) {
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        t->stride[order[d]] = stride;
        stride = saturating_product(stride, RG_MAX(t->size[order[d]], least));
    }
    rgi_update_flags(t);
}

static void take_strides(rg_tensor *t, const rg_tensor *from) {
    memcpy(t->stride, from->stride, sizeof t->stride);
    rgi_update_flags(t);
}

/* Returns whether t has no gaps in memory, with its dims in this order, the outermost first. */
static bool lies_in_order(const rg_tensor *t, const int order[]) {
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        const int64_t size = t->size[order[d]];
        if (size != 1 && t->stride[order[d]] != stride)
            return false;
        stride *= size;
    }
    return true;
}

/* Returns whether t's memory has no gaps. Searches for a dim of stride 1, then for a dim whose
 * stride is the size of the first one, then for one whose stride is the product of these two sizes,
 * and so on. If such a dim is found each time until the product is t->numel, there are no gaps. */
bool rgi_is_dense_in_some_order(const rg_tensor *t) {
    int64_t stride = 1;
    for (int found = 0; stride < t->numel; stride *= t->size[found - 1]) {
        found = 0;
        for (int d = 0; d < t->ndim; d++)
            if (t->size[d] != 1 && t->stride[d] == stride)
                found = d + 1;
        if (!found)
            return false;
    }
    return true;
}

static const int channels_last[] = { 0, 2, 3, 1 };

/* Sets the strides of y as torch does if all inputs have y's shape and the same order in memory:
 * all contiguous, all images with channels last, or all with equal strides without gaps. If several
 * of these three conditions hold, which happens with dims of size 1, the first one decides. Returns
 * false if none holds. */
static bool lay_out_as_all(rg_tensor *y, int n, rg_tensor *const in[]) {
    bool contiguous = true;
    bool last = y->ndim == 4;
    bool alike = true;
    const rg_tensor *first = NULL;
    for (int i = 0; i < n; i++) {
        if (rgi_is_none(in[i]))
            continue;
        if (!rgi_same_shape(y, in[i]))
            return false;
        first = first ? first : in[i];
        contiguous = contiguous && in[i]->flags & RG_CONTIGUOUS;
        last = last && lies_in_order(in[i], channels_last);
        alike = alike && !memcmp(in[i]->stride, first->stride, y->ndim * sizeof *y->stride);
    }
    if (contiguous)
        rgi_set_strides(y);
    else if (last)
        stride_in_order(y, channels_last, 0);
    else if (alike && first && rgi_is_dense(first))
        take_strides(y, first);
    else
        return false;
    return true;
}

void rgi_lay_out_between_strided(rg_tensor *y, int n, rg_tensor *const in[]) {
    int order[RG_MAX_DIMS];
    if (lay_out_as_all(y, n, in))
        return;
    if (sort_dims(y, n, in, order))
        rgi_set_strides(y);
    else
        stride_in_order(y, order, 0);
}

void rgi_lay_out_as(rg_tensor *y, const rg_tensor *x) {
    int order[RG_MAX_DIMS];
    if (rgi_is_dense(x)) {
        take_strides(y, x);
        return;
    }
    sort_dims(x, 1, (rg_tensor *[]){ (rg_tensor *)x }, order);
    stride_in_order(y, order, 1);
}

/* Returns whether two elements of t may share memory. With the dims sorted by stride, elements
 * don't overlap if each stride is larger than the largest offset that the dims inside it can reach
 * together. */
RG_HOT bool rgi_overlaps_itself(const rg_tensor *t) {
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS];
    int n = 0;
    if (t->flags & RG_CONTIGUOUS)
        return false;
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] <= 1)
            continue;
        int i = n++;
        for (; i > 0 && stride[i - 1] > t->stride[d]; i--) {
            stride[i] = stride[i - 1];
            size[i] = size[i - 1];
        }
        stride[i] = t->stride[d];
        size[i] = t->size[d];
    }
    int64_t reach = 0;
    for (int i = 0; i < n; i++) {
        if (stride[i] <= reach)
            return true;
        reach += stride[i] * (size[i] - 1);
    }
    return false;
}

bool rgi_have_same_shape(const rg_tensor *a, const rg_tensor *b) { return rgi_same_shape(a, b); }

/* ---- shapes as strings ---------------------------------------------------------- */

const char *rgi_shape_text(int n, const int64_t *size, char buf[192]) {
    int at = snprintf(buf, 192, "[");
    for (int i = 0; i < n && at < 170; i++)
        at += snprintf(buf + at, 192 - (size_t)at, "%s%lld", i ? ", " : "", (long long)size[i]);
    snprintf(buf + at, 192 - (size_t)at, "]");
    return buf;
}
