/*
 * subscript.c: Python's x[...], to read and to write. The items are read into
 * steps, each a view of what the one before gave (an index, a range, a new dim),
 * and then index tensors for some dims of the last view.
 */
#include "autograd/op.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- index: y = t[.., i1, .., i2, ..] ------------------------------------------------------------
 * The index tensors broadcast to one shape, which stands in the place of their dims if these
 * are neighbours, else in front. An index may come again: gradients add up, in order. */

struct index_attr { int dim[RG_MAX_DIMS]; const char *node; };      /* which dim each index tensor is for */

/* The shape of the result, and where in it the index tensors' dims begin; they are n. */
static bool index_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                         rg_tensor *const index[], rg_tensor *shape, int *begin, int *n)
{
    rg_tensor b = { 0 };
    char text[RG_MAX_DIMS * 192];
    size_t used = 0;
    bool neighbours = true, fits = true;
    for (int i = 0; i < k; i++) {
        neighbours = neighbours && a->dim[i] == a->dim[0] + i;
        rg_tensor with = *index[i];
        for (int d = 0; d < with.ndim; d++) {               /* only where the two differ is there something to say */
            int e = d - with.ndim + b.ndim;
            if (e >= 0 && with.size[d] != b.size[e] && with.size[d] != 1 && b.size[e] != 1) fits = false;
        }
        if (fits) rg_broadcast_shapes(op, &b, &with, &b);
    }
    if (!fits) {
        for (int i = 0; i < k; i++) {
            char one[192];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                                     rg_shape_text(index[i]->ndim, index[i]->size, one));
        }
        return rg_fail(RG_INDEX_ERROR, op, "shape mismatch: indexing tensors could not be broadcast together with "
                       "shapes %s", text);
    }
    if (!rg_check_dims(op, t->ndim - k + b.ndim)) return false;
    *begin = neighbours ? a->dim[0] : 0;
    *n = b.ndim;
    shape->ndim = 0;
    bool none = false, nowhere = false;
    for (int d = 0, i = 0; d <= t->ndim; d++) {
        if (shape->ndim == *begin && (neighbours ? d == *begin : d == 0))
            for (int e = 0; e < b.ndim; e++) {
                shape->size[shape->ndim++] = b.size[e];
                none = none || b.size[e] == 0;
            }
        if (i < k && d == a->dim[i]) nowhere = nowhere || t->size[d] == 0, i++;
        else if (d < t->ndim) shape->size[shape->ndim++] = t->size[d];
    }
    if (nowhere && !none) return rg_fail(RG_INDEX_ERROR, op, "index is out of bounds for dimension with size 0");
    return true;
}

/* the first one out of bounds, if `where` is set */
typedef struct { int dim; int64_t at, size; const char *where; } index_bad;
typedef struct { int dim; int64_t size, stride; index_bad *bad; } index_dim;

/* *p[0] += index * stride, a negative index counted from the end */
static void index_offsets(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    const index_dim *c = context;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = *(const int64_t *)(p[1] + i * s[1]);
        if (at < -c->size || at >= c->size) {
            if (!c->bad->where
                || p[0] + i * s[0] < c->bad->where) *c->bad = (index_bad){ c->dim, at, c->size, p[0] + i * s[0] };
            continue;
        }
        *(int64_t *)(p[0] + i * s[0]) += (at < 0 ? at + c->size : at) * c->stride;
    }
}

/* row, of the result's shape, from or to t's elements there */
static bool index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                       const struct index_attr *a, int k, rg_tensor *const index[])
{
    int begin, n, from = 0;
    rg_tensor base = *row, at = *row, offsets;
    if (row->numel == 0) return true;
    if (!index_layout(op, t, a, k, index, &at, &begin, &n)) return false;
    rg_tensor *sum = rg_new(RG_INT64, n, at.size + begin);
    if (!sum) return false;
    rg_fill_zero(sum);
    index_bad bad = { .where = NULL };
    for (int i = 0; i < k; i++)
        rg_each(2, (rg_tensor *[]){ sum, index[i] }, index_offsets,
                &(index_dim){ i, t->size[a->dim[i]], t->stride[a->dim[i]], &bad });
    if (bad.where) {
        rg_fail(RG_INDEX_ERROR, op, "index %lld is out of bounds for dimension %d with size %lld",
                (long long)bad.at, bad.dim, (long long)bad.size);
    } else {
        offsets = *sum;
        rg_copy_shape(&offsets, row);
        base.data = t->data;
        for (int d = 0, i = 0; d < row->ndim; d++) {
            bool indexed = d >= begin && d < begin + n;
            offsets.stride[d] = indexed ? sum->stride[d - begin] : 0;
            while (!indexed && i < k && from == a->dim[i]) from++, i++;
            base.stride[d] = indexed ? 0 : t->stride[from++];
        }
        rg_update_flags(&offsets);
        rg_update_flags(&base);
        k_index(how, row, &base, &offsets, 1);
    }
    rg_release(sum);
    return !bad.where;
}

static bool index_shape(rg_call *c)
{
    int begin, n;
    return index_layout("index", c->in[0], RG_ATTR(c, index), c->n_in - 1, c->in + 1, c->out[0], &begin, &n);
}

static bool index_forward(rg_call *c)
{
    return index_move(K_GET, "index", c->out[0], c->in[0], RG_ATTR(c, index), c->n_in - 1, c->in + 1);
}

struct unindex_attr { struct index_attr at; rg_dims shape; };

/* The step's index tensors, behind the first input; false: the error stands. */
static bool index_saved(const rg_step *s, rg_tensor *in[], int first)
{
    for (int i = first; i < s->n_in; i++)
        if (!(in[i] = rg_saved(s, i))) return false;
    return true;
}

static rg_tensor *index_rule(const rg_step *s, rg_tensor *g)
{
    struct unindex_attr a = { *RG_ATTR(s, index), rg_input_dims(s, 0) };
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    return index_saved(s, in, 1) ? rg_apply(&rg_op_unindex, &a, sizeof a, s->n_in, in) : NULL;
}

static bool index_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer)
{
    rg_tensor *in[1 + RG_MAX_DIMS];
    return index_saved(s, in, 1) && index_move(K_ADD, "index", g, buffer, RG_ATTR(s, index), s->n_in - 1, in + 1);
}

static const char *index_node(const void *attr)
{
    const char *node = ((const struct index_attr *)attr)->node;
    return node ? node : "IndexBackward0";
}

#define INDEX_NEEDS (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))

RG_OP(index, .attr_size = sizeof(struct index_attr), .doc = "x at index tensors for some of its dims",
      .node_of = index_node, .shape = index_shape, .forward = index_forward,
      .grad = { RG_RULE_INTO(INDEX_NEEDS, index_rule, index_into) },
      RG_SAMPLES({ "(5,3) i5(4)", RG_A(index, .dim = { 0 }) },
                 { "(2,3,4) i2(2,1) i4(3)", RG_A(index, .dim = { 0, 2 }) },
                 { "(2,3,4,2) i3(2) i4(2)", RG_A(index, .dim = { 1, 2 }) },
                 { "(3,2) i3()", RG_A(index, .dim = { 0 }) }, { "(3,2) i3(0)", RG_A(index, .dim = { 0 }) },
                 { "(3,0) i3(2)", RG_A(index, .dim = { 0 }) }));

static bool unindex_shape(rg_call *c)
{
    const rg_dims *shape = &RG_ATTR(c, unindex)->shape;
    c->out[0]->ndim = (uint8_t)shape->n;
    for (int d = 0; d < shape->n; d++) c->out[0]->size[d] = shape->v[d];
    return true;
}

static bool unindex_forward(rg_call *c)
{
    rg_fill_zero(c->out[0]);
    return index_move(K_ADD, "index", c->in[0], c->out[0], &RG_ATTR(c, unindex)->at, c->n_in - 1, c->in + 1);
}

static rg_tensor *unindex_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    if (!index_saved(s, in, 1)) return NULL;
    return rg_apply(&rg_op_index, &RG_ATTR(s, unindex)->at, sizeof(struct index_attr), s->n_in, in);
}

RG_OP(unindex, .attr_size = sizeof(struct unindex_attr), .doc = "zeros with x added at index tensors",
      .node = "IndexPutBackward0", .shape = unindex_shape, .forward = unindex_forward,
      .grad = { RG_RULE(INDEX_NEEDS, unindex_rule) },
      RG_SAMPLES({ "(4,3) i5(4)", RG_A(unindex, { .dim = { 0 } }, RG_D(5, 3)) },
                 { "(2,3,3) i2(2,1) i4(3)", RG_A(unindex, { .dim = { 0, 2 } }, RG_D(2, 3, 4)) },
                 { "(0,2) i3(0)", RG_A(unindex, { .dim = { 0 } }, RG_D(3, 2)) }));

/* A mask as index tensors, one for each of its dims, which the scope owns. */
static bool index_of_mask(rg_tensor *mask, rg_tensor *index[])
{
    rg_tensor *flat = rg_contiguous_copy(mask, RG_BOOL);
    if (!flat) return false;
    const bool *on = (const bool *)flat->data;
    int64_t count = 0, at[RG_MAX_DIMS] = { 0 }, *to[RG_MAX_DIMS];
    bool ok = true;
    for (int64_t i = 0; i < flat->numel; i++) count += on[i];
    for (int d = 0; d < mask->ndim && ok; d++) {
        index[d] = rg_own(rg_new(RG_INT64, 1, &count));
        ok = index[d];
        to[d] = ok ? (int64_t *)(void *)index[d]->data : NULL;
    }
    for (int64_t i = 0, k = 0; i < flat->numel && k < count && ok; i++) {
        if (on[i]) {
            for (int d = 0; d < mask->ndim; d++) to[d][k] = at[d];
            k++;
        }
        for (int d = mask->ndim - 1; d >= 0 && ++at[d] == mask->size[d]; d--) at[d] = 0;
    }
    rg_release(flat);
    return ok;
}

rg_tensor *rg_masked_select(rg_tensor *x, rg_tensor *mask)
{
    struct index_attr a = { .node = "MaskedSelectBackward0" };
    rg_tensor shape = { 0 }, *in[1 + RG_MAX_DIMS];
    if (!rg_check(x, "masked_select") || !rg_check(mask, "masked_select")) return NULL;
    if (mask->dtype != RG_BOOL)
        return rg_fail(RG_RUNTIME_ERROR, "masked_select", "masked_select: expected BoolTensor for mask");
    if (!rg_broadcast_shapes("masked_select", mask, x, &shape)) return NULL;
    rg_dims dims = { .n = RG_MAX(shape.ndim, 1), .v = { 1 } };
    for (int d = 0; d < shape.ndim; d++) dims.v[d] = shape.size[d], a.dim[d] = d;
    RG_SCOPE();
    in[0] = rg_same_shape(x, &shape) && x->ndim ? x : rg_expand_dims(x, dims);
    mask = rg_expand_dims(mask, dims);
    if (!in[0] || !mask || !index_of_mask(mask, in + 1)) return NULL;
    rg_tensor *y = rg_apply(&rg_op_index, &a, sizeof a, 1 + dims.n, in);
    return y ? rg_escape(y) : NULL;
}

/* ---- reading the items -------------------------------------------------------------------------- */

enum { MAX_ITEMS = 32, MAX_STEPS = 3 * RG_MAX_DIMS };

struct subscript_step { enum { STEP_INDEX, STEP_RANGE, STEP_NEW } kind; int dim; int64_t start, end, step; };

typedef struct {
    int                   n_steps, n_index;
    struct subscript_step step[MAX_STEPS];
    rg_tensor             part;             /* a header: what the steps lead to */
    struct index_attr     at;
    rg_tensor            *index[RG_MAX_DIMS];
    bool                  nothing;          /* x[False] = value */
    bool                  masked;           /* one mask is all there is of index tensors */
} subscript;

static const char subscript_none[] = "None", subscript_ellipsis[] = "...";

rg_item_index rg_index_text(const char *text) { return (rg_item_index){ .kind = RG_INDEX_TEXT, .text = text }; }
rg_item_index rg_index_number(int64_t number) { return (rg_item_index){ .kind = RG_INDEX_NUMBER, .start = number }; }
rg_item_index rg_index_tensor(rg_tensor *t)   { return (rg_item_index){ .kind = RG_INDEX_TENSOR, .tensor = t }; }
rg_item_index rg_index_bool(bool b)           { return (rg_item_index){ .kind = RG_INDEX_BOOL, .start = b }; }
rg_item_index rg_index_slice(int64_t start, int64_t end, int64_t step)
{
    return (rg_item_index){ .kind = RG_INDEX_SLICE, .start = start, .end = end, .step = step };
}

static void text_skip(const char **p)
{
    while (isspace((unsigned char)**p)) (*p)++;
}

static bool text_word(const char **p, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*p, word, n) || isalnum((unsigned char)(*p)[n]) || (*p)[n] == '_') return false;
    *p += n;
    return true;
}

static bool text_number(const char **p, int64_t *out)
{
    char *end;
    text_skip(p);
    if (!isdigit((unsigned char)**p) && !((**p == '-' || **p == '+') && isdigit((unsigned char)(*p)[1]))) return false;
    *out = strtoll(*p, &end, 10);           /* what is too large becomes the largest */
    *p = end;
    return true;
}

/* A list in brackets, as a tensor that the scope owns. */
static rg_tensor *text_list(const char **p)
{
    const char *end = *p;
    int depth = 0;
    do {
        depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
        if (!*end++) return rg_fail(RG_VALUE_ERROR, "index", "'[' was never closed in \"%s\"", *p);
    } while (depth);
    size_t n = (size_t)(end - *p);
    char *list = rg_own_string(n + 1);
    if (!list) return NULL;
    memcpy(list, *p, n);
    list[n] = 0;
    *p = end;
    rg_tensor *t = rg_parse(list);
    return t && t->numel == 0 ? rg_to(t, RG_INT64) : t;
}

static bool text_item(const char **p, rg_item_index *item)
{
    int64_t v[3] = { 0, INT64_MAX, 1 };
    text_skip(p);
    if (text_word(p, "None")) *item = rg_index_text(subscript_none);
    else if (text_word(p, "...") || text_word(p, "Ellipsis")) *item = rg_index_text(subscript_ellipsis);
    else if (text_word(p, "True")) *item = rg_index_bool(true);
    else if (text_word(p, "False")) *item = rg_index_bool(false);
    else if (**p == '[') {
        *item = rg_index_tensor(text_list(p));
        return item->tensor;
    } else {
        bool number = text_number(p, &v[0]);
        text_skip(p);
        if (**p != ':') return *item = rg_index_number(v[0]), number;
        for (int i = 1; i < 3 && **p == ':'; i++) {
            (*p)++;
            text_number(p, &v[i]);
            text_skip(p);
        }
        *item = rg_index_slice(v[0], v[1], v[2]);
    }
    return true;
}

/* Python's text, and what stands between: one list of items. -1: failed. */
static int subscript_flatten(int n, const rg_item_index *items, rg_item_index flat[MAX_ITEMS])
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        const char *p = items[i].kind == RG_INDEX_TEXT ? items[i].text : "", *whole = p;
        if (!p) return rg_fail(RG_TYPE_ERROR, "index", "the text is NULL"), -1;
        do {
            if (count == MAX_ITEMS) return rg_fail(RG_INDEX_ERROR, "index", "at most %d indices", MAX_ITEMS), -1;
            if (items[i].kind != RG_INDEX_TEXT) {
                flat[count++] = items[i];
                break;
            }
            bool ok = text_item(&p, &flat[count]);
            if (!ok && flat[count].kind == RG_INDEX_TENSOR) return -1;
            text_skip(&p);
            if (!ok || (*p && *p != ','))
                return rg_fail(RG_VALUE_ERROR, "index", "\"%s\" is not an index in Python's syntax: see \"%s\"",
                               whole, p), -1;
            count++;
            if (*p == ',') p++, text_skip(&p);          /* the last comma may stand alone */
        } while (*p);
    }
    return count;
}

/* The view that a step leads to; its dim and range are sound. */
static void subscript_view(rg_tensor *t, const struct subscript_step *s)
{
    int64_t start = s->start, stride = s->dim < t->ndim ? t->stride[s->dim] : 1;
    if (s->kind == STEP_NEW) {
        for (int d = t->ndim++; d > s->dim; d--) t->size[d] = t->size[d - 1], t->stride[d] = t->stride[d - 1];
        t->size[s->dim] = 1;
        return;
    }
    if (s->kind == STEP_RANGE) {
        int64_t length = rg_slice_length(t->size[s->dim], &start, s->end, s->step);
        if (length == 0) start = 0;
        t->size[s->dim] = length;
        t->stride[s->dim] = (int64_t)((uint64_t)stride * (uint64_t)s->step);
    } else {
        t->ndim--;
        for (int d = s->dim; d < t->ndim; d++) t->size[d] = t->size[d + 1], t->stride[d] = t->stride[d + 1];
    }
    t->data += start * stride * (int64_t)rg_sizeof(t->dtype);
}

static bool subscript_step(subscript *s, struct subscript_step step)
{
    if (s->n_steps == MAX_STEPS || (step.kind == STEP_NEW && !rg_check_dims("index", s->part.ndim + 1))) {
        if (s->n_steps == MAX_STEPS) rg_fail(RG_INDEX_ERROR, "index", "too many indices");
        return false;
    }
    s->step[s->n_steps++] = step;
    subscript_view(&s->part, &step);
    return true;
}

static bool subscript_number(subscript *s, int64_t at, int64_t dim, int item)
{
    int64_t size = dim < s->part.ndim ? s->part.size[dim] : 0;
    if (at < -size || at >= size)
        return rg_fail(RG_INDEX_ERROR, "index", "index %lld is out of bounds for dimension %d with size %lld",
                       (long long)at, item, (long long)size);
    return subscript_step(s, (struct subscript_step){ STEP_INDEX, (int)dim, .start = at < 0 ? at + size : at });
}

static bool subscript_slice(subscript *s, const rg_item_index *item, int64_t dim, bool only)
{
    int d;
    if (item->step == 0) return rg_fail(RG_VALUE_ERROR, "index", "slice step cannot be zero");
    if (item->step < 0) return rg_fail(RG_VALUE_ERROR, "index", "step must be greater than zero");
    if (s->part.ndim == 0) return rg_fail(RG_INDEX_ERROR, "index", "slice() cannot be applied to a 0-dim tensor.");
    if (!rg_wrap_dim("index", dim, s->part.ndim, &d)) return false;
    if (!only && item->start == 0 && item->end >= s->part.size[d] && item->step == 1) return true;
    return subscript_step(s, (struct subscript_step){ STEP_RANGE, d, item->start, item->end, item->step });
}

/* A new dim with this index for it: [0] or none. */
static bool subscript_bool(subscript *s, bool on, int64_t dim, rg_tensor *index[], int at[])
{
    int64_t n = on;
    int d;
    if (!rg_wrap_dim("index", dim, s->part.ndim + 1, &d)
        || !subscript_step(s, (struct subscript_step){ .kind = STEP_NEW, .dim = d }))
        return false;
    rg_tensor *which = rg_own(rg_new(RG_INT64, 1, &n));
    if (!which) return false;
    rg_fill_zero(which);
    at[s->n_index] = d;
    index[s->n_index++] = which;            /* there is room: it has a dim of its own */
    return true;
}

/* A mask of several dims counts for as many; its shape must be theirs. */
static bool subscript_mask(subscript *s, rg_tensor *mask, int dim)
{
    char a[192], b[192];
    for (int d = 0; d < mask->ndim; d++)
        if (dim + d >= s->part.ndim || mask->size[d] != s->part.size[dim + d])
            return rg_fail(RG_INDEX_ERROR, "index", "The shape of the mask %s at index %d does not match the shape "
                           "of the indexed tensor %s at index %d", rg_shape_text(mask->ndim, mask->size, a), d,
                           rg_shape_text(s->part.ndim, s->part.size, b), dim + d);
    for (int d = 0; d < mask->ndim; d++) s->at.dim[s->n_index + d] = dim + d;
    if (!index_of_mask(mask, s->index + s->n_index)) return false;
    s->n_index += mask->ndim;
    return true;
}

/* What the items say about x. */
static bool subscript_read(rg_tensor *x, int n, const rg_item_index *items, bool write, subscript *s)
{
    rg_item_index flat[MAX_ITEMS];
    rg_tensor *index[RG_MAX_DIMS];          /* as they stand: masks aren't taken apart yet */
    int at[RG_MAX_DIMS];
    int64_t named = 0, dim = 0;
    n = subscript_flatten(n, items, flat);
    if (n < 0) return false;
    for (int i = 0; i < n; i++) {
        rg_tensor *t = flat[i].tensor;
        if (flat[i].kind == RG_INDEX_TENSOR) {
            if (!rg_check(t, "index")) return false;
            if (rg_is_float(t->dtype))
                return rg_fail(RG_INDEX_ERROR, "index", "tensors used as indices must be long, int, byte or bool "
                               "tensors");
            named += t->dtype == RG_BOOL ? t->ndim : 1;
        } else {
            named += flat[i].kind == RG_INDEX_NUMBER || flat[i].kind == RG_INDEX_SLICE;
        }
    }
    if (x->ndim == 0 && n == 1 && flat[0].kind == RG_INDEX_NUMBER && flat[0].start == 0)
        return rg_fail(RG_INDEX_ERROR, "index", "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                       "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    if (named > x->ndim && !(x->ndim == 0 && n == 1 && flat[0].kind != RG_INDEX_TENSOR))
        return rg_fail(RG_INDEX_ERROR, "index", "too many indices for tensor of dimension %d", x->ndim);
    s->n_steps = s->n_index = 0;
    s->nothing = false;
    s->part = *x;
    s->at.node = NULL;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        const rg_item_index *item = &flat[i];
        rg_tensor *t = item->tensor;
        bool is_tensor = item->kind == RG_INDEX_TENSOR;
        if (item->kind == RG_INDEX_NUMBER) ok = subscript_number(s, item->start, dim, i);
        else if (item->kind == RG_INDEX_SLICE) ok = subscript_slice(s, item, dim++, n == 1 && !write);
        /* True: a new dim; False: there is nothing to do */
        else if (item->kind == RG_INDEX_BOOL && n == 1 && write) {
            s->nothing = !item->start;
            ok = subscript_step(s, (struct subscript_step){ .kind = STEP_NEW });
        } else if (item->kind == RG_INDEX_BOOL) ok = subscript_bool(s, item->start, dim++, index, at);
        else if (item->text == subscript_ellipsis && !is_tensor) dim += x->ndim - named;
        else if (is_tensor && t->ndim == 0
                 && t->dtype == RG_BOOL) ok = subscript_bool(s, *(const bool *)t->data, dim++, index, at);
        else if (is_tensor && t->ndim == 0) ok = subscript_number(s, *(const int64_t *)(void *)t->data, dim, i);
        else if (is_tensor) {
            if (s->n_index == RG_MAX_DIMS)
                return rg_fail(RG_INDEX_ERROR, "index", "at most %d index tensors", RG_MAX_DIMS);
            at[s->n_index] = (int)dim;
            index[s->n_index++] = t;
            dim += t->dtype == RG_BOOL ? t->ndim : 1;
        } else {
            int d;
            ok = rg_wrap_dim("index", dim, s->part.ndim + 1, &d)
                && subscript_step(s, (struct subscript_step){ .kind = STEP_NEW, .dim = d });
            dim++;
        }
    }
    rg_update_flags(&s->part);
    int n_given = s->n_index;
    s->masked = n_given == 1 && index[0]->dtype == RG_BOOL;
    s->n_index = 0;
    for (int i = 0; i < n_given && ok; i++) {
        if (index[i]->dtype == RG_BOOL) ok = subscript_mask(s, index[i], at[i]);
        else if (at[i] >= s->part.ndim) ok = rg_fail(RG_INDEX_ERROR, "index",
                                                     "too many indices for tensor of dimension %d (got %d)",
                                                     s->part.ndim, at[i] + 1);
        else s->at.dim[s->n_index] = at[i], s->index[s->n_index++] = index[i];
    }
    return ok;
}

/* ---- x[items] -------------------------------------------------------------------------------------- */

static rg_tensor *subscript_take(rg_tensor *x, int n_steps, const struct subscript_step *step,
                                 const struct index_attr *at, int n_index, rg_tensor *const index[])
{
    for (int i = 0; i < n_steps && x; i++)
        x = step[i].kind == STEP_INDEX ? rg_select(x, step[i].dim, step[i].start)
          : step[i].kind == STEP_RANGE ? rg_slice(x, step[i].dim, step[i].start, step[i].end, step[i].step)
          : rg_unsqueeze(x, step[i].dim);
    if (!x || n_index == 0) return x && n_steps == 0 ? RG_APPLY(alias, RG_NO_ATTR, x) : x;
    rg_tensor *in[1 + RG_MAX_DIMS] = { x };
    for (int i = 0; i < n_index; i++) in[1 + i] = index[i];
    return rg_apply(&rg_op_index, at, sizeof *at, 1 + n_index, in);
}

rg_tensor *rg_index_items(rg_tensor *x, int n, const rg_item_index *items)
{
    subscript s;
    if (!rg_check(x, "index")) return NULL;
    RG_SCOPE();
    rg_tensor *y = subscript_read(x, n, items, false, &s)
        ? subscript_take(x, s.n_steps, s.step, &s.at, s.n_index, s.index) : NULL;
    return y ? rg_escape(y) : NULL;
}

/* ---- x[items] = value; gx = g with zeros there, gvalue = g[items] ----------------------------------- */

struct set_item_attr { struct index_attr at; int n_steps; struct subscript_step step[MAX_STEPS]; };

static bool set_item_forward(rg_call *c)
{
    const struct set_item_attr *a = RG_ATTR(c, set_item);
    if (c->out[0] != c->in[0]) rg_copy_elements(c->out[0], c->in[0]);
    rg_tensor part = *c->out[0];
    for (int i = 0; i < a->n_steps; i++) subscript_view(&part, &a->step[i]);
    rg_update_flags(&part);
    if (c->n_in > 2) return index_move(K_PUT, "set_item_", c->in[1], &part, &a->at, c->n_in - 2, c->in + 2);
    rg_copy_elements(&part, c->in[1]);
    return true;
}

static rg_tensor *set_item_rule(const rg_step *s, rg_tensor *g)
{
    const struct set_item_attr *a = RG_ATTR(s, set_item);
    rg_tensor *in[2 + RG_MAX_DIMS];
    if (!index_saved(s, in, 2)) return NULL;
    rg_tensor *there = subscript_take(g, a->n_steps, a->step, &a->at, s->n_in - 2, in + 2);
    if (s->input == 1 || !there) return there;
    in[0] = g;
    in[1] = rg_expand_as(rg_zeros_dims((rg_dims){ 0 }, (rg_dtype)g->dtype), there);
    size_t size = offsetof(struct set_item_attr, step) + (size_t)a->n_steps * sizeof a->step[0];
    return in[1] ? rg_apply(s->op, a, size, s->n_in, in) : NULL;
}

static const char *set_item_node(const void *attr)
{
    const struct set_item_attr *a = attr;
    return a->n_steps ? "CopySlices" : a->at.node ? a->at.node : "CopyBackwards";
}

RG_OP(set_item, .attr_size = sizeof(struct set_item_attr), .doc = "x[items] = value", .node_of = set_item_node,
      .inplace = true, .shape = rg_shape_same, .forward = set_item_forward,
      .grad = { RG_RULE(INDEX_NEEDS << 1 & ~RG_IN(1), set_item_rule) },
      RG_SAMPLES({ "(2,3) (3)", RG_A(set_item, .n_steps = 1, .step = { { STEP_INDEX, 0, 1, 0, 0 } }) },
                 { "(2,5) (2,1,2)", RG_A(set_item, .n_steps = 2,
                                         .step = { { STEP_RANGE, 1, 1, 5, 2 }, { STEP_NEW, 1, 0, 0, 0 } }) },
                 { "(2,3) (2,3)", RG_A(set_item, .n_steps = 0) },
                 { "(2,3,4) (3,1) i4(1)", RG_A(set_item, .at = { .dim = { 1 } }, .n_steps = 1,
                                               .step = { { STEP_INDEX, 0, 0, 0, 0 } }) },
                 { "(3,0) (2,0) i3(2)", RG_A(set_item, .at = { .dim = { 0 } }) }));

/* The value as it goes there: without leading dims of size 1, expanded, converted. */
static rg_tensor *set_item_value(rg_tensor *x, rg_tensor *value, const subscript *s)
{
    rg_tensor there = s->part;
    int begin, n, lead = 0;
    char a[192], b[192];
    bool converts = value->dtype == x->dtype || value->flags & RG_WEAK || s->n_index == 0
        || (s->masked && value->numel == 1);
    if (s->n_index && !index_layout("set_item_", &s->part, &s->at, s->n_index, s->index, &there, &begin, &n))
        return NULL;
    if (value->storage == x->storage && !(value = rg_clone(value))) return NULL;
    if (!rg_same_shape(value, &there)) {
        while (lead < value->ndim && value->size[lead] == 1) lead++;
        rg_dims rest = { .n = value->ndim - lead }, shape = { .n = there.ndim };
        for (int d = 0; d < rest.n; d++) rest.v[d] = value->size[lead + d];
        for (int d = 0; d < shape.n; d++) shape.v[d] = there.size[d];
        if (lead && !(value = rg_reshape_dims(value, rest))) return NULL;
        if (s->n_index && !rg_expandable(value, &there))
            return rg_fail(RG_RUNTIME_ERROR, "set_item_", "shape mismatch: value tensor of shape %s cannot be "
                           "broadcast to indexing result of shape %s", rg_shape_text(value->ndim, value->size, a),
                           rg_shape_text(there.ndim, there.size, b));
        if (!(value = rg_expand_dims(value, shape))) return NULL;
    }
    if (converts) return rg_to(value, x->dtype);
    return rg_fail(RG_RUNTIME_ERROR, "set_item_", "Index put requires the source and destination dtypes match, got "
                   "%s for the destination and %s for the source.", rg_scalar_name(x->dtype),
                   rg_scalar_name(value->dtype));
}

rg_tensor *rg_set_items_(rg_tensor *x, rg_tensor *value, int n, const rg_item_index *items)
{
    subscript s;
    if (!rg_check(x, "set_item_") || !rg_check(value, "set_item_")) return NULL;
    RG_SCOPE();
    if (!subscript_read(x, n, items, true, &s)) return NULL;
    if (s.nothing) return x;
    if (s.n_steps && x->history && rg_is_leaf(x) && rg_is_grad_enabled())
        return rg_fail(RG_RUNTIME_ERROR, "set_item_", "a view of a leaf Variable that requires grad is being used "
                       "in an in-place operation.");
    struct set_item_attr a;
    rg_tensor *in[2 + RG_MAX_DIMS] = { x, set_item_value(x, value, &s) };
    if (!in[1]) return NULL;
    for (int i = 0; i < s.n_index; i++) {
        in[2 + i] = s.index[i]->storage == x->storage ? rg_clone(s.index[i]) : s.index[i];
        if (!in[2 + i]) return NULL;
    }
    a.at = s.at;
    a.at.node = s.n_index ? "IndexPutBackward0" : value->ndim == 0 && x->ndim ? "FillBackward3" : NULL;
    a.n_steps = s.n_steps;
    memcpy(a.step, s.step, (size_t)s.n_steps * sizeof a.step[0]);
    size_t size = offsetof(struct set_item_attr, step) + (size_t)s.n_steps * sizeof a.step[0];
    return rg_apply_inplace("set_item_", &rg_op_set_item, &a, size, 2 + s.n_index, in);
}
