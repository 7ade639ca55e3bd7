/*
 * loops/ternary.h: elementwise functions of three operands, compiled for each element type and
 * instruction set (see sets.h).
 */
#define KIND ternary
#include "map.h"

/* Returns min(max(a, b), c), or NaN if any of the three is NaN. */
K_INLINE T K_NAME(clamp)(T a, T b, T c) {
    const T raised = a < b ? b : a;
    const T clamped = raised > c ? c : raised;
    const T third = K_TYPED(k_is_nan)(c) ? c : clamped;
    const T second = K_TYPED(k_is_nan)(b) ? b : third;
    return K_TYPED(k_is_nan)(a) ? a : second;
}
K_MAP_3(clamp)

#if !K_IS_BOOL
/* Returns a + k[0] * b * c. Integers wrap around on overflow. */
K_INLINE T K_NAME(addcmul)(T a, T b, T c, const T *k) {
#if K_IS_FLOAT
    return a + k[0] * b * c;
#else
    return (T)((uint64_t)a + (uint64_t)k[0] * ((uint64_t)b * (uint64_t)c));
#endif
}
K_MAP_3_WITH(addcmul)
#endif

#if K_IS_FLOAT
K_INLINE T K_NAME(addcdiv)(T a, T b, T c, const T *k) { return a + k[0] * b / c; }
K_MAP_3_WITH(addcdiv)

/* Returns a + weight * (b - a). The result is computed from a if |weight| is below 1/2, otherwise
 * from b, so that the result for weight 1 is exactly b. */
K_INLINE T K_NAME(lerp)(T a, T b, T weight) {
    return fabs(weight) < (T)0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}
K_MAP_3(lerp)
#endif

#include "map_end.h"
