/*
 * gather.c: functions that read elements at indices along a dim, or write or add elements there.
 * gather and scatter move single elements; index_select and index_add move slices. (Python's x[...]
 * is in subscript.c.) In the formulas, g is the gradient of the result, and gx the gradient of x.
 */
#include "elementwise.h"

#include "autograd/checks.h"
#include "gather.h"

/* ---- functions for all ops with indices along a dim ---------------------------- */

bool rgi_index_in_range(const rg_tensor *index, const rg_tensor *x, int dim) {
    return rgi_want_indices(RG_RUNTIME_ERROR, NULL, index, 0, rgi_index_size(x, dim), dim);
}

/* The attributes of the ops in this file, which read or write along `dim`. `number` is true if the
 * caller passed the source as a number. `scaled` is true if index_add's alpha isn't 1. */
struct index_along_attr {
    const char *node;
    int dim;
    bool number, scaled;
};

/* ALONG expands to a test sample (rg_sample). */
#define ALONG(inputs, dim_) \
    { inputs, RG_A(index_along, .dim = dim_) }

/* Reads or writes elements of t at the indices along dim, as `how` says: K_GET copies t's elements
 * at the indices to `row`, K_PUT copies `row` to these elements of t, and K_ADD adds `row` to them.
 * An index stands for a slice in index_select and index_add, and for a single element in the other
 * ops. */
static bool index_along(const rg_op *op, const struct index_along_attr *a, k_index_how how,
                        rg_tensor *row, const rg_tensor *t, const rg_tensor *index) {
    if (RG_IS(op, index_select) || RG_IS(op, index_add))
        return k_index_slices(how, row, t, a->dim, index);
    return k_index_along(how, row, t, a->dim, index);
}

static bool take_forward(rg_call *c) {
    return index_along(c->op, c->attr, K_GET, c->out[0], c->in[0], c->in[1]);
}

/* Checks the indices again, since the program may have changed them through rg_data. */
static bool take_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    const rg_tensor *index = rgi_saved(s, 1);
    const int dim = RG_ATTR(s, index_along)->dim;
    return index
           && rgi_want_indices(RG_RUNTIME_ERROR, s->op->name, index, 0, rgi_index_size(buffer, dim),
                               dim)
           && index_along(s->op, s->attr, K_ADD, g, buffer, index);
}

static bool put_forward(rg_call *c) {
    rg_tensor *y = c->out[0];
    rg_tensor source = rgi_header_of(c->in[2]);
    if (y != c->in[0])
        rgi_copy_elements(y, c->in[0]);
    if (RG_ATTR(c, index_along)->number)
        memset(source.stride, 0, sizeof source.stride);
    return index_along(c->op, c->attr, RG_IS(c->op, scatter) ? K_PUT : K_ADD, &source, y, c->in[1]);
}

/* ---- gather: for dim 0, y[i][j] = x[index[i][j]][j]; for gx, g is added to zeros at the
 *      indices ----------------------------------------------------------------- */

static bool gather_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const rg_tensor *index = c->in[1];
    int dim = RG_ATTR(c, index_along)->dim;
    if (!rgi_want_integers(NULL, "index", index))
        return false;
    RG_FAIL_IF(index->numel && rgi_index_ndim(x) != rgi_index_ndim(index), NULL,
               "Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < rgi_index_ndim(index) && index->numel; d++)
        RG_FAIL_IF(
            d != dim && rgi_index_size(index, d) > rgi_index_size(x, d), NULL,
            "Size does not match at dimension %d expected index %s to be no larger than self %s "
            "apart from dimension %d",
            d, RG_SHAPE_TEXT(index), RG_SHAPE_TEXT(x), dim);
    rgi_copy_shape(c->out[0], index);
    return rgi_index_in_range(index, x, dim);
}

static rg_tensor *gather_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *zeros = rgi_input_zeros(s);
    return rg_scatter_add(zeros, RG_ATTR(s, index_along)->dim, rgi_saved(s, 1), g);
}

RG_OP(gather, .moves = true, .doc = "x at index along dim", .node = "GatherBackward0",
      .shape = gather_shape, .refuses_values = true, RG_NAMED(index_along), .n_in = 2,
      .forward = take_forward, .grad = { RG_RULE_INTO(RG_IN(1), gather_rule, take_into) },
      RG_SAMPLES(ALONG("(5,3) i5(2,3)", 0), ALONG("(2,3) i3(2,2)", 1),
                 ALONG("(2,3,4) i3(2,5,3)", 1), ALONG("() i1()", 0), ALONG("() i1(3)", 0),
                 ALONG("(2,3) i1(0)", 0)));

rg_tensor *(rg_gather)(rg_tensor *x, int dim, rg_tensor *index) {
    struct index_along_attr a = { 0 };
    if (!rgi_check(x, "gather") || !rgi_wrap_dim("gather", dim, x->ndim, &a.dim))
        return NULL;
    return RG_APPLY(gather, &a, x, index);
}

/* ---- take_along_dim: gather, with x and index broadcast ------------------------ */

/* An index that is out of bounds is replaced by its remainder modulo the size of dim, as in
 * torch. */
rg_tensor *(rg_take_along_dim)(rg_tensor *x, rg_tensor *index, int dim) {
    const char *op = "take_along_dim";
    int d;
    if (!rgi_check(x, op) || !rgi_check(index, op))
        return NULL;
    if (!rgi_want_dims(op, "indices", index, x->ndim, x->ndim)
        || !rgi_want_integers(op, "indices", index) || !rgi_want_any_dim(op, x, dim)
        || !rgi_wrap_dim(op, dim, x->ndim, &d))
        return NULL;
    rg_tensor rest = rgi_header_of(index);
    rg_tensor shape = rgi_header_of(x);
    rest.size[d] = 1;
    if (!rgi_broadcast_shapes(op, x, &rest, &shape))
        return NULL;
    int64_t size = x->size[d];
    int64_t bad;
    rg_dims of_x = rg_shape(&shape);
    rg_dims of_index = of_x;
    of_x.v[d] = size;
    of_index.v[d] = index->size[d];
    RG_AS(op);
    RG_SCOPE();
    if (size && !k_index_within(index, 0, size, &bad))
        index = rg_remainder(index, size);
    return rg_escape(rg_gather(rg_expand_dims(x, of_x), d, rg_expand_dims(index, of_index)));
}

/* ---- scatter: x with the source written at the indices along dim; scatter_add: x with the
 *      source added there ------------------------------------------------------- */

/* Fails unless the sizes of index fit x and the source. No size of index may be larger than the
 * source's. Except along dim, no size of index may be larger than x's. `source` is NULL if the
 * caller passed a number. */
static bool scatter_sizes_fit(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source,
                              int dim) {
    int n = rgi_index_ndim(index);
    RG_FAIL_IF(n != rgi_index_ndim(x), NULL,
               "Index tensor must have the same number of dimensions as self tensor");
    bool fits = true;
    for (int d = 0; d < n; d++)
        fits = fits && (d == dim || rgi_index_size(index, d) <= rgi_index_size(x, d));
    for (int d = 0; d < n && fits && source; d++) {
        int wrapped;
        if (source->ndim && !rgi_wrap_dim(NULL, d, source->ndim, &wrapped))
            return false;
        fits = rgi_index_size(index, d) <= rgi_index_size(source, d);
    }
    RG_FAIL_IF(source && rgi_index_ndim(source) != n, NULL,
               "Index tensor must have the same number of dimensions as src tensor");
    RG_FAIL_IF(!fits && !source, NULL,
               "Expected index %s to be no larger than self %s apart from dimension %d",
               RG_SHAPE_TEXT(index), RG_SHAPE_TEXT(x), dim);
    RG_FAIL_IF(!fits, NULL,
               "Expected index %s to be no larger than self %s apart from dimension %d and to be "
               "no larger size than src %s",
               RG_SHAPE_TEXT(index), RG_SHAPE_TEXT(x), dim, RG_SHAPE_TEXT(source));
    return true;
}

static bool scatter_dtypes_fit(const rg_tensor *x, const rg_tensor *index,
                               const rg_tensor *source) {
    return rgi_want_integers(NULL, "index", index)
           && rgi_want_same_dtype(NULL, "self", x, "src", source);
}

bool rgi_scatter_fits(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source,
                      int dim) {
    return scatter_dtypes_fit(x, index, source)
           && (index->numel == 0 || scatter_sizes_fit(x, index, source, dim));
}

bool rgi_scatter_apart(const rg_tensor *x, const rg_tensor *other) {
    if (!other || other->state != RG_ALIVE)
        return true;
    const char *end = x->data + x->numel * (int64_t)rgi_sizeof(x->dtype);
    const char *other_end = other->data + other->numel * (int64_t)rgi_sizeof(other->dtype);
    bool dense = x->flags & other->flags & RG_CONTIGUOUS;
    bool overlap = dense ? x->data < other_end && other->data < end : x->data == other->data;
    RG_FAIL_IF(x->storage == other->storage && overlap && x->numel && other->numel, NULL,
               "unsupported operation: some elements of the input tensor and the written-to tensor "
               "refer to a single memory location. Please clone() the tensor before performing the "
               "operation.");
    return true;
}

static bool scatter_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const rg_tensor *index = c->in[1];
    const struct index_along_attr *a = RG_ATTR(c, index_along);
    if (!scatter_dtypes_fit(x, index, c->in[2]))
        return false;
    rgi_copy_shape(c->out[0], x);
    if (index->numel == 0)
        return true;
    return scatter_sizes_fit(x, index, a->number ? NULL : c->in[2], a->dim)
           && rgi_index_in_range(index, x, a->dim);
}

static rg_tensor *scatter_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *index = rgi_saved(s, 1);
    return rg_scatter(g, RG_ATTR(s, index_along)->dim, index, 0);
}

rg_tensor *rgi_scatter_widen(const rg_step *s, rg_tensor *g) {
    const rg_dims shape = rgi_input_dims(s, s->input);
    if (g && g->ndim != shape.n)
        return rg_reshape_dims(g, shape);
    for (int d = 0; d < shape.n && g; d++) {
        rg_dims rest = rg_shape(g);
        rest.v[d] = shape.v[d] - rest.v[d];
        if (rest.v[d])
            g = rg_cat(RG_LIST(g, rg_zeros_dims(rest, g->dtype)), d);
    }
    return g;
}

/* The gradient of the source: g at the indices, and 0 in the part of the source that index doesn't
 * cover. */
static rg_tensor *scatter_rule_source(const rg_step *s, rg_tensor *g) {
    const struct index_along_attr *a = RG_ATTR(s, index_along);
    if (a->number)
        return RG_NONE;
    rg_tensor *index = rgi_saved(s, 1);
    if (index && index->numel == 0)
        return rgi_input_zeros(s);
    return rgi_scatter_widen(s, rg_gather(g, a->dim, index));
}

RG_OP(scatter, .moves = true, .doc = "x with source at index along dim", .node = "ScatterBackward0",
      RG_NAMED(index_along), .n_in = 3, .inplace = true, .shape = scatter_shape,
      .refuses_values = true, .forward = put_forward,
      .grad = { RG_RULE(RG_IN(1), scatter_rule_x), RG_NO_RULE,
                RG_RULE(RG_IN(1), scatter_rule_source) },
      RG_SAMPLES(ALONG("(3,1) i1(1,1) (1,1)", 0), ALONG("() i1() ()", 0),
                 ALONG("(1,3,2) i1(1,2,2) (2,2,3)", 0), ALONG("(0,3) i1(0,3) (2,3)", 0),
                 ALONG("(3) i3(1) ()", 0), ALONG("() i1() (1)", 0), ALONG("(3) i3(0) ()", 0),
                 ALONG("(2,3,0) i3(2,2,0) (2,1,0)", 0), ALONG("(2,3) i3(5,0) (1,2)", 0)));
RG_OP(scatter_add, .doc = "x with source added at index along dim", .node = "ScatterAddBackward0",
      RG_NAMED(index_along), .n_in = 3, .inplace = true, .shape = scatter_shape,
      .refuses_values = true, .forward = put_forward,
      .grad = { RG_RULE(0, rgi_rule_same), RG_NO_RULE, RG_RULE(RG_IN(1), scatter_rule_source) },
      RG_SAMPLES(ALONG("(5,3) i5(2,3) (2,3)", 0), ALONG("(2,3,4) i3(2,5,3) (3,5,3)", 1),
                 ALONG("() i1(3) (3)", 0), ALONG("(0,3) i1(0,3) (2,3)", 0),
                 ALONG("(3) i3(1) ()", 0), ALONG("(3) i3() (1)", 0), ALONG("(3) i3(0) ()", 0),
                 ALONG("(2,3,0) i3(2,2,0) (2,1,0)", 0), ALONG("(2,3) i3(5,0) (1,2)", 0)));

/* Returns alpha times the source, in the source's dtype. Fails if alpha doesn't fit into that
 * dtype. */
static rg_tensor *scatter_scaled(rg_tensor *source, double alpha) {
    if (!rgi_factor_fits(NULL, alpha, (rg_dtype)source->dtype))
        return NULL;
    if (rgi_is_float(source->dtype))
        return rg_mul(source, alpha);
    if (rgi_is_bool(source->dtype))
        return rg_mul(source, (bool)(alpha != 0));
    return rg_mul(source, (int64_t)alpha);
}

/* Applies the op. If in_place isn't NULL, it is the name of the public function, and the op is
 * applied in place. In scatter and scatter_add, a source that the caller passed as a number is
 * converted to x's dtype. index_add adds alpha times the source. */
static rg_tensor *scatter_apply(const rg_op *op, const char *in_place, rg_tensor *x, int dim,
                                rg_tensor *index, rg_tensor *source, double alpha) {
    struct index_along_attr a = { .scaled = alpha != 1 };
    if (!rgi_check(x, NULL) || !rgi_check(source, NULL) || !rgi_wrap_dim(NULL, dim, x->ndim, &a.dim)
        || (in_place && !(rgi_scatter_apart(x, index) && rgi_scatter_apart(x, source))))
        return NULL;
    if (!RG_IS(op, index_add) && source->flags & RG_WEAK) {
        a.number = true;
        a.node = "ScatterBackward1";
        source = rgi_element_fits(NULL, source, x->dtype) ? rg_to(source, x->dtype) : NULL;
    } else if (a.scaled) {
        source = scatter_scaled(source, alpha);
    }
    if (!source)
        return NULL;
    rg_tensor *in[] = { x, index, source };
    return in_place ? rgi_apply_inplace(in_place, op, &a, sizeof a, 3, in)
                    : rgi_apply(op, &a, sizeof a, 3, in);
}

rg_tensor *(rg_scatter)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    return RG_COMPOSITE("scatter", scatter_apply(&rg_op_scatter, NULL, x, dim, index, source, 1));
}

rg_tensor *(rg_scatter_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    return RG_COMPOSITE("scatter_",
                        scatter_apply(&rg_op_scatter, "scatter_", x, dim, index, source, 1));
}

rg_tensor *(rg_scatter_add)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    return RG_COMPOSITE("scatter_add",
                        scatter_apply(&rg_op_scatter_add, NULL, x, dim, index, source, 1));
}

rg_tensor *(rg_scatter_add_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    return RG_COMPOSITE("scatter_add_", scatter_apply(&rg_op_scatter_add, "scatter_add_", x, dim,
                                                      index, source, 1));
}

/* ---- index_select: the slices of x at the indices along dim; for gx, g is added to zeros at the
 *      indices ----------------------------------------------------------------- */

static bool index_select_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const rg_tensor *index = c->in[1];
    int dim = RG_ATTR(c, index_along)->dim;
    RG_FAIL_INDEX_IF(index->ndim > 1, NULL, "Index is supposed to be a vector");
    if (!rgi_want_integers(NULL, "index", index))
        return false;
    RG_FAIL_IF(x->ndim == 0 && index->numel != 1, NULL,
               "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
               (long long)index->numel);
    RG_FAIL_IF(x->ndim && x->size[dim] == 0 && index->numel, NULL,
               "index_select(): self indexing axis dim should be positive");
    const rg_code code = x->ndim < 2 || dim == 0 ? RG_INDEX_ERROR : RG_RUNTIME_ERROR;
    if (!rgi_want_indices(code, NULL, index, 0, rgi_index_size(x, dim), dim))
        return false;
    rgi_copy_shape(c->out[0], x);
    if (x->ndim)
        c->out[0]->size[dim] = index->numel;
    return true;
}

static rg_tensor *index_select_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *zeros = rgi_input_zeros(s);
    return rg_index_add(zeros, RG_ATTR(s, index_along)->dim, rgi_saved(s, 1), g, 1);
}

RG_OP(index_select, .moves = true, .doc = "the slices of x at the indices along dim",
      .node = "IndexSelectBackward0", RG_NAMED(index_along), .n_in = 2, .shape = index_select_shape,
      .refuses_values = true, .forward = take_forward,
      .grad = { RG_RULE_INTO(RG_IN(1), index_select_rule, take_into) },
      RG_SAMPLES(ALONG("(5,3) i5(7)", 0), ALONG("(2,3,4) i3(2)", 1), ALONG("(2,3) i3()", 1),
                 ALONG("() i1(1)", 0), ALONG("(3,2) i1(0)", 0), ALONG("(3,0) i3(2)", 0)));

rg_tensor *(rg_index_select)(rg_tensor *x, int dim, rg_tensor *index) {
    struct index_along_attr a = { 0 };
    if (!rgi_check(x, "index_select") || !rgi_wrap_dim("index_select", dim, x->ndim, &a.dim))
        return NULL;
    return RG_APPLY(index_select, &a, x, index);
}

/* ---- index_add: x with the slices of the source added at the indices along dim ---- */

static bool index_add_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    const rg_tensor *index = c->in[1];
    const rg_tensor *source = c->in[2];
    int dim = RG_ATTR(c, index_along)->dim;
    RG_FAIL_INDEX_IF(index->ndim > 1, NULL,
                     "Index is supposed to be a vector, but got dim: %d with type: %s and size: %s",
                     index->ndim, rgi_scalar_name(index->dtype), RG_SHAPE_TEXT(index));
    if (!rgi_want_integers(NULL, "index", index)
        || !rgi_want_same_dtype(NULL, "self", x, "source", source))
        return false;
    RG_FAIL_IF(source->ndim && dim >= source->ndim, NULL,
               "Indexing dim %d is out of bounds of the source tensor with dim %d", dim,
               source->ndim);
    int64_t count = rgi_index_size(source, dim);
    RG_FAIL_IF(count != index->numel, NULL,
               "Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %d",
               (long long)index->numel, (long long)count, dim);
    bool fits = x->ndim == source->ndim;
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == dim || x->size[d] == source->size[d];
    RG_FAIL_IF(!fits, NULL,
               "source tensor shape must match self tensor shape, excluding the specified "
               "dimension. Got self.shape = %s source.shape = %s",
               RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(source));
    rgi_copy_shape(c->out[0], x);
    /* For an index out of range, torch has two error codes. If alpha is 1 and dim is the first or
     * the last dim, torch's index_add calls scatter_add, and fails with scatter_add's code. */
    const bool scatters = x->ndim > 1 && (dim == 0 || dim == x->ndim - 1)
                          && !RG_ATTR(c, index_along)->scaled;
    return rgi_want_indices(scatters ? RG_RUNTIME_ERROR : RG_INDEX_ERROR, NULL, index, 0,
                            rgi_index_size(x, dim), dim);
}

static rg_tensor *index_add_rule_source(const rg_step *s, rg_tensor *g) {
    return rg_index_select(g, RG_ATTR(s, index_along)->dim, rgi_saved(s, 1));
}

RG_OP(index_add, .doc = "x with slices of the source added at the indices along dim",
      .node = "IndexAddBackward0", RG_NAMED(index_along), .n_in = 3, .inplace = true,
      .shape = index_add_shape, .refuses_values = true, .forward = put_forward,
      .grad = { RG_RULE(0, rgi_rule_same), RG_NO_RULE, RG_RULE(RG_IN(1), index_add_rule_source) },
      RG_SAMPLES(ALONG("(5,3) i5(7) (7,3)", 0), ALONG("(2,3,4) i3(2) (2,2,4)", 1),
                 ALONG("() i1(1) ()", 0), ALONG("(3,2) i1(0) (0,2)", 0),
                 ALONG("(3) i3(5) (5)", 0)));

rg_tensor *(rg_index_add)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                          double alpha) {
    return RG_COMPOSITE("index_add",
                        scatter_apply(&rg_op_index_add, NULL, x, dim, index, source, alpha));
}

rg_tensor *(rg_index_add_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                           double alpha) {
    return RG_COMPOSITE(
        "index_add_", scatter_apply(&rg_op_index_add, "index_add_", x, dim, index, source, alpha));
}
