/*
 * extreme.c: the largest and the smallest of a tensor's elements, and their indices. (The larger
 * and the smaller of two tensors' elements are in binary.c.) In the headings, g is the gradient of
 * the result.
 */
#include "reduce.h"

#include "autograd/checks.h"

/* ---- functions for all maxima and minima --------------------------------------- */

/* Fails if there are no elements to choose from: x is empty, and one of the reduced dims has size
 * 0. `dims` has the reduced dims; an empty list means all dims. */
static bool extreme_check(const char *name, rg_tensor *x, const rg_dims *dims, rg_code code) {
    if (!rgi_check(x, name))
        return false;
    if (x->numel)
        return true;
    const char *hint = code == RG_RUNTIME_ERROR
                           ? " Specify the reduction dim with the 'dim' argument."
                           : "";
    RG_FAIL_AS_IF(code, dims->n == 0, NULL,
                  "%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name,
                  hint);
    for (int i = 0; i < RG_MIN(dims->n, RG_MAX_DIMS); i++) {
        int d;
        if (!rgi_wrap_dim(name, dims->v[i], x->ndim, &d) || !rgi_want_reducible(name, x, d))
            return false;
    }
    return true;
}

static bool largest_forward(rg_call *c) {
    return k_reduce(&k_greatest, c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

static bool smallest_forward(rg_call *c) {
    return k_reduce(&k_least, c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

/* The gradient of amax and amin: g / n where x equals y, and g * 0 elsewhere. n is the number of
 * elements that equal y, among the elements that were reduced to y. */
static rg_tensor *extreme_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *share = rgi_reduce_share(x, rgi_saved_output(s), s->attr, false);
    return share ? rg_mul(rgi_reduce_restore(g, x->ndim, s->attr), share) : NULL;
}

/* The gradient of max and min of all elements. It differs from extreme_rule in two ways. If y is
 * NaN, the NaNs of x count as equal to y. Where x doesn't equal y, the gradient is +0 whatever g
 * is, while g * 0 would be -0 or NaN for some g. */
static rg_tensor *extreme_of_all_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *share = rgi_reduce_share(x, rgi_saved_output(s), s->attr, true);
    if (!share)
        return NULL;
    rg_tensor *gx = rg_mul(rgi_reduce_restore(g, x->ndim, s->attr), share);
    return rg_masked_fill(gx, rg_eq(share, 0), 0);
}

#define EXTREME_SAMPLES                                               \
    RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED), REDUCED("d(2,3,4)", 2), \
               REDUCED("d(2,3,4)", 5, true), REDUCED("(0,3)", 2), REDUCED("()", RG_UNNAMED))

/* ---- amax: max(x) over dims; equal maxima get equal parts of g ----------------- */

RG_OP(amax, .doc = "max(x) over dims", .node = "AmaxBackward0", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = largest_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_rule) }, EXTREME_SAMPLES);

rg_tensor *rg_amax(rg_tensor *x) {
    bool ok = extreme_check("amax", x, &rg_no_dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_all(&rg_op_amax, x) : NULL;
}

rg_tensor *(rg_amax_dim)(rg_tensor *x, int dim, bool keepdim) {
    bool ok = extreme_check("amax", x, &RG_DIMS(dim), RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_dim(&rg_op_amax, x, dim, keepdim) : NULL;
}

rg_tensor *(rg_amax_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    bool ok = extreme_check("amax", x, &dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_dims(&rg_op_amax, x, dims, keepdim) : NULL;
}

/* ---- amin: min(x) over dims; equal minima get equal parts of g ----------------- */

RG_OP(amin, .doc = "min(x) over dims", .node = "AminBackward0", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = smallest_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_rule) }, EXTREME_SAMPLES);

rg_tensor *rg_amin(rg_tensor *x) {
    bool ok = extreme_check("amin", x, &rg_no_dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_all(&rg_op_amin, x) : NULL;
}

rg_tensor *(rg_amin_dim)(rg_tensor *x, int dim, bool keepdim) {
    bool ok = extreme_check("amin", x, &RG_DIMS(dim), RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_dim(&rg_op_amin, x, dim, keepdim) : NULL;
}

rg_tensor *(rg_amin_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    bool ok = extreme_check("amin", x, &dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_dims(&rg_op_amin, x, dims, keepdim) : NULL;
}

/* ---- max, min: of all elements; elements that equal the extreme (or are NaN, if the extreme
 *      is NaN) get equal parts of g --------------------------------------------- */

RG_OP(max, .doc = "max(x) of everything", .node = "MaxBackward1", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = largest_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_of_all_rule) }, EXTREME_SAMPLES);

RG_OP(min, .doc = "min(x) of everything", .node = "MinBackward1", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = smallest_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_of_all_rule) }, EXTREME_SAMPLES);

rg_tensor *rg_max(rg_tensor *x) {
    bool ok = extreme_check("max", x, &rg_no_dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_all(&rg_op_max, x) : NULL;
}

rg_tensor *rg_min(rg_tensor *x) {
    bool ok = extreme_check("min", x, &rg_no_dims, RG_RUNTIME_ERROR);
    return ok ? rgi_reduce_all(&rg_op_min, x) : NULL;
}

/* ---- max_dim, min_dim: the extremes along a dim, and their indices; g goes to the elements
 *      at these indices --------------------------------------------------------- */

/* Returns the one dim that is in the mask `dims` of the attributes. If an argmax or argmin is over
 * the flattened x, the mask has all dims, and the result is 0, the only dim of the flattened
 * tensor. */
static int extreme_dim(const void *attr) {
    return __builtin_ctz(((const struct reduce_attr *)attr)->dims);
}

static bool extreme_dim_shape(rg_call *c, const char *name) {
    rgi_reduce_sizes(c->out[1], c->in[0], c->attr);
    c->out[1]->dtype = RG_INT64;
    rgi_reduce_sizes(c->out[0], c->in[0], c->attr);
    return extreme_check(name, c->in[0], &RG_DIMS(extreme_dim(c->attr)), RG_INDEX_ERROR);
}

/* The gradient of max_dim and min_dim: g where the position along dim is the index, else 0. */
static rg_tensor *extreme_dim_rule(const rg_step *s, rg_tensor *g) {
    int ndim = rgi_input_ndim(s, 0);
    rg_tensor *index = rgi_reduce_restore(rgi_saved_output_at(s, 1), ndim, s->attr);
    rg_tensor *zeros = rgi_input_zeros(s);
    return rg_scatter(zeros, extreme_dim(s->attr), index, rgi_reduce_restore(g, ndim, s->attr));
}

static rg_values_indices extreme_dim_apply(const char *name, const rg_op *op, rg_tensor *x, int dim,
                                           bool keepdim) {
    RG_AS(name);
    bool ok = rgi_check(x, NULL) && rgi_wrap_dim(NULL, dim, x->ndim, &dim);
    return rgi_apply_two(ok, op, RG_REDUCE_ATTR(ok ? 1u << dim : 0, keepdim),
                         sizeof(struct reduce_attr), x);
}

static bool max_dim_shape(rg_call *c) { return extreme_dim_shape(c, "max"); }
static bool min_dim_shape(rg_call *c) { return extreme_dim_shape(c, "min"); }

static bool max_dim_forward(rg_call *c) {
    return k_max_dim(c->out[0], c->out[1], c->in[0], extreme_dim(c->attr), false);
}

static bool min_dim_forward(rg_call *c) {
    return k_max_dim(c->out[0], c->out[1], c->in[0], extreme_dim(c->attr), true);
}

#define EXTREME_DIM_SAMPLES                                                          \
    RG_SAMPLES(REDUCED("d(2,3)", 2), REDUCED("d(2,3,4)", 1, true), REDUCED("()", 1), \
               REDUCED("d(0,3)", 2))
RG_OP(max_dim, .doc = "max(x) along dim, and where", .node = "MaxBackward0", .n_in = 1, .n_out = 2,
      RG_WITH(reduce), RG_MADE(max_dim), .grad = { RG_RULE(RG_OUT(1), extreme_dim_rule) },
      EXTREME_DIM_SAMPLES);
RG_OP(min_dim, .doc = "min(x) along dim, and where", .node = "MinBackward0", .n_in = 1, .n_out = 2,
      RG_WITH(reduce), RG_MADE(min_dim), .grad = { RG_RULE(RG_OUT(1), extreme_dim_rule) },
      EXTREME_DIM_SAMPLES);

rg_values_indices(rg_max_dim)(rg_tensor *x, int dim, bool keepdim) {
    return extreme_dim_apply("max", &rg_op_max_dim, x, dim, keepdim);
}

rg_values_indices(rg_min_dim)(rg_tensor *x, int dim, bool keepdim) {
    return extreme_dim_apply("min", &rg_op_min_dim, x, dim, keepdim);
}

/* ---- argmax, argmin: the index of the extreme along a dim, or in the flattened tensor ---- */

static bool argmax_shape(rg_call *c) {
    rg_dims dim = RG_DIMS(extreme_dim(c->attr));
    dim.n = rgi_reduce_named(c->attr);
    rgi_reduce_shape_int64(c);
    return extreme_check(c->op->name, c->in[0], &dim, RG_INDEX_ERROR);
}

static bool argmax_run(rg_call *c, bool smallest) {
    rg_tensor *x = c->in[0];
    RG_SCOPE();
    rg_tensor *values = rgi_own(rgi_new_like(c->out[0], x->dtype));
    if (!values)
        return false;
    x = rgi_own(rgi_contiguous_copy(x, x->dtype));
    if (!x)
        return false;
    rg_tensor line = rgi_reduce_named(c->attr) ? rgi_header_of(x) : rgi_flat(x);
    return k_max_dim(values, c->out[0], &line, extreme_dim(c->attr), smallest);
}

static bool argmax_forward(rg_call *c) { return argmax_run(c, false); }
static bool argmin_forward(rg_call *c) { return argmax_run(c, true); }

#define ARGMAX_SAMPLES                                                                        \
    RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED), REDUCED("()", 1), REDUCED("d(2,3,4)", 2, true), \
               REDUCED("(0,3)", 2))
RG_OP(argmax, .doc = "where x is largest along dim", .n_in = 1, RG_WITH(reduce),
      .shape = argmax_shape, .forward = argmax_forward, ARGMAX_SAMPLES);
RG_OP(argmin, .doc = "where x is smallest along dim", .n_in = 1, RG_WITH(reduce),
      .shape = argmax_shape, .forward = argmin_forward, ARGMAX_SAMPLES);

static rg_tensor *argmax_over(const rg_op *op, rg_tensor *x, const rg_dims *dims, bool keepdim) {
    if (!rgi_check(x, op->name))
        return NULL;
    RG_FAIL_IF(rgi_is_bool(x->dtype), NULL, "%s(): does not support bool input", op->name);
    return rgi_reduce(op, x, dims, RG_UNNAMED, keepdim, 0);
}

rg_tensor *rg_argmax(rg_tensor *x) { return argmax_over(&rg_op_argmax, x, &rg_no_dims, false); }
rg_tensor *(rg_argmax_dim)(rg_tensor *x, int dim, bool keepdim) {
    return argmax_over(&rg_op_argmax, x, &RG_DIMS(dim), keepdim);
}

rg_tensor *rg_argmin(rg_tensor *x) { return argmax_over(&rg_op_argmin, x, &rg_no_dims, false); }
rg_tensor *(rg_argmin_dim)(rg_tensor *x, int dim, bool keepdim) {
    return argmax_over(&rg_op_argmin, x, &RG_DIMS(dim), keepdim);
}
