/*
 * shrink.c: functions that networks put between their layers and that replace small elements by
 * 0, or by another number. (Activations of other shapes are in activation.c, glu is in glu.c.)
 */
#include "elementwise.h"

#include <float.h>

/* A kernel takes three numbers. k0 is the bound, and k1 is threshold's value. */
struct shrink_attr {
    const char *node;
    double k[3];
};

static const double *shrink_numbers(const void *attr) {
    return ((const struct shrink_attr *)attr)->k;
}

/* ---- hardshrink: -k0 <= x <= k0 ? 0 : x; gx = g where x isn't between, else 0 ---- */

static bool hardshrink_shape(rg_call *c) { return elementwise_of_floats(c, "hardshrink_cpu"); }

static bool hardshrink_forward(rg_call *c) {
    return k_run_with(&k_hardshrink, c->out[0], c->in, shrink_numbers(c->attr));
}

static rg_tensor *shrink_rule(const rg_step *s, rg_tensor *g) {
    double bound = shrink_numbers(s->attr)[0];
    rg_tensor *x = rgi_saved(s, 0);
    return rg_masked_fill(g, rg_logical_and(rg_ge(x, -bound), rg_le(x, bound)), 0);
}

static bool shrink_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused(s, gin, &k_shrink_grad, rgi_saved(s, 0), shrink_numbers(s->attr));
}

RG_OP(hardshrink, .doc = "-k0 <= x <= k0 ? 0 : x", RG_NAMED(shrink), .n_in = 1, RG_ELEMENTWISE,
      .shape = hardshrink_shape, .forward = hardshrink_forward, .fused = shrink_fused,
      .grad = { RG_RULE(RG_IN(0), shrink_rule) },
      SAMPLES_1("z", RG_A(shrink, "HardshrinkBackward0", { 0.5 })));

rg_tensor *rg_hardshrink(rg_tensor *x, double lambd) {
    return RG_APPLY(hardshrink, RG_A(shrink, "HardshrinkBackward0", { lambd }), x);
}

/* ---- softshrink: x > k0 ? x - k0 : x < -k0 ? x + k0 : 0; gx as hardshrink's ------ */

static bool softshrink_shape(rg_call *c) { return elementwise_of_floats(c, "softshrink_check"); }

static bool softshrink_forward(rg_call *c) {
    return k_run_with(&k_softshrink, c->out[0], c->in, shrink_numbers(c->attr));
}

RG_OP(softshrink, .doc = "x > k0 ? x - k0 : x < -k0 ? x + k0 : 0", RG_NAMED(shrink), .n_in = 1,
      RG_ELEMENTWISE, .shape = softshrink_shape, .forward = softshrink_forward,
      .fused = shrink_fused, .grad = { RG_RULE(RG_IN(0), shrink_rule) },
      SAMPLES_1("z", RG_A(shrink, "SoftshrinkBackward0", { 0.5 })));

rg_tensor *rg_softshrink(rg_tensor *x, double lambd) {
    if (!rgi_check(x, "softshrink"))
        return NULL;
    double most = x->dtype == RG_FLOAT32 ? FLT_MAX : DBL_MAX;
    RG_FAIL_IF(rgi_is_float(x->dtype) && !(lambd >= 0 && lambd <= most), "softshrink",
               "lambda must be in range [0, %g] for input dtype %s, but found %g", most,
               rgi_scalar_name(x->dtype), lambd);
    return RG_APPLY(softshrink, RG_A(shrink, "SoftshrinkBackward0", { lambd }), x);
}

/* ---- tanhshrink: x - tanh(x) --------------------------------------------------- */

rg_tensor *rg_tanhshrink(rg_tensor *x) { return RG_COMPOSITE("tanhshrink", rg_sub(x, rg_tanh(x))); }

/* ---- threshold: x <= k0 ? k1 : x; gx = x <= k0 ? 0 : g ------------------------- */

static bool threshold_shape(rg_call *c) {
    const double *k = shrink_numbers(c->attr);
    bool fits = fabs(k[0]) <= 0x1p63 && fabs(k[1]) <= 0x1p63;
    RG_FAIL_IF(c->in[0]->dtype == RG_INT64 && !fits, "threshold",
               "value cannot be converted to type int64_t without overflow");
    return elementwise_of_numbers(c, "threshold_cpu");
}

static bool threshold_forward(rg_call *c) {
    return k_run_with(&k_threshold, c->out[0], c->in, shrink_numbers(c->attr));
}

static rg_tensor *threshold_rule(const rg_step *s, rg_tensor *g) {
    return rg_masked_fill(g, rg_le(rgi_saved(s, 0), shrink_numbers(s->attr)[0]), 0);
}

static bool threshold_fused(const rg_step *s, rg_tensor *gin[]) {
    return elementwise_fused_by_value(s, gin, &k_threshold_grad, rgi_saved(s, 0),
                                      shrink_numbers(s->attr));
}

RG_OP(threshold, .doc = "x <= k0 ? k1 : x", RG_NAMED(shrink), .n_in = 1, RG_ELEMENTWISE,
      .shape = threshold_shape, .forward = threshold_forward, .fused = threshold_fused,
      .grad = { RG_RULE(RG_IN(0), threshold_rule) },
      SAMPLES_1("z", RG_A(shrink, "ThresholdBackward0", { 0.5, -2 })));

rg_tensor *rg_threshold(rg_tensor *x, double threshold, double value) {
    return RG_APPLY(threshold, RG_A(shrink, "ThresholdBackward0", { threshold, value }), x);
}

rg_tensor *rg_threshold_(rg_tensor *x, double threshold, double value) {
    return RG_APPLY_(threshold, RG_A(shrink, "ThresholdBackward1", { threshold, value }), x);
}
