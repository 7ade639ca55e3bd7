/*
 * loops/extremes.h: the loops of maxima and minima, for one type and set. The result is NaN if any
 * element is.
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
#define LEAST         (-INFINITY)
#define MOST          INFINITY
#else
#define GREATER(a, b) RG_MAX(b, a)
#define LESS(a, b)    RG_MIN(b, a)
#if K_IS_BOOL
#define LEAST 0
#define MOST  1
#else
#define LEAST INT64_MIN
#define MOST  INT64_MAX
#endif
#endif

#define KIND       max
#define UNIT       LEAST
#define VALUE(v)   (v)
#define JOIN(a, b) GREATER(a, b)
#include "fold.h"

#define KIND       min
#define UNIT       MOST
#define VALUE(v)   (v)
#define JOIN(a, b) LESS(a, b)
#include "fold.h"

#include "place.h"

#undef RESULT
#undef ELEMENT
#undef GREATER
#undef LESS
#undef LEAST
#undef MOST
