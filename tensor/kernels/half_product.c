/*
 * half_product.c: products with a matrix of 16-bit floats, such as the weight of a linear layer.
 * The matrix is never converted as a whole. A few of its rows at a time are converted into a panel
 * that stays in the caches. If the matrix is of bfloat16 and the other factor is a vector, its
 * elements are converted in registers.
 */
#include "half_product.h"
#include "kernels.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

/* HALF_PANEL is the number of elements of a panel, which are 512 KB as floats, and HALF_SUMS the
 * number of partial sums of a dot product, which fill four vectors of 32 bytes. */
enum { HALF_PANEL = 1 << 17, HALF_SUMS = 32 };

/* The operands of dot products: y[row] is the sum of k terms x[i] w[row][i], for each row of w. */
typedef struct {
    float *y;
    const float *x;
    const void *w;
    int64_t k, w_row;
} half_dots;

#define K_LOOPS "loops/half_dots.h"
#define K_TYPES_NONE
#define K_NARROW
#include "sets.h"

typedef void half_dots_loop(const half_dots *z, int64_t begin, int64_t end);

typedef struct {
    half_dots z;
    half_dots_loop *loop;
} half_dots_work;

static void half_dots_part(void *context, int64_t begin, int64_t end, int worker) {
    const half_dots_work *work = context;
    (void)worker;
    work->loop(&work->z, begin, end);
}

/* Computes y = w x, where w is of bfloat16. Requires that y, x and each row of w are contiguous. */
static void half_dots_of(rg_tensor *y, const rg_tensor *x, const rg_tensor *w) {
    static half_dots_loop *const bfloat16_dots_loops[K_COLUMNS] = K_BY_NARROW_SET(bfloat16_dots);
    half_dots_work work = { .z = { .y = (float *)(void *)y->data,
                                   .x = (const float *)(const void *)x->data,
                                   .w = w->data,
                                   .k = w->size[1],
                                   .w_row = w->stride[0] } };
    work.loop = K_LOOP_OF_SET(bfloat16_dots_loops);
    k_rows(w->size[0], w->size[1], half_dots_part, &work);
}

/* Makes `part` a header of n elements of t's dim, from element `at` on. */
static rg_tensor half_part(const rg_tensor *t, int dim, int64_t at, int64_t n) {
    rg_tensor part = rgi_header_of(t);
    part.size[dim] = n;
    part.data += at * t->stride[dim] * (int64_t)rgi_sizeof((rg_dtype)t->dtype);
    rgi_update_flags(&part);
    return part;
}

/* Computes y = x w^T, panel by panel of w's rows. */
static bool half_panels(rg_tensor *y, const rg_tensor *x, const rg_tensor *w) {
    const int64_t rows = w->size[0];
    const int64_t most = RG_MIN(rows, RG_MAX(16, HALF_PANEL / RG_MAX(w->size[1], 1)));
    rg_tensor *panel = rgi_new(RG_FLOAT32, 2, (int64_t[]){ most, w->size[1] });
    bool ok = panel;
    for (int64_t at = 0, n; at < rows && ok; at += n) {
        n = RG_MIN(most, rows - at);
        const rg_tensor from = half_part(w, 0, at, n);
        rg_tensor wide = half_part(panel, 0, 0, n);
        rgi_copy_elements(&wide, &from);
        rg_tensor to = half_part(y, y->ndim - 1, at, n);
        ok = k_matmul_with(&to, NULL, x, false, &wide, true, 1, 0);
    }
    rgi_release(panel);
    return ok;
}

bool k_half_product(rg_tensor *y, const rg_tensor *x, const rg_tensor *w) {
    const bool vector = w->dtype == RG_BFLOAT16 && x->numel == w->size[1]
                        && x->flags & RG_CONTIGUOUS && w->stride[1] == 1;
    if (!vector || !w->size[1])
        return half_panels(y, x, w);
    half_dots_of(y, x, w);
    return true;
}
