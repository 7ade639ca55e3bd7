/*
 * lanes.h: what the loops over rows of floats share: sums in sixteen lanes, and rows that are
 * written element by element. loops/lanes.h computes them.
 */
#pragma once

#include "kernels.h"
#include "smooth.h"

/* The number of lanes of a sum, one for all types and sets, so that these give the same bits. */
enum { K_LANES = 16 };

#define K_LOOPS "loops/lanes.h"
#define K_TYPES_FLOATS
#include "sets.h"
