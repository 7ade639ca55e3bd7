/*
 * triangle.c: tril and triu, which set the elements above or below a diagonal to 0. In the
 * formulas, g is the gradient of the result, and gx the gradient of x.
 */
#include "autograd/checks.h"

/* ---- tril is x on and below a diagonal, and 0 above it. triu is x on and above a diagonal, and 0
 *      below it. gx is g with zeros at the same elements ------------------------ */

struct tril_attr {
    int64_t diagonal;
};

static bool tril_shape(rg_call *c) {
    return rgi_want_dims(NULL, "input", c->in[0], 2, RG_MAX_DIMS) && rgi_shape_same(c);
}

static bool tril_run(rg_call *c, bool lower) {
    rgi_copy_elements(c->out[0], c->in[0]);
    k_clear_triangle(c->out[0], RG_ATTR(c, tril)->diagonal, lower);
    return true;
}

static bool tril_forward(rg_call *c) { return tril_run(c, true); }
static bool triu_forward(rg_call *c) { return tril_run(c, false); }

static rg_tensor *tril_rule(const rg_step *s, rg_tensor *g) {
    return rgi_apply(s->op, s->attr, sizeof(struct tril_attr), 1, &g);
}

#define TRIL_SAMPLES                                                      \
    RG_SAMPLES({ "(3,3)", RG_A(tril, 0) }, { "(2,3,4)", RG_A(tril, 1) },  \
               { "(2,4,3)", RG_A(tril, -2) }, { "(2,2)", RG_A(tril, 7) }, \
               { "(0,3)", RG_A(tril, 0) })
RG_OP(tril, .moves = true, .doc = "x on and below a diagonal, else 0", .node = "TrilBackward0",
      RG_WITH(tril), .n_in = 1, .shape = tril_shape, .forward = tril_forward,
      .grad = { RG_RULE(0, tril_rule) }, TRIL_SAMPLES);
RG_OP(triu, .moves = true, .doc = "x on and above a diagonal, else 0", .node = "TriuBackward0",
      RG_WITH(tril), .n_in = 1, .shape = tril_shape, .forward = triu_forward,
      .grad = { RG_RULE(0, tril_rule) }, TRIL_SAMPLES);

rg_tensor *(rg_tril)(rg_tensor *x, int64_t diagonal) {
    return RG_APPLY(tril, RG_A(tril, diagonal), x);
}

rg_tensor *(rg_triu)(rg_tensor *x, int64_t diagonal) {
    return RG_APPLY(triu, RG_A(tril, diagonal), x);
}
