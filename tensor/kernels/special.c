/*
 * special.c: the kernels of the rarer elementwise functions with one or two operands, which few
 * gradients need. The result has the operands' dtype. A new function is a row SPECIAL or
 * BINARY_ALONE in elementwise.def and a function in loops/special.h.
 */
#include "kernels.h"

#include "smooth.h"

/* For floats below this absolute value, sine, cosine and tangent are computed by short polynomials,
 * after a multiple of pi / 2 has been subtracted. For larger floats that subtraction isn't accurate
 * enough, since it uses a pi / 2 of limited precision. */
#define CIRCLE_MOST 0x1p17f
/* The number of elements that are checked against CIRCLE_MOST at a time; they fit into the L1
 * cache. */
enum { CIRCLE_BLOCK = 1024 };

#define K_LOOPS "loops/special.h"
#define K_TYPES_ALL
#include "sets.h"

#define SPECIAL(name, Node, formula, weight, dtypes, ...) K_KERNEL_OF_ROW(name, 1, weight, dtypes)
#define BINARY_ALONE(name, Node, formula, weight, dtypes, ...) \
    K_KERNEL_OF_ROW(name, 2, weight, dtypes)
#include "elementwise.def"

K_KERNEL(nan_to_num, 1, FLOATS)
K_KERNEL(round_up, 1, FLOATS)
K_KERNEL(round_down, 1, FLOATS)
K_LIGHT_KERNEL(div_floor, 2, ALL)
K_LIGHT_KERNEL(div_trunc, 2, ALL)
K_LIGHT_KERNEL(remainder, 2, ALL)
K_LIGHT_KERNEL(fmod, 2, ALL)
K_KERNEL(xlogy, 2, FLOATS)
