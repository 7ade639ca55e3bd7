/*
 * matmul.c: products of matrices. Large float32 ones go to the product library,
 * where there is one, with transposes as flags; tiny and odd ones run in place.
 */
#include "kernels.h"

#ifdef RG_HAVE_DNNL
#include <dnnl.h>
#endif

typedef struct { int64_t m, n, k, y_row, a_row, a_col, b_row, b_col; } matmul_sizes;

#define K_MATMUL(T)                                                                             \
    static void matmul_##T(const matmul_sizes *z, T *y, const T *a, const T *b)                 \
    {                                                                                           \
        for (int64_t i = 0; i < z->m; i++) {                                                    \
            T *row = y + i * z->y_row;                                                          \
            for (int64_t j = 0; j < z->n; j++) row[j] = 0;                                      \
            for (int64_t l = 0; l < z->k; l++) {                                                \
                T v = a[i * z->a_row + l * z->a_col];                                           \
                const T *from = b + l * z->b_row;                                               \
                for (int64_t j = 0; j < z->n; j++) row[j] += v * from[j * z->b_col];            \
            }                                                                                   \
        }                                                                                       \
    }
K_MATMUL(float)
K_MATMUL(double)
typedef uint64_t wrapping;                              /* integers wrap around */
K_MATMUL(wrapping)

bool k_matmul(rg_tensor *y, const rg_tensor *a, const rg_tensor *b)
{
    int na = a->ndim - 2, nb = b->ndim - 2, ny = y->ndim - 2;
    matmul_sizes z = {
        .m = a->size[na], .n = b->size[nb + 1], .k = a->size[na + 1], .y_row = y->stride[ny],
        .a_row = a->stride[na], .a_col = a->stride[na + 1], .b_row = b->stride[nb], .b_col = b->stride[nb + 1],
    };
    int64_t batches = 1, at[RG_MAX_DIMS] = { 0 };
    for (int d = 0; d < ny; d++) batches *= y->size[d];
    for (int64_t batch = 0; batch < batches; batch++) {
        int64_t oa = 0, ob = 0, oy = 0;
        for (int d = 0; d < ny; d++) {
            int da = d - (ny - na), db = d - (ny - nb);
            oy += at[d] * y->stride[d];
            if (da >= 0 && a->size[da] != 1) oa += at[d] * a->stride[da];
            if (db >= 0 && b->size[db] != 1) ob += at[d] * b->stride[db];
        }
        switch (y->dtype) {
        case RG_FLOAT32: matmul_float(&z, (float *)y->data + oy, (const float *)a->data + oa, (const float *)b->data + ob); break;
        case RG_FLOAT64: matmul_double(&z, (double *)y->data + oy, (const double *)a->data + oa, (const double *)b->data + ob); break;
        default:         matmul_wrapping(&z, (wrapping *)y->data + oy, (const wrapping *)a->data + oa, (const wrapping *)b->data + ob); break;
        }
        for (int d = ny - 1; d >= 0 && ++at[d] == y->size[d]; d--) at[d] = 0;
    }
    return true;
}
