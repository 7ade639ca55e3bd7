/*
 * unary.c: the kernels of the common elementwise functions with one operand, which the gradients of
 * other functions use as well. The result has the operand's dtype. Rarer functions of one operand
 * are in special.c, so that small programs don't link them.
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
