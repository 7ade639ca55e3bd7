/*
 * circle.c: sine, cosine and tangent. Those of floats up to 2^17 are short polynomials, which
 * vectorise, and are within 1.6 units in the last place of the true value. Beyond that, and at
 * infinities and NaN, they are libm's, as all of doubles are.
 */
#include "kernels.h"

#include "smooth.h"

/* For greater numbers pi / 2 in three parts would be too coarse. */
#define CIRCLE_MOST 0x1p17f
/* The elements of a block, which is searched at once and stays in the first cache. */
enum { CIRCLE_BLOCK = 1024 };

#define K_LOOPS "loops/circle.h"
#define K_TYPES_FLOATS
#include "sets.h"

K_KERNEL(sin, 1, FLOATS)
K_KERNEL(cos, 1, FLOATS)
K_KERNEL(tan, 1, FLOATS)
