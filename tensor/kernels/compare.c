/*
 * compare.c: the kernels of predicates and comparisons of elements. The result is a bool tensor. To
 * add a predicate or a comparison, add a row to elementwise.def and a function to loops/compare.h.
 */
#include "kernels.h"

#include <tgmath.h>

#define K_LOOPS "loops/compare.h"
#define K_TYPES_ALL
#include "sets.h"

#define PREDICATE(name, ...)  K_LIGHT_KERNEL(name, 1, ALL)
#define COMPARISON(name, ...) K_LIGHT_KERNEL(name, 2, ALL)
#include "elementwise.def"
