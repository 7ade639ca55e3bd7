/*
 * unary.c: elementwise functions of one operand whose result has its dtype. A new one is a row in
 * elementwise.def and a function in loops/unary.h.
 */
#include "kernels.h"

#include "smooth.h"

/* The limit below which sine, cosine and tangent of floats are short polynomials. For greater
 * numbers, pi / 2 in three parts would be too inaccurate. */
#define CIRCLE_MOST 0x1p17f
/* The number of elements of a block that is checked against that limit; a block stays in the L1
 * cache. */
enum { CIRCLE_BLOCK = 1024 };

#define K_LOOPS "loops/unary.h"
#define K_TYPES_ALL
#include "sets.h"

#define UNARY(name, Node, formula, weight, dtypes, ...) K_KERNEL_OF_ROW(name, 1, weight, dtypes)
#include "elementwise.def"

K_LIGHT_KERNEL(square, 1, NUMBERS)
K_LIGHT_KERNEL(cube, 1, FLOATS)
K_KERNEL(reciprocal_square, 1, FLOATS)
K_KERNEL(nan_to_num, 1, FLOATS)
K_KERNEL(round_up, 1, FLOATS)
K_KERNEL(round_down, 1, FLOATS)
