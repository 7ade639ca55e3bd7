/*
 * gather.h: functions for ops with indices along a dim. The ops in gather.c read, write and add
 * single elements and slices, those in index_write.c write slices, and those in scatter_reduce.c
 * reduce elements.
 */
#pragma once

#include "autograd/op.h"

/* rgi_index_ndim returns the number of dims of t, and rgi_index_size the size of a dim. As in
 * torch, a tensor without dims counts as a vector with one element. */
static inline int rgi_index_ndim(const rg_tensor *t) { return t->ndim ? t->ndim : 1; }
static inline int64_t rgi_index_size(const rg_tensor *t, int dim) {
    return t->ndim ? t->size[dim] : 1;
}

/* Fails if an index is outside x's range along dim. */
bool rgi_index_in_range(const rg_tensor *index, const rg_tensor *x, int dim);

/* Fails unless the dtypes, the numbers of dims and the sizes of index and source allow a scatter
 * into x along dim. */
bool rgi_scatter_fits(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source, int dim);

/* Returns the gradient of a scatter's source in the shape of the source, which is the input whose
 * gradient the step computes. g is the gradient of the part of the source that index covers. The
 * rest of the result is 0. */
rg_tensor *rgi_scatter_widen(const rg_step *s, rg_tensor *g);

/* Fails if `other`, an index or a source, overlaps x, which will be written to. If x or `other`
 * isn't contiguous, fails only if both begin at the same element. Further overlaps are allowed,
 * because `other` is then read before x is written to. If `other` is NULL or released, returns
 * true, since the op then refuses `other`. */
bool rgi_scatter_apart(const rg_tensor *x, const rg_tensor *other);
