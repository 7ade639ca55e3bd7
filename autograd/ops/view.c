/*
 * view.c: other shapes for the same elements, in the same storage.
 */
#include "autograd/op.h"

#define VIEW_ROW(ident, rule_) \
    RG_WITH(ident), .n_in = 1, .view = ident##_view, .grad = { RG_RULE(0, rule_) }

static rg_tensor *view_rule(const rg_step *s, rg_tensor *g) {
    return rg_reshape_dims(g, rgi_input_dims(s, 0));
}

/* ---- alias: x itself, as another view of it -------------------------------------- */
static bool alias_view(rg_call *c) { return rgi_view_begin(c) && rgi_view_end(c); }
RG_OP(alias, .doc = "x itself, as a view", .node = "AliasBackward0", .n_in = 1, .view = alias_view,
      .grad = { RG_RULE(0, rgi_rule_same) },
      RG_SAMPLES({ "(2,3)", NULL }, { "()", NULL }, { "(0,2)", NULL }));

/* ---- expand: dims of size 1 become larger, with stride 0 ------------------------- */
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
        int64_t size = shape.v[d], from = d < shift ? 1 : x->size[d - shift];
        RG_FAIL_IF(size < 0 && d < shift, op,
                   "The expanded size of the tensor (%lld) isn't allowed in a "
                   "leading, non-existing dimension %d",
                   (long long)size, d);
        RG_FAIL_IF(
            size < -1 || (from != 1 && size != -1 && from != size), op,
            "The expanded size of the "
            "tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  Target "
            "sizes: %s.  Tensor sizes: %s",
            (long long)size, (long long)from, d, RG_DIMS_TEXT(&shape), RG_SHAPE_TEXT(x));
    }
    return true;
}

static bool expand_view(rg_call *c) {
    const rg_dims *want = &RG_ATTR(c, expand)->shape;
    rg_tensor *y = c->out[0], *x = c->in[0];
    int shift = want->n - x->ndim;
    if (!rgi_may_expand("expand", x, *want))
        return false;
    rgi_view_begin(c);
    y->ndim = (uint8_t)want->n;
    for (int d = want->n - 1; d >= 0; d--) {
        int64_t from = d < shift ? 1 : x->size[d - shift];
        y->size[d] = want->v[d] == -1 ? from : want->v[d];
        y->stride[d] = from == y->size[d] && d >= shift ? x->stride[d - shift] : 0;
    }
    /* what can't be counted has no use, and would never be walked to its end */
    rgi_view_end(c);
    RG_FAIL_IF(y->numel == INT64_MAX, "expand", "numel: integer multiplication overflow");
    return true;
}
RG_OP(expand, .doc = "x with dims of size 1 repeated", .node = "ExpandBackward0",
      VIEW_ROW(expand, rgi_rule_same),
      RG_SAMPLES({ "(1,3)", RG_A(expand, RG_D(4, 2, -1)) }, { "()", RG_A(expand, RG_D(2)) },
                 { "()", RG_A(expand, RG_D()) }, { "(1,0)", RG_A(expand, RG_D(3, 0)) }));

rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape) {
    return rgi_check_dims("expand", shape.n) ? RG_APPLY(expand, RG_A(expand, shape), x) : NULL;
}

#define LIKE(name, dims)                                                                         \
    rg_tensor *rg_##name(rg_tensor *x, rg_tensor *other) {                                       \
        RG_AS(#name);                                                                            \
        return rgi_check(x, #name) && rgi_check(other, #name) ? dims(x, rg_shape(other)) : NULL; \
    }
LIKE(expand_as, rg_expand_dims)

/* ---- parts of x ---------------------------------------------------------------------
 * select, slice, diagonal, and what is made of them (split, unbind). The gradient is
 * zeros with g in the part's place: the op unslice, whose own derivative is the part.
 * (A new dim is a part too; there the gradient is g in x's shape.) */
static void part_drop_dim(rg_tensor *t, int d) {
    for (t->ndim--; d < t->ndim; d++)
        t->size[d] = t->size[d + 1], t->stride[d] = t->stride[d + 1];
}

static void part_insert_dim(rg_tensor *t, int dim, int64_t size, int64_t stride) {
    for (int d = t->ndim++; d > dim; d--)
        t->size[d] = t->size[d - 1], t->stride[d] = t->stride[d - 1];
    t->size[dim] = size;
    t->stride[dim] = stride;
}

/* Of at most one element, a stride may be anything whose bytes can be counted. */
static int64_t part_product(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b << 4) >> 4;
}

void rgi_take_part(rg_tensor *t, const rg_part *p) {
    int64_t stride = p->dim < t->ndim ? t->stride[p->dim] : 1,
            start = part_product(p->start, stride);
    if (p->kind == RG_AT_INDEX) {
        part_drop_dim(t, p->dim);
    } else if (p->kind == RG_AT_NEW) {
        part_insert_dim(t, p->dim, 1, p->dim < t->ndim ? part_product(t->size[p->dim], stride) : 1);
    } else if (p->kind == RG_AT_RANGE) {
        t->size[p->dim] = p->length;
        t->stride[p->dim] = part_product(stride, p->step);
    } else {
        int64_t stride2 = t->stride[p->dim2];
        start = p->start < 0 ? -start : p->start * stride2;
        part_drop_dim(t, RG_MAX(p->dim, p->dim2));
        part_drop_dim(t, RG_MIN(p->dim, p->dim2));
        part_insert_dim(t, t->ndim, p->length, stride + stride2);
    }
    if (p->kind != RG_AT_INDEX && p->length == 0)
        start = 0;
    t->data += start * (int64_t)rgi_sizeof(t->dtype);
    rgi_update_flags(t);
}

static bool part_view(rg_call *c) {
    rgi_view_begin(c);
    rgi_take_part(c->out[0], c->attr);
    return true;
}

struct unslice_attr {
    rg_part at;
    rg_dims shape;
};

static rg_tensor *part_rule(const rg_step *s, rg_tensor *g) {
    struct unslice_attr a = { *(const rg_part *)s->attr, rgi_input_dims(s, 0) };
    a.at.node = NULL;
    return RG_APPLY(unslice, &a, g);
}

static bool part_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    RG_PART_HEADER(part, *buffer, s->attr);
    return k_run(k_add, &part, &part, g);
}

#define PART_ROW(name) \
    .node = name, .node_of = rgi_named, .attr_size = sizeof(rg_part), .n_in = 1, .view = part_view
#define PART(inputs, ...)                        \
    {                                            \
        inputs, &(const rg_part) { __VA_ARGS__ } \
    } /* a sample */
#define PART_GRAD .grad = { RG_RULE_INTO(0, part_rule, part_into) }
RG_OP(select, .doc = "x at one index of dim", PART_ROW("SelectBackward0"), PART_GRAD,
      RG_SAMPLES(PART("(2,3)", RG_PART_INDEX(0, 1)), PART("(2,3,4)", RG_PART_INDEX(1, 0)),
                 PART("(3)", RG_PART_INDEX(0, 2)), PART("(2,0)", RG_PART_INDEX(0, 1))));
RG_OP(slice, .doc = "x[start:start + length step:step] along dim", PART_ROW("SliceBackward0"),
      PART_GRAD,
      RG_SAMPLES(PART("(2,3)", RG_PART_RANGE(1, 1, 2, 1)), PART("(7,2)", RG_PART_RANGE(0, 1, 3, 2)),
                 PART("(3)", RG_PART_RANGE(0, 3, 0, 1)),
                 PART("(2,0,3)", RG_PART_RANGE(2, 0, 2, 2))));
RG_OP(diagonal, .doc = "the elements x[.., i, i + offset, ..]", PART_ROW("DiagonalBackward0"),
      PART_GRAD,
      RG_SAMPLES(PART("(2,3,4)", RG_PART_DIAGONAL(2, 0, 1, 1)),
                 PART("(4,2,3)", RG_PART_DIAGONAL(0, 2, -2, 2)),
                 PART("(2,3)", RG_PART_DIAGONAL(0, 1, 5, 0)),
                 PART("(0,3)", RG_PART_DIAGONAL(0, 1, 0, 0))));
RG_OP(unsqueeze, .doc = "x with a dim of size 1 more", PART_ROW("UnsqueezeBackward0"),
      .grad = { RG_RULE(0, view_rule) },
      RG_SAMPLES(PART("(2,3)", RG_PART_NEW(1)), PART("()", RG_PART_NEW(0)),
                 PART("(0,2)", RG_PART_NEW(2))));

rg_tensor *rgi_part_of(rg_tensor *x, const rg_part *p) {
    static const rg_op *const ops[] = { &rg_op_select, &rg_op_slice, &rg_op_diagonal,
                                        &rg_op_unsqueeze };
    return rgi_apply(ops[p->kind], p, sizeof *p, 1, &x);
}

static bool unslice_shape(rg_call *c) {
    return rgi_set_size(c->out[0], &RG_ATTR(c, unslice)->shape), true;
}

static bool unslice_forward(rg_call *c) {
    RG_PART_HEADER(part, *c->out[0], &RG_ATTR(c, unslice)->at);
    rgi_fill_zero(c->out[0]);
    rgi_copy_elements(&part, c->in[0]);
    return true;
}

static rg_tensor *unslice_rule(const rg_step *s, rg_tensor *g) {
    return rgi_part_of(g, &RG_ATTR(s, unslice)->at);
}
RG_OP(unslice, .doc = "zeros with x in the place of a slice", .node = "UnsliceBackward0",
      RG_NAMED(unslice), .n_in = 1, RG_MADE(unslice), .grad = { RG_RULE(0, unslice_rule) },
      RG_SAMPLES({ "(2,2)", RG_A(unslice, { RG_PART_RANGE(1, 1, 2, 2) }, RG_D(2, 5)) },
                 { "(3,1)", RG_A(unslice, { RG_PART_DIAGONAL(2, 0, 1, 1) }, RG_D(2, 3, 4)) },
                 { "(0)", RG_A(unslice, { RG_PART_INDEX(0, 1) }, RG_D(2, 0)) }));

static bool diagonal_copy_shape(rg_call *c) {
    RG_PART_HEADER(part, *c->in[0], c->attr);
    rgi_copy_shape(c->out[0], &part);
    return true;
}

static bool diagonal_copy_forward(rg_call *c) {
    RG_PART_HEADER(part, *c->in[0], c->attr);
    rgi_copy_elements(c->out[0], &part);
    return true;
}
RG_OP(diagonal_copy, .doc = "a matrix's diagonal, as a tensor of its own",
      .attr_size = sizeof(rg_part), .node = "DiagonalBackward0_copy", .n_in = 1,
      RG_MADE(diagonal_copy), PART_GRAD,
      RG_SAMPLES(PART("(3,4)", RG_PART_DIAGONAL(0, 1, 1, 3)),
                 PART("(0,4)", RG_PART_DIAGONAL(0, 1, 0, 0))));

rg_tensor *rg_unsqueeze(rg_tensor *x, int dim) {
    rg_part p = { RG_PART_NEW(0) };
    if (!rgi_check(x, "unsqueeze") || !rgi_wrap_dim("unsqueeze", dim, x->ndim + 1, &p.dim)
        || !rgi_check_dims("unsqueeze", x->ndim + 1))
        return NULL;
    return rgi_part_of(x, &p);
}

/* Neither NULL nor 0-d, and with this dim. */
static bool part_check(const char *op, rg_code code, const char *sentence, rg_tensor *x, int dim,
                       int *d) {
    if (!rgi_check(x, op))
        return false;
    RG_FAIL_AS_IF(code, x->ndim == 0, op, sentence, op);
    return rgi_wrap_dim(op, dim, x->ndim, d);
}

static const char part_no_dims[] = "%s() cannot be applied to a 0-dim tensor.";

rg_tensor *rg_select(rg_tensor *x, int dim, int64_t index) {
    int d;
    if (!part_check("select", RG_INDEX_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    RG_FAIL_INDEX_IF(index < -x->size[d] || index >= x->size[d], "select",
                     "select(): index %lld out of range "
                     "for tensor of size %s at dimension %d",
                     (long long)index, RG_SHAPE_TEXT(x), d);
    return rgi_part_of(x, &(rg_part){ RG_PART_INDEX(d, index < 0 ? index + x->size[d] : index) });
}

rg_tensor *rg_narrow(rg_tensor *x, int dim, int64_t start, int64_t length) {
    int d;
    if (!rgi_check(x, "narrow"))
        return NULL;
    RG_FAIL_IF(x->ndim && length < 0, "narrow", "narrow(): length must be non-negative.");
    if (!part_check("narrow", RG_RUNTIME_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    int64_t size = x->size[d];
    RG_FAIL_INDEX_IF(start < -size || start > size, "narrow",
                     "start out of range (expected to be in range of "
                     "[%lld, %lld], but got %lld)",
                     (long long)-size, (long long)size, (long long)start);
    if (start < 0)
        start += size;
    RG_FAIL_IF(length > size - start, "narrow",
               "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
               (long long)length, (long long)size);
    return rgi_part_of(x, &(rg_part){ RG_PART_RANGE(d, start, length, 1) });
}

int64_t rgi_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step) {
    *start = *start < 0 ? RG_MAX(*start + size, 0) : RG_MIN(*start, size);
    end = end < 0 ? end + size : RG_MIN(end, size);
    return end > *start ? (end - *start - 1) / step + 1 : 0;
}

rg_tensor *rg_slice(rg_tensor *x, int dim, int64_t start, int64_t end, int64_t step) {
    int d;
    if (!part_check("slice", RG_INDEX_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    RG_FAIL_IF(step <= 0, "slice", "slice step must be positive");
    int64_t length = rgi_slice_length(x->size[d], &start, end, step);
    return rgi_part_of(x, &(rg_part){ RG_PART_RANGE(d, start, length, step) });
}

static void diagonal_within(const rg_tensor *x, rg_part *p) {
    int64_t n = x->size[p->dim], m = x->size[p->dim2];
    p->length = RG_MAX(p->start < 0 ? RG_MIN(n + p->start, m) : RG_MIN(n, m - p->start), 0);
    if (p->length == 0)
        p->start = 0;
}

rg_tensor *rg_diagonal(rg_tensor *x, int64_t offset, int dim1, int dim2) {
    rg_part p = { .kind = RG_AT_DIAGONAL, .start = offset };
    if (!rgi_check(x, "diagonal") || !rgi_wrap_dim("diagonal", dim1, x->ndim, &p.dim)
        || !rgi_wrap_dim("diagonal", dim2, x->ndim, &p.dim2))
        return NULL;
    RG_FAIL_IF(p.dim == p.dim2, "diagonal", "diagonal dimensions cannot be identical %d, %d", dim1,
               dim2);
    diagonal_within(x, &p);
    return rgi_part_of(x, &p);
}

rg_tensor *rg_diag(rg_tensor *x, int64_t offset) {
    RG_AS("diag");
    if (!rgi_check(x, "diag"))
        return NULL;
    rg_part p = { RG_PART_DIAGONAL(0, 1, offset, x->numel) };
    if (x->ndim == 2) {
        diagonal_within(x, &p);
        return RG_APPLY(diagonal_copy, &p, x);
    }
    RG_FAIL_IF(x->ndim != 1, "diag", "diag(): Supports 1D or 2D tensors. Got %dD", x->ndim);
    int64_t size;
    if (offset == INT64_MIN
        || __builtin_add_overflow(x->numel, offset < 0 ? -offset : offset, &size))
        size = INT64_MAX;
    p.node = "DiagEmbedBackward0";
    return RG_APPLY(unslice, RG_A(unslice, p, { 2, { size, size } }), x);
}

/* ---- trace: the sum of a matrix's diagonal --------------------------------------- */
static bool trace_shape(rg_call *c) { return c->out[0]->ndim = 0, true; }
static bool trace_forward(rg_call *c) {
    RG_PART_HEADER(part, *c->in[0], c->attr);
    k_sum(c->out[0], &part, 1);
    return true;
}

RULE(trace_rule, g, part_rule(s, rg_expand(g, ((const rg_part *)s->attr)->length)))
RG_OP(trace, .doc = "the sum of a matrix's diagonal", .node = "TraceBackward0",
      .attr_size = sizeof(rg_part), .n_in = 1, RG_MADE(trace), .grad = { RULED(trace_rule) },
      RG_SAMPLES(PART("(2,4)", RG_PART_DIAGONAL(0, 1, 0, 2)),
                 PART("(0,3)", RG_PART_DIAGONAL(0, 1, 0, 0))));

rg_tensor *rg_trace(rg_tensor *x) {
    rg_part p = { RG_PART_DIAGONAL(0, 1, 0, 0) };
    if (!rgi_check(x, "trace"))
        return NULL;
    RG_FAIL_IF(x->ndim != 2, "trace", "trace: expected a matrix, but got tensor with dim %d",
               x->ndim);
    RG_FAIL_DTYPE_IF(x->dtype == RG_BOOL, "trace", "trace", RG_BOOL);
    diagonal_within(x, &p);
    return RG_APPLY(trace, &p, x);
}

/* ---- lists of slices ------------------------------------------------------------- */

/* Whoever takes a part of it unasked gets NULL, as a failed tensor would be. */
static rg_tensor *const no_parts[64];
static const rg_list list_failed = { -1, no_parts };

enum { LIST_MOST = 1 << 22 }; /* so many headers are most of a gigabyte */
#define LIST_REFUSE(condition, ...)                                      \
    do {                                                                 \
        if (condition)                                                   \
            return rgi_fail(RG_RUNTIME_ERROR, __VA_ARGS__), list_failed; \
    } while (0)

/* n parts, one after the other: of p's length, but for the last; or of these sizes. */
static rg_list list_of_parts(const char *op, rg_tensor *x, int64_t n, rg_part p,
                             const int64_t *sizes) {
    LIST_REFUSE(n > LIST_MOST, op, "%lld parts, but a list has at most %d", (long long)n,
                LIST_MOST);
    rg_tensor **part = (rg_tensor **)(void *)rgi_own_string((size_t)n * sizeof *part);
    for (int64_t i = 0; i < n && part; i++, p.start += p.length) {
        p.length = sizes ? sizes[i] : RG_MIN(p.length, x->size[p.dim] - p.start);
        if (!(part[i] = rgi_part_of(x, &p)))
            return list_failed;
    }
    return part ? (rg_list){ (int)n, part } : list_failed;
}

static rg_list split_even(const char *op, rg_tensor *x, int64_t size, int dim) {
    int64_t n = size ? RG_MAX((x->size[dim] - 1) / size + 1, 1) : 1;
    return list_of_parts(
        op, x, n, (rg_part){ RG_PART_RANGE(dim, 0, size, 1), .node = "SplitBackward0" }, NULL);
}

static const char split_no_dims[] = "%s expects at least a 1-dimensional tensor";

rg_list rg_split(rg_tensor *x, int64_t size, int dim) {
    int d;
    if (!part_check("split", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return list_failed;
    LIST_REFUSE(size < 0, "split",
                "split expects split_size be non-negative, but got split_size=%lld",
                (long long)size);
    LIST_REFUSE(size == 0 && x->size[d], "split",
                "split_size can only be 0 if dimension size is 0, but got "
                "dimension size of %lld",
                (long long)x->size[d]);
    return split_even("split", x, size, d);
}

rg_list rg_split_sizes(rg_tensor *x, int n, const int64_t *sizes, int dim) {
    int d;
    if (!part_check("split", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return list_failed;
    int64_t sum = 0;
    bool negative = false, overflow = n < 0 || (n && !sizes);
    for (int i = 0; i < n && !overflow; i++) {
        negative |= sizes[i] < 0;
        overflow = __builtin_add_overflow(sum, sizes[i], &sum);
    }
    LIST_REFUSE(negative, "split",
                "split_with_sizes expects split_sizes have only non-negative entries, but "
                "got split_sizes=%s",
                rgi_shape_text(n, sizes, (char[192]){ 0 }));
    LIST_REFUSE(overflow || sum != x->size[d], "split",
                "split_with_sizes expects split_sizes to sum exactly "
                "to %lld (input tensor's size at dimension %d), but got split_sizes=%s",
                (long long)x->size[d], dim, rgi_shape_text(sizes ? n : 0, sizes, (char[192]){ 0 }));
    return list_of_parts("split", x, n,
                         (rg_part){ RG_PART_RANGE(d, 0, 0, 1), .node = "SplitWithSizesBackward0" },
                         sizes);
}

rg_list rg_chunk(rg_tensor *x, int64_t chunks, int dim) {
    int d;
    if (!part_check("chunk", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return list_failed;
    LIST_REFUSE(chunks <= 0, "chunk", "chunk expects `chunks` to be greater than 0, got: %lld",
                (long long)chunks);
    if (x->size[d])
        return split_even("chunk", x, (x->size[d] - 1) / chunks + 1, d);
    return list_of_parts("chunk", x, chunks, /* of nothing: that many empty ones */
                         (rg_part){ RG_PART_RANGE(d, 0, 0, 1), .node = "SplitWithSizesBackward0" },
                         NULL);
}

rg_list rg_unbind(rg_tensor *x, int dim) {
    int d;
    if (!rgi_check(x, "unbind") || !rgi_wrap_dim("unbind", dim, x->ndim, &d))
        return list_failed;
    if (x->ndim == 0)
        return rgi_fail(RG_INDEX_ERROR, "unbind",
                        "Dimension specified as %d but tensor has no dimensions", d),
               list_failed;
    return list_of_parts("unbind", x, x->size[d],
                         (rg_part){ RG_PART_INDEX(d, 0), .length = 1, .node = "UnbindBackward0" },
                         NULL);
}

/* ---- permute, transpose, t: dim d of y is dim dims[d] of x ----------------------- */
struct permute_attr {
    rg_dims dims;
};
static bool permute_view(rg_call *c) {
    const rg_dims *dims = &RG_ATTR(c, permute)->dims;
    rgi_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    for (int d = 0; d < dims->n; d++)
        y->size[d] = x->size[dims->v[d]], y->stride[d] = x->stride[dims->v[d]];
    return rgi_view_end(c);
}

/* No more of the dims is kept than there are. */
static rg_tensor *permute_apply(const rg_op *op, rg_tensor *x, const rg_dims *dims) {
    return rgi_apply(op, dims, offsetof(rg_dims, v) + (size_t)dims->n * sizeof dims->v[0], 1, &x);
}

static rg_tensor *permute_rule(const rg_step *s, rg_tensor *g) {
    const rg_dims *dims = &RG_ATTR(s, permute)->dims;
    rg_dims back = { .n = dims->n };
    for (int d = 0; d < dims->n; d++)
        back.v[dims->v[d]] = d;
    return permute_apply(s->op, g, &back);
}

#define PERMUTE_ROW                                                                         \
    VIEW_ROW(permute, permute_rule),                                                        \
        RG_SAMPLES({ "(2,3)", RG_A(permute, RG_D(1, 0)) }, { "()", RG_A(permute, RG_D()) }, \
                   { "(2,3,4)", RG_A(permute, RG_D(2, 0, 1)) },                             \
                   { "(0,3)", RG_A(permute, RG_D(1, 0)) })
RG_OP(permute, .doc = "x with its dims in another order", .node = "PermuteBackward0", PERMUTE_ROW);
RG_OP(transpose, .doc = "x with two dims exchanged", .node = "TransposeBackward0", PERMUTE_ROW);
RG_OP(t, .doc = "a matrix with its dims exchanged; a vector as it is", .node = "TBackward0",
      PERMUTE_ROW);

rg_tensor *rg_permute_dims(rg_tensor *x, rg_dims dims) {
    uint32_t mask;
    if (!rgi_check(x, "permute"))
        return NULL;
    RG_FAIL_IF(
        dims.n != x->ndim, "permute",
        "permute(sparse_coo): number of dimensions in the tensor input "
        "does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is not "
        "equal to len(dims) = %d",
        x->ndim, dims.n);
    return rgi_wrap_dims("permute", &dims, x->ndim, &mask,
                         "permute(): duplicate dims are not allowed.")
               ? permute_apply(&rg_op_permute, x, &dims)
               : NULL;
}

rg_tensor *rg_transpose(rg_tensor *x, int dim0, int dim1) {
    int a, b;
    if (!rgi_check(x, "transpose") || !rgi_wrap_dim("transpose", dim0, x->ndim, &a)
        || !rgi_wrap_dim("transpose", dim1, x->ndim, &b))
        return NULL;
    rg_dims dims;
    dims.n = x->ndim;
    for (int d = 0; d < dims.n; d++)
        dims.v[d] = d == a ? b : d == b ? a : d;
    return permute_apply(&rg_op_transpose, x, &dims);
}

static rg_tensor *permute_backwards(const rg_op *op, rg_tensor *x) {
    rg_dims dims;
    dims.n = x->ndim;
    for (int d = 0; d < dims.n; d++)
        dims.v[d] = dims.n - 1 - d;
    return permute_apply(op, x, &dims);
}

rg_tensor *rg_T(rg_tensor *x) {
    return rgi_check(x, "T") ? permute_backwards(&rg_op_permute, x) : NULL;
}

rg_tensor *rg_t(rg_tensor *x) {
    if (!rgi_check(x, "t"))
        return NULL;
    RG_FAIL_IF(x->ndim > 2, "t", "t() expects a tensor with <= 2 dimensions, but self is %dD",
               x->ndim);
    return permute_backwards(&rg_op_t, x);
}

rg_tensor *rg_mT(rg_tensor *x) {
    if (!rgi_check(x, "mT"))
        return NULL;
    if (x->ndim == 0)
        return rgi_lend(x);
    RG_FAIL_IF(x->ndim < 2, "mT",
               "tensor.mT is only supported on matrices or batches of matrices. Got %d-D "
               "tensor.",
               x->ndim);
    return rg_transpose(x, -2, -1);
}

rg_tensor *rg_movedim_dims(rg_tensor *x, rg_dims source, rg_dims destination) {
    rg_dims *list[] = { &source, &destination };
    uint32_t mask[2] = { 0 };
    int n = source.n;
    if (!rgi_check(x, "movedim") || !rgi_check_dims("movedim", n)
        || !rgi_check_dims("movedim", destination.n))
        return NULL;
    const char *text[] = { RG_DIMS_TEXT(&source), RG_DIMS_TEXT(&destination) };
    RG_FAIL_IF(n != destination.n, "movedim",
               "movedim: Invalid source or destination dims: source (%s dims) "
               "should contain the same number of dims as destination (%s dims)",
               text[0], text[1]);
    for (int i = 0, d; i < 2 * n; i++) {
        if (!rgi_wrap_dim("movedim", list[i / n]->v[i % n], x->ndim, &d))
            return NULL;
        list[i / n]->v[i % n] = d;
        mask[i / n] |= 1u << d;
    }
    for (int k = 0; k < 2; k++)
        RG_FAIL_IF(__builtin_popcount(mask[k]) < n, "movedim", "movedim: repeated dim in `%s` (%s)",
                   k ? "destination" : "source", text[k]);
    if (x->ndim == 0)
        return RG_APPLY(alias, RG_NO_ATTR, x);
    rg_dims order = { .n = x->ndim };
    for (int i = 0; i < n; i++)
        order.v[destination.v[i]] = source.v[i];
    for (int d = 0, rest = 0; d < order.n; d++) { /* the others keep their order */
        if (mask[1] >> d & 1)
            continue;
        while (mask[0] >> rest & 1)
            rest++;
        order.v[d] = rest++;
    }
    return permute_apply(&rg_op_permute, x, &order);
}

rg_tensor *rg_movedim(rg_tensor *x, int source, int destination) {
    return rg_movedim_dims(x, RG_DIMS(source), RG_DIMS(destination));
}

/* ---- squeeze: without dims of size 1 --------------------------------------------- */
struct squeeze_attr {
    const char *node;
    uint32_t dims;
};
static bool squeeze_view(rg_call *c) {
    rgi_view_begin(c);
    rg_tensor *y = c->out[0], *x = c->in[0];
    y->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->size[d] == 1 && RG_ATTR(c, squeeze)->dims >> d & 1)
            continue;
        y->size[y->ndim] = x->size[d];
        y->stride[y->ndim++] = x->stride[d];
    }
    return rgi_view_end(c);
}
RG_OP(squeeze, .doc = "x without dims of size 1", .node = "SqueezeBackward0", .node_of = rgi_named,
      VIEW_ROW(squeeze, view_rule),
      RG_SAMPLES({ "(2,1,3,1)", RG_A(squeeze, NULL, UINT32_MAX) },
                 { "(2,1,3,1)", RG_A(squeeze, NULL, 2) }, { "()", RG_A(squeeze, NULL, UINT32_MAX) },
                 { "(1,0)", RG_A(squeeze, NULL, 3) }));
rg_tensor *rg_squeeze(rg_tensor *x) {
    return RG_APPLY(squeeze, RG_A(squeeze, NULL, UINT32_MAX), x);
}

static rg_tensor *squeeze_at(const char *node, rg_tensor *x, rg_dims dims) {
    struct squeeze_attr a = { .node = node };
    if (!rgi_check(x, "squeeze") || !rgi_check_dims("squeeze", dims.n))
        return NULL;
    return rgi_wrap_dims("squeeze", &dims, x->ndim, &a.dims,
                         "dim %d appears multiple times in the list of dims")
               ? RG_APPLY(squeeze, &a, x)
               : NULL;
}

rg_tensor *rg_squeeze_dim(rg_tensor *x, int dim) {
    return squeeze_at("SqueezeBackward1", x, RG_DIMS(dim));
}
rg_tensor *rg_squeeze_dims(rg_tensor *x, rg_dims dims) {
    return squeeze_at("SqueezeBackward2", x, dims);
}

/* ---- reshape: a view where the strides allow it, else a copy --------------------- */
/* own: nobody else sees x */
struct reshape_attr {
    const char *node;
    rg_dims shape;
    bool own;
};

/* The strides that give x another shape without moving an element; false: none do. */
static bool reshape_strides(const rg_tensor *x, rg_tensor *y) {
    int dx = x->ndim - 1, dy = y->ndim - 1;
    if (x->numel == 0 || x->flags & RG_CONTIGUOUS) {
        rgi_set_strides(y);
        return true;
    }
    /* the longest run of x's dims that is one even walk */
    while (dx >= 0) {
        int64_t step = x->stride[dx], count = x->size[dx--];
        while (dx >= 0 && (x->size[dx] == 1 || x->stride[dx] == count * step))
            count *= x->size[dx--];
        for (; dy >= 0 && (count > 1 || y->size[dy] == 1); dy--) {
            if (count % y->size[dy])
                return false;
            y->stride[dy] = step;
            step *= y->size[dy];
            count /= y->size[dy];
        }
        if (count != 1)
            return false;
    }
    return dy < 0;
}

static bool reshape_view(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_view_begin(c);
    rgi_set_size(y, &RG_ATTR(c, reshape)->shape);
    RG_FAIL_IF(
        !reshape_strides(c->in[0], y), "view",
        "view size is not compatible with input tensor's size "
        "and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) "
        "instead.");
    if (RG_ATTR(c, reshape)->own)
        y->flags &= (uint8_t)~RG_VIEW;
    return rgi_view_end(c);
}
RG_OP(reshape, .doc = "x in another shape", .node = "ViewBackward0", .node_of = rgi_named,
      VIEW_ROW(reshape, view_rule), .some_strides = true,
      RG_SAMPLES({ "(2,6)", RG_A(reshape, .shape = RG_D(3, 4)) },
                 { "()", RG_A(reshape, .shape = RG_D(1, 1)) },
                 { "(0,3)", RG_A(reshape, .shape = RG_D(3, 0)) }));

/* One -1 is what is left over. dim: which of a tensor's is to have that shape; -1: the whole. */
static bool reshape_infer(const char *op, int64_t numel, rg_dims *shape, int dim) {
    int64_t rest = 1;
    int infer = -1;
    if (!rgi_check_dims(op, shape->n))
        return false;
    for (int d = 0; d < shape->n; d++) {
        RG_FAIL_IF(shape->v[d] == -1 && infer >= 0, op, "only one dimension can be inferred");
        RG_FAIL_IF(shape->v[d] < -1, op, "invalid shape dimension %lld at index %d of shape %s",
                   (long long)shape->v[d], d, RG_DIMS_TEXT(shape));
        if (shape->v[d] == -1)
            infer = d;
        else if (__builtin_mul_overflow(rest, shape->v[d], &rest))
            rest = -1, d = shape->n;
    }
    RG_FAIL_IF(infer >= 0 && rest == 0 && numel == 0, op,
               "cannot reshape tensor of 0 elements into shape "
               "%s because the unspecified dimension size -1 can be any value and is ambiguous",
               RG_DIMS_TEXT(shape));
    bool fits = infer >= 0 ? rest > 0 && numel % rest == 0 : rest == numel;
    RG_FAIL_IF(!fits && dim >= 0, op,
               "unflatten: Provided sizes %s don't multiply up to the size of dim %d "
               "(%lld) in the input tensor",
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

rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape) {
    if (!rgi_check(x, "view") || !reshape_infer("view", x->numel, &shape, -1))
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
    return RG_COMPOSITE("reshape",
                        reshape_apply(rg_contiguous(x), &shape, "UnsafeViewBackward0", true));
}

LIKE(view_as, rg_view_dims)
LIKE(reshape_as, rg_reshape_dims)

rg_tensor *rg_flatten(rg_tensor *x, int start_dim, int end_dim) {
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
    for (int d = start + 1; d <= end; d++)
        /* beside a dim of 0 */
        if (__builtin_mul_overflow(shape.v[start], x->size[d], &shape.v[start]))
            shape.v[start] = 0;
    return rg_reshape_dims(x, shape);
}

rg_tensor *rg_unflatten(rg_tensor *x, int dim, rg_dims sizes) {
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
    for (int d = 0; d < shape.n; d++)
        shape.v[d] = d < at             ? x->size[d]
                     : d < at + sizes.n ? sizes.v[d - at]
                                        : x->size[d - sizes.n + 1];
    return rg_view_dims(x, shape);
}
