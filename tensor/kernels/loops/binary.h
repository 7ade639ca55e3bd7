/*
 * loops/binary.h: elementwise functions of two operands, compiled for each element type and
 * instruction set (see sets.h). Integers wrap around on overflow. For bools, a sum is "or", a
 * product is "and", and a difference is "exclusive or".
 */
#define KIND binary
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

/* Returns a + alpha * b, where alpha is k[0]. */
K_INLINE T K_NAME(add_alpha)(T a, T b, const T *k) { return K_NAME(add)(a, K_NAME(mul)(k[0], b)); }
#if K_IS_FLOAT || K_IS_BOOL
K_MAP_2_WITH(add_alpha)
#else
/* A double can't hold every int64 exactly. Therefore, if T is an integer type, `context` doesn't
 * point to doubles: its first eight bytes are alpha as an int64_t. */
K_LOOP_HEAD(add_alpha) {
    const T alpha = *(const T *)context;
    K_MAP(_map_2)(p, s, n, &alpha, K_NAME(add_alpha), true, NULL, context);
}
#endif

K_MAP_2(sub)

#if K_IS_FLOAT
K_INLINE T K_NAME(div)(T a, T b) { return a / b; }
#endif

/* ---- powers ---------------------------------------------------------------------------------- */

#if K_IS_BOOL

K_INLINE T K_NAME(pow)(T a, T b) { return a || !b; }

#elif K_IS_FLOAT

K_INLINE T K_NAME(pow)(T a, T b) { return K_TYPED(k_pow)(a, b); }

K_INLINE T K_NAME(atan2)(T a, T b) { return K_TYPED(k_atan2)(a, b); }

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

K_HEAVY_2_OR_NUMBER(pow)

/* 2_OR_NUMBER gives even the heavy functions below a loop for an operand that is a single number
 * (see K_LOOP_OF_ROW), because programs often call these functions with a number. */
#define BINARY(name, Node, formula, weight, dtypes, ...) \
    K_LOOP_OF_ROW(name, 2_OR_NUMBER, weight, dtypes)
#include "tensor/kernels/elementwise.def"

#include "map_end.h"
