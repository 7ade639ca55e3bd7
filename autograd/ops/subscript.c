/*
 * subscript.c: Python's x[...], to read and to write. The items are read into
 * steps, each a view of what the one before gave (an index, a range, a new dim),
 * and then index tensors for some dims of the last view.
 */
#include "autograd/op.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- index: y = t[.., i1, .., i2, ..] ---------------------------------------------
 * The index tensors broadcast to one shape, which stands in the place of their dims if these
 * are neighbours, else in front. An index may come again: gradients add up, in order. */
/* which dim each index tensor is for */
struct index_attr {
    const char *node;
    int dim[RG_MAX_DIMS];
};

/* t with one dim, which offsets lead through, in place of the indexed ones. */
/* shape: the result's */
typedef struct {
    rg_tensor t;
    int at;
    rg_dims offsets, shape;
} index_layout;

static bool index_find_layout(const char *op, const rg_tensor *t, const struct index_attr *a, int k,
                              rg_tensor *const index[], index_layout *p) {
    /* what the index tensors broadcast to, the last size first */
    int64_t from_end[RG_MAX_DIMS];
    int n = 0;
    bool neighbours = true, fits = true, nowhere = false, none = false;
    for (int i = 0; i < k; i++) {
        neighbours = neighbours && a->dim[i] == a->dim[0] + i;
        nowhere = nowhere || t->size[a->dim[i]] == 0;
        for (int e = 0; e < index[i]->ndim; e++) {
            int64_t size = index[i]->size[index[i]->ndim - 1 - e];
            if (e == n)
                from_end[n++] = size;
            else if (from_end[e] == 1)
                from_end[e] = size;
            else
                fits = fits && (size == 1 || size == from_end[e]);
        }
    }
    char text[RG_MAX_DIMS * 192];
    for (int i = 0, at = 0; i < k && !fits; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", i ? ", " : "",
                       RG_SHAPE_TEXT(index[i]));
    RG_FAIL_INDEX_IF(!fits, op,
                     "shape mismatch: indexing tensors could not be broadcast together with shapes "
                     "%s",
                     text);
    if (!rgi_check_dims(op, t->ndim - k + n))
        return false;
    p->t = *t;
    p->at = neighbours ? a->dim[0] : 0;
    for (int i = k - 1; i >= 0; i--)
        rgi_take_part(&p->t, &(rg_part){ RG_PART_INDEX(a->dim[i], 0) });
    rgi_take_part(&p->t, &(rg_part){ RG_PART_NEW(p->at) });
    p->t.stride[p->at] = 1;
    p->offsets.n = n;
    p->shape.n = t->ndim - k + n;
    for (int d = 0; d < n; d++) {
        p->offsets.v[d] = from_end[n - 1 - d];
        none = none || p->offsets.v[d] == 0;
    }
    for (int d = 0; d < p->shape.n; d++)
        p->shape.v[d] = d < p->at       ? p->t.size[d]
                        : d < p->at + n ? p->offsets.v[d - p->at]
                                        : p->t.size[d - n + 1];
    RG_FAIL_INDEX_IF(nowhere && !none, op, "index is out of bounds for dimension with size 0");
    return true;
}

/* the first one out of bounds, if `where` is set */
typedef struct {
    int dim;
    int64_t at, size;
    const char *where;
} index_bad;
typedef struct {
    int dim;
    int64_t size, stride;
    index_bad *bad;
} index_dim;

/* *p[0] += index * stride, a negative index counted from the end */
static void index_offsets(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const index_dim *c = context;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = *(const int64_t *)(p[1] + i * s[1]);
        if (at < -c->size || at >= c->size) {
            if (!c->bad->where || p[0] + i * s[0] < c->bad->where)
                *c->bad = (index_bad){ c->dim, at, c->size, p[0] + i * s[0] };
        } else {
            *(int64_t *)(p[0] + i * s[0]) += (at < 0 ? at + c->size : at) * c->stride;
        }
    }
}

/* row, of the result's shape, from or to t's elements there */
static bool index_move(k_index_how how, const char *op, rg_tensor *row, const rg_tensor *t,
                       const struct index_attr *a, int k, rg_tensor *const index[]) {
    index_layout p;
    if (row->numel == 0)
        return true;
    if (!index_find_layout(op, t, a, k, index, &p))
        return false;
    RG_SCOPE();
    rg_tensor *offsets = rg_zeros_dims(p.offsets, RG_INT64);
    if (!offsets)
        return false;
    index_bad bad = { .where = NULL };
    for (int i = 0; i < k; i++)
        rgi_each(2, (rg_tensor *[]){ offsets, index[i] }, index_offsets,
                 &(index_dim){ i, t->size[a->dim[i]], t->stride[a->dim[i]], &bad });
    RG_FAIL_INDEX_IF(bad.where, op, "index %lld is out of bounds for dimension %d with size %lld",
                     (long long)bad.at, bad.dim, (long long)bad.size);
    return k_index_slices(how, row, &p.t, p.at, offsets), true;
}

static bool index_shape(rg_call *c) {
    index_layout p;
    if (!index_find_layout("index", c->in[0], RG_ATTR(c, index), c->n_in - 1, c->in + 1, &p))
        return false;
    rgi_set_size(c->out[0], &p.shape);
    return true;
}

static bool index_forward(rg_call *c) {
    return index_move(K_GET, "index", c->out[0], c->in[0], RG_ATTR(c, index), c->n_in - 1,
                      c->in + 1);
}

struct unindex_attr {
    struct index_attr at;
    rg_dims shape;
};

/* The step's index tensors, behind the first input; false: the error stands. */
static bool index_saved(const rg_step *s, rg_tensor *in[], int first) {
    for (int i = first; i < s->n_in; i++)
        if (!(in[i] = rgi_saved(s, i)))
            return false;
    return true;
}

static rg_tensor *index_rule(const rg_step *s, rg_tensor *g) {
    struct unindex_attr a = { *RG_ATTR(s, index), rgi_input_dims(s, 0) };
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    return index_saved(s, in, 1) ? rgi_apply(&rg_op_unindex, &a, sizeof a, s->n_in, in) : NULL;
}

static bool index_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    rg_tensor *in[1 + RG_MAX_DIMS];
    return index_saved(s, in, 1)
           && index_move(K_ADD, "index", g, buffer, RG_ATTR(s, index), s->n_in - 1, in + 1);
}

#define INDEX_NEEDS \
    (RG_IN(1) | RG_IN(2) | RG_IN(3) | RG_IN(4) | RG_IN(5) | RG_IN(6) | RG_IN(7) | RG_IN(8))
RG_OP(index, RG_NAMED(index), .doc = "x at index tensors for some of its dims",
      .node = "IndexBackward0", RG_MADE(index),
      .grad = { RG_RULE_INTO(INDEX_NEEDS, index_rule, index_into) },
      RG_SAMPLES({ "(5,3) i5(4)", RG_A(index, .dim = { 0 }) },
                 { "(2,3,4) i2(2,1) i4(3)", RG_A(index, .dim = { 0, 2 }) },
                 { "(2,3,4,2) i3(2) i4(2)", RG_A(index, .dim = { 1, 2 }) },
                 { "(3,2) i3()", RG_A(index, .dim = { 0 }) },
                 { "(3,2) i3(0)", RG_A(index, .dim = { 0 }) },
                 { "(3,0) i3(2)", RG_A(index, .dim = { 0 }) }));

static bool unindex_shape(rg_call *c) {
    return rgi_set_size(c->out[0], &RG_ATTR(c, unindex)->shape), true;
}

static bool unindex_forward(rg_call *c) {
    rgi_fill_zero(c->out[0]);
    return index_move(K_ADD, "index", c->in[0], c->out[0], &RG_ATTR(c, unindex)->at, c->n_in - 1,
                      c->in + 1);
}

static rg_tensor *unindex_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *in[1 + RG_MAX_DIMS] = { g };
    if (!index_saved(s, in, 1))
        return NULL;
    return rgi_apply(&rg_op_index, &RG_ATTR(s, unindex)->at, sizeof(struct index_attr), s->n_in,
                     in);
}
RG_OP(unindex, RG_WITH(unindex), .doc = "zeros with x added at index tensors",
      .node = "IndexPutBackward0", RG_MADE(unindex), .grad = { RG_RULE(INDEX_NEEDS, unindex_rule) },
      RG_SAMPLES({ "(2,3,3) i2(2,1) i4(3)", RG_A(unindex, { .dim = { 0, 2 } }, RG_D(2, 3, 4)) },
                 { "(0,2) i3(0)", RG_A(unindex, { .dim = { 0 } }, RG_D(3, 2)) }));

/* A mask as index tensors, one for each of its dims, which the scope owns. */
static bool index_of_mask(rg_tensor *mask, rg_tensor *index[]) {
    rg_tensor *places = rg_nonzero(mask);
    for (int d = 0; d < mask->ndim && places; d++)
        if (!(index[d] = rg_select(places, 1, d)))
            return false;
    return places;
}

rg_tensor *rg_masked_select(rg_tensor *x, rg_tensor *mask) {
    struct index_attr a = { .node = "MaskedSelectBackward0" };
    rg_tensor shape = { 0 }, *in[1 + RG_MAX_DIMS];
    if (!rgi_check(x, "masked_select") || !rgi_check(mask, "masked_select"))
        return NULL;
    RG_FAIL_IF(mask->dtype != RG_BOOL, "masked_select",
               "masked_select: expected BoolTensor for mask");
    if (!rgi_broadcast_shapes("masked_select", mask, x, &shape))
        return NULL;
    rg_dims dims = { .n = RG_MAX(shape.ndim, 1), .v = { 1 } };
    for (int d = 0; d < shape.ndim; d++)
        dims.v[d] = shape.size[d], a.dim[d] = d;
    RG_AS("masked_select");
    RG_SCOPE();
    in[0] = rgi_same_shape(x, &shape) && x->ndim ? x : rg_expand_dims(x, dims);
    mask = rg_expand_dims(mask, dims);
    if (!in[0] || !mask || !index_of_mask(mask, in + 1))
        return NULL;
    return rg_escape(rgi_apply(&rg_op_index, &a, sizeof a, 1 + dims.n, in));
}

/* ---- reading the items --------------------------------------------------------- */
enum { MAX_ITEMS = 32, MAX_STEPS = 3 * RG_MAX_DIMS };

struct set_item_attr {
    struct index_attr at;
    int n_steps;
    rg_part step[MAX_STEPS];
};

typedef struct {
    /* the steps, and the dims that the index tensors are for */
    struct set_item_attr way;
    rg_tensor part; /* a header: what the steps lead to */
    int n_index;
    rg_tensor *index[RG_MAX_DIMS];
    bool nothing; /* x[False] = value */
    bool masked;  /* one mask is all there is of index tensors */
} subscript;

static const char subscript_none[] = "None", subscript_ellipsis[] = "...";

rg_item_index rg_index_text(const char *text) {
    return (rg_item_index){ .kind = RG_INDEX_TEXT, .text = text };
}
rg_item_index rg_index_number(int64_t number) {
    return (rg_item_index){ .kind = RG_INDEX_NUMBER, .start = number };
}
rg_item_index rg_index_tensor(rg_tensor *t) {
    return (rg_item_index){ .kind = RG_INDEX_TENSOR, .tensor = t };
}
rg_item_index rg_index_bool(bool b) { return (rg_item_index){ .kind = RG_INDEX_BOOL, .start = b }; }
rg_item_index rg_index_slice(int64_t start, int64_t end, int64_t step) {
    return (rg_item_index){ .kind = RG_INDEX_SLICE, .start = start, .end = end, .step = step };
}

static void text_skip(const char **p) {
    while (isspace((unsigned char)**p))
        (*p)++;
}

static bool text_word(const char **p, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*p, word, n) || isalnum((unsigned char)(*p)[n]) || (*p)[n] == '_')
        return false;
    *p += n;
    return true;
}

static bool text_number(const char **p, int64_t *out) {
    char *end;
    text_skip(p);
    if (!isdigit((unsigned char)**p)
        && !((**p == '-' || **p == '+') && isdigit((unsigned char)(*p)[1])))
        return false;
    *out = strtoll(*p, &end, 10); /* what is too large becomes the largest */
    *p = end;
    return true;
}

/* A list in brackets, as a tensor that the scope owns. */
static rg_tensor *text_list(const char **p) {
    const char *end = *p;
    int depth = 0;
    do {
        depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
        RG_FAIL_VALUE_IF(!*end++, "index", "'[' was never closed in \"%s\"", *p);
    } while (depth);
    rg_text list = { 0 };
    rgi_text_add(&list, "%.*s", (int)(end - *p), *p);
    *p = end;
    rg_tensor *t = rg_parse(rgi_text_own(&list));
    return t && t->numel == 0 ? rg_to(t, RG_INT64) : t;
}

static bool text_item(const char **p, rg_item_index *item) {
    int64_t v[3] = { 0, INT64_MAX, 1 };
    text_skip(p);
    if (text_word(p, "None"))
        *item = rg_index_text(subscript_none);
    else if (text_word(p, "...") || text_word(p, "Ellipsis"))
        *item = rg_index_text(subscript_ellipsis);
    else if (text_word(p, "True"))
        *item = rg_index_bool(true);
    else if (text_word(p, "False"))
        *item = rg_index_bool(false);
    else if (**p == '[') {
        *item = rg_index_tensor(text_list(p));
        return item->tensor;
    } else {
        bool number = text_number(p, &v[0]);
        text_skip(p);
        if (**p != ':')
            return *item = rg_index_number(v[0]), number;
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
static int subscript_flatten(int n, const rg_item_index *items, rg_item_index flat[MAX_ITEMS]) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        const char *p = items[i].kind == RG_INDEX_TEXT ? items[i].text : "", *whole = p;
        if (!p)
            return rgi_fail(RG_TYPE_ERROR, "index", "the text is NULL"), -1;
        do {
            if (count == MAX_ITEMS)
                return rgi_fail(RG_INDEX_ERROR, "index", "at most %d indices", MAX_ITEMS), -1;
            if (items[i].kind != RG_INDEX_TEXT) {
                flat[count++] = items[i];
                break;
            }
            bool ok = text_item(&p, &flat[count]);
            if (!ok && flat[count].kind == RG_INDEX_TENSOR)
                return -1;
            text_skip(&p);
            if (!ok || (*p && *p != ','))
                return rgi_fail(RG_VALUE_ERROR, "index",
                                "\"%s\" is not an index in Python's syntax: see \"%s\"", whole, p),
                       -1;
            count++;
            if (*p == ',')
                p++, text_skip(&p); /* the last comma may stand alone */
        } while (*p);
    }
    return count;
}

/* There is room: of at most RG_MAX_DIMS dims each may go, and give way to a new one, once. */
static bool subscript_step(subscript *s, rg_part step) {
    s->way.step[s->way.n_steps++] = step;
    rgi_take_part(&s->part, &step);
    return true;
}

static bool subscript_new_dim(subscript *s, int64_t dim, int *d) {
    return rgi_wrap_dim("index", dim, s->part.ndim + 1, d)
           && rgi_check_dims("index", s->part.ndim + 1)
           && subscript_step(s, (rg_part){ RG_PART_NEW(*d) });
}

static bool subscript_number(subscript *s, int64_t at, int64_t dim, int item) {
    int64_t size = dim < s->part.ndim ? s->part.size[dim] : 0;
    RG_FAIL_INDEX_IF(at < -size || at >= size, "index",
                     "index %lld is out of bounds for dimension %d with "
                     "size %lld",
                     (long long)at, item, (long long)size);
    return subscript_step(s, (rg_part){ RG_PART_INDEX((int)dim, at < 0 ? at + size : at) });
}

static bool subscript_slice(subscript *s, const rg_item_index *item, int64_t dim, bool only) {
    rg_part p = { .kind = RG_AT_RANGE, .start = item->start, .step = item->step };
    RG_FAIL_VALUE_IF(item->step == 0, "index", "slice step cannot be zero");
    RG_FAIL_VALUE_IF(item->step < 0, "index", "step must be greater than zero");
    RG_FAIL_INDEX_IF(s->part.ndim == 0, "index", "slice() cannot be applied to a 0-dim tensor.");
    if (!rgi_wrap_dim("index", dim, s->part.ndim, &p.dim))
        return false;
    if (!only && item->start == 0 && item->end >= s->part.size[p.dim] && item->step == 1)
        return true;
    p.length = rgi_slice_length(s->part.size[p.dim], &p.start, item->end, item->step);
    return subscript_step(s, p);
}

/* A new dim with this index for it: [0] or none. There is room, as it has a dim of its own. */
static bool subscript_bool(subscript *s, bool on, int64_t dim, rg_tensor *index[], int at[]) {
    if (!subscript_new_dim(s, dim, &at[s->n_index]))
        return false;
    return (index[s->n_index] = rg_zeros_dims(RG_DIMS(on), RG_INT64)) && ++s->n_index;
}

/* A mask of several dims counts for as many; its shape must be theirs. */
static bool subscript_mask(subscript *s, rg_tensor *mask, int dim) {
    for (int d = 0; d < mask->ndim; d++)
        RG_FAIL_INDEX_IF(
            dim + d >= s->part.ndim || mask->size[d] != s->part.size[dim + d], "index",
            "The "
            "shape of the mask %s at index %d does not match the shape of the indexed tensor %s "
            "at index %d",
            RG_SHAPE_TEXT(mask), d, RG_SHAPE_TEXT(&s->part), dim + d);
    for (int d = 0; d < mask->ndim; d++)
        s->way.at.dim[s->n_index + d] = dim + d;
    if (!index_of_mask(mask, s->index + s->n_index))
        return false;
    s->n_index += mask->ndim;
    return true;
}

/* What the items say about x. */
static bool subscript_read(rg_tensor *x, int n, const rg_item_index *items, bool write,
                           subscript *s) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n < 0 || (n && !items), "index", "expected %d items but got NULL",
                  n);
    rg_item_index flat[MAX_ITEMS];
    rg_tensor *index[RG_MAX_DIMS]; /* as they stand: masks aren't taken apart yet */
    int at[RG_MAX_DIMS];
    int64_t named = 0, dim = 0;
    n = subscript_flatten(n, items, flat);
    if (n < 0)
        return false;
    for (int i = 0; i < n; i++) {
        rg_tensor *t = flat[i].tensor;
        if (flat[i].kind == RG_INDEX_TENSOR) {
            if (!rgi_check(t, "index"))
                return false;
            RG_FAIL_INDEX_IF(rgi_is_float(t->dtype), "index",
                             "tensors used as indices must be long, int, byte "
                             "or bool tensors");
            named += t->dtype == RG_BOOL ? t->ndim : 1;
        } else {
            named += flat[i].kind == RG_INDEX_NUMBER || flat[i].kind == RG_INDEX_SLICE;
        }
    }
    RG_FAIL_INDEX_IF(
        x->ndim == 0 && n == 1 && flat[0].kind == RG_INDEX_NUMBER && flat[0].start == 0, "index",
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number");
    RG_FAIL_INDEX_IF(named > x->ndim
                         && !(x->ndim == 0 && n == 1 && flat[0].kind != RG_INDEX_TENSOR),
                     "index", "too many indices for tensor of dimension %d", x->ndim);
    /* a new dim, and all of it or nothing */
    bool whole = n == 1 && write && flat[0].kind == RG_INDEX_BOOL;
    s->nothing = whole && !flat[0].start;
    s->way.n_steps = s->n_index = 0;
    s->part = *x;
    s->way.at.node = NULL;
    bool ok = true;
    for (int i = 0, d; i < n && ok; i++) {
        rg_item_index item = flat[i];
        rg_tensor *t = item.tensor;
        if (item.kind == RG_INDEX_TENSOR && t->ndim == 0)
            item = t->dtype == RG_BOOL ? rg_index_bool(*(const bool *)t->data)
                                       : rg_index_number(rgi_load_i64(t->data, RG_INT64));
        switch (item.kind) {
        case RG_INDEX_NUMBER: ok = subscript_number(s, item.start, dim, i); break;
        case RG_INDEX_SLICE: ok = subscript_slice(s, &item, dim++, n == 1 && !write); break;
        case RG_INDEX_BOOL:
            ok = whole ? subscript_new_dim(s, 0, &d)
                       : subscript_bool(s, item.start, dim++, index, at);
            break;
        case RG_INDEX_TEXT:
            if (item.text == subscript_ellipsis)
                dim += x->ndim - named;
            else
                ok = subscript_new_dim(s, dim++, &d);
            break;
        case RG_INDEX_TENSOR:
            at[s->n_index] = (int)dim;
            index[s->n_index++] = t;
            dim += t->dtype == RG_BOOL ? t->ndim : 1;
        }
    }
    int n_given = s->n_index;
    s->masked = n_given == 1 && index[0]->dtype == RG_BOOL;
    s->n_index = 0;
    for (int i = 0; i < n_given && ok; i++) {
        if (index[i]->dtype == RG_BOOL) {
            ok = subscript_mask(s, index[i], at[i]);
        } else if (at[i] >= s->part.ndim) {
            ok = rgi_fail(RG_INDEX_ERROR, "index",
                          "too many indices for tensor of dimension %d (got %d)", s->part.ndim,
                          at[i] + 1);
        } else {
            s->way.at.dim[s->n_index] = at[i];
            s->index[s->n_index++] = index[i];
        }
    }
    return ok;
}

/* ---- x[items] ------------------------------------------------------------------ */
static rg_tensor *subscript_take(rg_tensor *x, const struct set_item_attr *way, int n,
                                 rg_tensor **index) {
    for (int i = 0; i < way->n_steps && x; i++)
        x = rgi_part_of(x, &way->step[i]);
    if (!x || n == 0)
        return x && way->n_steps == 0 ? RG_APPLY(alias, RG_NO_ATTR, x) : x;
    rg_tensor *in[1 + RG_MAX_DIMS] = { x };
    memcpy(in + 1, index, (size_t)n * sizeof *in);
    return rgi_apply(&rg_op_index, &way->at, sizeof way->at, 1 + n, in);
}

rg_tensor *rg_index_items(rg_tensor *x, int n, const rg_item_index *items) {
    subscript s;
    RG_AS("index");
    if (!rgi_check(x, "index"))
        return NULL;
    RG_SCOPE();
    return subscript_read(x, n, items, false, &s)
               ? rg_escape(subscript_take(x, &s.way, s.n_index, s.index))
               : NULL;
}

/* ---- x[items] = value; gx = g with zeros there, gvalue = g[items] -------------- */
static bool set_item_forward(rg_call *c) {
    const struct set_item_attr *a = RG_ATTR(c, set_item);
    if (c->out[0] != c->in[0])
        rgi_copy_elements(c->out[0], c->in[0]);
    rg_tensor part = *c->out[0];
    for (int i = 0; i < a->n_steps; i++)
        rgi_take_part(&part, &a->step[i]);
    if (c->n_in > 2)
        return index_move(K_PUT, "set_item_", c->in[1], &part, &a->at, c->n_in - 2, c->in + 2);
    rgi_copy_elements(&part, c->in[1]);
    return true;
}

/* No more of the steps is kept than there are. */
static size_t set_item_bytes(const struct set_item_attr *a) {
    return offsetof(struct set_item_attr, step) + (size_t)a->n_steps * sizeof a->step[0];
}

static rg_tensor *set_item_rule(const rg_step *s, rg_tensor *g) {
    const struct set_item_attr *a = RG_ATTR(s, set_item);
    rg_tensor *in[2 + RG_MAX_DIMS];
    if (!index_saved(s, in, 2))
        return NULL;
    rg_tensor *there = subscript_take(g, a, s->n_in - 2, in + 2);
    if (s->input == 1 || !there)
        return there;
    in[0] = g;
    in[1] = rg_expand_as(rg_zeros_dims((rg_dims){ 0 }, (rg_dtype)g->dtype), there);
    return in[1] ? rgi_apply(s->op, a, set_item_bytes(a), s->n_in, in) : NULL;
}
RG_OP(set_item, RG_NAMED(set_item), .doc = "x[items] = value", .node = "CopyBackwards",
      .inplace = true, .shape = rgi_shape_same, .forward = set_item_forward,
      .grad = { RG_RULE(INDEX_NEEDS << 1 & ~RG_IN(1), set_item_rule) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(set_item, .n_steps = 0) },
                 { "(2,5) (2,1,2)", RG_A(set_item, { 0 }, 2,
                                         { { RG_PART_RANGE(1, 1, 2, 2) }, { RG_PART_NEW(1) } }) },
                 { "(2,3,4) (3,1) i4(1)", RG_A(set_item, .at = { .dim = { 1 } }, .n_steps = 1,
                                               .step = { { RG_PART_INDEX(0, 0) } }) },
                 { "(3,0) (2,0) i3(2)", RG_A(set_item, .at = { .dim = { 0 } }) }));

/* The value as it goes there: without leading dims of size 1, expanded, converted. */
static rg_tensor *set_item_value(rg_tensor *x, rg_tensor *value, const subscript *s) {
    rg_tensor there = s->part;
    index_layout p;
    int lead = 0;
    bool converts = value->dtype == x->dtype || value->flags & RG_WEAK || s->n_index == 0
                    || (s->masked && value->numel == 1);
    if (s->n_index) {
        if (!index_find_layout("set_item_", &s->part, &s->way.at, s->n_index, s->index, &p))
            return NULL;
        rgi_set_size(&there, &p.shape);
    }
    if (value->storage == x->storage && !(value = rg_clone(value)))
        return NULL;
    if (!rgi_same_shape(value, &there)) {
        while (lead < value->ndim && value->size[lead] == 1)
            lead++;
        rg_dims rest = { .n = value->ndim - lead };
        for (int d = 0; d < rest.n; d++)
            rest.v[d] = value->size[lead + d];
        if (lead && !(value = rg_reshape_dims(value, rest)))
            return NULL;
        RG_FAIL_IF(s->n_index && !rgi_expandable(value, &there), "set_item_",
                   "shape mismatch: value tensor of "
                   "shape %s cannot be broadcast to indexing result of shape %s",
                   RG_SHAPE_TEXT(value), RG_SHAPE_TEXT(&there));
        if (!(value = rg_expand_dims(value, rg_shape(&there))))
            return NULL;
    }
    RG_FAIL_IF(!converts, "set_item_",
               "Index put requires the source and destination dtypes match, got %s for "
               "the destination and %s for the source.",
               rgi_scalar_name(x->dtype), rgi_scalar_name(value->dtype));
    return rg_to(value, x->dtype);
}

rg_tensor *rg_set_items_(rg_tensor *x, rg_tensor *value, int n, const rg_item_index *items) {
    subscript s;
    RG_AS("set_item_");
    if (!rgi_check(x, "set_item_") || !rgi_check(value, "set_item_"))
        return NULL;
    RG_SCOPE();
    if (!subscript_read(x, n, items, true, &s))
        return NULL;
    if (s.nothing)
        return x;
    RG_FAIL_IF(s.way.n_steps && x->history && rg_is_leaf(x) && rg_is_grad_enabled(), "set_item_",
               "a view of "
               "a leaf Variable that requires grad is being used in an in-place operation.");
    rg_tensor *in[2 + RG_MAX_DIMS] = { x, set_item_value(x, value, &s) };
    if (!in[1])
        return NULL;
    for (int i = 0; i < s.n_index; i++) {
        in[2 + i] = s.index[i]->storage == x->storage ? rg_clone(s.index[i]) : s.index[i];
        if (!in[2 + i])
            return NULL;
    }
    s.way.at.node = s.way.n_steps                 ? "CopySlices"
                    : s.n_index                   ? "IndexPutBackward0"
                    : value->ndim == 0 && x->ndim ? "FillBackward3"
                                                  : NULL;
    return rgi_apply_inplace("set_item_", &rg_op_set_item, &s.way, set_item_bytes(&s.way),
                             2 + s.n_index, in);
}
