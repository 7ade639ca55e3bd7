/*
 * reduce.h: what ops that go over dims share. Sums, means and norms are in reduce.c, the largest
 * and smallest in extreme.c, running sums in cumulate.c.
 */
#pragma once

#include "autograd/op.h"

/* The dims are a mask. p is the one number that some reductions have besides: an order, a
 * correction. */
struct reduce_attr {
    uint32_t dims;
    bool keepdim;
    double p;
};

/* These are masks of all dims: where none was named, and where the list of them was empty. */
#define RG_UNNAMED   UINT32_MAX
#define RG_EVERY_DIM INT32_MAX

#define RG_REDUCE_ATTR(dims_, ...) \
    &(const struct reduce_attr) { .dims = (dims_), __VA_ARGS__ }
#define REDUCED(inputs, ...) \
    { inputs, RG_REDUCE_ATTR(__VA_ARGS__) } /* a sample */

static const rg_dims rg_no_dims = { 0 };

/* Makes a mask of the dims, `none` if the list is empty, and applies the op. */
rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p);

/* These three apply an op over everything, over one dim, and over several. */
static inline rg_tensor *rgi_reduce_all(const rg_op *op, rg_tensor *x) {
    return rgi_reduce(op, x, &rg_no_dims, RG_UNNAMED, false, 0);
}
static inline rg_tensor *rgi_reduce_dim(const rg_op *op, rg_tensor *x, int dim, bool keepdim) {
    return rgi_reduce(op, x, &RG_DIMS(dim), 0, keepdim, 0);
}
static inline rg_tensor *rgi_reduce_dims(const rg_op *op, rg_tensor *x, rg_dims dims,
                                         bool keepdim) {
    return rgi_reduce(op, x, &dims, RG_EVERY_DIM, keepdim, 0);
}

/* Returns whether dims were named in the call. */
static inline bool rgi_reduce_named(const void *attr) {
    return ((const struct reduce_attr *)attr)->dims != RG_UNNAMED;
}

/* Each of these sets the shape of a result: of y its sizes alone; of an op's first output; of an
 * output of int64. */
void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a);
bool rgi_reduce_shape(rg_call *c);
bool rgi_reduce_shape_int64(rg_call *c);

/* Returns a result of a reduction with its dims again, as those of size 1. One number stays as it
 * is. */
rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a);

/* Returns 1 / (how many) where x equals y, a reduction of it, else 0. NaNs are equal if nan_too. */
rg_tensor *rgi_reduce_share(rg_tensor *x, rg_tensor *y, const struct reduce_attr *a, bool nan_too);

/* Returns the products of the elements before each one along dim, or after it if reverse. */
rg_tensor *rgi_cumprod_before(rg_tensor *x, int dim, bool reverse);
