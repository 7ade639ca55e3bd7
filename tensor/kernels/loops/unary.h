/*
 * loops/unary.h: the elementwise functions of one operand that are in unary.c, compiled for each
 * element type and instruction set (see sets.h).
 */
#define KIND unary
#include "map.h"

K_INLINE T K_NAME(sign)(T x) {
#if K_IS_BOOL
    return x;
#else
    return (T)((x > 0) - (x < 0));
#endif
}

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

K_MAP_1(square)

#endif

/* ---- functions of floats only ---------------------------------------------------------------- */
#if K_IS_FLOAT

K_INLINE T K_NAME(sqrt)(T x) { return sqrt(x); }

K_INLINE T K_NAME(rsqrt)(T x) { return 1 / sqrt(x); }

K_INLINE T K_NAME(reciprocal)(T x) { return 1 / x; }

K_INLINE T K_NAME(reciprocal_square)(T x) { return 1 / (x * x); }

K_INLINE T K_NAME(cube)(T x) { return x * x * x; }

K_INLINE T K_NAME(exp)(T x) { return K_TYPED(k_exp)(x); }

K_INLINE T K_NAME(log)(T x) { return K_TYPED(k_log)(x); }

K_MAP_1(reciprocal_square)
K_MAP_1(cube)

#endif

#define UNARY(name, Node, formula, weight, dtypes, ...) K_LOOP_OF_ROW(name, 1, weight, dtypes)
#define SPECIAL(...)
#include "tensor/kernels/elementwise.def"

#include "map_end.h"
