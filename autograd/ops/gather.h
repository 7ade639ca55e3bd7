/*
 * gather.h: parts that ops at indices along a dim share. gather.c takes, puts and adds elements
 * and slices, index_write.c writes over slices, and scatter_reduce.c reduces elements.
 */
#pragma once

#include "autograd/op.h"

/* A 0-d tensor stands for a vector of one, as in torch. */
static inline int rgi_index_ndim(const rg_tensor *t) { return t->ndim ? t->ndim : 1; }
static inline int64_t rgi_index_size(const rg_tensor *t, int dim) {
    return t->ndim ? t->size[dim] : 1;
}

/* Fails if an index is out of bounds. */
bool rgi_index_in_range(const rg_tensor *index, const rg_tensor *x, int dim);

/* Fails unless source can be scattered over x along dim: dtypes, numbers of
 * dims and sizes must fit. */
bool rgi_scatter_fits(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source, int dim);

/* Returns the gradient of a source of that shape, given the gradient of its part that the index
 * names; the rest is 0. */
rg_tensor *rgi_scatter_widen(rg_tensor *g, const rg_tensor *index, rg_dims shape);

/* Fails if the source shares memory with x, which will be written to: anywhere if both are
 * contiguous, else if they have the same first element. (For other overlaps, everything is read
 * before x is written to.) */
bool rgi_scatter_apart(const char *op, const rg_tensor *x, const rg_tensor *source);
