/*
 * conv.c: convolutions over one or two dims, and their gradients. The gradients are computed by two
 * further ops. Each of the three ops is linear in each of its inputs, so the three ops and a sum,
 * for the gradient of a bias, are enough for derivatives of any order. In the formulas, g is the
 * gradient of y, and gx, gw and gbias are the gradients of x, w and bias.
 */
#include "autocast.h"
#include "autograd/checks.h"
#include "tensor/messages/warning.h"

/* ---- functions for all three ops ----------------------------------------------- */

/* The attributes of the three ops. `dims` is 1 or 2, the number of dims over which the window
 * moves. `steps` is for the profiler: the number of products that are summed for each element of
 * the result. */
struct conv_attr {
    const char *node;
    k_conv z;
    int dims;
    double steps;
};

/* Sets t's shape to (rows, cols, size[1]) if a->dims is 1, or to (rows, cols, size[0], size[1]) if
 * a->dims is 2. */
static bool conv_set_shape(rg_tensor *t, const struct conv_attr *a, int64_t rows, int64_t cols,
                           const int64_t size[2]) {
    t->ndim = (uint8_t)(a->dims + 2);
    t->size[0] = rows;
    t->size[1] = cols;
    t->size[2] = size[0];
    t->size[a->dims + 1] = size[1];
    return true;
}

/* Returns a copy of the attributes for an op whose result has `elements` elements. In the copy,
 * `steps` is the number of products in the whole convolution divided by `elements`. */
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

/* Returns steps / terms. The profiler multiplies this factor by `terms`, the size of the first
 * input's last dim, and so gets `steps`. */
static double conv_share(const void *attr, int64_t rows, int64_t terms) {
    (void)rows;
    return ((const struct conv_attr *)attr)->steps / (double)RG_MAX(1, terms);
}

#define CONV_TERMS                                                                \
    {                                                                             \
        .times = 1, .input = 0, .from_last = 1, .gradients = RG_IN(0) | RG_IN(1), \
        .share = conv_share                                                       \
    }

/* conv_with calls `kernel` to compute y from contiguous copies of `a` and `b`. */
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

/* conv_input_of computes the gradient of x from g and w, conv_weight_of computes the gradient of w
 * from x and g, and conv_of computes y from x, w and bias. */
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

/* CONV expands to a test sample (rg_sample) of a convolution over one dim: x is (batch, groups *
 * in, size), and w is (groups * out, in, kernel). CONV_OF expands to a sample of a convolution over
 * dims_ dims, which is 1 or 2. */
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

/* ---- conv: y[n, o, p] = bias[o] + sum over c and t of w[o, c, t] * x[n, c, p * stride + t *
 *      dilation - padding], where c is a channel of o's group, t is an element of the kernel, and x
 *      is 0 outside its bounds; gx is conv_input of g and w, gw is conv_weight of x and g, and
 *      gbias is the sum of g --------------------------------------------------- */

static bool conv_shape(rg_call *c) {
    const struct conv_attr *a = RG_ATTR(c, conv);
    const k_conv *z = &a->z;
    /* As in torch, y has no channels if x has none. */
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

/* Computes the gradients of x and w, as far as they are wanted. The gradient of the bias is left to
 * its rule. */
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

/* ---- conv_input(g, w): the gradient of conv's x. If h is the gradient of conv_input's result,
 *      then the gradient of g is conv(h, w), and the gradient of w is conv_weight(h, g). In the
 *      functions that compute these gradients, h is the parameter g ------------- */

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

/* ---- conv_weight(x, g): the gradient of conv's w. If h is the gradient of conv_weight's result,
 *      then the gradient of x is conv_input(g, h), and the gradient of g is conv(x, h). In the
 *      functions that compute these gradients, h is the parameter g ------------- */

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

/* The options for each dim. `more` is the padding at the end of a dim minus the padding at its
 * beginning. It is 1 if the padding is "same" and the total padding is an odd number, and otherwise
 * 0. */
typedef struct conv_options {
    int64_t stride[2], padding[2], dilation[2], more[2], groups;
} conv_options;

/* Sets *o to the options for each dim, from the given options. Fails if an option isn't valid. */
static bool conv_take_options(int dims, const rg_tensor *weight, const rg_conv_options *given,
                              conv_options *o) {
    const bool same = given->padding == RG_SAME && !given->paddings.n;
    const bool valid = given->padding == RG_VALID && !given->paddings.n;
    *o = (conv_options){ .groups = given->groups };
    if (!rgi_want_option(NULL, "stride", dims, given->stride, 1, &given->strides, o->stride)
        || !rgi_want_option(NULL, "padding", dims, same || valid ? 0 : given->padding, 0,
                            &given->paddings, o->padding)
        || !rgi_want_option(NULL, "dilation", dims, given->dilation, 1, &given->dilations,
                            o->dilation)
        || !rgi_want_positive(NULL, "groups", 1, &o->groups)
        || !rgi_want_positive(NULL, "stride", dims, o->stride)
        || !rgi_want_non_negative(NULL, "padding", dims, o->padding)
        || !rgi_want_positive(NULL, "dilation", dims, o->dilation))
        return false;
    for (int d = 0; d < dims; d++) {
        int64_t span;
        const bool large = o->padding[d] > RG_NUMEL_MAX || o->stride[d] > RG_NUMEL_MAX
                           || __builtin_mul_overflow(o->dilation[d], weight->size[d + 2], &span)
                           || span > RG_NUMEL_MAX || o->dilation[d] > RG_NUMEL_MAX;
        RG_FAIL_IF(large, NULL, "a stride, padding or dilation is too large");
        RG_FAIL_IF(same && o->stride[d] != 1, NULL,
                   "padding='same' is not supported for strided convolutions");
        const int64_t total = same ? o->dilation[d] * RG_MAX(0, weight->size[d + 2] - 1) : 0;
        o->padding[d] += total / 2;
        o->more[d] = total % 2;
    }
    return true;
}

/* Fails unless the channels of x and of the weight suit the number of groups. */
static bool conv_want_channels(const rg_tensor *x, const rg_tensor *weight, long long groups) {
    RG_FAIL_IF(weight->size[0] < groups || weight->size[0] % groups, NULL,
               "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
               "weight of size %s instead",
               groups, groups, RG_SHAPE_TEXT(weight));
    RG_FAIL_IF(x->size[1] % groups || x->size[1] / groups != weight->size[1], NULL,
               "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but "
               "got %lld channels instead",
               groups, RG_SHAPE_TEXT(weight), RG_SHAPE_TEXT(x), groups * (long long)weight->size[1],
               (long long)x->size[1]);
    return true;
}

/* Fails unless the kernel has elements and fits into the padded x. If the batch size or the number
 * of channels is 0, the other dims of x may be empty as well. Otherwise no dim of x may be
 * empty. */
static bool conv_want_room(int dims, const rg_tensor *x, const rg_tensor *weight,
                           const conv_options *o) {
    rg_dims padded = { .n = dims }, span = { .n = dims };
    bool fits = true;
    for (int d = 0; d < dims; d++) {
        padded.v[d] = x->size[d + 2] + 2 * o->padding[d] + o->more[d];
        span.v[d] = o->dilation[d] * (weight->size[d + 2] - 1) + 1;
        fits = fits && padded.v[d] >= span.v[d];
    }
    RG_FAIL_IF(!fits, NULL,
               "Calculated padded input size per channel: %s. Kernel size: %s. Kernel size can't "
               "be greater than actual input size",
               RG_DIMS_TEXT(&padded), RG_DIMS_TEXT(&span));
    return rgi_want_positive(NULL, "kernel size", dims, weight->size + 2)
           && (!x->size[0] || !x->size[1] || rgi_want_elements(NULL, "input", x, 2));
}

/* Fills in *o, and fails unless the weight, the bias and the options suit x, which has a batch
 * dim. */
static bool conv_wants(int dims, const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                       const rg_conv_options *given, conv_options *o) {
    return rgi_want_dims(NULL, "weight", weight, dims + 2, dims + 2)
           && rgi_want_same_dtype(NULL, "input", x, "bias", bias)
           && rgi_want_same_dtype(NULL, "input", x, "weight", weight) && rgi_want_no_bool(NULL, x)
           && conv_take_options(dims, weight, given, o) && conv_want_channels(x, weight, o->groups)
           && rgi_want_vector(NULL, "bias", bias, weight->size[0])
           && conv_want_room(dims, x, weight, o);
}

/* Returns the sizes of a convolution, for the kernels. If there is only one dim, it is treated as
 * the last dim of an image with one row. */
static k_conv conv_sizes_of(const rg_tensor *x, const rg_tensor *weight, const conv_options *o,
                            int dims) {
    k_conv z = { .batch = x->size[0],
                 .groups = o->groups,
                 .in = weight->size[1],
                 .out = weight->size[0] / o->groups,
                 .window = { .size = { 1 },
                             .kernel = { 1 },
                             .stride = { 1 },
                             .dilation = { 1 },
                             .to = { 1 } } };
    k_window *w = &z.window;
    for (int d = 0; d < dims; d++) {
        const int i = d + 2 - dims;
        w->size[i] = x->size[d + 2];
        w->kernel[i] = weight->size[d + 2];
        w->stride[i] = o->stride[d];
        w->padding[i] = o->padding[d];
        w->dilation[i] = o->dilation[d];
        w->to[i] = (w->size[i] + 2 * w->padding[i] - w->dilation[i] * (w->kernel[i] - 1) - 1)
                       / w->stride[i]
                   + 1;
    }
    return z;
}

/* Pads the end of each dim for which `more` is 1. Such a dim has "same" padding, and needs one
 * element more at its end than at its beginning. Warns if it pads, as torch does. */
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

/* Returns the convolution of x, which has a batch dim. Requires that the options and shapes were
 * checked. */
static rg_tensor *conv_batched(rg_tensor *x, rg_tensor *weight, rg_tensor *bias,
                               const conv_options *o, int dims) {
    x = conv_pad_more(x, o, dims);
    if (!x)
        return NULL;
    struct conv_attr a = { .dims = dims };
    a.z = conv_sizes_of(x, weight, o, dims);
    return conv_of(&a, x, weight, bias);
}

static rg_tensor *conv_any(const char *name, int dims, rg_tensor *x, rg_tensor *weight,
                           rg_tensor *bias, const rg_conv_options *given) {
    RG_AUTOCASTS(RG_LOWER, conv_any(name, dims, in[0], in[1], in[2], given), x, weight, bias);
    conv_options o;
    RG_AS(name);
    if (!rgi_check(x, NULL) || !rgi_check(weight, NULL) || !rgi_check_optional(bias, NULL)
        || !rgi_want_dims(NULL, "input", x, dims + 1, dims + 2))
        return NULL;
    RG_SCOPE();
    const bool batched = x->ndim == dims + 2;
    if (!batched)
        x = rg_unsqueeze(x, 0);
    if (!x || !conv_wants(dims, x, weight, bias, given, &o))
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
