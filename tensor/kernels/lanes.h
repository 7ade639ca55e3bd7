/*
 * lanes.h: what the loops over rows of floats share: sums in sixteen lanes, and rows that are
 * written element by element. loops/lanes.h computes them.
 */
#pragma once

#include "kernels.h"
#include "loops.h"

#undef K_LOOPS
#define K_LOOPS "loops/lanes.h"
#define K_TYPES_FLOATS
#include "sets.h"
