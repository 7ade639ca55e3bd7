/*
 * unary.c: functions of one element whose result has its type. A new one is a row in
 * elementwise.def and a function in loops/unary.h.
 */
#include "kernels.h"

#include "smooth.h"

/* Sine, cosine and tangent of floats up to this number are short polynomials. For greater ones
 * pi / 2 in three parts would be too coarse. */
#define CIRCLE_MOST 0x1p17f
/* The elements of a block, which is searched at once and stays in the first cache. */
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
