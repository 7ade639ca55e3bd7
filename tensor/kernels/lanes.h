/*
 * lanes.h: the loops that softmax, cross entropy and norms share: sums in sixteen lanes, and writes
 * of rows element by element. loops/lanes.h has them.
 */
#pragma once

#include "kernels.h"
#include "smooth.h"

/* The number of lanes of a sum. It is the same for all types and sets, so that all sets give the
 * same bits. */
enum { K_LANES = 16 };

#define K_LOOPS "loops/lanes.h"
#define K_TYPES_FLOATS
#include "sets.h"
