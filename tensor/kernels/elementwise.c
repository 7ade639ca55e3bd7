/*
 * elementwise.c: loops over elements, one an op and dtype. Each has a row where
 * everything is contiguous, which the compiler vectorises, one where the second
 * operand is a single number, and one for any strides.
 */
#include "kernels.h"

#include <math.h>

#define K_BINARY(name, T, R, expression)                                                        \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context)       \
    {                                                                                           \
        (void)context;                                                                          \
        if (s[0] == sizeof(R) && s[1] == sizeof(T) && s[2] == sizeof(T)) {                      \
            for (int64_t i = 0; i < n; i++) {                                                   \
                T a = ((const T *)p[1])[i], b = ((const T *)p[2])[i];                           \
                ((R *)p[0])[i] = (R)(expression);                                               \
            }                                                                                   \
        } else if (s[0] == sizeof(R) && s[1] == sizeof(T) && s[2] == 0) {                       \
            T b = *(const T *)p[2];                                                             \
            for (int64_t i = 0; i < n; i++) {                                                   \
                T a = ((const T *)p[1])[i];                                                     \
                ((R *)p[0])[i] = (R)(expression);                                               \
            }                                                                                   \
        } else {                                                                                \
            char *y = p[0], *pa = p[1], *pb = p[2];                                             \
            for (int64_t i = 0; i < n; i++, y += s[0], pa += s[1], pb += s[2]) {                \
                T a = *(const T *)pa, b = *(const T *)pb;                                       \
                *(R *)y = (R)(expression);                                                      \
            }                                                                                   \
        }                                                                                       \
    }

/* Integers wrap around, as torch's do. */
#define K_BINARY_SAME(op, on_bool, on_int, on_float)                                            \
    K_BINARY(op##_bool, bool, bool, on_bool)                                                    \
    K_BINARY(op##_int64, int64_t, int64_t, on_int)                                              \
    K_BINARY(op##_float, float, float, on_float)                                                \
    K_BINARY(op##_double, double, double, on_float)                                             \
    void k_##op(rg_tensor *y, rg_tensor *const in[])                                            \
    {                                                                                           \
        static rg_loop *const by_dtype[] = { op##_bool, op##_int64, op##_float, op##_double }; \
        rg_each(3, (rg_tensor *[]){ y, in[0], in[1] }, by_dtype[in[0]->dtype], NULL);           \
    }

K_BINARY_SAME(add, a | b, (int64_t)((uint64_t)a + (uint64_t)b), a + b)
K_BINARY_SAME(mul, a & b, (int64_t)((uint64_t)a * (uint64_t)b), a * b)
K_BINARY_SAME(sub, a - b, (int64_t)((uint64_t)a - (uint64_t)b), a - b)
