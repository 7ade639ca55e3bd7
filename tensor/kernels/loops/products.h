/*
 * loops/products.h: products of one type and set. Those of integers wrap around.
 */

/* A bool is read as the number 0 or 1. */
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
