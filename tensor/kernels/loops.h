/*
 * loops.h: what loops over elements are made of. LOOP_n(name, T, R, expression)
 * defines an rg_loop `name` from n operands of type T to one of type R; the
 * expression names the operands x (or a, b, c), their type `real`, and the
 * numbers k[0] .. k[2] that came as the context. Where all is contiguous, or one
 * of two operands is a single number, there is a loop that vectorises.
 */
#ifndef RG_LOOPS_H
#define RG_LOOPS_H

#include "kernels.h"

#include "smooth.h"

#include <tgmath.h>

K_ROUNDING(float, 0x1p23f)
K_ROUNDING(double, 0x1p52)

/* The output is an operand itself, or apart from it: no step depends on another. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"        /* what calls libm does not vectorise */
#define K_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define K_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The numbers in the loop's type; an int64_t that can't be is what a conversion gives. */
#define K_NUMBERS                                                                               \
    real k[3] = { 0 };                                                                          \
    for (int i = 0; i < 3 && context; i++)                                                      \
        k[i] = (real)_Generic((real)0, int64_t: rg_load_i64((const double *)context + i, RG_FLOAT64), \
                              default: ((const double *)context)[i]);                           \
    (void)k;

#define LOOP_1(name, T, R, expression)                                                          \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context)       \
    {                                                                                           \
        typedef T real;                                                                         \
        K_NUMBERS                                                                               \
        if (s[0] == sizeof(R) && s[1] == sizeof(T)) {                                           \
            R *y = (R *)p[0];                                                                   \
            const T *px = (const T *)p[1];                                                      \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const T x = px[i];                                                              \
                (void)x;                                                                        \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else {                                                                                \
            char *y = p[0];                                                                     \
            const char *px = p[1];                                                              \
            for (int64_t i = 0; i < n; i++, y += s[0], px += s[1]) {                            \
                const T x = *(const T *)px;                                                     \
                (void)x;                                                                        \
                *(R *)y = (R)(expression);                                                      \
            }                                                                                   \
        }                                                                                       \
    }

#define LOOP_2(name, T, R, expression)                                                          \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context)       \
    {                                                                                           \
        typedef T real;                                                                         \
        K_NUMBERS                                                                               \
        R *y = (R *)p[0];                                                                       \
        const T *pa = (const T *)p[1], *pb = (const T *)p[2];                                   \
        if (s[0] == sizeof(R) && s[1] == sizeof(T) && s[2] == sizeof(T)) {                      \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const T a = pa[i], b = pb[i];                                                   \
                (void)a, (void)b;                                                               \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else if (s[0] == sizeof(R) && s[1] == sizeof(T) && s[2] == 0) {                       \
            const T b = *pb;                                                                    \
            (void)b;                                                                            \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const T a = pa[i];                                                              \
                (void)a;                                                                        \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else if (s[0] == sizeof(R) && s[1] == 0 && s[2] == sizeof(T)) {                       \
            const T a = *pa;                                                                    \
            (void)a;                                                                            \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const T b = pb[i];                                                              \
                (void)b;                                                                        \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else {                                                                                \
            char *to = p[0], *from_a = p[1], *from_b = p[2];                                    \
            for (int64_t i = 0; i < n; i++, to += s[0], from_a += s[1], from_b += s[2]) {       \
                const T a = *(const T *)from_a, b = *(const T *)from_b;                         \
                (void)a, (void)b;                                                               \
                *(R *)to = (R)(expression);                                                     \
            }                                                                                   \
        }                                                                                       \
    }

/* The first of three has its own type: a mask's, say. */
#define LOOP_3(name, A, T, R, expression)                                                       \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context)       \
    {                                                                                           \
        typedef T real;                                                                         \
        K_NUMBERS                                                                               \
        if (s[0] == sizeof(R) && s[1] == sizeof(A) && s[2] == sizeof(T) && s[3] == sizeof(T)) { \
            R *y = (R *)p[0];                                                                   \
            const A *pa = (const A *)p[1];                                                      \
            const T *pb = (const T *)p[2], *pc = (const T *)p[3];                               \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const A a = pa[i];                                                              \
                const T b = pb[i], c = pc[i];                                                   \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else if (s[0] == sizeof(R) && s[1] == sizeof(A) && s[2] == 0 && s[3] == 0) {          \
            R *y = (R *)p[0];                                                                   \
            const A *pa = (const A *)p[1];                                                      \
            const T b = *(const T *)p[2], c = *(const T *)p[3];                                 \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const A a = pa[i];                                                              \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else if (s[0] == sizeof(R) && s[1] == sizeof(A) && s[2] == sizeof(T) && s[3] == 0) {  \
            R *y = (R *)p[0];                                                                   \
            const A *pa = (const A *)p[1];                                                      \
            const T *pb = (const T *)p[2], c = *(const T *)p[3];                                \
            K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                     \
                const A a = pa[i];                                                              \
                const T b = pb[i];                                                              \
                y[i] = (R)(expression);                                                         \
            }                                                                                   \
        } else {                                                                                \
            char *to = p[0], *from_a = p[1], *from_b = p[2], *from_c = p[3];                    \
            for (int64_t i = 0; i < n; i++, to += s[0], from_a += s[1], from_b += s[2], from_c += s[3]) { \
                const A a = *(const A *)from_a;                                                 \
                const T b = *(const T *)from_b, c = *(const T *)from_c;                         \
                *(R *)to = (R)(expression);                                                     \
            }                                                                                   \
        }                                                                                       \
    }

/* Integers wrap around, as torch's do. */
static inline int64_t k_wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t k_wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t k_wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

#endif
