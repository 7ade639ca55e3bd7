/*
 * normalize.c: layer norm, group norm and rms norm of contiguous tensors. This file cuts the rows
 * into tasks for the threads; loops/normalize.h computes them.
 */
#include "lanes.h"

enum {
    NORM_ROWS = 4,   /* The number of rows that are added to the gradient of the weights at once. */
    NORM_CHUNK = 16, /* The number of vectors in a chunk (see loops/normalize.h). */
    NORM_PARTS = 16, /* The maximum number of parts into which backward splits the rows. */
};

/* The operands of k_normalize. groups, n and per are fields of z. Each group of rows has n / per
 * weights and as many biases, and row r belongs to group r % groups. Each weight and bias applies
 * to `per` consecutive elements of the row. weight and bias may be NULL. */
typedef struct {
    const k_norm_rows *z;
    char *y;
    const char *x, *weight, *bias;
    bool stream; /* Set if y is written past the caches. */
} norm_work;
typedef void norm_loop(const norm_work *work, int64_t begin, int64_t end);

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
typedef void norm_backward_loop(const norm_slopes *work, int64_t begin, int64_t end,
                                double *gweight, double *gbias);

#define K_LOOPS "loops/normalize.h"
#define K_TYPES_FLOATS
#include "sets.h"

static norm_loop *const norm_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(norm);
static norm_backward_loop *const norm_backward_loops[K_DTYPES][K_COLUMNS] =
    K_TABLE_FLOATS(norm_backward);

typedef struct {
    norm_work rows;
    norm_loop *loop;
} norm_spread;

static void norm_part(void *context, int64_t begin, int64_t end, int worker) {
    const norm_spread *s = context;
    (void)worker;
    s->loop(&s->rows, begin, end);
    if (s->rows.stream)
        k_stream_end();
}

static const char *norm_data(const rg_tensor *t) { return t ? t->data : NULL; }

bool k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight,
                 const rg_tensor *bias) {
    norm_loop *loop = K_LOOP_OF(norm_loops, y->dtype, "normalize");
    if (!loop || y->numel == 0)
        return loop;
    norm_spread spread = {
        .rows = {
            .z = z,
            .y = y->data,
            .x = x->data,
            .weight = norm_data(weight),
            .bias = norm_data(bias),
            .stream = k_should_stream(y, z->n),
        },
        .loop = loop,
    };
    k_rows(z->rows, z->n, norm_part, &spread);
    return true;
}

/* ---- the gradients -------------------------------------------------------------- */

typedef struct {
    norm_slopes rows;
    norm_backward_loop *loop;
} norm_backward_spread;

static int64_t norm_weights(const k_norm_rows *z) { return z->groups * z->n / z->per; }

/* Returns the sums of a part. `sums` is gweight or gbias, which begins with the sums of part 0; if
 * it is NULL, returns NULL. */
static double *norm_sums(double *sums, const k_norm_rows *z, int64_t part) {
    return sums ? sums + 2 * norm_weights(z) * part : NULL;
}

static void norm_backward_part(void *context, int64_t begin, int64_t end, int worker) {
    const norm_backward_spread *s = context;
    const norm_slopes *work = &s->rows;
    const int64_t part = begin / work->grain;
    (void)worker;
    s->loop(work, begin, end, norm_sums(work->gweight, work->z, part),
            norm_sums(work->gbias, work->z, part));
    if (work->stream)
        k_stream_end();
}

/* Returns the number of rows of a part. This number doesn't depend on the number of threads, so
 * that the result doesn't depend on it either. Each part but the last has at least 2 * NORM_ROWS
 * rows, unless x has fewer; with smaller parts the sums could take more memory than x. */
static int64_t norm_grain(const k_norm_rows *z) {
    if (z->rows * z->n < RG_LARGE)
        return RG_MAX(z->rows, 1);
    const int64_t least = (z->rows + NORM_PARTS - 1) / NORM_PARTS + NORM_ROWS - 1;
    return RG_MAX(least, 2 * NORM_ROWS) / NORM_ROWS * NORM_ROWS;
}

int64_t k_norm_parts(const k_norm_rows *z) { return RG_MAX(z->rows - 1, 0) / norm_grain(z) + 1; }

/* Adds the sums of all parts to the sums of the first part. */
static void norm_join(const k_norm_rows *z, double *sums) {
    for (int64_t part = 1; sums && part < k_norm_parts(z); part++) {
        const double *more = norm_sums(sums, z, part);
        for (int64_t i = 0; i < norm_weights(z); i++)
            sums[i] += more[i];
    }
}

bool k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias,
                          const rg_tensor *g, const rg_tensor *x, const rg_tensor *weight) {
    norm_backward_loop *loop = K_LOOP_OF(norm_backward_loops, x->dtype, "normalize_backward");
    if (!loop || x->numel == 0)
        return loop;
    const int64_t grain = norm_grain(z);
    norm_backward_spread spread = {
        .rows = {
            .z = z,
            .gx = gx ? gx->data : NULL,
            .gweight = gweight,
            .gbias = gbias,
            .g = g->data,
            .x = x->data,
            .weight = norm_data(weight),
            .grain = grain,
            .stream = gx && k_should_stream(gx, z->n),
        },
        .loop = loop,
    };
    rgi_parallel(z->rows, grain, rgi_workers(z->rows, grain), norm_backward_part, &spread);
    norm_join(z, gweight);
    norm_join(z, gbias);
    return true;
}
