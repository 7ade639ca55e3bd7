/*
 * loops/sums.h: the loops of sums, compiled for each element type and instruction set (see sets.h).
 * Integers wrap around on overflow.
 */
K_SUMS_IN_T;

/* Bools are read as the numbers 0 and 1. */
#if K_IS_BOOL
#define ELEMENT uint8_t
#else
#define ELEMENT T
#endif

#if !K_IS_FLOAT
#define RESULT uint64_t

#define KIND       sum
#define UNIT       0
#define VALUE(v)   (v)
#define JOIN(a, b) ((a) + (b))
#include "fold.h"

#undef RESULT
#endif

#if K_IS_FLOAT
#define RESULT ELEMENT

#define KIND     sum
#define VALUE(v) (v)
#include "sum.h"

#define KIND     nansum
#define VALUE(v) ((v) == (v) ? (v) : 0)
#include "sum.h"

#undef RESULT
#endif

/* float32 has one more loop, wide_sum, which adds in double. */
#if K_IS_FLOAT && K_SIZE == 4
#define RESULT   double
#define KIND     wide_sum
#define VALUE(v) (v)
#include "sum.h"
#undef RESULT
#endif

#undef ELEMENT
