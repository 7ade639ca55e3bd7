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

/* ---- softmax.c ------------------------------------------------------------------------------ */

/* The layout of the rows. A row is the n elements along the dim, which are `step` elements apart in
 * memory. */
typedef struct {
    int64_t n, step;
    k_softmax_kind kind;
    bool last;   /* Set if the dim is the last one, so that rows are contiguous. */
    bool stream; /* Set if the output is written past the caches. */
} softmax_rows;

/* Computes `rows` rows. p[0] points to the first row of the output; p[1] and p[2] point to the
 * first rows of the inputs. */
typedef void softmax_loop(const softmax_rows *z, char *const p[], int64_t rows);
