/*
 * index.c: elements by their place: gather, scatter, and what is made of them.
 */
#include "autograd/op.h"

/* torch lets a 0-d tensor stand for a vector of one. */
static int index_ndim(const rg_tensor *t) { return t->ndim ? t->ndim : 1; }
static int64_t index_size(const rg_tensor *t, int dim) { return t->ndim ? t->size[dim] : 1; }

static bool index_in_range(const rg_tensor *index, const rg_tensor *x, int dim) {
    int64_t bad, size = index_size(x, dim);
    RG_FAIL_IF(!k_index_within(index, 0, size, &bad), NULL,
               "index %lld is out of bounds for dimension %d "
               "with size %lld",
               (long long)bad, dim, (long long)size);
    return true;
}

/* ---- along dim: an index stands for one element (gather, scatter) or for a slice (index_select, index_add) ---- */

/* number: the source was one; scaled: alpha isn't 1 */
struct index_along_attr {
    const char *node;
    int dim;
    bool number, scaled;
};
#define ALONG(inputs, dim_) \
    { inputs, RG_A(index_along, .dim = dim_) } /* a sample */

static bool index_along(const rg_op *op, const struct index_along_attr *a, k_index_how how,
                        rg_tensor *row, const rg_tensor *t, const rg_tensor *index) {
    bool slices = RG_IS(op, index_select) || RG_IS(op, index_add);
    if (index)
        (slices ? k_index_slices : k_index_along)(how, row, t, a->dim, index);
    return index;
}

static bool take_forward(rg_call *c) {
    return index_along(c->op, c->attr, K_GET, c->out[0], c->in[0], c->in[1]);
}

static rg_tensor *take_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *zeros = rgi_input_zeros(s), *index = rgi_saved(s, 1);
    int dim = RG_ATTR(s, index_along)->dim;
    return RG_IS(s->op, gather) ? rg_scatter_add(zeros, dim, index, g)
                                : rg_index_add(zeros, dim, index, g, 1);
}

static bool take_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    return index_along(s->op, s->attr, K_ADD, g, buffer, rgi_saved(s, 1));
}

static bool put_forward(rg_call *c) {
    rg_tensor *y = c->out[0], source = *c->in[2];
    if (y != c->in[0])
        rgi_copy_elements(y, c->in[0]);
    if (RG_ATTR(c, index_along)->number) {
        source.ndim = c->in[1]->ndim;
        memset(source.stride, 0, sizeof source.stride);
    }
    return index_along(c->op, c->attr, RG_IS(c->op, scatter) ? K_PUT : K_ADD, &source, y, c->in[1]);
}

#define OF_index                                  \
    RG_IN(1), rg_tensor *index = rgi_saved(s, 1); \
    int dim = RG_ATTR(s, index_along)->dim;
#define TAKE_ROW                                               \
    RG_NAMED(index_along), .n_in = 2, .forward = take_forward, \
                           .grad = { RG_RULE_INTO(RG_IN(1), take_rule, take_into) }
#define PUT_ROW(x_rule, source_rule)                                           \
    RG_NAMED(index_along), .n_in = 3, .inplace = true, .forward = put_forward, \
                           .grad = { x_rule, RG_NO_RULE, RG_RULE(RG_IN(1), source_rule) }
#define PUT_ADDED RG_RULE(0, rgi_rule_same)

/* ---- gather: y[i][j] = x[index[i][j]][j]; the gradient is added there ---------- */
static bool gather_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *index = c->in[1];
    int dim = RG_ATTR(c, index_along)->dim;
    RG_FAIL_IF(index->dtype != RG_INT64, NULL, "gather(): Expected dtype int32/int64 for index");
    RG_FAIL_IF(index->numel && index_ndim(x) != index_ndim(index), NULL,
               "Index tensor must have the same "
               "number of dimensions as input tensor");
    for (int d = 0; d < index_ndim(index) && index->numel; d++)
        RG_FAIL_IF(
            d != dim && index_size(index, d) > index_size(x, d), NULL,
            "Size does not match at "
            "dimension %d expected index %s to be no larger than self %s apart from dimension %d",
            d, RG_SHAPE_TEXT(index), RG_SHAPE_TEXT(x), dim);
    rgi_copy_shape(c->out[0], index);
    return index_in_range(index, x, dim);
}
RG_OP(gather, .doc = "x at index along dim", .node = "GatherBackward0", .shape = gather_shape,
      TAKE_ROW,
      RG_SAMPLES(ALONG("(5,3) i5(2,3)", 0), ALONG("(2,3) i3(2,2)", 1),
                 ALONG("(2,3,4) i3(2,5,3)", 1), ALONG("() i1()", 0), ALONG("() i1(3)", 0),
                 ALONG("(2,3) i1(0)", 0)));

#define TAKE(name)                                                                  \
    rg_tensor *rg_##name(rg_tensor *x, int dim, rg_tensor *index) {                 \
        struct index_along_attr a = { 0 };                                          \
        bool ok = rgi_check(x, #name) && rgi_wrap_dim(#name, dim, x->ndim, &a.dim); \
        return ok ? RG_APPLY(name, &a, x, index) : NULL;                            \
    }
TAKE(gather)

/* torch takes indices here as the remainder by the size. */
rg_tensor *rg_take_along_dim(rg_tensor *x, rg_tensor *index, int dim) {
    static const char op[] = "take_along_dim";
    int d;
    if (!rgi_check(x, op) || !rgi_check(index, op))
        return NULL;
    RG_FAIL_IF(
        x->ndim != index->ndim, op,
        "torch.take_along_dim(): input and indices should have the same "
        "number of dimensions, but got %d dimensions for input, and %d dimensions for indices",
        x->ndim, index->ndim);
    RG_FAIL_IF(index->dtype != RG_INT64, op,
               "torch.take_along_dim(): dtype of indices should be Long but got "
               "%s",
               rgi_scalar_name(index->dtype));
    RG_FAIL_INDEX_IF(x->ndim == 0, op, "Dimension specified as %d but tensor has no dimensions",
                     dim);
    if (!rgi_wrap_dim(op, dim, x->ndim, &d))
        return NULL;
    rg_tensor rest = *index, shape = *x;
    rest.size[d] = 1;
    if (!rgi_broadcast_shapes(op, x, &rest, &shape))
        return NULL;
    int64_t size = x->size[d], bad;
    rg_dims of_x = rg_shape(&shape), of_index = of_x;
    of_x.v[d] = size;
    of_index.v[d] = index->size[d];
    RG_AS(op);
    RG_SCOPE();
    if (size && !k_index_within(index, 0, size, &bad))
        index = rg_remainder(index, size);
    return rg_escape(rg_gather(rg_expand_dims(x, of_x), d, rg_expand_dims(index, of_index)));
}

/* ---- scatter: x with source at index along dim; scatter_add: added to what is there ---- */
static bool scatter_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *index = c->in[1], *source = c->in[2];
    const struct index_along_attr *a = RG_ATTR(c, index_along);
    RG_FAIL_IF(index->dtype != RG_INT64, NULL, "scatter(): Expected dtype int32/int64 for index");
    RG_FAIL_IF(x->dtype != source->dtype, NULL,
               "scatter(): Expected self.dtype to be equal to src.dtype");
    rgi_copy_shape(c->out[0], x);
    if (index->numel == 0)
        return true;
    int n = index_ndim(index);
    RG_FAIL_IF(n != index_ndim(x), NULL,
               "Index tensor must have the same number of dimensions as self "
               "tensor");
    bool fits = true;
    for (int d = 0; d < n; d++)
        fits = fits && (d == a->dim || index_size(index, d) <= index_size(x, d));
    for (int d = 0, in; d < n && fits && !a->number; d++) {
        if (source->ndim && !rgi_wrap_dim(NULL, d, source->ndim, &in))
            return false;
        fits = index_size(index, d) <= index_size(source, d);
    }
    RG_FAIL_IF(!a->number && index_ndim(source) != n, NULL,
               "Index tensor must have the same number of "
               "dimensions as src tensor");
    RG_FAIL_IF(!fits, NULL,
               "Expected index %s to be no larger than self %s apart from dimension %d%s%s",
               RG_SHAPE_TEXT(index), RG_SHAPE_TEXT(x), a->dim,
               a->number ? "" : " and to be no larger size than src ",
               a->number ? "" : RG_SHAPE_TEXT(source));
    return index_in_range(index, x, a->dim);
}
RULE(scatter_rule_x, index, rg_scatter(g, dim, index, 0))

/* g at the index; zeros where the source is larger than it */
static rg_tensor *scatter_rule_source(const rg_step *s, rg_tensor *g) {
    const struct index_along_attr *a = RG_ATTR(s, index_along);
    rg_tensor *index = rgi_saved(s, 1);
    if (!index || a->number)
        return index ? RG_NONE : NULL;
    g = rg_gather(g, a->dim, index);
    rg_dims shape = rgi_input_dims(s, 2);
    if (g && g->ndim != shape.n)
        return index->numel ? rg_reshape_dims(g, shape) : RG_NONE;
    for (int d = 0; d < shape.n && g; d++) {
        rg_dims rest = rg_shape(g);
        rest.v[d] = shape.v[d] - rest.v[d];
        if (rest.v[d])
            g = rg_cat(RG_LIST(g, rg_zeros_dims(rest, g->dtype)), d);
    }
    return g;
}
RG_OP(scatter, .doc = "x with source at index along dim", .node = "ScatterBackward0",
      .shape = scatter_shape, PUT_ROW(RULED(scatter_rule_x), scatter_rule_source),
      RG_SAMPLES(ALONG("(3,1) i1(1,1) (1,1)", 0), ALONG("() i1() ()", 0),
                 ALONG("(1,3,2) i1(1,2,2) (2,2,3)", 0), ALONG("(0,3) i1(0,3) (2,3)", 0)));
RG_OP(scatter_add, .doc = "x with source added at index along dim", .node = "ScatterAddBackward0",
      .shape = scatter_shape, PUT_ROW(PUT_ADDED, scatter_rule_source),
      RG_SAMPLES(ALONG("(5,3) i5(2,3) (2,3)", 0), ALONG("(2,3,4) i3(2,5,3) (3,5,3)", 1),
                 ALONG("() i1(3) (3)", 0), ALONG("(0,3) i1(0,3) (2,3)", 0)));

/* in place: a name of its own, else NULL; alpha times the source, in its own dtype, as x will take
 * it. */
static rg_tensor *scatter_apply(const rg_op *op, const char *in_place, rg_tensor *x, int dim,
                                rg_tensor *index, rg_tensor *source, double alpha) {
    struct index_along_attr a = { .scaled = alpha != 1 };
    rg_tensor *in[] = { x, index, source };
    if (!rgi_check(x, NULL) || !rgi_check(source, NULL))
        return NULL;
    if (!rgi_wrap_dim(NULL, dim, x->ndim, &a.dim))
        return NULL;
    if (!RG_IS(op, index_add) && source->flags & RG_WEAK) {
        a.number = true, a.node = "ScatterBackward1";
        in[2] = rg_to(source, x->dtype);
    } else if (a.scaled) {
        in[2] = rgi_is_float(source->dtype) ? rg_mul(source, alpha)
                : source->dtype == RG_BOOL
                    ? rg_mul(source, (bool)(alpha != 0))
                    : rg_mul(source, (int64_t)RG_MAX(RG_MIN(alpha, 9e18), -9e18));
    }
    if (!in[2])
        return NULL;
    return in_place ? rgi_apply_inplace(in_place, op, &a, sizeof a, 3, in)
                    : rgi_apply(op, &a, sizeof a, 3, in);
}

#define SCATTER(name, op, in_place, alpha, ...)                                                  \
    rg_tensor *(rg_##name)(rg_tensor * x, int dim, rg_tensor *index,                             \
                           rg_tensor *source __VA_ARGS__) {                                      \
        return RG_COMPOSITE(#name,                                                               \
                            scatter_apply(&rg_op_##op, in_place, x, dim, index, source, alpha)); \
    }
SCATTER(scatter, scatter, NULL, 1)
SCATTER(scatter_, scatter, "scatter_", 1)
SCATTER(scatter_add, scatter_add, NULL, 1)
SCATTER(scatter_add_, scatter_add, "scatter_add_", 1)
SCATTER(index_add, index_add, NULL, alpha, , double alpha)
SCATTER(index_add_, index_add, "index_add_", alpha, , double alpha)

/* ---- index_select: the slices of x at the indices along dim -------------------- */
static bool index_select_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *index = c->in[1];
    int dim = RG_ATTR(c, index_along)->dim;
    int64_t bad;
    RG_FAIL_INDEX_IF(index->ndim > 1, NULL, "index_select(): Index is supposed to be a vector");
    RG_FAIL_IF(index->dtype != RG_INT64, NULL,
               "index_select(): Expected dtype int32 or int64 for index");
    RG_FAIL_IF(x->ndim == 0 && index->numel != 1, NULL,
               "index_select(): Index to scalar can have only 1 "
               "value, got %lld value(s)",
               (long long)index->numel);
    RG_FAIL_IF(x->ndim && x->size[dim] == 0 && index->numel, NULL,
               "index_select(): self indexing axis dim "
               "should be positive");
    bool within = k_index_within(index, 0, index_size(x, dim), &bad);
    RG_FAIL_INDEX_IF(!within && (x->ndim < 2 || dim == 0), NULL, "index out of range in self");
    RG_FAIL_IF(!within, NULL, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld",
               (long long)bad, (long long)x->size[dim]);
    rgi_copy_shape(c->out[0], x);
    if (x->ndim)
        c->out[0]->size[dim] = index->numel;
    return true;
}
RG_OP(index_select, .doc = "the slices of x at the indices along dim",
      .node = "IndexSelectBackward0", .shape = index_select_shape, TAKE_ROW,
      RG_SAMPLES(ALONG("(5,3) i5(7)", 0), ALONG("(2,3,4) i3(2)", 1), ALONG("(2,3) i3()", 1),
                 ALONG("() i1(1)", 0), ALONG("(3,2) i1(0)", 0), ALONG("(3,0) i3(2)", 0)));

TAKE(index_select)

/* ---- index_add: x with slices of the source added at the indices along dim ----- */
static bool index_add_shape(rg_call *c) {
    const rg_tensor *x = c->in[0], *index = c->in[1], *source = c->in[2];
    int dim = RG_ATTR(c, index_along)->dim;
    int64_t bad;
    RG_FAIL_INDEX_IF(index->ndim > 1, NULL,
                     "index_add_(): Index is supposed to be a vector, but got dim: %d "
                     "with type: %s and size: %s",
                     index->ndim, rgi_scalar_name(index->dtype), RG_SHAPE_TEXT(index));
    RG_FAIL_IF(index->dtype != RG_INT64, NULL,
               "index_add_(): Expected dtype int32/int64 for index but got: "
               "%s",
               rgi_scalar_name(index->dtype));
    RG_FAIL_IF(x->dtype != source->dtype, NULL,
               "index_add_(): self (%s) and source (%s) must have the same "
               "scalar type",
               rgi_scalar_name(x->dtype), rgi_scalar_name(source->dtype));
    RG_FAIL_IF(source->ndim && dim >= source->ndim, NULL,
               "index_add_(): Indexing dim %d is out of bounds of "
               "the source tensor with dim %d",
               dim, source->ndim);
    int64_t count = index_size(source, dim);
    RG_FAIL_IF(count != index->numel, NULL,
               "index_add_(): Number of indices (%lld) should be equal to "
               "source.size(dim): (%lld), for dim: %d",
               (long long)index->numel, (long long)count, dim);
    bool fits = x->ndim == source->ndim;
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == dim || x->size[d] == source->size[d];
    RG_FAIL_IF(!fits, NULL,
               "source tensor shape must match self tensor shape, excluding the specified "
               "dimension. Got self.shape = %s source.shape = %s",
               RG_SHAPE_TEXT(x), RG_SHAPE_TEXT(source));
    rgi_copy_shape(c->out[0], x);
    if (x->ndim > 1 && (dim == 0 || dim == x->ndim - 1) && !RG_ATTR(c, index_along)->scaled)
        return index_in_range(index, x, dim); /* torch scatters here, and says so */
    return k_index_within(index, 0, index_size(x, dim), &bad)
           || rgi_fail(RG_INDEX_ERROR, NULL, "index out of range in self");
}
RULE(index_add_rule_source, index, rg_index_select(g, dim, index))
RG_OP(index_add, .doc = "x with slices of the source added at the indices along dim",
      .node = "IndexAddBackward0", .shape = index_add_shape,
      PUT_ROW(PUT_ADDED, index_add_rule_source),
      RG_SAMPLES(ALONG("(5,3) i5(7) (7,3)", 0), ALONG("(2,3,4) i3(2) (2,2,4)", 1),
                 ALONG("() i1(1) ()", 0), ALONG("(3,2) i1(0) (0,2)", 0)));

/* ---- one_hot: y[..][c] = index[..] == c ---------------------------------------- */
rg_tensor *rg_one_hot(rg_tensor *index, int64_t classes) {
    int64_t bad;
    if (!rgi_check(index, "one_hot"))
        return NULL;
    RG_FAIL_IF(index->dtype != RG_INT64, "one_hot",
               "one_hot is only applicable to index tensor of type "
               "LongTensor.");
    if (!rgi_check_dims("one_hot", index->ndim + 1))
        return NULL;
    RG_FAIL_IF(index->numel == 0 && classes <= 0, "one_hot",
               "Can not infer total number of classes from "
               "empty tensor.");
    RG_FAIL_IF(!k_index_within(index, 0, INT64_MAX, &bad), "one_hot",
               "Class values must be non-negative.");
    RG_AS("one_hot");
    RG_SCOPE();
    if (classes == -1) {
        rg_tensor *largest = rg_max(index);
        if (!largest)
            return NULL;
        classes = rgi_load_i64(largest->data, RG_INT64) + 1;
    } else if (!k_index_within(index, 0, classes, &bad)) {
        return rgi_fail(RG_RUNTIME_ERROR, "one_hot",
                        "Class values must be smaller than num_classes.");
    }
    rg_dims shape = rg_shape(index);
    shape.v[shape.n++] = classes;
    return rg_escape(rg_scatter_(rg_zeros_dims(shape, RG_INT64), -1, rg_unsqueeze(index, -1), 1));
}

/* ---- embedding: the rows of a table -----------------------------------------------
 * The gradient is added to the rows, in order; the one at padding_idx gets none. */
struct embedding_attr {
    int64_t padding_idx;
}; /* negative: none */
static bool embedding_shape(rg_call *c) {
    const rg_tensor *index = c->in[0], *weight = c->in[1];
    rg_tensor *y = c->out[0];
    int64_t bad;
    RG_FAIL_INDEX_IF(!k_index_within(index, 0, weight->size[0], &bad), NULL,
                     "index out of range in self");
    y->dtype = weight->dtype;
    rgi_copy_shape(y, index);
    y->size[y->ndim++] = weight->size[1];
    return true;
}

static bool embedding_forward(rg_call *c) {
    return k_index_slices(K_GET, c->out[0], c->in[1], 0, c->in[0]), true;
}

static rg_tensor *embedding_rule(const rg_step *s, rg_tensor *g) {
    rg_dims table = rgi_input_dims(s, 1);
    rg_tensor *index = rgi_saved(s, 0);
    if (!index)
        return NULL;
    g = rg_index_add(rgi_input_zeros(s), 0, rg_reshape(index, index->numel),
                     rg_reshape(g, index->numel, table.v[1]), 1);
    int64_t padding = RG_ATTR(s, embedding)->padding_idx;
    return padding < 0 ? g : rg_scatter(g, 0, rg_full(RG_DIMS(1, table.v[1]), padding), 0);
}

static bool embedding_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    rg_tensor *index = rgi_saved(s, 0);
    int64_t padding = RG_ATTR(s, embedding)->padding_idx;
    if (!index)
        return false;
    if (padding < 0)
        return k_index_slices(K_ADD, g, buffer, 0, index), true;
    RG_PART_HEADER(row, *buffer, (&(rg_part){ RG_PART_INDEX(0, padding) }));
    /* others may have added to this row */
    rg_tensor *kept = rgi_own(rgi_new_like(&row, row.dtype));
    if (!kept)
        return false;
    rgi_copy_elements(kept, &row);
    k_index_slices(K_ADD, g, buffer, 0, index);
    rgi_copy_elements(&row, kept);
    return true;
}
RG_OP(embedding, RG_WITH(embedding), .doc = "the rows of a table at the indices",
      .node = "EmbeddingBackward0", .n_in = 2, RG_MADE(embedding),
      .grad = { RG_NO_RULE, RG_RULE_INTO(RG_IN(0), embedding_rule, embedding_into) },
      RG_SAMPLES({ "i5(2,3) (5,4)", RG_A(embedding, -1) }, { "i5(2,7) (8,2)", RG_A(embedding, 6) },
                 { "i3() (3,2)", RG_A(embedding, -1) }, { "i1(0,2) (3,2)", RG_A(embedding, -1) },
                 { "i3(4) (3,0)", RG_A(embedding, -1) }));

rg_tensor *rg_embedding_with(rg_tensor *index, rg_tensor *weight, rg_embedding_options o) {
    static const char op[] = "embedding";
    if (!rgi_check(index, op) || !rgi_check(weight, op))
        return NULL;
    struct embedding_attr a = { -1 };
    if (o.padding_idx != INT64_MIN && weight->ndim) {
        int64_t rows = weight->size[0];
        RG_FAIL_VALUE_IF(o.padding_idx >= rows || o.padding_idx < -rows, op,
                         "Padding_idx must be within "
                         "num_embeddings");
        a.padding_idx = o.padding_idx < 0 ? o.padding_idx + rows : o.padding_idx;
    }
    RG_FAIL_IF(weight->ndim != 2, op, "'weight' must be 2-D");
    RG_FAIL_IF(
        index->dtype != RG_INT64, op,
        "Expected tensor for argument #1 'indices' to have one of the "
        "following scalar types: Long, Int; but got %s instead (while checking arguments for "
        "embedding)",
        index->dtype == RG_BOOL      ? "CPUBoolType"
        : index->dtype == RG_FLOAT32 ? "torch.FloatTensor"
                                     : "torch.DoubleTensor");
    if (!rgi_check_dims(op, index->ndim + 1))
        return NULL;
    return RG_APPLY(embedding, &a, index, weight);
}
