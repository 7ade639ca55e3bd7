/*
 * softmax.c: softmax along a dim, softmin (softmax of -x), and log_softmax. In the formulas, g is
 * the gradient of the result, and gx the gradient of x.
 */
#include "autograd/checks.h"

/* ---- functions for all softmax ops --------------------------------------------- */

struct softmax_attr {
    int dim;
};

/* Gives the output x's shape. Fails if x has elements and they aren't floating point. */
static bool softmax_shape_as(rg_call *c, const char *name) {
    const rg_tensor *x = c->in[0];
    return rgi_want_dtype(name, !x->numel || rgi_is_float(x->dtype), x->dtype) && rgi_shape_same(c);
}

static bool softmax_make(rg_call *c, k_softmax_kind kind) {
    if (c->out[0]->numel == 0)
        return true;
    rg_tensor *x = rgi_contiguous_copy(c->in[0], (rg_dtype)c->out[0]->dtype);
    if (!x)
        return false;
    bool made = k_softmax(c->out[0], x, RG_ATTR(c, softmax)->dim, kind);
    rgi_release(x);
    return made;
}

/* Computes the gradient with the kernel, which needs a contiguous g. A g that isn't contiguous,
 * such as the expanded view that is the gradient of a sum, is copied first. */
static bool softmax_make_gradient(const rg_step *s, rg_tensor *gx[], k_softmax_kind kind) {
    rg_tensor *y = rgi_saved_output(s);
    if (!y)
        return false;
    rg_tensor *g = rgi_contiguous_copy(s->g[0], (rg_dtype)y->dtype);
    if (!g)
        return false;
    gx[0] = rgi_new_like(y, y->dtype);
    bool made = gx[0] && k_softmax_backward(gx[0], g, y, RG_ATTR(s, softmax)->dim, kind);
    rgi_release(g);
    return made;
}

static rg_tensor *softmax_apply(const char *name, const rg_op *op, rg_tensor *x, int dim) {
    struct softmax_attr a;
    if (!rgi_check(x, name) || !rgi_wrap_dim(name, dim, x->ndim, &a.dim))
        return NULL;
    return rgi_apply(op, &a, sizeof a, 1, &x);
}

#define SOFTMAX_SAMPLES                                                        \
    RG_SAMPLES({ "(2,3)", RG_A(softmax, 1) }, { "(4,3,2)", RG_A(softmax, 1) }, \
               { "(2,3,40)", RG_A(softmax, 2) }, { "()", RG_A(softmax, 0) },   \
               { "(0,3)", RG_A(softmax, 0) }, { "(3,0)", RG_A(softmax, 0) })

/* ---- softmax: y = e^x / sum(e^x); gx = y (g - sum(g y)) ------------------------ */

static bool softmax_shape(rg_call *c) { return softmax_shape_as(c, "softmax"); }
static bool softmax_forward(rg_call *c) { return softmax_make(c, K_SOFTMAX_PLAIN); }

static rg_tensor *softmax_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return rg_mul(y, rg_sub(g, rg_sum_dim(rg_mul(g, y), RG_ATTR(s, softmax)->dim, true)));
}

static bool softmax_fused(const rg_step *s, rg_tensor *gx[]) {
    return softmax_make_gradient(s, gx, K_SOFTMAX_PLAIN);
}

RG_OP(softmax, .doc = "e^x / sum(e^x) along dim", .node = "SoftmaxBackward0", RG_WITH(softmax),
      .n_in = 1, RG_MADE(softmax), .fused = softmax_fused,
      .grad = { RG_RULE(RG_OUTPUT, softmax_rule) }, SOFTMAX_SAMPLES);

rg_tensor *(rg_softmax)(rg_tensor *x, int dim) {
    return softmax_apply("softmax", &rg_op_softmax, x, dim);
}

/* ---- softmin: softmax(-x) ------------------------------------------------------ */

rg_tensor *(rg_softmin)(rg_tensor *x, int dim) {
    return RG_COMPOSITE("softmin", rg_softmax(rg_neg(x), dim));
}

/* ---- safe_softmax: softmax, but a row in which all elements are -inf becomes 0 ---- */

static bool safe_softmax_forward(rg_call *c) { return softmax_make(c, K_SAFE_SOFTMAX); }

static bool safe_softmax_fused(const rg_step *s, rg_tensor *gx[]) {
    return softmax_make_gradient(s, gx, K_SAFE_SOFTMAX);
}

RG_OP(safe_softmax, .doc = "softmax, with 0 for rows of -inf", .node = "SafeSoftmaxBackward0",
      RG_WITH(softmax), .n_in = 1, .shape = softmax_shape, .forward = safe_softmax_forward,
      .fused = safe_softmax_fused, .grad = { RG_RULE(RG_OUTPUT, softmax_rule) }, SOFTMAX_SAMPLES);

rg_tensor *rgi_safe_softmax(rg_tensor *x, int dim) {
    return softmax_apply("softmax", &rg_op_safe_softmax, x, dim);
}

/* ---- log_softmax: y = x - ln sum(e^x); gx = g - e^y sum(g) --------------------- */

static bool log_softmax_shape(rg_call *c) { return softmax_shape_as(c, "log_softmax"); }
static bool log_softmax_forward(rg_call *c) { return softmax_make(c, K_LOG_SOFTMAX); }

static rg_tensor *log_softmax_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *p = rg_exp(rgi_saved_output(s));
    return rg_sub(g, rg_mul(p, rg_sum_dim(g, RG_ATTR(s, softmax)->dim, true)));
}

static bool log_softmax_fused(const rg_step *s, rg_tensor *gx[]) {
    return softmax_make_gradient(s, gx, K_LOG_SOFTMAX);
}

RG_OP(log_softmax, .doc = "x - ln sum(e^x) along dim", .node = "LogSoftmaxBackward0",
      RG_WITH(softmax), .n_in = 1, RG_MADE(log_softmax), .fused = log_softmax_fused,
      .grad = { RG_RULE(RG_OUTPUT, log_softmax_rule) }, SOFTMAX_SAMPLES);

rg_tensor *(rg_log_softmax)(rg_tensor *x, int dim) {
    return softmax_apply("log_softmax", &rg_op_log_softmax, x, dim);
}
