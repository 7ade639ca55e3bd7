/*
 * compare.c: questions about one or two elements, whose answer is a bool.
 */
#include "kernels.h"

#include <tgmath.h>

#define K_LOOPS "loops/compare.h"
#define K_TYPES_ALL
#include "sets.h"

K_LIGHT_KERNEL(isnan, 1, ALL)
K_LIGHT_KERNEL(isinf, 1, ALL)
K_LIGHT_KERNEL(isfinite, 1, ALL)
K_LIGHT_KERNEL(logical_not, 1, ALL)

K_LIGHT_KERNEL(eq, 2, ALL)
K_LIGHT_KERNEL(ne, 2, ALL)
K_LIGHT_KERNEL(lt, 2, ALL)
K_LIGHT_KERNEL(le, 2, ALL)
K_LIGHT_KERNEL(gt, 2, ALL)
K_LIGHT_KERNEL(ge, 2, ALL)
K_LIGHT_KERNEL(logical_and, 2, ALL)
K_LIGHT_KERNEL(logical_or, 2, ALL)
K_LIGHT_KERNEL(logical_xor, 2, ALL)
