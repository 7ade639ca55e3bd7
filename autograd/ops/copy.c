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

typedef rg_tensor *list_function(rg_list tensors, int dim);

/* Every so many tensors by themselves, then what comes of that. */
static rg_tensor *cat_in_groups(rg_list tensors, int dim, list_function *inner, list_function *outer)
{
    int groups = (tensors.n + RG_MAX_INPUTS - 1) / RG_MAX_INPUTS;
    RG_SCOPE();
    rg_tensor **part = (rg_tensor **)(void *)rg_own_string((size_t)groups * sizeof *part);
    if (!part) return NULL;
    for (int i = 0; i < groups; i++) {
        int at = i * RG_MAX_INPUTS;
        part[i] = inner((rg_list){ RG_MIN(tensors.n - at, RG_MAX_INPUTS), tensors.v + at }, dim);
        if (!part[i]) return NULL;
    }
    rg_tensor *y = outer((rg_list){ groups, part }, dim);
    return y ? rg_escape(y) : NULL;
}

static bool list_check(const char *op, rg_list tensors, rg_code code, const char *sentence)
{
    if (tensors.n < 0) return false;                    /* failed already */
    if (tensors.n == 0) return rg_fail(code, op, "%s", sentence);
    for (int i = 0; i < tensors.n; i++)
        if (!rg_check(tensors.v[i], op)) return false;
    return true;
}

rg_tensor *rg_cat(rg_list tensors, int dim)
{
    struct cat_attr a;
    int ndim = 0;
    int64_t at = 0;
    if (!list_check("cat", tensors, RG_VALUE_ERROR, "torch.cat(): expected a non-empty list of Tensors")) return NULL;
    for (int i = 0; i < tensors.n; i++)
        if (ndim == 0 || !cat_skips(tensors.v[i])) {
            ndim = tensors.v[i]->ndim;
            if (!cat_skips(tensors.v[i])) break;
        }
    if (!rg_wrap_dim("cat", dim, ndim, &a.dim)) return NULL;
    if (tensors.n > RG_MAX_INPUTS) return cat_in_groups(tensors, a.dim, rg_cat, rg_cat);
    for (int i = 0; i < tensors.n; i++) {
        const rg_tensor *x = tensors.v[i];
        a.start[i] = at;
        if (!cat_skips(x) && a.dim < x->ndim) at += x->size[a.dim];
    }
    return rg_apply(&rg_op_cat, &a, offsetof(struct cat_attr, start) + (size_t)tensors.n * sizeof a.start[0],
                    tensors.n, tensors.v);
}

/* ---- stack: one after the other along a new dim -------------------------------------------------- */

struct stack_attr { int dim; };

static bool stack_shape(rg_call *c)
{
    rg_tensor *y = c->out[0];
    int dim = RG_ATTR(c, stack)->dim;
    const rg_tensor *x = c->in[0];
    char a[192], b[192];
    for (int i = 1; i < c->n_in; i++)
        if (!rg_same_shape(x, c->in[i]))
            return rg_fail(RG_RUNTIME_ERROR, "stack", "stack expects each tensor to be equal size, but got %s at entry 0 and %s at "
                           "entry %d", rg_shape_text(x->ndim, x->size, a), rg_shape_text(c->in[i]->ndim, c->in[i]->size, b), i);
    y->ndim = x->ndim + 1;
    for (int d = 0; d < y->ndim; d++) y->size[d] = d == dim ? c->n_in : x->size[d - (d > dim)];
    return true;
}

static bool stack_forward(rg_call *c)
{
    int dim = RG_ATTR(c, stack)->dim;
    for (int i = 0; i < c->n_in; i++) {
        rg_tensor part = *c->out[0];
        part.data += i * part.stride[dim] * (int64_t)rg_sizeof(part.dtype);
        part.ndim--;
        for (int d = dim; d < part.ndim; d++) part.size[d] = part.size[d + 1], part.stride[d] = part.stride[d + 1];
        rg_update_flags(&part);
        rg_copy_elements(&part, c->in[i]);
    }
    return true;
}

static rg_tensor *stack_rule(const rg_step *s, rg_tensor *g) { return rg_select(g, RG_ATTR(s, stack)->dim, s->input); }

RG_OP(stack, .attr_size = sizeof(struct stack_attr), .doc = "tensors joined along a new dim", .node = "StackBackward0",
      .typing = RG_PROMOTED, .shape = stack_shape, .forward = stack_forward, .grad = { RG_RULE(0, stack_rule) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(stack, 0) }, { "(2,3) (2,3) (2,3)", RG_A(stack, 1) }, { "(2,3)", RG_A(stack, 2) },
                 { "() ()", RG_A(stack, 0) }, { "(0) (0)", RG_A(stack, 0) }));

rg_tensor *rg_stack(rg_list tensors, int dim)
{
    struct stack_attr a;
    if (!list_check("stack", tensors, RG_RUNTIME_ERROR, "stack expects a non-empty TensorList")) return NULL;
    int ndim = tensors.v[0]->ndim + 1;
    if (!rg_check_dims("stack", ndim) || !rg_wrap_dim("stack", dim, ndim, &a.dim)) return NULL;
    if (tensors.n > RG_MAX_INPUTS) return cat_in_groups(tensors, a.dim, rg_stack, rg_cat);
    return rg_apply(&rg_op_stack, &a, sizeof a, tensors.n, tensors.v);
}

/* Joined along dim, each with at least so many dims; hstack joins vectors along their only one. */
static rg_tensor *cat_at_least(const char *op, const char *sentence, rg_list tensors, int ndim)
{
    if (!list_check(op, tensors, RG_RUNTIME_ERROR, sentence)) return NULL;
    RG_SCOPE();
    rg_tensor **v = (rg_tensor **)(void *)rg_own_string((size_t)tensors.n * sizeof *v);
    for (int i = 0; i < tensors.n && v; i++) {
        v[i] = tensors.v[i];
        while (v[i] && v[i]->ndim < ndim) v[i] = rg_unsqueeze(v[i], 0);
        if (!v[i]) return NULL;
    }
    rg_tensor *y = v ? rg_cat((rg_list){ tensors.n, v }, ndim == 1 && v[0]->ndim > 1) : NULL;
    return y ? rg_escape(y) : NULL;
}

rg_tensor *rg_hstack(rg_list tensors) { return cat_at_least("hstack", "hstack expects a non-empty TensorList", tensors, 1); }
rg_tensor *rg_vstack(rg_list tensors) { return cat_at_least("vstack", "vstack expects a non-empty TensorList", tensors, 2); }
