/*
 * reduce.c: reduces a tensor x over the dims in a mask, into the tensor y. It cuts x into blocks
 * of two dims, of which the first is reduced. Each kind of reduction has a loop that combines a
 * block with elements of y. Each kind is defined in another file (sums.c, products.c, extremes.c
 * or norms.c), so that a program links only the kinds that it calls. moments.c and logsumexp.c
 * compute means, variances and the logarithm of sums of exponentials from such reductions.
 */
#include "reduce.h"
#include "tensor/shape.h"

/* ---- cutting a tensor into blocks ---------------------------------------------------------- */

/* If x has at least this many elements, the dims that aren't reduced are walked in the order that
 * they have in x's memory. */
enum { REDUCE_LARGE = 1 << 15 };

/* A block (see reduce.h), cut into tasks for the threads. The columns of the block are the indices
 * of its second dim. Each of the `parts` tasks is `columns` columns; the last task also has the
 * columns that are left. How many columns a task has doesn't change the order of additions in a
 * sum. If both dims are reduced, the whole block is one task. */
typedef struct {
    reduce_loop *loop;
    const reduce_block *block;
    char *y;
    const char *x;
    int64_t columns, parts;
} reduce_share;

static void reduce_part(void *share, int64_t begin, int64_t end, int worker) {
    const reduce_share *s = share;
    reduce_block b = *s->block;
    (void)worker;
    const int64_t first = begin * s->columns;
    const int64_t last = end == s->parts ? b.n1 : end * s->columns;
    b.n1 = last - first;
    s->loop(s->y + first * b.y_step, s->x + first * b.step1, &b);
}

/* A dim of x: its size, and the distances in bytes from one index to the next in x and in y. y_step
 * is 0 if the dim is reduced. */
typedef struct {
    int64_t size, x_step, y_step;
} reduce_dim;

/* Compares two dims for the order of the walk. Returns a positive number if dim a must come after
 * dim b, a negative number if a must come before b, and 0 if the comparison of the two dims decides
 * nothing. Reduced dims come first, in the order that they have in x's memory. Then come the other
 * dims, in y's order or, if `much`, in the order that they have in x's memory. With this order,
 * even short sums are added in torch's order. */
static int reduce_after(const reduce_dim *a, const reduce_dim *b, bool much) {
    const bool reduced = !b->y_step;
    if (reduced != !a->y_step)
        return reduced ? 1 : -1;
    if (!reduced && !much)
        return -1;
    if (!a->x_step || !b->x_step)
        return 0;
    return (a->x_step > b->x_step) - (a->x_step < b->x_step);
}

/* Writes the dims of x to d[1], d[2] and so on, in the order of the walk, without those of size 1.
 * d[0] becomes an additional dim of size 1. Returns the number of dims in d[]. */
static int reduce_order(reduce_dim d[RG_MAX_DIMS + 2], const rg_tensor *y, const rg_tensor *x,
                        uint32_t dims) {
    const int64_t bytes = (int64_t)rgi_sizeof(x->dtype);
    int64_t step = (int64_t)rgi_sizeof(y->dtype);
    int n = 1;
    d[0] = (reduce_dim){ .size = 1 };
    for (int dim = x->ndim - 1; dim >= 0; dim--) {
        if (x->size[dim] == 1)
            continue;
        const bool reduced = dims >> dim & 1;
        d[n] = (reduce_dim){ .size = x->size[dim],
                             .x_step = x->stride[dim] * bytes,
                             .y_step = reduced ? 0 : step };
        if (!reduced)
            step *= x->size[dim];
        int at = n;
        n++;
        for (int k = at - 1; k > 0; k--) {
            const int after = reduce_after(&d[k], &d[at], x->numel >= REDUCE_LARGE);
            if (after < 0)
                break;
            if (after == 0)
                continue;
            RG_SWAP(d[k], d[at]);
            at = k;
        }
    }
    return n;
}

/* Merges neighbouring dims into one where the steps allow it. Returns the number of dims that are
 * left. There are at least two; the first one is reduced, or has size 1. */
static int reduce_merge(reduce_dim d[RG_MAX_DIMS + 2], int n) {
    int merged = 0;
    for (int k = 1; k < n; k++) {
        const int64_t inner = d[merged].size;
        const bool joins = d[k].x_step == d[merged].x_step * inner
                           && d[k].y_step == d[merged].y_step * inner && (merged || !d[k].y_step);
        if (inner == 1 && (joins || !d[k].y_step))
            d[merged] = d[k];
        else if (joins)
            d[merged].size *= d[k].size;
        else
            d[++merged] = d[k];
    }
    if (merged == 0)
        d[++merged] = (reduce_dim){ .size = 1 };
    return merged + 1;
}

RG_HOT void k_reduce_blocks(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop,
                            const void *context) {
    const int64_t bytes = (int64_t)rgi_sizeof(x->dtype);
    if (x->numel == 0)
        return;
    if (y->numel == 1 && x->flags & RG_CONTIGUOUS) {
        const reduce_block all = { .n0 = x->numel, .step0 = bytes, .n1 = 1, .context = context };
        loop(y->data, x->data, &all);
        return;
    }
    reduce_dim d[RG_MAX_DIMS + 2];
    const int n = reduce_merge(d, reduce_order(d, y, x, dims));
    const reduce_block b = { .n0 = d[0].size,
                             .step0 = d[0].x_step,
                             .n1 = d[1].size,
                             .step1 = d[1].x_step,
                             .y_step = d[1].y_step,
                             .context = context };
    const int64_t columns = b.step0 == bytes && b.n0 >= 32 ? 1 : 128;
    const int64_t parts = b.y_step ? RG_MAX(1, b.n1 / columns) : 1;
    int64_t at[RG_MAX_DIMS + 2] = { 0 };
    char *to = y->data;
    const char *from = x->data;
    for (int k = 0; k < n;) {
        reduce_share share = {
            .loop = loop, .block = &b, .y = to, .x = from, .columns = columns, .parts = parts
        };
        k_rows(parts, b.n0 * b.n1 / parts, reduce_part, &share);
        for (k = 2; k < n; k++) {
            from += d[k].x_step;
            to += d[k].y_step;
            at[k]++;
            if (at[k] < d[k].size)
                break;
            from -= d[k].x_step * d[k].size;
            to -= d[k].y_step * d[k].size;
            at[k] = 0;
        }
    }
}

rg_tensor k_reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    rg_tensor kept = rgi_header_of(y);
    kept.ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++)
        kept.size[d] = dims >> d & 1 ? 1 : x->size[d];
    rgi_set_strides(&kept);
    return kept;
}

RG_HOT bool k_reduce(const k_reduction *kind, rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    reduce_loop *loop = K_LOOP_OF(kind->loops, x->dtype, "reduce");
    if (!loop)
        return false;
    if (kind->unit == 0)
        rgi_fill_zero(y);
    else
        rgi_fill_number(y, kind->unit, rgi_nearest_integer(kind->integer, y->dtype));
    k_reduce_blocks(y, x, dims, loop, NULL);
    return true;
}

bool k_finish(finish_loop *loop, rg_tensor *y, double number, const rg_tensor *other) {
    if (loop && y->numel)
        loop(y->data, y->numel, number, other ? other->data : NULL);
    return loop;
}
