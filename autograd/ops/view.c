/*
 * view.c: other shapes for the same elements.
 */
#include "autograd/op.h"

/* ---- expand: dims of size 1 become larger, with stride 0 -------------------------------- */

struct expand_attr { rg_dims shape; };

static bool expand_view(rg_call *c)
{
    const rg_dims *want = &RG_ATTR(c, expand)->shape;
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    int shift = want->n - x->ndim;
    char a[192], b[192];
    if (shift < 0)
        return rg_fail(RG_RUNTIME_ERROR, "expand", "the number of sizes provided (%d) must be greater or equal to the number "
                       "of dimensions in the tensor (%d)", want->n, x->ndim);
    y->ndim = (uint8_t)want->n;
    for (int d = 0; d < want->n; d++) {
        int64_t size = want->v[d], from = d < shift ? 1 : x->size[d - shift];
        if (size == -1 && d >= shift) size = from;
        if (size < 0 || (from != 1 && from != size))
            return rg_fail(RG_RUNTIME_ERROR, "expand", "The expanded size of the tensor (%lld) must match the existing size "
                           "(%lld) at non-singleton dimension %d. Target sizes: %s. Tensor sizes: %s", (long long)size,
                           (long long)from, d, rg_shape_text(want->n, want->v, a), rg_shape_text(x->ndim, x->size, b));
        y->size[d] = size;
        y->stride[d] = from == size && d >= shift ? x->stride[d - shift] : 0;
    }
    return rg_view_end(c);
}

/* The engine sums over what was expanded. */
static rg_tensor *expand_rule(const rg_step *s, rg_tensor *g) { (void)s; return g; }

RG_OP(expand, .attr_size = sizeof(struct expand_attr), .doc = "x with dims of size 1 repeated", .node = "ExpandBackward0", .n_in = 1, .view = expand_view,
      .grad = { RG_RULE(0, expand_rule) },
      RG_SAMPLES({ "(1,3)", RG_A(expand, RG_D(2, 3)) }, { "(2,1)", RG_A(expand, RG_D(4, -1, 3)) },
                 { "()", RG_A(expand, RG_D(2)) }, { "()", RG_A(expand, RG_D()) }, { "(1,0)", RG_A(expand, RG_D(3, 0)) }));

rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape)
{
    return rg_check_dims("expand", shape.n) ? RG_APPLY(expand, (&(struct expand_attr){ shape }), x) : NULL;
}

/* ---- select: the part at one index; the dim goes ------------------------------------------ */

struct select_attr { int dim; int64_t index; };

static bool select_view(rg_call *c)
{
    const struct select_attr *a = RG_ATTR(c, select);
    rg_view_begin(c);
    rg_tensor *y = c->out[0];
    y->data += a->index * y->stride[a->dim] * (int64_t)rg_sizeof(y->dtype);
    y->ndim--;
    for (int d = a->dim; d < y->ndim; d++) {
        y->size[d] = y->size[d + 1];
        y->stride[d] = y->stride[d + 1];
    }
    return rg_view_end(c);
}

/* Zeros with g at the index: by cat, so that it can be differentiated again. */
static rg_tensor *select_rule(const rg_step *s, rg_tensor *g)
{
    const struct select_attr *a = RG_ATTR(s, select);
    rg_dims before = rg_input_dims(s, 0), after = before;
    before.v[a->dim] = a->index;
    after.v[a->dim] -= a->index + 1;
    rg_dtype dtype = rg_input_dtype(s, 0);
    return rg_cat(RG_LIST(rg_zeros_dims(before, dtype), rg_unsqueeze(g, a->dim), rg_zeros_dims(after, dtype)), a->dim);
}

static bool select_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer)
{
    const struct select_attr *a = RG_ATTR(s, select);
    rg_tensor *part = rg_select(buffer, a->dim, a->index);
    if (part) k_add(part, (rg_tensor *[]){ part, g });
    return part != NULL;
}

RG_OP(select, .attr_size = sizeof(struct select_attr), .doc = "x at one index of dim", .node = "SelectBackward0", .n_in = 1, .view = select_view,
      .grad = { RG_RULE_INTO(0, select_rule, select_into) },
      RG_SAMPLES({ "(2,3)", RG_A(select, 0, 1) }, { "(2,3,4)", RG_A(select, 1, 0) }, { "(3)", RG_A(select, 0, 2) },
                 { "(2,0)", RG_A(select, 0, 1) }));

rg_tensor *rg_select(rg_tensor *x, int dim, int64_t index)
{
    struct select_attr a = { .index = index };
    if (!rg_check(x, "select")) return NULL;
    if (x->ndim == 0) return rg_fail(RG_INDEX_ERROR, "select", "select() cannot be applied to a 0-dim tensor.");
    if (!rg_wrap_dim("select", dim, x->ndim, &a.dim)) return NULL;
    if (index < -x->size[a.dim] || index >= x->size[a.dim])
        return rg_fail(RG_INDEX_ERROR, "select", "index %lld is out of bounds for dimension %d with size %lld",
                       (long long)index, a.dim, (long long)x->size[a.dim]);
    if (index < 0) a.index += x->size[a.dim];
    return RG_APPLY(select, &a, x);
}

/* ---- slice: start, start + step, .. along dim ------------------------------------------ */

struct slice_attr { int dim; int64_t start, length, step; };

static bool slice_view(rg_call *c)
{
    const struct slice_attr *a = RG_ATTR(c, slice);
    rg_view_begin(c);
    rg_tensor *y = c->out[0];
    y->data += a->start * y->stride[a->dim] * (int64_t)rg_sizeof(y->dtype);
    y->size[a->dim] = a->length;
    y->stride[a->dim] *= a->step;
    return rg_view_end(c);
}

/* Zeros with g at the slice's places: scattered, so that it can be differentiated again. */
static rg_tensor *slice_rule(const rg_step *s, rg_tensor *g)
{
    const struct slice_attr *a = RG_ATTR(s, slice);
    rg_dims along = { .n = g->ndim }, shape = rg_input_dims(s, 0);
    for (int d = 0; d < along.n; d++) along.v[d] = d == a->dim ? a->length : 1;
    rg_tensor *index = rg_arange_step(a->start, a->start + a->length * a->step, a->step);
    index = rg_expand_as(rg_reshape_dims(index, along), g);
    return rg_scatter(rg_zeros_dims(shape, rg_input_dtype(s, 0)), a->dim, index, g);
}

static bool slice_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer)
{
    const struct slice_attr *a = RG_ATTR(s, slice);
    rg_tensor *part = RG_APPLY(slice, a, buffer);
    if (part) k_add(part, (rg_tensor *[]){ part, g });
    return part != NULL;
}

RG_OP(slice, .attr_size = sizeof(struct slice_attr), .doc = "x[start:start + length step:step] along dim", .node = "SliceBackward0", .n_in = 1, .view = slice_view,
      .grad = { RG_RULE_INTO(0, slice_rule, slice_into) },
      RG_SAMPLES({ "(2,3)", RG_A(slice, 1, 1, 2, 1) }, { "(7,2)", RG_A(slice, 0, 1, 3, 2) }, { "(3)", RG_A(slice, 0, 3, 0, 1) },
                 { "(0,2)", RG_A(slice, 1, 0, 1, 1) }));

rg_tensor *rg_narrow(rg_tensor *x, int dim, int64_t start, int64_t length)
{
    struct slice_attr a = { .start = start, .length = length, .step = 1 };
    if (!rg_check(x, "narrow")) return NULL;
    if (x->ndim == 0) return rg_fail(RG_RUNTIME_ERROR, "narrow", "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0) return rg_fail(RG_RUNTIME_ERROR, "narrow", "narrow(): length must be non-negative.");
    if (!rg_wrap_dim("narrow", dim, x->ndim, &a.dim)) return NULL;
    int64_t size = x->size[a.dim];
    if (start < -size || start > size)
        return rg_fail(RG_INDEX_ERROR, "narrow", "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                       (long long)-size, (long long)size, (long long)start);
    if (start < 0) a.start += size;
    if (length > size - a.start)
        return rg_fail(RG_RUNTIME_ERROR, "narrow", "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                       (long long)a.start, (long long)length, (long long)size);
    return RG_APPLY(slice, &a, x);
}

/* ---- transpose: two dims exchanged ------------------------------------------------------- */

struct transpose_attr { int dim0, dim1; };

static bool transpose_view(rg_call *c)
{
    const struct transpose_attr *a = RG_ATTR(c, transpose);
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    if (x->ndim) {
        y->size[a->dim0] = x->size[a->dim1], y->stride[a->dim0] = x->stride[a->dim1];
        y->size[a->dim1] = x->size[a->dim0], y->stride[a->dim1] = x->stride[a->dim0];
    }
    return rg_view_end(c);
}

static rg_tensor *transpose_rule(const rg_step *s, rg_tensor *g)
{
    return rg_transpose(g, RG_ATTR(s, transpose)->dim0, RG_ATTR(s, transpose)->dim1);
}

RG_OP(transpose, .attr_size = sizeof(struct transpose_attr), .doc = "x with two dims exchanged", .node = "TransposeBackward0", .n_in = 1, .view = transpose_view,
      .grad = { RG_RULE(0, transpose_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(transpose, 0, 1) }, { "(2,3,4)", RG_A(transpose, 2, 0) }, { "()", RG_A(transpose, 0, 0) },
                 { "(0,3)", RG_A(transpose, 0, 1) }));

rg_tensor *rg_transpose(rg_tensor *x, int dim0, int dim1)
{
    struct transpose_attr a;
    if (!rg_check(x, "transpose") || !rg_wrap_dim("transpose", dim0, x->ndim, &a.dim0)
        || !rg_wrap_dim("transpose", dim1, x->ndim, &a.dim1)) return NULL;
    return RG_APPLY(transpose, &a, x);
}

rg_tensor *rg_mT(rg_tensor *x)
{
    if (!rg_check(x, "mT")) return NULL;
    if (x->ndim < 2)
        return rg_fail(RG_RUNTIME_ERROR, "mT", "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", x->ndim);
    return rg_transpose(x, -2, -1);
}

/* ---- unsqueeze: a dim of size 1 ------------------------------------------------------------ */

struct unsqueeze_attr { int dim; };

static bool unsqueeze_view(rg_call *c)
{
    int dim = RG_ATTR(c, unsqueeze)->dim;
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    for (int d = y->ndim++; d > dim; d--) y->size[d] = x->size[d - 1], y->stride[d] = x->stride[d - 1];
    y->stride[dim] = dim < x->ndim ? x->size[dim] * x->stride[dim] : 1;
    y->size[dim] = 1;
    return rg_view_end(c);
}

static rg_tensor *unsqueeze_rule(const rg_step *s, rg_tensor *g) { return rg_reshape_dims(g, rg_input_dims(s, 0)); }

RG_OP(unsqueeze, .attr_size = sizeof(struct unsqueeze_attr), .doc = "x with a dim of size 1 more", .node = "UnsqueezeBackward0", .n_in = 1, .view = unsqueeze_view,
      .grad = { RG_RULE(0, unsqueeze_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(unsqueeze, 1) }, { "()", RG_A(unsqueeze, 0) }, { "(0,2)", RG_A(unsqueeze, 2) }));

rg_tensor *rg_unsqueeze(rg_tensor *x, int dim)
{
    struct unsqueeze_attr a;
    if (!rg_check(x, "unsqueeze") || !rg_wrap_dim("unsqueeze", dim, x->ndim + 1, &a.dim)
        || !rg_check_dims("unsqueeze", x->ndim + 1)) return NULL;
    return RG_APPLY(unsqueeze, &a, x);
}

/* ---- reshape: a view where the strides allow it, else a copy ----------------------------------- */

struct reshape_attr { rg_dims shape; };

/* The strides that give x another shape without moving an element; false: none do. */
static bool reshape_strides(const rg_tensor *x, rg_tensor *y)
{
    int dx = x->ndim - 1, dy = y->ndim - 1;
    if (x->numel == 0 || x->flags & RG_CONTIGUOUS) {
        rg_set_strides(y);
        return true;
    }
    while (dx >= 0) {                                   /* the longest run of x's dims that is one even walk */
        int64_t step = x->stride[dx], count = x->size[dx--];
        while (dx >= 0 && (x->size[dx] == 1 || x->stride[dx] == count * step)) count *= x->size[dx--];
        for (; dy >= 0 && (count > 1 || y->size[dy] == 1); dy--) {
            if (count % y->size[dy]) return false;
            y->stride[dy] = step;
            step *= y->size[dy];
            count /= y->size[dy];
        }
        if (count != 1) return false;
    }
    return dy < 0;
}

static bool reshape_view(rg_call *c)
{
    const rg_dims *shape = &RG_ATTR(c, reshape)->shape;
    rg_view_begin(c);
    rg_tensor *y = c->out[0];
    y->ndim = (uint8_t)shape->n;
    for (int d = 0; d < shape->n; d++) y->size[d] = shape->v[d];
    if (!reshape_strides(c->in[0], y))
        return rg_fail(RG_RUNTIME_ERROR, "view", "view size is not compatible with input tensor's size and stride (at least "
                       "one dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    return rg_view_end(c);
}

static rg_tensor *reshape_rule(const rg_step *s, rg_tensor *g) { return rg_reshape_dims(g, rg_input_dims(s, 0)); }

RG_OP(reshape, .attr_size = sizeof(struct reshape_attr), .doc = "x in another shape", .node = "ViewBackward0", .n_in = 1, .view = reshape_view, .some_strides = true,
      .grad = { RG_RULE(0, reshape_rule) },
      RG_SAMPLES({ "(2,6)", RG_A(reshape, RG_D(3, 4)) }, { "()", RG_A(reshape, RG_D(1, 1)) },
                 { "(0,3)", RG_A(reshape, RG_D(3, 0)) }));

/* One -1 is what is left over. */
static bool reshape_infer(const char *op, const rg_tensor *x, rg_dims *shape)
{
    int64_t rest = 1;
    int infer = -1;
    char text[192];
    if (!rg_check_dims(op, shape->n)) return false;
    for (int d = 0; d < shape->n; d++) {
        if (shape->v[d] == -1 && infer >= 0) return rg_fail(RG_RUNTIME_ERROR, op, "only one dimension can be inferred");
        if (shape->v[d] < -1) return rg_fail(RG_RUNTIME_ERROR, op, "invalid shape dimension %lld", (long long)shape->v[d]);
        if (shape->v[d] == -1) infer = d;
        else if (__builtin_mul_overflow(rest, shape->v[d], &rest)) rest = -1, d = shape->n;
    }
    if (infer >= 0 && rest == 0 && x->numel == 0)
        return rg_fail(RG_RUNTIME_ERROR, op, "cannot reshape tensor of 0 elements into shape %s because the unspecified "
                       "dimension size -1 can be any value and is ambiguous", rg_shape_text(shape->n, shape->v, text));
    if (infer >= 0 && rest > 0 && x->numel % rest == 0) {
        shape->v[infer] = x->numel / rest;
    } else if (infer >= 0 || rest != x->numel) {
        return rg_fail(RG_RUNTIME_ERROR, op, "shape '%s' is invalid for input of size %lld",
                       rg_shape_text(shape->n, shape->v, text), (long long)x->numel);
    }
    return true;
}

rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape)
{
    if (!rg_check(x, "view") || !reshape_infer("view", x, &shape)) return NULL;
    return RG_APPLY(reshape, (&(struct reshape_attr){ shape }), x);
}

rg_tensor *rg_reshape_dims(rg_tensor *x, rg_dims shape)
{
    if (!rg_check(x, "reshape") || !reshape_infer("reshape", x, &shape)) return NULL;
    rg_tensor fits = { .ndim = (uint8_t)shape.n };
    for (int d = 0; d < shape.n; d++) fits.size[d] = shape.v[d];
    if (!reshape_strides(x, &fits)) x = rg_contiguous(x);
    return RG_APPLY(reshape, (&(struct reshape_attr){ shape }), x);
}

rg_tensor *rg_expand_as(rg_tensor *x, rg_tensor *other)
{
    return rg_check(x, "expand_as") && rg_check(other, "expand_as") ? rg_expand_dims(x, rg_shape(other)) : NULL;
}
