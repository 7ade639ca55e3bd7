/*
 * maximum.c: the larger and the smaller of two tensors that broadcast, element by element. (Those
 * of one tensor's elements are in extreme.c.)
 */
#include "elementwise.h"

/* ---- maximum: a > b ? a : b, NaN if either is; half of g to each of two equals ---- */

/* Returns g where this input was chosen alone, g / 2 where both are equal, else 0. */
static rg_tensor *chosen_share(rg_tensor *g, rg_tensor *equal, rg_tensor *not_chosen) {
    return rg_masked_fill(rg_where(equal, rg_div(g, 2), g), not_chosen, 0);
}

static rg_tensor *maximum_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return chosen_share(g, rg_eq(a, b), rg_gt(b, a));
}

static rg_tensor *maximum_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return chosen_share(g, rg_eq(a, b), rg_gt(a, b));
}

RG_OP(maximum, .doc = "a > b ? a : b; NaN if either is", .node = "MaximumBackward0", .n_in = 2,
      .typing = RG_PROMOTED, RG_ELEMENTWISE, .shape = rgi_shape_broadcast, .kernel = &k_maximum,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), maximum_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1), maximum_rule_b) },
      SAMPLES_2("", "", NULL));

rg_tensor *(rg_maximum)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(maximum, RG_NO_ATTR, a, b); }

/* ---- minimum: a < b ? a : b, NaN if either is; half of g to each of two equals ---- */

static rg_tensor *minimum_rule_a(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return chosen_share(g, rg_eq(a, b), rg_lt(b, a));
}

static rg_tensor *minimum_rule_b(const rg_step *s, rg_tensor *g) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return chosen_share(g, rg_eq(a, b), rg_lt(a, b));
}

RG_OP(minimum, .doc = "a < b ? a : b; NaN if either is", .node = "MinimumBackward0", .n_in = 2,
      .typing = RG_PROMOTED, RG_ELEMENTWISE, .shape = rgi_shape_broadcast, .kernel = &k_minimum,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), minimum_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1), minimum_rule_b) },
      SAMPLES_2("", "", NULL));

rg_tensor *(rg_minimum)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(minimum, RG_NO_ATTR, a, b); }

/* ---- fmax: a > b ? a : b, the other where one is NaN; g to a where they are equal ---- */

static rg_tensor *fmax_chooses_a(const rg_step *s) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return rg_logical_or(rg_ge(a, b), rg_isnan(b));
}

static rg_tensor *fmax_rule_a(const rg_step *s, rg_tensor *g) {
    return rg_where(fmax_chooses_a(s), g, 0);
}

static rg_tensor *fmax_rule_b(const rg_step *s, rg_tensor *g) {
    return rg_where(fmax_chooses_a(s), 0, g);
}

RG_OP(fmax, .doc = "a > b ? a : b; the other where one is NaN", .node = "FmaxBackward0", .n_in = 2,
      .typing = RG_PROMOTED, RG_ELEMENTWISE, .shape = rgi_shape_broadcast, .kernel = &k_fmax,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), fmax_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1), fmax_rule_b) },
      SAMPLES_2("", "", NULL));

rg_tensor *(rg_fmax)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(fmax, RG_NO_ATTR, a, b); }

/* ---- fmin: a < b ? a : b, the other where one is NaN; g to a where they are equal ---- */

static rg_tensor *fmin_chooses_a(const rg_step *s) {
    rg_tensor *a = rgi_saved(s, 0);
    rg_tensor *b = rgi_saved(s, 1);
    return rg_logical_or(rg_le(a, b), rg_isnan(b));
}

static rg_tensor *fmin_rule_a(const rg_step *s, rg_tensor *g) {
    return rg_where(fmin_chooses_a(s), g, 0);
}

static rg_tensor *fmin_rule_b(const rg_step *s, rg_tensor *g) {
    return rg_where(fmin_chooses_a(s), 0, g);
}

RG_OP(fmin, .doc = "a < b ? a : b; the other where one is NaN", .node = "FminBackward0", .n_in = 2,
      .typing = RG_PROMOTED, RG_ELEMENTWISE, .shape = rgi_shape_broadcast, .kernel = &k_fmin,
      .grad = { RG_RULE(RG_IN(0) | RG_IN(1), fmin_rule_a),
                RG_RULE(RG_IN(0) | RG_IN(1), fmin_rule_b) },
      SAMPLES_2("", "", NULL));

rg_tensor *(rg_fmin)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(fmin, RG_NO_ATTR, a, b); }
