/*
 * op.c: shape functions, views and a rule that many ops share. The ops themselves are in ops/.
 */
#include "node.h"

/* ---- shape functions --------------------------------------------------------------- */

RG_HOT bool rgi_shape_same(rg_call *c) {
    for (int k = 0; k < c->n_out; k++)
        rgi_copy_shape(c->out[k], c->in[0]);
    return true;
}

bool rgi_shape_kept(rg_call *c) {
    rgi_shape_same(c);
    if (!(c->in[0]->flags & RG_PLAIN))
        rgi_lay_out_as(c->out[0], c->in[0]);
    return true;
}

bool rgi_shape_broadcast(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, c->in[0]);
    for (int i = 1; i < c->n_in; i++)
        if (!rgi_is_none(c->in[i]) && !rgi_same_shape(y, c->in[i])
            && !rgi_broadcast_shapes(c->op->name, y, c->in[i], y))
            return false;
    return true;
}

bool rgi_shape_broadcast_bool(rg_call *c) {
    c->out[0]->dtype = RG_BOOL;
    return rgi_shape_broadcast(c);
}

/* ---- views: the first and the last part of making one ------------------------------ */

RG_HOT static __attribute__((noinline)) void mark_without_grad(rg_tensor *y) {
    if (rgi_this.inference)
        y->flags |= RG_INFERRED;
    else
        y->flags = (uint8_t)((y->flags & ~RG_OF_LIST) | RG_UNTRACKED);
}

RG_HOT void rgi_view_begin(rg_call *c) {
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    RG_COUNT_UP(&x->storage->refs, 1);
    y->storage = x->storage;
    y->data = x->data;
    rgi_view_join(y, x);
    if (RG_UNLIKELY(rgi_grad_off))
        mark_without_grad(y);
    y->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        y->size[i] = x->size[i];
        y->stride[i] = x->stride[i];
        RG_FEW();
    }
}

RG_HOT bool rgi_view_end(rg_call *c) {
    rgi_update_flags(c->out[0]);
    return true;
}

/* ---- a rule that many ops share ---------------------------------------------------- */

rg_tensor *rgi_rule_same(const rg_step *s, rg_tensor *g) {
    (void)s;
    return g;
}

/* ---- contiguous copies ------------------------------------------------------------- */

bool rgi_contiguous_copies(int n, rg_tensor *copy[], rg_tensor *const t[]) {
    bool ok = true;
    for (int i = 0; i < n; i++) {
        const bool none = rgi_is_none(t[i]);
        copy[i] = none ? NULL : rgi_contiguous_copy(t[i], (rg_dtype)t[i]->dtype);
        ok = ok && (none || copy[i]);
    }
    return ok;
}

void rgi_release_all(int n, rg_tensor *t[]) {
    for (int i = 0; i < n; i++)
        rgi_release(t[i]);
}
