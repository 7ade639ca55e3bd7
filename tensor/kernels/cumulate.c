/*
 * cumulate.c: running sums, products and recurrences along one dim.
 */
#include "kernels.h"

#include <stdlib.h>

enum { CUMULATE_COLUMNS = 1024 };

/* elements along the dim, bytes from one to the next */
typedef struct {
    int64_t n, step[3];
} cumulate_along;

/* a is what there is so far, v the next element of x and w that of z. Either line after
 * line or, where the neighbours of other lines lie closer, many lines at once. */
#define K_CUMULATE(name, T, R, A, unit, expression)                                              \
    static inline A name##_next(A a, const char *x, const char *z) {                             \
        A v = (A) * (const T *)x, w = (A) * (const T *)z;                                        \
        (void)w;                                                                                 \
        return expression;                                                                       \
    }                                                                                            \
    static void name(char *const p[], const int64_t s[], int64_t lines, const void *context) {   \
        const cumulate_along *c = context;                                                       \
        int64_t block = llabs(c->step[1]) <= llabs(s[1]) ? 1 : CUMULATE_COLUMNS;                 \
        A so_far[CUMULATE_COLUMNS];                                                              \
        for (int64_t j = 0; j < lines; j += block) {                                             \
            int64_t cols = RG_MIN(block, lines - j);                                             \
            char *y = p[0] + j * s[0];                                                           \
            const char *x = p[1] + j * s[1], *z = p[2] + j * s[2];                               \
            A a = unit;                                                                          \
            for (int64_t k = 0; k < cols; k++)                                                   \
                so_far[k] = unit;                                                                \
            for (int64_t i = 0; i < c->n;                                                        \
                 i++, y += c->step[0], x += c->step[1], z += c->step[2]) {                       \
                if (block == 1)                                                                  \
                    *(R *)y = (R)(a = name##_next(a, x, z));                                     \
                else                                                                             \
                    for (int64_t k = 0; k < cols; k++)                                           \
                        *(R *)(y + k * s[0]) =                                                   \
                            (R)(so_far[k] = name##_next(so_far[k], x + k * s[1], z + k * s[2])); \
            }                                                                                    \
        }                                                                                        \
    }
#define K_CUMULATE_KIND(name, unit, expression)                             \
    K_CUMULATE(name##_bool, bool, uint64_t, uint64_t, unit, expression)     \
    K_CUMULATE(name##_int64, int64_t, uint64_t, uint64_t, unit, expression) \
    K_CUMULATE(name##_float, float, float, double, unit, expression)        \
    K_CUMULATE(name##_double, double, double, double, unit, expression)
K_CUMULATE_KIND(cumsum, 0, a + v)
K_CUMULATE_KIND(cumprod, 1, a *v)
K_CUMULATE_KIND(recur, 0, w + v * a)

void k_cumulate(rg_tensor *y, const rg_tensor *x, const rg_tensor *z, int dim, bool reverse,
                k_running what) {
    static rg_loop *const loops[][4] = { K_BY_DTYPE(cumsum), K_BY_DTYPE(cumprod),
                                         K_BY_DTYPE(recur) };
    cumulate_along c = { .n = y->ndim ? y->size[dim] : 1 };
    rg_tensor *t[] = { y, (rg_tensor *)x, (rg_tensor *)z };
    k_lines(3, t, dim, reverse, c.step, loops[what][x->dtype], &c);
}
