/*
 * binary.c: the kernels of elementwise functions of two operands that the gradients of other
 * functions use. The result has the operands' dtype. Other functions of two operands are in
 * special.c, so that small programs don't link them.
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
