/*
 * reduce.h: what ops that go over dims share.
 */
#pragma once

#include "autograd/op.h"

/* The dims as a mask; p for those that have a number besides: an order, a correction. */
struct reduce_attr {
    uint32_t dims;
    bool keepdim;
    double p;
};
#define RG_UNNAMED   UINT32_MAX /* the mask of all dims where none was named */
#define RG_EVERY_DIM INT32_MAX  /* and where the list of them was empty */
#define RG_REDUCE_ATTR(dims_, ...) \
    &(const struct reduce_attr) { .dims = (dims_), __VA_ARGS__ }
#define REDUCED(inputs, ...) \
    { inputs, RG_REDUCE_ATTR(__VA_ARGS__) } /* a sample */

static const rg_dims rg_no_dims = { 0 };

/* dims as a mask, `none` if there are none of them; then the application. */
rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p);
void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a);
bool rgi_reduce_shape(rg_call *c);
bool rgi_reduce_shape_int64(rg_call *c);
/* What was reduced, with its dims again as those of size 1; one number stays as it is. */
rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a);
/* 1 / (how many) where x equals y, a reduction of it, else 0. NaNs are equal if nan_too. */
rg_tensor *rgi_reduce_share(rg_tensor *x, rg_tensor *y, const struct reduce_attr *a, bool nan_too);
rg_tensor *rgi_cumprod_before(rg_tensor *x, int dim, bool reverse); /* cumulate.c */

/* A row whose forward is a call of a kernel with y, x and a; the rest of the row follows. */
#define RG_REDUCTION(f, kernel, ...)             \
    static bool f##_forward(rg_call *c) {        \
        const struct reduce_attr *a = c->attr;   \
        rg_tensor *y = c->out[0], *x = c->in[0]; \
        return kernel;                           \
    }                                            \
    RG_OP(f, .n_in = 1, RG_WITH(reduce), .forward = f##_forward, __VA_ARGS__)

/* The public functions over everything, several dims, one. check: can x be reduced over dims?
 * none: what no dims in the list mean. */
#define RG_REDUCE(f, none, check)                                                                \
    static rg_tensor *f##_over(rg_tensor *x, const rg_dims *dims, uint32_t no_dims, bool keep) { \
        return (check) ? rgi_reduce(&rg_op_##f, x, dims, no_dims, keep, 0) : NULL;               \
    }                                                                                            \
    rg_tensor *rg_##f(rg_tensor *x) { return f##_over(x, &rg_no_dims, RG_UNNAMED, false); }      \
    rg_tensor *rg_##f##_dims(rg_tensor *x, rg_dims dims, bool keep) {                            \
        return f##_over(x, &dims, none, keep);                                                   \
    }                                                                                            \
    rg_tensor *rg_##f##_dim(rg_tensor *x, int dim, bool keep) {                                  \
        return f##_over(x, &RG_DIMS(dim), 0, keep);                                              \
    }
