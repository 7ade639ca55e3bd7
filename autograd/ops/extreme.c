/*
 * extreme.c: the largest and the smallest, and where they are.
 */
#include "reduce.h"

static bool extreme_smallest(const rg_op *op)
{
    return op == &rg_op_amin || op == &rg_op_min || op == &rg_op_min_dim || op == &rg_op_argmin;
}

/* An extreme of nothing has no value. dims: as they were given; none of them: all. */
static bool extreme_check(const char *name, const rg_tensor *x, const rg_dims *dims, rg_code code)
{
    if (x->numel) return true;
    if (dims->n == 0)
        return rg_fail(code, NULL, "%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name,
                       code == RG_RUNTIME_ERROR ? " Specify the reduction dim with the 'dim' argument." : "");
    for (int i = 0, d; i < RG_MIN(dims->n, RG_MAX_DIMS); i++)
        if (rg_wrap_dim(name, dims->v[i], x->ndim, &d) && x->size[d] == 0)
            return rg_fail(RG_INDEX_ERROR, NULL, "%s(): Expected reduction dim %lld to have non-zero size.", name, (long long)dims->v[i]);
    return true;
}

/* ---- amax, amin over dims, max, min over everything: ties share g evenly ------------------ */

static bool extreme_forward(rg_call *c)
{
    k_amax(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims, extreme_smallest(c->op));
    return true;
}

/* gx = g [x == y] / (how many of them). Where y is NaN: max and min share g among the
 * NaNs, amax and amin give NaN, as torch does. */
static rg_tensor *extreme_rule(const rg_step *s, rg_tensor *g)
{
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rg_saved(s, 0), *y = rg_saved_output(s);
    if (!x || !y) return NULL;
    return rg_mul(rg_reduce_restore(g, x->ndim, a), rg_reduce_share(x, y, a->dims, s->op == &rg_op_max || s->op == &rg_op_min));
}

#define EXTREME_ROW                                                                             \
    .attr_size = sizeof(struct reduce_attr), .n_in = 1, .shape = rg_reduce_shape, .forward = extreme_forward, \
    .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, extreme_rule) }
#define EXTREME_SAMPLES                                                                         \
    RG_SAMPLES({ "d(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "d(2,3,4)", RG_REDUCE_ATTR(2, false) }, \
               { "d(2,3,4)", RG_REDUCE_ATTR(5, true) }, { "()", RG_REDUCE_ATTR(UINT32_MAX, false) }, \
               { "(0,3)", RG_REDUCE_ATTR(2, false) })

RG_OP(amax, .doc = "max(x) over dims", .node = "AmaxBackward0", EXTREME_ROW, EXTREME_SAMPLES);
RG_OP(amin, .doc = "min(x) over dims", .node = "AminBackward0", EXTREME_ROW, EXTREME_SAMPLES);
RG_OP(max, .doc = "max(x) of everything", .node = "MaxBackward1", EXTREME_ROW,
      RG_SAMPLES({ "d(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "()", RG_REDUCE_ATTR(UINT32_MAX, false) },
                 { "(0,3)", RG_REDUCE_ATTR(2, false) }));
RG_OP(min, .doc = "min(x) of everything", .node = "MinBackward1", EXTREME_ROW,
      RG_SAMPLES({ "d(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "()", RG_REDUCE_ATTR(UINT32_MAX, false) },
                 { "(0,3)", RG_REDUCE_ATTR(2, false) }));

static rg_tensor *extreme_dims(const char *name, const rg_op *op, rg_tensor *x, rg_dims dims, bool keepdim)
{
    struct reduce_attr a = { .keepdim = keepdim };
    if (!rg_check(x, name) || !extreme_check(name, x, &dims, RG_RUNTIME_ERROR)
        || !rg_reduce_mask(name, x, &dims, &a.dims)) return NULL;
    return rg_apply(op, &a, sizeof a, 1, &x);
}

static rg_tensor *extreme_all(const char *name, const rg_op *op, rg_tensor *x)
{
    return rg_check(x, name) && extreme_check(name, x, &(rg_dims){ .n = 0 }, RG_RUNTIME_ERROR) ? rg_reduce_all(op, x, 0) : NULL;
}

rg_tensor *rg_amax(rg_tensor *x) { return extreme_all("amax", &rg_op_amax, x); }
rg_tensor *rg_amin(rg_tensor *x) { return extreme_all("amin", &rg_op_amin, x); }
rg_tensor *rg_max(rg_tensor *x) { return extreme_all("max", &rg_op_max, x); }
rg_tensor *rg_min(rg_tensor *x) { return extreme_all("min", &rg_op_min, x); }
rg_tensor *rg_amax_dims(rg_tensor *x, rg_dims dims, bool keepdim) { return extreme_dims("amax", &rg_op_amax, x, dims, keepdim); }
rg_tensor *rg_amin_dims(rg_tensor *x, rg_dims dims, bool keepdim) { return extreme_dims("amin", &rg_op_amin, x, dims, keepdim); }
rg_tensor *rg_amax_dim(rg_tensor *x, int dim, bool keepdim) { return rg_amax_dims(x, RG_DIMS(dim), keepdim); }
rg_tensor *rg_amin_dim(rg_tensor *x, int dim, bool keepdim) { return rg_amin_dims(x, RG_DIMS(dim), keepdim); }

/* ---- max, min along a dim: the gradient goes where the value came from --------------------- */

struct max_dim_attr { int dim; bool keepdim; };

static bool max_dim_shape(rg_call *c)
{
    const struct max_dim_attr *a = RG_ATTR(c, max_dim);
    const char *name = extreme_smallest(c->op) ? "min" : "max";
    if (c->in[0]->ndim && !extreme_check(name, c->in[0], &(rg_dims){ 1, { a->dim } }, RG_INDEX_ERROR)) return false;
    for (int k = 0; k < 2; k++) rg_reduce_sizes(c->out[k], c->in[0], 1u << a->dim, a->keepdim);
    c->out[1]->dtype = RG_INT64;
    return true;
}

static bool max_dim_forward(rg_call *c)
{
    k_max_dim(c->out[0], c->out[1], c->in[0], RG_ATTR(c, max_dim)->dim, extreme_smallest(c->op));
    return true;
}

/* gx = g * (position along dim == index) */
static rg_tensor *max_dim_rule(const rg_step *s, rg_tensor *g)
{
    const struct max_dim_attr *a = RG_ATTR(s, max_dim);
    rg_dims shape = rg_input_dims(s, 0);
    rg_tensor *index = rg_saved_output_at(s, 1), *zeros = rg_zeros_dims(shape, rg_input_dtype(s, 0));
    if (!a->keepdim && shape.n) g = rg_unsqueeze(g, a->dim), index = rg_unsqueeze(index, a->dim);
    return rg_scatter(zeros, a->dim, index, g);
}

#define MAX_DIM_ROW                                                                             \
    .attr_size = sizeof(struct max_dim_attr), .n_in = 1, .n_out = 2, .shape = max_dim_shape,    \
    .forward = max_dim_forward,                                                                 \
    .grad = { RG_RULE(RG_OUT(1), max_dim_rule) },                                                    \
    RG_SAMPLES({ "d(2,3)", RG_A(max_dim, 1, false) }, { "d(2,3,4)", RG_A(max_dim, 0, true) }, { "()", RG_A(max_dim, 0, false) }, \
               { "d(0,3)", RG_A(max_dim, 1, false) })

RG_OP(max_dim, .doc = "max(x) along dim, and where", .node = "MaxBackward0", MAX_DIM_ROW);
RG_OP(min_dim, .doc = "min(x) along dim, and where", .node = "MinBackward0", MAX_DIM_ROW);

static rg_values_indices max_dim_apply(const char *name, const rg_op *op, rg_tensor *x, int dim, bool keepdim)
{
    rg_tensor *out[2] = { NULL, NULL };
    struct max_dim_attr a = { .keepdim = keepdim };
    if (rg_check(x, name) && rg_wrap_dim(name, dim, x->ndim, &a.dim)) rg_apply_outputs(op, &a, sizeof a, 1, &x, out);
    return (rg_values_indices){ out[0], out[1] };
}

rg_values_indices rg_max_dim(rg_tensor *x, int dim, bool keepdim) { return max_dim_apply("max", &rg_op_max_dim, x, dim, keepdim); }
rg_values_indices rg_min_dim(rg_tensor *x, int dim, bool keepdim) { return max_dim_apply("min", &rg_op_min_dim, x, dim, keepdim); }

/* ---- argmax, argmin: only where; dim -1: of the flattened tensor ---------------------------- */

#define argmax_attr max_dim_attr

static bool argmax_shape(rg_call *c)
{
    const struct argmax_attr *a = RG_ATTR(c, argmax);
    rg_reduce_sizes(c->out[0], c->in[0], a->dim < 0 ? UINT32_MAX : 1u << a->dim, a->keepdim);
    c->out[0]->dtype = RG_INT64;
    return extreme_check(c->op->name, c->in[0], &(rg_dims){ a->dim >= 0, { a->dim } }, RG_INDEX_ERROR);
}

static bool argmax_forward(rg_call *c)
{
    const struct argmax_attr *a = RG_ATTR(c, argmax);
    rg_tensor *x = rg_contiguous_copy(c->in[0], c->in[0]->dtype), *values = rg_new_like(c->out[0], c->in[0]->dtype), flat;
    if (x && values) {
        flat = *x;
        if (a->dim < 0) flat.ndim = 1, flat.size[0] = x->numel, flat.stride[0] = 1;
        k_max_dim(values, c->out[0], &flat, RG_MAX(a->dim, 0), extreme_smallest(c->op));
    }
    rg_release(x);
    rg_release(values);
    return x && values;
}

#define ARGMAX_ROW                                                                              \
    .attr_size = sizeof(struct argmax_attr), .n_in = 1, .shape = argmax_shape, .forward = argmax_forward, \
    RG_SAMPLES({ "d(2,3)", RG_A(argmax, -1, false) }, { "d(2,3,4)", RG_A(argmax, 1, true) }, { "()", RG_A(argmax, 0, false) }, \
               { "(0,3)", RG_A(argmax, 1, false) })

RG_OP(argmax, .doc = "where x is largest along dim", ARGMAX_ROW);
RG_OP(argmin, .doc = "where x is smallest along dim", ARGMAX_ROW);

static rg_tensor *argmax_apply(const char *name, const rg_op *op, rg_tensor *x, bool flat, int dim, bool keepdim)
{
    struct argmax_attr a = { .dim = -1, .keepdim = keepdim };
    if (!rg_check(x, name)) return NULL;
    if (x->dtype == RG_BOOL) return rg_fail(RG_RUNTIME_ERROR, NULL, "%s(): does not support bool input", name);
    return flat || rg_wrap_dim(name, dim, x->ndim, &a.dim) ? rg_apply(op, &a, sizeof a, 1, &x) : NULL;
}

rg_tensor *rg_argmax(rg_tensor *x) { return argmax_apply("argmax", &rg_op_argmax, x, true, 0, false); }
rg_tensor *rg_argmin(rg_tensor *x) { return argmax_apply("argmin", &rg_op_argmin, x, true, 0, false); }
rg_tensor *rg_argmax_dim(rg_tensor *x, int dim, bool keepdim) { return argmax_apply("argmax", &rg_op_argmax, x, false, dim, keepdim); }
rg_tensor *rg_argmin_dim(rg_tensor *x, int dim, bool keepdim) { return argmax_apply("argmin", &rg_op_argmin, x, false, dim, keepdim); }
