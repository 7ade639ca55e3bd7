/*
 * bernoulli.c: ones and zeros that are drawn with given probabilities. Other functions that draw
 * random numbers are in tensor/random/, since they have no derivatives.
 */
#include "autograd/checks.h"
#include "tensor/random/random.h"

/* ---- bernoulli: the numbers drawn with the probabilities p. They don't follow small changes of
 *      p, so gp = 0 -------------------------------------------------------------- */

static bool bernoulli_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[1]);
    return true;
}

static rg_tensor *bernoulli_rule(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_zeros_like(g);
}

RG_OP(bernoulli, .doc = "ones and zeros, drawn with the probabilities p",
      .node = "BernoulliBackward0", .n_in = 2, .shape = rgi_shape_kept,
      .forward = bernoulli_forward, .grad = { RG_RULE(0, bernoulli_rule), RG_NO_RULE },
      RG_SAMPLES({ "u(2,3) b(2,3)", NULL }, { "u() b()", NULL }, { "u(0,3) b(0,3)", NULL }));

rg_tensor *rg_bernoulli_with(rg_tensor *p, rg_generator *g) {
    rg_tensor *drawn = rgi_draw_bernoulli(p, g);
    const bool recorded = drawn && !rgi_grad_off && rgi_is_in_graph(p);
    return recorded ? RG_APPLY(bernoulli, RG_NO_ATTR, p, drawn) : drawn;
}
