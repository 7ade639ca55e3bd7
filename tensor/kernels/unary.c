/*
 * unary.c: the kernels of elementwise functions of one operand that the gradients of other
 * functions use. The result has the operand's dtype. Other functions of one operand are in
 * special.c, so that small programs don't link them.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/unary.h"
#define K_TYPES_ALL
#include "sets.h"

#define UNARY(name, Node, formula, weight, dtypes, ...) K_KERNEL_OF_ROW(name, 1, weight, dtypes)
#define SPECIAL(...)
#include "elementwise.def"

K_LIGHT_KERNEL(square, 1, NUMBERS)
K_LIGHT_KERNEL(cube, 1, FLOATS)
K_KERNEL(reciprocal_square, 1, FLOATS)
