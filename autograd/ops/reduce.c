/*
 * reduce.c: what makes fewer numbers of many: sums, means, extremes.
 */
#include "autograd/op.h"

/* The dims that a reduction goes over, as a mask (bit 0 for a 0-d tensor's none). */
struct reduce_attr { uint32_t dims; bool keepdim; };

/* dims as a mask; none of them means all. false: out of range or named twice. */
static bool reduce_mask(const char *op, const rg_tensor *x, const rg_dims *dims, uint32_t *mask)
{
    *mask = 0;
    if (!rg_check_dims(op, dims->n)) return false;
    for (int i = 0; i < dims->n; i++) {
        int d;
        if (!rg_wrap_dim(op, dims->v[i], x->ndim, &d)) return false;
        if (*mask >> d & 1) return rg_fail(RG_RUNTIME_ERROR, op, "dim %d appears multiple times in the list of dims", d);
        *mask |= 1u << d;
    }
    if (dims->n == 0) *mask = (1u << x->ndim) - 1;
    return true;
}

static void reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(a->dims >> d & 1)) y->size[n++] = x->size[d];
        else if (a->keepdim) y->size[n++] = 1;
    }
    y->ndim = (uint8_t)n;
}

/* What was reduced, with its dims again as those of size 1. */
static rg_tensor *reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a)
{
    for (int d = 0; d < ndim && g && !a->keepdim; d++)
        if (a->dims >> d & 1) g = rg_unsqueeze(g, d);
    return g;
}

/* ---- sum: gx = g, expanded ------------------------------------------------------------- */

static const char *sum_node(const void *attr)
{
    return ((const struct reduce_attr *)attr)->dims == UINT32_MAX ? "SumBackward0" : "SumBackward1";
}

#define sum_attr reduce_attr
static bool sum_shape(rg_call *c)
{
    reduce_sizes(c->out[0], c->in[0], RG_ATTR(c, sum));
    if (!rg_is_float(c->in[0]->dtype)) c->out[0]->dtype = RG_INT64;
    return true;
}

static bool sum_forward(rg_call *c)
{
    k_sum(c->out[0], c->in[0], RG_ATTR(c, sum)->dims);
    return true;
}

static rg_tensor *sum_rule(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    return rg_expand_dims(reduce_restore(g, shape.n, RG_ATTR(s, sum)), shape);
}

RG_OP(sum, .attr_size = sizeof(struct sum_attr), .doc = "sum(x) over dims", .node_of = sum_node, .n_in = 1, .shape = sum_shape, .forward = sum_forward,
      .grad = { RG_RULE(0, sum_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(sum, UINT32_MAX, false) }, { "(2,3,4)", RG_A(sum, 2, false) }, { "(2,3,4)", RG_A(sum, 5, true) },
                 { "()", RG_A(sum, UINT32_MAX, false) }, { "(0,3)", RG_A(sum, 1, false) }, { "(3,0)", RG_A(sum, 1, false) }));

rg_tensor *rg_sum(rg_tensor *x) { return RG_APPLY(sum, RG_A(sum, .dims = UINT32_MAX), x); }

rg_tensor *rg_sum_dims(rg_tensor *x, rg_dims dims, bool keepdim)
{
    struct sum_attr a = { .keepdim = keepdim };
    if (!rg_check(x, "sum") || !reduce_mask("sum", x, &dims, &a.dims)) return NULL;
    return RG_APPLY(sum, &a, x);
}

rg_tensor *rg_sum_dim(rg_tensor *x, int dim, bool keepdim) { return rg_sum_dims(x, RG_DIMS(dim), keepdim); }

/* ---- max, min along a dim: the gradient goes where the value came from --------------------- */

struct max_dim_attr { int dim; bool keepdim; };

static bool max_dim_shape(rg_call *c)
{
    const struct max_dim_attr *a = RG_ATTR(c, max_dim);
    if (c->in[0]->ndim && c->in[0]->size[a->dim] == 0)
        return rg_fail(RG_INDEX_ERROR, c->op == &rg_op_max_dim ? "max" : "min", "Expected reduction dim %d to have non-zero size.", a->dim);
    for (int k = 0; k < 2; k++) reduce_sizes(c->out[k], c->in[0], &(struct reduce_attr){ 1u << a->dim, a->keepdim });
    c->out[1]->dtype = RG_INT64;
    return true;
}

static bool max_dim_forward(rg_call *c)
{
    k_max_dim(c->out[0], c->out[1], c->in[0], RG_ATTR(c, max_dim)->dim, c->op == &rg_op_min_dim);
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
    .attr_size = sizeof(struct max_dim_attr), .n_in = 1, .n_out = 2, .shape = max_dim_shape, .forward = max_dim_forward,                  \
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
