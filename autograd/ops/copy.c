/*
 * copy.c: new tensors from the elements of others: joined, converted, repeated.
 */
#include "autograd/op.h"

/* ---- to: another dtype ------------------------------------------------------------ */

struct to_attr { rg_dtype dtype; };

static bool to_shape(rg_call *c)
{
    c->out[0]->dtype = RG_ATTR(c, to)->dtype;
    return rg_shape_same(c);
}

static bool to_forward(rg_call *c)
{
    rg_copy_elements(c->out[0], c->in[0]);
    return true;
}

/* The engine casts back. */
static rg_tensor *to_rule(const rg_step *s, rg_tensor *g) { (void)s; return g; }

RG_OP(to, .attr_size = sizeof(struct to_attr), .doc = "x in another dtype", .node = "ToCopyBackward0", .n_in = 1, .shape = to_shape, .forward = to_forward,
      .grad = { RG_RULE(0, to_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(to, RG_FLOAT64) }, { "()", RG_A(to, RG_FLOAT64) }, { "(0,2)", RG_A(to, RG_FLOAT64) }));

rg_tensor *rg_to(rg_tensor *x, rg_dtype dtype)
{
    if (!rg_check(x, "to")) return NULL;
    if ((unsigned)dtype > RG_FLOAT64) return rg_fail(RG_TYPE_ERROR, "to", "%d is no dtype", (int)dtype);
    return x->dtype == dtype ? rg_lend(x) : RG_APPLY(to, (&(struct to_attr){ dtype }), x);
}

rg_tensor *rg_clone(rg_tensor *x) { return rg_check(x, "clone") ? RG_APPLY(to, (&(struct to_attr){ x->dtype }), x) : NULL; }

rg_tensor *rg_contiguous(rg_tensor *x)
{
    return !rg_check(x, "contiguous") ? NULL : x->flags & RG_CONTIGUOUS ? rg_lend(x) : rg_clone(x);
}

/* ---- cat: one after the other along dim -------------------------------------------------- */

struct cat_attr { int dim; int64_t start[RG_MAX_INPUTS]; };     /* only as many as there are inputs are kept */

/* torch skips 1-d tensors without elements, whatever the shape of the others. */
static bool cat_skips(const rg_tensor *x) { return x->ndim == 1 && x->size[0] == 0; }

static bool cat_shape(rg_call *c)
{
    int dim = RG_ATTR(c, cat)->dim;
    const rg_tensor *first = NULL;
    rg_tensor *y = c->out[0];
    for (int i = 0; i < c->n_in; i++) {
        const rg_tensor *x = c->in[i];
        if (x->ndim == 0) return rg_fail(RG_RUNTIME_ERROR, "cat", "zero-dimensional tensor (at position %d) cannot be concatenated", i);
        if (cat_skips(x)) continue;
        if (!first) {
            first = x;
            rg_copy_shape(y, x);
            continue;
        }
        if (x->ndim != first->ndim)
            return rg_fail(RG_RUNTIME_ERROR, "cat", "Tensors must have same number of dimensions: got %d and %d", first->ndim, x->ndim);
        for (int d = 0; d < x->ndim; d++)
            if (d != dim && x->size[d] != first->size[d])
                return rg_fail(RG_RUNTIME_ERROR, "cat", "Sizes of tensors must match except in dimension %d. Expected size %lld "
                               "but got size %lld for tensor number %d in the list.", dim, (long long)first->size[d],
                               (long long)x->size[d], i);
        y->size[dim] += x->size[dim];
    }
    if (!first) rg_copy_shape(y, c->in[0]);
    return true;
}

static bool cat_forward(rg_call *c)
{
    int dim = RG_ATTR(c, cat)->dim;
    int64_t at = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (cat_skips(c->in[i])) continue;
        k_copy_into(c->out[0], c->in[i], dim, at);
        at += c->in[i]->size[dim];
    }
    return true;
}

/* Each input's gradient is its slice of g. */
static rg_tensor *cat_rule(const rg_step *s, rg_tensor *g)
{
    const struct cat_attr *a = RG_ATTR(s, cat);
    rg_dims mine = rg_input_dims(s, s->input);
    return mine.n == 1 && mine.v[0] == 0 ? RG_NONE : rg_narrow(g, a->dim, a->start[s->input], mine.v[a->dim]);
}

RG_OP(cat, .attr_size = sizeof(struct cat_attr), .doc = "tensors joined along dim", .node = "CatBackward0", .typing = RG_PROMOTED, .shape = cat_shape,
      .forward = cat_forward, .grad = { RG_RULE(0, cat_rule) },
      RG_SAMPLES({ "(2,3) (1,3)", RG_A(cat, 0, { 0, 2 }) }, { "(2,3) (2,1) (2,2)", RG_A(cat, 1, { 0, 3, 4 }) },
                 { "(0) (2,2)", RG_A(cat, 0, { 0, 0 }) }, { "(0,3) (2,3)", RG_A(cat, 0, { 0, 0 }) }));

rg_tensor *rg_cat(rg_list tensors, int dim)
{
    struct cat_attr a;
    int ndim = 0;
    int64_t at = 0;
    if (tensors.n < 1) return rg_fail(RG_RUNTIME_ERROR, "cat", "expected a non-empty list of Tensors");
    if (tensors.n > RG_MAX_INPUTS)
        return rg_fail(RG_RUNTIME_ERROR, "cat", "at most %d tensors, but got %d", RG_MAX_INPUTS, tensors.n);
    for (int i = 0; i < tensors.n; i++) {
        if (!rg_check(tensors.v[i], "cat")) return NULL;
        if (ndim == 0 || !cat_skips(tensors.v[i])) ndim = tensors.v[i]->ndim;
    }
    if (!rg_wrap_dim("cat", dim, ndim, &a.dim)) return NULL;
    for (int i = 0; i < tensors.n; i++) {
        const rg_tensor *x = tensors.v[i];
        a.start[i] = at;
        if (!cat_skips(x) && a.dim < x->ndim) at += x->size[a.dim];
    }
    return rg_apply(&rg_op_cat, &a, offsetof(struct cat_attr, start) + (size_t)tensors.n * sizeof a.start[0],
                    tensors.n, tensors.v);
}
