/*
 * binary.c: arithmetic on two tensors, element by element.
 */
#include "autograd/op.h"

#define BINARY_SAMPLES                                                                          \
    RG_SAMPLES({ "(2,3) (2,3)", NULL }, { "(2,1,3) (4,1)", NULL }, { "(3) (2,3)", NULL },        \
               { "() (2,2)", NULL }, { "() ()", NULL }, { "(0,3) (3)", NULL }, { "(2,0) (1,1)", NULL })

/* ---- add: a + b ------------------------------------------------------------------ */

static rg_tensor *add_rule(const rg_step *s, rg_tensor *g) { (void)s; return g; }

RG_OP(add, .doc = "a + b", .node = "AddBackward0", .n_in = 2, .typing = RG_PROMOTED, .inplace = true,
      .shape = rg_shape_broadcast, .kernel = k_add, .grad = { RG_RULE(0, add_rule), RG_RULE(0, add_rule) }, BINARY_SAMPLES);

rg_tensor *(rg_add)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(add, RG_NO_ATTR, a, b); }
rg_tensor *(rg_add_)(rg_tensor *a, rg_tensor *b) { return RG_APPLY_(add, RG_NO_ATTR, a, b); }

/* ---- sub: a - b; gb = -g ------------------------------------------------------------ */

static rg_tensor *sub_rule_b(const rg_step *s, rg_tensor *g) { (void)s; return rg_mul(g, -1); }

RG_OP(sub, .doc = "a - b", .node = "SubBackward0", .n_in = 2, .typing = RG_PROMOTED, .inplace = true,
      .shape = rg_shape_broadcast, .kernel = k_sub, .grad = { RG_RULE(0, add_rule), RG_RULE(0, sub_rule_b) }, BINARY_SAMPLES);

rg_tensor *(rg_sub)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(sub, RG_NO_ATTR, a, b); }
rg_tensor *(rg_sub_)(rg_tensor *a, rg_tensor *b) { return RG_APPLY_(sub, RG_NO_ATTR, a, b); }

/* ---- mul: a b; ga = g b, gb = g a --------------------------------------------------- */

static rg_tensor *mul_rule_a(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_saved(s, 1)); }
static rg_tensor *mul_rule_b(const rg_step *s, rg_tensor *g) { return rg_mul(g, rg_saved(s, 0)); }

RG_OP(mul, .doc = "a b", .node = "MulBackward0", .n_in = 2, .typing = RG_PROMOTED, .inplace = true,
      .shape = rg_shape_broadcast, .kernel = k_mul,
      .grad = { RG_RULE(RG_IN(1), mul_rule_a), RG_RULE(RG_IN(0), mul_rule_b) }, BINARY_SAMPLES);

rg_tensor *(rg_mul)(rg_tensor *a, rg_tensor *b) { return RG_APPLY(mul, RG_NO_ATTR, a, b); }
rg_tensor *(rg_mul_)(rg_tensor *a, rg_tensor *b) { return RG_APPLY_(mul, RG_NO_ATTR, a, b); }
