/*
 * softmax.c: softmax and its kind, row by row along one dim.
 */
#include "kernels.h"

#include <math.h>

typedef struct { int64_t n, y_step, x_step, g_step; } softmax_context;

#define K_SOFTMAX(T, EXP)                                                                       \
    static void softmax_##T(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        for (int64_t r = 0; r < rows; r++) {                                                    \
            const T *x = (const T *)(p[1] + r * s[1]);                                          \
            T *y = (T *)(p[0] + r * s[0]), max = -(T)INFINITY, total = 0;                       \
            for (int64_t i = 0; i < c->n; i++) {                                                \
                T v = x[i * c->x_step];                                                         \
                max = v > max || v != v ? v : max;                                              \
            }                                                                                   \
            for (int64_t i = 0; i < c->n; i++) total += y[i * c->y_step] = EXP(x[i * c->x_step] - max); \
            for (int64_t i = 0; i < c->n; i++) y[i * c->y_step] /= total;                       \
        }                                                                                       \
    }                                                                                           \
    static void softmax_backward_##T(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        for (int64_t r = 0; r < rows; r++) {                                                    \
            T *gx = (T *)(p[0] + r * s[0]), dot = 0;                                            \
            const T *g = (const T *)(p[1] + r * s[1]), *y = (const T *)(p[2] + r * s[2]);       \
            for (int64_t i = 0; i < c->n; i++) dot += g[i * c->g_step] * y[i * c->x_step];      \
            for (int64_t i = 0; i < c->n; i++)                                                  \
                gx[i * c->y_step] = y[i * c->x_step] * (g[i * c->g_step] - dot);                \
        }                                                                                       \
    }
K_SOFTMAX(float, expf)
K_SOFTMAX(double, exp)

/* t without dim, whose step it gives: what remains are the rows. */
static rg_tensor rows_along(const rg_tensor *t, int dim, int64_t *step)
{
    rg_tensor rows = *t;
    *step = 1;
    if (t->ndim) {
        *step = t->stride[dim];
        rows.size[dim] = 1;
    }
    rg_update_flags(&rows);
    return rows;
}

void k_softmax(rg_tensor *y, const rg_tensor *x, int dim)
{
    softmax_context c = { .n = x->ndim ? x->size[dim] : 1 };
    rg_tensor ry = rows_along(y, dim, &c.y_step), rx = rows_along(x, dim, &c.x_step);
    if (x->numel) rg_each(2, (rg_tensor *[]){ &ry, &rx }, x->dtype == RG_FLOAT32 ? softmax_float : softmax_double, &c);
}

void k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim)
{
    softmax_context c = { .n = y->ndim ? y->size[dim] : 1 };
    rg_tensor rx = rows_along(gx, dim, &c.y_step), rg = rows_along(g, dim, &c.g_step), ry = rows_along(y, dim, &c.x_step);
    if (y->numel) rg_each(3, (rg_tensor *[]){ &rx, &rg, &ry },
                          y->dtype == RG_FLOAT32 ? softmax_backward_float : softmax_backward_double, &c);
}
