/*
 * product.h: vectors and matrices as operands of a product, and what torch says of products. The
 * products are in product.c; torch's sentences and names are in product_torch.c.
 */
#pragma once

#include "autograd/op.h"

/* ---- operands (product.c) ------------------------------------------------------ */

/* Returns t's header with a dim of size 1 more at `at`: a vector as a matrix. */
rg_tensor rgi_product_raise(rg_tensor t, int at);

/* Returns how many vectors t consists of, if they lie along `dim`. */
int64_t rgi_product_vectors(const rg_tensor *t, int dim);

/* Returns whether nothing is wrong with a b, where both have dims. */
static inline bool rgi_product_fits(const rg_tensor *a, const rg_tensor *b) {
    int64_t terms = b->size[b->ndim == 1 ? 0 : b->ndim - 2];
    return a->size[a->ndim - 1] == terms && a->dtype == b->dtype && a->dtype != RG_BOOL;
}

/* ---- what torch says (product_torch.c) ----------------------------------------- */

/* torch would compute a product with one of these functions. */
typedef enum { MATMUL_DOT, MATMUL_MV, MATMUL_MM, MATMUL_BMM } matmul_kind;

/* Where one operand has no batch, torch makes one product of two matrices. If that is the left one,
 * it is the product of both transposed, and `swapped` says so. */
struct matmul_attr {
    const char *name, *node;
    matmul_kind kind;
    bool swapped;
};

struct addmm_attr {
    const char *node;
    double beta, alpha;
    bool batched;
};

/* Returns how torch would compute rg_matmul(a, b). */
struct matmul_attr rgi_matmul_as_torch(const rg_tensor *a, const rg_tensor *b);
/* Returns torch's name for the node of rg_linear's result. */
const char *rgi_linear_node(const rg_tensor *x, const rg_tensor *bias);

/* Each of these returns true if the operands may be multiplied, else fails with torch's sentence.
 * y has the product's shape. */
bool rgi_matmul_allows(const struct matmul_attr *how, const rg_tensor *a, const rg_tensor *b,
                       const rg_tensor *y);
bool rgi_bmm_allows(const char *op, const rg_tensor *a, const rg_tensor *b);
bool rgi_addmm_allows_shapes(const struct addmm_attr *how, const rg_tensor *a, const rg_tensor *b);
bool rgi_addmm_allows(const struct addmm_attr *how, const rg_tensor *c, const rg_tensor *a,
                      const rg_tensor *b);
bool rgi_linear_allows_ranks(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias);
bool rgi_linear_allows(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                       const rg_tensor *y);
