/*
 * extreme.c: the largest and the smallest, and where they are.
 */
#include "reduce.h"

/* An extreme of nothing has no value. dims: as they were given; none of them: all. */
static bool extreme_check(const char *name, rg_tensor *x, const rg_dims *dims, rg_code code) {
    if (!rgi_check(x, name))
        return false;
    if (x->numel)
        return true;
    RG_FAIL_AS_IF(code, dims->n == 0, NULL,
                  "%s(): Expected reduction dim to be specified for input.numel() "
                  "== 0.%s",
                  name,
                  code == RG_RUNTIME_ERROR ? " Specify the reduction dim with the 'dim' argument."
                                           : "");
    for (int i = 0, d; i < RG_MIN(dims->n, RG_MAX_DIMS); i++)
        RG_FAIL_INDEX_IF(rgi_wrap_dim(name, dims->v[i], x->ndim, &d) && x->size[d] == 0, NULL,
                         "%s(): Expected "
                         "reduction dim %lld to have non-zero size.",
                         name, (long long)dims->v[i]);
    return true;
}

/* ---- amax, amin over dims, max, min over everything: ties share g evenly --------- */

/* gx = g [x == y] / (how many of them). Where y is NaN: max and min share g among the
 * NaNs, amax and amin give NaN, as torch does; and where they take no part, 0 without g's sign. */
static rg_tensor *extreme_rule(const rg_step *s, rg_tensor *g) {
    bool nan_too = RG_IS(s->op, max) || RG_IS(s->op, min);
    rg_tensor *x = rgi_saved(s, 0),
              *share = rgi_reduce_share(x, rgi_saved_output(s), s->attr, nan_too);
    rg_tensor *gx = share ? rg_mul(rgi_reduce_restore(g, x->ndim, s->attr), share) : NULL;
    return gx && nan_too ? rg_masked_fill(gx, rg_eq(share, 0), 0) : gx;
}

#define EXTREME(f, which, Node, ...)                                                              \
    RG_REDUCTION(                                                                                 \
        f, (k_reduce(which, y, x, a->dims), true), .node = Node, .shape = rgi_reduce_shape,       \
        .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_rule) },                                  \
        RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED), REDUCED("d(2,3,4)", 2),                         \
                   REDUCED("d(2,3,4)", 5, true), REDUCED("(0,3)", 2), REDUCED("()", RG_UNNAMED)), \
        __VA_ARGS__)
EXTREME(amax, K_MAX, "AmaxBackward0", .doc = "max(x) over dims");
EXTREME(amin, K_MIN, "AminBackward0", .doc = "min(x) over dims");
EXTREME(max, K_MAX, "MaxBackward1", .doc = "max(x) of everything");
EXTREME(min, K_MIN, "MinBackward1", .doc = "min(x) of everything");

RG_REDUCE(amax, RG_EVERY_DIM, extreme_check("amax", x, dims, RG_RUNTIME_ERROR))
RG_REDUCE(amin, RG_EVERY_DIM, extreme_check("amin", x, dims, RG_RUNTIME_ERROR))

#define EXTREME_OF_ALL(f)                                          \
    rg_tensor *rg_##f(rg_tensor *x) {                              \
        return extreme_check(#f, x, &rg_no_dims, RG_RUNTIME_ERROR) \
                   ? RG_APPLY(f, RG_REDUCE_ATTR(RG_UNNAMED), x)    \
                   : NULL;                                         \
    }
EXTREME_OF_ALL(max)
EXTREME_OF_ALL(min)

/* ---- max, min along a dim: the gradient goes where the value came from ----------- */

/* The one dim of the mask; of the flattened tensor, which argmax alone knows: its only one. */
static int extreme_dim(const void *attr) {
    return __builtin_ctz(((const struct reduce_attr *)attr)->dims);
}

static bool max_dim_shape(rg_call *c) {
    rgi_reduce_sizes(c->out[1], c->in[0], c->attr);
    c->out[1]->dtype = RG_INT64;
    return rgi_reduce_shape(c)
           && extreme_check(RG_IS(c->op, min_dim) ? "min" : "max", c->in[0],
                            &RG_DIMS(extreme_dim(c->attr)), RG_INDEX_ERROR);
}

/* gx = g * (position along dim == index) */
static rg_tensor *max_dim_rule(const rg_step *s, rg_tensor *g) {
    int ndim = rgi_input_ndim(s, 0);
    rg_tensor *index = rgi_reduce_restore(rgi_saved_output_at(s, 1), ndim, s->attr);
    return rg_scatter(rgi_input_zeros(s), extreme_dim(s->attr), index,
                      rgi_reduce_restore(g, ndim, s->attr));
}

static rg_values_indices max_dim_apply(const char *name, const rg_op *op, rg_tensor *x, int dim,
                                       bool keepdim) {
    bool ok = rgi_check(x, name) && rgi_wrap_dim(name, dim, x->ndim, &dim);
    return rgi_apply_two(ok, op, RG_REDUCE_ATTR(ok ? 1u << dim : 0, keepdim),
                         sizeof(struct reduce_attr), x);
}

#define MAX_DIM(f, name, smallest, ...)                                                           \
    RG_REDUCTION(f, (k_max_dim(y, c->out[1], x, extreme_dim(a), smallest), true), .n_out = 2,     \
                 .shape = max_dim_shape, .grad = { RG_RULE(RG_OUT(1), max_dim_rule) },            \
                 RG_SAMPLES(REDUCED("d(2,3)", 2), REDUCED("d(2,3,4)", 1, true), REDUCED("()", 1), \
                            REDUCED("d(0,3)", 2)),                                                \
                 __VA_ARGS__);                                                                    \
    rg_values_indices rg_##f(rg_tensor *x, int dim, bool keepdim) {                               \
        return max_dim_apply(name, &rg_op_##f, x, dim, keepdim);                                  \
    }
MAX_DIM(max_dim, "max", false, .doc = "max(x) along dim, and where", .node = "MaxBackward0")
MAX_DIM(min_dim, "min", true, .doc = "min(x) along dim, and where", .node = "MinBackward0")

/* ---- argmax, argmin: only where; without a dim, in the flattened tensor ---------- */
static bool argmax_shape(rg_call *c) {
    rg_dims dim = RG_DIMS(extreme_dim(c->attr));
    dim.n = ((const struct reduce_attr *)c->attr)->dims != RG_UNNAMED;
    return rgi_reduce_shape_int64(c) && extreme_check(c->op->name, c->in[0], &dim, RG_INDEX_ERROR);
}

static bool argmax_run(rg_tensor *y, rg_tensor *x, const struct reduce_attr *a, bool smallest) {
    RG_SCOPE();
    rg_tensor *values = rgi_own(rgi_new_like(y, x->dtype));
    if (!values || !(x = rgi_own(rgi_contiguous_copy(x, x->dtype))))
        return false;
    rg_tensor flat = a->dims == RG_UNNAMED ? rgi_flat(*x) : *x;
    return k_max_dim(values, y, &flat, extreme_dim(a), smallest), true;
}

static rg_tensor *argmax_over(const rg_op *op, rg_tensor *x, const rg_dims *dims, bool keepdim) {
    if (!rgi_check(x, op->name))
        return NULL;
    RG_FAIL_IF(x->dtype == RG_BOOL, NULL, "%s(): does not support bool input", op->name);
    return rgi_reduce(op, x, dims, RG_UNNAMED, keepdim, 0);
}

#define ARGMAX(f, smallest, ...)                                                               \
    RG_REDUCTION(f, argmax_run(y, x, a, smallest), .shape = argmax_shape,                      \
                 RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED), REDUCED("()", 1),                   \
                            REDUCED("d(2,3,4)", 2, true), REDUCED("(0,3)", 2)),                \
                 __VA_ARGS__);                                                                 \
    rg_tensor *rg_##f(rg_tensor *x) { return argmax_over(&rg_op_##f, x, &rg_no_dims, false); } \
    rg_tensor *rg_##f##_dim(rg_tensor *x, int dim, bool keep) {                                \
        return argmax_over(&rg_op_##f, x, &RG_DIMS(dim), keep);                                \
    }
ARGMAX(argmax, false, .doc = "where x is largest along dim")
ARGMAX(argmin, true, .doc = "where x is smallest along dim")
