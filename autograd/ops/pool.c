/*
 * pool.c: the maximum and the mean of windows over the last two dims. The windows slide (max_pool,
 * avg_pool), or a given number of windows of about equal size covers the dims (adaptive pooling).
 * Pooling over one dim uses windows with one row. In the headings, g is the gradient of the result,
 * and gx the gradient of x.
 */
#include "elementwise.h"
#include "pool.h"

#include "autograd/checks.h"

/* ---- functions for all pooling ops ---------------------------------------------- */

bool rgi_pool_padding_fits(const char *op, int64_t padding, int64_t kernel) {
    RG_FAIL_IF(padding > kernel / 2, op,
               "pad should be at most half of kernel size, but got pad=%lld and kernel_size=%lld",
               (long long)padding, (long long)kernel);
    return true;
}

struct pool_attr {
    const char *node;
    k_pool p;
};

/* Gives t the shape of `like`, with `size` in place of the sizes of the last two dims. */
static void pool_set_shape(rg_tensor *t, const rg_tensor *like, const int64_t size[2]) {
    rgi_copy_shape(t, like);
    t->size[like->ndim - 2] = size[0];
    t->size[like->ndim - 1] = size[1];
}

/* Returns t with its last two dims joined: (.., h * w). */
static rg_tensor *pool_flat(rg_tensor *t) { return t ? rg_flatten(t, t->ndim - 2, -1) : NULL; }

/* POOL and POOL_OF expand to the initializer of a test sample (rg_sample): POOL with windows over
 * one dim, and POOL_OF with windows over two dims. */
#define POOL_PAIR(a, b) \
    { a, b }
#define POOL_OF(inputs, node_, planes_, size_, to_, kernel_, stride_, padding_, dilation_, ...) \
    {                                                                                           \
        inputs, RG_A(pool, node_,                                                               \
                     { .planes = planes_,                                                       \
                       .window = { size_, to_, kernel_, stride_, padding_, dilation_ },         \
                       __VA_ARGS__ })                                                           \
    }
#define POOL(inputs, planes_, size_, to_, kernel_, stride_, padding_, dilation_, ...)             \
    POOL_OF(inputs, NULL, planes_, POOL_PAIR(1, size_), POOL_PAIR(1, to_), POOL_PAIR(1, kernel_), \
            POOL_PAIR(1, stride_), POOL_PAIR(0, padding_), POOL_PAIR(1, dilation_), __VA_ARGS__)

/* ---- max_pool: the maximum of each window, and the index of the maximum in its plane. gx is
 *      max_unpool of g, which adds g to zeros at these indices. The derivative of max_unpool reads
 *      elements at the same indices --------------------------------------------- */

static bool max_pool_shape(rg_call *c) {
    const struct pool_attr *a = RG_ATTR(c, pool);
    pool_set_shape(c->out[0], c->in[0], a->p.window.to);
    pool_set_shape(c->out[1], c->in[0], a->p.window.to);
    c->out[1]->dtype = RG_INT64;
    return true;
}

/* Computes the outputs. The kernel isn't called for empty outputs. If there are no planes, the
 * sizes of a plane can be so large that the kernel would fail, or that their product would
 * overflow. */
static bool max_pool_forward(rg_call *c) {
    if (c->out[0]->numel == 0)
        return true;
    rg_tensor *x = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    const bool ok = x && k_max_pool(&RG_ATTR(c, pool)->p, c->out[0], c->out[1], x);
    rgi_release(x);
    return ok;
}

static rg_tensor *max_pool_rule(const rg_step *s, rg_tensor *g) {
    const struct pool_attr *a = s->attr;
    const bool adaptive = a->p.adaptive;
    const struct pool_attr back = { adaptive ? "AdaptiveMaxPool2DBackwardBackward0" : NULL, a->p };
    return rgi_flat_in_input(s, RG_APPLY(max_unpool, &back, g, rgi_saved_output_at(s, 1)));
}

RG_OP(max_pool, RG_NAMED(pool), .doc = "the greatest of windows, and where it is", .n_in = 1,
      .node = "MaxPool2DWithIndicesBackward0", .n_out = 2, RG_MADE(max_pool),
      .grad = { RG_RULE(RG_OUT(1), max_pool_rule) },
      RG_SAMPLES(POOL("d(2,1,6)", 2, 6, 3, 2, 2, 0, 1, ), POOL("d(2,3,1,7)", 6, 7, 5, 3, 1, 1, 2, ),
                 POOL("(0,1,4)", 0, 4, 2, 2, 2, 0, 1, ),
                 POOL_OF("d(2,5,4)", NULL, 2, POOL_PAIR(5, 4), POOL_PAIR(3, 3), POOL_PAIR(3, 2),
                         POOL_PAIR(2, 1), POOL_PAIR(1, 0), POOL_PAIR(1, 1), ),
                 POOL_OF("d(1,2,5,4)", NULL, 2, POOL_PAIR(5, 4), POOL_PAIR(3, 2), POOL_PAIR(0, 0),
                         POOL_PAIR(0, 0), POOL_PAIR(0, 0), POOL_PAIR(0, 0), .adaptive = true)));

/* ---- max_unpool: zeros with g added at the indices of the maxima. The gradient of g is the
 *      incoming gradient at the same indices ------------------------------------ */

static bool max_unpool_shape(rg_call *c) {
    pool_set_shape(c->out[0], c->in[0], RG_ATTR(c, pool)->p.window.size);
    return true;
}

/* Returns true if nothing has written to t since it was made. Returns false if something may have:
 * an op, or the program, which has a pointer to the elements. */
static bool is_as_made(const rg_tensor *t) {
    return t->storage->version == 0
           && !atomic_load_explicit(&t->storage->exposed, memory_order_relaxed);
}

/* Fails if an index is outside its plane. The check is left out for indices that are as max_pool
 * wrote them, since it costs 7% of a backward run. */
static bool max_unpool_within(const k_pool *p, const rg_tensor *indices) {
    const int64_t *size = p->window.size;
    int64_t bad;
    RG_FAIL_IF(!is_as_made(indices) && !k_index_within(indices, 0, size[0] * size[1], &bad), NULL,
               "index %lld is out of bounds for a plane of size %lldx%lld", (long long)bad,
               (long long)size[0], (long long)size[1]);
    return true;
}

static bool max_unpool_forward(rg_call *c) {
    const k_pool *p = &RG_ATTR(c, pool)->p;
    if (c->in[0]->numel == 0) {
        rgi_fill_zero(c->out[0]);
        return true;
    }
    if (!max_unpool_within(p, c->in[1]))
        return false;
    rg_tensor *g = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    rg_tensor *indices = rgi_contiguous_copy(c->in[1], RG_INT64);
    const bool ok = g && indices && k_max_pool_backward(p, c->out[0], indices, g);
    rgi_release(g);
    rgi_release(indices);
    return ok;
}

static rg_tensor *max_unpool_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *indices = rgi_saved(s, 1);
    rg_tensor *there = rg_gather(pool_flat(g), -1, pool_flat(indices));
    return rg_reshape_dims(there, rg_shape(indices));
}

RG_OP(max_unpool, RG_NAMED(pool), .doc = "zeros with values added where windows had theirs",
      .node = "MaxPool2DWithIndicesBackwardBackward0", .n_in = 2, RG_MADE(max_unpool),
      .grad = { RG_RULE(RG_IN(1), max_unpool_rule), RG_NO_RULE },
      RG_SAMPLES(POOL("(2,1,3) i6(2,1,3)", 2, 6, 3, 2, 2, 0, 1, ),
                 POOL("(0,1,2) i4(0,1,2)", 0, 4, 2, 2, 2, 0, 1, )));

/* ---- mean_pool: the mean of each window; gx is mean_unpool of g, which spreads g over the
 *      windows. The derivative of mean_unpool is mean_pool ---------------------- */

static bool mean_pool_shape(rg_call *c) {
    pool_set_shape(c->out[0], c->in[0], RG_ATTR(c, pool)->p.window.to);
    return true;
}

static bool mean_pool_forward(rg_call *c) {
    if (c->out[0]->numel == 0)
        return true;
    rg_tensor *x = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    const bool ok = x && k_mean_pool(&RG_ATTR(c, pool)->p, c->out[0], x);
    rgi_release(x);
    return ok;
}

static rg_tensor *mean_pool_rule(const rg_step *s, rg_tensor *g) {
    const struct pool_attr *a = s->attr;
    const bool adaptive = a->p.adaptive;
    const struct pool_attr back = { adaptive ? "AdaptiveAvgPool2DBackwardBackward0" : NULL, a->p };
    return rgi_flat_in_input(s, RG_APPLY(mean_unpool, &back, g));
}

RG_OP(mean_pool, RG_NAMED(pool), .doc = "the mean of windows", .node = "AvgPool2DBackward0",
      .n_in = 1, RG_MADE(mean_pool), .grad = { RG_RULE(0, mean_pool_rule) },
      RG_SAMPLES(POOL("(2,1,6)", 2, 6, 3, 2, 2, 0, 1, ),
                 POOL("(2,3,1,6)", 6, 6, 7, 2, 1, 1, 1, .count_padding = true),
                 POOL("(2,3,1,6)", 6, 6, 7, 2, 1, 1, 1, .divisor = -3),
                 POOL("(0,1,4)", 0, 4, 2, 2, 2, 0, 1, ),
                 POOL_OF("(2,5,4)", NULL, 2, POOL_PAIR(5, 4), POOL_PAIR(3, 3), POOL_PAIR(3, 2),
                         POOL_PAIR(2, 1), POOL_PAIR(1, 0), POOL_PAIR(1, 1), ),
                 POOL_OF("(1,2,5,4)", NULL, 2, POOL_PAIR(5, 4), POOL_PAIR(3, 2), POOL_PAIR(0, 0),
                         POOL_PAIR(0, 0), POOL_PAIR(0, 0), POOL_PAIR(0, 0), .adaptive = true)));

/* ---- mean_unpool: each value is divided by its window's divisor, and added to all elements
 *      of the window ------------------------------------------------------------ */

static bool mean_unpool_shape(rg_call *c) {
    pool_set_shape(c->out[0], c->in[0], RG_ATTR(c, pool)->p.window.size);
    return true;
}

static bool mean_unpool_forward(rg_call *c) {
    if (c->in[0]->numel == 0) {
        rgi_fill_zero(c->out[0]);
        return true;
    }
    rg_tensor *g = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    const bool ok = g && k_mean_pool_backward(&RG_ATTR(c, pool)->p, c->out[0], g);
    rgi_release(g);
    return ok;
}

static rg_tensor *mean_unpool_rule(const rg_step *s, rg_tensor *g) {
    const struct pool_attr *a = s->attr;
    const struct pool_attr back = { a->p.adaptive ? "AdaptiveAvgPool2DBackward0" : NULL, a->p };
    return RG_APPLY(mean_pool, &back, g);
}

RG_OP(mean_unpool, RG_NAMED(pool), .doc = "values spread over windows",
      .node = "AvgPool2DBackwardBackward0", .n_in = 1, RG_MADE(mean_unpool),
      .grad = { RG_RULE(0, mean_unpool_rule) },
      RG_SAMPLES(POOL("(2,1,3)", 2, 6, 3, 2, 2, 0, 1, ),
                 POOL("(2,3,1,7)", 6, 6, 7, 2, 1, 1, 1, .count_padding = true),
                 POOL("(0,1,2)", 0, 4, 2, 2, 2, 0, 1, ),
                 POOL_OF("(1,2,3,2)", NULL, 2, POOL_PAIR(5, 4), POOL_PAIR(3, 2), POOL_PAIR(0, 0),
                         POOL_PAIR(0, 0), POOL_PAIR(0, 0), POOL_PAIR(0, 0), .adaptive = true)));

/* ---- checks of the options for sliding windows ----------------------------------- */

/* An option as the caller gave it: a number, or a list with a number for each dim. If the list
 * isn't empty, the list is used, and the number must have its default value, `absent`. */
typedef struct pool_option {
    int64_t number, absent;
    const rg_dims *list;
} pool_option;

typedef struct pool_options {
    pool_option kernel, stride, padding, dilation;
    bool ceil_mode;
} pool_options;

/* pool_take stores one option of a window, such as the stride: to[0] is for the rows, and to[1] for
 * the columns. It fails unless `range` allows the numbers that the caller gave. In pooling over one
 * dim, the caller gives only to[1], and to[0] is `row`. */
typedef bool pool_range(const char *op, const char *what, int n, const int64_t *v);
static bool pool_take(const char *what, int dims, pool_option given, pool_range *range, int64_t row,
                      int64_t to[2]) {
    int64_t *first = to + 2 - dims;
    to[0] = row;
    if (!rgi_want_option(NULL, what, dims, given.number, given.absent, given.list, first)
        || !range(NULL, what, dims, first))
        return false;
    /* Each option must fit into an int, so that a product of two options fits into an int64. */
    RG_FAIL_IF(to[0] != (int)to[0] || to[1] != (int)to[1], NULL, "%s is too large", what);
    return true;
}

static bool pool_take_options(int dims, const pool_options *o, k_window *w) {
    const bool as_kernel = o->stride.number == RG_KERNEL && !o->stride.list->n;
    const pool_option stride = as_kernel ? o->kernel : o->stride;
    return pool_take("kernel_size", dims, o->kernel, rgi_want_positive, 1, w->kernel)
           && pool_take("stride", dims, stride, rgi_want_positive, 1, w->stride)
           && pool_take("padding", dims, o->padding, rgi_want_non_negative, 0, w->padding)
           && pool_take("dilation", dims, o->dilation, rgi_want_positive, 1, w->dilation);
}

/* Sets the size and the number of the planes. A plane has the last two dims of x. */
static void pool_planes(const rg_tensor *x, k_pool *p) {
    p->window.size[0] = x->size[x->ndim - 2];
    p->window.size[1] = x->size[x->ndim - 1];
    p->planes = 1;
    for (int d = 0; d < x->ndim - 2; d++)
        p->planes *= x->size[d];
}

/* Returns the number of windows along dim d. With ceil_mode, the last window may reach beyond the
 * padding at the end, but must begin before that padding. */
static int64_t pool_count(const k_window *w, int d, bool ceil_mode) {
    const int64_t stride = w->stride[d];
    const int64_t span = w->dilation[d] * (w->kernel[d] - 1) + 1;
    const int64_t room = w->size[d] + 2 * w->padding[d] - span + (ceil_mode ? stride - 1 : 0);
    const int64_t n = room / stride - (room < 0 && room % stride) + 1;
    return n - (ceil_mode && (n - 1) * stride >= w->size[d] + w->padding[d]);
}

/* Fills in *p for windows that slide over planes. Fails if an option, or the shape or dtype of x,
 * isn't allowed. */
static bool pool_wants(int dims, const rg_tensor *x, const pool_options *o, k_pool *p) {
    k_window *w = &p->window;
    if (!rgi_want_dims(NULL, "input", x, 3, 4) || !rgi_want_no_bool(NULL, x)
        || !pool_take_options(dims, o, w))
        return false;
    pool_planes(x, p);
    for (int d = 0; d < 2; d++) {
        if (!rgi_pool_padding_fits(NULL, w->padding[d], w->kernel[d]))
            return false;
        w->to[d] = pool_count(w, d, o->ceil_mode);
    }
    if (!rgi_want_elements(NULL, "input", x, x->ndim - 3))
        return false;
    const int first = 2 - dims;
    RG_FAIL_IF(w->to[0] < 1 || w->to[1] < 1, NULL,
               "Given planes of size %s, calculated output size %s. Output size is too small",
               rgi_shape_text(dims, w->size + first, (char[192]){ 0 }),
               rgi_shape_text(dims, w->to + first, (char[192]){ 0 }));
    return true;
}

/* Fails if a window has no element of x, since such a window has no maximum. This happens if the
 * dilation is so large that a step leads from the padding before x to the padding behind x. */
static bool pool_wants_elements(const k_window *w) {
    for (int d = 0; d < 2; d++)
        for (int64_t from = -w->padding[d]; from < 0; from += w->stride[d]) {
            const int64_t skipped = (w->dilation[d] - 1 - from) / w->dilation[d];
            RG_FAIL_IF(from + skipped * w->dilation[d] >= w->size[d], NULL,
                       "a window lies wholly in the padding: size %lld, padding %lld, "
                       "dilation %lld",
                       (long long)w->size[d], (long long)w->padding[d], (long long)w->dilation[d]);
        }
    return true;
}

static bool max_pool_wants(int dims, const rg_tensor *x, const rg_dims *kernel,
                           const rg_max_pool_options *o, k_pool *p) {
    const pool_options options = { { 0, 0, kernel },
                                   { o->stride, RG_KERNEL, &o->strides },
                                   { o->padding, 0, &o->paddings },
                                   { o->dilation, 1, &o->dilations },
                                   o->ceil_mode };
    return pool_wants(dims, x, &options, p) && pool_wants_elements(&p->window);
}

static bool avg_pool_wants(int dims, const rg_tensor *x, const rg_dims *kernel,
                           const rg_avg_pool_options *o, k_pool *p) {
    const pool_options options = { { 0, 0, kernel },
                                   { o->stride, RG_KERNEL, &o->strides },
                                   { o->padding, 0, &o->paddings },
                                   { 1, 1, &(rg_dims){ 0 } },
                                   o->ceil_mode };
    p->count_padding = o->count_include_pad;
    p->divisor = o->divisor_override == RG_WINDOW ? 0 : o->divisor_override;
    RG_FAIL_IF(o->divisor_override == 0, NULL, "divisor must be not zero");
    int channels;
    return rgi_wrap_dim(NULL, -3, x->ndim, &channels) && pool_wants(dims, x, &options, p);
}

/* Fails unless x has 2 or 3 dims, as pooling over one dim requires. */
static bool pool_wants_row(const rg_tensor *x) { return rgi_want_dims(NULL, "input", x, 2, 3); }

/* ---- pooling over one dim, as pooling over planes with one row --------------------- */

/* Returns the values and indices without dim -2, whose size is 1. Hands both results to the scope
 * around the caller's scope. If this function fails, both are NULL. */
static rg_values_indices pool_of_row(rg_values_indices r) {
    rg_tensor *values = rg_squeeze_dim(r.values, -2);
    rg_tensor *indices = rg_squeeze_dim(r.indices, -2);
    if (!values || !indices)
        return (rg_values_indices){ NULL, NULL };
    return (rg_values_indices){ rg_escape(values), rg_escape(indices) };
}

/* POOL_VALUES(name, rg_max_pool2d_with_indices_with(x, ..)) calls a function that returns values
 * and indices, and returns the values alone, as the result of the function `name`. */
#define POOL_VALUES(name, call) RG_COMPOSITE(name, (call).values)

/* ---- max_pool1d, max_pool2d ------------------------------------------------------ */

static rg_values_indices max_pool_of(rg_tensor *x, const struct pool_attr *a) {
    return rgi_apply_two(true, &rg_op_max_pool, a, sizeof *a, x);
}

rg_values_indices rg_max_pool2d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("max_pool2d_with_indices");
    if (!rgi_check(x, NULL) || !max_pool_wants(2, x, &kernel, &o, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_of(x, &a);
}

/* Returns the maxima over one dim and their indices. The kernel and the options are for one dim. */
static rg_values_indices max_pool_rows(rg_tensor *x, rg_dims kernel, rg_max_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("max_pool1d");
    RG_SCOPE();
    rg_tensor *rows = rg_unsqueeze(x, -2);
    if (!rows || !max_pool_wants(1, rows, &kernel, &o, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return pool_of_row(max_pool_of(rows, &a));
}

rg_values_indices rg_max_pool1d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o) {
    RG_AS("max_pool1d_with_indices");
    if (!rgi_check(x, NULL) || !pool_wants_row(x))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_rows(x, kernel, o);
}

rg_tensor *rg_max_pool1d_with(rg_tensor *x, rg_dims kernel, rg_max_pool_options o) {
    RG_AS("max_pool1d");
    if (!rgi_check(x, NULL) || !pool_wants_row(x) || !rgi_want_float(NULL, x))
        return NULL;
    return POOL_VALUES("max_pool1d", max_pool_rows(x, kernel, o));
}

rg_tensor *rg_max_pool2d_with(rg_tensor *x, rg_dims kernel, rg_max_pool_options o) {
    return POOL_VALUES("max_pool2d", rg_max_pool2d_with_indices_with(x, kernel, o));
}

/* ---- avg_pool1d, avg_pool2d ------------------------------------------------------ */

rg_tensor *rg_avg_pool2d_with(rg_tensor *x, rg_dims kernel, rg_avg_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("avg_pool2d");
    if (!rgi_check(x, NULL) || !avg_pool_wants(2, x, &kernel, &o, &a.p)
        || !rgi_want_dtype(NULL, !rgi_is_byte(x->dtype), x->dtype))
        return NULL;
    return RG_APPLY(mean_pool, &a, x);
}

rg_tensor *rg_avg_pool1d_with(rg_tensor *x, rg_dims kernel, rg_avg_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("avg_pool1d");
    if (!rgi_check(x, NULL) || !pool_wants_row(x))
        return NULL;
    RG_SCOPE();
    rg_tensor *rows = rg_unsqueeze(x, -2);
    if (!rows || !avg_pool_wants(1, rows, &kernel, &o, &a.p)
        || !rgi_want_dtype(NULL, !rgi_is_byte(x->dtype), x->dtype))
        return NULL;
    return rg_escape(rg_squeeze_dim(RG_APPLY(mean_pool, &a, rows), -2));
}

/* ---- adaptive pooling -------------------------------------------------------------- */

/* Extends `size` to two numbers, and replaces RG_AS_IT_IS by x's size. Fails if `size` or the
 * number of x's dims isn't allowed. */
static bool adaptive_pool_wants(const rg_tensor *x, rg_dims *size) {
    RG_FAIL_IF(size->n != 1 && size->n != 2, NULL, "output_size must be 2");
    RG_FAIL_VALUE_IF(size->n == 2 && x->ndim <= 2, NULL, "Input dimension should be at least 3");
    if (!rgi_want_dims(NULL, "input", x, 3, 4))
        return false;
    if (size->n == 1)
        size->v[1] = size->v[0];
    size->n = 2;
    for (int d = 0; d < 2; d++)
        if (size->v[d] == RG_AS_IT_IS)
            size->v[d] = x->size[x->ndim - 2 + d];
    return rgi_want_non_negative(NULL, "output_size", 2, size->v);
}

/* Fills in *p for adaptive pooling: size->v[0] * size->v[1] windows cover each plane. Fails if a
 * dim of x from `first` on is empty, or x isn't floating point. */
static bool adaptive_pool_sizes(const rg_tensor *x, int first, const rg_dims *size, k_pool *p) {
    if (!rgi_want_elements(NULL, "input", x, first) || !rgi_want_float(NULL, x))
        return false;
    p->adaptive = true;
    pool_planes(x, p);
    p->window.to[0] = size->v[0];
    p->window.to[1] = size->v[1];
    return true;
}

rg_tensor *rg_adaptive_avg_pool2d_with(rg_tensor *x, rg_dims size) {
    struct pool_attr a = { "AdaptiveAvgPool2DBackward0", { 0 } };
    RG_AS("adaptive_avg_pool2d");
    if (!rgi_check(x, NULL) || !adaptive_pool_wants(x, &size))
        return NULL;
    if (size.v[0] == 1 && size.v[1] == 1)
        return rg_mean_dims(x, RG_DIMS(-1, -2), true);
    if (!adaptive_pool_sizes(x, x->ndim - 2, &size, &a.p))
        return NULL;
    return RG_APPLY(mean_pool, &a, x);
}

rg_tensor *(rg_adaptive_avg_pool1d)(rg_tensor *x, int64_t size) {
    RG_AS("adaptive_avg_pool1d");
    if (!rgi_check(x, NULL) || !pool_wants_row(x))
        return NULL;
    return RG_COMPOSITE(
        "adaptive_avg_pool1d",
        rg_squeeze_dim(rg_adaptive_avg_pool2d_with(rg_unsqueeze(x, -2), RG_DIMS(1, size)), -2));
}

rg_values_indices rg_adaptive_max_pool2d_with_indices_with(rg_tensor *x, rg_dims size) {
    struct pool_attr a = { "AdaptiveMaxPool2DBackward0", { 0 } };
    RG_AS("adaptive_max_pool2d_with_indices");
    if (!rgi_check(x, NULL) || !adaptive_pool_wants(x, &size)
        || !adaptive_pool_sizes(x, x->ndim == 4 ? 1 : x->ndim - 2, &size, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_of(x, &a);
}

rg_tensor *rg_adaptive_max_pool2d_with(rg_tensor *x, rg_dims size) {
    return POOL_VALUES("adaptive_max_pool2d", rg_adaptive_max_pool2d_with_indices_with(x, size));
}

rg_values_indices(rg_adaptive_max_pool1d_with_indices)(rg_tensor *x, int64_t size) {
    RG_AS("adaptive_max_pool1d_with_indices");
    if (!rgi_check(x, NULL) || !pool_wants_row(x)
        || !rgi_want_elements(NULL, "input", x, x->ndim - 2))
        return (rg_values_indices){ NULL, NULL };
    RG_SCOPE();
    return pool_of_row(
        rg_adaptive_max_pool2d_with_indices_with(rg_unsqueeze(x, -2), RG_DIMS(1, size)));
}

rg_tensor *(rg_adaptive_max_pool1d)(rg_tensor *x, int64_t size) {
    return POOL_VALUES("adaptive_max_pool1d", rg_adaptive_max_pool1d_with_indices(x, size));
}
