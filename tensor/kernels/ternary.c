/*
 * ternary.c: elementwise functions of three operands.
 */
#include "kernels.h"

#include <tgmath.h>

#define K_LOOPS "loops/ternary.h"
#define K_TYPES_ALL
#include "sets.h"

#define K_LOOPS "loops/where.h"
#define K_TYPES_SIZES
#include "sets.h"

K_LIGHT_KERNEL(where, 3, SIZES)
K_LIGHT_KERNEL(clamp, 3, ALL)
K_LIGHT_KERNEL(addcmul, 3, NUMBERS)
K_KERNEL(addcdiv, 3, FLOATS)
K_KERNEL(lerp, 3, FLOATS)
