/*
 * cat.c: joins tensors along one of their dims (cat), or along a new dim (stack).
 */
#include "autograd/op.h"

/* ---- cat: tensors one after the other along dim; each tensor's gradient is its slice of g ---- */

/* The attributes of cat, which joins its inputs along `dim`. In the result, input i begins at index
 * start[i] of that dim. Only the first n elements of start[] are stored, where n is the number of
 * inputs. */
struct cat_attr {
    int dim;
    int64_t start[RG_MAX_INPUTS];
};

/* The attributes of the op's samples (RG_SAMPLES): cat_attr with room for three inputs only, so
 * that the samples take less of a program's size. */
struct cat_sample_attr {
    int dim;
    int64_t start[3];
};

/* Returns whether torch skips x: it skips 1-d tensors without elements, whatever the shape of the
 * other tensors. */
static bool cat_skips(const rg_tensor *x) { return x->ndim == 1 && x->size[0] == 0; }

/* Returns the first tensor that isn't skipped, or the last if all are skipped. */
static const rg_tensor *cat_first(int n, rg_tensor *const v[]) {
    int i = 0;
    while (i < n - 1 && cat_skips(v[i]))
        i++;
    return v[i];
}

/* Fails unless input i has as many dims as `first`, and the same size as `first` along each dim
 * except `dim`. `first` is the first input that isn't skipped. */
static bool cat_fits(const rg_call *c, const rg_tensor *first, int i) {
    int dim = RG_ATTR(c, cat)->dim;
    const rg_tensor *x = c->in[i];
    RG_FAIL_IF(x->ndim != first->ndim, NULL,
               "Tensors must have same number of dimensions: got %d and %d", first->ndim, x->ndim);
    for (int d = 0; d < x->ndim; d++)
        RG_FAIL_IF(d != dim && x->size[d] != first->size[d], NULL,
                   "Sizes of tensors must match except in dimension %d. Expected size %lld but "
                   "got size %lld for tensor number %d in the list.",
                   dim, (long long)first->size[d], (long long)x->size[d], i);
    return true;
}

static bool cat_shape(rg_call *c) {
    int dim = RG_ATTR(c, cat)->dim;
    const rg_tensor *first = cat_first(c->n_in, c->in);
    rg_tensor *y = c->out[0];
    rgi_copy_shape(y, first);
    y->size[dim] = 0;
    for (int i = 0; i < c->n_in; i++) {
        const rg_tensor *x = c->in[i];
        if (cat_skips(x))
            continue;
        if (!cat_fits(c, first, i))
            return false;
        RG_FAIL_IF(__builtin_add_overflow(y->size[dim], x->size[dim], &y->size[dim]), NULL,
                   "numel: integer multiplication overflow");
    }
    return true;
}

static bool cat_forward(rg_call *c) {
    const struct cat_attr *a = RG_ATTR(c, cat);
    for (int i = 0; i < c->n_in; i++)
        if (!cat_skips(c->in[i]))
            k_copy_into(c->out[0], c->in[i], a->dim, a->start[i]);
    return true;
}

static rg_tensor *cat_rule(const rg_step *s, rg_tensor *g) {
    const struct cat_attr *a = RG_ATTR(s, cat);
    rg_dims mine = rgi_input_dims(s, s->input);
    if (mine.n == 1 && mine.v[0] == 0)
        return rgi_input_zeros(s);
    return rg_narrow(g, a->dim, a->start[s->input], mine.v[a->dim]);
}

RG_OP(cat, RG_WITH(cat_sample), .moves = true, .doc = "tensors joined along dim",
      .node = "CatBackward0", .typing = RG_PROMOTED, RG_MADE(cat), .grad = { RG_RULE(0, cat_rule) },
      RG_SAMPLES({ "(2,3) (1,3)", RG_A(cat_sample, 0, { 0, 2 }) },
                 { "(2,3) (2,1) (2,2)", RG_A(cat_sample, 1, { 0, 3, 4 }) },
                 { "(0) (2,2)", RG_A(cat_sample, 0, { 0, 0 }) },
                 { "(0,3) (2,3)", RG_A(cat_sample, 0, { 0, 0 }) }));

typedef rg_tensor *list_function(rg_list tensors, int dim);

static bool list_check(const char *op, rg_list tensors, rg_code code, const char *sentence) {
    bool failed = tensors.n < 0 || (tensors.n && !tensors.v);
    if (failed)
        return rgi_check(NULL, op);
    RG_FAIL_AS_IF(code, tensors.n == 0, op, sentence, op);
    for (int i = 0; i < tensors.n; i++)
        if (!rgi_check(tensors.v[i], op))
            return false;
    return true;
}

static rg_tensor **list_room(int n) { return rgi_scope_alloc((size_t)n * sizeof(rg_tensor *)); }

/* Joins more tensors than an op may have inputs: `inner` joins RG_MAX_INPUTS tensors at a time, and
 * `outer` joins the results. */
static rg_tensor *cat_in_groups(rg_list tensors, int dim, list_function *inner,
                                list_function *outer) {
    int groups = (tensors.n + RG_MAX_INPUTS - 1) / RG_MAX_INPUTS;
    RG_SCOPE();
    rg_tensor **part = list_room(groups);
    if (!part)
        return NULL;
    for (int i = 0; i < groups; i++) {
        int at = i * RG_MAX_INPUTS;
        part[i] = inner((rg_list){ RG_MIN(tensors.n - at, RG_MAX_INPUTS), tensors.v + at }, dim);
        if (!part[i])
            return NULL;
    }
    return rg_escape(outer((rg_list){ groups, part }, dim));
}

static const char list_empty[] = "%s expects a non-empty TensorList";

rg_tensor *(rg_cat)(rg_list tensors, int dim) {
    struct cat_attr a;
    uint64_t at = 0;
    if (!list_check("cat", tensors, RG_VALUE_ERROR,
                    "torch.cat(): expected a non-empty list of Tensors"))
        return NULL;
    for (int i = 0; i < tensors.n; i++)
        RG_FAIL_IF(tensors.v[i]->ndim == 0, "cat",
                   "zero-dimensional tensor (at position %d) cannot be concatenated", i);
    if (!rgi_wrap_dim("cat", dim, cat_first(tensors.n, tensors.v)->ndim, &a.dim))
        return NULL;
    if (tensors.n > RG_MAX_INPUTS)
        return cat_in_groups(tensors, a.dim, rg_cat, rg_cat);
    /* `at` is unsigned, so that a sum that is too large wraps round without undefined behaviour.
     * cat_shape then refuses the sum. */
    for (int i = 0; i < tensors.n; i++) {
        const rg_tensor *x = tensors.v[i];
        a.start[i] = (int64_t)at;
        if (!cat_skips(x) && a.dim < x->ndim)
            at += (uint64_t)x->size[a.dim];
    }
    return rgi_apply(&rg_op_cat, &a,
                     offsetof(struct cat_attr, start) + (size_t)tensors.n * sizeof a.start[0],
                     tensors.n, tensors.v);
}

/* ---- stack: tensors along a new dim; the gradient of tensor i is g at index i of that dim ---- */

struct stack_attr {
    int dim;
};

static bool stack_shape(rg_call *c) {
    rg_tensor *y = c->out[0];
    int dim = RG_ATTR(c, stack)->dim;
    const rg_tensor *x = c->in[0];
    for (int i = 1; i < c->n_in; i++)
        RG_FAIL_IF(!rgi_same_shape(x, c->in[i]), NULL,
                   "stack expects each tensor to be equal size, but got %s at entry 0 and %s at "
                   "entry %d",
                   RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(c->in[i]), i);
    y->ndim = x->ndim + 1;
    for (int d = 0; d < y->ndim; d++)
        y->size[d] = d == dim ? c->n_in : x->size[d - (d > dim)];
    return true;
}

static bool stack_forward(rg_call *c) {
    for (int i = 0; i < c->n_in; i++) {
        RG_PART_HEADER(part, c->out[0], (&(rg_part){ RG_PART_INDEX(RG_ATTR(c, stack)->dim, i) }));
        rgi_copy_elements(&part, c->in[i]);
    }
    return true;
}

static rg_tensor *stack_rule(const rg_step *s, rg_tensor *g) {
    return rg_select(g, RG_ATTR(s, stack)->dim, s->input);
}

RG_OP(stack, RG_WITH(stack), .moves = true, .doc = "tensors joined along a new dim",
      .node = "StackBackward0", .typing = RG_PROMOTED, RG_MADE(stack),
      .grad = { RG_RULE(0, stack_rule) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(stack, 0) }, { "(2,3) (2,3) (2,3)", RG_A(stack, 1) },
                 { "(2,3)", RG_A(stack, 2) }, { "() ()", RG_A(stack, 0) },
                 { "(0) (0)", RG_A(stack, 0) }));

rg_tensor *(rg_stack)(rg_list tensors, int dim) {
    struct stack_attr a;
    if (!list_check("stack", tensors, RG_RUNTIME_ERROR, list_empty))
        return NULL;
    int ndim = tensors.v[0]->ndim + 1;
    if (!rgi_check_dims("stack", ndim) || !rgi_wrap_dim("stack", dim, ndim, &a.dim))
        return NULL;
    if (tensors.n > RG_MAX_INPUTS)
        return cat_in_groups(tensors, a.dim, rg_stack, rg_cat);
    return rgi_apply(&rg_op_stack, &a, sizeof a, tensors.n, tensors.v);
}

/* ---- hstack, vstack: cat of tensors that first get at least 1 dim (hstack) or 2 dims
 *      (vstack) ---------------------------------------------------------------- */

/* Gives each tensor at least ndim dims, and joins them. vstack joins along dim 0. hstack joins
 * along dim 1, or along dim 0 if the first tensor has at most one dim. */
static rg_tensor *cat_at_least(const char *op, rg_list tensors, int ndim) {
    if (!list_check(op, tensors, RG_RUNTIME_ERROR, list_empty))
        return NULL;
    RG_AS(op);
    RG_SCOPE();
    rg_tensor **v = list_room(tensors.n);
    if (!v)
        return NULL;
    for (int i = 0; i < tensors.n; i++) {
        v[i] = tensors.v[i];
        while (v[i] && v[i]->ndim < ndim)
            v[i] = rg_unsqueeze(v[i], 0);
        if (!v[i])
            return NULL;
    }
    int dim = ndim == 1 && v[0]->ndim > 1;
    return rg_escape(rg_cat((rg_list){ tensors.n, v }, dim));
}

rg_tensor *rg_hstack(rg_list tensors) { return cat_at_least("hstack", tensors, 1); }
rg_tensor *rg_vstack(rg_list tensors) { return cat_at_least("vstack", tensors, 2); }
