/*
 * rank.c: elements that are found by their rank along a dim: the k-th smallest, the median, and
 * quantiles. (The largest and the smallest are in extreme.c, sorting in sort.c.) In the headings, g
 * is the gradient of the result.
 */
#include "autocast.h"
#include "reduce.h"
#include "value_check.h"

#include "autograd/checks.h"
#include "tensor/text/digits.h"

#include <limits.h>
#include <string.h>

/* ---- functions for kthvalue and median_dim ------------------------------------- */

/* The attributes of kthvalue and median_dim. Both ops find one element along `dim`. kthvalue finds
 * the k-th smallest, where k counts from 1. median_dim finds the median, and doesn't use k. */
struct rank_attr {
    int dim;
    bool keepdim;
    int64_t k;
};

/* RANKED expands to the initializer of a test sample (rg_sample). */
#define RANKED(inputs, ...) \
    { inputs, RG_A(rank, __VA_ARGS__) }

static bool rank_shape(rg_call *c) {
    const struct rank_attr *a = RG_ATTR(c, rank);
    const struct reduce_attr reduce = { .dims = 1u << a->dim, .keepdim = a->keepdim };
    c->out[1]->dtype = RG_INT64;
    rgi_reduce_sizes(c->out[0], c->in[0], &reduce);
    rgi_reduce_sizes(c->out[1], c->in[0], &reduce);
    return true;
}

/* Returns a header (an rg_tensor that shares y's elements) of the output y. It has the reduced dim,
 * with size 1, even if keepdim isn't set. */
static rg_tensor rank_unreduced(const rg_call *c, const rg_tensor *y) {
    const struct rank_attr *a = RG_ATTR(c, rank);
    rg_tensor t = rgi_header_of(y);
    if (!a->keepdim && c->in[0]->ndim)
        rgi_take_part(&t, &(rg_part){ RG_PART_NEW(a->dim) });
    return t;
}

/* The gradient of x: g at the index of the element that was found, and 0 at the other indices. */
static rg_tensor *rank_rule(const rg_step *s, rg_tensor *g) {
    const struct rank_attr *a = RG_ATTR(s, rank);
    rg_tensor *index = rgi_saved_output_at(s, 1);
    if (!a->keepdim) {
        index = rg_unsqueeze(index, a->dim);
        g = rg_unsqueeze(g, a->dim);
    }
    return rg_scatter(rgi_input_zeros(s), a->dim, index, g);
}

/* Sets a->dim to dim, counted from 0. Fails if x has no such dim, or no elements along it. */
static bool rank_check(const char *op, rg_tensor *x, int dim, struct rank_attr *a) {
    if (!rgi_check(x, op) || !rgi_wrap_dim(op, dim, x->ndim, &a->dim))
        return false;
    return rgi_want_reducible(op, x, a->dim);
}

/* ---- kthvalue: the k-th smallest element along dim, and its index; g goes to this index ---- */

static bool kthvalue_shape(rg_call *c) { return rgi_want_no_bool(NULL, c->in[0]) && rank_shape(c); }

static bool kthvalue_forward(rg_call *c) {
    const struct rank_attr *a = RG_ATTR(c, rank);
    rg_tensor values = rank_unreduced(c, c->out[0]);
    rg_tensor indices = rank_unreduced(c, c->out[1]);
    return k_kth(&values, &indices, c->in[0], a->dim, a->k);
}

RG_OP(kthvalue, .doc = "the k-th least of x along dim, and where", .node = "KthvalueBackward0",
      RG_WITH(rank), .n_in = 1, .n_out = 2, RG_MADE(kthvalue),
      .grad = { RG_RULE(RG_OUT(1), rank_rule) },
      RG_SAMPLES(RANKED("d(2,5)", 1, false, 2), RANKED("d(2,4,3)", 1, true, 3),
                 RANKED("()", 0, false, 1), RANKED("d(0,3)", 1, false, 2)));

rg_values_indices(rg_kthvalue)(rg_tensor *x, int64_t k, int dim, bool keepdim) {
    struct rank_attr a = { .keepdim = keepdim, .k = k };
    bool ok = rank_check("kthvalue", x, dim, &a);
    if (ok && (k < 1 || k > (x->ndim ? x->size[a.dim] : 1)))
        ok = rgi_fail(RG_RUNTIME_ERROR, "kthvalue",
                      "selected number k out of range for dimension %d", a.dim);
    return rgi_apply_two(ok, &rg_op_kthvalue, &a, sizeof a, x);
}

/* ---- median_dim: the median along dim (the lesser one, if there are two), and its index; g
 *      goes to this index ------------------------------------------------------- */

static bool median_dim_shape(rg_call *c) {
    return rgi_want_no_bool(NULL, c->in[0]) && rank_shape(c);
}

static bool median_dim_forward(rg_call *c) {
    rg_tensor values = rank_unreduced(c, c->out[0]);
    rg_tensor indices = rank_unreduced(c, c->out[1]);
    return k_median(&values, &indices, c->in[0], RG_ATTR(c, rank)->dim);
}

RG_OP(median_dim, .doc = "the median of x along dim, and where", .node = "MedianBackward1",
      RG_WITH(rank), .n_in = 1, .n_out = 2, RG_MADE(median_dim),
      .grad = { RG_RULE(RG_OUT(1), rank_rule) },
      RG_SAMPLES(RANKED("d(2,5)", 1, false, 0), RANKED("d(2,4,3)", 1, true, 0),
                 RANKED("()", 0, false, 0), RANKED("d(0,3)", 1, false, 0)));

rg_values_indices(rg_median_dim)(rg_tensor *x, int dim, bool keepdim) {
    struct rank_attr a = { .keepdim = keepdim };
    bool ok = rank_check("median", x, dim, &a);
    RG_AS("median");
    return rgi_apply_two(ok, &rg_op_median_dim, &a, sizeof a, x);
}

/* ---- median of all elements; elements that equal the median (or are NaN, if the median is
 *      NaN) get equal parts of g ------------------------------------------------ */

static bool median_shape(rg_call *c) {
    c->out[0]->ndim = 0;
    return rgi_want_no_bool(NULL, c->in[0]);
}

/* Computes the median. If x has no elements, the median is NaN, or for integers the smallest
 * integer of the dtype. */
static bool median_forward(rg_call *c) {
    rg_tensor *x = c->in[0];
    rg_tensor *y = c->out[0];
    if (x->numel == 0) {
        rgi_fill_number(y, NAN, rgi_nearest_integer(INT64_MIN, y->dtype));
        return true;
    }
    RG_SCOPE();
    x = rgi_own(rgi_contiguous_copy(x, x->dtype));
    if (!x)
        return false;
    rg_tensor line = rgi_flat(x);
    rg_tensor value = rgi_header_of(y);
    rg_tensor *index = rgi_own(rgi_new(RG_INT64, 1, (int64_t[]){ 1 }));
    rgi_take_part(&value, &(rg_part){ RG_PART_NEW(0) });
    return index && k_median(&value, index, &line, 0);
}

static rg_tensor *median_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    rg_tensor *share = rgi_reduce_share(x, y, RG_REDUCE_ATTR(RG_UNNAMED), true);
    return rg_masked_fill(rg_mul(g, share), rg_eq(share, 0), 0);
}

RG_OP(median, .doc = "the median of everything", .node = "MedianBackward0", .n_in = 1,
      RG_MADE(median), .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, median_rule) },
      RG_SAMPLES({ "d(2,3)", NULL }, { "d(7)", NULL }, { "()", NULL }, { "(0,3)", NULL }));

rg_tensor *rg_median(rg_tensor *x) { return RG_APPLY(median, RG_NO_ATTR, x); }

/* ---- quantile: the value below which a fraction q of the n elements along dim lie. It is
 *      interpolated between the two elements next to the rank q * (n - 1) ------- */

enum quantile_mode { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, QUANTILE_MODES };

static bool quantile_read(const char *name, enum quantile_mode *mode) {
    static const char *const names[QUANTILE_MODES] = { "linear", "lower", "higher", "midpoint",
                                                       "nearest" };
    int m = 0;
    if (!rgi_given(name, NULL, "a text"))
        return false;
    while (m < QUANTILE_MODES && strcmp(names[m], name) != 0)
        m++;
    RG_FAIL_IF(m == QUANTILE_MODES, NULL,
               "quantile() interpolation must be one of linear, lower, higher, midpoint or "
               "nearest, but got %s",
               name);
    *mode = (enum quantile_mode)m;
    return true;
}

static bool quantile_check(rg_tensor *x, rg_tensor *q, const char *interpolation,
                           enum quantile_mode *mode) {
    if (!rgi_check(x, NULL) || !rgi_check(q, NULL))
        return false;
    bool number = q->flags & RG_WEAK;
    double value = number ? rgi_load_f64(q->data, q->dtype) : 0;
    RG_FAIL_IF(!(value >= 0 && value <= 1), NULL,
               "quantile() q must be in the range [0, 1] but got %s", rgi_number(value));
    if (!quantile_read(interpolation, mode))
        return false;
    RG_FAIL_IF(x->numel == 0, NULL, "quantile() input tensor must be non-empty");
    if (!rgi_want_dims(NULL, "q", q, 0, 1))
        return false;
    RG_FAIL_IF(!rgi_is_float(x->dtype), NULL,
               "quantile() input tensor must be either float or double dtype");
    return number || rgi_want_same_dtype(NULL, "q", q, "input", x);
}

/* Fails if an element of q isn't in [0, 1]. A recorded step checks new elements in each run. */
static bool quantile_within(rg_tensor *q) {
    RG_SCOPE();
    q = rg_detach(q);
    rg_tensor *outside = rg_any(rg_ne(q, rg_clamp(q, 0, 1)));
    return rgi_check_values(&(rg_value_check){ outside, false, RG_RUNTIME_ERROR, "quantile",
                                               "quantile() q values must be in the range [0, 1]" });
}

/* Returns the shape of the result: q's size, if q is a vector, followed by x's sizes. The size of
 * dim is left out or, if keepdim is set, replaced by 1. A negative dim means that this is done for
 * all dims. */
static rg_dims quantile_sizes(rg_tensor *x, const rg_tensor *q, int dim, bool keepdim) {
    rg_dims shape = { 0 };
    if (q->ndim)
        shape.v[shape.n++] = q->numel;
    for (int d = 0; d < x->ndim; d++) {
        bool reduced = dim < 0 || d == dim;
        if (!reduced)
            shape.v[shape.n++] = x->size[d];
        else if (keepdim)
            shape.v[shape.n++] = 1;
    }
    return shape;
}

/* Returns the elements at the given ranks of rows that are sorted along the last dim. For a rank
 * between two elements, `mode` says how the result is computed from them. */
static rg_tensor *quantile_at(rg_tensor *sorted, rg_tensor *ranks, enum quantile_mode mode) {
    if (mode == HIGHER)
        ranks = rg_ceil(ranks);
    else if (mode == NEAREST)
        ranks = rg_round(ranks);
    rg_tensor *below = rg_long(ranks);
    rg_tensor *y = rg_gather(sorted, -1, below);
    if (mode != LINEAR && mode != MIDPOINT)
        return y;
    rg_tensor *above = rg_gather(sorted, -1, rg_long(rg_ceil(ranks)));
    return mode == LINEAR ? rg_lerp(y, above, rg_sub(ranks, below)) : rg_lerp(y, above, 0.5);
}

/* Returns the ranks of the fractions q in rows that are sorted along the last dim. In a row with a
 * NaN, which is sorted last, the rank is that of the NaN. */
static rg_tensor *quantile_ranks(rg_tensor *sorted, rg_tensor *q) {
    const double last = (double)sorted->size[sorted->ndim - 1] - 1;
    rg_tensor *has_nan = rg_any_dim(rg_isnan(sorted), -1, true);
    return rg_masked_fill(rg_mul(q, last), has_nan, last);
}

static rg_tensor *quantile(rg_tensor *x, rg_tensor *q, const rg_quantile_options *o) {
    enum quantile_mode mode;
    int dim = -1;
    if (!quantile_check(x, q, o->interpolation, &mode)
        || (o->dim != INT_MIN && !rgi_wrap_dim(NULL, rgi_nearest_int(o->dim), x->ndim, &dim))
        || !quantile_within(q))
        return NULL;
    const int reduced = dim < 0 ? x->ndim : RG_MIN(x->ndim, 1);
    if (!rgi_check_dims(NULL, x->ndim - (o->keepdim ? 0 : reduced) + (q->ndim > 0)))
        return NULL;
    rg_dims shape = quantile_sizes(x, q, dim, o->keepdim);
    bool whole = dim < 0 || x->ndim == 0;
    rg_tensor *lines = whole ? rg_reshape(x, x->numel) : rg_movedim(x, dim, -1);
    rg_tensor *sorted = rg_sort(lines, -1, false).values;
    if (!sorted)
        return NULL;
    rg_tensor *ranks = quantile_ranks(sorted, rg_reshape(rg_to(q, x->dtype), q->numel));
    rg_tensor *y = rg_movedim(quantile_at(sorted, ranks, mode), -1, 0);
    return rgi_reshape_own("SqueezeBackward4", y, shape);
}

rg_tensor *rg_quantile_with(rg_tensor *x, rg_tensor *q, rg_quantile_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_quantile_with(in[0], in[1], o), x, q);
    return RG_COMPOSITE("quantile", quantile(x, q, &o));
}
