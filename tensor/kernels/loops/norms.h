/*
 * loops/norms.h: the loops of norms, compiled for each floating type and instruction set (see
 * sets.h): sums of powers, and maxima and minima of absolute values. If any element is NaN, the
 * result is NaN, except in norm0, which counts the elements that aren't 0, including NaN.
 */
K_SUMS_IN_T;

#define ELEMENT       T
#define RESULT        T
#define GREATER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define LESS(a, b)    ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

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

#define KIND     norm0
#define VALUE(v) ((v) != 0)
#include "sum.h"

#define KIND     norm1
#define VALUE(v) fabs(v)
#include "sum.h"

#define KIND     norm2
#define VALUE(v) ((v) * (v))
#include "sum.h"

#undef ELEMENT
#undef RESULT
#undef GREATER
#undef LESS
