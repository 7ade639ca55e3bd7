/*
 * shape.h: functions for shapes. They resolve negative dims, broadcast shapes, count elements and
 * set strides. Failures have torch's messages.
 */
#pragma once

#include "structs.h"

/* ---- dims ----------------------------------------------------------------------- */

/* Sets *out to the dim as an index from 0 to ndim - 1; a negative dim counts from the end. A 0-d
 * tensor is treated as if it had one dim. If the dim is out of range, fails and returns false. */
static inline bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
bool rgi_wrap_dim_slowly(const char *op, int64_t dim, int ndim, int *out);
static inline bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out) {
    int64_t wrapped = dim < 0 ? dim + ndim : dim;
    *out = (int)wrapped;
    return RG_LIKELY((uint64_t)wrapped < (uint64_t)ndim) || rgi_wrap_dim_slowly(op, dim, ndim, out);
}
/* Replaces each dim in `dims` by its index, counted from 0, and sets the bit of that index in
 * *mask. Fails and returns false if a dim is out of range or occurs twice. `again` is the printf
 * format of the message for the second case. */
bool rgi_wrap_dims(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again);
/* Returns whether n is from 0 to RG_MAX_DIMS; fails if it isn't. */
bool rgi_check_dims(const char *op, int n);

/* ---- sizes ---------------------------------------------------------------------- */

/* Copies the shape of `from`. All RG_MAX_DIMS sizes are copied, used or not, since a few copies of
 * whole registers are faster than a loop. */
static inline void rgi_copy_shape(rg_tensor *to, const rg_tensor *from) {
    to->ndim = from->ndim;
    memcpy(to->size, from->size, sizeof to->size);
}

static inline void rgi_set_size(rg_tensor *t, const rg_dims *shape) {
    t->ndim = (uint8_t)shape->n;
    for (int d = 0; d < shape->n; d++)
        t->size[d] = shape->v[d];
}

static inline bool rgi_same_shape(const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i])
            return false;
    return true;
}

/* Sets the shape of `out` to the one to which a and b broadcast. If they don't broadcast, fails and
 * returns false. */
bool rgi_broadcast_shapes(const char *op, const rg_tensor *a, const rg_tensor *b, rg_tensor *out);
/* Returns whether `from` broadcasts to the shape of `to`. */
bool rgi_expandable(const rg_tensor *from, const rg_tensor *to);
/* Returns a shape of n dims, in which `dim` has the given size and every other dim has size 1. */
rg_dims rgi_dims_along(int n, int dim, int64_t size);
/* The greatest number of elements of a tensor. With at most this many, the size in bytes can't
 * overflow. */
#define RG_NUMEL_MAX (INT64_MAX / 16)
/* Returns whether a tensor may have this shape. Fails if there are too many dims, if a size is
 * negative, or if the product of the sizes is greater than RG_NUMEL_MAX. Also fails if a stride
 * overflows int64. As in torch, other sizes may be large beside a size of 0, but the product of the
 * sizes before the 0 must fit into 64 bits. */
bool rgi_check_sizes(const char *op, const rg_dims *d);

/* ---- strides -------------------------------------------------------------------- */

/* Sets the sizes, contiguous strides and numel of t, for small sizes only. If a size isn't from 1
 * to 127, sets t only in part and returns false. Then the caller calls rgi_set_strides, which
 * handles sizes of 0 and products that overflow. */
static inline bool rgi_lay_out(rg_tensor *t, int ndim, const int64_t *size) {
    int64_t numel = 1;
    for (int d = ndim; d-- > 0; numel *= t->size[d]) {
        if (RG_UNLIKELY((uint64_t)size[d] - 1 >= 127))
            return false;
        t->size[d] = size[d];
        t->stride[d] = numel;
    }
    t->numel = numel;
    return true;
}

/* Sets contiguous strides, numel, RG_CONTIGUOUS and RG_PLAIN from the sizes. */
void rgi_set_strides(rg_tensor *t);
/* Sets numel, RG_CONTIGUOUS and RG_PLAIN from the sizes and the strides. */
void rgi_update_flags(rg_tensor *t);

/* Set the strides of y for its sizes, without gaps. As in torch, the result of an elementwise
 * function and a copy keep the order that the inputs' dims have in memory. rgi_lay_out_between is
 * for the result y of n inputs that broadcast to y; if the inputs' orders differ, order_of in
 * shape.c decides. rgi_lay_out_as is for a copy y of x: if x has no gaps, y gets x's strides. */
static inline void rgi_lay_out_between(rg_tensor *y, int n, rg_tensor *const in[]);
void rgi_lay_out_between_strided(rg_tensor *y, int n, rg_tensor *const in[]);
void rgi_lay_out_as(rg_tensor *y, const rg_tensor *x);
/* Returns whether t's elements lie in memory without gaps, in any order of the dims. */
static inline bool rgi_is_dense(const rg_tensor *t);
bool rgi_is_dense_in_some_order(const rg_tensor *t);
static inline bool rgi_is_dense(const rg_tensor *t) {
    return RG_LIKELY(t->flags & RG_CONTIGUOUS) || rgi_is_dense_in_some_order(t);
}
/* Returns whether all inputs, apart from those that are RG_NONE, have the strides that
 * rgi_set_strides sets (RG_PLAIN). If they do, an elementwise result of the inputs has strides of
 * this kind as well. */
static inline bool rgi_are_plain(int n, rg_tensor *const in[]) {
    bool plain = true;
    for (int i = 0; i < n && plain; i++)
        plain = in[i]->flags & RG_PLAIN || rgi_is_none(in[i]);
    return plain;
}
/* Requires that y is contiguous. If all inputs are plain (RG_PLAIN), keeps y's strides. */
static inline void rgi_lay_out_between(rg_tensor *y, int n, rg_tensor *const in[]) {
    if (!rgi_are_plain(n, in))
        rgi_lay_out_between_strided(y, n, in);
}
/* Writes the dims of t into order[], sorted as they lie in memory, the outermost first. Returns
 * whether they are 0, 1, 2, .., apart from dims of size 1. */
bool rgi_memory_order(const rg_tensor *t, int order[RG_MAX_DIMS]);
/* Returns the offset of a tensor's last element from its first one, counted in elements; 0 for an
 * empty tensor. */
static inline int64_t rgi_reach(const rg_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++)
        last += (t->size[d] - 1) * t->stride[d];
    return t->numel ? last : 0;
}

/* Returns whether two elements of t may share memory. */
bool rgi_overlaps_itself(const rg_tensor *t);

/* Returns a header like t's, with all elements in one dim. Requires that t is contiguous. */
static inline rg_tensor rgi_flat(const rg_tensor *t) {
    rg_tensor flat = rgi_header_of(t);
    flat.ndim = 1;
    flat.size[0] = t->numel;
    flat.stride[0] = 1;
    return flat;
}

/* ---- shapes as strings ---------------------------------------------------------- */

/* The string of a tensor's shape; it lives to the end of the block. */
#define RG_SHAPE_TEXT(t) rgi_shape_text((t)->ndim, (t)->size, (char[192]){ 0 })
