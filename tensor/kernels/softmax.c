/*
 * softmax.c: softmax, log_softmax and their gradients along one dim of contiguous tensors. This
 * file cuts the rows into tasks for the threads; the loops in loops/softmax.h and
 * loops/softmax_short.h compute them.
 */
#include "lanes.h"

enum {
    SOFTMAX_SIDE = 256, /* The maximum number of rows in a block, if rows aren't contiguous. */
    /* The number of elements of each row that softmax_stream processes in one iteration. */
    SOFTMAX_STEP = 64,
    /* A processor may take the addresses of a load and a store for equal if they differ by a
     * multiple of this number. */
    SOFTMAX_PAGE = 4096,
};
/* The maximum length of a row whose exponentials a buffer can hold. */
enum { SOFTMAX_ROOM = 4096 };

#define K_LOOPS "loops/softmax.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/softmax_short.h"
#define K_TYPES_NONE
#include "sets.h"

static softmax_loop *const softmax_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(softmax);
static softmax_loop *const softmax_backward_loops[K_DTYPES][K_COLUMNS] =
    K_TABLE_FLOATS(softmax_backward);
static softmax_loop *const softmax_short_loops[K_COLUMNS] = K_BY_SET(softmax_short);
static softmax_loop *const softmax_backward_short_loops[K_COLUMNS] =
    K_BY_SET(softmax_backward_short);

/* The operands of a call, which all its tasks share. p[0] is the output. `element` is the size of
 * an element in bytes. If the dim isn't the last one, `step` rows are interleaved in memory: first
 * come the first elements of all of them, then their second elements, and so on. Such a group of
 * rows is cut into `blocks` blocks of at most SOFTMAX_SIDE rows. */
typedef struct {
    const softmax_rows *rows;
    softmax_loop *loop;
    char *p[3];
    int64_t element, blocks;
} softmax_work;

/* Computes rows begin to end - 1, which are contiguous. */
static void softmax_pieces(void *context, int64_t begin, int64_t end, int worker) {
    const softmax_work *w = context;
    const int64_t at = begin * w->rows->n * w->element;
    (void)worker;
    w->loop(w->rows, (char *[]){ w->p[0] + at, w->p[1] + at, w->p[2] + at }, end - begin);
    if (w->rows->stream)
        k_stream_end();
}

/* Computes blocks begin to end - 1, for rows that aren't contiguous. */
static void softmax_sides(void *context, int64_t begin, int64_t end, int worker) {
    const softmax_work *w = context;
    const softmax_rows *z = w->rows;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t side = i % w->blocks * SOFTMAX_SIDE;
        const int64_t at = (i / w->blocks * z->n * z->step + side) * w->element;
        w->loop(z, (char *[]){ w->p[0] + at, w->p[1] + at, w->p[2] + at },
                RG_MIN(SOFTMAX_SIDE, z->step - side));
    }
}

static void softmax_all_rows(softmax_loop *loop, const softmax_rows *z, rg_tensor *y,
                             const rg_tensor *a, const rg_tensor *b) {
    softmax_work w = {
        .rows = z,
        .loop = loop,
        .p = { y->data, a->data, b->data },
        .element = (int64_t)rgi_sizeof(y->dtype),
        .blocks = 1,
    };
    if (!z->last)
        w.blocks = (z->step + SOFTMAX_SIDE - 1) / SOFTMAX_SIDE;
    const int64_t rows = y->numel / (z->n * z->step) * w.blocks;
    k_rows(rows, y->numel / rows, z->last ? softmax_pieces : softmax_sides, &w);
}

static softmax_rows softmax_rows_of(const rg_tensor *y, int dim, k_softmax_kind kind) {
    softmax_rows z = { .n = 1, .step = 1, .kind = kind, .last = dim >= y->ndim - 1 };
    if (y->ndim)
        z.n = y->size[dim];
    for (int d = dim + 1; d < y->ndim; d++)
        z.step *= y->size[d];
    z.stream = z.last && k_should_stream(y, z.n);
    return z;
}

/* Returns whether a whole row fits into one register of sixteen floats. */
static bool softmax_is_short(const softmax_rows *z, const rg_tensor *y) {
    const bool floats = y->dtype == RG_FLOAT32; /* softmax_short is written for floats only. */
    return floats && z->last && z->n <= K_LANES;
}

bool k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind) {
    softmax_loop *loop = K_LOOP_OF(softmax_loops, y->dtype, "softmax");
    if (!loop || y->numel == 0)
        return loop;
    const softmax_rows z = softmax_rows_of(y, dim, kind);
    if (softmax_is_short(&z, y) && kind != K_SAFE_SOFTMAX)
        loop = K_LOOP_OF_SET(softmax_short_loops);
    softmax_all_rows(loop, &z, y, x, x);
    return true;
}

bool k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim,
                        k_softmax_kind kind) {
    softmax_loop *loop = K_LOOP_OF(softmax_backward_loops, gx->dtype, "softmax_backward");
    if (!loop || gx->numel == 0)
        return loop;
    const softmax_rows z = softmax_rows_of(gx, dim, kind);
    if (softmax_is_short(&z, gx))
        loop = K_LOOP_OF_SET(softmax_backward_short_loops);
    softmax_all_rows(loop, &z, gx, g, y);
    return true;
}
