/*
 * reduce.c: what makes fewer numbers of many: sums, means and their kind.
 */
#include "reduce.h"

bool rg_reduce_mask(const char *op, const rg_tensor *x, const rg_dims *dims, uint32_t *mask)
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

void rg_reduce_sizes(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool keepdim)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(dims >> d & 1)) y->size[n++] = x->size[d];
        else if (keepdim) y->size[n++] = 1;
    }
    y->ndim = (uint8_t)n;
}

bool rg_reduce_shape(rg_call *c)
{
    const struct reduce_attr *a = c->attr;
    rg_reduce_sizes(c->out[0], c->in[0], a->dims, a->keepdim);
    return true;
}

rg_tensor *rg_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a)
{
    rg_dims shape = { .n = ndim };
    if (a->keepdim || !rg_check(g, "reduce")) return g;
    for (int d = 0, k = 0; d < ndim; d++) shape.v[d] = a->dims >> d & 1 ? 1 : g->size[k++];
    return shape.n == g->ndim ? g : rg_reshape_dims(g, shape);
}

int64_t rg_reduce_count(const rg_dims *shape, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < shape->n; d++)
        if (dims >> d & 1) n *= shape->v[d];
    return n;
}

rg_tensor *rg_reduce(const char *name, const rg_op *op, rg_tensor *x, rg_dims dims, bool keepdim, double p)
{
    struct reduce_attr a = { .keepdim = keepdim, .p = p };
    return rg_check(x, name) && rg_reduce_mask(name, x, &dims, &a.dims) ? rg_apply(op, &a, sizeof a, 1, &x) : NULL;
}

rg_tensor *rg_reduce_all(const rg_op *op, rg_tensor *x, double p)
{
    return rg_apply(op, &(struct reduce_attr){ .dims = UINT32_MAX, .p = p }, sizeof(struct reduce_attr), 1, &x);
}

/* g where it came from: gx = g, expanded. */
static rg_tensor *reduce_expand(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    return rg_expand_dims(rg_reduce_restore(g, shape.n, s->attr), shape);
}

static bool reduce_named(const void *attr) { return ((const struct reduce_attr *)attr)->dims != UINT32_MAX; }

static bool reduce_shape_sum(rg_call *c)
{
    if (!rg_is_float(c->in[0]->dtype)) c->out[0]->dtype = RG_INT64;
    return rg_reduce_shape(c);
}

/* The samples of most reductions. */
#define REDUCE_SAMPLES                                                                          \
    .attr_size = sizeof(struct reduce_attr),                                                    \
    RG_SAMPLES({ "(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "(2,3,4)", RG_REDUCE_ATTR(2, false) }, \
               { "(2,3,4)", RG_REDUCE_ATTR(5, true) }, { "(5,9)", RG_REDUCE_ATTR(1, true) }, { "()", RG_REDUCE_ATTR(UINT32_MAX, false) }, \
               { "(0,3)", RG_REDUCE_ATTR(2, false) }, { "(3,0)", RG_REDUCE_ATTR(2, false) })

/* ---- sum: gx = g, expanded ------------------------------------------------------------- */

static const char *sum_node(const void *attr) { return reduce_named(attr) ? "SumBackward1" : "SumBackward0"; }

static bool sum_forward(rg_call *c)
{
    k_sum(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

RG_OP(sum, .doc = "sum(x) over dims", .node_of = sum_node, .n_in = 1, .shape = reduce_shape_sum, .forward = sum_forward,
      .grad = { RG_RULE(0, reduce_expand) }, REDUCE_SAMPLES);
RG_REDUCE(sum)

/* ---- nansum: the same without NaNs; gx = g where x is a number ----------------------------- */

static bool nansum_forward(rg_call *c)
{
    k_nansum(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

static rg_tensor *nansum_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0), *is_number = x ? rg_own(rg_new_like(x, x->dtype)) : NULL;
    if (!is_number) return NULL;
    k_mark_equal(is_number, x, x, false);
    return rg_mul(reduce_expand(s, g), is_number);
}

RG_OP(nansum, .doc = "sum(x) over dims, where NaN counts as 0", .node = "NansumBackward0", .n_in = 1,
      .shape = reduce_shape_sum, .forward = nansum_forward, .grad = { RG_RULE(RG_IN(0), nansum_rule) }, REDUCE_SAMPLES);
RG_REDUCE(nansum)

/* ---- mean: sum / n; gx = g / n, expanded --------------------------------------------------- */

static const char *mean_node(const void *attr) { return reduce_named(attr) ? "MeanBackward1" : "MeanBackward0"; }

static bool mean_shape(rg_call *c)
{
    if (!rg_is_float(c->in[0]->dtype))
        return rg_fail(RG_RUNTIME_ERROR, NULL, "mean(): could not infer output dtype. Input dtype must be either a floating "
                       "point or complex dtype. Got: %s", rg_scalar_name(c->in[0]->dtype));
    return rg_reduce_shape(c);
}

static bool mean_forward(rg_call *c)
{
    k_mean(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

static rg_tensor *mean_rule(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    return rg_mul(reduce_expand(s, g), 1.0 / (double)rg_reduce_count(&shape, ((const struct reduce_attr *)s->attr)->dims));
}

RG_OP(mean, .doc = "sum(x) / n over dims", .node_of = mean_node, .n_in = 1, .shape = mean_shape, .forward = mean_forward,
      .grad = { RG_RULE(0, mean_rule) }, REDUCE_SAMPLES);
RG_REDUCE(mean)
