/*
 * reduce.c: sums, extremes and their kind, over the dims of a mask.
 */
#include "kernels.h"

#include <math.h>

/* x with its kept dims first and its reduced ones last, as two walks: `kept` goes
 * over y and where x's reductions start, `reduced` over the steps of one. */
static void reduce_walks(rg_tensor *y, const rg_tensor *x, uint32_t dims, rg_walk *kept, rg_walk *reduced)
{
    rg_tensor outer = *x, inner = *x;
    for (int d = 0; d < x->ndim; d++) {
        if (dims >> d & 1) outer.size[d] = 1;
        else inner.size[d] = 1;
    }
    rg_update_flags(&outer);
    rg_update_flags(&inner);
    rg_tensor shaped = *y;                              /* y may have been squeezed */
    shaped.ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) shaped.size[d] = outer.size[d];
    rg_set_strides(&shaped);
    rg_walk_make(kept, 2, (rg_tensor *[]){ &shaped, &outer });
    rg_walk_make(reduced, 1, (rg_tensor *[]){ &inner });
}

#define K_SUM(T, R)                                                                             \
    static void sum_##T(char *const p[], const int64_t s[], int64_t n, const void *context)     \
    {                                                                                           \
        R total = 0;                                                                            \
        const char *x = p[0];                                                                   \
        for (int64_t i = 0; i < n; i++, x += s[0]) total += *(const T *)x;                      \
        *(R *)context += total;                                                                 \
    }
K_SUM(bool, int64_t)
K_SUM(int64_t, int64_t)
K_SUM(float, float)
K_SUM(double, double)

typedef struct { rg_walk *reduced; rg_loop *inner; rg_dtype dtype; } sum_context;

static void sum_rows(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    const sum_context *c = context;
    for (int64_t i = 0; i < n; i++) {
        memset(p[0] + i * s[0], 0, rg_sizeof(c->dtype));
        c->reduced->data[0] = p[1] + i * s[1];
        rg_walk_run(c->reduced, c->inner, p[0] + i * s[0]);
    }
}

void k_sum(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    static rg_loop *const inner[] = { sum_bool, sum_int64_t, sum_float, sum_double };
    rg_walk kept, reduced;
    reduce_walks(y, x, dims, &kept, &reduced);
    sum_context c = { &reduced, inner[x->dtype], y->dtype };
    rg_walk_run(&kept, sum_rows, &c);
}

#define K_EXTREME(T)                                                                            \
    static int64_t extreme_##T(const char *x, int64_t step, int64_t n, bool smallest, char *value) \
    {                                                                                           \
        T best = *(const T *)x;                                                                 \
        int64_t at = 0;                                                                         \
        for (int64_t i = 1; i < n && best == best; i++) {                                       \
            T v = *(const T *)(x + i * step);                                                   \
            if (smallest ? !(v >= best) : !(v <= best)) best = v, at = i;                       \
        }                                                                                       \
        *(T *)value = best;                                                                     \
        return at;                                                                              \
    }
K_EXTREME(bool)
K_EXTREME(int64_t)
K_EXTREME(float)
K_EXTREME(double)

typedef struct { int64_t n, step; bool smallest; int64_t (*best)(const char *, int64_t, int64_t, bool, char *); } extreme_context;

static void extreme_rows(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    const extreme_context *c = context;
    for (int64_t i = 0; i < n; i++)
        *(int64_t *)(p[1] + i * s[1]) = c->best(p[2] + i * s[2], c->step, c->n, c->smallest, p[0] + i * s[0]);
}

void k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest)
{
    static int64_t (*const best[])(const char *, int64_t, int64_t, bool, char *) =
        { extreme_bool, extreme_int64_t, extreme_float, extreme_double };
    rg_tensor outer = *x, v = *values, at = *indices;
    extreme_context c = { 1, 0, smallest, best[x->dtype] };
    if (x->ndim) {
        c.n = x->size[dim], c.step = x->stride[dim] * (int64_t)rg_sizeof(x->dtype);
        outer.size[dim] = 1;
    }
    rg_update_flags(&outer);
    v.ndim = at.ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) v.size[d] = at.size[d] = outer.size[d];
    rg_set_strides(&v);
    rg_set_strides(&at);
    rg_each(3, (rg_tensor *[]){ &v, &at, &outer }, extreme_rows, &c);
}
