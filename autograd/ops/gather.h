/*
 * gather.h: functions for ops with indices along a dim. gather.c takes, puts and adds elements and
 * slices, index_write.c writes over slices, and scatter_reduce.c reduces elements.
 */
#pragma once

#include "autograd/op.h"

/* A 0-d tensor counts as a vector with one element, as in torch. */
static inline int rgi_index_ndim(const rg_tensor *t) { return t->ndim ? t->ndim : 1; }
static inline int64_t rgi_index_size(const rg_tensor *t, int dim) {
    return t->ndim ? t->size[dim] : 1;
}

/* Fails if an index is out of bounds. */
bool rgi_index_in_range(const rg_tensor *index, const rg_tensor *x, int dim);

/* Fails unless the dtype, the number of dims and the sizes of the source fit for a scatter into x
 * along dim. */
bool rgi_scatter_fits(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source, int dim);

/* Returns the gradient of a source of that shape: g in the part of the source that has indices, and
 * 0 elsewhere. */
rg_tensor *rgi_scatter_widen(rg_tensor *g, const rg_tensor *index, rg_dims shape);

/* Fails if the source overlaps x, which will be written to. If one of them isn't contiguous, only
 * an overlap with the same first element is refused. (With other overlaps, the source is read
 * before x is written to.) */
bool rgi_scatter_apart(const char *op, const rg_tensor *x, const rg_tensor *source);
