/*
 * sort.c: sorting along a dim, and functions that depend on the order of elements: the k largest,
 * the distinct values, and positions in a sorted row. nonzero is here as well. In the headings, g
 * is the gradient of the result.
 */
#include "autograd/checks.h"

/* ---- sort: x sorted along dim, and the index that each element had in x; g goes to these
 *      indices ------------------------------------------------------------------ */

/* The attributes of sort and topk. `sorted` and `k` are used by topk alone: topk returns the k
 * largest elements if `descending`, else the k smallest, and sorts them if `sorted`. */
struct sort_attr {
    int dim;
    bool descending, sorted;
    int64_t k;
};

static bool sort_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    rgi_shape_same(c);
    c->out[1]->dtype = RG_INT64;
    for (int k = 0; k < 2 && !(x->flags & RG_PLAIN); k++)
        rgi_lay_out_as(c->out[k], x);
    return true;
}

static bool sort_forward(rg_call *c) {
    const struct sort_attr *a = RG_ATTR(c, sort);
    return k_sort(c->out[0], c->out[1], c->in[0], a->dim, a->descending);
}

static rg_tensor *sort_rule(const rg_step *s, rg_tensor *g) {
    return rg_scatter(rgi_input_zeros(s), RG_ATTR(s, sort)->dim, rgi_saved_output_at(s, 1), g);
}

RG_OP(sort, .doc = "x in order along dim, and where it was", .node = "SortBackward0", RG_WITH(sort),
      .n_in = 1, .n_out = 2, RG_MADE(sort), .grad = { RG_RULE(RG_OUT(1), sort_rule) },
      RG_SAMPLES({ "d(2,20,3)", RG_A(sort, .dim = 1, .descending = true) },
                 { "()", RG_A(sort, .dim = 0) }, { "(0,3)", RG_A(sort, .dim = 1) },
                 { "(2,0)", RG_A(sort, .dim = 1) }));

rg_values_indices(rg_sort)(rg_tensor *x, int dim, bool descending) {
    struct sort_attr a = { .descending = descending };
    bool ok = rgi_check(x, "sort") && rgi_wrap_dim("sort", dim, x->ndim, &a.dim);
    return rgi_apply_two(ok, &rg_op_sort, &a, sizeof a, x);
}

rg_tensor *(rg_argsort)(rg_tensor *x, int dim, bool descending) {
    return RG_COMPOSITE("argsort", rg_sort(x, dim, descending).indices);
}

/* ---- topk: the k largest or k smallest elements along dim, and their indices ---- */

static bool topk_shape(rg_call *c) {
    const struct sort_attr *a = RG_ATTR(c, sort);
    rgi_shape_same(c);
    c->out[1]->dtype = RG_INT64;
    if (c->in[0]->ndim) {
        c->out[0]->size[a->dim] = a->k;
        c->out[1]->size[a->dim] = a->k;
    }
    return true;
}

static bool topk_forward(rg_call *c) {
    const struct sort_attr *a = RG_ATTR(c, sort);
    return k_topk(c->out[0], c->out[1], c->in[0], a->dim, a->descending, a->sorted);
}

RG_OP(topk, .doc = "the k largest of x along dim, and where", .node = "TopkBackward0",
      RG_WITH(sort), .n_in = 1, .n_out = 2, RG_MADE(topk),
      .grad = { RG_RULE(RG_OUT(1), sort_rule) },
      RG_SAMPLES({ "d(2,4,3)", RG_A(sort, .dim = 1, .sorted = true, .k = 3) },
                 { "()", RG_A(sort, .dim = 0, .descending = true, .sorted = true, .k = 1) },
                 { "(0,3)", RG_A(sort, .dim = 1, .descending = true, .k = 1) },
                 { "d(3,2)", RG_A(sort, .dim = 0, .descending = true, .sorted = true, .k = 0) }));

static bool topk_check(rg_tensor *x, int dim, struct sort_attr *a) {
    if (!rgi_check(x, "topk") || !rgi_wrap_dim("topk", dim, x->ndim, &a->dim))
        return false;
    RG_FAIL_IF(a->k < 0 || a->k > (x->ndim ? x->size[a->dim] : 1), "topk",
               "selected index k out of range");
    RG_FAIL_IF(rgi_is_bool(x->dtype), "topk", "topk does not support bool dtypes on CPU");
    return true;
}

rg_values_indices(rg_topk)(rg_tensor *x, int64_t k, int dim, bool largest, bool sorted) {
    struct sort_attr a = { .descending = largest, .sorted = sorted, .k = k };
    return rgi_apply_two(topk_check(x, dim, &a), &rg_op_topk, &a, sizeof a, x);
}

/* ---- unique: three outputs: the distinct values, sorted; the inverse, which is for each element
 *      the index of its value; and the count of each value. The `view` functions of these ops
 *      allocate the outputs, whose sizes depend on the elements ---------------- */

/* The attributes of unique. `dim` is the dim whose slices are compared. If it is -1, single
 * elements are compared. */
struct unique_attr {
    int dim;
};

/* Sets the dtype and shape of the inverse. If elements are compared, the inverse has x's shape. If
 * n slices are compared, it is a vector of n elements. */
static void unique_inverse_shape(rg_tensor *inverse, const rg_tensor *x, int dim, int64_t n) {
    inverse->dtype = RG_INT64;
    if (dim < 0) {
        rgi_copy_shape(inverse, x);
        return;
    }
    inverse->ndim = 1;
    inverse->size[0] = n;
}

/* Allocates the outputs `values` and `counts` for `groups` distinct values. `groups` is the result
 * of k_unique: a negative number means that k_unique has failed. This function then fails as
 * well. */
static bool unique_allocate(rg_tensor *values, rg_tensor *counts, const rg_tensor *x, int dim,
                            int64_t groups) {
    if (groups < 0)
        return false;
    counts->dtype = RG_INT64;
    counts->ndim = 1;
    counts->size[0] = groups;
    rgi_copy_shape(values, dim < 0 ? counts : x);
    if (dim >= 0)
        values->size[dim] = groups;
    return rgi_allocate(values) && rgi_allocate(counts);
}

/* Sets *from to the struct of a tensor from which the values are read: x itself if slices are
 * compared, or a vector of all elements of x if elements are compared (dim is -1). Returns false on
 * failure. */
static bool unique_source(rg_tensor *from, rg_tensor *x, int dim) {
    if (dim >= 0) {
        *from = rgi_header_of(x);
        return true;
    }
    rg_tensor *whole = rgi_own(rgi_contiguous_copy(x, x->dtype));
    if (whole)
        *from = rgi_flat(whole);
    return whole;
}

/* Goes through the n elements (or slices) in sorted order. In this order, element i has the index
 * order[i] in x, and its value is distinct value number group[i]. Stores each element's group in
 * inverse, the number of elements of each group in counts, and the index of the first element of
 * each group in firsts. */
static void unique_fill(int64_t n, const int64_t order[], const int64_t group[], rg_tensor *inverse,
                        rg_tensor *counts, rg_tensor *firsts) {
    int64_t *number = (int64_t *)inverse->data;
    int64_t *count = (int64_t *)counts->data;
    int64_t *first = (int64_t *)firsts->data;
    rgi_fill_zero(counts);
    for (int64_t i = 0; i < n; i++) {
        number[order[i]] = group[i];
        if (count[group[i]] == 0)
            first[group[i]] = order[i];
        count[group[i]]++;
    }
}

/* The `view` function, which computes the outputs. First it allocates the inverse, which has n
 * elements. This fails if n is too large. Therefore the size of the arrays that are allocated next
 * can't overflow. */
static bool unique_make(rg_call *c) {
    rg_tensor *x = c->in[0];
    rg_tensor *values = c->out[0];
    rg_tensor *inverse = c->out[1];
    rg_tensor *counts = c->out[2];
    int dim = RG_ATTR(c, unique)->dim;
    int64_t n = dim < 0 ? x->numel : x->size[dim];
    RG_SCOPE();
    unique_inverse_shape(inverse, x, dim, n);
    if (!rgi_allocate(inverse))
        return false;
    int64_t *order = rgi_scope_alloc(2 * (size_t)n * sizeof *order);
    if (!order)
        return false;
    int64_t *group = order + n;
    int64_t groups = k_unique(x, dim, order, group);
    if (!unique_allocate(values, counts, x, dim, groups))
        return false;
    rg_tensor from;
    rg_tensor *firsts = rgi_own(rgi_new_like(counts, RG_INT64));
    if (!firsts || !unique_source(&from, x, dim))
        return false;
    unique_fill(n, order, group, inverse, counts, firsts);
    return k_index_slices(K_GET, values, &from, RG_MAX(dim, 0), firsts);
}

#define UNIQUE_ROW(torch_name)                                                     \
    .n_in = 1, .n_out = 3, RG_WITH(unique), .view = unique_make, .by_value = true, \
    .finds_values = true,                                                          \
    .no_grad = "the derivative for '" torch_name "' is not implemented. "          \
               "(which values are equal is no smooth function of them)"
RG_OP(unique, .doc = "the distinct values, where they are, how often", .node = "Unique2Backward0",
      UNIQUE_ROW("_unique2"),
      RG_SAMPLES({ "(2,3)", RG_A(unique, -1) }, { "(2,3,4)", RG_A(unique, -1) },
                 { "()", RG_A(unique, -1) }, { "(0,3)", RG_A(unique, -1) }));
RG_OP(unique_dim, .doc = "the distinct slices along dim, where they are, how often",
      .node = "UniqueDimBackward0", UNIQUE_ROW("unique_dim"),
      RG_SAMPLES({ "(2,3)", RG_A(unique, 1) }, { "(5,3,2)", RG_A(unique, 0) },
                 { "(0,3)", RG_A(unique, 0) }));

static rg_unique_result unique_apply(const rg_op *op, rg_tensor *x, int dim) {
    rg_tensor *out[3] = { NULL, NULL, NULL };
    rgi_apply_outputs(op, RG_A(unique, dim), sizeof(struct unique_attr), 1, &x, out);
    return (rg_unique_result){ out[0], out[1], out[2] };
}

rg_unique_result rg_unique_full(rg_tensor *x) { return unique_apply(&rg_op_unique, x, -1); }
rg_tensor *rg_unique(rg_tensor *x) { return RG_COMPOSITE("unique", rg_unique_full(x).values); }

static bool unique_dim_check(rg_tensor *x, int dim, int *wrapped) {
    int empty = 0;
    if (!rgi_check(x, "unique_dim"))
        return false;
    if (!rgi_want_any_dim("unique_dim", x, dim)
        || !rgi_wrap_dim("unique_dim", dim, x->ndim, wrapped))
        return false;
    for (int d = 0; d < x->ndim; d++)
        empty += x->size[d] == 0;
    RG_FAIL_IF(x->size[*wrapped] == 0 && empty > 1, "unique_dim",
               "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    RG_FAIL_IF(x->size[*wrapped] && empty, "unique_dim",
               "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
               "applied");
    return true;
}

rg_unique_result(rg_unique_dim)(rg_tensor *x, int dim) {
    if (!unique_dim_check(x, dim, &dim))
        return (rg_unique_result){ NULL, NULL, NULL };
    return unique_apply(&rg_op_unique_dim, x, dim);
}

/* ---- nonzero: a row for each element that isn't 0, with the element's indices ---- */

static bool nonzero_make(rg_call *c) {
    rg_tensor *x = c->in[0];
    rg_tensor *y = c->out[0];
    y->dtype = RG_INT64;
    y->ndim = 2;
    y->size[0] = k_count(x);
    y->size[1] = x->ndim;
    if (!rgi_allocate(y))
        return false;
    k_nonzero(y, x);
    return true;
}

RG_OP(nonzero, .doc = "the places of what is not 0, one a row", .n_in = 1, .view = nonzero_make,
      .by_value = true,
      RG_SAMPLES({ "(2,3)", NULL }, { "i2(2,3,4)", NULL }, { "()", NULL }, { "(0,3)", NULL }));

rg_tensor *rg_nonzero(rg_tensor *x) { return RG_APPLY(nonzero, RG_NO_ATTR, x); }

/* ---- searchsorted: the index at which each value would be inserted into a sorted row ---- */

struct searchsorted_attr {
    bool right;
};

static bool searchsorted_shape(rg_call *c) {
    const rg_tensor *sorted = c->in[0];
    const rg_tensor *values = c->in[1];
    const int most = values->ndim == 0 ? 1 : RG_MAX_DIMS;
    if (!rgi_want_dims(NULL, "boundaries", sorted, 1, most))
        return false;
    bool matched = sorted->ndim == 1 || sorted->ndim == values->ndim;
    for (int d = 0; d < sorted->ndim - 1 && matched; d++)
        matched = sorted->size[d] == values->size[d];
    RG_FAIL_IF(
        !matched, NULL,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
        "dimensions of boundaries tensor and input value tensor must match, but we got boundaries "
        "tensor %s and input value tensor %s",
        RG_SHAPE_TEXT(sorted), RG_SHAPE_TEXT(values));
    if (values->numel && !rgi_want_no_bool(NULL, sorted))
        return false;
    rgi_copy_shape(c->out[0], values);
    c->out[0]->dtype = RG_INT64;
    return true;
}

static bool searchsorted_forward(rg_call *c) {
    RG_SCOPE();
    rg_tensor *sorted = rgi_own(rgi_contiguous_copy(c->in[0], c->in[0]->dtype));
    rg_tensor *values = rgi_own(rgi_contiguous_copy(c->in[1], c->in[1]->dtype));
    return sorted && values
           && k_searchsorted(c->out[0], sorted, values, RG_ATTR(c, searchsorted)->right);
}

RG_OP(searchsorted, .doc = "how many of a sorted row are below each value", .n_in = 2,
      .typing = RG_PROMOTED, RG_WITH(searchsorted), RG_MADE(searchsorted),
      RG_SAMPLES({ "(4) (2,3)", RG_A(searchsorted, false) },
                 { "(2,3,4) (2,3,2)", RG_A(searchsorted, true) },
                 { "(4) ()", RG_A(searchsorted, true) }, { "(0) (3)", RG_A(searchsorted, false) }));

rg_tensor *(rg_searchsorted)(rg_tensor *sorted, rg_tensor *values, bool right) {
    return RG_APPLY(searchsorted, RG_A(searchsorted, right), sorted, values);
}

/* Fails unless `sorter` has the shape of `sorted`, and its elements are integers from 0 to the size
 * of the last dim - 1. */
static bool searchsorted_sorter(const rg_tensor *sorted, const rg_tensor *sorter) {
    if (!rgi_want_shape(NULL, "sorter", sorter, rg_shape((rg_tensor *)sorted))
        || !rgi_want_integers(NULL, "sorter", sorter))
        return false;
    const int last = sorter->ndim - 1;
    return last < 0
           || rgi_want_indices(RG_RUNTIME_ERROR, NULL, sorter, 0, sorter->size[last], last);
}

rg_tensor *(rg_searchsorted_with)(rg_tensor *sorted, rg_tensor *values, bool right,
                                  rg_searchsorted_options o) {
    RG_AS("searchsorted");
    if (!rgi_check(sorted, NULL) || !rgi_check_optional(o.sorter, NULL))
        return NULL;
    if (rgi_is_none(o.sorter))
        return (rg_searchsorted)(sorted, values, right);
    if (!searchsorted_sorter(sorted, o.sorter))
        return NULL;
    RG_SCOPE();
    sorted = rg_gather(rg_detach(sorted), -1, o.sorter);
    return rg_escape((rg_searchsorted)(sorted, values, right));
}

rg_tensor *(rg_bucketize)(rg_tensor *values, rg_tensor *boundaries, bool right) {
    RG_AS("bucketize");
    if (!rgi_check(values, "bucketize") || !rgi_check(boundaries, "bucketize"))
        return NULL;
    if (!rgi_want_dims("bucketize", "boundaries", boundaries, 1, 1))
        return NULL;
    return (rg_searchsorted)(boundaries, values, right);
}
