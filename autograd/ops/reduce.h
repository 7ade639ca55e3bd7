/*
 * reduce.h: what ops that go over dims share. Sums, means and products are in reduce.c, norms in
 * norm.c, the largest and smallest in extreme.c, running sums in cumulate.c.
 */
#pragma once

#include "autograd/op.h"

/* dims is a mask. p is the number that some reductions have: the order of a norm, or the correction
 * of a variance. */
struct reduce_attr {
    uint32_t dims;
    bool keepdim;
    double p;
};

/* Both masks stand for all dims: RG_UNNAMED where the call names none, RG_EVERY_DIM where it has an
 * empty list of dims. */
#define RG_UNNAMED   UINT32_MAX
#define RG_EVERY_DIM INT32_MAX

#define RG_REDUCE_ATTR(dims_, ...) \
    &(const struct reduce_attr) { .dims = (dims_), __VA_ARGS__ }
/* REDUCED makes a sample. Behind the mask of dims may come keepdim and p. */
#define REDUCED(inputs, ...) \
    { inputs, RG_REDUCE_ATTR(__VA_ARGS__) }

static const rg_dims rg_no_dims = { 0 };

/* Makes a mask of the dims, `none` if the list is empty, and applies the op. */
rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p);

/* Apply an op over everything, over one dim, and over several. */
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

/* The first sets y's sizes to those of x reduced. The others do so for an op's first output; the
 * last makes that int64, too. */
void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a);
bool rgi_reduce_shape(rg_call *c);
bool rgi_reduce_shape_int64(rg_call *c);

/* Returns g, which has the shape of a reduction's result, with the reduced dims put back at size 1.
 * If g is one number, it stays as it is. */
rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a);

/* Returns 1 / n where x equals y, else 0; y is a reduction of x, and n how many of x equal it. If
 * nan_too, one NaN equals another. */
rg_tensor *rgi_reduce_share(rg_tensor *x, rg_tensor *y, const struct reduce_attr *a, bool nan_too);

/* Returns the products of the elements before each one along dim, or after it if reverse. */
rg_tensor *rgi_cumprod_before(rg_tensor *x, int dim, bool reverse);
