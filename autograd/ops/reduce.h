/*
 * reduce.h: what ops that go over dims share.
 */
#ifndef RG_REDUCE_H
#define RG_REDUCE_H

#include "autograd/op.h"

/* The dims as a mask; p for those that have a number besides: an order, a correction. */
struct reduce_attr { uint32_t dims; bool keepdim; double p; };      /* UINT32_MAX: no dim was named */
#define RG_REDUCE_ATTR(dims_, keepdim_) &(const struct reduce_attr){ .dims = (dims_), .keepdim = (keepdim_) }

/* dims as a mask; none of them means all. false: out of range or named twice. */
bool rg_reduce_mask(const char *op, const rg_tensor *x, const rg_dims *dims, uint32_t *mask);
void rg_reduce_sizes(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool keepdim);
bool rg_reduce_shape(rg_call *c);       /* for an op whose attribute is a reduce_attr */
/* What was reduced, with its dims again as those of size 1; one number stays as it is. */
rg_tensor *rg_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a);
rg_tensor *rg_reduce(const char *name, const rg_op *op, rg_tensor *x, rg_dims dims, bool keepdim, double p);
rg_tensor *rg_reduce_all(const rg_op *op, rg_tensor *x, double p);
int64_t    rg_reduce_count(const rg_dims *shape, uint32_t dims);    /* how many elements make one */
rg_dims    rg_reduce_list(const rg_dims *shape, uint32_t dims);     /* the mask as a list */
/* 1 / (how many) where x equals y, a reduction of it, else 0. NaNs are equal if nan_too. */
rg_tensor *rg_reduce_share(rg_tensor *x, rg_tensor *y, uint32_t dims, bool nan_too);
int64_t    rg_count_zeros(rg_tensor *x);
rg_tensor *rg_cumprod_before(rg_tensor *x, int dim, bool reverse);  /* cumulate.c */

/* The public functions over everything, one dim, several. */
#define RG_REDUCE(f)                                                                            \
    rg_tensor *rg_##f(rg_tensor *x) { return rg_reduce_all(&rg_op_##f, x, 0); }                 \
    RG_REDUCE_DIMS(f)
#define RG_REDUCE_DIMS(f)                                                                       \
    rg_tensor *rg_##f##_dims(rg_tensor *x, rg_dims dims, bool keepdim) { return rg_reduce(#f, &rg_op_##f, x, dims, keepdim, 0); } \
    rg_tensor *rg_##f##_dim(rg_tensor *x, int dim, bool keepdim) { return rg_##f##_dims(x, RG_DIMS(dim), keepdim); }

#endif
