/*
 * shape.h: shapes: negative dims, broadcasting, counts of elements, and strides. Failures have
 * torch's sentences.
 */
#pragma once

#include "structs.h"

/* ---- dims ----------------------------------------------------------------------- */

/* Sets *out to the dim as an index from 0 to ndim - 1; a negative dim counts from the end. A 0-d
 * tensor is treated as if it had one dim. Fails and returns false if the dim is out of range. */
static inline bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
bool rgi_wrap_dim_slowly(const char *op, int64_t dim, int ndim, int *out);
static inline bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out) {
    int64_t wrapped = dim < 0 ? dim + ndim : dim;
    *out = (int)wrapped;
    return RG_LIKELY((uint64_t)wrapped < (uint64_t)ndim) || rgi_wrap_dim_slowly(op, dim, ndim, out);
}
/* Wraps each dim in place, and sets its bit in *mask. If a dim is repeated, fails with the sentence
 * `again`, a format for the dim. */
bool rgi_wrap_dims(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again);
/* Fails if n is negative or greater than RG_MAX_DIMS. */
bool rgi_check_dims(const char *op, int n);

/* ---- sizes ---------------------------------------------------------------------- */

/* Copies the sizes of all RG_MAX_DIMS dims: a few whole registers are faster than a loop. */
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

/* Sets the shape of `out` to the one to which a and b broadcast; fails if they don't. */
bool rgi_broadcast_shapes(const char *op, const rg_tensor *a, const rg_tensor *b, rg_tensor *out);
/* Returns whether `from` broadcasts to the shape of `to`. */
bool rgi_expandable(const rg_tensor *from, const rg_tensor *to);
/* Returns n sizes, all of them 1 except that of `dim`. */
rg_dims rgi_dims_along(int n, int dim, int64_t size);
/* The greatest number of elements of a tensor, so that their size in bytes can't overflow. */
#define RG_NUMEL_MAX (INT64_MAX / 16)
/* Fails if there are too many dims, a size is negative, or the product of the sizes other than 0 is
 * too large. */
bool rgi_check_sizes(const char *op, const rg_dims *d);

/* ---- strides -------------------------------------------------------------------- */

/* Sets the sizes of t, contiguous strides and the number of elements. Returns false, with t partly
 * set, if a size isn't from 1 to 127: rgi_set_strides is for 0 and for sizes whose product may
 * overflow. */
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

/* Results of elementwise functions, and copies, keep their inputs' order of dims in memory, as in
 * torch. Both functions set strides without gaps for the sizes of y. rgi_lay_out_between is for a
 * result of n inputs that broadcast to y: two dims are in the order of the first input that orders
 * them. rgi_lay_out_as is for a copy of x, which has y's shape: the strides are x's own if x has no
 * gaps. */
static inline void rgi_lay_out_between(rg_tensor *y, int n, rg_tensor *const in[]);
void rgi_lay_out_between_strided(rg_tensor *y, int n, rg_tensor *const in[]);
void rgi_lay_out_as(rg_tensor *y, const rg_tensor *x);
/* Returns whether t's elements lie side by side in memory, in any order of the dims. */
static inline bool rgi_is_dense(const rg_tensor *t);
bool rgi_is_dense_in_some_order(const rg_tensor *t);
static inline bool rgi_is_dense(const rg_tensor *t) {
    return RG_LIKELY(t->flags & RG_CONTIGUOUS) || rgi_is_dense_in_some_order(t);
}
/* Returns whether all inputs other than RG_NONE have the strides that rgi_set_strides sets. Then
 * their result has such strides, too. */
static inline bool rgi_are_plain(int n, rg_tensor *const in[]) {
    bool plain = true;
    for (int i = 0; i < n && plain; i++)
        plain = in[i]->flags & RG_PLAIN || rgi_is_none(in[i]);
    return plain;
}
/* y is contiguous before the call, and stays so if all inputs are plain. */
static inline void rgi_lay_out_between(rg_tensor *y, int n, rg_tensor *const in[]) {
    if (!rgi_are_plain(n, in))
        rgi_lay_out_between_strided(y, n, in);
}
/* Writes the order of the dims in memory to order[], the outermost first. Returns whether the dims
 * are in that order already. */
bool rgi_memory_order(const rg_tensor *t, int order[RG_MAX_DIMS]);
/* Returns the distance in elements from a tensor's first element to its last one. */
static inline int64_t rgi_reach(const rg_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++)
        last += (t->size[d] - 1) * t->stride[d];
    return t->numel ? last : 0;
}

/* Returns whether two elements may share memory. */
bool rgi_overlaps_itself(const rg_tensor *t);

/* Returns t with one dim. Requires that t is contiguous. */
static inline rg_tensor rgi_flat(rg_tensor t) {
    t.ndim = 1;
    t.size[0] = t.numel;
    t.stride[0] = 1;
    return t;
}

/* ---- text ----------------------------------------------------------------------- */

/* Returns the text of a tensor's shape, which lives to the end of the block. */
#define RG_SHAPE_TEXT(t) rgi_shape_text((t)->ndim, (t)->size, (char[192]){ 0 })
