/*
 * reshape.c: views that show all elements in another shape, and copies if the strides allow no
 * view. In the formulas, g is the gradient of the result, and gx the gradient of x.
 */
#include "view.h"

rg_tensor *rgi_rule_reshape(const rg_step *s, rg_tensor *g) {
    return rg_reshape_dims(g, rgi_input_dims(s, 0));
}

/* ---- alias: a view of x that shows all of x unchanged; gx = g ------------------ */

static bool alias_view(rg_call *c) {
    rgi_view_begin(c);
    return rgi_view_end(c);
}

RG_OP(alias, .doc = "x itself, as a view", .node = "AliasBackward0", .n_in = 1, .view = alias_view,
      .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", NULL }, { "()", NULL }, { "(0,2)", NULL }));

/* ---- expand: dims of size 1 become larger, with stride 0. The engine sums g over the expanded
 *      dims --------------------------------------------------------------------- */

struct expand_attr {
    rg_dims shape;
};

bool rgi_may_expand(const char *op, const rg_tensor *x, rg_dims shape) {
    int shift = shape.n - x->ndim;
    RG_FAIL_IF(shift < 0, op,
               "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be "
               "greater or equal to the number of dimensions in the tensor (%d)",
               rgi_scalar_name(x->dtype), RG_SHAPE_TEXT(x), RG_DIMS_TEXT(&shape), shape.n, x->ndim);
    for (int d = shape.n - 1; d >= 0; d--) {
        int64_t size = shape.v[d];
        int64_t from = d < shift ? 1 : x->size[d - shift];
        RG_FAIL_IF(size < 0 && d < shift, op,
                   "The expanded size of the tensor (%lld) isn't allowed in a leading, "
                   "non-existing dimension %d",
                   (long long)size, d);
        RG_FAIL_IF(size < -1 || (from != 1 && size != -1 && from != size), op,
                   "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                   "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                   (long long)size, (long long)from, d, RG_DIMS_TEXT(&shape), RG_SHAPE_TEXT(x));
    }
    return true;
}

/* Makes the view. Fails if x can't be expanded to the shape, or if the number of the view's
 * elements doesn't fit into an int64. */
static bool expand_view(rg_call *c) {
    const rg_dims *want = &RG_ATTR(c, expand)->shape;
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    int shift = want->n - x->ndim;
    if (!rgi_may_expand("expand", x, *want))
        return false;
    rgi_view_begin(c);
    y->ndim = (uint8_t)want->n;
    for (int d = want->n - 1; d >= 0; d--) {
        int64_t from = d < shift ? 1 : x->size[d - shift];
        y->size[d] = want->v[d] == -1 ? from : want->v[d];
        if (from != y->size[d] || x->ndim == 0)
            y->stride[d] = 0;
        else if (d >= shift)
            y->stride[d] = x->stride[d - shift];
        else
            y->stride[d] = d + 1 < want->n ? y->size[d + 1] * y->stride[d + 1] : 1;
    }
    rgi_view_end(c);
    RG_FAIL_IF(y->numel == INT64_MAX, "expand", "numel: integer multiplication overflow");
    return true;
}

RG_OP(expand, .doc = "x with dims of size 1 repeated", .node = "ExpandBackward0", RG_WITH(expand),
      .n_in = 1, .view = expand_view, .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(1,3)", RG_A(expand, RG_D(4, 2, -1)) }, { "()", RG_A(expand, RG_D(2)) },
                 { "()", RG_A(expand, RG_D()) }, { "(1,0)", RG_A(expand, RG_D(3, 0)) }));

rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape) {
    return rgi_check_dims("expand", shape.n) ? RG_APPLY(expand, RG_A(expand, shape), x) : NULL;
}

rg_tensor *(rg_expand_as)(rg_tensor *x, rg_tensor *other) {
    RG_AS("expand_as");
    return rgi_check(other, "expand_as") ? rg_expand_dims(x, rg_shape(other)) : NULL;
}

/* ---- squeeze: x without dims of size 1; gx = g in x's shape -------------------- */

/* The attributes of squeeze: `dims` is a mask of the dims that are removed if their size is 1. */
struct squeeze_attr {
    const char *node;
    uint32_t dims;
};

static bool squeeze_view(rg_call *c) {
    rgi_view_begin(c);
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    y->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->size[d] == 1 && RG_ATTR(c, squeeze)->dims >> d & 1)
            continue;
        y->size[y->ndim] = x->size[d];
        y->stride[y->ndim] = x->stride[d];
        y->ndim++;
    }
    return rgi_view_end(c);
}

RG_OP(squeeze, .doc = "x without dims of size 1", .node = "SqueezeBackward0", .node_of = rgi_named,
      RG_WITH(squeeze), .n_in = 1, .view = squeeze_view, .grad = { RG_RULE(0, rgi_rule_reshape) },
      RG_SAMPLES({ "(2,1,3,1)", RG_A(squeeze, .dims = UINT32_MAX) },
                 { "(2,1,3,1)", RG_A(squeeze, .dims = 2) },
                 { "()", RG_A(squeeze, .dims = UINT32_MAX) },
                 { "(1,0)", RG_A(squeeze, .dims = 3) }));

rg_tensor *rg_squeeze(rg_tensor *x) {
    return RG_APPLY(squeeze, RG_A(squeeze, .dims = UINT32_MAX), x);
}

static rg_tensor *squeeze_at(const char *node, rg_tensor *x, rg_dims dims) {
    struct squeeze_attr a = { .node = node };
    if (!rgi_check(x, "squeeze") || !rgi_check_dims("squeeze", dims.n))
        return NULL;
    if (!rgi_wrap_dims("squeeze", &dims, x->ndim, &a.dims,
                       "dim %d appears multiple times in the list of dims"))
        return NULL;
    return RG_APPLY(squeeze, &a, x);
}

rg_tensor *(rg_squeeze_dim)(rg_tensor *x, int dim) {
    return squeeze_at("SqueezeBackward1", x, RG_DIMS(dim));
}

rg_tensor *rg_squeeze_dims(rg_tensor *x, rg_dims dims) {
    return squeeze_at("SqueezeBackward2", x, dims);
}

/* ---- reshape: x in another shape; gx = g in x's shape -------------------------- */

/* The attributes of reshape. If `own` is set, x is a temporary tensor that nothing else will use.
 * Then the result takes over x's storage, and doesn't count as a view of x. */
struct reshape_attr {
    const char *node;
    rg_dims shape;
    bool own;
};

/* Sets y's strides so that y, whose sizes are set already, shows all elements of x in order.
 * Returns false if there are no such strides. */
static bool reshape_strides(const rg_tensor *x, rg_tensor *y) {
    int dx = x->ndim - 1;
    int dy = y->ndim - 1;
    if (x->flags & RG_CONTIGUOUS) {
        rgi_set_strides(y);
        return true;
    }
    while (dx >= 0) {
        /* x's dims are joined from the last to the first, as long as their strides are those of a
         * single dim. */
        int64_t step = x->stride[dx];
        int64_t count = x->size[dx];
        for (dx--; dx >= 0 && (x->size[dx] == 1 || x->stride[dx] == count * step); dx--)
            count *= x->size[dx];
        for (; dy >= 0 && (count > 1 || y->size[dy] == 1); dy--) {
            if (count % y->size[dy])
                return false;
            y->stride[dy] = step;
            step *= y->size[dy];
            count /= y->size[dy];
        }
    }
    return dy < 0;
}

static bool reshape_view(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_view_begin(c);
    rgi_set_size(y, &RG_ATTR(c, reshape)->shape);
    RG_FAIL_IF(
        !reshape_strides(c->in[0], y), "view",
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead.");
    if (RG_ATTR(c, reshape)->own)
        rgi_view_leave(y);
    return rgi_view_end(c);
}

RG_OP(reshape, .doc = "x in another shape", .node = "ViewBackward0", .node_of = rgi_named,
      RG_WITH(reshape), .n_in = 1, .view = reshape_view, .some_strides = true,
      .grad = { RG_RULE(0, rgi_rule_reshape) },
      RG_SAMPLES({ "(2,6)", RG_A(reshape, .shape = RG_D(3, 4)) },
                 { "()", RG_A(reshape, .shape = RG_D(1, 1)) },
                 { "(0,3)", RG_A(reshape, .shape = RG_D(3, 0)) }));

/* Replaces a size of -1 by numel divided by the product of the other sizes. Fails if a tensor of
 * numel elements can't have this shape. `dim` is for the error message: the dim that is being
 * unflattened, or -1 if the caller isn't unflatten. */
static bool reshape_infer(const char *op, int64_t numel, rg_dims *shape, int dim) {
    if (!rgi_check_dims(op, shape->n))
        return false;
    int64_t rest = 1;
    int infer = -1;
    for (int d = 0; d < shape->n; d++) {
        RG_FAIL_IF(shape->v[d] == -1 && infer >= 0, op, "only one dimension can be inferred");
        RG_FAIL_IF(shape->v[d] < -1, op, "invalid shape dimension %lld at index %d of shape %s",
                   (long long)shape->v[d], d, RG_DIMS_TEXT(shape));
        if (shape->v[d] == -1)
            infer = d;
        else if (__builtin_mul_overflow(rest, shape->v[d], &rest))
            /* No tensor has as many elements as this product, which int64 can't hold. INT64_MAX
             * stands for the product; a later size of 0 still makes it 0. */
            rest = INT64_MAX;
    }
    RG_FAIL_IF(infer >= 0 && rest == 0 && numel == 0, op,
               "cannot reshape tensor of 0 elements into shape %s because the unspecified "
               "dimension size -1 can be any value and is ambiguous",
               RG_DIMS_TEXT(shape));
    bool fits = infer >= 0 ? rest > 0 && numel % rest == 0 : rest == numel;
    RG_FAIL_IF(!fits && dim >= 0, op,
               "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in "
               "the input tensor",
               RG_DIMS_TEXT(shape), dim, (long long)numel);
    RG_FAIL_IF(!fits, op, "shape '%s' is invalid for input of size %lld", RG_DIMS_TEXT(shape),
               (long long)numel);
    if (infer >= 0)
        shape->v[infer] = numel / rest;
    return true;
}

static rg_tensor *reshape_apply(rg_tensor *x, const rg_dims *shape, const char *node, bool own) {
    return RG_APPLY(reshape, RG_A(reshape, node, *shape, own), x);
}

rg_tensor *rgi_reshape_own(const char *node, rg_tensor *x, rg_dims shape) {
    return reshape_apply(rg_contiguous(x), &shape, node, true);
}

rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape) {
    RG_AS("view");
    if (!rgi_check(x, NULL) || !reshape_infer("view", x->numel, &shape, -1))
        return NULL;
    return reshape_apply(x, &shape, NULL, false);
}

rg_tensor *rg_reshape_dims(rg_tensor *x, rg_dims shape) {
    if (!rgi_check(x, "reshape") || !reshape_infer("reshape", x->numel, &shape, -1))
        return NULL;
    rg_tensor fits;
    rgi_set_size(&fits, &shape);
    if (reshape_strides(x, &fits))
        return reshape_apply(x, &shape, x->flags & RG_CONTIGUOUS ? NULL : "ReshapeAliasBackward0",
                             false);
    return RG_COMPOSITE("reshape", rgi_reshape_own("UnsafeViewBackward0", x, shape));
}

rg_tensor *(rg_view_as)(rg_tensor *x, rg_tensor *other) {
    RG_AS("view_as");
    return rgi_check(other, "view_as") ? rg_view_dims(x, rg_shape(other)) : NULL;
}

rg_tensor *(rg_reshape_as)(rg_tensor *x, rg_tensor *other) {
    RG_AS("reshape_as");
    if (!rgi_check(x, "reshape_as") || !rgi_check(other, "reshape_as"))
        return NULL;
    return rg_reshape_dims(x, rg_shape(other));
}

/* ---- flatten: adjacent dims joined to one; unflatten: one dim split into several ---- */

rg_tensor *(rg_flatten)(rg_tensor *x, int start_dim, int end_dim) {
    RG_AS("flatten");
    int start, end;
    if (!rgi_check(x, "flatten") || !rgi_wrap_dim("flatten", start_dim, x->ndim, &start)
        || !rgi_wrap_dim("flatten", end_dim, x->ndim, &end))
        return NULL;
    RG_FAIL_IF(start > end, "flatten",
               "flatten() has invalid args: start_dim cannot come after end_dim");
    if (x->ndim == 0)
        return rg_reshape(x, 1);
    if (start == end)
        return rgi_lend(x);
    rg_dims shape = { .n = x->ndim - (end - start) };
    for (int d = 0; d < shape.n; d++)
        shape.v[d] = x->size[d <= start ? d : d + end - start];
    /* The product overflows only if x has a dim of size 0. The result has no elements either, and 0
     * stands for the product. */
    for (int d = start + 1; d <= end; d++)
        if (__builtin_mul_overflow(shape.v[start], x->size[d], &shape.v[start]))
            shape.v[start] = 0;
    return rg_reshape_dims(x, shape);
}

rg_tensor *(rg_unflatten)(rg_tensor *x, int dim, rg_dims sizes) {
    RG_AS("unflatten");
    int at;
    if (!rgi_check(x, "unflatten") || !rgi_wrap_dim("unflatten", dim, x->ndim, &at))
        return NULL;
    RG_FAIL_IF(sizes.n == 0, "unflatten", "unflatten: sizes must be non-empty");
    RG_FAIL_IF(x->ndim == 0, "unflatten", "Dimension specified as %d but tensor has no dimensions",
               at);
    if (!reshape_infer("unflatten", x->size[at], &sizes, at)
        || !rgi_check_dims("unflatten", x->ndim - 1 + sizes.n))
        return NULL;
    rg_dims shape = { .n = x->ndim - 1 + sizes.n };
    for (int d = 0; d < at; d++)
        shape.v[d] = x->size[d];
    for (int i = 0; i < sizes.n; i++)
        shape.v[at + i] = sizes.v[i];
    for (int d = at + 1; d < x->ndim; d++)
        shape.v[d + sizes.n - 1] = x->size[d];
    return rg_view_dims(x, shape);
}
