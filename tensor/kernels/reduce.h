/*
 * reduce.h: what the reductions' files share: how a block is folded, what a kind of reduction is,
 * and in which order sums are made.
 */
#pragma once

#include "kernels.h"

#include <string.h>
#include <tgmath.h>

/* A block has two dims, and is folded over the first: for j < n1, y[j] becomes the fold of what it
 * was and of x[i][j] for i < n0. Steps are in bytes; y_step may be 0. */
typedef struct {
    int64_t n0, step0, n1, step1, y_step;
    const void *context;
} reduce_block;
typedef void reduce_loop(char *y, const char *x, const reduce_block *b);

/* The size in bytes of the sums of columns that are computed at once. */
enum { REDUCE_BLOCK = 8192 };

/* Returns a view of y with x's dims, where the reduced ones have size 1, so that y can be walked
 * together with x. */
rg_tensor k_reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims);

/* Cuts x into blocks, and folds them into y by the loop. */
void k_reduce_blocks(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop,
                     const void *context);

/* A kind of reduction starts from its unit, which is `unit` for floats and `integer` for integers,
 * and has a table of loops. */
struct k_reduction {
    double unit;
    int64_t integer;
    reduce_loop *loops[K_DTYPES][K_SETS];
};

/* A loop that changes n elements of y, by a number or by the elements of another tensor; and its
 * run over every element of y, which is contiguous. The run returns whether there is a loop for the
 * dtype. */
typedef void finish_loop(void *y, int64_t n, double number, const void *other);
bool k_finish(finish_loop *const loops[K_DTYPES], rg_tensor *y, double number,
              const rg_tensor *other);

/* ---- the order of sums (see loops/sum.h) ----------------------------------------------------- */

/* Returns the logarithm, to base 2, of the number of rows that make a subtotal. */
static inline int sum_power(int64_t rows) {
    const int log = rows <= 2 ? 1 : 64 - __builtin_clzll((uint64_t)rows - 1);
    return RG_MAX(4, log / 4);
}

/* Returns whether, after i rows, the subtotal of a level is ready for the next one. */
static inline bool sum_is_full(int64_t i, int level, int power) {
    return !(i & (((int64_t)1 << (level + 1) * power) - 1));
}
