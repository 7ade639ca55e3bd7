/*
 * plans.h: the structs that the tasks of a call read: operands, sizes, and scratch memory. They
 * have addresses of elements, and no tensors, so that a call of a loop can be written as C
 * (trace.h).
 */
#pragma once

#include "kernels.h"

/* ---- normalize.c ---- */

/* The operands of k_normalize. groups, n and per are fields of z. Each group of rows has n / per
 * weights and as many biases, and row r belongs to group r % groups. Each weight and bias applies
 * to `per` consecutive elements of the row. weight and bias may be NULL. */
typedef struct {
    const k_norm_rows *z;
    char *y;
    const char *x, *weight, *bias;
    bool stream; /* Set if y is written past the caches. */
} norm_work;

/* The operands of k_normalize_backward. A part is `grain` rows, and has sums of its own in gweight
 * and gbias. */
typedef struct {
    const k_norm_rows *z;
    char *gx;
    double *gweight, *gbias;
    const char *g, *x, *weight;
    int64_t grain;
    bool stream; /* Set if gx is written past the caches. */
} norm_slopes;

/* ---- batch_norm.c ---- */

/* The arguments of k_batch_normalize and k_batch_normalize_backward. Each tensor is given by a
 * pointer to its elements, or NULL if the caller passes none. In forward, mean_made and var_made
 * are the same addresses as mean and var; in training, forward writes the mean and the variance
 * there. In backward, mean_made and var_made are NULL, and y is the gradient of x. */
typedef struct {
    const k_batch_norm *z;
    char *y, *gweight, *gbias;
    const char *x, *g, *weight, *bias, *mean, *var;
    char *mean_made, *var_made;
} batch_work;

/* ---- attention.c ---- */

/* An operand: a matrix for each head in each item of the batch. `data` is the first element of the
 * first matrix, or NULL if there is no such operand. `item` and `head` are the distances in bytes
 * from the matrix of one item of the batch, or of one head, to the next; they are 0 if all items,
 * or all heads, share a matrix. row and col are the strides of rows and columns in elements, and a
 * row has `size` elements. */
typedef struct {
    char *data;
    int64_t item, head, row, col, size;
} attention_operand;

/* The plan of one call of k_attend, which all its tasks read: the operands, their sizes, and
 * matmul.c's functions for their dtype. */
typedef struct {
    attention_operand in[3], gin[3], y, g, mask;
    /* One number for each query of each head. g_lse is NULL if lse has no gradient. */
    char *lse;
    const char *g_lse;
    /* The number of queries and keys of a head, and the number of heads in each item of the batch.
     * The queries of a head are split into `tiles` tiles. */
    int64_t queries, keys, heads, tiles;
    int64_t all_heads; /* The number of heads in all items of the batch together. */
    double scale;
    bool causal;
    k_product *product;
    k_turn *turn;
    /* Scratch memory for all workers, of `bytes` bytes for each worker. */
    char *room;
    size_t bytes;
} attention_plan;
