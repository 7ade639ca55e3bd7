/*
 * index.c: Python's x[i, j], with index tensors for some of x's dims. (subscript.c converts items
 * to index tensors.) In the formulas, g is the gradient of the result, and gx the gradient of x.
 */
#include "subscript.h"

#include "autograd/checks.h"

#include <stdio.h>

/* ---- converting index tensors to offsets in memory ----------------------------- */

/* Broadcasts the shape in from_end[] with the shape of `index`, in place. from_end[] has the n
 * sizes of its shape from the last dim to the first. Returns whether the two shapes can be
 * broadcast. */
static bool index_join(int64_t from_end[RG_MAX_DIMS], int *n, const rg_tensor *index) {
    bool fits = true;
    for (int e = 0; e < index->ndim; e++) {
        int64_t size = index->size[index->ndim - 1 - e];
        if (e == *n)
            from_end[(*n)++] = size;
        else if (from_end[e] == 1)
            from_end[e] = size;
        else
            fits = fits && (size == 1 || size == from_end[e]);
    }
    return fits;
}

/* Sets *offsets to the shape to which the k index tensors broadcast. Returns false if they can't be
 * broadcast. */
static bool index_offsets_shape(int k, rg_tensor *const index[], rg_dims *offsets) {
    int64_t from_end[RG_MAX_DIMS];
    int n = 0;
    bool fits = true;
    for (int i = 0; i < k; i++) {
        bool joined = index_join(from_end, &n, index[i]);
        fits = fits && joined;
    }
    offsets->n = n;
    for (int d = 0; d < n; d++)
        offsets->v[d] = from_end[n - 1 - d];
    return fits;
}

/* Fails with an error message that lists the shapes of the k index tensors, which can't be
 * broadcast. */
static bool index_no_shape(const char *op, int k, rg_tensor *const index[]) {
    char text[RG_MAX_DIMS * 192];
    int at = 0;
    for (int i = 0; i < k; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", i ? ", " : "",
                       RG_SHAPE_TEXT(index[i]));
    return rgi_fail(RG_INDEX_ERROR, op,
                    "shape mismatch: indexing tensors could not be broadcast together with "
                    "shapes %s",
                    text);
}

/* Returns the dim of the result at which the dims of the index tensors begin. It is the first
 * indexed dim if the indexed dims are adjacent, else 0. */
static int index_place(const struct index_attr *a, int k) {
    for (int i = 1; i < k; i++)
        if (a->dim[i] != a->dim[0] + i)
            return 0;
    return a->dim[0];
}

/* Fills in p->at, p->t and p->shape. p->t is a header (an rg_tensor that shares t's elements)
 * without the indexed dims, and with a new dim of stride 1 at index p->at. An index along the new
 * dim is an offset, a number of elements. p->shape is the shape of the result. Requires that
 * p->offsets, the shape of the index tensors, is set. */
static void index_lay_out(const rg_tensor *t, const struct index_attr *a, int k,
                          rg_index_layout *p) {
    p->t = rgi_header_of(t);
    p->at = index_place(a, k);
    for (int i = k - 1; i >= 0; i--)
        rgi_take_part(&p->t, &(rg_part){ RG_PART_INDEX(a->dim[i], 0) });
    rgi_take_part(&p->t, &(rg_part){ RG_PART_NEW(p->at) });
    p->t.stride[p->at] = 1;
    p->shape.n = 0;
    for (int d = 0; d < p->at; d++)
        p->shape.v[p->shape.n++] = p->t.size[d];
    for (int d = 0; d < p->offsets.n; d++)
        p->shape.v[p->shape.n++] = p->offsets.v[d];
    for (int d = p->at + 1; d < p->t.ndim; d++)
        p->shape.v[p->shape.n++] = p->t.size[d];
}

bool rgi_index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                      rg_tensor *const index[], rg_index_layout *p) {
    if (!index_offsets_shape(k, index, &p->offsets))
        return index_no_shape(op, k, index);
    if (!rgi_check_dims(op, t->ndim - k + p->offsets.n))
        return false;
    bool nowhere = false;
    bool none = false;
    for (int i = 0; i < k; i++)
        nowhere = nowhere || t->size[a->dim[i]] == 0;
    for (int d = 0; d < p->offsets.n; d++)
        none = none || p->offsets.v[d] == 0;
    index_lay_out(t, a, k, p);
    RG_FAIL_INDEX_IF(nowhere && !none, op, "index is out of bounds for dimension with size 0");
    return true;
}

bool rgi_index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                    const struct index_attr *a, int k, rg_tensor *const index[]) {
    rg_index_layout p;
    if (row->numel == 0)
        return true;
    /* This can't fail: the op's shape function has already broadcast the index tensors. */
    index_offsets_shape(k, index, &p.offsets);
    index_lay_out(t, a, k, &p);
    RG_SCOPE();
    rg_tensor *offsets = rg_zeros_dims(p.offsets, RG_INT64);
    if (!offsets)
        return false;
    k_index_bad bad = { .where = NULL };
    for (int i = 0; i < k; i++)
        k_index_offsets(offsets, index[i],
                        &(k_index_dim){ i, t->size[a->dim[i]], t->stride[a->dim[i]], &bad });
    RG_FAIL_INDEX_IF(bad.where, op, "index %lld is out of bounds for dimension %d with size %lld",
                     (long long)bad.at, bad.dim, (long long)bad.size);
    return k_index_slices(how, row, &p.t, p.at, offsets);
}

/* ---- index: y = t[.., i1, .., i2, ..]. The gradient of t is computed by the op unindex, which
 *      adds g to zeros at the indices, in order. (An index may occur more than once.) The
 *      derivative of unindex is index ------------------------------------------ */

static bool index_shape(rg_call *c) {
    rg_index_layout p;
    if (!rgi_index_layout("index", c->in[0], RG_ATTR(c, index), c->n_in - 1, c->in + 1, &p))
        return false;
    rgi_set_size(c->out[0], &p.shape);
    return true;
}

static bool index_forward(rg_call *c) {
    return rgi_index_move(K_GET, "index", c->out[0], c->in[0], RG_ATTR(c, index), c->n_in - 1,
                          c->in + 1);
}

struct unindex_attr {
    struct index_attr at;
    rg_dims shape;
};

bool rgi_index_saved(const rg_step *s, rg_tensor *in[], int first) {
    for (int i = first; i < s->n_in; i++) {
        in[i] = rgi_saved(s, i);
        if (!in[i])
            return false;
    }
    return true;
}

static rg_tensor *index_rule(const rg_step *s, rg_tensor *g) {
    struct unindex_attr a = { *RG_ATTR(s, index), rgi_input_dims(s, 0) };
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    return rgi_index_saved(s, in, 1) ? rgi_apply(&rg_op_unindex, &a, sizeof a, s->n_in, in) : NULL;
}

static bool index_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    rg_tensor *in[1 + RG_MAX_DIMS];
    return rgi_index_saved(s, in, 1)
           && rgi_index_move(K_ADD, "index", g, buffer, RG_ATTR(s, index), s->n_in - 1, in + 1);
}

RG_OP(index, RG_NAMED(index), .moves = true, .doc = "x at index tensors for some of its dims",
      .node = "IndexBackward0", RG_MADE(index),
      .grad = { RG_RULE_INTO(RG_INDEX_NEEDS, index_rule, index_into) },
      RG_SAMPLES({ "(5,3) i5(4)", RG_A(index, .dim = { 0 }) },
                 { "(2,3,4) i2(2,1) i4(3)", RG_A(index, .dim = { 0, 2 }) },
                 { "(2,3,4,2) i3(2) i4(2)", RG_A(index, .dim = { 1, 2 }) },
                 { "(3,2) i3()", RG_A(index, .dim = { 0 }) },
                 { "(3,2) i3(0)", RG_A(index, .dim = { 0 }) },
                 { "(3,0) i3(2)", RG_A(index, .dim = { 0 }) }));

/* ---- unindex: a tensor of zeros to which x is added at the indices; gx = g at the indices ---- */

static bool unindex_shape(rg_call *c) {
    rgi_set_size(c->out[0], &RG_ATTR(c, unindex)->shape);
    return true;
}

static bool unindex_forward(rg_call *c) {
    rgi_fill_zero(c->out[0]);
    return rgi_index_move(K_ADD, "index", c->in[0], c->out[0], &RG_ATTR(c, unindex)->at,
                          c->n_in - 1, c->in + 1);
}

static rg_tensor *unindex_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    if (!rgi_index_saved(s, in, 1))
        return NULL;
    return rgi_apply(&rg_op_index, &RG_ATTR(s, unindex)->at, sizeof(struct index_attr), s->n_in,
                     in);
}

RG_OP(unindex, RG_WITH(unindex), .doc = "zeros with x added at index tensors",
      .node = "IndexPutBackward0", RG_MADE(unindex),
      .grad = { RG_RULE(RG_INDEX_NEEDS, unindex_rule) },
      RG_SAMPLES({ "(2,3,3) i2(2,1) i4(3)", RG_A(unindex, { .dim = { 0, 2 } }, RG_D(2, 3, 4)) },
                 { "(0,2) i3(0)", RG_A(unindex, { .dim = { 0 } }, RG_D(3, 2)) }));

/* ---- masked_select: x[mask], where x and mask broadcast ------------------------- */

bool rgi_index_of_mask(rg_tensor *mask, rg_tensor *index[]) {
    rg_tensor *places = rg_nonzero(mask);
    if (!places)
        return false;
    for (int d = 0; d < mask->ndim; d++) {
        index[d] = rg_select(places, 1, d);
        if (!index[d])
            return false;
    }
    return true;
}

rg_tensor *(rg_masked_select)(rg_tensor *x, rg_tensor *mask) {
    struct index_attr a = { .node = "MaskedSelectBackward0" };
    rg_tensor shape = { 0 };
    rg_tensor *in[1 + RG_MAX_DIMS];
    if (!rgi_check(x, "masked_select") || !rgi_check(mask, "masked_select"))
        return NULL;
    if (!rgi_want_bools("masked_select", "mask", mask)
        || !rgi_broadcast_shapes("masked_select", mask, x, &shape))
        return NULL;
    rg_dims dims = { .n = RG_MAX(shape.ndim, 1), .v = { 1 } };
    for (int d = 0; d < shape.ndim; d++) {
        dims.v[d] = shape.size[d];
        a.dim[d] = d;
    }
    RG_AS("masked_select");
    RG_SCOPE();
    in[0] = rgi_same_shape(x, &shape) && x->ndim ? x : rg_expand_dims(x, dims);
    mask = rg_expand_dims(mask, dims);
    if (!rgi_index_of_mask(mask, in + 1))
        return NULL;
    return rg_escape(rgi_apply(&rg_op_index, &a, sizeof a, 1 + dims.n, in));
}

/* ---- take: the elements of the flattened x at the indices ------------------------ */

rg_tensor *(rg_take)(rg_tensor *x, rg_tensor *index) {
    struct index_attr a = { .node = "TakeBackward0" };
    int64_t bad;
    RG_AS("take");
    if (!rgi_check(x, NULL) || !rgi_check(index, NULL))
        return NULL;
    if (!rgi_want_integers(NULL, "index", index))
        return NULL;
    RG_FAIL_INDEX_IF(x->numel == 0 && index->numel, NULL, "tried to take from an empty tensor");
    RG_FAIL_INDEX_IF(!k_index_within(index, -x->numel, x->numel, &bad), NULL,
                     "out of range: tried to access index %lld on a tensor of %lld elements.",
                     (long long)bad, (long long)x->numel);
    RG_SCOPE();
    return rg_escape(RG_APPLY(index, &a, rg_reshape(x, x->numel), index));
}
