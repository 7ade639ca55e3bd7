/*
 * normalize.c: layer norm, group norm and rms norm of contiguous tensors. This file cuts the rows
 * into tasks for the threads; loops/normalize.h computes them.
 */
#include "lanes.h"
#include "plans.h"

enum {
    NORM_ROWS = 4,   /* The number of rows that are added to the gradient of the weights at once. */
    NORM_CHUNK = 16, /* The number of vectors in a chunk (see loops/normalize.h). */
    NORM_PARTS = 16, /* The maximum number of parts into which backward splits the rows. */
};

static int64_t norm_weights(const k_norm_rows *z) { return z->groups * z->n / z->per; }

/* Returns the number of rows of a part. This number doesn't depend on the number of threads, so
 * that the result doesn't depend on it either. Each part but the last has at least 2 * NORM_ROWS
 * rows, unless x has fewer; with smaller parts the sums could take more memory than x. */
static int64_t norm_grain(const k_norm_rows *z) {
    if (z->rows * z->n < RG_LARGE)
        return RG_MAX(z->rows, 1);
    const int64_t least = (z->rows + NORM_PARTS - 1) / NORM_PARTS + NORM_ROWS - 1;
    return RG_MAX(least, 2 * NORM_ROWS) / NORM_ROWS * NORM_ROWS;
}

/* Returns the sums of a part. `sums` is gweight or gbias, which begins with the sums of part 0; if
 * it is NULL, returns NULL. */
static double *norm_sums(double *sums, const k_norm_rows *z, int64_t part) {
    return sums ? sums + 2 * norm_weights(z) * part : NULL;
}

#define K_LOOPS "loops/normalize.h"
#define K_TYPES_FLOATS
#include "sets.h"

#define K_LOOPS "loops/norm_join.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

static rg_work *const norm_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(norm);
static rg_work *const norm_backward_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(norm_backward);

static const char *norm_data(const rg_tensor *t) { return t ? t->data : NULL; }

bool k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight,
                 const rg_tensor *bias) {
    rg_work *loop = K_LOOP_OF(norm_loops, y->dtype, "normalize");
    if (!loop || y->numel == 0)
        return loop;
    norm_work work = {
        .z = z,
        .y = y->data,
        .x = x->data,
        .weight = norm_data(weight),
        .bias = norm_data(bias),
        .stream = k_should_stream(y, z->n),
    };
    k_rows(z->rows, z->n, loop, &work);
    return true;
}

/* ---- the gradients -------------------------------------------------------------- */

int64_t k_norm_parts(const k_norm_rows *z) { return RG_MAX(z->rows - 1, 0) / norm_grain(z) + 1; }

bool k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias,
                          const rg_tensor *g, const rg_tensor *x, const rg_tensor *weight) {
    rg_work *loop = K_LOOP_OF(norm_backward_loops, x->dtype, "normalize_backward");
    if (!loop || x->numel == 0)
        return loop;
    norm_slopes work = {
        .z = z,
        .gx = gx ? gx->data : NULL,
        .gweight = gweight,
        .gbias = gbias,
        .g = g->data,
        .x = x->data,
        .weight = norm_data(weight),
        .grain = norm_grain(z),
        .stream = gx && k_should_stream(gx, z->n),
    };
    rgi_parallel(z->rows, work.grain, rgi_workers(z->rows, work.grain), loop, &work);
    const int64_t parts = k_norm_parts(z);
    if (parts > 1)
        K_BASE_LOOP(norm_join)(&work, 1, parts, 0);
    return true;
}
