/*
 * loops/reduce.h: the kinds of sums, folds and extremes of one type: each names its value and how
 * values join, and is made by sum.h or fold.h.
 */

/* A bool is read as the number 0 or 1. */
#if K_IS_BOOL
#define ELEMENT uint8_t
#else
#define ELEMENT T
#endif

/* ---- counts, and sums and products of integers, which wrap around ---------------------------- */

#define RESULT uint64_t

#define KIND       count
#define UNIT       0
#define VALUE(v)   ((v) != 0)
#define JOIN(a, b) ((a) + (b))
#include "fold.h"

#if !K_IS_FLOAT
#define KIND       sum
#define UNIT       0
#define VALUE(v)   (v)
#define JOIN(a, b) ((a) + (b))
#include "fold.h"

#define KIND     prod
#define UNIT     1
#define VALUE(v) (v)
#if K_IS_BOOL
#define JOIN(a, b) ((a) & (b))
#else
#define JOIN(a, b) ((a) * (b))
#endif
#include "fold.h"
#endif

#undef RESULT

/* ---- extremes: a NaN joins, and stays, for nothing is greater -------------------------------- */

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

/* ---- floats ---------------------------------------------------------------------------------- */

#if K_IS_FLOAT
#define KIND       max_norm
#define UNIT       0
#define VALUE(v)   fabs(v)
#define JOIN(a, b) GREATER(a, b)
#include "fold.h"

#define KIND       min_norm
#define UNIT       INFINITY
#define VALUE(v)   fabs(v)
#define JOIN(a, b) LESS(a, b)
#include "fold.h"

#define KIND       prod
#define UNIT       1
#define VALUE(v)   (v)
#define JOIN(a, b) ((a) * (b))
#include "fold.h"

#define KIND     sum
#define VALUE(v) (v)
#include "sum.h"

#define KIND     nansum
#define VALUE(v) ((v) == (v) ? (v) : 0)
#include "sum.h"

#define KIND     norm0
#define VALUE(v) ((v) != 0)
#include "sum.h"

#define KIND     norm1
#define VALUE(v) fabs(v)
#include "sum.h"

#define KIND     norm2
#define VALUE(v) ((v) * (v))
#include "sum.h"
#endif

#undef RESULT

/* float32 has a sum in double, too. */
#if K_IS_FLOAT && K_SIZE == 4
#define RESULT   double
#define KIND     wide_sum
#define VALUE(v) (v)
#include "sum.h"
#undef RESULT
#endif

#undef ELEMENT
#undef GREATER
#undef LESS
#undef LEAST
#undef MOST
