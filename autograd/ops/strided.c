/*
 * strided.c: ops whose attributes describe a view as a part of its base. as_strided reads that
 * part, unstride adds to it in a tensor of zeros, and copy_slices writes over it. No public
 * function applies these ops; rebase.c applies them when a view or its base has been written to. In
 * the formulas, g is the gradient of the result, and gx and gvalue are the gradients of x and the
 * value.
 */
#include "autograd/rebase.h"

/* ---- headers of bases and views: each is an rg_tensor that shares the elements of another ---- */

/* Returns the number of elements of memory that a tensor with these sizes and strides covers, gaps
 * included. Requires that the tensor isn't empty. */
static int64_t strided_reach(const rg_dims *size, const rg_dims *stride) {
    int64_t reach = 1;
    for (int d = 0; d < size->n; d++)
        reach += (size->v[d] - 1) * stride->v[d];
    return reach;
}

/* Sets a header's sizes and strides. Its storage and its first element stay the same. */
static void strided_shape(rg_tensor *t, const rg_dims *size, const rg_dims *stride) {
    rgi_set_size(t, size);
    for (int d = 0; d < size->n; d++)
        t->stride[d] = stride->v[d];
    rgi_update_flags(t);
}

static bool strided_is_laid_out(const rg_tensor *t, const rg_dims *layout) {
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] > 1 && t->stride[d] != layout->v[d])
            return false;
    return true;
}

/* Returns a new reference to a tensor with the base's layout in memory. If t has this layout, or no
 * elements, returns t itself. Otherwise returns a new tensor with t's elements, or with zeros if
 * `zeros` is set. Returns NULL if memory ran out. */
static rg_tensor *strided_laid_out(rg_tensor *t, const rg_strided *a, bool zeros) {
    if (t->numel == 0 || strided_is_laid_out(t, &a->layout)) {
        rgi_retain(t);
        return t;
    }
    int64_t reach = strided_reach(&a->shape, &a->layout);
    rg_tensor *laid = rgi_new((rg_dtype)t->dtype, 1, &reach);
    if (!laid)
        return NULL;
    strided_shape(laid, &a->shape, &a->layout);
    if (zeros)
        rgi_fill_zero(laid);
    else
        rgi_copy_elements(laid, t);
    return laid;
}

/* Returns the header of the view that *a describes. Requires that `laid` has the base's layout. */
static rg_tensor strided_part(const rg_tensor *laid, const rg_strided *a) {
    rg_tensor part = rgi_header_of(laid);
    part.data += a->start * (int64_t)rgi_sizeof(laid->dtype);
    strided_shape(&part, &a->size, &a->stride);
    return part;
}

/* Adds g to a part. If several elements of the part are at the same address, the slices along dim 0
 * are added one after the other. Otherwise one sum could overwrite another. */
static bool strided_add(rg_tensor *part, rg_tensor *g) {
    if (!rgi_overlaps_itself(part))
        return k_run(k_add, part, part, g);
    for (int64_t i = 0; i < part->size[0]; i++) {
        const rg_part at = { RG_PART_INDEX(0, i) };
        RG_PART_HEADER(row, part, &at);
        RG_PART_HEADER(row_of_g, g, &at);
        if (!strided_add(&row, &row_of_g))
            return false;
    }
    return true;
}

/* Adds g to the part of y that *a describes. Requires that y has the base's shape. */
static bool strided_add_to(rg_tensor *y, rg_tensor *g, const rg_strided *a) {
    rg_tensor *laid = strided_laid_out(y, a, true);
    if (!laid)
        return false;
    rg_tensor part = strided_part(laid, a);
    bool ok = g->numel == 0 || strided_add(&part, g);
    if (ok && laid != y)
        ok = k_run(k_add, y, y, laid);
    rgi_release(laid);
    return ok;
}

#define STRIDED(...) \
    &(const rg_strided) { __VA_ARGS__ }
/* The views of the samples: base[1:, ::2]; a transpose; overlapping windows; a row of a base that
 * is transposed in memory; a part of a large base, also transposed in memory; a row of a base with
 * gaps; one element; and no elements. */
#define STRIDED_ROWS    STRIDED(RG_D(2, 3), RG_D(3, 1), RG_D(1, 2), RG_D(3, 2), 3)
#define STRIDED_TURNED  STRIDED(RG_D(2, 3), RG_D(3, 1), RG_D(3, 2), RG_D(1, 3), 0)
#define STRIDED_WINDOWS STRIDED(RG_D(5), RG_D(1), RG_D(2, 3), RG_D(2, 1), 0)
#define STRIDED_ACROSS  STRIDED(RG_D(2, 3), RG_D(1, 2), RG_D(3), RG_D(2), 1)
#define STRIDED_LARGE   STRIDED(RG_D(9, 11), RG_D(1, 9), RG_D(2, 3), RG_D(9, 1), 40)
#define STRIDED_GAPS    STRIDED(RG_D(2, 2), RG_D(5, 2), RG_D(2), RG_D(2), 5)
#define STRIDED_NUMBER  STRIDED(RG_D(), RG_D(), RG_D(), RG_D(), 0)
#define STRIDED_NOTHING STRIDED(RG_D(0, 3), RG_D(9, 2), RG_D(3, 0), RG_D(2, 9), 0)

static const rg_strided *strided_of(const void *attr) { return attr; }

/* ---- as_strided: a copy of a view of x; gx is a tensor of zeros, to which g is added where the
 *      view lies ---------------------------------------------------------------- */

static bool as_strided_shape(rg_call *c) {
    rgi_set_size(c->out[0], &strided_of(c->attr)->size);
    return true;
}

static bool as_strided_forward(rg_call *c) {
    rg_tensor *laid = strided_laid_out(c->in[0], c->attr, false);
    if (!laid)
        return false;
    rg_tensor part = strided_part(laid, c->attr);
    rgi_copy_elements(c->out[0], &part);
    rgi_release(laid);
    return true;
}

static rg_tensor *as_strided_rule(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(unstride, strided_of(s->attr), g);
}

static bool as_strided_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    return strided_add_to(buffer, g, s->attr);
}

RG_OP(as_strided, .doc = "a part of x, as a view of it has it", .node = "AsStridedBackward0",
      .attr_size = sizeof(rg_strided), .n_in = 1, RG_MADE(as_strided),
      .grad = { RG_RULE_INTO(0, as_strided_rule, as_strided_into) },
      RG_SAMPLES({ "(2,3)", STRIDED_ROWS }, { "(2,3)", STRIDED_TURNED }, { "(5)", STRIDED_WINDOWS },
                 { "(2,3)", STRIDED_ACROSS }, { "(9,11)", STRIDED_LARGE },
                 { "(2,2)", STRIDED_GAPS }, { "()", STRIDED_NUMBER },
                 { "(0,3)", STRIDED_NOTHING }));

/* ---- unstride, the gradient of as_strided: y is zeros in the shape of the base, and x is added to
 *      the elements that the view covers; gx is as_strided of g, with the same view ---- */

static bool unstride_shape(rg_call *c) {
    rgi_set_size(c->out[0], &strided_of(c->attr)->shape);
    return true;
}

static bool unstride_forward(rg_call *c) {
    rgi_fill_zero(c->out[0]);
    return strided_add_to(c->out[0], c->in[0], c->attr);
}

static rg_tensor *unstride_rule(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(as_strided, strided_of(s->attr), g);
}

RG_OP(unstride, .doc = "zeros with x added in the place of a view", .node = "UnstrideBackward0",
      .attr_size = sizeof(rg_strided), .n_in = 1, RG_MADE(unstride),
      .grad = { RG_RULE(0, unstride_rule) },
      RG_SAMPLES({ "(1,2)", STRIDED_ROWS }, { "(3,2)", STRIDED_TURNED },
                 { "(2,3)", STRIDED_WINDOWS }, { "(3)", STRIDED_ACROSS },
                 { "(2,3)", STRIDED_LARGE }, { "(2)", STRIDED_GAPS }, { "()", STRIDED_NUMBER },
                 { "(3,0)", STRIDED_NOTHING }));

/* ---- copy_slices: x, with the value written over a view of it; gx is g with zeros in this view,
 *      and gvalue is the same view of g ----------------------------------------- */

static bool copy_slices_forward(rg_call *c) {
    rg_tensor *y = c->out[0];
    rgi_copy_elements(y, c->in[0]);
    rg_tensor *laid = strided_laid_out(y, c->attr, false);
    if (!laid)
        return false;
    rg_tensor part = strided_part(laid, c->attr);
    rgi_copy_elements(&part, c->in[1]);
    if (laid != y)
        rgi_copy_elements(y, laid);
    rgi_release(laid);
    return true;
}

static rg_tensor *copy_slices_rule_x(const rg_step *s, rg_tensor *g) {
    const rg_strided *a = s->attr;
    rg_tensor *zero = rg_zeros_dims((rg_dims){ 0 }, (rg_dtype)g->dtype);
    return RG_APPLY(copy_slices, a, g, rg_expand_dims(zero, a->size));
}

static rg_tensor *copy_slices_rule_value(const rg_step *s, rg_tensor *g) {
    return RG_APPLY(as_strided, strided_of(s->attr), g);
}

RG_OP(copy_slices, .moves = true, .doc = "x with a value in the place of a view of it",
      .node = "CopySlices", .attr_size = sizeof(rg_strided), .n_in = 2, .shape = rgi_shape_same,
      .forward = copy_slices_forward,
      .grad = { RG_RULE(0, copy_slices_rule_x), RG_RULE(0, copy_slices_rule_value) },
      RG_SAMPLES({ "(2,3) (1,2)", STRIDED_ROWS }, { "(2,3) (3,2)", STRIDED_TURNED },
                 { "(2,3) (3)", STRIDED_ACROSS }, { "(9,11) (2,3)", STRIDED_LARGE },
                 { "(2,2) (2)", STRIDED_GAPS }, { "() ()", STRIDED_NUMBER },
                 { "(0,3) (3,0)", STRIDED_NOTHING }));
