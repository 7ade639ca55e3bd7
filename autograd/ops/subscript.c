/*
 * subscript.c: reads and writes Python's x[...]. Each number, range or new dim in the brackets
 * becomes a step. The first step makes a view of x, and each later step makes a view of the
 * previous step's view. Index tensors are applied after the steps: they index dims of the last
 * view. In the formulas, g is the gradient of the result, and gx and gvalue are the gradients of x
 * and the value.
 */
#include "subscript.h"
#include "elementwise.h"
#include "tensor/observer.h"

/* ---- steps: each makes a view of the view before it ----------------------------- */

enum { MAX_STEPS = 3 * RG_MAX_DIMS };

struct set_item_attr {
    struct index_attr at;
    int n_steps;
    rg_part step[MAX_STEPS];
};

/* The attributes with which the tests call set_item (its RG_SAMPLES, see op.h): set_item_attr with
 * room for two steps only, since these constants are a part of every program. */
struct set_item_sample_attr {
    struct index_attr at;
    int n_steps;
    rg_part step[2];
};

/* A parsed subscript. `way` has the steps, and way.at has the dims of the last view that the index
 * tensors index. `part` is a header (an rg_tensor that shares the elements) of the last view.
 * index[] has the n_index index tensors. */
typedef struct {
    struct set_item_attr way;
    rg_tensor part;
    int n_index;
    rg_tensor *index[RG_MAX_DIMS];
    bool nothing; /* True if the subscript is that of x[False] = value, which writes nothing. */
    bool masked;  /* True if the only index tensor is a mask. */
} subscript;

/* The items of a subscript while they are parsed. `named` is the number of x's dims that they
 * index. index[i] is an index tensor for dim at[i] of the last view. A bool mask of several dims is
 * still a single tensor here; later it becomes one index tensor for each dim. */
typedef struct {
    int n;
    rg_item_index item[RG_MOST_ITEMS];
    int64_t named;
    int64_t hidden; /* The number of dims for which an ellipsis stands. */
    int64_t dim;    /* The dim of the newest view to which the next item belongs. */
    bool only;      /* True if the subscript is read, and has a single item. */
    /* True if the subscript is written to and its only item is True or False. x[True] = value
     * writes the value over all of x, and x[False] = value writes nothing. */
    bool whole;
    rg_tensor *index[RG_MAX_DIMS];
    int at[RG_MAX_DIMS];
} subscript_items;

/* Adds a step. There is always room for it: each dim of x (at most RG_MAX_DIMS) is cut or removed
 * at most once, and at most RG_MAX_DIMS dims are new. */
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
                     "index %lld is out of bounds for dimension %d with size %lld", (long long)at,
                     item, (long long)size);
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

/* Makes a new dim for the item True or False, and an index tensor for that dim: [0] for True, and
 * an empty one for False. index[] and at[] have room for the index tensor, since each index tensor
 * has a dim of its own, and no view has more than RG_MAX_DIMS dims. */
static bool subscript_bool(subscript *s, subscript_items *list, bool on) {
    int added;
    if (!subscript_new_dim(s, list->dim++, &added))
        return false;
    int k = s->n_index++;
    list->at[k] = added;
    list->index[k] = rg_zeros_dims(RG_DIMS(on), RG_INT64);
    return list->index[k];
}

/* Adds an index tensor for the next dim to the list. A mask with n dims is for the next n dims. */
static bool subscript_tensor(subscript *s, subscript_items *list, rg_tensor *index) {
    list->at[s->n_index] = (int)list->dim;
    list->index[s->n_index] = index;
    s->n_index++;
    list->dim += rgi_is_bool(index->dtype) ? index->ndim : 1;
    return true;
}

/* Makes an index tensor for each dim of a mask. Fails with torch's error message unless the mask
 * has the sizes of the dims that it indexes. */
static bool subscript_mask(subscript *s, rg_tensor *mask, int dim) {
    for (int d = 0; d < mask->ndim; d++)
        RG_FAIL_INDEX_IF(
            dim + d >= s->part.ndim || mask->size[d] != s->part.size[dim + d], "index",
            "The shape of the mask %s at index %d does not match the shape of the indexed tensor "
            "%s at index %d",
            RG_SHAPE_TEXT(mask), d, RG_SHAPE_TEXT(&s->part), dim + d);
    for (int d = 0; d < mask->ndim; d++)
        s->way.at.dim[s->n_index + d] = dim + d;
    if (!rgi_index_of_mask(mask, s->index + s->n_index))
        return false;
    s->n_index += mask->ndim;
    return true;
}

/* Sets list->named to the number of x's dims that the items index. Fails if x has fewer dims, or an
 * index tensor is invalid or floating point. If x has no dims and the only item is a range or a
 * number other than 0, the item's step fails later, with another error message. */
static bool subscript_count(rg_tensor *x, subscript_items *list) {
    const rg_item_index *first = &list->item[0];
    list->named = 0;
    for (int k = 0; k < list->n; k++) {
        rg_index_kind kind = list->item[k].kind;
        rg_tensor *t = list->item[k].tensor;
        RG_FAIL_AS_IF(RG_TYPE_ERROR, (unsigned)kind > RG_INDEX_BOOL, "index",
                      "there is no kind %d of items", (int)kind);
        if (kind == RG_INDEX_NUMBER || kind == RG_INDEX_SLICE)
            list->named++;
        if (kind != RG_INDEX_TENSOR)
            continue;
        if (!rgi_check(t, "index"))
            return false;
        RG_FAIL_INDEX_IF(rgi_is_float(t->dtype), "index",
                         "tensors used as indices must be long, int, byte or bool tensors");
        if (rgi_is_byte(t->dtype)) /* As in torch, a mask. */
            t = list->item[k].tensor = rg_to(t, RG_BOOL);
        if (!t)
            return false;
        list->named += rgi_is_bool(t->dtype) ? t->ndim : 1;
    }
    bool alone = x->ndim == 0 && list->n == 1;
    RG_FAIL_INDEX_IF(
        alone && first->kind == RG_INDEX_NUMBER && first->start == 0, "index",
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number");
    RG_FAIL_INDEX_IF(list->named > x->ndim && !(alone && first->kind != RG_INDEX_TENSOR), "index",
                     "too many indices for tensor of dimension %d", x->ndim);
    return true;
}

/* If the item is an index tensor without dims, replaces it by an item with the number or bool that
 * the tensor holds. Fails while a training step is recorded (rg_record), unless the tensor is a
 * plain number: a run of the recording wouldn't read the tensor again. */
static bool subscript_plain(rg_item_index *item) {
    rg_tensor *t = item->tensor;
    if (item->kind != RG_INDEX_TENSOR || t->ndim)
        return true;
    if (!elementwise_is_number(t) && !rgi_may_read_number("index"))
        return false;
    *item = rgi_is_bool(t->dtype) ? rg_index_bool(*(const bool *)t->data)
                                  : rg_index_number(rgi_load_i64(t->data, t->dtype));
    return true;
}

/* Adds the step of item k, and sets list->dim to the dim of the next item. A number removes its dim
 * from the view, and the next dim takes the place of the removed one. Therefore list->dim doesn't
 * change for a number. */
static bool subscript_item(subscript *s, subscript_items *list, int k) {
    rg_item_index item = list->item[k];
    int added;
    if (!subscript_plain(&item))
        return false;
    switch (item.kind) {
    case RG_INDEX_NUMBER: return subscript_number(s, item.start, list->dim, k);
    case RG_INDEX_SLICE: return subscript_slice(s, &item, list->dim++, list->only);
    case RG_INDEX_TENSOR: return subscript_tensor(s, list, item.tensor);
    case RG_INDEX_BOOL:
        if (list->whole)
            return subscript_new_dim(s, 0, &added);
        return subscript_bool(s, list, item.start);
    case RG_INDEX_TEXT:
        if (item.text != rgi_index_ellipsis)
            return subscript_new_dim(s, list->dim++, &added);
        list->dim += list->hidden;
    }
    return true;
}

/* Stores the first n index tensors of the list in *s, with the dims that they index. Replaces each
 * mask by one index tensor for each of its dims. */
static bool subscript_indices(subscript *s, const subscript_items *list, int n) {
    s->n_index = 0;
    for (int k = 0; k < n; k++) {
        if (rgi_is_bool(list->index[k]->dtype)) {
            if (!subscript_mask(s, list->index[k], list->at[k]))
                return false;
            continue;
        }
        RG_FAIL_INDEX_IF(list->at[k] >= s->part.ndim, "index",
                         "too many indices for tensor of dimension %d (got %d)", s->part.ndim,
                         list->at[k] + 1);
        s->way.at.dim[s->n_index] = list->at[k];
        s->index[s->n_index++] = list->index[k];
    }
    return true;
}

/* Parses the items of a subscript of x into *s. `write` is set if the subscript is written to. */
static bool subscript_read(rg_tensor *x, int n, const rg_item_index *items, bool write,
                           subscript *s) {
    subscript_items list;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n < 0 || (n && !items), "index", "expected %d items but got NULL",
                  n);
    list.n = rgi_index_flatten(n, items, list.item);
    if (list.n < 0 || !subscript_count(x, &list))
        return false;
    list.hidden = x->ndim - list.named;
    list.dim = 0;
    list.only = list.n == 1 && !write;
    list.whole = list.n == 1 && write && list.item[0].kind == RG_INDEX_BOOL;
    s->nothing = list.whole && !list.item[0].start;
    s->way.at.node = NULL;
    s->way.n_steps = 0;
    s->n_index = 0;
    s->part = rgi_header_of(x);
    for (int k = 0; k < list.n; k++)
        if (!subscript_item(s, &list, k))
            return false;
    s->masked = s->n_index == 1 && rgi_is_bool(list.index[0]->dtype);
    return subscript_indices(s, &list, s->n_index);
}

/* ---- x[items]: reading a subscript --------------------------------------------- */

/* Returns the view of x that the steps make. If n isn't 0, returns the elements of this view at the
 * indices in the n index tensors. Returns NULL on failure. */
static rg_tensor *subscript_take(rg_tensor *x, const struct set_item_attr *way, int n,
                                 rg_tensor **index) {
    for (int i = 0; i < way->n_steps; i++)
        x = rgi_part_of(x, &way->step[i]);
    if (n == 0)
        return way->n_steps == 0 ? RG_APPLY(alias, RG_NO_ATTR, x) : x;
    rg_tensor *in[1 + RG_MAX_DIMS] = { x };
    memcpy(in + 1, index, (size_t)n * sizeof *in);
    return rgi_apply(&rg_op_index, &way->at, sizeof way->at, 1 + n, in);
}

rg_tensor *(rg_index_items)(rg_tensor *x, int n, const rg_item_index *items) {
    subscript s;
    RG_AS("index");
    if (!rgi_check(x, "index"))
        return NULL;
    RG_SCOPE();
    if (!subscript_read(x, n, items, false, &s))
        return NULL;
    return rg_escape(subscript_take(x, &s.way, s.n_index, s.index));
}

/* ---- set_item: x[items] = value; gx is g with zeros at the items, gvalue = g[items] ---- */

static bool set_item_forward(rg_call *c) {
    const struct set_item_attr *a = RG_ATTR(c, set_item);
    if (c->out[0] != c->in[0])
        rgi_copy_elements(c->out[0], c->in[0]);
    rg_tensor part = rgi_header_of(c->out[0]);
    for (int i = 0; i < a->n_steps; i++)
        rgi_take_part(&part, &a->step[i]);
    if (c->n_in > 2)
        return rgi_index_move(K_PUT, "set_item_", c->in[1], &part, &a->at, c->n_in - 2, c->in + 2);
    rgi_copy_elements(&part, c->in[1]);
    return true;
}

/* Returns the number of bytes of the attributes. Only the elements of step[] that are in use are
 * stored. */
static size_t set_item_bytes(const struct set_item_attr *a) {
    return offsetof(struct set_item_attr, step) + (size_t)a->n_steps * sizeof a->step[0];
}

static rg_tensor *set_item_rule(const rg_step *s, rg_tensor *g) {
    const struct set_item_attr *a = RG_ATTR(s, set_item);
    rg_tensor *in[2 + RG_MAX_DIMS];
    if (!rgi_index_saved(s, in, 2))
        return NULL;
    rg_tensor *there = subscript_take(g, a, s->n_in - 2, in + 2);
    if (s->input == 1)
        return there;
    in[0] = g;
    in[1] = rg_expand_as(rg_zeros_dims((rg_dims){ 0 }, (rg_dtype)g->dtype), there);
    return rgi_apply(s->op, a, set_item_bytes(a), s->n_in, in);
}

RG_OP(set_item, RG_NAMED(set_item_sample), .doc = "x[items] = value", .node = "CopyBackwards",
      .moves = true, .inplace = true, .shape = rgi_shape_same, .forward = set_item_forward,
      .grad = { RG_RULE(RG_INDEX_NEEDS << 1 & ~RG_IN(1), set_item_rule) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(set_item_sample, .n_steps = 0) },
                 { "(2,5) (2,1,2)",
                   RG_A(set_item_sample, .n_steps = 2,
                        .step = { { RG_PART_RANGE(1, 1, 2, 2) }, { RG_PART_NEW(1) } }) },
                 { "(2,3,4) (3,1) i4(1)",
                   RG_A(set_item_sample, .at = { .dim = { 1 } }, .n_steps = 1,
                        .step = { { RG_PART_INDEX(0, 0) } }) },
                 { "(3,0) (2,0) i3(2)", RG_A(set_item_sample, .at = { .dim = { 0 } }) }));

/* Returns the value, without leading dims of size 1, expanded to the shape of the elements that are
 * written. */
static rg_tensor *set_item_expanded(rg_tensor *value, rg_tensor *there, bool indexed) {
    int lead = 0;
    if (rgi_same_shape(value, there))
        return value;
    while (lead < value->ndim && value->size[lead] == 1)
        lead++;
    rg_dims rest = { .n = value->ndim - lead };
    for (int d = 0; d < rest.n; d++)
        rest.v[d] = value->size[lead + d];
    if (lead)
        value = rg_reshape_dims(value, rest);
    if (!value)
        return NULL;
    RG_FAIL_IF(indexed && !rgi_expandable(value, there), "set_item_",
               "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result "
               "of shape %s",
               RG_SHAPE_TEXT(value), RG_SHAPE_TEXT(there));
    return rg_expand_dims(value, rg_shape(there));
}

/* Returns the value as it will be written: expanded to the shape of x[items], and converted to x's
 * dtype. A value in x's storage is copied first. If there are index tensors, a value of another
 * dtype is refused, as in torch. But a number may have another dtype, and so may a value with one
 * element if the only index tensor is a mask. */
static rg_tensor *set_item_value(rg_tensor *x, rg_tensor *value, const subscript *s) {
    rg_tensor there = s->part;
    if (elementwise_is_number(value) && !rgi_element_fits("set_item_", value, x->dtype))
        return NULL;
    bool converts = value->dtype == x->dtype || value->flags & RG_WEAK || s->n_index == 0
                    || (s->masked && value->numel == 1);
    if (s->n_index) {
        rg_index_layout p;
        if (!rgi_index_layout("set_item_", &s->part, &s->way.at, s->n_index, s->index, &p))
            return NULL;
        rgi_set_size(&there, &p.shape);
    }
    if (value->storage == x->storage)
        value = rg_clone(value);
    if (value)
        value = set_item_expanded(value, &there, s->n_index > 0);
    if (!value)
        return NULL;
    RG_FAIL_IF(!converts, "set_item_",
               "Index put requires the source and destination dtypes match, got %s for the "
               "destination and %s for the source.",
               rgi_scalar_name(x->dtype), rgi_scalar_name(value->dtype));
    return rg_to(value, x->dtype);
}

/* Returns torch's name of the node, or NULL if the op's own name is right. */
static const char *set_item_node(const rg_tensor *x, const rg_tensor *value, const subscript *s) {
    if (s->way.n_steps)
        return "CopySlices";
    if (s->n_index)
        return "IndexPutBackward0";
    return value->ndim == 0 && x->ndim ? "FillBackward3" : NULL;
}

/* Does x[items] = value. If x is a view, and x or the value has a history, the steps are applied
 * first, and set_item is applied to the last step's view instead of x. The write is then recorded
 * as a write to x's base. */
rg_tensor *(rg_set_items_)(rg_tensor *x, rg_tensor *value, int n, const rg_item_index *items) {
    subscript s;
    RG_AS("set_item_");
    if (!rgi_check(x, "set_item_") || !rgi_check(value, "set_item_"))
        return NULL;
    RG_SCOPE();
    if (!subscript_read(x, n, items, true, &s))
        return NULL;
    if (s.nothing)
        return x;
    RG_FAIL_IF(s.way.n_steps && x->history && rg_is_leaf(x) && !rgi_grad_off, "set_item_",
               "a view of a leaf Variable that requires grad is being used in an in-place "
               "operation. To change it without recording, do so in a block with RG_NO_GRAD();");
    rg_tensor *in[2 + RG_MAX_DIMS] = { x, set_item_value(x, value, &s) };
    if (!in[1])
        return NULL;
    s.way.at.node = set_item_node(x, value, &s);
    if (x->flags & RG_VIEW && s.way.n_steps && (rgi_history_of(x) || rgi_is_in_graph(value))) {
        in[0] = subscript_take(x, &s.way, 0, NULL);
        s.way.n_steps = 0;
    }
    for (int i = 0; i < s.n_index; i++)
        in[2 + i] = s.index[i]->storage == x->storage ? rg_clone(s.index[i]) : s.index[i];
    rg_tensor *y = rgi_apply_inplace("set_item_", &rg_op_set_item, &s.way, set_item_bytes(&s.way),
                                     2 + s.n_index, in);
    return y ? x : NULL;
}
