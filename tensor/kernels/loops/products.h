/*
 * loops/products.h: the loop of products, compiled for each element type and instruction set (see
 * sets.h). Integers wrap around on overflow.
 */
K_SUMS_IN_T;

/* Bools are read as the numbers 0 and 1. */
#if K_IS_BOOL
#define ELEMENT uint8_t
#else
#define ELEMENT T
#endif

#define KIND     prod
#define UNIT     1
#define VALUE(v) (v)
#if K_IS_BOOL
#define JOIN(a, b) ((a) & (b))
#else
#define JOIN(a, b) ((a) * (b))
#endif

#if K_IS_FLOAT
#define RESULT ELEMENT
#else
#define RESULT uint64_t
#endif
#include "fold.h"

#undef RESULT
#undef ELEMENT
