/*
 * index_write.c: functions that replace the slices at indices along a dim by a number (index_fill)
 * or by other slices (index_copy). (index_add is in gather.c.) In the formulas, g is the gradient
 * of y, and gx, gvalue and gsource are the gradients of x, the number and the source.
 */
#include "autocast.h"
#include "elementwise.h"

#include "autograd/checks.h"
#include "gather.h"

#include <stdio.h>
#include <string.h>

/* ---- functions for index_fill and index_copy ----------------------------------- */

struct index_write_attr {
    const char *node;
    int dim;
};

/* Returns t's header (an rg_tensor that shares t's elements), with a dim of size 1 if t has no
 * dims. */
static rg_tensor index_write_vector(const rg_tensor *t) {
    rg_tensor vector = rgi_header_of(t);
    if (t->ndim == 0)
        rgi_take_part(&vector, &(rg_part){ RG_PART_NEW(0) });
    return vector;
}

/* Copies the op's input x to its output y, unless y is x itself. Then writes the slices of the
 * source over y's slices at the indices. */
static bool index_write(rg_call *c, const rg_tensor *source, const rg_tensor *index) {
    rg_tensor *y = c->out[0];
    if (y != c->in[0])
        rgi_copy_elements(y, c->in[0]);
    rg_tensor to = index_write_vector(y);
    rg_tensor along = index_write_vector(index);
    rg_tensor row = index_write_vector(source);
    return k_index_slices(K_PUT, &row, &to, RG_ATTR(c, index_write)->dim, &along);
}

/* ---- index_fill: y = x, then y[index[i]] = value (for dim 0); gx is g with 0 at the indices;
 *      gvalue is the sum of g at the indices ------------------------------------ */

static bool index_fill_shape(rg_call *c) {
    const rg_tensor *index = c->in[1];
    int dim = RG_ATTR(c, index_write)->dim;
    int64_t size = rgi_index_size(c->in[0], dim);
    return rgi_want_dims(NULL, "index", index, 0, 1)
           && rgi_want_indices(RG_INDEX_ERROR, NULL, index, -size, size, dim) && rgi_shape_kept(c);
}

/* Returns the indices as int64. A negative index, which counts from the end, becomes the index that
 * counts from the beginning. */
static rg_tensor *index_fill_wrapped(const rg_tensor *index, int64_t size) {
    rg_tensor *wrapped = rgi_own(rgi_new_like(index, RG_INT64));
    if (!wrapped)
        return NULL;
    rgi_copy_elements(wrapped, index);
    for (int64_t i = 0; i < wrapped->numel; i++) {
        int64_t *at = (int64_t *)wrapped->data + i;
        *at += *at < 0 ? size : 0;
    }
    return wrapped;
}

static bool index_fill_forward(rg_call *c) {
    int dim = RG_ATTR(c, index_write)->dim;
    RG_SCOPE();
    rg_tensor *index = index_fill_wrapped(c->in[1], rgi_index_size(c->in[0], dim));
    if (!index)
        return false;
    rg_tensor row = index_write_vector(c->out[0]);
    row.size[dim] = index->numel;
    row.data = c->in[2]->data;
    memset(row.stride, 0, sizeof row.stride);
    rgi_update_flags(&row);
    return index_write(c, &row, index);
}

static rg_tensor *index_fill_rule_x(const rg_step *s, rg_tensor *g) {
    rg_tensor *index = rgi_saved(s, 1);
    return rg_index_fill(g, RG_ATTR(s, index_write)->dim, index, 0);
}

/* The gradient of the value: the sum of g at the indices. An index that occurs several times counts
 * only once, since its slice is filled with a single value. */
static rg_tensor *index_fill_rule_value(const rg_step *s, rg_tensor *g) {
    rg_tensor *index = rgi_saved(s, 1);
    rg_tensor *nowhere = rg_zeros_dims(rg_shape(g), RG_BOOL);
    rg_tensor *filled = rg_index_fill(nowhere, RG_ATTR(s, index_write)->dim, index, true);
    return rg_sum(rg_where(filled, g, 0));
}

/* FILL expands to a test sample (rg_sample). */
#define FILL(inputs, dim) \
    { inputs, RG_A(index_write, "IndexFillBackward1", dim) }
RG_OP(index_fill, .moves = true, .doc = "x with a number at the indices along dim",
      RG_NAMED(index_write), .n_in = 3, .inplace = true, RG_MADE(index_fill),
      .refuses_values = true,
      .grad = { RG_RULE(RG_IN(1), index_fill_rule_x), RG_NO_RULE,
                RG_RULE(RG_IN(1), index_fill_rule_value) },
      RG_SAMPLES(FILL("(5,3) i5(1) ()", 0), FILL("(2,3,4) i3() ()", 1), FILL("() i1(1) ()", 0),
                 FILL("(3,2) i1(0) ()", 0), FILL("(0,3) i3(1) ()", 1), FILL("(3) i3(2) ()", 0)));

static bool index_fill_check(rg_tensor *x, rg_tensor *index, rg_tensor *value) {
    if (!rgi_check(x, NULL) || !rgi_check(index, NULL) || !rgi_check(value, NULL))
        return false;
    if (!rgi_want_dims(NULL, "value", value, 0, 0))
        return false;
    RG_FAIL_INDEX_IF(!rgi_is_index(index->dtype), NULL, "Expected dtype int64 for index.");
    return rgi_element_fits(NULL, value, x->dtype);
}

static rg_tensor *index_fill(const char *in_place, rg_tensor *x, int dim, rg_tensor *index,
                             rg_tensor *value) {
    struct index_write_attr a = { .node = "IndexFillBackward1" };
    if (!index_fill_check(x, index, value) || !rgi_wrap_dim(NULL, dim, x->ndim, &a.dim))
        return NULL;
    if (elementwise_is_number(value))
        a.node = "IndexFillBackward0";
    bool floats = rgi_is_float(x->dtype);
    rg_tensor *in[] = { x, index, rg_to(floats ? value : rg_detach(value), x->dtype) };
    if (in_place)
        return rgi_scatter_apart(x, index)
                   ? rgi_apply_inplace(in_place, &rg_op_index_fill, &a, sizeof a, 3, in)
                   : NULL;
    rg_tensor *y = rgi_apply(&rg_op_index_fill, &a, sizeof a, 3, in);
    return y && !rgi_want_tracked(NULL, value, x->dtype) ? NULL : y;
}

rg_tensor *(rg_index_fill)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *value) {
    return RG_COMPOSITE("index_fill", index_fill(NULL, x, dim, index, value));
}

rg_tensor *(rg_index_fill_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *value) {
    return RG_COMPOSITE("index_fill_", index_fill("index_fill_", x, dim, index, value));
}

/* ---- index_copy: y = x, then y[index[i]] = source[i] (for dim 0); gx is g with 0 at the
 *      indices; gsource is g at the indices ------------------------------------- */

/* Writes t's sizes, except the size of dim, to `text`, separated by blanks. Returns `text`. */
static const char *index_copy_slice(const rg_tensor *t, int dim, char text[192]) {
    int at = 0;
    text[0] = '\0';
    for (int d = 0; d < t->ndim; d++)
        if (d != dim)
            at += snprintf(text + at, 192 - (size_t)at, "%s%lld", at ? " " : "",
                           (long long)t->size[d]);
    return text;
}

static bool index_copy_fits(const rg_tensor *x, const rg_tensor *index, const rg_tensor *source,
                            int dim) {
    int64_t n = index->numel;
    RG_FAIL_INDEX_IF(index->ndim > 1, NULL, "Index should have dimension 1 or 0 (got %d)",
                     index->ndim);
    RG_FAIL_INDEX_IF(source->ndim == 0 && n != 1, NULL,
                     "When source is scalar, index should have one element (got %lld)",
                     (long long)n);
    RG_FAIL_INDEX_IF(source->ndim && x->ndim && x->ndim != source->ndim, NULL,
                     "When source and destination are not scalars, their dimensionality must "
                     "match. Source dimensionality (%d), destination dimensionality (%d)",
                     source->ndim, x->ndim);
    if (!rgi_want_integers(NULL, "index", index)
        || !rgi_want_same_dtype(NULL, "self", x, "source", source))
        return false;
    bool fits = RG_MAX(x->ndim, 1) == RG_MAX(source->ndim, 1);
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == dim || x->size[d] == source->size[d];
    RG_FAIL_IF(!fits, NULL,
               "Source/destination tensor must have same slice shapes. Destination slice shape: %s "
               "at dimension %d and source slice shape: %s at dimension 0.",
               index_copy_slice(x, dim, (char[192]){ 0 }), dim,
               index_copy_slice(source, dim, (char[192]){ 0 }));
    RG_FAIL_INDEX_IF(source->ndim && n != source->size[dim], NULL,
                     "Number of indices (%lld) should be equal to source.size(dim) (%lld)",
                     (long long)n, (long long)source->size[dim]);
    return true;
}

static bool index_copy_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    int dim = RG_ATTR(c, index_write)->dim;
    return index_copy_fits(x, c->in[1], c->in[2], dim)
           && rgi_want_indices(RG_INDEX_ERROR, NULL, c->in[1], 0, rgi_index_size(x, dim), dim)
           && rgi_shape_same(c);
}

static bool index_copy_forward(rg_call *c) { return index_write(c, c->in[2], c->in[1]); }

static rg_tensor *index_copy_rule_source(const rg_step *s, rg_tensor *g) {
    if (g->ndim == 0)
        g = rg_reshape(g, 1);
    g = rg_index_select(g, RG_ATTR(s, index_write)->dim, rgi_saved(s, 1));
    return rg_reshape_dims(g, rgi_input_dims(s, 2));
}

/* COPY expands to a test sample (rg_sample). */
#define COPY(inputs, dim) \
    { inputs, RG_A(index_write, "IndexCopyBackward0", dim) }
RG_OP(index_copy, .moves = true, .doc = "x with slices of the source at the indices along dim",
      RG_NAMED(index_write), .n_in = 3, .inplace = true, RG_MADE(index_copy),
      .refuses_values = true,
      .grad = { RG_RULE(RG_IN(1), index_fill_rule_x), RG_NO_RULE,
                RG_RULE(RG_IN(1), index_copy_rule_source) },
      RG_SAMPLES(COPY("(5,3) i5(1) (1,3)", 0), COPY("(2,3,4) i3() (2,1,4)", 1),
                 COPY("() i1(1) ()", 0), COPY("(3) i3(1) ()", 0), COPY("(3,2) i1(0) (0,2)", 0),
                 COPY("(0,3) i3(1) (0,1)", 1)));

rg_tensor *(rg_index_copy)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    RG_AUTOCASTS(RG_WIDEST, (rg_index_copy)(in[0], dim, index, in[1]), x, source);
    struct index_write_attr a = { .node = "IndexCopyBackward0" };
    if (!rgi_check(x, "index_copy") || !rgi_wrap_dim("index_copy", dim, x->ndim, &a.dim))
        return NULL;
    return RG_APPLY(index_copy, &a, x, index, source);
}

rg_tensor *(rg_index_copy_)(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source) {
    struct index_write_attr a = { .node = "IndexCopyBackward0" };
    RG_AS("index_copy_");
    if (!rgi_check(x, NULL) || !rgi_check(source, NULL) || !rgi_wrap_dim(NULL, dim, x->ndim, &a.dim)
        || !rgi_scatter_apart(x, index) || !rgi_scatter_apart(x, source))
        return NULL;
    return RG_APPLY_(index_copy, &a, x, index, source);
}
