/*
 * conv.c: convolutions over one or two dims, and their gradients, which are ops of their own: each
 * is linear in both of its inputs, and the derivatives of the three are among the three. (What
 * torch says where they don't fit is in conv_torch.c.)
 */
#include "conv.h"
#include "tensor/warning.h"

/* ---- parts that the three share ------------------------------------------------ */

/* The window may have one or two dims. An element of the result takes `steps` steps. Where x has no
 * channels, y has none either, as in torch. */
struct conv_attr {
    const char *node;
    k_conv z;
    int dims;
    double steps;
};

/* Gives t the shape (rows, cols, the window's sizes). */
static bool conv_set_shape(rg_tensor *t, const struct conv_attr *a, int64_t rows, int64_t cols,
                           const int64_t size[2]) {
    t->ndim = (uint8_t)(a->dims + 2);
    t->size[0] = rows;
    t->size[1] = cols;
    t->size[2] = size[0];
    t->size[a->dims + 1] = size[1];
    return true;
}

/* Returns the attributes for a result of `elements` elements. */
static struct conv_attr conv_attr_for(const struct conv_attr *a, const char *node,
                                      double elements) {
    const k_conv *z = &a->z;
    const k_window *w = &z->window;
    const double outputs = (double)z->batch * (double)(z->groups * z->out) * (double)w->to[0]
                           * (double)w->to[1];
    const double terms = (double)z->in * (double)w->kernel[0] * (double)w->kernel[1];
    struct conv_attr result = *a;
    result.node = node;
    result.steps = outputs * terms / RG_MAX(1, elements);
    return result;
}

/* The profiler multiplies by `terms`, which are x's last dim. */
static double conv_share(const void *attr, int64_t rows, int64_t terms) {
    (void)rows;
    return ((const struct conv_attr *)attr)->steps / (double)RG_MAX(1, terms);
}

#define CONV_TERMS                                                                \
    {                                                                             \
        .times = 1, .input = 0, .from_last = 1, .gradients = RG_IN(0) | RG_IN(1), \
        .share = conv_share                                                       \
    }

/* Makes y of contiguous copies of a and b. */
typedef bool conv_kernel(const k_conv *z, rg_tensor *y, const rg_tensor *a, const rg_tensor *b);
static bool conv_with(conv_kernel *kernel, const k_conv *z, rg_tensor *y, rg_tensor *a,
                      rg_tensor *b) {
    rg_tensor *left = rgi_contiguous_copy(a, (rg_dtype)a->dtype);
    rg_tensor *right = rgi_contiguous_copy(b, (rg_dtype)b->dtype);
    const bool ok = left && right && kernel(z, y, left, right);
    rgi_release(left);
    rgi_release(right);
    return ok;
}

/* Returns the gradient of x, of w, or y's, of which two are given. */
static rg_tensor *conv_input_of(const struct conv_attr *a, rg_tensor *g, rg_tensor *w) {
    const k_conv *z = &a->z;
    const double elements = (double)z->batch * (double)(z->groups * z->in)
                            * (double)z->window.size[0] * (double)z->window.size[1];
    struct conv_attr b = conv_attr_for(a, NULL, elements);
    return RG_APPLY(conv_input, &b, g, w);
}

static rg_tensor *conv_weight_of(const struct conv_attr *a, rg_tensor *x, rg_tensor *g) {
    const k_conv *z = &a->z;
    const double elements = (double)(z->groups * z->out * z->in) * (double)z->window.kernel[0]
                            * (double)z->window.kernel[1];
    struct conv_attr b = conv_attr_for(a, NULL, elements);
    return RG_APPLY(conv_weight, &b, x, g);
}

static rg_tensor *conv_of(const struct conv_attr *a, rg_tensor *x, rg_tensor *w, rg_tensor *bias) {
    const k_conv *z = &a->z;
    const double elements = (double)z->batch * (double)(z->groups * z->out)
                            * (double)z->window.to[0] * (double)z->window.to[1];
    struct conv_attr b = conv_attr_for(a, a->node, elements);
    return RG_APPLY(conv, &b, x, w, bias);
}

/* CONV makes a sample of one dim: x is (batch, groups * in, size), and w (groups * out, in,
 * kernel). CONV_2 makes one of two dims. */
#define CONV(inputs, batch_, groups_, in_, out_, size_, kernel_, stride_, padding_, dilation_, \
             to_)                                                                              \
    CONV_OF(inputs, 1, batch_, groups_, in_, out_, CONV_PAIR(1, size_), CONV_PAIR(1, kernel_), \
            CONV_PAIR(1, stride_), CONV_PAIR(0, padding_), CONV_PAIR(1, dilation_),            \
            CONV_PAIR(1, to_))
#define CONV_PAIR(a, b) \
    { a, b }
#define CONV_OF(inputs, dims_, batch_, groups_, in_, out_, size_, kernel_, stride_, padding_, \
                dilation_, to_)                                                               \
    {                                                                                         \
        inputs, RG_A(conv, .dims = dims_, .steps = 1,                                         \
                     .z = { batch_,                                                           \
                            groups_,                                                          \
                            in_,                                                              \
                            out_,                                                             \
                            { size_, to_, kernel_, stride_, padding_, dilation_ } })          \
    }

/* ---- conv: y[n, o, p] = sum over c and taps t of w[o, c, t] x[n, c, p stride + t dilation -
 *      padding] + bias[o]; gx is conv_input of g and w, gw conv_weight of x and g, and gbias the
 * sum of g ------------------------------------------------------------------------- */

static bool conv_shape(rg_call *c) {
    const struct conv_attr *a = RG_ATTR(c, conv);
    const k_conv *z = &a->z;
    return conv_set_shape(c->out[0], a, z->batch, z->in ? z->groups * z->out : 0, z->window.to);
}

static bool conv_forward(rg_call *c) {
    rg_tensor *x = rgi_contiguous_copy(c->in[0], (rg_dtype)c->in[0]->dtype);
    rg_tensor *w = rgi_contiguous_copy(c->in[1], (rg_dtype)c->in[1]->dtype);
    rg_tensor *bias = NULL;
    bool ok = x && w;
    if (ok && !rgi_is_none(c->in[2])) {
        bias = rgi_contiguous_copy(c->in[2], (rg_dtype)c->in[2]->dtype);
        ok = bias;
    }
    ok = ok && k_convolve(&RG_ATTR(c, conv)->z, c->out[0], x, w, bias);
    rgi_release(x);
    rgi_release(w);
    rgi_release(bias);
    return ok;
}

static rg_tensor *conv_rule_x(const rg_step *s, rg_tensor *g) {
    return conv_input_of(s->attr, g, rgi_saved(s, 1));
}

static rg_tensor *conv_rule_w(const rg_step *s, rg_tensor *g) {
    return conv_weight_of(s->attr, rgi_saved(s, 0), g);
}

static rg_tensor *conv_rule_bias(const rg_step *s, rg_tensor *g) {
    const struct conv_attr *a = s->attr;
    if (!a->z.in)
        return rgi_input_zeros(s);
    return rg_sum_dims(g, a->dims == 1 ? RG_DIMS(0, 2) : RG_DIMS(0, 2, 3), false);
}

/* The bias is left to its rule. */
static bool conv_fused(const rg_step *s, rg_tensor *gin[]) {
    const k_conv *z = &RG_ATTR(s, conv)->z;
    rg_tensor *g = s->g[0];
    for (int i = 0; i < 2; i++) {
        if (!rgi_wants(s, i))
            continue;
        rg_dims shape = rgi_input_dims(s, i);
        rg_tensor *other = rgi_saved(s, !i);
        gin[i] = other ? rgi_new((rg_dtype)g->dtype, shape.n, shape.v) : NULL;
        if (!gin[i])
            return false;
        if (!(i == 0 ? conv_with(k_convolve_input, z, gin[i], g, other)
                     : conv_with(k_convolve_weight, z, gin[i], other, g)))
            return false;
    }
    return true;
}

RG_OP(conv, RG_NAMED(conv), .doc = "sums over channels and taps of w x, + bias",
      .node = "ConvolutionBackward0", .n_in = 3, .optional = RG_IN(2), .terms = CONV_TERMS,
      RG_MADE(conv),
      .grad = { RG_RULE(RG_IN(1), conv_rule_x), RG_RULE(RG_IN(0), conv_rule_w),
                RG_RULE(0, conv_rule_bias) },
      .fused = conv_fused,
      RG_SAMPLES(CONV("(2,3,5) (2,3,3) (2)", 2, 1, 3, 2, 5, 3, 1, 0, 1, 3),
                 CONV("(1,2,5) (2,2,2) -", 1, 1, 2, 2, 5, 2, 2, 1, 2, 3),
                 CONV("(2,4,4) (2,2,3) (2)", 2, 2, 2, 1, 4, 3, 1, 1, 1, 4),
                 CONV("(0,2,4) (3,2,2) (3)", 0, 1, 2, 3, 4, 2, 1, 0, 1, 3),
                 CONV("(2,0,4) (3,0,2) (3)", 2, 1, 0, 3, 4, 2, 1, 0, 1, 3),
                 CONV_OF("(2,2,4,5) (4,1,2,3) (4)", 2, 2, 2, 1, 2, CONV_PAIR(4, 5), CONV_PAIR(2, 3),
                         CONV_PAIR(2, 1), CONV_PAIR(1, 2), CONV_PAIR(1, 2), CONV_PAIR(3, 5)),
                 CONV_OF("(1,2,3,3) (3,2,2,2) (3)", 2, 1, 1, 2, 3, CONV_PAIR(3, 3), CONV_PAIR(2, 2),
                         CONV_PAIR(1, 1), CONV_PAIR(0, 0), CONV_PAIR(1, 1), CONV_PAIR(2, 2))));

/* ---- conv_input: what conv's x has as its gradient, given g and w; gg is conv of the gradient and
 *      w, and gw conv_weight of the gradient and g -------------------------------- */

static bool conv_input_shape(rg_call *c) {
    const struct conv_attr *a = c->attr;
    const k_conv *z = &a->z;
    return conv_set_shape(c->out[0], a, z->batch, z->groups * z->in, z->window.size);
}

static bool conv_input_forward(rg_call *c) {
    const struct conv_attr *a = c->attr;
    return conv_with(k_convolve_input, &a->z, c->out[0], c->in[0], c->in[1]);
}

static rg_tensor *conv_input_rule_g(const rg_step *s, rg_tensor *g) {
    return conv_of(s->attr, g, rgi_saved(s, 1), RG_NONE);
}

static rg_tensor *conv_input_rule_w(const rg_step *s, rg_tensor *g) {
    return conv_weight_of(s->attr, g, rgi_saved(s, 0));
}

RG_OP(conv_input, RG_WITH(conv), .doc = "the gradient of conv's x", .n_in = 2,
      .node = "ConvolutionBackwardBackward0", .terms = CONV_TERMS, RG_MADE(conv_input),
      .grad = { RG_RULE(RG_IN(1), conv_input_rule_g), RG_RULE(RG_IN(0), conv_input_rule_w) },
      RG_SAMPLES(CONV("(2,2,3) (2,3,3)", 2, 1, 3, 2, 5, 3, 1, 0, 1, 3),
                 CONV("(1,2,3) (2,2,2)", 1, 1, 2, 2, 5, 2, 2, 1, 2, 3),
                 CONV("(2,2,4) (2,2,3)", 2, 2, 2, 1, 4, 3, 1, 1, 1, 4),
                 CONV("(0,3,3) (3,2,2)", 0, 1, 2, 3, 4, 2, 1, 0, 1, 3),
                 CONV_OF("(2,4,3,5) (4,1,2,3)", 2, 2, 2, 1, 2, CONV_PAIR(4, 5), CONV_PAIR(2, 3),
                         CONV_PAIR(2, 1), CONV_PAIR(1, 2), CONV_PAIR(1, 2), CONV_PAIR(3, 5))));

/* ---- conv_weight: what conv's w has as its gradient, given x and g; gx is conv_input of g and the
 *      gradient, and gg conv of x and the gradient -------------------------------- */

static bool conv_weight_shape(rg_call *c) {
    const struct conv_attr *a = c->attr;
    const k_conv *z = &a->z;
    return conv_set_shape(c->out[0], a, z->groups * z->out, z->in, z->window.kernel);
}

static bool conv_weight_forward(rg_call *c) {
    const struct conv_attr *a = c->attr;
    return conv_with(k_convolve_weight, &a->z, c->out[0], c->in[0], c->in[1]);
}

static rg_tensor *conv_weight_rule_x(const rg_step *s, rg_tensor *g) {
    return conv_input_of(s->attr, rgi_saved(s, 1), g);
}

static rg_tensor *conv_weight_rule_g(const rg_step *s, rg_tensor *g) {
    return conv_of(s->attr, rgi_saved(s, 0), g, RG_NONE);
}

RG_OP(conv_weight, RG_WITH(conv), .doc = "the gradient of conv's w", .n_in = 2,
      .node = "ConvolutionBackwardBackward0", .terms = CONV_TERMS, RG_MADE(conv_weight),
      .grad = { RG_RULE(RG_IN(1), conv_weight_rule_x), RG_RULE(RG_IN(0), conv_weight_rule_g) },
      RG_SAMPLES(CONV("(2,3,5) (2,2,3)", 2, 1, 3, 2, 5, 3, 1, 0, 1, 3),
                 CONV("(1,2,5) (1,2,3)", 1, 1, 2, 2, 5, 2, 2, 1, 2, 3),
                 CONV("(2,4,4) (2,2,4)", 2, 2, 2, 1, 4, 3, 1, 1, 1, 4),
                 CONV("(0,2,4) (0,3,3)", 0, 1, 2, 3, 4, 2, 1, 0, 1, 3),
                 CONV_OF("(2,2,4,5) (2,4,3,5)", 2, 2, 2, 1, 2, CONV_PAIR(4, 5), CONV_PAIR(2, 3),
                         CONV_PAIR(2, 1), CONV_PAIR(1, 2), CONV_PAIR(1, 2), CONV_PAIR(3, 5))));

/* ---- conv1d, conv2d ------------------------------------------------------------- */

/* Pads x at the far ends, where "same" padding is one more there than at the near ones. */
static rg_tensor *conv_pad_more(rg_tensor *x, const conv_options *o, int dims) {
    rg_dims padding = { .n = 2 * dims };
    bool any = false;
    for (int d = 0; d < dims; d++) {
        padding.v[2 * (dims - 1 - d) + 1] = o->more[d];
        any = any || o->more[d];
    }
    if (!any)
        return x;
    rgi_warn("conv", "Using padding='same' with even kernel lengths and odd dilation may require a "
                     "zero-padded copy of the input be created");
    return rg_pad_with(x, padding, RG_CONSTANT, 0);
}

/* Returns the convolution of a batch, whose options and shapes are right. */
static rg_tensor *conv_batched(rg_tensor *x, rg_tensor *weight, rg_tensor *bias,
                               const conv_options *o, int dims) {
    x = conv_pad_more(x, o, dims);
    if (!x)
        return NULL;
    struct conv_attr a = { .dims = dims };
    a.z = rgi_conv_sizes(x, weight, o, dims);
    return conv_of(&a, x, weight, bias);
}

static rg_tensor *conv_any(const char *name, int dims, rg_tensor *x, rg_tensor *weight,
                           rg_tensor *bias, const rg_conv_options *given) {
    conv_options o;
    if (!rgi_check(x, name) || !rgi_check(weight, name) || !rgi_check_optional(bias, name)
        || !rgi_conv_allows_rank(name, dims, x, bias))
        return NULL;
    const bool batched = x->ndim == dims + 2;
    RG_AS(name);
    RG_SCOPE();
    if (!batched)
        x = rg_unsqueeze(x, 0);
    if (!x || !rgi_conv_options(name, dims, x, weight, given, &o)
        || !rgi_conv_allows(name, dims, x, weight, bias, &o))
        return NULL;
    rg_tensor *y = conv_batched(x, weight, bias, &o, dims);
    return rg_escape(batched ? y : rg_squeeze_dim(y, 0));
}

rg_tensor *rg_conv1d_with(rg_tensor *x, rg_tensor *weight, rg_tensor *bias, rg_conv_options o) {
    return conv_any("conv1d", 1, x, weight, bias, &o);
}

rg_tensor *rg_conv2d_with(rg_tensor *x, rg_tensor *weight, rg_tensor *bias, rg_conv_options o) {
    return conv_any("conv2d", 2, x, weight, bias, &o);
}
