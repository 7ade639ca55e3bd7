/*
 * reduce.h: what the reductions' files share: reduce.c (sums, products, extremes and their places)
 * and moments.c (what is made of sums).
 */
#pragma once

#include "kernels.h"

/* A block has two dims, and is folded over the first: for j < n1, y[j] becomes the fold of what it
 * was and of x[i][j] for i < n0. Steps are in bytes; y_step may be 0. */
typedef struct {
    int64_t n0, step0, n1, step1, y_step;
    const void *context;
} reduce_block;
typedef void reduce_loop(char *y, const char *x, const reduce_block *b);

/* The bytes of the sums of side-by-side columns that are made at once. */
enum { REDUCE_BLOCK = 8192 };

/* Returns y with x's dims, the reduced ones at 1, so that a walk over x can go along with it. */
rg_tensor k_reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims);
