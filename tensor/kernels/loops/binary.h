/*
 * loops/binary.h: elementwise functions of two operands, for one type and set. Integers wrap
 * around. For bools a sum is "or", a product "and", and a difference "exclusive or".
 */
#include "map.h"

/* ---- arithmetic ------------------------------------------------------------------------------ */

K_INLINE T K_NAME(add)(T a, T b) {
#if K_IS_BOOL
    return a | b;
#elif K_IS_FLOAT
    return a + b;
#else
    return (T)((uint64_t)a + (uint64_t)b);
#endif
}

K_INLINE T K_NAME(sub)(T a, T b) {
#if K_IS_BOOL
    return a ^ b;
#elif K_IS_FLOAT
    return a - b;
#else
    return (T)((uint64_t)a - (uint64_t)b);
#endif
}

K_INLINE T K_NAME(mul)(T a, T b) {
#if K_IS_BOOL
    return a & b;
#elif K_IS_FLOAT
    return a * b;
#else
    return (T)((uint64_t)a * (uint64_t)b);
#endif
}

/* Returns a + alpha b, where alpha is k[0]. */
K_INLINE T K_NAME(add_alpha)(T a, T b, const T *k) { return K_NAME(add)(a, K_NAME(mul)(k[0], b)); }
#if K_IS_FLOAT || K_IS_BOOL
K_MAP_2_WITH(add_alpha)
#else
/* An integer alpha may be too large for a double, so the first number's eight bytes are an int64_t
 * here. */
K_LOOP_HEAD(add_alpha) {
    const T alpha = *(const T *)context;
    K_NAME(map_2)(p, s, n, &alpha, K_NAME(add_alpha));
}
#endif

K_MAP_2(add)
K_MAP_2(sub)
K_MAP_2(mul)

/* ---- quotients and remainders -------------------------------------------------------------------
 * div_floor and remainder are Python's // and %: the quotient is rounded down, and the remainder
 * has b's sign. */

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

K_INLINE T K_NAME(div)(T a, T b) { return a / b; }
K_MAP_2(div)

K_INLINE T K_NAME(fmod)(T a, T b) { return fmod(a, b); }

/* The quotient is computed from the remainder, which is exact, so that the two agree. */
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

/* Integers: the caller has checked that b isn't 0. INT64_MIN / -1 wraps around. */
static inline T K_NAME(div_trunc)(T a, T b) { return b == -1 ? K_NAME(sub)(0, a) : a / b; }

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

K_MAP_2(div_floor)
K_MAP_2(div_trunc)
K_MAP_2(remainder)
K_MAP_2(fmod)

/* ---- powers ---------------------------------------------------------------------------------- */

#if K_IS_BOOL

K_INLINE T K_NAME(pow)(T a, T b) { return a || !b; }

#elif K_IS_FLOAT

K_INLINE T K_NAME(pow)(T a, T b) { return K_TYPED(k_pow)(a, b); }

K_INLINE T K_NAME(atan2)(T a, T b) { return K_TYPED(k_atan2)(a, b); }

K_INLINE T K_NAME(xlogy)(T a, T b) {
    const T product = a * K_TYPED(k_log)(b);
    return a == 0 && b == b ? 0 : product;
}

/* Returns ln(e^a + e^b) = max + ln(1 + e^-|a - b|). Equal infinities are returned, since their
 * difference is NaN. */
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

K_MAP_2(atan2)
K_MAP_2(xlogy)
K_MAP_2(logaddexp)
K_MAP_2(logaddexp2)

#else

static inline T K_NAME(pow)(T a, T b) {
    if (b < 0 && a == -1)
        return b & 1 ? -1 : 1;
    if (b < 0)
        return a == 1;
    T y = 1;
    for (; b; b >>= 1) {
        if (b & 1)
            y = K_NAME(mul)(y, a);
        a = K_NAME(mul)(a, a);
    }
    return y;
}

#endif

K_MAP_2(pow)

/* ---- maxima and minima ----------------------------------------------------------------------- */

#if K_IS_BOOL

K_INLINE T K_NAME(maximum)(T a, T b) { return a | b; }
K_INLINE T K_NAME(minimum)(T a, T b) { return a & b; }
K_INLINE T K_NAME(fmax)(T a, T b) { return a | b; }
K_INLINE T K_NAME(fmin)(T a, T b) { return a & b; }

#else

/* maximum and minimum are NaN if a or b is; fmax and fmin are NaN only if both are. */
K_INLINE T K_NAME(maximum)(T a, T b) { return a > b || K_NAME(is_nan)(a) ? a : b; }
K_INLINE T K_NAME(minimum)(T a, T b) { return a < b || K_NAME(is_nan)(a) ? a : b; }
K_INLINE T K_NAME(fmax)(T a, T b) { return a > b || K_NAME(is_nan)(b) ? a : b; }
K_INLINE T K_NAME(fmin)(T a, T b) { return a < b || K_NAME(is_nan)(b) ? a : b; }

#endif

K_MAP_2(maximum)
K_MAP_2(minimum)
K_MAP_2(fmax)
K_MAP_2(fmin)

#include "map_end.h"
