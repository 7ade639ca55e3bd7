/*
 * lanes.h: includes the loops that softmax, cross entropy and the norms share (loops/lanes.h): sums
 * in sixteen lanes, maxima, and loops that write rows element by element.
 */
#pragma once

#include "kernels.h"
#include "smooth.h"

/* The number of partial sums (lanes) into which a sum is split. It is the same for all element
 * types and instruction sets, so that every set computes the same bits. */
enum { K_LANES = 16 };

#define K_LOOPS "loops/lanes.h"
#define K_TYPES_FLOATS
#include "sets.h"
