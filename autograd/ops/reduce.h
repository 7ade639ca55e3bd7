/*
 * reduce.h: functions for ops that reduce dims. Sums, means and products are in reduce.c, norms in
 * norm.c, maxima and minima in extreme.c, and running sums in cumulate.c.
 */
#pragma once

#include "autograd/op.h"

/* The attributes of reductions. `dims` is a mask of the dims that are reduced. `p` is a further
 * argument of some reductions: the order of a norm, or the correction of a variance. */
struct reduce_attr {
    uint32_t dims;
    bool keepdim;
    double p;
};

/* Two masks that stand for all dims: RG_UNNAMED if the function has no argument for dims, and
 * RG_EVERY_DIM if the caller passed an empty list of dims. */
#define RG_UNNAMED   UINT32_MAX
#define RG_EVERY_DIM INT32_MAX

#define RG_REDUCE_ATTR(dims_, ...) \
    &(const struct reduce_attr) { .dims = (dims_), __VA_ARGS__ }
/* REDUCED expands to the initializer of a test sample (rg_sample). After the inputs come the mask
 * of dims and, optionally, keepdim and p. */
#define REDUCED(inputs, ...) \
    { inputs, RG_REDUCE_ATTR(__VA_ARGS__) }

static const rg_dims rg_no_dims = { 0 };

/* Applies the op over the dims in the list or, if the list is empty, over the dims in the mask
 * `none`. Returns NULL on failure. */
rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p);

/* rgi_reduce_all applies an op over all elements, rgi_reduce_dim over one dim, and rgi_reduce_dims
 * over a list of dims. */
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

/* Returns the norms of order p of a matrix's rows, as a column, with the same bits as
 * rg_norm_dim. */
rg_tensor *rgi_row_norms(rg_tensor *x, double p);

/* Returns true if the public function has an argument for dims, such as rg_sum_dim, and false if it
 * has none, such as rg_sum. For rg_var_dims and rg_std_dims with an empty list, returns false. */
static inline bool rgi_reduce_named(const void *attr) {
    return ((const struct reduce_attr *)attr)->dims != RG_UNNAMED;
}

/* rgi_reduce_sizes gives y the shape of x after the reduction. rgi_reduce_shape gives this shape to
 * the first output of a call, and rgi_reduce_shape_int64 also sets the output's dtype to int64. */
void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a);
bool rgi_reduce_shape(rg_call *c);
bool rgi_reduce_shape_int64(rg_call *c);

/* Puts the reduced dims back into g, which has the shape of a reduction's result. Returns g with
 * these dims, each of size 1, so that the result broadcasts with a tensor of ndim dims. If g has no
 * dims, or keepdim kept the dims, returns g itself. */
rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a);

/* y is a reduction of x, such as a maximum. Returns, for each element of x, 1 / n if it equals the
 * element of y to which it was reduced, and otherwise 0. Here n is the number of elements of x that
 * were reduced to this element of y and equal it. If nan_too is set, NaN counts as equal to NaN. */
rg_tensor *rgi_reduce_share(rg_tensor *x, rg_tensor *y, const struct reduce_attr *a, bool nan_too);

/* Returns for each element of x the product of the elements before it along dim or, if `reverse` is
 * set, of the elements after it. */
rg_tensor *rgi_cumprod_before(rg_tensor *x, int dim, bool reverse);
