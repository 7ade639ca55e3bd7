/*
 * convert.c: copies of a tensor in another dtype, or in a storage of their own.
 */
#include "autograd/op.h"

/* ---- to: x in another dtype; the engine converts g back ------------------------ */

/* node is torch's name if it isn't this op's. */
struct to_attr {
    const char *node;
    rg_dtype dtype;
};

static bool to_shape(rg_call *c) {
    c->out[0]->dtype = RG_ATTR(c, to)->dtype;
    return rgi_shape_same(c);
}

static bool to_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[0]);
    return true;
}

RG_OP(to, RG_NAMED(to), .doc = "x in another dtype", .node = "ToCopyBackward0", .n_in = 1,
      RG_MADE(to), .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", RG_A(to, NULL, RG_FLOAT64) }, { "()", RG_A(to, NULL, RG_FLOAT64) },
                 { "(0,2)", RG_A(to, NULL, RG_FLOAT64) }));

rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype) {
    if (!rgi_check(x, "to") || !rgi_check_dtype("to", (int)dtype))
        return NULL;
    return x->dtype == dtype ? rgi_lend(x) : RG_APPLY(to, RG_A(to, node, dtype), x);
}

rg_tensor *rgi_copied(rg_tensor *x) {
    return RG_APPLY(to, RG_A(to, "CopyBackwards", (rg_dtype)x->dtype), x);
}

rg_tensor *rg_to(rg_tensor *x, rg_dtype dtype) { return rgi_to_as(NULL, x, dtype); }

/* ---- clone: x in a storage of its own; gx = g ---------------------------------- */

RG_OP(clone, .doc = "x again, in a storage of its own", .node = "CloneBackward0", .n_in = 1,
      .shape = rgi_shape_same, .forward = to_forward, .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", NULL }, { "()", NULL }, { "(0,2)", NULL }));

rg_tensor *rg_clone(rg_tensor *x) { return RG_APPLY(clone, RG_NO_ATTR, x); }

rg_tensor *rg_contiguous(rg_tensor *x) {
    if (!rgi_check(x, "contiguous"))
        return NULL;
    if (x->flags & RG_CONTIGUOUS)
        return rgi_lend(x);
    RG_AS("contiguous");
    return rg_clone(x);
}
