/*
 * unfold.c: unfold, a view of windows that slide along a dim, and fold, which adds windows up where
 * they overlap. (Other views of parts are in part.c.) In the headings, g is the gradient of the
 * result, and gx the gradient of x.
 */
#include "view.h"

/* The attributes of unfold. Each window has `size` elements along `dim`, and begins `step` elements
 * after the window before it. */
struct unfold_attr {
    int dim;
    int64_t size, step;
};

/* Returns the number of windows along a dim of n elements. */
static int64_t unfold_count(int64_t n, const struct unfold_attr *a) {
    return (n - a->size) / a->step + 1;
}

/* Adds windows to t. The elements of a window lie along the last dim of `windows`. One addition
 * adds element 0 of all windows at once, the next adds element 1, and so on. Within one
 * addition, each element of t gets at most one element, since windows begin at different places. */
static bool unfold_add(rg_tensor *t, const rg_tensor *windows, const struct unfold_attr *a) {
    if (t->ndim == 0) {
        if (a->size == 0)
            return true;
        RG_PART_HEADER(window, windows, (&(rg_part){ RG_PART_INDEX(0, 0) }));
        return k_run(k_add, t, t, &window);
    }
    int64_t count = windows->size[a->dim];
    for (int64_t i = 0; i < a->size; i++) {
        RG_PART_HEADER(to, t, (&(rg_part){ RG_PART_RANGE(a->dim, i, count, a->step) }));
        RG_PART_HEADER(from, windows, (&(rg_part){ RG_PART_INDEX(t->ndim, i) }));
        if (!k_run(k_add, &to, &to, &from))
            return false;
    }
    return true;
}

/* ---- unfold: y[.., w, .., i] = x[.., w * step + i, ..]; gx is fold of g, which adds g to zeros at
 *      these indices. The derivative of fold is unfold -------------------------- */

static bool unfold_view(rg_call *c) {
    const struct unfold_attr *a = RG_ATTR(c, unfold);
    rg_tensor *y = c->out[0];
    rgi_view_begin(c);
    int64_t stride = 1;
    if (y->ndim) {
        stride = y->stride[a->dim];
        const int64_t count = unfold_count(y->size[a->dim], a);
        rgi_take_part(y, &(rg_part){ RG_PART_RANGE(a->dim, 0, count, a->step) });
    }
    y->size[y->ndim] = a->size;
    y->stride[y->ndim++] = stride;
    return rgi_view_end(c);
}

struct fold_attr {
    struct unfold_attr windows;
    rg_dims shape;
};

static rg_tensor *unfold_rule(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(fold, RG_A(fold, *RG_ATTR(s, unfold), rgi_input_dims(s, 0)), g);
}

static bool unfold_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    return unfold_add(buffer, g, RG_ATTR(s, unfold));
}

RG_OP(unfold, .doc = "windows that slide along a dim", .node = "UnfoldBackward0", RG_WITH(unfold),
      .n_in = 1, .view = unfold_view, .grad = { RG_RULE_INTO(0, unfold_rule, unfold_into) },
      RG_SAMPLES({ "(2,7)", RG_A(unfold, 1, 3, 2) }, { "(5,2,3)", RG_A(unfold, 0, 2, 1) },
                 { "(2,5)", RG_A(unfold, 1, 2, 3) }, { "()", RG_A(unfold, 0, 1, 1) },
                 { "(3)", RG_A(unfold, 0, 0, 1) }, { "(0,3)", RG_A(unfold, 1, 2, 1) }));

rg_tensor *(rg_unfold)(rg_tensor *x, int dim, int64_t size, int64_t step) {
    struct unfold_attr a = { .size = size, .step = step };
    if (!rgi_check(x, "unfold") || !rgi_wrap_dim("unfold", dim, x->ndim, &a.dim))
        return NULL;
    int64_t most = x->ndim ? x->size[a.dim] : 1;
    RG_FAIL_IF(size < 0, "unfold", "size is %lld but must be >= 0", (long long)size);
    RG_FAIL_IF(size > most, "unfold",
               "maximum size for tensor at dimension %d is %lld but size is %lld", a.dim,
               (long long)most, (long long)size);
    RG_FAIL_IF(step <= 0, "unfold", "step is %lld but must be > 0", (long long)step);
    return rgi_check_dims("unfold", x->ndim + 1) ? RG_APPLY(unfold, &a, x) : NULL;
}

/* ---- fold: zeros with windows added to them; gx is the windows of g ------------ */

static bool fold_shape(rg_call *c) {
    rgi_set_size(c->out[0], &RG_ATTR(c, fold)->shape);
    return true;
}

static bool fold_forward(rg_call *c) {
    rgi_fill_zero(c->out[0]);
    return unfold_add(c->out[0], c->in[0], &RG_ATTR(c, fold)->windows);
}

static rg_tensor *fold_rule(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(unfold, &RG_ATTR(s, fold)->windows, g);
}

RG_OP(fold, .doc = "zeros with windows added along a dim", .node = "UnfoldBackwardBackward0",
      RG_WITH(fold), .n_in = 1, RG_MADE(fold), .grad = { RG_RULE(0, fold_rule) },
      RG_SAMPLES({ "(2,3,3)", RG_A(fold, { 1, 3, 2 }, RG_D(2, 7)) },
                 { "(4,2,3,2)", RG_A(fold, { 0, 2, 1 }, RG_D(5, 2, 3)) },
                 { "(1)", RG_A(fold, { 0, 1, 1 }, RG_D()) },
                 { "(0,2,2)", RG_A(fold, { 1, 2, 1 }, RG_D(0, 3)) }));
