/*
 * convert.c: copies of a tensor in another dtype (to), or in a new storage (clone, contiguous); and
 * detach. In the formulas, g is the gradient of the result, and gx the gradient of x.
 */
#include "autograd/graph_observer.h"
#include "autograd/op.h"

/* ---- to: x in another dtype; the engine converts g back ------------------------ */

/* The attributes of `to`. `node` is torch's name of the graph's node; if it is NULL, the op's own
 * name is used. If `strided` is set, the copy gets the strides in `stride`; otherwise it has x's
 * order of dims in memory. */
struct to_attr {
    const char *node;
    rg_dtype dtype;
    bool strided;
    int64_t stride[RG_MAX_DIMS];
};

static bool to_shape(rg_call *c) {
    const struct to_attr *a = RG_ATTR(c, to);
    c->out[0]->dtype = a->dtype;
    if (!a->strided)
        return rgi_shape_kept(c);
    rgi_shape_same(c);
    memcpy(c->out[0]->stride, a->stride, sizeof a->stride);
    rgi_update_flags(c->out[0]);
    return true;
}

static bool to_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[0]);
    return true;
}

RG_OP(to, RG_NAMED(to), .doc = "x in another dtype", .node = "ToCopyBackward0", .n_in = 1,
      RG_MADE(to), .moves = true, .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", RG_A(to, .dtype = RG_FLOAT64) },
                 { "()", RG_A(to, .dtype = RG_FLOAT64) },
                 { "(0,2)", RG_A(to, .dtype = RG_FLOAT64) }));

rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype) {
    if (!rgi_check(x, "to") || !rgi_check_dtype("to", (int)dtype))
        return NULL;
    if (x->dtype == dtype)
        return rgi_lend(x);
    return RG_APPLY(to, RG_A(to, .node = node, .dtype = dtype), x);
}

rg_tensor *rgi_copied(rg_tensor *x, const int64_t *stride) {
    struct to_attr a = { .node = "CopyBackwards", .dtype = (rg_dtype)x->dtype, .strided = true };
    rg_tensor contiguous = { .ndim = x->ndim };
    rgi_copy_shape(&contiguous, x);
    rgi_set_strides(&contiguous);
    memcpy(a.stride, stride ? stride : contiguous.stride, x->ndim * sizeof *stride);
    return RG_APPLY(to, &a, x);
}

rg_tensor *(rg_to)(rg_tensor *x, rg_dtype dtype) { return rgi_to_as(NULL, x, dtype); }

/* ---- clone: a copy of x in a new storage; gx = g ------------------------------- */

/* The attributes of clone. If `contiguous` is true, the copy is contiguous. Otherwise it has x's
 * order of dims in memory. */
struct clone_attr {
    bool contiguous;
};

static bool clone_shape(rg_call *c) {
    return RG_ATTR(c, clone)->contiguous ? rgi_shape_same(c) : rgi_shape_kept(c);
}

RG_OP(clone, RG_WITH(clone), .doc = "x again, in a storage of its own", .node = "CloneBackward0",
      .n_in = 1, .shape = clone_shape, .forward = to_forward, .moves = true,
      .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", RG_A(clone, false) }, { "()", RG_A(clone, false) },
                 { "(0,2)", RG_A(clone, false) }));

rg_tensor *rg_clone(rg_tensor *x) { return RG_APPLY(clone, RG_A(clone, .contiguous = false), x); }

rg_tensor *rgi_contiguous_clone(rg_tensor *x) {
    return RG_APPLY(clone, RG_A(clone, .contiguous = true), x);
}

rg_tensor *rg_contiguous(rg_tensor *x) {
    if (!rgi_check(x, "contiguous"))
        return NULL;
    if (x->flags & RG_CONTIGUOUS)
        return rgi_lend(x);
    RG_AS("contiguous");
    return rgi_contiguous_clone(x);
}

/* ---- detach: x's elements in x's storage, without a history --------------------- */

rg_tensor *rg_detach(rg_tensor *x) {
    if (!rgi_check(x, "detach"))
        return NULL;
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->detached)
        o->detached(o, x);
    return rgi_own(rgi_alias(x));
}
