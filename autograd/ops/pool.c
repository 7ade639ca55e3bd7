/*
 * pool.c: the greatest element and the mean of windows that slide over the last two dims, or of
 * windows that divide these evenly. Over one dim, they are windows of one row. (What torch says
 * where they don't fit is in pool_torch.c.)
 */
#include "pool.h"

/* ---- parts that they share ------------------------------------------------------ */

struct pool_attr {
    const char *node;
    k_pool p;
};

/* Gives t the shape of `like`, with other sizes of the last two dims. */
static void pool_set_shape(rg_tensor *t, const rg_tensor *like, const int64_t size[2]) {
    rgi_copy_shape(t, like);
    t->size[like->ndim - 2] = size[0];
    t->size[like->ndim - 1] = size[1];
}

/* Returns t with its planes as rows, (.., h * w). */
static rg_tensor *pool_flat(rg_tensor *t) { return t ? rg_flatten(t, t->ndim - 2, -1) : NULL; }

/* POOL makes a sample of windows of a row; POOL_OF one of two dims. */
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

/* ---- max_pool: the greatest of each window, and where it is in its plane; g goes to these places,
 *      by the op max_unpool, whose own derivative gathers there ------------------- */

static bool max_pool_shape(rg_call *c) {
    const struct pool_attr *a = RG_ATTR(c, pool);
    pool_set_shape(c->out[0], c->in[0], a->p.window.to);
    pool_set_shape(c->out[1], c->in[0], a->p.window.to);
    c->out[1]->dtype = RG_INT64;
    return true;
}

/* Where there is nothing to make, one dim may still be too long to be walked. */
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
    return RG_APPLY(max_unpool, &back, g, rgi_saved_output_at(s, 1));
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

/* ---- max_unpool: zeros with g added where the greatest were; gg is the gradient there ---- */

static bool max_unpool_shape(rg_call *c) {
    pool_set_shape(c->out[0], c->in[0], RG_ATTR(c, pool)->p.window.size);
    return true;
}

static bool max_unpool_forward(rg_call *c) {
    if (c->in[0]->numel == 0) {
        rgi_fill_zero(c->out[0]);
        return true;
    }
    rg_tensor *g = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    rg_tensor *indices = rgi_contiguous_copy(c->in[1], RG_INT64);
    const bool ok = g && indices
                    && k_max_pool_backward(&RG_ATTR(c, pool)->p, c->out[0], indices, g);
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

/* ---- mean_pool: the mean of each window; g is spread over the window, by the op mean_unpool,
 *      whose own derivative is mean_pool ------------------------------------------ */

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
    return RG_APPLY(mean_unpool, &back, g);
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

/* ---- mean_unpool: each value's share, spread over its window --------------------- */

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

/* ---- one dim as a row of two ----------------------------------------------------- */

/* Returns values and indices without dim -2, as the scope outside owns them. */
static rg_values_indices pool_of_row(rg_values_indices r) {
    rg_tensor *values = rg_squeeze_dim(r.values, -2);
    rg_tensor *indices = rg_squeeze_dim(r.indices, -2);
    if (!values || !indices)
        return (rg_values_indices){ NULL, NULL };
    return (rg_values_indices){ rg_escape(values), rg_escape(indices) };
}

/* Returns the values alone: POOL_VALUES(name, rg_max_pool2d_with_indices_with(x, ..)). */
#define POOL_VALUES(name, call) RG_COMPOSITE(name, (call).values)

/* ---- max_pool1d, max_pool2d ------------------------------------------------------ */

static rg_values_indices max_pool_of(rg_tensor *x, const struct pool_attr *a) {
    return rgi_apply_two(true, &rg_op_max_pool, a, sizeof *a, x);
}

rg_values_indices rg_max_pool2d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("max_pool2d_with_indices");
    if (!rgi_check(x, "max_pool2d") || !rgi_max_pool_sizes("max_pool2d", x, &kernel, &o, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_of(x, &a);
}

/* Returns the greatest and where they are in rows; x and the options are those of one dim. */
static rg_values_indices max_pool_rows(rg_tensor *x, rg_dims kernel, rg_max_pool_options o) {
    struct pool_attr a = { 0 };
    RG_AS("max_pool1d");
    RG_SCOPE();
    rg_tensor *rows = rg_unsqueeze(x, -2);
    if (!rows || !rgi_max_pool_sizes("max_pool1d", rows, &kernel, &o, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return pool_of_row(max_pool_of(rows, &a));
}

rg_values_indices rg_max_pool1d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o) {
    RG_AS("max_pool1d_with_indices");
    if (!rgi_check(x, "max_pool1d") || !rgi_pool_allows_row("max_pool1d", x))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_rows(x, kernel, o);
}

rg_tensor *rg_max_pool1d_with(rg_tensor *x, rg_dims kernel, rg_max_pool_options o) {
    if (!rgi_check(x, "max_pool1d") || !rgi_max_pool1d_allows(x, &kernel, &o))
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
    if (!rgi_check(x, "avg_pool2d") || !rgi_avg_pool_sizes("avg_pool2d", x, &kernel, &o, &a.p))
        return NULL;
    return RG_APPLY(mean_pool, &a, x);
}

rg_tensor *rg_avg_pool1d_with(rg_tensor *x, rg_dims kernel, rg_avg_pool_options o) {
    struct pool_attr a = { 0 };
    if (!rgi_check(x, "avg_pool1d") || !rgi_pool_allows_row("avg_pool1d", x))
        return NULL;
    RG_AS("avg_pool1d");
    RG_SCOPE();
    rg_tensor *rows = rg_unsqueeze(x, -2);
    if (!rows || !rgi_avg_pool_sizes("avg_pool1d", rows, &kernel, &o, &a.p))
        return NULL;
    return rg_escape(rg_squeeze_dim(RG_APPLY(mean_pool, &a, rows), -2));
}

/* ---- adaptive pooling -------------------------------------------------------------- */

rg_tensor *rg_adaptive_avg_pool2d_with(rg_tensor *x, rg_dims size) {
    struct pool_attr a = { "AdaptiveAvgPool2DBackward0", { 0 } };
    RG_AS("adaptive_avg_pool2d");
    if (!rgi_check(x, "adaptive_avg_pool2d")
        || !rgi_adaptive_avg_pool_sizes("adaptive_avg_pool2d", x, &size, &a.p))
        return NULL;
    if (size.v[0] == 1 && size.v[1] == 1)
        return rg_mean_dims(x, RG_DIMS(-1, -2), true);
    return RG_APPLY(mean_pool, &a, x);
}

rg_tensor *(rg_adaptive_avg_pool1d)(rg_tensor *x, int64_t size) {
    if (!rgi_check(x, "adaptive_avg_pool1d") || !rgi_pool_allows_row("adaptive_avg_pool1d", x))
        return NULL;
    return RG_COMPOSITE(
        "adaptive_avg_pool1d",
        rg_squeeze_dim(rg_adaptive_avg_pool2d_with(rg_unsqueeze(x, -2), RG_DIMS(1, size)), -2));
}

rg_values_indices rg_adaptive_max_pool2d_with_indices_with(rg_tensor *x, rg_dims size) {
    struct pool_attr a = { "AdaptiveMaxPool2DBackward0", { 0 } };
    RG_AS("adaptive_max_pool2d_with_indices");
    if (!rgi_check(x, "adaptive_max_pool2d")
        || !rgi_adaptive_max_pool_sizes("adaptive_max_pool2d", x, &size, &a.p))
        return (rg_values_indices){ NULL, NULL };
    return max_pool_of(x, &a);
}

rg_tensor *rg_adaptive_max_pool2d_with(rg_tensor *x, rg_dims size) {
    return POOL_VALUES("adaptive_max_pool2d", rg_adaptive_max_pool2d_with_indices_with(x, size));
}

rg_values_indices(rg_adaptive_max_pool1d_with_indices)(rg_tensor *x, int64_t size) {
    RG_AS("adaptive_max_pool1d_with_indices");
    if (!rgi_check(x, "adaptive_max_pool1d") || !rgi_pool_allows_row("adaptive_max_pool1d", x)
        || !rgi_adaptive_pool_sees("adaptive_max_pool1d", x, 2))
        return (rg_values_indices){ NULL, NULL };
    RG_SCOPE();
    return pool_of_row(
        rg_adaptive_max_pool2d_with_indices_with(rg_unsqueeze(x, -2), RG_DIMS(1, size)));
}

rg_tensor *(rg_adaptive_max_pool1d)(rg_tensor *x, int64_t size) {
    return POOL_VALUES("adaptive_max_pool1d", rg_adaptive_max_pool1d_with_indices(x, size));
}
