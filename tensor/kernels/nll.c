/*
 * nll.c: the negative log likelihood of classes, from logarithms of probabilities (nll) or from
 * scores (cross entropy). This file cuts the rows into tasks for the threads; loops/nll.h and
 * loops/cross_entropy.h compute them.
 */
#include "lanes.h"

#define K_LOOPS "loops/nll.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

#define K_LOOPS "loops/cross_entropy.h"
#define K_TYPES_FLOATS
#include "sets.h"

static k_nll_loop *const nll_loops[K_DTYPES] = K_BASE_FLOATS(nll);
static k_nll_loop *const nll_backward_loops[K_DTYPES] = K_BASE_FLOATS(nll_backward);
static k_nll_loop *const nll_total_loops[K_DTYPES] = K_BASE_FLOATS(nll_total);
static k_nll_loop *const nll_mean_loops[K_DTYPES] = K_BASE_FLOATS(nll_mean);
static k_nll_loop *const cross_entropy_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(cross_entropy);
static k_nll_loop *const cross_entropy_backward_loops[K_DTYPES][K_COLUMNS] =
    K_TABLE_FLOATS(cross_entropy_backward);

typedef struct {
    k_nll_rows rows;
    k_nll_loop *loop;
} nll_spread;

static void nll_part(void *context, int64_t begin, int64_t end, int worker) {
    const nll_spread *s = context;
    (void)worker;
    s->loop(&s->rows, begin, end);
}

static k_nll_rows nll_rows_of(const k_nll_targets *z, const rg_tensor *y) {
    k_nll_rows rows = { .y = y ? y->data : NULL,
                        .target = (const int64_t *)z->target->data,
                        .classes = z->classes,
                        .inner = z->inner,
                        .ignore = z->ignore,
                        .total = z->total };
    if (z->weight) {
        rows.weight = z->weight->data;
        rows.weight_step = z->weight->stride[0] * (int64_t)rgi_sizeof(z->weight->dtype);
    }
    return rows;
}

/* Runs the loop over `count` rows of n elements, on several threads if there is enough work.
 * Returns false if the loop is NULL. */
static bool nll_run(k_nll_loop *loop, const k_nll_rows *rows, int64_t count, int64_t n) {
    if (loop)
        k_rows(count, n, nll_part, &(nll_spread){ .rows = *rows, .loop = loop });
    return loop;
}

/* Runs the loop once, over all targets. Returns false if the loop is NULL. */
static bool nll_run_whole(k_nll_loop *loop, const k_nll_targets *z, const rg_tensor *y) {
    const k_nll_rows rows = nll_rows_of(z, y);
    if (loop)
        loop(&rows, 0, z->target->numel);
    return loop;
}

bool k_nll_total(const k_nll_targets *z, rg_dtype dtype) {
    return nll_run_whole(K_BASE_LOOP_OF(nll_total_loops, dtype, "nll"), z, NULL);
}

bool k_nll_mean(const k_nll_targets *z, rg_tensor *y) {
    return nll_run_whole(K_BASE_LOOP_OF(nll_mean_loops, y->dtype, "nll"), z, y);
}

bool k_nll(const k_nll_targets *z, rg_tensor *y, rg_tensor *x) {
    k_nll_rows rows = nll_rows_of(z, y);
    rows.x = x->data;
    return nll_run(K_BASE_LOOP_OF(nll_loops, x->dtype, "nll"), &rows,
                   z->target->numel / RG_MAX(z->inner, 1), z->inner);
}

bool k_nll_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *g) {
    k_nll_rows rows = nll_rows_of(z, gx);
    rows.g = g->data;
    rows.own_g = g->ndim;
    return nll_run(K_BASE_LOOP_OF(nll_backward_loops, gx->dtype, "nll_backward"), &rows,
                   z->target->numel / RG_MAX(z->inner, 1), z->classes * z->inner);
}

bool k_cross_entropy(const k_nll_targets *z, rg_tensor *y, rg_tensor *shifts, rg_tensor *x) {
    k_nll_rows rows = nll_rows_of(z, y);
    rows.shifts = shifts->data;
    rows.x = x->data;
    return nll_run(K_LOOP_OF(cross_entropy_loops, x->dtype, "cross_entropy"), &rows,
                   z->target->numel, z->classes);
}

bool k_cross_entropy_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *shifts,
                              rg_tensor *x, rg_tensor *g) {
    k_nll_rows rows = nll_rows_of(z, gx);
    rows.shifts = shifts->data;
    rows.x = x->data;
    rows.g = g->data;
    rows.own_g = g->ndim;
    return nll_run(K_LOOP_OF(cross_entropy_backward_loops, x->dtype, "cross_entropy_backward"),
                   &rows, z->target->numel, z->classes);
}
