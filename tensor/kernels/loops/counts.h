/*
 * loops/counts.h: the loop that counts elements that aren't 0, compiled for each element type and
 * instruction set (see sets.h).
 */

/* Bools are read as the numbers 0 and 1. */
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
