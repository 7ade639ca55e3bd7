/*
 * copy.c: new tensors from the elements of others: joined, converted, repeated.
 */
#include "autograd/op.h"

#include <stdio.h>

/* ---- to: another dtype ------------------------------------------------------------ */
/* node: torch's name, if it isn't this op's */
struct to_attr {
    const char *node;
    rg_dtype dtype;
};
static bool to_shape(rg_call *c) {
    return c->out[0]->dtype = RG_ATTR(c, to)->dtype, rgi_shape_same(c);
}
static bool to_forward(rg_call *c) { return rgi_copy_elements(c->out[0], c->in[0]), true; }
RG_OP(to, RG_NAMED(to), .doc = "x in another dtype", .node = "ToCopyBackward0", .n_in = 1,
      RG_MADE(to), .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", RG_A(to, NULL, RG_FLOAT64) }, { "()", RG_A(to, NULL, RG_FLOAT64) },
                 { "(0,2)", RG_A(to, NULL, RG_FLOAT64) }));

rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype) {
    if (!rgi_check(x, "to") || !rgi_check_dtype("to", (int)dtype))
        return NULL;
    return x->dtype == dtype ? rgi_lend(x) : RG_APPLY(to, RG_A(to, node, dtype), x);
}

rg_tensor *rgi_copied(rg_tensor *x) {
    return RG_APPLY(to, RG_A(to, "CopyBackwards", (rg_dtype)x->dtype), x);
}
rg_tensor *rg_to(rg_tensor *x, rg_dtype dtype) { return rgi_to_as(NULL, x, dtype); }
RG_OP(clone, .doc = "x again, in a storage of its own", .node = "CloneBackward0", .n_in = 1,
      .shape = rgi_shape_same, .forward = to_forward, .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", NULL }, { "()", NULL }, { "(0,2)", NULL }));
rg_tensor *rg_clone(rg_tensor *x) { return RG_APPLY(clone, RG_NO_ATTR, x); }

rg_tensor *rg_contiguous(rg_tensor *x) {
    return !rgi_check(x, "contiguous") ? NULL
           : x->flags & RG_CONTIGUOUS  ? rgi_lend(x)
                                       : rg_clone(x);
}

/* ---- cat: one after the other along dim ------------------------------------------ */
/* only as many as there are inputs are kept */
struct cat_attr {
    int dim;
    int64_t start[RG_MAX_INPUTS];
};

/* torch skips 1-d tensors without elements, whatever the shape of the others. */
static bool cat_skips(const rg_tensor *x) { return x->ndim == 1 && x->size[0] == 0; }

static const rg_tensor *cat_first(int n, rg_tensor *const v[]) {
    while (n-- > 1 && cat_skips(*v))
        v++;
    return *v;
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
        RG_FAIL_IF(x->ndim != first->ndim, NULL,
                   "Tensors must have same number of dimensions: got %d and %d", first->ndim,
                   x->ndim);
        for (int d = 0; d < x->ndim; d++)
            RG_FAIL_IF(
                d != dim && x->size[d] != first->size[d], NULL,
                "Sizes of tensors must match except in "
                "dimension %d. Expected size %lld but got size %lld for tensor number %d in the list.",
                dim, (long long)first->size[d], (long long)x->size[d], i);
        RG_FAIL_IF(__builtin_add_overflow(y->size[dim], x->size[dim], &y->size[dim]), NULL,
                   "numel: integer "
                   "multiplication overflow");
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

/* Each input's gradient is its slice of g. */
static rg_tensor *cat_rule(const rg_step *s, rg_tensor *g) {
    const struct cat_attr *a = RG_ATTR(s, cat);
    rg_dims mine = rgi_input_dims(s, s->input);
    return mine.n == 1 && mine.v[0] == 0 ? RG_NONE
                                         : rg_narrow(g, a->dim, a->start[s->input], mine.v[a->dim]);
}
RG_OP(cat, RG_WITH(cat), .doc = "tensors joined along dim", .node = "CatBackward0",
      .typing = RG_PROMOTED, RG_MADE(cat), .grad = { RG_RULE(0, cat_rule) },
      RG_SAMPLES({ "(2,3) (1,3)", RG_A(cat, 0, { 0, 2 }) },
                 { "(2,3) (2,1) (2,2)", RG_A(cat, 1, { 0, 3, 4 }) },
                 { "(0) (2,2)", RG_A(cat, 0, { 0, 0 }) },
                 { "(0,3) (2,3)", RG_A(cat, 0, { 0, 0 }) }));

typedef rg_tensor *list_function(rg_list tensors, int dim);

static bool list_check(const char *op, rg_list tensors, rg_code code, const char *sentence) {
    /* failed already */
    if (tensors.n < 0 || (tensors.n && !tensors.v))
        return rgi_check(NULL, op);
    RG_FAIL_AS_IF(code, tensors.n == 0, op, sentence, op);
    for (int i = 0; i < tensors.n; i++)
        if (!rgi_check(tensors.v[i], op))
            return false;
    return true;
}

static rg_tensor **list_room(int n) {
    return (void *)rgi_own_string((size_t)n * sizeof(rg_tensor *));
}

/* Every so many tensors by themselves, then what comes of that. */
static rg_tensor *cat_in_groups(rg_list tensors, int dim, list_function *inner,
                                list_function *outer) {
    int groups = (tensors.n + RG_MAX_INPUTS - 1) / RG_MAX_INPUTS;
    RG_SCOPE();
    rg_tensor **part = list_room(groups);
    for (int i = 0, at = 0; i < groups && part; i++, at += RG_MAX_INPUTS) {
        part[i] = inner((rg_list){ RG_MIN(tensors.n - at, RG_MAX_INPUTS), tensors.v + at }, dim);
        if (!part[i])
            return NULL;
    }
    return part ? rg_escape(outer((rg_list){ groups, part }, dim)) : NULL;
}

static const char list_empty[] = "%s expects a non-empty TensorList";

rg_tensor *rg_cat(rg_list tensors, int dim) {
    struct cat_attr a;
    int64_t at = 0;
    if (!list_check("cat", tensors, RG_VALUE_ERROR,
                    "torch.cat(): expected a non-empty list of Tensors"))
        return NULL;
    for (int i = 0; i < tensors.n; i++)
        RG_FAIL_IF(tensors.v[i]->ndim == 0, "cat",
                   "zero-dimensional tensor (at position %d) cannot be "
                   "concatenated",
                   i);
    if (!rgi_wrap_dim("cat", dim, cat_first(tensors.n, tensors.v)->ndim, &a.dim))
        return NULL;
    if (tensors.n > RG_MAX_INPUTS)
        return cat_in_groups(tensors, a.dim, rg_cat, rg_cat);
    for (int i = 0; i < tensors.n; i++) {
        const rg_tensor *x = tensors.v[i];
        a.start[i] = at;
        /* cat_shape refuses it */
        if (!cat_skips(x) && a.dim < x->ndim && __builtin_add_overflow(at, x->size[a.dim], &at))
            at = 0;
    }
    return rgi_apply(&rg_op_cat, &a,
                     offsetof(struct cat_attr, start) + (size_t)tensors.n * sizeof a.start[0],
                     tensors.n, tensors.v);
}

/* ---- stack: one after the other along a new dim ---------------------------------- */
struct stack_attr {
    int dim;
};
static bool stack_shape(rg_call *c) {
    rg_tensor *y = c->out[0];
    int dim = RG_ATTR(c, stack)->dim;
    const rg_tensor *x = c->in[0];
    for (int i = 1; i < c->n_in; i++)
        RG_FAIL_IF(!rgi_same_shape(x, c->in[i]), NULL,
                   "stack expects each tensor to be equal size, but got %s "
                   "at entry 0 and %s at entry %d",
                   RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(c->in[i]), i);
    y->ndim = x->ndim + 1;
    for (int d = 0; d < y->ndim; d++)
        y->size[d] = d == dim ? c->n_in : x->size[d - (d > dim)];
    return true;
}

static bool stack_forward(rg_call *c) {
    for (int i = 0; i < c->n_in; i++) {
        RG_PART_HEADER(part, *c->out[0], (&(rg_part){ RG_PART_INDEX(RG_ATTR(c, stack)->dim, i) }));
        rgi_copy_elements(&part, c->in[i]);
    }
    return true;
}

RULE(stack_rule, g, rg_select(g, RG_ATTR(s, stack)->dim, s->input))
RG_OP(stack, RG_WITH(stack), .doc = "tensors joined along a new dim", .node = "StackBackward0",
      .typing = RG_PROMOTED, RG_MADE(stack), .grad = { RULED(stack_rule) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(stack, 0) }, { "(2,3) (2,3) (2,3)", RG_A(stack, 1) },
                 { "(2,3)", RG_A(stack, 2) }, { "() ()", RG_A(stack, 0) },
                 { "(0) (0)", RG_A(stack, 0) }));

rg_tensor *rg_stack(rg_list tensors, int dim) {
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

/* Joined along dim, each with at least so many dims; hstack joins vectors along their only one. */
static rg_tensor *cat_at_least(const char *op, rg_list tensors, int ndim) {
    if (!list_check(op, tensors, RG_RUNTIME_ERROR, list_empty))
        return NULL;
    RG_AS(op);
    RG_SCOPE();
    rg_tensor **v = list_room(tensors.n);
    for (int i = 0; i < tensors.n && v; i++) {
        v[i] = tensors.v[i];
        while (v[i] && v[i]->ndim < ndim)
            v[i] = rg_unsqueeze(v[i], 0);
        if (!v[i])
            return NULL;
    }
    return v ? rg_escape(rg_cat((rg_list){ tensors.n, v }, ndim == 1 && v[0]->ndim > 1)) : NULL;
}

rg_tensor *rg_hstack(rg_list tensors) { return cat_at_least("hstack", tensors, 1); }
rg_tensor *rg_vstack(rg_list tensors) { return cat_at_least("vstack", tensors, 2); }

/* ---- repeat: x over and over, so often along each dim; the gradient is summed over that ---- */
struct repeat_attr {
    rg_dims times;
};
static bool repeat_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    rg_dims shape = RG_ATTR(c, repeat)->times;
    int first = shape.n - x->ndim;
    for (int d = first; d < shape.n; d++)
        if (__builtin_mul_overflow(shape.v[d], x->size[d - first], &shape.v[d]))
            shape.v[d] = INT64_MAX;
    rgi_set_size(c->out[0], &shape);
    return rgi_dims_numel(NULL, &shape) >= 0;
}

/* y[i] = y[i - filled] along dim, of a block that grows to its whole size */
static bool repeat_forward(rg_call *c) {
    const rg_tensor *y = c->out[0], *x = c->in[0];
    int shift = y->ndim - x->ndim;
    if (y->numel == 0)
        return true;
    rg_tensor block = *y;
    for (int d = 0; d < y->ndim; d++)
        block.size[d] = d < shift ? 1 : x->size[d - shift];
    rgi_update_flags(&block);
    rgi_copy_elements(&block, x);
    for (int d = y->ndim - 1; d >= 0; d--)
        while (block.size[d] < y->size[d]) {
            rg_part again = { RG_PART_RANGE(d, 0, RG_MIN(block.size[d], y->size[d] - block.size[d]),
                                            1) };
            RG_PART_HEADER(from, block, &again);
            k_copy_into(&block, &from, d, block.size[d]);
            block.size[d] += from.size[d];
        }
    return true;
}

static rg_tensor *repeat_rule(const rg_step *s, rg_tensor *g) {
    const rg_dims *times = &RG_ATTR(s, repeat)->times;
    rg_dims shape = rgi_input_dims(s, 0);
    int64_t before = 1;
    if (g->numel == 0)
        return rg_zeros_dims(shape, (rg_dtype)g->dtype);
    for (int d = 0; d < times->n && g; d++) {
        int64_t size = d < times->n - shape.n ? 1 : shape.v[d - (times->n - shape.n)];
        if (times->v[d] > 1)
            g = rg_sum_dim(rg_reshape(g, before, times->v[d], size, -1), 1, false);
        before *= size;
    }
    return rg_reshape_dims(g, shape);
}
RG_OP(repeat, RG_WITH(repeat), .doc = "x over and over, so often along each dim",
      .node = "RepeatBackward0", .n_in = 1, RG_MADE(repeat), .grad = { RG_RULE(0, repeat_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(repeat, RG_D(2, 3)) },
                 { "(2,1,3)", RG_A(repeat, RG_D(2, 1, 3, 2)) }, { "()", RG_A(repeat, RG_D(3)) },
                 { "()", RG_A(repeat, RG_D()) }, { "(2,3)", RG_A(repeat, RG_D(0, 1)) },
                 { "(0,3)", RG_A(repeat, RG_D(2, 2)) }));

rg_tensor *rg_repeat_dims(rg_tensor *x, rg_dims repeats) {
    if (!rgi_check(x, "repeat") || !rgi_check_dims("repeat", repeats.n))
        return NULL;
    RG_FAIL_IF(repeats.n < x->ndim, "repeat",
               "Number of dimensions of repeat dims can not be smaller than "
               "number of dimensions of tensor");
    return RG_APPLY(repeat, RG_A(repeat, repeats), x);
}

rg_tensor *rg_tile_dims(rg_tensor *x, rg_dims repeats) {
    if (!rgi_check(x, "tile") || !rgi_check_dims("tile", repeats.n))
        return NULL;
    rg_dims times = { .n = RG_MAX(repeats.n, x->ndim) };
    int first = times.n - repeats.n;
    for (int d = 0; d < times.n; d++)
        times.v[d] = d < first ? 1 : repeats.v[d - first];
    RG_AS("tile");
    return rg_repeat_dims(x, times);
}

/* ---- flip: backwards along some dims --------------------------------------------- */
struct flip_attr {
    uint32_t dims;
};
static bool flip_forward(rg_call *c) {
    rg_tensor x = *c->in[0];
    for (int d = 0; d < x.ndim && x.numel; d++) {
        rg_part backwards = { RG_PART_RANGE(d, x.size[d] - 1, x.size[d], -1) };
        if (RG_ATTR(c, flip)->dims >> d & 1)
            rgi_take_part(&x, &backwards);
    }
    rgi_copy_elements(c->out[0], &x);
    return true;
}

RULE(flip_rule, g, RG_APPLY(flip, RG_ATTR(s, flip), g))
RG_OP(flip, RG_WITH(flip), .doc = "x backwards along some dims", .node = "FlipBackward0", .n_in = 1,
      .shape = rgi_shape_same, .forward = flip_forward, .grad = { RULED(flip_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(flip, 1) }, { "(2,3,4)", RG_A(flip, 6) }, { "()", RG_A(flip, 0) },
                 { "(0,3)", RG_A(flip, 3) }));

rg_tensor *rg_flip_dims(rg_tensor *x, rg_dims dims) {
    struct flip_attr a;
    return rgi_check(x, "flip") && rgi_check_dims("flip", dims.n)
                   && rgi_wrap_dims("flip", &dims, x->ndim, &a.dims,
                                    "dim %d appears multiple times in the list of dims")
               ? RG_APPLY(flip, &a, x)
               : NULL;
}

/* ---- roll: y[(i + shift) mod n] = x[i] along some dims --------------------------- */
/* in [0, n); flat: of the flattened tensor */
struct roll_attr {
    bool flat;
    int64_t shift[RG_MAX_DIMS];
};
static bool roll_forward(rg_call *c) {
    const struct roll_attr *a = RG_ATTR(c, roll);
    rg_tensor *all = c->out[0],
              *whole = a->flat ? rgi_contiguous_copy(c->in[0], (rg_dtype)all->dtype) : c->in[0];
    if (!whole)
        return false;
    rg_tensor x = a->flat ? rgi_flat(*whole) : *whole, y = a->flat ? rgi_flat(*all) : *all;
    /* a bit a dim: what starts again */
    for (unsigned part = 0; part < 1u << x.ndim && x.numel; part++) {
        rg_tensor to = y, from = x;
        for (int d = 0; d < x.ndim; d++) {
            int64_t k = a->shift[d], stays = x.size[d] - k;
            bool again = part >> d & 1;
            rgi_take_part(&from,
                          &(rg_part){ RG_PART_RANGE(d, again ? stays : 0, again ? k : stays, 1) });
            rgi_take_part(&to, &(rg_part){ RG_PART_RANGE(d, again ? 0 : k, again ? k : stays, 1) });
        }
        rgi_copy_elements(&to, &from);
    }
    if (a->flat)
        rgi_release(whole);
    return true;
}

static rg_tensor *roll_rule(const rg_step *s, rg_tensor *g) {
    struct roll_attr a = *RG_ATTR(s, roll);
    for (int d = 0; d < (a.flat ? 1 : g->ndim); d++)
        if (a.shift[d])
            a.shift[d] = (a.flat ? g->numel : g->size[d]) - a.shift[d];
    return RG_APPLY(roll, &a, g);
}
RG_OP(roll, RG_WITH(roll), .doc = "y[(i + shift) mod n] = x[i] along some dims",
      .node = "RollBackward0", .n_in = 1, .shape = rgi_shape_same, .forward = roll_forward,
      .grad = { RG_RULE(0, roll_rule) },
      RG_SAMPLES({ "(2,3,4)", RG_A(roll, false, { 1, 0, 3 }) },
                 { "(2,3)", RG_A(roll, true, { 4 }) }, { "()", RG_A(roll, true, { 0 }) },
                 { "(0,3)", RG_A(roll, false, { 0, 1 }) }));

rg_tensor *rg_roll_dims(rg_tensor *x, rg_dims shifts, rg_dims dims) {
    struct roll_attr a = { .flat = dims.n == 0 && shifts.n == 1 };
    if (!rgi_check(x, "roll") || !rgi_check_dims("roll", dims.n)
        || !rgi_check_dims("roll", shifts.n))
        return NULL;
    RG_FAIL_IF(shifts.n == 0, "roll", "`shifts` required");
    RG_FAIL_IF(shifts.n != dims.n && !a.flat, "roll",
               "shifts and dimensions must align. shifts: %d, dims:%d", shifts.n, dims.n);
    if (x->numel == 0 && dims.n == 1)
        return RG_APPLY(roll, &a, x); /* whatever the dim */
    for (int i = 0, d = 0; i < shifts.n; i++) {
        RG_FAIL_INDEX_IF(x->ndim == 0 && dims.n, "roll",
                         "Dimension specified as %lld but tensor has no "
                         "dimensions",
                         (long long)dims.v[i]);
        if (dims.n && !rgi_wrap_dim("roll", dims.v[i], x->ndim, &d))
            return NULL;
        int64_t n = a.flat ? x->numel : x->size[d];
        int64_t shift = n ? shifts.v[i] % n : 0, *all = &a.shift[d];
        if (shift < 0)
            shift += n;
        *all = *all >= n - shift ? *all - (n - shift) : *all + shift;
    }
    return RG_APPLY(roll, &a, x);
}

rg_tensor *rg_roll(rg_tensor *x, int64_t shift, int dim) {
    return rg_roll_dims(x, RG_DIMS(shift), RG_DIMS(dim));
}

/* ---- tril, triu: what is on one side of a diagonal, zeros on the other ----------- */
struct tril_attr {
    int64_t diagonal;
};
static bool tril_shape(rg_call *c) {
    RG_FAIL_IF(c->in[0]->ndim < 2, c->op->name, "%s: input tensor must have at least 2 dimensions",
               c->op->name);
    return rgi_shape_same(c);
}

static bool tril_forward(rg_call *c) {
    rgi_copy_elements(c->out[0], c->in[0]);
    k_clear_triangle(c->out[0], RG_ATTR(c, tril)->diagonal, RG_IS(c->op, tril));
    return true;
}

RULE(tril_rule, g, rgi_apply(s->op, s->attr, sizeof(struct tril_attr), 1, &g))

#define TRIL_ROW                                                                         \
    RG_WITH(tril), .n_in = 1, RG_MADE(tril), .grad = { RULED(tril_rule) },               \
                   RG_SAMPLES({ "(3,3)", RG_A(tril, 0) }, { "(2,3,4)", RG_A(tril, 1) },  \
                              { "(2,4,3)", RG_A(tril, -2) }, { "(2,2)", RG_A(tril, 7) }, \
                              { "(0,3)", RG_A(tril, 0) })
RG_OP(tril, .doc = "x on and below a diagonal, else 0", .node = "TrilBackward0", TRIL_ROW);
RG_OP(triu, .doc = "x on and above a diagonal, else 0", .node = "TriuBackward0", TRIL_ROW);
rg_tensor *rg_tril(rg_tensor *x, int64_t diagonal) {
    return RG_APPLY(tril, RG_A(tril, diagonal), x);
}
rg_tensor *rg_triu(rg_tensor *x, int64_t diagonal) {
    return RG_APPLY(triu, RG_A(tril, diagonal), x);
}

/* ---- pad: more, or fewer, elements at the ends of the last dims ---------------------
 * Constant ones, or along each dim those of x at indices that go back (reflect), stay at
 * the end (replicate), or start again (circular). */
struct pad_attr {
    const char *node;
    rg_dims padding;
    rg_pad_mode mode;
    double value;
};

/* What is added along dim d at its beginning, or its end. */
static int64_t pad_at(const struct pad_attr *a, int ndim, int d, bool end) {
    int at = 2 * (ndim - 1 - d) + end;
    return at < a->padding.n ? a->padding.v[at] : 0;
}

/* "H: 3, W: 4": the last n sizes, as torch calls them. */
static const char *pad_text(const rg_tensor *t, int n, const char *between, char text[96]) {
    for (int i = n, used = 0; i > 0; i--)
        used += snprintf(text + used, 96 - (size_t)used, "%s%c: %lld", i == n ? "" : between,
                         "DHW"[3 - i], (long long)t -> size[t->ndim - i]);
    return text;
}

static bool pad_shape(rg_call *c) {
    const struct pad_attr *a = RG_ATTR(c, pad);
    rg_tensor *y = c->out[0], *x = c->in[0];
    int n = a->padding.n / 2;
    bool empty = false, small = n > 0, mirrors = a->mode == RG_REFLECT || a->mode == RG_REPLICATE;
    rgi_copy_shape(y, x);
    for (int d = x->ndim == n + 2; d < x->ndim; d++)
        empty = empty || x->size[d] == 0;
    RG_FAIL_IF(mirrors && empty, NULL,
               "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size "
               "and other non-zero dimensions for input, but got: %s",
               n + 1, n + 2, RG_SHAPE_TEXT(x));
    for (int d = x->ndim - 1; d >= x->ndim - n; d--) {
        int64_t left = pad_at(a, x->ndim, d, false), right = pad_at(a, x->ndim, d, true),
                size = x->size[d];
        int64_t *sum = &y->size[d];
        RG_FAIL_IF(
            __builtin_add_overflow(size, left, sum) || __builtin_add_overflow(*sum, right, sum),
            NULL,
            "The input size %lld, plus negative padding %lld and %lld resulted in a negative output "
            "size, which is invalid. Check dimension %d of your input.",
            (long long)size, (long long)left, (long long)right, d);
        RG_FAIL_IF(
            a->mode == RG_REFLECT && (left >= size || right >= size), NULL,
            "Argument #%d: Padding "
            "size should be less than the corresponding input dimension, but got: padding (%lld, %lld) "
            "at dimension %d of input %s",
            4 + 2 * (x->ndim - 1 - d), (long long)left, (long long)right, d, RG_SHAPE_TEXT(x));
        RG_FAIL_IF(a->mode == RG_CIRCULAR && (left > size || right > size), NULL,
                   "Padding value causes "
                   "wrapping around more than once.");
        int64_t kept = size + RG_MIN(left, 0) + RG_MIN(right, 0);
        RG_FAIL_IF(a->mode == RG_CIRCULAR && (y->size[d] < 0 || (kept <= 0 && y->size[d] > 0)),
                   NULL, "Negative padding value is resulting in an empty dimension");
        RG_FAIL_IF(a->mode == RG_CONSTANT && kept < 0, NULL,
                   "narrow(): length must be non-negative.");
        small = small && y->size[d] < 1; /* torch asks for one dim that is not */
    }
    RG_FAIL_IF(mirrors && small, NULL, "input (%s) is too small. Calculated output %s",
               pad_text(x, n, n == 2 ? ", " : " ", (char[96]){ 0 }),
               pad_text(y, n, " ", (char[96]){ 0 }));
    rg_dims size = rg_shape(y);
    return rgi_dims_numel(NULL, &size) >= 0;
}

/* For each place of the output along a dim of size n, the place in x. */
static rg_tensor *pad_indices(const struct pad_attr *a, int ndim, int d, int64_t n) {
    int64_t left = pad_at(a, ndim, d, false), right = pad_at(a, ndim, d, true);
    int64_t size = n + left + right, crop = RG_MAX(-left, 0), kept = n - crop - RG_MAX(-right, 0);
    rg_tensor *index = rgi_new(RG_INT64, 1, &size);
    for (int64_t j = 0, *at = index ? (int64_t *)(void *)index->data : NULL; at && j < size; j++) {
        int64_t i = j - left;
        if (a->mode == RG_REFLECT)
            i = i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
        else if (a->mode == RG_REPLICATE)
            i = RG_MAX(RG_MIN(i, n - 1), 0);
        else
            i = crop + ((i - crop) % kept + kept) % kept;
        at[j] = i;
    }
    return index;
}

static bool pad_constant(rg_tensor *y, const rg_tensor *whole, const struct pad_attr *a) {
    rg_tensor to = *y, from = *whole;
    int64_t integer = a->value > -9e18 && a->value < 9e18 ? (int64_t)a->value : INT64_MIN;
    rgi_fill_number(y, a->value, y->dtype == RG_BOOL ? a->value != 0 : integer);
    for (int d = 0; d < from.ndim; d++) {
        int64_t left = pad_at(a, from.ndim, d, false), right = pad_at(a, from.ndim, d, true);
        int64_t kept = from.size[d] + RG_MIN(left, 0) + RG_MIN(right, 0);
        rgi_take_part(&from, &(rg_part){ RG_PART_RANGE(d, RG_MAX(-left, 0), kept, 1) });
        rgi_take_part(&to, &(rg_part){ RG_PART_RANGE(d, RG_MAX(left, 0), kept, 1) });
    }
    rgi_copy_elements(&to, &from);
    return true;
}

static bool pad_forward(rg_call *c) {
    const struct pad_attr *a = RG_ATTR(c, pad);
    rg_tensor *y = c->out[0], *x = c->in[0];
    if (a->mode == RG_CONSTANT)
        return pad_constant(y, x, a);
    if (y->numel == 0)
        return true;
    RG_SCOPE();
    /* one dim after the other */
    for (int d = x->ndim - a->padding.n / 2; d < y->ndim; d++) {
        rg_tensor shape = *x, *index = rgi_own(pad_indices(a, y->ndim, d, x->size[d]));
        shape.size[d] = y->size[d];
        rg_tensor *next = d == y->ndim - 1 ? y : rgi_own(rgi_new_like(&shape, (rg_dtype)y->dtype));
        if (!index || !next)
            return false;
        k_index_slices(K_GET, next, x, d, index);
        x = next;
    }
    return true;
}

static rg_tensor *pad_rule(const rg_step *s, rg_tensor *g) {
    const struct pad_attr *a = RG_ATTR(s, pad);
    rg_dims shape = rgi_input_dims(s, 0), back = a->padding;
    for (int i = 0; i < back.n; i++)
        back.v[i] = -back.v[i];
    if (a->mode == RG_CONSTANT)
        return rg_pad_with(g, back, RG_CONSTANT, 0);
    if (g->numel == 0)
        return rg_zeros_dims(shape, (rg_dtype)g->dtype);
    for (int d = shape.n - 1; d >= shape.n - back.n / 2 && g; d--) {
        rg_dims part = rg_shape(g);
        part.v[d] = shape.v[d];
        g = rg_index_add(rg_zeros_dims(part, (rg_dtype)g->dtype), d,
                         rgi_own(pad_indices(a, shape.n, d, shape.v[d])), g, 1);
    }
    return g;
}
#define PAD(inputs, mode, ...) \
    { inputs, RG_A(pad, NULL, RG_D(__VA_ARGS__), mode, 0) } /* a sample */
RG_OP(pad, RG_NAMED(pad), .doc = "more, or fewer, elements at the ends of the last dims",
      .node = "ConstantPadNdBackward0", .n_in = 1, RG_MADE(pad), .grad = { RG_RULE(0, pad_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(pad, NULL, RG_D(1, 2), RG_CONSTANT, 0.5) },
                 PAD("(2,3,4)", RG_CONSTANT, -1, 2, 1, -2), PAD("()", RG_CONSTANT),
                 PAD("(2,0)", RG_CONSTANT, 1, 1), PAD("(2,4)", RG_REFLECT, 3, 2),
                 PAD("(2,3,4)", RG_REFLECT, -1, 2, 1, -1),
                 PAD("(2,3,2,3)", RG_REPLICATE, 1, 2, 1, 1, 2, 1),
                 PAD("(2,3)", RG_REPLICATE, -2, 3), PAD("(2,3,4)", RG_CIRCULAR, 4, -1, 2, 1),
                 PAD("(0,2,3)", RG_REFLECT, 1, 1)));

rg_tensor *rg_pad_with(rg_tensor *x, rg_dims padding, rg_pad_mode mode, double value) {
    static const char *const nodes[4][4] = {
        [RG_CIRCULAR] = { NULL, "CopySlices", "CopySlices", "CopySlices" },
        [RG_REFLECT] = { NULL, "ReflectionPad1DBackward0", "ReflectionPad2DBackward0",
                         "ReflectionPad3DBackward0" },
        [RG_REPLICATE] = { NULL, "ReplicationPad1DBackward0", "ReplicationPad2DBackward0",
                           "ReplicationPad3DBackward0" }
    };
    int n = padding.n / 2;
    if (!rgi_check(x, "pad") || !rgi_check_dims("pad", padding.n))
        return NULL;
    RG_FAIL_IF(padding.n % 2, "pad", "Padding length must be divisible by 2");
    RG_FAIL_IF(n > x->ndim, "pad",
               "Padding length should be less than or equal to two times the input "
               "dimension but got padding length %d and input of dimension %d",
               padding.n, x->ndim);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, (unsigned)mode > RG_CIRCULAR, "pad",
                  "Unrecognised padding mode %d", (int)mode);
    RG_FAIL_AS_IF(
        RG_NOT_IMPLEMENTED,
        mode != RG_CONSTANT && (n < 1 || n > 3 || (x->ndim != n + 1 && x->ndim != n + 2)), "pad",
        "Padding size %d is not supported for %dD input tensor. Supported combinations for non-constant "
        "padding: - 2D or 3D input: padding size = 2 (pads last dimension) - 3D or 4D input: padding size = 4 "
        "(pads last 2 dimensions) - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
        padding.n, x->ndim);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, mode == RG_REPLICATE && x->dtype == RG_BOOL, "pad",
                  "\"replication_pad%dd\" not implemented for 'Bool'", n);
    return RG_APPLY(pad, RG_A(pad, mode ? nodes[mode][n] : NULL, padding, mode, value), x);
}
