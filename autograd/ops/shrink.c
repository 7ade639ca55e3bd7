/*
 * shrink.c: the activation functions hardshrink, softshrink, tanhshrink and threshold. (Other
 * activations are in activation.c; glu is in glu.c.) In the formulas, g is the gradient of the
 * result, and gx the gradient of x.
 */
#include "elementwise.h"
#include "tensor/text/digits.h"

#include <float.h>

/* In the formulas of this file, k0 is the bound (lambd or threshold), and k1 is the argument
 * `value` of threshold. */

/* ---- hardshrink: -k0 <= x <= k0 ? 0 : x; gx = -k0 <= x <= k0 ? 0 : g ----------- */

static rg_tensor *shrink_rule(const rg_step *s, rg_tensor *g) {
    double bound = NUMBERS_OF(s)[0];
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *inside = rg_logical_and(rg_ge(x, -bound), rg_le(x, bound));
    return rgi_flat_in(s, x, rg_masked_fill(g, inside, 0));
}

RG_OP(hardshrink, .doc = "-k0 <= x <= k0 ? 0 : x", RG_NAMED(numbers), .n_in = 1, RG_ELEMENTWISE,
      .shape = rgi_shape_of_floats, .forward = rgi_elementwise_forward, .kernel = &k_hardshrink,
      .slope = &k_shrink_grad, .fused = rgi_elementwise_slope,
      .grad = { RG_RULE(RG_IN(0), shrink_rule) },
      SAMPLES_1("z", RG_A(numbers, "HardshrinkBackward0", { 0.5 })));

rg_tensor *(rg_hardshrink)(rg_tensor *x, double lambd) {
    return RG_APPLY(hardshrink, RG_A(numbers, "HardshrinkBackward0", { lambd }), x);
}

/* ---- softshrink: x > k0 ? x - k0 : x < -k0 ? x + k0 : 0 (but NaN for NaN); gx = -k0 <= x <= k0 ?
 *      0 : g ------------------------------------------------------------------- */

RG_OP(softshrink, .doc = "x > k0 ? x - k0 : x < -k0 ? x + k0 : 0", RG_NAMED(numbers), .n_in = 1,
      RG_ELEMENTWISE, .shape = rgi_shape_of_floats, .forward = rgi_elementwise_forward,
      .kernel = &k_softshrink, .slope = &k_shrink_grad, .fused = rgi_elementwise_slope,
      .grad = { RG_RULE(RG_IN(0), shrink_rule) },
      SAMPLES_1("z", RG_A(numbers, "SoftshrinkBackward0", { 0.5 })));

rg_tensor *(rg_softshrink)(rg_tensor *x, double lambd) {
    if (!rgi_check(x, "softshrink"))
        return NULL;
    const double most = rgi_limit(x->dtype);
    RG_FAIL_IF(rgi_is_float(x->dtype) && !(lambd >= 0 && lambd <= most), "softshrink",
               "lambda must be in range [0, %s] for input dtype %s, but found %s", rgi_number(most),
               rgi_scalar_name(x->dtype), rgi_number(lambd));
    return RG_APPLY(softshrink, RG_A(numbers, "SoftshrinkBackward0", { lambd }), x);
}

/* ---- tanhshrink: x - tanh(x) --------------------------------------------------- */

rg_tensor *rg_tanhshrink(rg_tensor *x) { return RG_COMPOSITE("tanhshrink", rg_sub(x, rg_tanh(x))); }

/* ---- threshold: x <= k0 ? k1 : x; gx = x <= k0 ? 0 : g ------------------------- */

static bool threshold_shape(rg_call *c) {
    const rg_dtype dtype = c->in[0]->dtype;
    const bool wide = rgi_is_float(dtype) && !rgi_is_half(dtype);
    for (int i = 0; i < 2 && !wide; i++) {
        const double number = NUMBERS_OF(c)[i];
        /* Elements of 16 bits are compared with the first number in float32, and the second number
         * becomes an element. */
        const rg_dtype held = i ? dtype : rgi_computed_in(dtype);
        const bool fits = fabs(number) <= rgi_limit(held) && !rgi_is_byte(held);
        if (!fits && !rgi_number_fits("threshold", number, held))
            return false;
    }
    return rgi_shape_of_numbers(c);
}

static rg_tensor *threshold_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rgi_flat_in(s, x, rg_masked_fill(g, rg_le(x, NUMBERS_OF(s)[0]), 0));
}

RG_OP(threshold, .doc = "x <= k0 ? k1 : x", RG_NAMED(numbers), .n_in = 1, RG_ELEMENTWISE,
      .shape = threshold_shape, .forward = rgi_elementwise_forward, .kernel = &k_threshold,
      .slope = &k_threshold_grad, .fused = rgi_elementwise_slope_by_value,
      .grad = { RG_RULE(RG_IN(0), threshold_rule) },
      SAMPLES_1("z", RG_A(numbers, "ThresholdBackward0", { 0.5, -2 })));

rg_tensor *(rg_threshold)(rg_tensor *x, double threshold, double value) {
    return RG_APPLY(threshold, RG_A(numbers, "ThresholdBackward0", { threshold, value }), x);
}

rg_tensor *(rg_threshold_)(rg_tensor *x, double threshold, double value) {
    return RG_APPLY_(threshold, RG_A(numbers, "ThresholdBackward1", { threshold, value }), x);
}
