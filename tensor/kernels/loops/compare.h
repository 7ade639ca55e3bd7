/*
 * loops/compare.h: elementwise functions of one or two operands with a bool as result, for one
 * element type and instruction set.
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

K_MAP_1(isnan)
K_MAP_1(isinf)
K_MAP_1(isfinite)
K_MAP_1(logical_not)

/* ---- comparisons of two operands ------------------------------------------------------------- */

K_INLINE bool K_NAME(eq)(T a, T b) { return a == b; }
K_INLINE bool K_NAME(ne)(T a, T b) { return a != b; }
K_INLINE bool K_NAME(lt)(T a, T b) { return a < b; }
K_INLINE bool K_NAME(le)(T a, T b) { return a <= b; }
K_INLINE bool K_NAME(gt)(T a, T b) { return a > b; }
K_INLINE bool K_NAME(ge)(T a, T b) { return a >= b; }
K_INLINE bool K_NAME(logical_and)(T a, T b) { return (a != 0) & (b != 0); }
K_INLINE bool K_NAME(logical_or)(T a, T b) { return (a != 0) | (b != 0); }
K_INLINE bool K_NAME(logical_xor)(T a, T b) { return !a != !b; }

K_MAP_2(eq)
K_MAP_2(ne)
K_MAP_2(lt)
K_MAP_2(le)
K_MAP_2(gt)
K_MAP_2(ge)
K_MAP_2(logical_and)
K_MAP_2(logical_or)
K_MAP_2(logical_xor)

#include "map_end.h"
