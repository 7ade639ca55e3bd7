/*
 * part.c: views of a part of a tensor: the slice at an index, a range, or a diagonal; and views
 * with a new dim. (Functions that return a list of parts are in split.c.) In the formulas, g is the
 * gradient of the result, and gx the gradient of x.
 */
#include "autocast.h"
#include "view.h"

#include "autograd/checks.h"

#include <stdlib.h>

/* ---- making the header of a part: an rg_tensor that shares the elements of the part ---- */

static void part_drop_dim(rg_tensor *t, int d) {
    for (t->ndim--; d < t->ndim; d++) {
        t->size[d] = t->size[d + 1];
        t->stride[d] = t->stride[d + 1];
    }
}

static void part_insert_dim(rg_tensor *t, int dim, int64_t size, int64_t stride) {
    for (int d = t->ndim++; d > dim; d--) {
        t->size[d] = t->size[d - 1];
        t->stride[d] = t->stride[d - 1];
    }
    t->size[dim] = size;
    t->stride[dim] = stride;
}

/* part_product and part_sum return a * b and a + b, wrapped to 60 bits. They compute strides and
 * starts. A result needs more than 60 bits only if it is for an empty tensor or a dim of size 1. No
 * element is reached by such a stride or start, so its value doesn't matter. But its product with
 * the size of an element must not overflow. */
static int64_t part_product(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b << 4) >> 4;
}
static int64_t part_sum(int64_t a, int64_t b) {
    return (int64_t)(((uint64_t)a + (uint64_t)b) << 4) >> 4;
}

static void part_take_new(rg_tensor *t, int dim) {
    int64_t stride = dim < t->ndim ? part_product(t->size[dim], t->stride[dim]) : 1;
    part_insert_dim(t, dim, 1, stride);
}

static void part_take_diagonal(rg_tensor *t, const rg_part *p) {
    int64_t stride = part_sum(t->stride[p->dim], t->stride[p->dim2]);
    part_drop_dim(t, RG_MAX(p->dim, p->dim2));
    part_drop_dim(t, RG_MIN(p->dim, p->dim2));
    part_insert_dim(t, t->ndim, p->length, stride);
}

/* Returns the distance, in elements of memory, from t's first element to the first element of the
 * part. For an empty part, returns 0. */
static int64_t part_start(const rg_tensor *t, const rg_part *p) {
    if (p->kind == RG_AT_NEW || (p->kind != RG_AT_INDEX && p->length == 0))
        return 0;
    if (p->kind == RG_AT_DIAGONAL && p->start >= 0)
        return part_product(p->start, t->stride[p->dim2]);
    int64_t start = part_product(p->start, t->stride[p->dim]);
    return p->kind == RG_AT_DIAGONAL ? -start : start;
}

void rgi_take_part(rg_tensor *t, const rg_part *p) {
    int64_t start = part_start(t, p);
    switch (p->kind) {
    case RG_AT_INDEX: part_drop_dim(t, p->dim); break;
    case RG_AT_NEW: part_take_new(t, p->dim); break;
    case RG_AT_DIAGONAL: part_take_diagonal(t, p); break;
    case RG_AT_RANGE:
        t->size[p->dim] = p->length;
        t->stride[p->dim] = part_product(t->stride[p->dim], p->step);
    }
    t->data += start * (int64_t)rgi_sizeof(t->dtype);
    rgi_update_flags(t);
}

bool rgi_part_check(const char *op, rg_code code, const char *sentence, rg_tensor *x, int dim,
                    int *wrapped) {
    if (!rgi_check(x, op))
        return false;
    RG_FAIL_AS_IF(code, x->ndim == 0, op, sentence, op);
    return rgi_wrap_dim(op, dim, x->ndim, wrapped);
}

/* ---- functions for all views of parts; gx is zeros with g in the place of the part ---- */

static bool part_view(rg_call *c) {
    rgi_view_begin(c);
    rgi_take_part(c->out[0], c->attr);
    return true;
}

/* The attributes of unslice, which writes x over a part of a tensor of zeros. `at` is that part,
 * and `shape` the shape of the zeros. */
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
    RG_PART_HEADER(part, buffer, s->attr);
    return k_run(k_add, &part, &part, g);
}

#define PART_ROW(name) \
    .node = name, .node_of = rgi_named, .attr_size = sizeof(rg_part), .n_in = 1, .view = part_view
#define PART_GRADIENT .grad = { RG_RULE_INTO(0, part_rule, part_into) }
/* PART expands to the initializer of a test sample (rg_sample). */
#define PART(inputs, ...)                        \
    {                                            \
        inputs, &(const rg_part) { __VA_ARGS__ } \
    }

static const char part_no_dims[] = "%s() cannot be applied to a 0-dim tensor.";

/* ---- select: x at one index of dim --------------------------------------------- */

RG_OP(select, .doc = "x at one index of dim", PART_ROW("SelectBackward0"), PART_GRADIENT,
      RG_SAMPLES(PART("(2,3)", RG_PART_INDEX(0, 1)), PART("(2,3,4)", RG_PART_INDEX(1, 0)),
                 PART("(3)", RG_PART_INDEX(0, 2)), PART("(2,0)", RG_PART_INDEX(0, 1))));

rg_tensor *(rg_select)(rg_tensor *x, int dim, int64_t index) {
    int d;
    if (!rgi_part_check("select", RG_INDEX_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    RG_FAIL_INDEX_IF(index < -x->size[d] || index >= x->size[d], "select",
                     "select(): index %lld out of range for tensor of size %s at dimension %d",
                     (long long)index, RG_SHAPE_TEXT(x), d);
    return rgi_part_of(x, &(rg_part){ RG_PART_INDEX(d, index < 0 ? index + x->size[d] : index) });
}

/* ---- slice: x[start:start + length * step:step] along dim ---------------------- */

RG_OP(slice, .doc = "x[start:start + length step:step] along dim", PART_ROW("SliceBackward0"),
      PART_GRADIENT,
      RG_SAMPLES(PART("(2,3)", RG_PART_RANGE(1, 1, 2, 1)), PART("(7,2)", RG_PART_RANGE(0, 1, 3, 2)),
                 PART("(3)", RG_PART_RANGE(0, 3, 0, 1)),
                 PART("(2,0,3)", RG_PART_RANGE(2, 0, 2, 2))));

int64_t rgi_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step) {
    *start = *start < 0 ? RG_MAX(*start + size, 0) : RG_MIN(*start, size);
    end = end < 0 ? end + size : RG_MIN(end, size);
    return end > *start ? (end - *start - 1) / step + 1 : 0;
}

rg_tensor *(rg_slice)(rg_tensor *x, int dim, int64_t start, int64_t end, int64_t step) {
    int d;
    if (!rgi_part_check("slice", RG_INDEX_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    RG_FAIL_IF(step <= 0, "slice", "slice step must be positive");
    int64_t length = rgi_slice_length(x->size[d], &start, end, step);
    return rgi_part_of(x, &(rg_part){ RG_PART_RANGE(d, start, length, step) });
}

rg_tensor *(rg_narrow)(rg_tensor *x, int dim, int64_t start, int64_t length) {
    int d;
    RG_AS("narrow");
    if (!rgi_check(x, NULL))
        return NULL;
    RG_FAIL_IF(x->ndim && length < 0, NULL, "narrow(): length must be non-negative.");
    if (!rgi_part_check("narrow", RG_RUNTIME_ERROR, part_no_dims, x, dim, &d))
        return NULL;
    int64_t size = x->size[d];
    RG_FAIL_INDEX_IF(start < -size || start > size, NULL,
                     "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                     (long long)-size, (long long)size, (long long)start);
    if (start < 0)
        start += size;
    RG_FAIL_IF(length > size - start, NULL,
               "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
               (long long)length, (long long)size);
    return rgi_part_of(x, &(rg_part){ RG_PART_RANGE(d, start, length, 1) });
}

/* ---- diagonal: the elements x[.., i, i + offset, ..] --------------------------- */

RG_OP(diagonal, .doc = "the elements x[.., i, i + offset, ..]", PART_ROW("DiagonalBackward0"),
      PART_GRADIENT,
      RG_SAMPLES(PART("(2,3,4)", RG_PART_DIAGONAL(2, 0, 1, 1)),
                 PART("(4,2,3)", RG_PART_DIAGONAL(0, 2, -2, 2)),
                 PART("(2,3)", RG_PART_DIAGONAL(0, 1, 5, 0)),
                 PART("(0,3)", RG_PART_DIAGONAL(0, 1, 0, 0))));

/* Sets p->length to the length of the diagonal whose offset is p->start. If the diagonal is empty,
 * sets p->start to 0. */
static void diagonal_within(const rg_tensor *x, rg_part *p) {
    int64_t n = x->size[p->dim];
    int64_t m = x->size[p->dim2];
    p->length = RG_MAX(p->start < 0 ? RG_MIN(n + p->start, m) : RG_MIN(n, m - p->start), 0);
    if (p->length == 0)
        p->start = 0;
}

rg_tensor *(rg_diagonal)(rg_tensor *x, int64_t offset, int dim1, int dim2) {
    rg_part p = { .kind = RG_AT_DIAGONAL, .start = offset };
    if (!rgi_check(x, "diagonal") || !rgi_wrap_dim("diagonal", dim1, x->ndim, &p.dim)
        || !rgi_wrap_dim("diagonal", dim2, x->ndim, &p.dim2))
        return NULL;
    RG_FAIL_IF(p.dim == p.dim2, "diagonal", "diagonal dimensions cannot be identical %d, %d", dim1,
               dim2);
    diagonal_within(x, &p);
    return rgi_part_of(x, &p);
}

/* ---- unsqueeze: x with a further dim, of size 1; gx = g in x's shape ----------- */

RG_OP(unsqueeze, .doc = "x with a dim of size 1 more", PART_ROW("UnsqueezeBackward0"),
      .grad = { RG_RULE(0, rgi_rule_reshape) },
      RG_SAMPLES(PART("(2,3)", RG_PART_NEW(1)), PART("()", RG_PART_NEW(0)),
                 PART("(0,2)", RG_PART_NEW(2))));

rg_tensor *(rg_unsqueeze)(rg_tensor *x, int dim) {
    rg_part p = { RG_PART_NEW(0) };
    if (!rgi_check(x, "unsqueeze") || !rgi_wrap_dim("unsqueeze", dim, x->ndim + 1, &p.dim)
        || !rgi_check_dims("unsqueeze", x->ndim + 1))
        return NULL;
    return rgi_part_of(x, &p);
}

/* ---- the op for each kind of part ---------------------------------------------- */

rg_tensor *rgi_part_of(rg_tensor *x, const rg_part *p) {
    static const rg_op *const ops[] = { [RG_AT_INDEX] = &rg_op_select,
                                        [RG_AT_RANGE] = &rg_op_slice,
                                        [RG_AT_DIAGONAL] = &rg_op_diagonal,
                                        [RG_AT_NEW] = &rg_op_unsqueeze };
    return rgi_apply(ops[p->kind], p, sizeof *p, 1, &x);
}

/* ---- unslice: zeros with x in the place of a part; gx is that part of g -------- */

static bool unslice_shape(rg_call *c) {
    rgi_set_size(c->out[0], &RG_ATTR(c, unslice)->shape);
    return true;
}

static bool unslice_forward(rg_call *c) {
    RG_PART_HEADER(part, c->out[0], &RG_ATTR(c, unslice)->at);
    rgi_fill_zero(c->out[0]);
    rgi_copy_elements(&part, c->in[0]);
    return true;
}

static rg_tensor *unslice_rule(const rg_step *s, rg_tensor *g) {
    return rgi_part_of(g, &RG_ATTR(s, unslice)->at);
}

RG_OP(unslice, .moves = true, .doc = "zeros with x in the place of a slice",
      .node = "UnsliceBackward0", RG_NAMED(unslice), .n_in = 1, RG_MADE(unslice),
      .grad = { RG_RULE(0, unslice_rule) },
      RG_SAMPLES({ "(2,2)", RG_A(unslice, { RG_PART_RANGE(1, 1, 2, 2) }, RG_D(2, 5)) },
                 { "(3,1)", RG_A(unslice, { RG_PART_DIAGONAL(2, 0, 1, 1) }, RG_D(2, 3, 4)) },
                 { "(0)", RG_A(unslice, { RG_PART_INDEX(0, 1) }, RG_D(2, 0)) }));

/* ---- diagonal_copy: a copy of a matrix's diagonal ------------------------------ */

static bool diagonal_copy_shape(rg_call *c) {
    RG_PART_HEADER(part, c->in[0], c->attr);
    rgi_copy_shape(c->out[0], &part);
    return true;
}

static bool diagonal_copy_forward(rg_call *c) {
    RG_PART_HEADER(part, c->in[0], c->attr);
    rgi_copy_elements(c->out[0], &part);
    return true;
}

RG_OP(diagonal_copy, .moves = true, .doc = "a matrix's diagonal, as a tensor of its own",
      .attr_size = sizeof(rg_part), .node = "DiagonalBackward0_copy", .n_in = 1,
      RG_MADE(diagonal_copy), PART_GRADIENT,
      RG_SAMPLES(PART("(3,4)", RG_PART_DIAGONAL(0, 1, 1, 3)),
                 PART("(0,4)", RG_PART_DIAGONAL(0, 1, 0, 0))));

/* ---- diag_embed: zeros, but with x's last dim laid along the diagonal of two new dims; gx is
 *      that diagonal of g ------------------------------------------------------- */

/* Returns the number of rows of the square matrix whose diagonal at the given offset has `length`
 * elements, or INT64_MAX if an int64 can't hold the number. */
static int64_t diagonal_side(int64_t length, int64_t offset) {
    int64_t side;
    if (offset == INT64_MIN || __builtin_add_overflow(length, llabs(offset), &side))
        return INT64_MAX;
    return side;
}

rg_tensor *(rg_diag_embed)(rg_tensor *x, int64_t offset, int dim1, int dim2) {
    struct unslice_attr a = { .at = { RG_PART_DIAGONAL(0, 0, offset, 0) } };
    if (!rgi_check(x, "diag_embed") || !rgi_wrap_dim("diag_embed", dim1, x->ndim + 1, &a.at.dim)
        || !rgi_wrap_dim("diag_embed", dim2, x->ndim + 1, &a.at.dim2))
        return NULL;
    RG_FAIL_IF(a.at.dim == a.at.dim2, "diag_embed",
               "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
    if (!rgi_check_dims("diag_embed", x->ndim + 1))
        return NULL;
    a.at.node = "DiagEmbedBackward0";
    a.at.length = x->size[x->ndim - 1];
    int64_t side = diagonal_side(a.at.length, offset);
    for (int from = 0; a.shape.n <= x->ndim; a.shape.n++) {
        bool along = a.shape.n == a.at.dim || a.shape.n == a.at.dim2;
        a.shape.v[a.shape.n] = along ? side : x->size[from++];
    }
    RG_AS("diag_embed");
    return RG_APPLY(unslice, &a, x);
}

/* ---- diag: the matrix with a vector on its diagonal, or a matrix's diagonal ---- */

rg_tensor *(rg_diag)(rg_tensor *x, int64_t offset) {
    RG_AS("diag");
    if (!rgi_check(x, "diag"))
        return NULL;
    rg_part p = { RG_PART_DIAGONAL(0, 1, offset, x->numel) };
    if (x->ndim == 2) {
        diagonal_within(x, &p);
        return RG_APPLY(diagonal_copy, &p, x);
    }
    if (!rgi_want_dims("diag", "input", x, 1, 2))
        return NULL;
    int64_t size = diagonal_side(x->numel, offset);
    p.node = "DiagEmbedBackward0";
    return RG_APPLY(unslice, RG_A(unslice, p, { 2, { size, size } }), x);
}

/* ---- trace: the sum of a matrix's diagonal; gx is g along the diagonal --------- */

/* Gives the output no dims. If x isn't floating point, sets the output's dtype to int64. */
static bool trace_shape(rg_call *c) {
    if (!rgi_is_float(c->in[0]->dtype))
        c->out[0]->dtype = RG_INT64;
    c->out[0]->ndim = 0;
    return true;
}

static bool trace_forward(rg_call *c) {
    RG_PART_HEADER(part, c->in[0], c->attr);
    return k_sum(c->out[0], &part, 1);
}

static rg_tensor *trace_rule(const rg_step *s, rg_tensor *g) {
    const rg_part *diagonal = s->attr;
    return part_rule(s, rg_expand(g, diagonal->length));
}

RG_OP(trace, .doc = "the sum of a matrix's diagonal", .node = "TraceBackward0",
      .attr_size = sizeof(rg_part), .n_in = 1, RG_MADE(trace), .grad = { RG_RULE(0, trace_rule) },
      RG_SAMPLES(PART("(2,4)", RG_PART_DIAGONAL(0, 1, 0, 2)),
                 PART("(0,3)", RG_PART_DIAGONAL(0, 1, 0, 0))));

rg_tensor *rg_trace(rg_tensor *x) {
    RG_AUTOCASTS(RG_WIDER, rg_trace(in[0]), x);
    rg_part p = { RG_PART_DIAGONAL(0, 1, 0, 0) };
    if (!rgi_check(x, "trace") || !rgi_want_dims("trace", "input", x, 2, 2)
        || !rgi_want_no_bool("trace", x))
        return NULL;
    diagonal_within(x, &p);
    return RG_APPLY(trace, &p, x);
}
