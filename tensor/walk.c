/*
 * walk.c: one walk over tensors that broadcast to one shape. Neighbouring dims that every operand
 * steps through evenly are merged, so that a loop sees the longest rows there are. How a kernel
 * spreads a walk over threads is in kernels/run.c.
 */
#include "walk.h"

#include "dtype.h"

static void add_dim(rg_walk *w, int64_t size, const int64_t step[]) {
    int d = w->ndim, k = 0;
    if (d > 0)
        while (k < w->n && w->step[d - 1][k] == size * step[k])
            k++;
    /* Dims merge if outer step == inner size * inner step for all operands. */
    if (d > 0 && k == w->n)
        w->size[--d] *= size;
    else
        w->size[d] = size;
    for (k = 0; k < w->n; k++)
        w->step[d][k] = step[k];
    w->ndim = d + 1;
}

void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride) {
    const rg_tensor *out = t[0];
    int order[RG_MAX_DIMS], dims = 0;
    w->n = n;
    w->ndim = 0;
    w->numel = out->numel;
    for (int k = 0; k < n; k++)
        w->data[k] = t[k]->data, w->element[k] = (int64_t)rgi_sizeof(t[k]->dtype);
    /* An empty tensor's sizes and strides may be anything. */
    for (int d = 0; d < out->ndim && w->numel; d++) {
        if (out->size[d] == 1)
            continue;
        int i = dims++;
        for (; by_stride && i > 0 && out->stride[order[i - 1]] < out->stride[d]; i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    for (int i = 0; i < dims; i++) {
        int64_t step[RG_MAX_OPERANDS];
        for (int k = 0; k < n; k++) {
            int dk = order[i] - (out->ndim - t[k]->ndim);
            step[k] = dk < 0 || t[k]->size[dk] == 1 ? 0 : t[k]->stride[dk] * w->element[k];
        }
        add_dim(w, out->size[order[i]], step);
    }
    if (w->ndim == 0)
        add_dim(w, w->numel, (int64_t[RG_MAX_OPERANDS]){ 0 });
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
            if (++at[d] < w->size[d])
                break;
            for (int k = 0; k < w->n; k++)
                p[k] -= w->step[d][k] * w->size[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context) {
    char *p[RG_MAX_OPERANDS];
    int64_t step[RG_MAX_OPERANDS];
    int k = 0;
    for (; k < n && t[k]->flags & RG_CONTIGUOUS; k++) {
        p[k] = t[k]->data;
        /* An operand with as many elements as t[0] has all of its dims. */
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
