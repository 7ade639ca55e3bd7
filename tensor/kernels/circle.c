/*
 * circle.c: sine, cosine and tangent. Up to 2^17 those of floats are short and vectorise,
 * within 1.6 units in the last place of the true value; beyond, at infinities and NaN they are
 * libm's, as all of doubles are.
 */
#include "kernels.h"

#include "smooth.h"

/* From here on pi / 2 in three parts would be too coarse. */
#define CIRCLE_MOST 0x1p17f
/* So many elements are looked through at once, and stay in the first cache. */
enum { CIRCLE_BLOCK = 1024 };

#define K_LOOPS "loops/circle.h"
#define K_TYPES_FLOATS
#include "sets.h"

K_KERNEL(sin, 1, FLOATS)
K_KERNEL(cos, 1, FLOATS)
K_KERNEL(tan, 1, FLOATS)
