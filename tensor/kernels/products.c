/*
 * products.c: products of the elements along dims.
 */
#include "reduce.h"

#define K_LOOPS "loops/products.h"
#define K_TYPES_ALL
#include "sets.h"

const k_reduction k_products = { "prod", 1, 1, K_TABLE_ALL(prod) };
