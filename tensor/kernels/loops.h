/*
 * loops.h: what loops over elements are made of. LOOP_n(name, T, R, expression)
 * defines an rg_loop `name` from n operands of type T to one of type R; the
 * expression names the operands x (or a, b, c), their type `real`, and the
 * numbers k[0] .. k[2] that came as the context. Where all is contiguous, or one
 * of two operands is a single number, there is a loop that vectorises. K_FLOATS
 * and its like define loops for several dtypes, and the kernel that takes them.
 */
#pragma once

#include "kernels.h"

#include "smooth.h"

/* The output is an operand itself, or apart from it: no step depends on another. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* what calls libm does not vectorise */
#define K_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define K_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The numbers in the loop's type; an int64_t that can't be is what a conversion gives. */
#define K_READ_NUMBERS                                                                          \
    real k[3] = { 0 };                                                                          \
    for (int i = 0; i < 3 && context; i++)                                                      \
        k[i] = (real) _Generic((real)0, int64_t                                                 \
                               : rgi_load_i64((const double *)context + i, RG_FLOAT64), default \
                               : ((const double *)context)[i]);                                 \
    (void)k;

#define K_LET(T, name, value) const __attribute__((unused)) T name = value;
#define K_AT(T, operand)      (*(T *)(p[operand] + i * s[operand]))
#define K_EACH(to, numbers, operands, R, expression)                                             \
    {                                                                                            \
        numbers K_INDEPENDENT for (int64_t i = 0; i < n; i++) { operands to = (R)(expression); } \
    }

/* result = the sum of values at i = 0 .. n - 1, in lanes, folded by halves: they vectorise, and
 * lose less than one running sum. (As an array from the start, the lanes would be written and read
 * back for every few values.) */
enum { K_LANES = 16 };
#define K_SUM_OF(result, n, value) K_SUM_AND(, result, n, value)
#define K_SUM_AND(also, result, n, value)                                                       \
    do {                                                                                        \
        __typeof__(result) __attribute__((vector_size(K_LANES * sizeof(result)))) sum_ = { 0 }, \
                                                                                  more_;        \
        __typeof__(result) lane_[K_LANES];                                                      \
        int64_t whole_ = (n) / K_LANES * K_LANES;                                               \
        const int left_ = (int)((n)-whole_);                                                    \
        for (int64_t j = 0; j < whole_; j += K_LANES) {                                         \
            also;                                                                               \
            for (int l = 0; l < K_LANES; l++) {                                                 \
                int64_t i = j + l;                                                              \
                lane_[l] = value;                                                               \
            }                                                                                   \
            memcpy(&more_, lane_, sizeof more_);                                                \
            sum_ += more_;                                                                      \
        }                                                                                       \
        if (left_) {                                                                            \
            for (int l = 0; l < K_LANES; l++) {                                                 \
                int64_t i = whole_ + l;                                                         \
                lane_[l] = l < left_ ? value : 0;                                               \
            }                                                                                   \
            memcpy(&more_, lane_, sizeof more_);                                                \
            sum_ += more_;                                                                      \
        }                                                                                       \
        result = K_LANES_SUM(sum_, lane_);                                                      \
    } while (0)
#define K_LANES_SUM(vector, lane) K_LANES_FOLD(vector, lane, K_PLUS)
#define K_PLUS(a, b)              ((a) + (b))
#define K_LANES_FOLD(vector, lane, of)                                              \
    __extension__({                                                                 \
        memcpy(lane, &(vector), sizeof lane);                                       \
        _Pragma("GCC unroll 4") for (int half_ = K_LANES / 2; half_;                \
                                     half_ /= 2) /* in registers */                 \
            for (int l = 0; l < half_; l++) lane[l] = of(lane[l], lane[l + half_]); \
        lane[0];                                                                    \
    })

/* to[i] = value for i < n; past: whole lines go past the caches (see past.c). Unrolled early, their
 * loop would be taken apart. */
#define K_ROW(past, to, n, value)                                       \
    do {                                                                \
        const bool past_ = past;                                        \
        __typeof__(*(to)) line_[K_LANES];                               \
        int64_t j_ = 0;                                                 \
        for (; past_ && j_ + K_LANES <= (n); j_ += K_LANES) {           \
            _Pragma("GCC unroll 1") for (int l = 0; l < K_LANES; l++) { \
                int64_t i = j_ + l;                                     \
                line_[l] = value;                                       \
            }                                                           \
            for (int l = 0; l < K_LANES; l += 64 / sizeof *line_)       \
                K_PAST((to) + j_ + l, line_ + l);                       \
        }                                                               \
        for (int64_t i = j_; i < (n); i++)                              \
            (to)[i] = value;                                            \
    } while (0)

#define LOOP(name, T, R, ...)                                                                     \
    static void K_SET(name)(char *const p[], const int64_t s[], int64_t n, const void *context) { \
        typedef T real;                                                                           \
        K_READ_NUMBERS                                                                            \
        R *y = (R *)p[0];                                                                         \
        __VA_ARGS__                                                                               \
    }

#define LOOP_1(name, T, R, expression)                                                          \
    LOOP(name, T, R, const T *px = (const T *)p[1]; if (s[0] == sizeof(R) && s[1] == sizeof(T)) \
             K_EACH(y[i], , K_LET(T, x, px[i]), R, expression) else K_EACH(                     \
                 K_AT(R, 0), , K_LET(T, x, K_AT(const T, 1)), R, expression))

#define LOOP_2(name, T, R, expression)                                                             \
    LOOP(name, T, R, const T *pa = (const T *)p[1], *pb = (const T *)p[2];                         \
         const bool dense = s[0] == sizeof(R), dense_a = s[1] == sizeof(T),                        \
         dense_b = s[2] == sizeof(T);                                                              \
         if (dense && dense_a && dense_b) K_EACH(y[i], , K_LET(T, a, pa[i]) K_LET(T, b, pb[i]), R, \
                                                 expression) else if (dense && dense_a && !s[2])   \
             K_EACH(y[i], K_LET(T, b, *pb), K_LET(T, a, pa[i]), R,                                 \
                    expression) else if (dense && !s[1] && dense_b)                                \
                 K_EACH(y[i], K_LET(T, a, *pa), K_LET(T, b, pb[i]), R, expression) else K_EACH(    \
                     K_AT(R, 0), , K_LET(T, a, K_AT(const T, 1)) K_LET(T, b, K_AT(const T, 2)), R, \
                     expression))

/* The first of three may have its own type: a mask's. */
#define LOOP_3_OF(name, A, T, R, expression)                                                     \
    LOOP(name, T, R, const A *pa = (const A *)p[1];                                              \
         const T *pb = (const T *)p[2], *pc = (const T *)p[3];                                   \
         const bool dense = s[0] == sizeof(R) && s[1] == sizeof(A), dense_b = s[2] == sizeof(T); \
         if (dense && dense_b && s[3] == sizeof(T))                                              \
             K_EACH(y[i], , K_LET(A, a, pa[i]) K_LET(T, b, pb[i]) K_LET(T, c, pc[i]), R,         \
                    expression) else if (dense && dense_b && !s[3])                              \
                 K_EACH(y[i], K_LET(T, c, *pc), K_LET(A, a, pa[i]) K_LET(T, b, pb[i]), R,        \
                        expression) else if (dense && !s[2] && !s[3])                            \
                     K_EACH(y[i], K_LET(T, b, *pb) K_LET(T, c, *pc), K_LET(A, a, pa[i]), R,      \
                            expression) else K_EACH(K_AT(R, 0), ,                                \
                                                    K_LET(A, a, K_AT(const A, 1))                \
                                                        K_LET(T, b, K_AT(const T, 2))            \
                                                            K_LET(T, c, K_AT(const T, 3)),       \
                                                    R, expression))
#define LOOP_3(name, T, R, expression) LOOP_3_OF(name, T, T, R, expression)

/* A kernel on n operands: a loop for each dtype that the last of them may have. */
#define K_KERNEL(op, n, light, ...) K_ONCE(const rg_kernel k_##op = { n, { __VA_ARGS__ }, light };)
#define K_ALL_KERNEL(op, n)                                                             \
    K_KERNEL(op, n, true, K_LOOPS(op##_bool), K_LOOPS(op##_int64), K_LOOPS(op##_float), \
             K_LOOPS(op##_double))
#define K_LOOPS(name) (rg_loop *const[]) K_SETS(name)

#define K_FLOAT_LOOPS(n, op, on_float) \
    LOOP_##n(op##_float, float, float, on_float) LOOP_##n(op##_double, double, double, on_float)
#define K_NUMBER_LOOPS(n, op, on_int, on_float) \
    LOOP_##n(op##_int64, int64_t, int64_t, on_int) K_FLOAT_LOOPS(n, op, on_float)

/* Loops and kernel of floats only, which take their time, or don't; of numbers; of numbers and
 * bool; with a bool as the answer. */
#define K_FLOATS(n, op, on_float)       K_FLOATS_OF(n, op, false, on_float)
#define K_LIGHT_FLOATS(n, op, on_float) K_FLOATS_OF(n, op, true, on_float)
#define K_FLOATS_OF(n, op, light, on_float) \
    K_FLOAT_LOOPS(n, op, on_float)          \
    K_KERNEL(op, n, light, NULL, NULL, K_LOOPS(op##_float), K_LOOPS(op##_double))
#define K_NUMBERS(n, op, on_int, on_float)  \
    K_NUMBER_LOOPS(n, op, on_int, on_float) \
    K_KERNEL(op, n, true, NULL, K_LOOPS(op##_int64), K_LOOPS(op##_float), K_LOOPS(op##_double))
#define K_ALL(n, op, on_bool, on_int, on_float)                                      \
    LOOP_##n(op##_bool, bool, bool, on_bool) K_NUMBER_LOOPS(n, op, on_int, on_float) \
        K_ALL_KERNEL(op, n)
#define K_TEST(n, op, on_int, on_float)                                                           \
    LOOP_##n(op##_bool, bool, bool, on_int) LOOP_##n(op##_int64, int64_t, bool, on_int)           \
        LOOP_##n(op##_float, float, bool, on_float) LOOP_##n(op##_double, double, bool, on_float) \
            K_ALL_KERNEL(op, n)

/* Integers wrap around, as torch's do. */
static inline int64_t k_wrap_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t k_wrap_sub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t k_wrap_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
