/*
 * loops/unary.h: elementwise functions of one operand, for one type and set.
 */
#include "map.h"

K_INLINE T K_NAME(sign)(T x) {
#if K_IS_BOOL
    return x;
#else
    return (x > 0) - (x < 0);
#endif
}
K_MAP_1(sign)

/* ---- integers and floats; integers wrap around ----------------------------------------------- */
#if !K_IS_BOOL

K_INLINE T K_NAME(neg)(T x) {
#if K_IS_FLOAT
    return -x;
#else
    return (T)(0 - (uint64_t)x);
#endif
}

K_INLINE T K_NAME(abs)(T x) {
#if K_IS_FLOAT
    return fabs(x);
#else
    return x < 0 ? K_NAME(neg)(x) : x;
#endif
}

K_INLINE T K_NAME(square)(T x) {
#if K_IS_FLOAT
    return x * x;
#else
    return (T)((uint64_t)x * (uint64_t)x);
#endif
}

#if K_IS_FLOAT
K_INLINE T K_NAME(floor)(T x) { return K_TYPED(k_floor)(x); }
K_INLINE T K_NAME(ceil)(T x) { return K_TYPED(k_ceil)(x); }
K_INLINE T K_NAME(round)(T x) { return K_TYPED(k_rint)(x); }
K_INLINE T K_NAME(trunc)(T x) { return K_TYPED(k_trunc)(x); }
#else
/* Rounding doesn't change integers. */
K_INLINE T K_NAME(floor)(T x) { return x; }
K_INLINE T K_NAME(ceil)(T x) { return x; }
K_INLINE T K_NAME(round)(T x) { return x; }
K_INLINE T K_NAME(trunc)(T x) { return x; }
#endif

K_MAP_1(neg)
K_MAP_1(abs)
K_MAP_1(square)
K_MAP_1(floor)
K_MAP_1(ceil)
K_MAP_1(round)
K_MAP_1(trunc)

#endif

/* ---- floats ---------------------------------------------------------------------------------- */
#if K_IS_FLOAT

K_INLINE T K_NAME(frac)(T x) { return x - K_TYPED(k_trunc)(x); }

/* Returns k[0] for NaN, k[1] for infinity, k[2] for -infinity, and x otherwise. */
K_INLINE T K_NAME(nan_to_num)(T x, const T *k) {
    const T bounded = x < 0 ? k[2] : k[1];
    const T number = isinf(x) ? bounded : x;
    return x != x ? k[0] : number;
}

/* Rounds to `decimals` digits behind the point, where decimals > 0. k[0] is 10^decimals. */
K_INLINE T K_NAME(round_up)(T x, const T *k) { return K_TYPED(k_rint)(x * k[0]) / k[0]; }

/* Rounds to tens, hundreds and so on, where decimals < 0. k[0] is 10^-decimals. */
K_INLINE T K_NAME(round_down)(T x, const T *k) { return K_TYPED(k_rint)(x / k[0]) * k[0]; }

K_INLINE T K_NAME(sqrt)(T x) { return sqrt(x); }

K_INLINE T K_NAME(rsqrt)(T x) { return 1 / sqrt(x); }

K_INLINE T K_NAME(reciprocal)(T x) { return 1 / x; }

K_INLINE T K_NAME(reciprocal_square)(T x) { return 1 / (x * x); }

K_INLINE T K_NAME(cube)(T x) { return x * x * x; }

K_INLINE T K_NAME(exp)(T x) { return K_TYPED(k_exp)(x); }

K_INLINE T K_NAME(exp2)(T x) { return K_TYPED(k_exp2)(x); }

K_INLINE T K_NAME(expm1)(T x) { return K_TYPED(k_expm1)(x); }

K_INLINE T K_NAME(log)(T x) { return K_TYPED(k_log)(x); }

K_INLINE T K_NAME(log1p)(T x) { return K_TYPED(k_log1p)(x); }

K_INLINE T K_NAME(log2)(T x) { return K_TYPED(k_log2)(x); }

K_INLINE T K_NAME(log10)(T x) { return K_TYPED(k_log10)(x); }

K_INLINE T K_NAME(sinh)(T x) { return K_TYPED(k_sinh)(x); }

K_INLINE T K_NAME(cosh)(T x) { return K_TYPED(k_cosh)(x); }

K_INLINE T K_NAME(asin)(T x) { return K_TYPED(k_asin)(x); }

K_INLINE T K_NAME(acos)(T x) { return K_TYPED(k_acos)(x); }

K_INLINE T K_NAME(atan)(T x) { return K_TYPED(k_atan)(x); }

K_INLINE T K_NAME(erf)(T x) { return K_TYPED(k_erf)(x); }

K_INLINE T K_NAME(erfc)(T x) { return K_TYPED(k_erfc)(x); }

K_MAP_1(frac)
K_MAP_1_WITH(nan_to_num)
K_MAP_1_WITH(round_up)
K_MAP_1_WITH(round_down)
K_MAP_1(sqrt)
K_MAP_1(rsqrt)
K_MAP_1(reciprocal)
K_MAP_1(reciprocal_square)
K_MAP_1(cube)
K_MAP_1(exp)
K_MAP_1(exp2)
K_MAP_1(expm1)
K_MAP_1(log)
K_MAP_1(log1p)
K_MAP_1(log2)
K_MAP_1(log10)
K_MAP_1(sinh)
K_MAP_1(cosh)
K_MAP_1(asin)
K_MAP_1(acos)
K_MAP_1(atan)
K_MAP_1(erf)
K_MAP_1(erfc)

#include "circle.h"

#endif

#include "map_end.h"
