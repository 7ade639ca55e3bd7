/*
 * glu.c: glu, which multiplies the first half of a tensor along a dim by the sigmoid of the second
 * half. In the formulas, g is the gradient of y, and ga and gb are the gradients of the two halves.
 */
#include "autograd/checks.h"

/* ---- glu: y = a s with s = sigmoid(b), where a is the first half of x along dim, and b the
 *      second half; ga = g s, gb = g a s (1 - s) -------------------------------- */

struct glu_attr {
    int dim;
};

static rg_part glu_half(const rg_tensor *x, int dim, int which) {
    int64_t n = x->size[dim] / 2;
    return (rg_part){ RG_PART_RANGE(dim, which * n, n, 1) };
}

static bool glu_shape(rg_call *c) {
    if (!rgi_want_float("glu", c->in[0]))
        return false;
    rgi_shape_same(c);
    c->out[0]->size[RG_ATTR(c, glu)->dim] /= 2;
    if (c->in[0]->flags & RG_PLAIN)
        return true;
    const rg_part first = glu_half(c->in[0], RG_ATTR(c, glu)->dim, 0);
    RG_PART_HEADER(half, c->in[0], &first);
    rgi_lay_out_between(c->out[0], 2, (rg_tensor *[]){ &half, &half });
    return true;
}

static bool glu_forward(rg_call *c) {
    rg_tensor *x = c->in[0];
    int dim = RG_ATTR(c, glu)->dim;
    const rg_part first = glu_half(x, dim, 0);
    const rg_part second = glu_half(x, dim, 1);
    RG_PART_HEADER(a, x, &first);
    RG_PART_HEADER(b, x, &second);
    return k_run(k_glu, c->out[0], &a, &b);
}

static rg_tensor *glu_rule(const rg_step *s, rg_tensor *g) {
    int dim = RG_ATTR(s, glu)->dim;
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return NULL;
    rg_tensor *a = rg_narrow(x, dim, 0, x->size[dim] / 2);
    rg_tensor *gate = rg_sigmoid(rg_narrow(x, dim, x->size[dim] / 2, x->size[dim] / 2));
    rg_tensor *ga = rg_mul(g, gate);
    return rg_cat(RG_LIST(ga, rg_mul(ga, rg_mul(a, rg_sub(1, gate)))), dim);
}

static bool glu_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return false;
    gin[0] = rgi_new_like(x, (rg_dtype)x->dtype);
    if (!gin[0])
        return false;
    int dim = RG_ATTR(s, glu)->dim;
    const rg_part first = glu_half(x, dim, 0);
    const rg_part second = glu_half(x, dim, 1);
    RG_PART_HEADER(a, x, &first);
    RG_PART_HEADER(b, x, &second);
    RG_PART_HEADER(ga, gin[0], &first);
    RG_PART_HEADER(gb, gin[0], &second);
    return k_run(k_glu, &ga, s->g[0], &b) && k_run(k_glu_grad, &gb, s->g[0], &a, &b);
}

RG_OP(glu, .doc = "the first half along dim times sigmoid(the second)", .node = "GluBackward0",
      .n_in = 1, RG_WITH(glu), RG_MADE(glu), .fused = glu_fused,
      .grad = { RG_RULE(RG_IN(0), glu_rule) },
      RG_SAMPLES({ "(2,4)", RG_A(glu, 1) }, { "(4,3,2)", RG_A(glu, 0) },
                 { "(2,6,3)", RG_A(glu, 1) }, { "(6)", RG_A(glu, 0) }, { "(0,4)", RG_A(glu, 1) },
                 { "(3,0)", RG_A(glu, 1) }));

rg_tensor *(rg_glu)(rg_tensor *x, int dim) {
    struct glu_attr a;
    if (!rgi_check(x, "glu"))
        return NULL;
    RG_FAIL_IF(x->ndim == 0, "glu",
               "glu does not support scalars because halving size must be even");
    if (!rgi_wrap_dim("glu", dim, x->ndim, &a.dim))
        return NULL;
    RG_FAIL_IF(x->size[a.dim] % 2, "glu",
               "Halving dimension must be even, but dimension %d is size %lld", a.dim,
               (long long)x->size[a.dim]);
    return RG_APPLY(glu, &a, x);
}
