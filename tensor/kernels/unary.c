/*
 * unary.c: functions of one element whose result has its type. A new one is a function and a row in
 * loops/unary.h, and a row here.
 */
#include "kernels.h"

#include "smooth.h"

#define K_LOOPS "loops/unary.h"
#define K_TYPES_ALL
#include "sets.h"

K_LIGHT_KERNEL(sign, 1, ALL)

K_LIGHT_KERNEL(neg, 1, NUMBERS)
K_LIGHT_KERNEL(abs, 1, NUMBERS)
K_LIGHT_KERNEL(square, 1, NUMBERS)
K_LIGHT_KERNEL(floor, 1, NUMBERS)
K_LIGHT_KERNEL(ceil, 1, NUMBERS)
K_LIGHT_KERNEL(round, 1, NUMBERS)
K_LIGHT_KERNEL(trunc, 1, NUMBERS)

K_LIGHT_KERNEL(cube, 1, FLOATS)
K_KERNEL(frac, 1, FLOATS)
K_KERNEL(nan_to_num, 1, FLOATS)
K_KERNEL(round_up, 1, FLOATS)
K_KERNEL(round_down, 1, FLOATS)
K_KERNEL(sqrt, 1, FLOATS)
K_KERNEL(rsqrt, 1, FLOATS)
K_KERNEL(reciprocal, 1, FLOATS)
K_KERNEL(reciprocal_square, 1, FLOATS)
K_KERNEL(exp, 1, FLOATS)
K_KERNEL(exp2, 1, FLOATS)
K_KERNEL(expm1, 1, FLOATS)
K_KERNEL(log, 1, FLOATS)
K_KERNEL(log1p, 1, FLOATS)
K_KERNEL(log2, 1, FLOATS)
K_KERNEL(log10, 1, FLOATS)
K_KERNEL(sinh, 1, FLOATS)
K_KERNEL(cosh, 1, FLOATS)
K_KERNEL(tanh, 1, FLOATS)
K_KERNEL(asin, 1, FLOATS)
K_KERNEL(acos, 1, FLOATS)
K_KERNEL(atan, 1, FLOATS)
K_KERNEL(erf, 1, FLOATS)
K_KERNEL(erfc, 1, FLOATS)
