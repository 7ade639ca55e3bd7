/*
 * kernels.h: the loops. A kernel gets tensors whose shapes and dtypes are right
 * already and whose output is allocated; it can't fail unless it says so.
 */
#ifndef RG_KERNELS_H
#define RG_KERNELS_H

#include "tensor/internal.h"

/* What FORWARD of an op without attributes is: y from in[0], in[1], .. */
typedef void rg_kernel(rg_tensor *y, rg_tensor *const in[]);

/* elementwise.c */
rg_kernel k_add, k_sub, k_mul;

/* reduce.c */
void k_sum(rg_tensor *y, const rg_tensor *x, uint32_t dims);        /* y: x's shape with the dims of the mask at 1 */
void k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest);

/* softmax.c */
void k_softmax(rg_tensor *y, const rg_tensor *x, int dim);
void k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim);

/* matmul.c: y = a b over batches; the last two dims are the matrices'. Any strides. */
bool k_matmul(rg_tensor *y, const rg_tensor *a, const rg_tensor *b);

/* index.c */
void k_gather(rg_tensor *y, const rg_tensor *x, int dim, const rg_tensor *index);        /* indices are in range */
void k_scatter(rg_tensor *y, int dim, const rg_tensor *index, const rg_tensor *source);  /* y[index] = source */
void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start);     /* y.narrow(dim, start, ..) = x */

#endif
