/*
 * reduce.h: declarations that the files of reductions share: blocks, kinds of reductions, and the
 * order of additions in a sum.
 */
#pragma once

#include "kernels.h"

#include <string.h>
#include <tgmath.h>

/* A block of two dims, which is folded over the first: for each j < n1, x[i][j] for all i < n0 join
 * y[j]. Steps are distances in bytes; y_step may be 0. */
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

/* Cuts x into blocks, and folds each into y by the loop. */
void k_reduce_blocks(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop,
                     const void *context);

/* A kind of reduction: the value that y begins with, `unit` for floats and `integer` for integers,
 * and the loops. */
struct k_reduction {
    double unit;
    int64_t integer;
    reduce_loop *loops[K_DTYPES][K_SETS];
};

/* A finish_loop changes n elements of y in place, with a parameter `number` or the elements of
 * another tensor. k_finish runs one for all elements of the contiguous y, and returns whether there
 * is a loop for the dtype. */
typedef void finish_loop(void *y, int64_t n, double number, const void *other);
bool k_finish(finish_loop *const loops[K_DTYPES], rg_tensor *y, double number,
              const rg_tensor *other);

/* ---- the order of sums (see loops/sum.h) ----------------------------------------------------- */

/* Returns the base-2 logarithm of the number of rows in a subtotal. */
static inline int sum_power(int64_t rows) {
    const int log = rows <= 2 ? 1 : 64 - __builtin_clzll((uint64_t)rows - 1);
    return RG_MAX(4, log / 4);
}

/* Returns whether the subtotal of a level is complete after i rows. */
static inline bool sum_is_full(int64_t i, int level, int power) {
    return !(i & (((int64_t)1 << (level + 1) * power) - 1));
}
