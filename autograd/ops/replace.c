/*
 * replace.c: functions that write other values over a tensor: copy_, fill_ and zero_. Other
 * in-place functions use rgi_replace_ to write their results. In the formulas, g is the gradient of
 * the result, and gx and gsource are the gradients of x and the source.
 */
#include "elementwise.h"

#include "autograd/checks.h"
#include "tensor/observer.h"

/* ---- replace: the source, in the shape and dtype of x; gx = 0, gsource = g ----- */

struct replace_attr {
    const char *node;
};

static bool replace_shape(rg_call *c) {
    return rgi_shape_broadcast(c) && rgi_want_no_wider(NULL, c->in[0], c->out[0]);
}

static bool replace_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[1]);
    return true;
}

static rg_tensor *replace_rule_x(const rg_step *s, rg_tensor *g) {
    (void)s;
    return rg_zeros_like(g);
}

/* A gradient of 16 bits is converted before the engine sums it over broadcast dims. */
static rg_tensor *replace_rule_source(const rg_step *s, rg_tensor *g) {
    return rg_to(g, rgi_input_dtype(s, 1));
}

#define REPLACE RG_A(replace, "CopyBackwards")
RG_OP(replace, .moves = true, .doc = "source in the shape and dtype of x", .n_in = 2,
      RG_NAMED(replace), .inplace = true, RG_MADE(replace),
      .grad = { RG_RULE(0, replace_rule_x), RG_RULE(0, replace_rule_source) },
      RG_SAMPLES({ "(2,3) (2,3)", REPLACE }, { "(2,4,3) (4,1)", REPLACE }, { "(3) ()", REPLACE },
                 { "() ()", REPLACE }, { "(0,3) (3)", REPLACE }));

rg_tensor *rgi_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value) {
    struct replace_attr a = { node };
    RG_AS(name);
    return rgi_apply_inplace(name, &rg_op_replace, &a, sizeof a, 2, (rg_tensor *[]){ x, value });
}

rg_tensor *(rg_copy_)(rg_tensor *x, rg_tensor *source) {
    if (!rgi_check(x, "copy_") || !rgi_check(source, "copy_"))
        return NULL;
    if (elementwise_is_number(source) && !rgi_element_fits("copy_", source, x->dtype))
        return NULL;
    return rgi_replace_("copy_", "CopyBackwards", x, source);
}

/* Writes one value over all of x. Applies the op replace only if the write must be recorded in the
 * graph. If the op isn't applied, x may be a view in which several elements are at the same
 * address. Returns NULL on failure. */
static rg_tensor *fill_throughout(const char *name, const char *node, rg_tensor *x,
                                  rg_tensor *value) {
    if (!rgi_grad_off && (rgi_history_of(x) || rgi_is_in_graph(value)))
        return rgi_replace_(name, node, x, value);
    if (!rgi_may_touch(x, name))
        return NULL;
    rgi_copy_elements(x, value);
    rgi_count_write(x, name);
    return rgi_observe_copy(x, value, name) ? x : NULL;
}

rg_tensor *(rg_fill_)(rg_tensor *x, rg_tensor *value) {
    if (!rgi_check(x, "fill_") || !rgi_check(value, "fill_"))
        return NULL;
    if (!rgi_want_dims("fill_", "value", value, 0, 0))
        return NULL;
    bool number = elementwise_is_number(value);
    if (number && !rgi_element_fits("fill_", value, x->dtype))
        return NULL;
    return fill_throughout("fill_", number ? "FillBackward2" : "FillBackward3", x, value);
}

rg_tensor *rg_zero_(rg_tensor *x) {
    RG_SCOPE();
    rg_tensor *zero = rg_wrap_int(0);
    if (!rgi_check(x, "zero_") || !zero)
        return NULL;
    return fill_throughout("zero_", "ZeroBackward0", x, zero);
}
