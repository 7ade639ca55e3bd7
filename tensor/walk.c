/*
 * walk.c: walks over tensors that broadcast to one shape. A dim is merged with the dim outside it
 * if the strides of every operand allow it, so that the loop gets rows that are as long as
 * possible. kernels/run.c splits a walk among threads.
 */
#include "walk.h"

#include "dtype.h"

/* Returns whether a dim with this size and these steps can be merged with the walk's present
 * innermost dim: for every operand k the step of the innermost dim must be size * step[k]. */
static bool walk_merges(const rg_walk *w, int64_t size, const int64_t step[]) {
    if (w->ndim == 0)
        return false;
    for (int k = 0; k < w->n; k++)
        if (w->step[w->ndim - 1][k] != size * step[k])
            return false;
    return true;
}

/* Makes a dim the new innermost dim of the walk, or merges it with the present one if possible. */
static void walk_add_dim(rg_walk *w, int64_t size, const int64_t step[]) {
    int d = w->ndim;
    if (walk_merges(w, size, step)) {
        d--;
        w->size[d] *= size;
    } else {
        w->size[d] = size;
    }
    for (int k = 0; k < w->n; k++)
        w->step[d][k] = step[k];
    w->ndim = d + 1;
}

/* Fills `order` with the dims of `out` that the walk has, the outermost first, and returns their
 * number. If by_stride is true, the dims are sorted by their strides; otherwise they keep their
 * order. Dims of size 1 are left out. If `out` is empty, all dims are left out, since its sizes and
 * strides may be anything. */
static int walk_order(const rg_tensor *out, bool by_stride, int order[RG_MAX_DIMS]) {
    int dims = 0;
    for (int d = 0; d < out->ndim && out->numel; d++) {
        if (out->size[d] == 1)
            continue;
        int i = dims++;
        for (; by_stride && i > 0 && out->stride[order[i - 1]] < out->stride[d]; i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    return dims;
}

void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride) {
    const rg_tensor *out = t[0];
    w->n = n;
    w->ndim = 0;
    w->numel = out->numel;
    for (int k = 0; k < n; k++) {
        w->data[k] = t[k]->data;
        w->element[k] = (int64_t)rgi_sizeof(t[k]->dtype);
    }
    int order[RG_MAX_DIMS];
    const int dims = walk_order(out, by_stride, order);
    for (int i = 0; i < dims; i++) {
        int64_t step[RG_MAX_OPERANDS];
        for (int k = 0; k < n; k++) {
            int dim = order[i] - (out->ndim - t[k]->ndim);
            bool stays = dim < 0 || t[k]->size[dim] == 1;
            step[k] = stays ? 0 : t[k]->stride[dim] * w->element[k];
        }
        walk_add_dim(w, out->size[order[i]], step);
    }
    if (w->ndim == 0)
        walk_add_dim(w, w->numel, (int64_t[RG_MAX_OPERANDS]){ 0 });
}

void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context) {
    if (w->numel == 0)
        return;
    int last = w->ndim - 1;
    char *p[RG_MAX_OPERANDS];
    int64_t at[RG_MAX_DIMS] = { 0 };
    for (int k = 0; k < w->n; k++)
        p[k] = w->data[k];
    for (;;) {
        inner(p, w->step[last], w->size[last], context);
        int d = last - 1;
        for (; d >= 0; d--) {
            for (int k = 0; k < w->n; k++)
                p[k] += w->step[d][k];
            at[d]++;
            if (at[d] < w->size[d])
                break;
            for (int k = 0; k < w->n; k++)
                p[k] -= w->step[d][k] * w->size[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

RG_HOT void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context) {
    char *p[RG_MAX_OPERANDS];
    int64_t step[RG_MAX_OPERANDS];
    int k = 0;
    for (; k < n && t[k]->flags & RG_CONTIGUOUS; k++) {
        p[k] = t[k]->data;
        /* t[0] and t[k] are contiguous here. If t[k] has as many elements as t[0], it also has
         * t[0]'s shape, apart from dims of size 1. So both can be walked as one dim. */
        if (t[k]->numel == t[0]->numel)
            step[k] = (int64_t)rgi_sizeof(t[k]->dtype);
        else if (t[k]->numel == 1)
            step[k] = 0;
        else
            break;
    }
    if (RG_LIKELY(k == n)) {
        if (t[0]->numel)
            inner(p, step, t[0]->numel, context);
        return;
    }
    rg_walk w;
    rgi_walk_make(&w, n, t, false);
    rgi_walk_run(&w, inner, context);
}
