/*
 * loops/counts.h: the number of elements that are not 0, for one type and set.
 */

/* A bool is read as the number 0 or 1. */
#if K_IS_BOOL
#define ELEMENT uint8_t
#else
#define ELEMENT T
#endif

#define RESULT uint64_t

#define KIND       count
#define UNIT       0
#define VALUE(v)   ((v) != 0)
#define JOIN(a, b) ((a) + (b))
#include "fold.h"

#undef RESULT
#undef ELEMENT
