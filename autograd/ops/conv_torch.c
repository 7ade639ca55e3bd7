/*
 * conv_torch.c: what torch says where a convolution's shapes, dtypes or options don't fit, in
 * torch's order; and what its options come to.
 */
#include "conv.h"

#include <stdio.h>

bool rgi_conv_allows_rank(const char *name, int dims, const rg_tensor *x, const rg_tensor *bias) {
    RG_FAIL_IF(!rgi_is_none(bias) && bias->dtype != x->dtype, name,
               "Input type (%s) and bias type (%s) should be the same",
               rgi_c_name((rg_dtype)x->dtype), rgi_c_name((rg_dtype)bias->dtype));
    RG_FAIL_IF(x->ndim != dims + 1 && x->ndim != dims + 2, name,
               "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
               dims + 1, dims + 2, name, RG_SHAPE_TEXT(x));
    return true;
}

/* Writes the option into to[]: the list if one was given, else the number for each dim. */
static bool conv_option(const char *name, const char *option, int dims, int64_t number,
                        const rg_dims *list, int64_t to[2]) {
    RG_FAIL_IF(list->n < 0 || (list->n > 1 && list->n != dims), name,
               "expected %s to be a single integer value or a list of %d values to match the "
               "convolution dimensions, but got %s=%s",
               option, dims, option, RG_DIMS_TEXT(list));
    for (int d = 0; d < dims; d++)
        to[d] = list->n ? list->v[list->n > 1 ? d : 0] : number;
    return true;
}

bool rgi_conv_options(const char *name, int dims, const rg_tensor *x, const rg_tensor *weight,
                      const rg_conv_options *given, conv_options *o) {
    const bool same = given->padding == RG_SAME && !given->paddings.n;
    const bool valid = given->padding == RG_VALID;
    *o = (conv_options){ .groups = given->groups };
    RG_FAIL_IF(weight->ndim < 3, name, "weight should have at least three dimensions");
    RG_FAIL_IF(same && weight->ndim != x->ndim, name,
               "Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional "
               "input of size %s instead",
               weight->ndim, weight->ndim, RG_SHAPE_TEXT(weight), x->ndim, RG_SHAPE_TEXT(x));
    const rg_dims stride = { dims, { given->stride, given->stride } };
    RG_FAIL_IF(dims > 1 && weight->ndim != dims + 2, name,
               "expected stride to be a single integer value or a list of %d values to match the "
               "convolution dimensions, but got stride=%s",
               weight->ndim - 2,
               RG_DIMS_TEXT(given->strides.n == dims ? &given->strides : &stride));
    if (!conv_option(name, "stride", dims, given->stride, &given->strides, o->stride)
        || !conv_option(name, "padding", dims, same || valid ? 0 : given->padding, &given->paddings,
                        o->padding)
        || !conv_option(name, "dilation", dims, given->dilation, &given->dilations, o->dilation))
        return false;
    for (int d = 0; d < dims && same; d++) {
        RG_FAIL_IF(o->stride[d] != 1, name,
                   "padding='same' is not supported for strided convolutions");
        const int64_t total = RG_MAX(0, o->dilation[d] * (weight->size[d + 2] - 1));
        o->padding[d] = total / 2;
        o->more[d] = total % 2;
    }
    return true;
}

/* Returns whether one of the values is below `least`. */
static bool conv_below(const int64_t *v, int dims, int64_t least) {
    return v[0] < least || v[dims - 1] < least;
}

/* Returns how many elements a dim of a kernel spans, with those that dilation leaves out. */
static int64_t conv_span(const rg_tensor *weight, const conv_options *o, int d) {
    return o->dilation[d] * (weight->size[d + 2] - 1) + 1;
}

/* Writes sizes as torch does here: (2 x 3). */
static const char *conv_text(const int64_t *v, int dims, char text[64]) {
    if (dims == 1)
        snprintf(text, 64, "(%lld)", (long long)v[0]);
    else
        snprintf(text, 64, "(%lld x %lld)", (long long)v[0], (long long)v[1]);
    return text;
}

static bool conv_allows_options(const char *name, int dims, const conv_options *o) {
    RG_FAIL_IF(o->groups <= 0, name, "non-positive groups is not supported");
    RG_FAIL_IF(conv_below(o->padding, dims, 0), name, "negative padding is not supported");
    RG_FAIL_IF(conv_below(o->stride, dims, 1), name, "non-positive stride is not supported");
    const rg_dims dilation = { dims, { o->dilation[0], o->dilation[1] } };
    RG_FAIL_IF(conv_below(o->dilation, dims, 1), name,
               "dilation should be greater than zero, but got %s", RG_DIMS_TEXT(&dilation));
    return true;
}

static bool conv_allows_channels(const char *name, const rg_tensor *x, const rg_tensor *weight,
                                 const rg_tensor *bias, int64_t groups) {
    const long long g = groups;
    RG_FAIL_IF(weight->size[0] < groups, name,
               "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got "
               "weight of size %s instead",
               g, g, RG_SHAPE_TEXT(weight));
    RG_FAIL_IF(weight->size[0] % groups, name,
               "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
               "weight of size [%s] instead",
               g, g, RG_SHAPE_TEXT(weight));
    RG_FAIL_IF(x->size[1] % groups || x->size[1] / groups != weight->size[1], name,
               "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but "
               "got %lld channels instead",
               g, RG_SHAPE_TEXT(weight), RG_SHAPE_TEXT(x), g * (long long)weight->size[1],
               (long long)x->size[1]);
    RG_FAIL_IF(!rgi_is_none(bias) && (bias->ndim != 1 || bias->size[0] != weight->size[0]), name,
               "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but "
               "got bias of size %s instead",
               RG_SHAPE_TEXT(weight), (long long)weight->size[0], RG_SHAPE_TEXT(bias));
    return true;
}

/* Returns whether the kernel fits into x with its padding, and has taps. */
static bool conv_allows_kernel(const char *name, int dims, const rg_tensor *x,
                               const rg_tensor *weight, const conv_options *o) {
    int64_t padded[2] = { 0, 0 };
    int64_t span[2] = { 0, 0 };
    bool fits = true;
    for (int d = 0; d < dims; d++) {
        const bool absurd = o->padding[d] > RG_NUMEL_MAX || o->dilation[d] > RG_NUMEL_MAX
                            || __builtin_mul_overflow(o->dilation[d], weight->size[d + 2], span + d)
                            || span[d] > RG_NUMEL_MAX || o->stride[d] > RG_NUMEL_MAX;
        RG_FAIL_IF(absurd, name, "a stride, padding or dilation is too large");
        padded[d] = x->size[d + 2] + 2 * o->padding[d] + o->more[d];
        span[d] = conv_span(weight, o, d);
        fits = fits && padded[d] >= span[d];
    }
    RG_FAIL_IF(!fits, name,
               "Calculated padded input size per channel: %s. Kernel size: %s. Kernel size can't "
               "be greater than actual input size",
               conv_text(padded, dims, (char[64]){ 0 }), conv_text(span, dims, (char[64]){ 0 }));
    const int64_t height = dims == 1 ? 1 : weight->size[2];
    const int64_t width = weight->size[dims + 1];
    RG_FAIL_IF(height < 1 || width < 1, name,
               "kernel size should be greater than zero, but got kernel_height: %lld kernel_width: "
               "%lld",
               (long long)height, (long long)width);
    return true;
}

bool rgi_conv_allows(const char *name, int dims, const rg_tensor *x, const rg_tensor *weight,
                     const rg_tensor *bias, const conv_options *o) {
    if (!conv_allows_options(name, dims, o))
        return false;
    RG_FAIL_IF(weight->ndim != dims + 2, name,
               "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional "
               "input of size %s instead",
               weight->ndim, weight->ndim, RG_SHAPE_TEXT(weight), x->ndim, RG_SHAPE_TEXT(x));
    if (!conv_allows_channels(name, x, weight, bias, o->groups)
        || !conv_allows_kernel(name, dims, x, weight, o))
        return false;
    RG_FAIL_IF(x->numel == 0 && x->size[0] && x->size[1], name,
               "Only zero batch or zero channel inputs are supported, but got input shape: %s",
               RG_SHAPE_TEXT(x));
    RG_FAIL_DTYPE_IF(x->dtype == RG_BOOL, name, "slow_conv2d_cpu", x->dtype);
    RG_FAIL_IF(x->dtype != weight->dtype, name, "expected scalar type %s but found %s",
               rgi_scalar_name((rg_dtype)x->dtype), rgi_scalar_name((rg_dtype)weight->dtype));
    return true;
}

/* A line is the lower dim of a plane that is one element high. */
k_conv rgi_conv_sizes(const rg_tensor *x, const rg_tensor *weight, const conv_options *o,
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
