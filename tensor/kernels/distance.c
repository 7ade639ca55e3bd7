/*
 * distance.c: distances between the rows of two matrices (or batches of matrices), and their
 * gradients.
 */
#include "kernels.h"

#include "smooth.h"

#include <math.h>

enum { DISTANCE_LANES = 16 };

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

/* Computes rows begin to end - 1 of the result; the rows of all items of the batch are numbered one
 * after the other. */
typedef void distance_loop(const distance_context *c, int64_t begin, int64_t end);

#define K_LOOPS "loops/distance.h"
#define K_TYPES_FLOATS
#include "sets.h"

/* A call's work, of which each thread computes some rows. */
typedef struct {
    const distance_context *c;
    distance_loop *loop;
} distance_work;

static void distance_part(void *context, int64_t begin, int64_t end, int worker) {
    const distance_work *w = context;
    (void)worker;
    w->loop(w->c, begin, end);
}

static distance_context distance_of(const rg_tensor *a, const rg_tensor *b, double p) {
    return (distance_context){ .rows = a->size[a->ndim - 2],
                               .others = b->size[b->ndim - 2],
                               .n = a->size[a->ndim - 1],
                               .p = p,
                               .a = a->data,
                               .b = b->data };
}

static bool distance_run(const distance_context *c, int64_t rows, distance_loop *loop) {
    if (!loop)
        return false;
    distance_work w = { c, loop };
    k_rows(rows, c->others * RG_MAX(c->n, 1), distance_part, &w);
    return true;
}

bool k_distance(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, double p) {
    static distance_loop *const loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(distance_rows);
    distance_context c = distance_of(a, b, p);
    c.y = y->data;
    return y->numel == 0
           || distance_run(&c, y->numel / c.others, K_LOOP_OF(loops, y->dtype, "cdist"));
}

bool k_distance_backward(rg_tensor *ga, const rg_tensor *g, const rg_tensor *a, const rg_tensor *b,
                         const rg_tensor *y, double p, bool turned) {
    static distance_loop *const loops[K_DTYPES][K_COLUMNS] = K_TABLE_FLOATS(distance_grad_rows);
    distance_context c = distance_of(a, b, p);
    c.turned = turned;
    c.g = g->data;
    c.y = y->data;
    c.to = ga->data;
    return ga->numel == 0
           || distance_run(&c, ga->numel / c.n, K_LOOP_OF(loops, ga->dtype, "cdist"));
}
