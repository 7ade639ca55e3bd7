/*
 * nll.c: the negative log likelihood of classes, from logarithms of probabilities (nll) or from
 * scores (cross entropy). This file cuts the rows into tasks for the threads; loops/nll.h and
 * loops/cross_entropy.h compute them.
 */
#include "lanes.h"

/* The operands of a call. y is the output: the losses, or the gradient of x. The other operands are
 * named as in k_nll and k_cross_entropy; operands that a function doesn't have are NULL. */
typedef struct {
    const k_nll_targets *z;
    rg_tensor *y, *shifts, *x, *g;
    double scale;
} nll_work;
typedef void nll_loop(const nll_work *work, int64_t begin, int64_t end);

/* Returns the weight of the class that is target i, or 0 if that target is to be ignored. */
static double nll_weight(const k_nll_targets *z, int64_t i) {
    const int64_t class = ((const int64_t *)z->target->data)[i];
    if (class == z->ignore)
        return 0;
    if (!z->weight)
        return 1;
    const int64_t step = z->weight->stride[0] * (int64_t)rgi_sizeof(z->weight->dtype);
    return rgi_load_f64(z->weight->data + class * step, z->weight->dtype);
}

#define K_LOOPS "loops/nll.h"
#define K_TYPES_FLOATS
#define K_BASE_ONLY
#include "sets.h"

#define K_LOOPS "loops/cross_entropy.h"
#define K_TYPES_FLOATS
#include "sets.h"

static nll_loop *const nll_loops[K_DTYPES] = K_BASE_FLOATS(nll);
static nll_loop *const nll_backward_loops[K_DTYPES] = K_BASE_FLOATS(nll_backward);
static nll_loop *const cross_entropy_loops[K_DTYPES][K_SETS] = K_TABLE_FLOATS(cross_entropy);
static nll_loop *const cross_entropy_backward_loops[K_DTYPES][K_SETS] =
    K_TABLE_FLOATS(cross_entropy_backward);

typedef struct {
    nll_work rows;
    nll_loop *loop;
} nll_spread;

static void nll_part(void *context, int64_t begin, int64_t end, int worker) {
    const nll_spread *s = context;
    (void)worker;
    s->loop(&s->rows, begin, end);
}

/* Runs the loop over `rows` rows of n elements, on several threads if there is enough work. Returns
 * false if the loop is NULL. */
static bool nll_run(nll_loop *loop, const nll_work *work, int64_t rows, int64_t n) {
    if (loop)
        k_rows(rows, n, nll_part, &(nll_spread){ .rows = *work, .loop = loop });
    return loop;
}

double k_nll_total(const k_nll_targets *z) {
    double total = 0;
    for (int64_t i = 0; i < z->target->numel; i++)
        total += nll_weight(z, i);
    return total;
}

bool k_nll(const k_nll_targets *z, rg_tensor *y, rg_tensor *x) {
    const nll_work work = { .z = z, .y = y, .x = x };
    return nll_run(K_BASE_LOOP_OF(nll_loops, x->dtype, "nll"), &work,
                   z->target->numel / RG_MAX(z->inner, 1), z->inner);
}

bool k_nll_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *g, double scale) {
    const nll_work work = { .z = z, .y = gx, .g = g, .scale = scale };
    return nll_run(K_BASE_LOOP_OF(nll_backward_loops, gx->dtype, "nll_backward"), &work,
                   z->target->numel / RG_MAX(z->inner, 1), z->classes * z->inner);
}

bool k_cross_entropy(const k_nll_targets *z, rg_tensor *y, rg_tensor *shifts, rg_tensor *x) {
    const nll_work work = { .z = z, .y = y, .shifts = shifts, .x = x, .scale = 1 };
    return nll_run(K_LOOP_OF(cross_entropy_loops, x->dtype, "cross_entropy"), &work,
                   z->target->numel, z->classes);
}

bool k_cross_entropy_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *shifts,
                              rg_tensor *x, rg_tensor *g, double scale) {
    const nll_work work = { .z = z, .y = gx, .shifts = shifts, .x = x, .g = g, .scale = scale };
    return nll_run(K_LOOP_OF(cross_entropy_backward_loops, x->dtype, "cross_entropy_backward"),
                   &work, z->target->numel, z->classes);
}
