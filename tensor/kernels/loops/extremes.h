/*
 * loops/extremes.h: the loops of maxima and minima, compiled for each element type and instruction
 * set (see sets.h). The result is NaN if any element is NaN.
 */

/* Bools are read as the numbers 0 and 1. */
#if K_IS_BOOL
#define ELEMENT uint8_t
#else
#define ELEMENT T
#endif

#define RESULT ELEMENT
#if K_IS_FLOAT
#define GREATER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define LESS(a, b)    ((((b) < (a)) | ((b) != (b))) ? (b) : (a))
#else
#define GREATER(a, b) RG_MAX(b, a)
#define LESS(a, b)    RG_MIN(b, a)
#endif

#define KIND       max
#define UNIT       K_LEAST
#define VALUE(v)   (v)
#define JOIN(a, b) GREATER(a, b)
#include "fold.h"

#define KIND       min
#define UNIT       K_MOST
#define VALUE(v)   (v)
#define JOIN(a, b) LESS(a, b)
#include "fold.h"

#include "place.h"

#undef RESULT
#undef ELEMENT
#undef GREATER
#undef LESS
