/*
 * softmax.c: softmax and its logarithm.
 */
#include "autograd/op.h"

struct softmax_attr {
    int dim;
};

static k_softmax_kind softmax_kind(const rg_op *op) {
    return RG_IS(op, softmax)       ? K_SOFTMAX_PLAIN
           : RG_IS(op, log_softmax) ? K_LOG_SOFTMAX
                                    : K_SAFE_SOFTMAX;
}

static bool softmax_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const char *name = RG_IS(c->op, log_softmax) ? "log_softmax" : "softmax";
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rgi_is_float(x->dtype), name,
                  "\"%s_%skernel_impl\" not implemented for "
                  "'%s'",
                  name, RG_ATTR(c, softmax)->dim >= x->ndim - 1 ? "lastdim_" : "",
                  rgi_scalar_name(x->dtype));
    return rgi_shape_same(c);
}

static bool softmax_forward(rg_call *c) {
    rg_tensor *x = rgi_contiguous_copy(c->in[0], (rg_dtype)c->out[0]->dtype);
    const bool made =
        x && k_softmax(c->out[0], x, RG_ATTR(c, softmax)->dim, softmax_kind(c->op));
    rgi_release(x);
    return made;
}

static bool softmax_fused(const rg_step *s, rg_tensor *gx[]) {
    /* a sum's is expanded */
    rg_tensor *y = rgi_saved_output(s),
              *g = y ? rgi_contiguous_copy(s->g[0], (rg_dtype)y->dtype) : NULL;
    if (g)
        gx[0] = rgi_new_like(y, y->dtype);
    const bool made = gx[0]
                      && k_softmax_backward(gx[0], g, y, RG_ATTR(s, softmax)->dim,
                                            softmax_kind(s->op));
    rgi_release(g);
    return made;
}

#define SOFTMAX_ROW(ident, rule_)                                                                \
    RG_WITH(softmax), .n_in = 1, RG_MADE(softmax), .grad = { RG_RULE(RG_OUTPUT, rule_) },        \
                      .fused = softmax_fused,                                                    \
                      RG_SAMPLES({ "(2,3)", RG_A(softmax, 1) }, { "(4,3,2)", RG_A(softmax, 1) }, \
                                 { "(2,3,40)", RG_A(softmax, 2) }, { "()", RG_A(softmax, 0) },   \
                                 { "(0,3)", RG_A(softmax, 0) }, { "(3,0)", RG_A(softmax, 0) })

/* ---- softmax: y = e^x / sum(e^x); gx = y (g - sum(g y)) -------------------------- */
static rg_tensor *softmax_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_mul(y, rg_sub(g, rg_sum_dim(rg_mul(g, y), RG_ATTR(s, softmax)->dim, true)));
}
RG_OP(softmax, .doc = "e^x / sum(e^x) along dim", .node = "SoftmaxBackward0",
      SOFTMAX_ROW(softmax, softmax_rule));

/* The same, with 0 for a row that is -inf throughout, which attention masks out. */
RG_OP(safe_softmax, .doc = "softmax, with 0 for rows of -inf", .node = "SafeSoftmaxBackward0",
      SOFTMAX_ROW(safe_softmax, softmax_rule));

static rg_tensor *softmax_apply(const char *name, const rg_op *op, rg_tensor *x, int dim) {
    struct softmax_attr a;
    return rgi_check(x, name) && rgi_wrap_dim(name, dim, x->ndim, &a.dim)
               ? rgi_apply(op, &a, sizeof a, 1, &x)
               : NULL;
}

rg_tensor *rg_softmax(rg_tensor *x, int dim) {
    return softmax_apply("softmax", &rg_op_softmax, x, dim);
}
rg_tensor *rgi_safe_softmax(rg_tensor *x, int dim) {
    return softmax_apply("softmax", &rg_op_safe_softmax, x, dim);
}

/* ---- log_softmax: y = x - ln sum(e^x); gx = g - e^y sum(g) ----------------------- */
static rg_tensor *log_softmax_rule(const rg_step *s, rg_tensor *g) {
    return rg_sub(
        g, rg_mul(rg_exp(rgi_saved_output(s)), rg_sum_dim(g, RG_ATTR(s, softmax)->dim, true)));
}
RG_OP(log_softmax, .doc = "x - ln sum(e^x) along dim", .node = "LogSoftmaxBackward0",
      SOFTMAX_ROW(log_softmax, log_softmax_rule));
rg_tensor *rg_log_softmax(rg_tensor *x, int dim) {
    return softmax_apply("log_softmax", &rg_op_log_softmax, x, dim);
}
