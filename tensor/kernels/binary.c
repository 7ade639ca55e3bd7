/*
 * binary.c: the kernels of the common elementwise functions with two operands, such as add, mul,
 * div, sub and pow. The gradients of most other functions use these kernels as well. The result has
 * the operands' dtype. Rarer functions of two operands are in special.c, so that small programs
 * don't link them.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/binary.h"
#define K_TYPES_ALL
#include "sets.h"

#define BINARY(name, Node, formula, weight, dtypes, ...) K_KERNEL_OF_ROW(name, 2, weight, dtypes)
#include "elementwise.def"

K_LIGHT_KERNEL(add_alpha, 2, ALL)
K_LIGHT_KERNEL(sub, 2, ALL)
K_LIGHT_KERNEL(pow, 2, ALL)
