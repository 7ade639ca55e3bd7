/*
 * index.c: elements by their place: gather, scatter, and what is made of them.
 */
#include "autograd/op.h"

struct gather_attr { int dim; };

/* Is every index within size? torch's sentence if not. */
static bool index_in_range(const char *op, const rg_tensor *index, int dim, int64_t size)
{
    rg_tensor *flat = rg_contiguous_copy((rg_tensor *)index, RG_INT64);
    if (!flat) return false;
    const int64_t *at = (const int64_t *)flat->data;
    bool ok = true;
    for (int64_t i = 0; i < flat->numel && ok; i++)
        if (at[i] < 0 || at[i] >= size)
            ok = rg_fail(RG_RUNTIME_ERROR, op, "index %lld is out of bounds for dimension %d with size %lld",
                         (long long)at[i], dim, (long long)size);
    rg_release(flat);
    return ok;
}

/* ---- gather: y[i][j] = x[index[i][j]][j] ------------------------------------------------ */

static bool gather_shape(rg_call *c)
{
    const rg_tensor *x = c->in[0], *index = c->in[1];
    int dim = RG_ATTR(c, gather)->dim;
    rg_copy_shape(c->out[0], index);
    return index_in_range("gather", index, dim, x->ndim ? x->size[dim] : 1);
}

static bool gather_forward(rg_call *c)
{
    k_gather(c->out[0], c->in[0], RG_ATTR(c, gather)->dim, c->in[1]);
    return true;
}

static rg_tensor *gather_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *zeros = rg_zeros_dims(rg_input_dims(s, 0), rg_input_dtype(s, 0));
    return rg_scatter_add(zeros, RG_ATTR(s, gather)->dim, rg_saved(s, 1), g);
}

RG_OP(gather, .attr_size = sizeof(struct gather_attr), .doc = "x at index along dim", .node = "GatherBackward0", .n_in = 2, .shape = gather_shape, .forward = gather_forward,
      .grad = { RG_RULE(RG_IN(1), gather_rule) },
      RG_SAMPLES({ "(5,3) i5(2,3)", RG_A(gather, 0) }, { "(2,3) i3(2,2)", RG_A(gather, 1) }, { "() i1()", RG_A(gather, 0) }));

rg_tensor *rg_gather(rg_tensor *x, int dim, rg_tensor *index)
{
    struct gather_attr a;
    if (!rg_check(x, "gather") || !rg_check(index, "gather") || !rg_wrap_dim("gather", dim, x->ndim, &a.dim)) return NULL;
    return RG_APPLY(gather, &a, x, index);
}

/* ---- scatter: x with source at index along dim --------------------------------------------- */

#define scatter_attr gather_attr

static bool scatter_shape(rg_call *c)
{
    int dim = RG_ATTR(c, scatter)->dim;
    rg_copy_shape(c->out[0], c->in[0]);
    return index_in_range("scatter", c->in[1], dim, c->in[0]->ndim ? c->in[0]->size[dim] : 1);
}

static bool scatter_forward(rg_call *c)
{
    rg_copy_elements(c->out[0], c->in[0]);
    k_scatter(c->out[0], RG_ATTR(c, scatter)->dim, c->in[1], c->in[2]);
    return true;
}

static rg_tensor *scatter_rule_x(const rg_step *s, rg_tensor *g)
{
    return rg_scatter(g, RG_ATTR(s, scatter)->dim, rg_saved(s, 1), 0);
}

static rg_tensor *scatter_rule_source(const rg_step *s, rg_tensor *g)
{
    return rg_gather(g, RG_ATTR(s, scatter)->dim, rg_saved(s, 1));
}

RG_OP(scatter, .attr_size = sizeof(struct scatter_attr), .doc = "x with source at index along dim", .node = "ScatterBackward0", .n_in = 3, .shape = scatter_shape,
      .forward = scatter_forward,
      .grad = { RG_RULE(RG_IN(1), scatter_rule_x), RG_NO_RULE, RG_RULE(RG_IN(1), scatter_rule_source) },
      RG_SAMPLES({ "(3,1) i1(1,1) (1,1)", RG_A(scatter, 0) }, { "() i1() ()", RG_A(scatter, 0) }));

rg_tensor *(rg_scatter)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source)
{
    struct scatter_attr a;
    if (!rg_check(x, "scatter") || !rg_check(index, "scatter") || !rg_check(source, "scatter")
        || !rg_wrap_dim("scatter", dim, x->ndim, &a.dim)) return NULL;
    if (source->flags & RG_WEAK) source = rg_expand_as(rg_to(source, x->dtype), index);
    return source ? RG_APPLY(scatter, &a, x, index, source) : NULL;
}

rg_tensor *rg_scatter_add(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source)
{
    (void)x, (void)dim, (void)index, (void)source;
    return rg_fail(RG_NOT_IMPLEMENTED, "scatter_add", "not here yet");
}
