/*
 * reduce.h: declarations that the files of reductions share: blocks, kinds of reductions, and the
 * order of additions in a sum.
 */
#pragma once

#include "kernels.h"

#include <string.h>
#include <tgmath.h>

/* A block of two dims, which is reduced over the first one: for each j < n1, the elements x[i][j]
 * for all i < n0 are combined with y[j]. x[i + 1][j] is step0 bytes behind x[i][j], x[i][j + 1] is
 * step1 bytes behind x[i][j], and y[j + 1] is y_step bytes behind y[j]. If y_step is 0, all columns
 * j are combined with the same element of y. `context` is that of k_reduce_blocks. */
typedef struct {
    int64_t n0, step0, n1, step1, y_step;
    const void *context;
} reduce_block;
typedef void reduce_loop(char *y, const char *x, const reduce_block *b);

/* The size in bytes of the buffer in which a loop keeps the results of the columns that it computes
 * at the same time. */
enum { REDUCE_BLOCK = 8192 };

/* Returns a tensor that shares y's elements and has all of x's dims. The reduced dims have size 1,
 * so that y can be walked together with x. Requires that y is contiguous. */
rg_tensor k_reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims);

/* Cuts x into blocks, and combines each block with y by calling the loop. `context` is passed to
 * the loop in each block. */
void k_reduce_blocks(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop,
                     const void *context);

/* A kind of reduction: the name of its loops, the value with which y is filled first (`unit` if y
 * is floating, otherwise `integer`), and the loops. */
struct k_reduction {
    const char *name;
    double unit;
    int64_t integer;
    reduce_loop *loops[K_DTYPES][K_COLUMNS];
};

/* A finish_loop changes n elements of y in place. It uses the parameter `number`, or the elements
 * of another tensor, `other`. k_finish runs such a loop on all elements of the contiguous tensor y;
 * it returns false if the loop is NULL. */
typedef void finish_loop(void *y, int64_t n, double number, const void *other);
bool k_finish(finish_loop *loop, rg_tensor *y, double number, const rg_tensor *other);
#define K_FINISH_LOOP(table, y) K_BASE_LOOP_OF(table, (y)->dtype, "reduce")

/* ---- the order of sums (see loops/sum.h) ----------------------------------------------------- */

/* Returns the base-2 logarithm of the number of rows in a subtotal, if the whole sum has `rows`
 * rows (see loops/sum.h). */
static inline int sum_power(int64_t rows) {
    const int log = rows <= 2 ? 1 : 64 - __builtin_clzll((uint64_t)rows - 1);
    return RG_MAX(4, log / 4);
}

/* Returns whether the subtotal of this level is complete after i rows. */
static inline bool sum_is_full(int64_t i, int level, int power) {
    return !(i & (((int64_t)1 << (level + 1) * power) - 1));
}
