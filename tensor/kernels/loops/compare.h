/*
 * loops/compare.h: elementwise functions of one or two operands with a bool as result, compiled for
 * each element type and instruction set (see sets.h).
 */
#define KIND compare
#define R    bool
#include "map.h"

/* ---- predicates of one operand --------------------------------------------------------------- */

K_INLINE bool K_NAME(isnan)(T x) { return K_TYPED(k_is_nan)(x); }
K_INLINE bool K_NAME(isinf)(T x) {
#if K_IS_FLOAT
    return fabs(x) == (T)INFINITY;
#else
    (void)x;
    return false;
#endif
}
K_INLINE bool K_NAME(isfinite)(T x) {
#if K_IS_FLOAT
    return fabs(x) < (T)INFINITY;
#else
    (void)x;
    return true;
#endif
}
K_INLINE bool K_NAME(logical_not)(T x) { return x == 0; }

/* ---- comparisons of two operands ------------------------------------------------------------- */

K_INLINE bool K_NAME(eq)(T a, T b) { return a == b; }
K_INLINE bool K_NAME(ne)(T a, T b) { return a != b; }
K_INLINE bool K_NAME(lt)(T a, T b) { return a < b; }
K_INLINE bool K_NAME(le)(T a, T b) { return a <= b; }
K_INLINE bool K_NAME(gt)(T a, T b) { return a > b; }
K_INLINE bool K_NAME(ge)(T a, T b) { return a >= b; }
K_INLINE bool K_NAME(logical_and)(T a, T b) { return (a != 0) & (b != 0); }
K_INLINE bool K_NAME(logical_or)(T a, T b) { return (a != 0) | (b != 0); }
K_INLINE bool K_NAME(logical_xor)(T a, T b) { return (a == 0) != (b == 0); }

#define PREDICATE(name, ...)  K_MAP_1(name)
#define COMPARISON(name, ...) K_MAP_2(name)
#include "tensor/kernels/elementwise.def"

#include "map_end.h"
