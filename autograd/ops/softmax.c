/*
 * softmax.c: softmax and what is made of it.
 */
#include "autograd/op.h"

/* ---- softmax: y = e^x / sum(e^x); gx = y (g - sum(g y)) -------------------------------- */

struct softmax_attr { int dim; };

static bool softmax_forward(rg_call *c)
{
    k_softmax(c->out[0], c->in[0], RG_ATTR(c, softmax)->dim);
    return true;
}

static rg_tensor *softmax_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *y = rg_saved_output(s);
    return rg_mul(y, rg_sub(g, rg_sum_dim(rg_mul(g, y), RG_ATTR(s, softmax)->dim, true)));
}

static bool softmax_fused(const rg_step *s, rg_tensor *gx[])
{
    rg_tensor *y = rg_saved_output(s);
    if (!y || !(gx[0] = rg_new_like(y, y->dtype))) return false;
    k_softmax_backward(gx[0], s->g[0], y, RG_ATTR(s, softmax)->dim);
    return true;
}

RG_OP(softmax, .attr_size = sizeof(struct softmax_attr), .doc = "e^x / sum(e^x) along dim", .node = "SoftmaxBackward0", .n_in = 1, .typing = RG_FLOATED,
      .shape = rg_shape_same, .forward = softmax_forward, .grad = { RG_RULE(RG_OUTPUT, softmax_rule) }, .fused = softmax_fused,
      RG_SAMPLES({ "(2,3)", RG_A(softmax, 1) }, { "(4,1,3)", RG_A(softmax, 0) }, { "()", RG_A(softmax, 0) },
                 { "(0,3)", RG_A(softmax, 0) }));

rg_tensor *rg_softmax(rg_tensor *x, int dim)
{
    struct softmax_attr a;
    return rg_check(x, "softmax") && rg_wrap_dim("softmax", dim, x->ndim, &a.dim) ? RG_APPLY(softmax, &a, x) : NULL;
}
