/*
 * view.c: other shapes for the same elements, in the same storage.
 */
#include "autograd/op.h"

#include <stdio.h>

/* A view whose element count doesn't fit has no use, and would never be walked to its end. */
static bool view_end(rg_call *c)
{
    rg_view_end(c);
    if (c->out[0]->numel < INT64_MAX) return true;
    return rg_fail(RG_RUNTIME_ERROR, c->op->name, "numel: integer multiplication overflow");
}

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
        return rg_fail(RG_RUNTIME_ERROR, "expand", "expand(torch.%sTensor{%s}, size=%s): the number of sizes "
                       "provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
                       rg_scalar_name(x->dtype), rg_shape_text(x->ndim, x->size, b),
                       rg_shape_text(want->n, want->v, a), want->n, x->ndim);
    y->ndim = (uint8_t)want->n;
    for (int d = want->n - 1; d >= 0; d--) {
        int64_t size = want->v[d], from = d < shift ? 1 : x->size[d - shift];
        if (size < 0 && d < shift)
            return rg_fail(RG_RUNTIME_ERROR, "expand", "The expanded size of the tensor (%lld) isn't allowed in a "
                           "leading, non-existing dimension %d", (long long)size, d);
        if (size == -1) size = from;
        if (size < 0 || (from != 1 && from != size))
            return rg_fail(RG_RUNTIME_ERROR, "expand", "The expanded size of the tensor (%lld) must match the "
                           "existing size (%lld) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: "
                           "%s", (long long)size, (long long)from, d, rg_shape_text(want->n, want->v, a),
                           rg_shape_text(x->ndim, x->size, b));
        y->size[d] = size;
        y->stride[d] = from == size && d >= shift ? x->stride[d - shift] : 0;
    }
    return view_end(c);
}

/* The engine sums over what was expanded. */
static rg_tensor *expand_rule(const rg_step *s, rg_tensor *g) { (void)s; return g; }

RG_OP(expand, .attr_size = sizeof(struct expand_attr), .doc = "x with dims of size 1 repeated",
      .node = "ExpandBackward0", .n_in = 1, .view = expand_view, .grad = { RG_RULE(0, expand_rule) },
      RG_SAMPLES({ "(1,3)", RG_A(expand, RG_D(2, 3)) }, { "(2,1)", RG_A(expand, RG_D(4, -1, 3)) },
                 { "()", RG_A(expand, RG_D(2)) }, { "()", RG_A(expand, RG_D()) },
                 { "(1,0)", RG_A(expand, RG_D(3, 0)) }));

rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape)
{
    return rg_check_dims("expand", shape.n) ? RG_APPLY(expand, (&(struct expand_attr){ shape }), x) : NULL;
}

rg_tensor *rg_expand_as(rg_tensor *x, rg_tensor *other)
{
    return rg_check(x, "expand_as") && rg_check(other, "expand_as") ? rg_expand_dims(x, rg_shape(other)) : NULL;
}

/* ---- slices: what selects a part of x ------------------------------------------------------
 * select, slice, diagonal, and what is made of them (split, unbind). The gradient is
 * zeros with g in the part's place: the op unslice, whose own derivative is the slice. */

struct select_attr {
    enum { AT_INDEX, AT_RANGE, AT_DIAGONAL } part;
    int         dim, dim2;
    int64_t     start, length, step;    /* start: the index; the diagonal's offset */
    const char *node;                   /* torch's name, if it isn't the row's */
};
#define slice_attr    select_attr
#define diagonal_attr select_attr
#define SLICE_INDEX(dim_, at)             .part = AT_INDEX, .dim = dim_, .start = at
#define SLICE_RANGE(dim_, from, n, by)    .part = AT_RANGE, .dim = dim_, .start = from, .length = n, .step = by
#define SLICE_DIAGONAL(dim_, dim2_, at, n) .part = AT_DIAGONAL, .dim = dim_, .dim2 = dim2_, .start = at, .length = n

/* Narrows the header down to the part; it must be within. */
static void slice_header(rg_tensor *t, const struct select_attr *a)
{
    int64_t *size = t->size, *stride = t->stride, start = (int64_t)((uint64_t)a->start * (uint64_t)stride[a->dim]);
    int gone = a->part == AT_INDEX ? a->dim : -1;
    if (a->part == AT_RANGE) {                          /* of at most one element, the stride may be anything */
        size[a->dim] = a->length;
        stride[a->dim] = (int64_t)((uint64_t)stride[a->dim] * (uint64_t)a->step);
    } else if (a->part == AT_DIAGONAL) {
        start = a->start < 0 ? -start : a->start * stride[a->dim2];
        int64_t step = stride[a->dim] + stride[a->dim2];
        int low = RG_MIN(a->dim, a->dim2), high = RG_MAX(a->dim, a->dim2), last = t->ndim - 1;
        for (int d = low; d < last; d++) {
            int from = d + 1 + (d + 1 >= high);
            if (from <= last) size[d] = size[from], stride[d] = stride[from];
        }
        t->ndim--;
        size[last - 1] = a->length;
        stride[last - 1] = step;
    }
    if (gone >= 0) {
        t->ndim--;
        for (int d = gone; d < t->ndim; d++) size[d] = size[d + 1], stride[d] = stride[d + 1];
    }
    if (a->part != AT_INDEX && a->length == 0) start = 0;
    t->data += start * (int64_t)rg_sizeof(t->dtype);
    rg_update_flags(t);
}

static bool slice_view(rg_call *c)
{
    rg_view_begin(c);
    slice_header(c->out[0], RG_ATTR(c, select));
    return true;
}

static const char *slice_node(const void *attr)
{
    const struct select_attr *a = attr;
    static const char *const nodes[] = { "SelectBackward0", "SliceBackward0", "DiagonalBackward0" };
    return a->node ? a->node : nodes[a->part];
}

struct unslice_attr { struct select_attr at; rg_dims shape; };

static rg_tensor *slice_rule(const rg_step *s, rg_tensor *g)
{
    struct unslice_attr a = { *RG_ATTR(s, select), rg_input_dims(s, 0) };
    a.at.node = NULL;
    return RG_APPLY(unslice, &a, g);
}

static bool slice_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer)
{
    rg_tensor part = *buffer;
    slice_header(&part, RG_ATTR(s, select));
    k_add(&part, (rg_tensor *[]){ &part, g });
    return true;
}

#define SLICE_ROW \
    .attr_size = sizeof(struct select_attr), .node_of = slice_node, .n_in = 1, .view = slice_view, \
    .grad = { RG_RULE_INTO(0, slice_rule, slice_into) }

RG_OP(select, .doc = "x at one index of dim", SLICE_ROW,
      RG_SAMPLES({ "(2,3)", RG_A(select, SLICE_INDEX(0, 1)) }, { "(2,3,4)", RG_A(select, SLICE_INDEX(1, 0)) },
                 { "(3)", RG_A(select, SLICE_INDEX(0, 2)) }, { "(2,0)", RG_A(select, SLICE_INDEX(0, 1)) }));
RG_OP(slice, .doc = "x[start:start + length step:step] along dim", SLICE_ROW,
      RG_SAMPLES({ "(2,3)", RG_A(slice, SLICE_RANGE(1, 1, 2, 1)) }, { "(7,2)", RG_A(slice, SLICE_RANGE(0, 1, 3, 2)) },
                 { "(3)", RG_A(slice, SLICE_RANGE(0, 3, 0, 1)) }, { "(2,0,3)", RG_A(slice, SLICE_RANGE(2, 0, 2, 2)) }));
RG_OP(diagonal, .doc = "the elements x[.., i, i + offset, ..]", SLICE_ROW,
      RG_SAMPLES({ "(3,3)", RG_A(diagonal, SLICE_DIAGONAL(0, 1, 0, 3)) },
                 { "(2,3,4)", RG_A(diagonal, SLICE_DIAGONAL(2, 0, 1, 1)) },
                 { "(4,2,3)", RG_A(diagonal, SLICE_DIAGONAL(0, 2, -2, 2)) },
                 { "(2,3)", RG_A(diagonal, SLICE_DIAGONAL(0, 1, 5, 0)) },
                 { "(0,3)", RG_A(diagonal, SLICE_DIAGONAL(0, 1, 0, 0)) }));

static bool unslice_shape(rg_call *c)
{
    const rg_dims *shape = &RG_ATTR(c, unslice)->shape;
    c->out[0]->ndim = (uint8_t)shape->n;
    for (int d = 0; d < shape->n; d++) c->out[0]->size[d] = shape->v[d];
    return true;
}

static bool unslice_forward(rg_call *c)
{
    rg_tensor part = *c->out[0];
    rg_fill_zero(c->out[0]);
    slice_header(&part, &RG_ATTR(c, unslice)->at);
    rg_copy_elements(&part, c->in[0]);
    return true;
}

static const char *unslice_node(const void *attr)
{
    const char *node = ((const struct unslice_attr *)attr)->at.node;
    return node ? node : "UnsliceBackward0";
}

static rg_tensor *unslice_rule(const rg_step *s, rg_tensor *g)
{
    const struct select_attr *a = &RG_ATTR(s, unslice)->at;
    static const rg_op *const slices[] = { &rg_op_select, &rg_op_slice, &rg_op_diagonal };
    return rg_apply(slices[a->part], a, sizeof *a, 1, &g);
}

RG_OP(unslice, .doc = "zeros with x in the place of a slice", .attr_size = sizeof(struct unslice_attr),
      .node_of = unslice_node, .n_in = 1, .shape = unslice_shape, .forward = unslice_forward,
      .grad = { RG_RULE(0, unslice_rule) },
      RG_SAMPLES({ "(3)", RG_A(unslice, { SLICE_INDEX(0, 1) }, RG_D(2, 3)) },
                 { "(2,2)", RG_A(unslice, { SLICE_RANGE(1, 1, 2, 2) }, RG_D(2, 5)) },
                 { "(3,1)", RG_A(unslice, { SLICE_DIAGONAL(2, 0, 1, 1) }, RG_D(2, 3, 4)) },
                 { "(0)", RG_A(unslice, { SLICE_INDEX(0, 1) }, RG_D(2, 0)) }));

static bool diagonal_copy_shape(rg_call *c)
{
    rg_tensor part = *c->in[0];
    slice_header(&part, RG_ATTR(c, select));
    rg_copy_shape(c->out[0], &part);
    return true;
}

static bool diagonal_copy_forward(rg_call *c)
{
    rg_tensor part = *c->in[0];
    slice_header(&part, RG_ATTR(c, select));
    rg_copy_elements(c->out[0], &part);
    return true;
}

RG_OP(diagonal_copy, .doc = "a matrix's diagonal, as a tensor of its own", .attr_size = sizeof(struct select_attr),
      .node = "DiagonalBackward0_copy", .n_in = 1, .shape = diagonal_copy_shape, .forward = diagonal_copy_forward,
      .grad = { RG_RULE_INTO(0, slice_rule, slice_into) },
      RG_SAMPLES({ "(3,4)", RG_A(select, SLICE_DIAGONAL(0, 1, 1, 3)) },
                 { "(0,4)", RG_A(select, SLICE_DIAGONAL(0, 1, 0, 0)) }));

static rg_tensor *select_as(const char *node, rg_tensor *x, int dim, int64_t index)
{
    return RG_APPLY(select, (&(struct select_attr){ SLICE_INDEX(dim, index), .node = node }), x);
}

static rg_tensor *slice_as(const char *node, rg_tensor *x, int dim, int64_t start, int64_t length, int64_t step)
{
    return RG_APPLY(slice, (&(struct slice_attr){ SLICE_RANGE(dim, start, length, step), .node = node }), x);
}

rg_tensor *rg_select(rg_tensor *x, int dim, int64_t index)
{
    int d;
    char shape[192];
    if (!rg_check(x, "select")) return NULL;
    if (x->ndim == 0) return rg_fail(RG_INDEX_ERROR, "select", "select() cannot be applied to a 0-dim tensor.");
    if (!rg_wrap_dim("select", dim, x->ndim, &d)) return NULL;
    if (index < -x->size[d] || index >= x->size[d])
        return rg_fail(RG_INDEX_ERROR, "select", "select(): index %lld out of range for tensor of size %s at "
                       "dimension %d", (long long)index, rg_shape_text(x->ndim, x->size, shape), d);
    return select_as(NULL, x, d, index < 0 ? index + x->size[d] : index);
}

rg_tensor *rg_narrow(rg_tensor *x, int dim, int64_t start, int64_t length)
{
    int d;
    if (!rg_check(x, "narrow")) return NULL;
    if (x->ndim == 0) return rg_fail(RG_RUNTIME_ERROR, "narrow", "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0) return rg_fail(RG_RUNTIME_ERROR, "narrow", "narrow(): length must be non-negative.");
    if (!rg_wrap_dim("narrow", dim, x->ndim, &d)) return NULL;
    int64_t size = x->size[d];
    if (start < -size || start > size)
        return rg_fail(RG_INDEX_ERROR, "narrow", "start out of range (expected to be in range of [%lld, %lld], but "
                       "got %lld)", (long long)-size, (long long)size, (long long)start);
    if (start < 0) start += size;
    if (length > size - start)
        return rg_fail(RG_RUNTIME_ERROR, "narrow", "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                       (long long)start, (long long)length, (long long)size);
    return slice_as(NULL, x, d, start, length, 1);
}

int64_t rg_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step)
{
    *start = *start < 0 ? RG_MAX(*start + size, 0) : RG_MIN(*start, size);
    end = end < 0 ? end + size : RG_MIN(end, size);
    return end > *start ? (end - *start - 1) / step + 1 : 0;
}

rg_tensor *rg_slice(rg_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    int d;
    if (!rg_check(x, "slice")) return NULL;
    if (x->ndim == 0) return rg_fail(RG_INDEX_ERROR, "slice", "slice() cannot be applied to a 0-dim tensor.");
    if (!rg_wrap_dim("slice", dim, x->ndim, &d)) return NULL;
    if (step <= 0) return rg_fail(RG_RUNTIME_ERROR, "slice", "slice step must be positive");
    int64_t length = rg_slice_length(x->size[d], &start, end, step);
    return slice_as(NULL, x, d, start, length, step);
}

static void diagonal_within(const rg_tensor *x, struct diagonal_attr *a)
{
    int64_t n = x->size[a->dim], m = x->size[a->dim2];
    a->length = RG_MAX(a->start < 0 ? RG_MIN(n + a->start, m) : RG_MIN(n, m - a->start), 0);
    if (a->length == 0) a->start = 0;
}

rg_tensor *rg_diagonal(rg_tensor *x, int64_t offset, int dim1, int dim2)
{
    struct diagonal_attr a = { .part = AT_DIAGONAL, .start = offset };
    if (!rg_check(x, "diagonal") || !rg_wrap_dim("diagonal", dim1, x->ndim, &a.dim)
        || !rg_wrap_dim("diagonal", dim2, x->ndim, &a.dim2)) return NULL;
    if (a.dim == a.dim2)
        return rg_fail(RG_RUNTIME_ERROR, "diagonal", "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
    diagonal_within(x, &a);
    return RG_APPLY(diagonal, &a, x);
}

rg_tensor *rg_diag(rg_tensor *x, int64_t offset)
{
    struct diagonal_attr a = { .part = AT_DIAGONAL, .dim2 = 1, .start = offset };
    if (!rg_check(x, "diag")) return NULL;
    if (x->ndim == 2) {
        diagonal_within(x, &a);
        return RG_APPLY(diagonal_copy, &a, x);
    }
    if (x->ndim != 1) return rg_fail(RG_RUNTIME_ERROR, "diag", "diag(): Supports 1D or 2D tensors. Got %dD", x->ndim);
    int64_t size;
    if (offset == INT64_MIN || __builtin_add_overflow(x->numel, offset < 0 ? -offset : offset, &size)) size = INT64_MAX;
    a.length = x->numel;
    a.node = "DiagEmbedBackward0";
    return RG_APPLY(unslice, (&(struct unslice_attr){ a, { 2, { size, size } } }), x);
}

/* ---- trace: the sum of a matrix's diagonal ------------------------------------------------- */

static bool trace_shape(rg_call *c)
{
    const rg_tensor *x = c->in[0];
    if (x->ndim != 2)
        return rg_fail(RG_RUNTIME_ERROR, "trace", "trace: expected a matrix, but got tensor with dim %d", x->ndim);
    if (x->dtype == RG_BOOL) return rg_fail(RG_NOT_IMPLEMENTED, "trace", "\"trace\" not implemented for 'Bool'");
    c->out[0]->ndim = 0;
    return true;
}

static bool trace_forward(rg_call *c)
{
    rg_tensor part = *c->in[0];
    struct diagonal_attr a = { .part = AT_DIAGONAL, .dim2 = 1 };
    diagonal_within(&part, &a);
    slice_header(&part, &a);
    k_sum(c->out[0], &part, 1);
    return true;
}

static rg_tensor *trace_rule(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    struct unslice_attr a = { { SLICE_DIAGONAL(0, 1, 0, RG_MIN(shape.v[0], shape.v[1])) }, shape };
    g = rg_expand(g, a.at.length);
    return g ? RG_APPLY(unslice, &a, g) : NULL;
}

RG_OP(trace, .doc = "the sum of a matrix's diagonal", .node = "TraceBackward0", .n_in = 1, .shape = trace_shape,
      .forward = trace_forward, .grad = { RG_RULE(0, trace_rule) },
      RG_SAMPLES({ "(3,3)", NULL }, { "(2,4)", NULL }, { "(0,3)", NULL }));

rg_tensor *rg_trace(rg_tensor *x) { return RG_APPLY(trace, RG_NO_ATTR, x); }

/* ---- lists of slices ------------------------------------------------------------------------ */

static const rg_list list_failed = { -1, NULL };

enum { LIST_MOST = 1 << 22 };           /* so many headers are most of a gigabyte */

/* Room for n tensors, which the scope owns. */
static rg_tensor **list_room(const char *op, int64_t n)
{
    if (n > LIST_MOST)
        return rg_fail(RG_RUNTIME_ERROR, op, "%lld parts, but a list has at most %d", (long long)n, LIST_MOST);
    return (rg_tensor **)(void *)rg_own_string((size_t)n * sizeof(rg_tensor *));
}

static rg_list split_even(const char *op, rg_tensor *x, int64_t size, int dim)
{
    int64_t total = x->size[dim], n = size ? RG_MAX((total - 1) / size + 1, 1) : 1;
    rg_tensor **part = list_room(op, n);
    if (!part) return list_failed;
    for (int64_t i = 0; i < n; i++) {
        part[i] = slice_as("SplitBackward0", x, dim, i * size, RG_MIN(size, total - i * size), 1);
        if (!part[i]) return list_failed;
    }
    return (rg_list){ (int)n, part };
}

static bool split_check(const char *op, rg_tensor *x, int dim, int *d)
{
    if (!rg_check(x, op)) return false;
    if (x->ndim == 0) return rg_fail(RG_RUNTIME_ERROR, op, "%s expects at least a 1-dimensional tensor", op);
    return rg_wrap_dim(op, dim, x->ndim, d);
}

rg_list rg_split(rg_tensor *x, int64_t size, int dim)
{
    int d;
    if (!split_check("split", x, dim, &d)) return list_failed;
    if (size < 0) rg_fail(RG_RUNTIME_ERROR, "split", "split expects split_size be non-negative, but got "
                          "split_size=%lld", (long long)size);
    else if (size == 0 && x->size[d]) rg_fail(RG_RUNTIME_ERROR, "split", "split_size can only be 0 if dimension "
                                              "size is 0, but got dimension size of %lld", (long long)x->size[d]);
    else return split_even("split", x, size, d);
    return list_failed;
}

rg_list rg_split_sizes(rg_tensor *x, int n, const int64_t *sizes, int dim)
{
    int d;
    char text[192];
    if (!split_check("split", x, dim, &d)) return list_failed;
    int64_t sum = 0;
    bool negative = false, overflow = n < 0 || (n && !sizes);
    for (int i = 0; i < n && !overflow; i++) {
        negative |= sizes[i] < 0;
        overflow = __builtin_add_overflow(sum, sizes[i], &sum);
    }
    if (negative || overflow || sum != x->size[d]) {
        const char *given = rg_shape_text(sizes ? n : 0, sizes, text);
        if (negative) rg_fail(RG_RUNTIME_ERROR, "split", "split_with_sizes expects split_sizes have only "
                              "non-negative entries, but got split_sizes=%s", given);
        else rg_fail(RG_RUNTIME_ERROR, "split", "split_with_sizes expects split_sizes to sum exactly to %lld (input "
                     "tensor's size at dimension %d), but got split_sizes=%s", (long long)x->size[d], dim, given);
        return list_failed;
    }
    rg_tensor **part = list_room("split", n);
    if (!part) return list_failed;
    for (int64_t i = 0, at = 0; i < n; at += sizes[i++])
        if (!(part[i] = slice_as("SplitWithSizesBackward0", x, d, at, sizes[i], 1))) return list_failed;
    return (rg_list){ n, part };
}

rg_list rg_chunk(rg_tensor *x, int64_t chunks, int dim)
{
    int d;
    if (!split_check("chunk", x, dim, &d)) return list_failed;
    if (chunks <= 0) {
        rg_fail(RG_RUNTIME_ERROR, "chunk", "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
        return list_failed;
    }
    if (x->size[d]) return split_even("chunk", x, (x->size[d] - 1) / chunks + 1, d);
    rg_tensor **part = list_room("chunk", chunks);          /* of nothing: that many empty ones */
    if (!part) return list_failed;
    for (int64_t i = 0; i < chunks; i++)
        if (!(part[i] = slice_as("SplitWithSizesBackward0", x, d, 0, 0, 1))) return list_failed;
    return (rg_list){ (int)chunks, part };
}

rg_list rg_unbind(rg_tensor *x, int dim)
{
    int d;
    if (!rg_check(x, "unbind") || !rg_wrap_dim("unbind", dim, x->ndim, &d)) return list_failed;
    if (x->ndim == 0) {
        rg_fail(RG_INDEX_ERROR, "unbind", "Dimension specified as %d but tensor has no dimensions", d);
        return list_failed;
    }
    rg_tensor **part = list_room("unbind", x->size[d]);
    if (!part) return list_failed;
    for (int64_t i = 0; i < x->size[d]; i++)
        if (!(part[i] = select_as("UnbindBackward0", x, d, i))) return list_failed;
    return (rg_list){ (int)x->size[d], part };
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

RG_OP(transpose, .attr_size = sizeof(struct transpose_attr), .doc = "x with two dims exchanged",
      .node = "TransposeBackward0", .n_in = 1, .view = transpose_view, .grad = { RG_RULE(0, transpose_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(transpose, 0, 1) }, { "(2,3,4)", RG_A(transpose, 2, 0) },
                 { "()", RG_A(transpose, 0, 0) }, { "(0,3)", RG_A(transpose, 0, 1) }));

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
    if (x->ndim == 0) return rg_lend(x);
    if (x->ndim < 2)
        return rg_fail(RG_RUNTIME_ERROR, "mT", "tensor.mT is only supported on matrices or batches of matrices. Got "
                       "%d-D tensor.", x->ndim);
    return rg_transpose(x, -2, -1);
}

/* ---- t: a matrix with its dims exchanged; a vector as it is --------------------------------- */

static bool t_view(rg_call *c)
{
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    for (int d = 0; d < x->ndim; d++)
        y->size[d] = x->size[x->ndim - 1 - d], y->stride[d] = x->stride[x->ndim - 1 - d];
    return rg_view_end(c);
}

static rg_tensor *t_rule(const rg_step *s, rg_tensor *g) { (void)s; return rg_t(g); }

RG_OP(t, .doc = "a matrix with its dims exchanged", .node = "TBackward0", .n_in = 1, .view = t_view,
      .grad = { RG_RULE(0, t_rule) },
      RG_SAMPLES({ "(2,3)", NULL }, { "(3)", NULL }, { "()", NULL }, { "(0,3)", NULL }));

rg_tensor *rg_t(rg_tensor *x)
{
    if (!rg_check(x, "t")) return NULL;
    if (x->ndim > 2)
        return rg_fail(RG_RUNTIME_ERROR, "t", "t() expects a tensor with <= 2 dimensions, but self is %dD", x->ndim);
    return RG_APPLY(t, RG_NO_ATTR, x);
}

/* ---- alias: x itself, as another view of it --------------------------------------------------- */

static bool alias_view(rg_call *c) { return rg_view_begin(c) && rg_view_end(c); }
static rg_tensor *alias_rule(const rg_step *s, rg_tensor *g) { (void)s; return g; }

RG_OP(alias, .doc = "x itself, as a view", .node = "AliasBackward0", .n_in = 1, .view = alias_view,
      .grad = { RG_RULE(0, alias_rule) }, RG_SAMPLES({ "(2,3)", NULL }, { "()", NULL }, { "(0,2)", NULL }));

/* ---- permute: dim d of y is dim dims[d] of x ------------------------------------------------- */

struct permute_attr { rg_dims dims; };

static bool permute_view(rg_call *c)
{
    const rg_dims *dims = &RG_ATTR(c, permute)->dims;
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    for (int d = 0; d < dims->n; d++) y->size[d] = x->size[dims->v[d]], y->stride[d] = x->stride[dims->v[d]];
    return rg_view_end(c);
}

static rg_tensor *permute_rule(const rg_step *s, rg_tensor *g)
{
    const rg_dims *dims = &RG_ATTR(s, permute)->dims;
    rg_dims back = { .n = dims->n };
    for (int d = 0; d < dims->n; d++) back.v[dims->v[d]] = d;
    return rg_permute_dims(g, back);
}

RG_OP(permute, .attr_size = sizeof(struct permute_attr), .doc = "x with its dims in another order",
      .node = "PermuteBackward0", .n_in = 1, .view = permute_view, .grad = { RG_RULE(0, permute_rule) },
      RG_SAMPLES({ "(2,3,4)", RG_A(permute, RG_D(2, 0, 1)) }, { "(2,3)", RG_A(permute, RG_D(1, 0)) },
                 { "()", RG_A(permute, RG_D()) }, { "(0,3)", RG_A(permute, RG_D(1, 0)) }));

/* Each dim wrapped, and a mask of them; false: the error stands. again: what to say of one named twice. */
static bool dims_wrap(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again)
{
    *mask = 0;
    for (int i = 0, d; i < dims->n; i++) {
        if (!rg_wrap_dim(op, dims->v[i], ndim, &d)) return false;
        if (*mask >> d & 1) return rg_fail(RG_RUNTIME_ERROR, op, again, d);
        *mask |= 1u << d;
        dims->v[i] = d;
    }
    return true;
}

rg_tensor *rg_permute_dims(rg_tensor *x, rg_dims dims)
{
    uint32_t mask;
    if (!rg_check(x, "permute")) return NULL;
    if (dims.n != x->ndim)
        return rg_fail(RG_RUNTIME_ERROR, "permute", "permute(sparse_coo): number of dimensions in the tensor input "
                       "does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is "
                       "not equal to len(dims) = %d", x->ndim, dims.n);
    if (!dims_wrap("permute", &dims, x->ndim, &mask, "permute(): duplicate dims are not allowed.")) return NULL;
    return RG_APPLY(permute, (&(struct permute_attr){ dims }), x);
}

rg_tensor *rg_T(rg_tensor *x)
{
    if (!rg_check(x, "T")) return NULL;
    rg_dims dims = { .n = x->ndim };
    for (int d = 0; d < dims.n; d++) dims.v[d] = dims.n - 1 - d;
    return rg_permute_dims(x, dims);
}

rg_tensor *rg_movedim_dims(rg_tensor *x, rg_dims source, rg_dims destination)
{
    char a[192], b[192];
    if (!rg_check(x, "movedim") || !rg_check_dims("movedim", source.n) || !rg_check_dims("movedim", destination.n))
        return NULL;
    const char *from = rg_shape_text(source.n, source.v, a), *to = rg_shape_text(destination.n, destination.v, b);
    if (source.n != destination.n)
        return rg_fail(RG_RUNTIME_ERROR, "movedim", "movedim: Invalid source or destination dims: source (%s dims) "
                       "should contain the same number of dims as destination (%s dims)", from, to);
    char twice[2][256];
    uint32_t taken, filled;
    for (int i = 0, d; i < 2 * source.n; i++)
        if (!rg_wrap_dim("movedim", i < source.n ? source.v[i] : destination.v[i - source.n], x->ndim, &d)) return NULL;
    snprintf(twice[0], sizeof twice[0], "movedim: repeated dim in `source` (%s)", from);
    snprintf(twice[1], sizeof twice[1], "movedim: repeated dim in `destination` (%s)", to);
    if (!dims_wrap("movedim", &source, x->ndim, &taken, twice[0])
        || !dims_wrap("movedim", &destination, x->ndim, &filled, twice[1])) return NULL;
    if (x->ndim == 0) return RG_APPLY(alias, RG_NO_ATTR, x);
    rg_dims order = { .n = x->ndim };
    for (int i = 0; i < source.n; i++) order.v[destination.v[i]] = source.v[i];
    for (int d = 0, rest = 0; d < order.n; d++) {           /* the others keep their order */
        if (filled >> d & 1) continue;
        while (taken >> rest & 1) rest++;
        order.v[d] = rest++;
    }
    return rg_permute_dims(x, order);
}

rg_tensor *rg_movedim(rg_tensor *x, int source, int destination)
{
    return rg_movedim_dims(x, (rg_dims){ 1, { source } }, (rg_dims){ 1, { destination } });
}

/* ---- unsqueeze: a dim of size 1 ------------------------------------------------------------ */

struct unsqueeze_attr { int dim; };

static bool unsqueeze_view(rg_call *c)
{
    int dim = RG_ATTR(c, unsqueeze)->dim;
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    for (int d = y->ndim++; d > dim; d--) y->size[d] = x->size[d - 1], y->stride[d] = x->stride[d - 1];
    y->stride[dim] = dim < x->ndim ? (int64_t)((uint64_t)x->size[dim] * (uint64_t)x->stride[dim]) : 1;
    y->size[dim] = 1;
    return rg_view_end(c);
}

static rg_tensor *unsqueeze_rule(const rg_step *s, rg_tensor *g) { return rg_reshape_dims(g, rg_input_dims(s, 0)); }

RG_OP(unsqueeze, .attr_size = sizeof(struct unsqueeze_attr), .doc = "x with a dim of size 1 more",
      .node = "UnsqueezeBackward0", .n_in = 1, .view = unsqueeze_view, .grad = { RG_RULE(0, unsqueeze_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(unsqueeze, 1) }, { "()", RG_A(unsqueeze, 0) }, { "(0,2)", RG_A(unsqueeze, 2) }));

rg_tensor *rg_unsqueeze(rg_tensor *x, int dim)
{
    struct unsqueeze_attr a;
    if (!rg_check(x, "unsqueeze") || !rg_wrap_dim("unsqueeze", dim, x->ndim + 1, &a.dim)
        || !rg_check_dims("unsqueeze", x->ndim + 1)) return NULL;
    return RG_APPLY(unsqueeze, &a, x);
}

/* ---- squeeze: without dims of size 1 ---------------------------------------------------------- */

struct squeeze_attr { uint32_t dims; int form; };           /* form: all, one, or a list of dims */

static bool squeeze_view(rg_call *c)
{
    rg_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    y->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->size[d] == 1 && RG_ATTR(c, squeeze)->dims >> d & 1) continue;
        y->size[y->ndim] = x->size[d];
        y->stride[y->ndim++] = x->stride[d];
    }
    return rg_view_end(c);
}

static const char *squeeze_node(const void *attr)
{
    static const char *const nodes[] = { "SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2" };
    return nodes[((const struct squeeze_attr *)attr)->form];
}

RG_OP(squeeze, .attr_size = sizeof(struct squeeze_attr), .doc = "x without dims of size 1",
      .node_of = squeeze_node, .n_in = 1, .view = squeeze_view, .grad = { RG_RULE(0, unsqueeze_rule) },
      RG_SAMPLES({ "(2,1,3,1)", RG_A(squeeze, UINT32_MAX, 0) }, { "(2,1,3,1)", RG_A(squeeze, 2, 1) },
                 { "(2,3)", RG_A(squeeze, 1, 1) }, { "()", RG_A(squeeze, UINT32_MAX, 0) },
                 { "(1,0)", RG_A(squeeze, 3, 2) }));

rg_tensor *rg_squeeze(rg_tensor *x)
{
    return rg_check(x, "squeeze") ? RG_APPLY(squeeze, RG_A(squeeze, UINT32_MAX, 0), x) : NULL;
}

rg_tensor *rg_squeeze_dim(rg_tensor *x, int dim)
{
    int d;
    if (!rg_check(x, "squeeze") || !rg_wrap_dim("squeeze", dim, x->ndim, &d)) return NULL;
    return RG_APPLY(squeeze, (&(struct squeeze_attr){ 1u << d, 1 }), x);
}

rg_tensor *rg_squeeze_dims(rg_tensor *x, rg_dims dims)
{
    struct squeeze_attr a = { .form = 2 };
    if (!rg_check(x, "squeeze") || !rg_check_dims("squeeze", dims.n)) return NULL;
    if (!dims_wrap("squeeze", &dims, x->ndim, &a.dims, "dim %d appears multiple times in the list of dims"))
        return NULL;
    return RG_APPLY(squeeze, &a, x);
}

/* ---- reshape: a view where the strides allow it, else a copy ----------------------------------- */

/* COPY: x is one that nobody else sees */
struct reshape_attr { rg_dims shape; enum { RESHAPE_VIEW, RESHAPE_ALIAS, RESHAPE_COPY } form; };

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
        return rg_fail(RG_RUNTIME_ERROR, "view", "view size is not compatible with input tensor's size and stride "
                       "(at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    if (RG_ATTR(c, reshape)->form == RESHAPE_COPY) y->flags &= (uint8_t)~RG_VIEW;
    return rg_view_end(c);
}

static const char *reshape_node(const void *attr)
{
    static const char *const nodes[] = { "ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0" };
    return nodes[((const struct reshape_attr *)attr)->form];
}

static rg_tensor *reshape_rule(const rg_step *s, rg_tensor *g) { return rg_reshape_dims(g, rg_input_dims(s, 0)); }

RG_OP(reshape, .attr_size = sizeof(struct reshape_attr), .doc = "x in another shape", .node_of = reshape_node,
      .n_in = 1, .view = reshape_view, .some_strides = true, .grad = { RG_RULE(0, reshape_rule) },
      RG_SAMPLES({ "(2,6)", RG_A(reshape, .shape = RG_D(3, 4)) }, { "()", RG_A(reshape, .shape = RG_D(1, 1)) },
                 { "(0,3)", RG_A(reshape, .shape = RG_D(3, 0)) }));

/* One -1 is what is left over. */
static bool reshape_infer(const char *op, const rg_tensor *x, rg_dims *shape)
{
    int64_t rest = 1;
    int infer = -1;
    char text[192];
    if (!rg_check_dims(op, shape->n)) return false;
    for (int d = 0; d < shape->n; d++) {
        if (shape->v[d] == -1 && infer >= 0) return rg_fail(RG_RUNTIME_ERROR, op, "only one dimension can be inferred");
        if (shape->v[d] < -1)
            return rg_fail(RG_RUNTIME_ERROR, op, "invalid shape dimension %lld at index %d of shape %s",
                           (long long)shape->v[d], d, rg_shape_text(shape->n, shape->v, text));
        if (shape->v[d] == -1) infer = d;
        else if (__builtin_mul_overflow(rest, shape->v[d], &rest)) rest = -1, d = shape->n;
    }
    if (infer >= 0 && rest == 0 && x->numel == 0)
        return rg_fail(RG_RUNTIME_ERROR, op, "cannot reshape tensor of 0 elements into shape %s because the "
                       "unspecified dimension size -1 can be any value and is ambiguous",
                       rg_shape_text(shape->n, shape->v, text));
    if (infer >= 0 && rest > 0 && x->numel % rest == 0) {
        shape->v[infer] = x->numel / rest;
    } else if (infer >= 0 || rest != x->numel) {
        return rg_fail(RG_RUNTIME_ERROR, op, "shape '%s' is invalid for input of size %lld",
                       rg_shape_text(shape->n, shape->v, text), (long long)x->numel);
    }
    return true;
}

static rg_tensor *reshape_apply(rg_tensor *x, const rg_dims *shape, int form)
{
    return RG_APPLY(reshape, (&(struct reshape_attr){ *shape, form }), x);
}

rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape)
{
    return rg_check(x, "view") && reshape_infer("view", x, &shape) ? reshape_apply(x, &shape, RESHAPE_VIEW) : NULL;
}

rg_tensor *rg_reshape_dims(rg_tensor *x, rg_dims shape)
{
    if (!rg_check(x, "reshape") || !reshape_infer("reshape", x, &shape)) return NULL;
    rg_tensor fits = { .ndim = (uint8_t)shape.n };
    for (int d = 0; d < shape.n; d++) fits.size[d] = shape.v[d];
    if (reshape_strides(x, &fits))
        return reshape_apply(x, &shape, x->flags & RG_CONTIGUOUS ? RESHAPE_VIEW : RESHAPE_ALIAS);
    RG_SCOPE();
    rg_tensor *copy = rg_contiguous(x), *y = copy ? reshape_apply(copy, &shape, RESHAPE_COPY) : NULL;
    return y ? rg_escape(y) : NULL;
}

rg_tensor *rg_view_as(rg_tensor *x, rg_tensor *other)
{
    return rg_check(x, "view_as") && rg_check(other, "view_as") ? rg_view_dims(x, rg_shape(other)) : NULL;
}

rg_tensor *rg_reshape_as(rg_tensor *x, rg_tensor *other)
{
    return rg_check(x, "reshape_as") && rg_check(other, "reshape_as") ? rg_reshape_dims(x, rg_shape(other)) : NULL;
}

rg_tensor *rg_flatten(rg_tensor *x, int start_dim, int end_dim)
{
    int start, end;
    if (!rg_check(x, "flatten") || !rg_wrap_dim("flatten", start_dim, x->ndim, &start)
        || !rg_wrap_dim("flatten", end_dim, x->ndim, &end)) return NULL;
    if (start > end)
        return rg_fail(RG_RUNTIME_ERROR, "flatten", "flatten() has invalid args: start_dim cannot come after end_dim");
    if (x->ndim == 0) return rg_reshape(x, 1);
    if (start == end) return rg_lend(x);
    rg_dims shape = { .n = x->ndim - (end - start) };
    for (int d = 0; d < shape.n; d++) shape.v[d] = x->size[d <= start ? d : d + end - start];
    for (int d = start + 1; d <= end; d++)
        /* beside a dim of 0 */
        if (__builtin_mul_overflow(shape.v[start], x->size[d], &shape.v[start])) shape.v[start] = 0;
    return rg_reshape_dims(x, shape);
}

rg_tensor *rg_unflatten(rg_tensor *x, int dim, rg_dims sizes)
{
    int at;
    char text[192];
    if (!rg_check(x, "unflatten") || !rg_wrap_dim("unflatten", dim, x->ndim, &at)) return NULL;
    if (sizes.n == 0) return rg_fail(RG_RUNTIME_ERROR, "unflatten", "unflatten: sizes must be non-empty");
    if (x->ndim == 0)
        return rg_fail(RG_RUNTIME_ERROR, "unflatten", "Dimension specified as %d but tensor has no dimensions", at);
    if (!rg_check_dims("unflatten", sizes.n)
        || !rg_check_dims("unflatten", x->ndim - 1 + sizes.n)) return NULL;
    int64_t product = 1, whole = x->size[at];
    int infer = -1, inferred = 0;
    bool sound = true;
    for (int i = 0; i < sizes.n; i++) {
        if (sizes.v[i] == -1) infer = i, inferred++;
        else sound = sound && sizes.v[i] >= 0 && !__builtin_mul_overflow(product, sizes.v[i], &product);
    }
    rg_tensor part = { .ndim = 1, .numel = whole, .size = { whole } };
    if (inferred > 1 || (sound && infer >= 0 && product == 0 && whole == 0) || !sound)
        if (!reshape_infer("unflatten", &part, &sizes)) return NULL;
    if (infer >= 0 && product > 0 && whole % product == 0) sizes.v[infer] = whole / product;
    else if (infer >= 0 || product != whole)
        return rg_fail(RG_RUNTIME_ERROR, "unflatten", "unflatten: Provided sizes %s don't multiply up to the size "
                       "of dim %d (%lld) in the input tensor", rg_shape_text(sizes.n, sizes.v, text), at,
                       (long long)whole);
    rg_dims shape = { .n = x->ndim - 1 + sizes.n };
    for (int d = 0; d < shape.n; d++)
        shape.v[d] = d < at ? x->size[d] : d < at + sizes.n ? sizes.v[d - at] : x->size[d - sizes.n + 1];
    return rg_view_dims(x, shape);
}
