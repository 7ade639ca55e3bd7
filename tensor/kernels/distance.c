/*
 * distance.c: distances between the rows of two matrices (or batches of matrices), and their
 * gradients.
 */
#include "plans.h"

#include "smooth.h"

#include <math.h>

enum { DISTANCE_LANES = 16 };

#define K_LOOPS "loops/distance.h"
#define K_TYPES_FLOATS
#include "sets.h"

static distance_context distance_of(const rg_tensor *a, const rg_tensor *b, double p) {
    return (distance_context){ .rows = a->size[a->ndim - 2],
                               .others = b->size[b->ndim - 2],
                               .n = a->size[a->ndim - 1],
                               .p = p,
                               .a = a->data,
                               .b = b->data };
}

/* Computes the rows of the result; the rows of all items of the batch are numbered one after the
 * other. */
static bool distance_run(distance_context *c, int64_t rows, rg_work *loop) {
    if (loop)
        k_rows(rows, c->others * RG_MAX(c->n, 1), loop, c);
    return loop;
}

bool k_distance(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, double p) {
    static rg_work *const distance_rows_loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(distance_rows);
    distance_context c = distance_of(a, b, p);
    c.y = y->data;
    return y->numel == 0
           || distance_run(&c, y->numel / c.others,
                           K_LOOP_OF(distance_rows_loops, y->dtype, "cdist"));
}

bool k_distance_backward(rg_tensor *ga, const rg_tensor *g, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y, double p, bool turned) {
    static rg_work *const distance_grad_rows_loops[K_DTYPES][K_COLUMNS] =
        K_TABLE_FLOATS(distance_grad_rows);
    distance_context c = distance_of(a, b, p);
    c.turned = turned;
    c.g = g->data;
    c.y = y->data;
    c.to = ga->data;
    return ga->numel == 0
           || distance_run(&c, ga->numel / c.n,
                           K_LOOP_OF(distance_grad_rows_loops, ga->dtype, "cdist"));
}
