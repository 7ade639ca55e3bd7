/*
 * ternary.c: functions of three elements: choosing, and combining.
 */
#ifndef K_BITS
#include "loops.h"
#define K_FILE "ternary.c"
#include "sets.h"
#else

/* A mask of ones or zeros: what is chosen is no branch, which a random condition would make slow.
 */
#define K_WHERE(T) LOOP_3_OF(where_##T, bool, T, T, (b & -(T)a) | (c & ~-(T)a))
K_WHERE(uint8_t)
K_WHERE(uint32_t)
K_WHERE(uint64_t)
K_KERNEL(where, 3, true, K_LOOPS(where_uint8_t), K_LOOPS(where_uint64_t), K_LOOPS(where_uint32_t),
         K_LOOPS(where_uint64_t))

/* min(max(a, b), c); NaN if any is */
#define K_CLAMPED  (a != a ? a : b != b ? b : c != c ? c : (a < b ? b : a) > c ? c : a < b ? b : a)
K_ALL(3, clamp, K_CLAMPED, K_CLAMPED, K_CLAMPED)

/* From the nearer end, so that weight 1 gives b exactly. */
K_FLOATS(3, lerp, fabs(c) < (real)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))

K_NUMBERS(3, addcmul, k_wrap_add(a, k_wrap_mul(k[0], k_wrap_mul(b, c))), a + k[0] * b * c)
K_FLOATS(3, addcdiv, a + k[0] * b / c)
#endif
