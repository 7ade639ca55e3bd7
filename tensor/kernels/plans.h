/*
 * plans.h: the structs that the tasks of a call read: operands, sizes, and scratch memory. They
 * have addresses of elements, and no tensors, so that a call of a loop can be written as C
 * (trace.h).
 */
#pragma once

#include "kernels.h"

/* ---- copy.c ---- */

/* A block of memory. The task that has the numbers begin .. end - 1 sets these bytes to 0. */
typedef struct {
    char *to;
} clearing;

/* ---- normalize.c ---- */

/* The operands of k_normalize: the rows of x, the normalized rows y, and the weights and biases,
 * which may be NULL. Row r belongs to group r % z->groups. A group has z->n / z->per weights and
 * the same number of biases. Each of them applies to z->per consecutive elements of a row. */
typedef struct {
    const k_norm_rows *z;
    char *y;
    const char *x, *weight, *bias;
    bool stream; /* Set if y is written past the caches. */
} norm_work;

/* The operands of k_normalize_backward. The rows are divided into parts of `grain` rows. Each part
 * has its own sums in gweight and gbias, which are added at the end. */
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

/* ---- conv.c ---- */

/* The plan of a call, which all its tasks share and read. */
typedef struct {
    const k_conv *z;
    /* The elements of the tensors. For the gradient of x by im2col, y points to this gradient, x to
     * the gradient of y, and w to the transposed weights (groups, terms, out). For the gradient of
     * w, w points to the gradient of y, and y to the sums (shares, groups, terms, wide). */
    char *y;
    const char *x, *w, *bias;
    /* `taps` is the number of taps of a kernel. `terms` is the number of terms in the sum of an
     * output element: the channels of x in a group, times the taps. `pixels` is the number of
     * pixels of an image of y. */
    int64_t taps, terms, pixels;
    /* An image of the output is computed in `stretches` parts of `stretch` pixels each. */
    int64_t stretch, stretches;
    /* The layout for stride 1, where a stretch is a strip of `rows` rows of windows. The copy of x
     * has lines of `width` elements. The part for one channel is a plane of `plane` elements. Term
     * l of a sum reads the element at offset at[l] from the window's first element. */
    int64_t rows, width, plane;
    int64_t *at;
    /* The gradients are computed in blocks of `channels` channels of x. Each group has `blocks`
     * such blocks. */
    int64_t channels, blocks;
    /* The number of parts into which the batch is split for the gradient of w. Each part has sums
     * of its own, and a row of these sums has `wide` elements. */
    int64_t shares, wide;
    k_product *product;
    k_turn *turn;
    /* Scratch memory for all workers, of `bytes` bytes for each worker. */
    char *room;
    size_t bytes;
} conv_plan;

/* The arguments of a convolution of integers. Products and sums wrap around on overflow. */
typedef struct {
    const k_conv *z;
    void *y;
    const void *x, *w, *bias;
} conv_whole;

/* A matrix of n rows and k columns for each group, which is transposed. `from` and `to` are the
 * first group's matrices; the next ones begin from_group and to_group bytes further on. row, col
 * and to_row are as in k_turn. */
typedef struct {
    k_turn *turn;
    char *to;
    const char *from;
    int64_t to_group, from_group, to_row, row, col, n, k;
} conv_turning;

/* The weights that conv_turn_taps reads and writes. */
typedef struct {
    const k_conv *z;
    char *to;
    const char *from;
} conv_taps;

/* ---- pool.c ---- */

/* The operands of a call, which all its tasks share. A task is a range of planes. */
typedef struct {
    const k_pool *p;
    char *y, *x;
    int64_t *indices;
} pool_work;

/* ---- recurrent.c ---- */

/* The plan of a call, which all its tasks share. The pointers lead to the elements of contiguous
 * tensors, which are named as in kernels.h, and to the packed weights. `room` is scratch memory for
 * all workers, of `bytes` bytes for each worker. */
typedef struct {
    const k_recurrent *z;
    const char *gates_in, *bias, *h_0, *c_0, *weight;
    char *y, *c, *gates;
    const char *g_y, *g_c;
    char *g_in, *g_hidden, *g_h_0, *g_c_0;
    /* gates_wide is the length of a row of gates, which forward uses, and from_wide the length of a
     * row of weights, which backward uses. Both are rounded up to whole panels. */
    int64_t gates_wide, from_wide;
    k_product *product;
    char *room;
    size_t bytes;
} recur_plan;

/* ---- distance.c ---- */

/* The operands of a call. In each item of the batch, matrix a has `rows` rows and b has `others`
 * rows, all of n elements. Forward writes to y the distance of each row of a from each row of b.
 * Backward reads y and its gradient g, and writes the gradient of a to `to`. If `turned`, g and y
 * are transposed: they have one row for each row of b. */
typedef struct {
    int64_t rows, others, n;
    double p;
    bool turned;
    const char *a, *b, *g;
    char *y, *to;
} distance_context;

/* ---- cumulate.c ---- */

/* A line is the n elements along the dim. step[0], step[1] and step[2] are the distances in bytes
 * from one element of a line to the next in y, x and z. They are negative if the elements are read
 * in reverse order. */
typedef struct {
    int64_t n, step[3];
} cumulate_along;

/* ---- extremes.c ---- */

/* The results of k_max_dim, to which its loops write: the maxima (or minima, if `smallest`), and
 * their indices in the same order. */
typedef struct {
    char *values;
    int64_t *indices;
    bool smallest;
} place_context;

/* ---- sort.c and select.c ---- */

/* The lines of a call: each has n elements of `bytes` bytes. `rank` computes the keys of a line,
 * and `room` has the ranked items of the current line. The first k elements of the sorted order are
 * wanted, in order if `sorted`. If `top`, k_top finds only these, without sorting the rest.
 * step[0], step[1] and step[2] are the distances in bytes from one element of a line to the next in
 * values, indices and x. */
typedef struct {
    k_ranked *room;
    k_ranks *rank;
    int64_t n, k, step[3];
    size_t bytes;
    bool descending, sorted, top;
} sort_context;

/* The lines of a call: each has n elements of `bytes` bytes. step[0], step[1] and step[2] are the
 * distances in bytes from one element of a line to the next in values, indices and x. k is the
 * place that the selected element has in ascending order, counted from 1; if k is 0, the median is
 * selected. `rank` computes a key for each element of a line: an integer that sorts as the element
 * does. `room` has the keys of the current line, each with the index of its element. `floats` is
 * set if x is floating, so that a line may have a NaN. */
typedef struct {
    k_ranked *room;
    k_ranks *rank;
    int64_t n, k, step[3];
    size_t bytes;
    bool floats;
} select_context;

/* ---- index.c ---- */

/* Matrices that follow each other from y on, with elements of `bytes` bytes. The loop clears the
 * elements above the diagonal if `above` is set, and else those below it. `diagonal` is the
 * argument of torch.triu. */
typedef struct {
    char *y;
    int64_t rows, columns, bytes, diagonal;
    bool above;
} triangle_rows;

/* A dim of size n, to which `left` and `right` positions are added. to[j] becomes the index of the
 * element that position j of the padded dim takes. */
typedef struct {
    int64_t *to;
    int64_t n, left, right;
    k_pad_kind kind;
} pad_positions;
