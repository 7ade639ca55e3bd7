/*
 * loops.h: what loops that are still macros are made of.
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

/* These choose smooth.h's functions by their argument's type, for loops that are still macros. */
#define K_OF(op, x)  _Generic((x), float : k_##op##_float, default : k_##op##_double)(x)
#define ORDER(x)     K_OF(order, x)
#define UNORDER(x)   _Generic((x), int32_t : k_unorder_float, default : k_unorder_double)(x)
#define EXP(x)       K_OF(exp, x)
#define EXP_BELOW(x) K_OF(exp_below, x)
#define LOG(x)       K_OF(log, x)
#define LOG1P(x)     K_OF(log1p, x)
#define TANH(x)      K_OF(tanh, x)
#define k_expf       k_exp_float
#define k_logf       k_log_float
#define k_exp_belowf k_exp_below_float

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
