/*
 * loops/special.h: the rarer elementwise functions with one or two operands (see special.c),
 * compiled for each element type and instruction set (see sets.h).
 */
#define KIND special
#include "map.h"

/* ---- rounding -------------------------------------------------------------------------------- */
#if !K_IS_BOOL

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

#endif

/* ---- functions of floats only ---------------------------------------------------------------- */
#if K_IS_FLOAT

K_INLINE T K_NAME(frac)(T x) { return x - K_TYPED(k_trunc)(x); }

/* Returns k[0] for NaN, k[1] for infinity, k[2] for -infinity, and x otherwise. */
K_INLINE T K_NAME(nan_to_num)(T x, const T *k) {
    const T bounded = x < 0 ? k[2] : k[1];
    const T number = isinf(x) ? bounded : x;
    return x != x ? k[0] : number;
}

/* Rounds x as torch.round does for decimals > 0: to that many digits after the point. k[0] is
 * 10^decimals. */
K_INLINE T K_NAME(round_up)(T x, const T *k) { return K_TYPED(k_rint)(x * k[0]) / k[0]; }

/* Rounds x as torch.round does for decimals < 0: to tens, hundreds and so on. k[0] is
 * 10^-decimals. */
K_INLINE T K_NAME(round_down)(T x, const T *k) { return K_TYPED(k_rint)(x / k[0]) * k[0]; }

K_INLINE T K_NAME(exp2)(T x) { return K_TYPED(k_exp2)(x); }

K_INLINE T K_NAME(expm1)(T x) { return K_TYPED(k_expm1)(x); }

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

K_MAP_1_WITH(nan_to_num)
K_MAP_1_WITH(round_up)
K_MAP_1_WITH(round_down)

#include "circle.h"

K_INLINE T K_NAME(xlogy)(T a, T b) {
    const T product = a * K_TYPED(k_log)(b);
    return a == 0 && b == b ? 0 : product;
}

/* Returns ln(e^a + e^b), computed as max(a, b) + ln(1 + e^-|a - b|). If a and b are the same
 * infinity, returns that infinity; a - b would be NaN. */
K_INLINE T K_NAME(logaddexp)(T a, T b) {
    const T most = a > b || a != a ? a : b;
    const T sum = most + K_TYPED(k_log1p)(K_TYPED(k_exp)(-fabs(a - b)));
    return a == b && isinf(a) ? a : sum;
}

K_INLINE T K_NAME(logaddexp2)(T a, T b) {
    const T most = a > b || a != a ? a : b;
    const T sum = most + K_TYPED(k_log1p)(K_TYPED(k_exp2)(-fabs(a - b))) * (T)M_LOG2E;
    return a == b && isinf(a) ? a : sum;
}

K_HEAVY_2_OR_NUMBER(xlogy)

#endif

/* ---- quotients and remainders -------------------------------------------------------------------
 * div_floor and remainder are Python's // and %: the quotient is rounded down, and the remainder
 * has the sign of b. */

#if K_IS_BOOL

K_INLINE T K_NAME(div_floor)(T a, T b) {
    (void)b;
    return a;
}
K_INLINE T K_NAME(div_trunc)(T a, T b) {
    (void)b;
    return a;
}
K_INLINE T K_NAME(remainder)(T a, T b) {
    (void)a;
    (void)b;
    return false;
}
K_INLINE T K_NAME(fmod)(T a, T b) {
    (void)a;
    (void)b;
    return false;
}

#elif K_IS_FLOAT

K_INLINE T K_NAME(fmod)(T a, T b) { return fmod(a, b); }

/* Returns a / b, rounded down; if b is 0, a / b isn't rounded. The quotient is computed from the
 * remainder, which is exact, so that quotient and remainder agree. */
static inline T K_NAME(div_floor)(T a, T b) {
    if (b == 0)
        return a / b;
    const T rest = fmod(a, b);
    T q = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        q -= 1;
    if (q == 0)
        return copysign((T)0, a / b);
    const T down = floor(q);
    return q - down > (T)0.5 ? down + 1 : down;
}

static inline T K_NAME(remainder)(T a, T b) {
    const T rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

K_INLINE T K_NAME(div_trunc)(T a, T b) { return K_TYPED(k_trunc)(a / b); }

#else

/* Returns the quotient of two integers, rounded towards 0. Requires that b isn't 0. INT64_MIN / -1
 * wraps around. */
static inline T K_NAME(div_trunc)(T a, T b) { return b == -1 ? (T)(0 - (uint64_t)a) : a / b; }

static inline T K_NAME(fmod)(T a, T b) { return b == -1 ? 0 : a % b; }

static inline T K_NAME(remainder)(T a, T b) {
    const T rest = K_NAME(fmod)(a, b);
    return rest && (b < 0) != (rest < 0) ? rest + b : rest;
}

static inline T K_NAME(div_floor)(T a, T b) {
    const T rest = K_NAME(fmod)(a, b);
    return K_NAME(div_trunc)(a, b) - (rest && (b < 0) != (rest < 0));
}

#endif

K_HEAVY_2(div_floor)
K_MAP_2(div_trunc)
K_HEAVY_2(remainder)
K_HEAVY_2(fmod)

/* ---- maxima and minima ----------------------------------------------------------------------- */

#if K_IS_BOOL

K_INLINE T K_NAME(maximum)(T a, T b) { return a | b; }
K_INLINE T K_NAME(minimum)(T a, T b) { return a & b; }
K_INLINE T K_NAME(fmax)(T a, T b) { return a | b; }
K_INLINE T K_NAME(fmin)(T a, T b) { return a & b; }

#else

/* maximum and minimum are NaN if a or b is NaN. fmax and fmin are NaN only if both are NaN. */
K_INLINE T K_NAME(maximum)(T a, T b) { return a > b || K_TYPED(k_is_nan)(a) ? a : b; }
K_INLINE T K_NAME(minimum)(T a, T b) { return a < b || K_TYPED(k_is_nan)(a) ? a : b; }
K_INLINE T K_NAME(fmax)(T a, T b) { return a > b || K_TYPED(k_is_nan)(b) ? a : b; }
K_INLINE T K_NAME(fmin)(T a, T b) { return a < b || K_TYPED(k_is_nan)(b) ? a : b; }

#endif

#define SPECIAL(name, Node, formula, weight, dtypes, ...) K_LOOP_OF_ROW(name, 1, weight, dtypes)
#define BINARY_ALONE(name, Node, formula, weight, dtypes, ...) \
    K_LOOP_OF_ROW(name, 2, weight, dtypes)
#include "tensor/kernels/elementwise.def"

#include "map_end.h"
