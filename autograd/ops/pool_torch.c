/*
 * pool_torch.c: what torch says where windows don't fit, in torch's order, and what the options of
 * pooling come to.
 */
#include "pool.h"

#include <stdio.h>

/* ---- options -------------------------------------------------------------------- */

/* Writes the option of two dims into to[]: the list if one was given, else the number for each. A
 * list of one dim's is a row's, whose window has one element down. */
static bool pool_option(const char *name, const char *option, int dims, int64_t number,
                        const rg_dims *list, int64_t row, int64_t to[2]) {
    if (list->n < 0 || (list->n > 1 && list->n != dims)) {
        rgi_fail(RG_RUNTIME_ERROR, name,
                 dims == 1 ? "%s() %s must be one int"
                           : "%s: %s must either be a single int, or a "
                             "tuple of two ints",
                 name, option);
        return false;
    }
    to[0] = list->n ? list->v[0] : number;
    to[1] = list->n > 1 ? list->v[1] : to[0];
    if (dims == 1)
        to[0] = row;
    return true;
}

/* ---- windows -------------------------------------------------------------------- */

/* Makes to[d], the number of windows along a dim. Fails as torch's pooling_output_shape does. */
static bool pool_count(const char *name, k_window *z, int d, bool ceil_mode) {
    const int64_t stride = z->stride[d];
    const int64_t span = z->dilation[d] * (z->kernel[d] - 1) + 1;
    RG_FAIL_IF(stride == 0, name, "stride should not be zero");
    RG_FAIL_IF(z->padding[d] < 0, name, "pad must be non-negative, but got pad: %lld",
               (long long)z->padding[d]);
    RG_FAIL_IF(z->padding[d] > span / 2, name,
               "pad should be at most half of effective kernel size, but got pad=%lld, "
               "kernel_size=%lld and dilation=%lld",
               (long long)z->padding[d], (long long)z->kernel[d], (long long)z->dilation[d]);
    const int64_t room = z->size[d] + 2 * z->padding[d] - span + (ceil_mode ? stride - 1 : 0);
    const int64_t rest = room % stride;
    z->to[d] = room / stride - (rest && (rest < 0) != (stride < 0)) + 1;
    if (ceil_mode && (z->to[d] - 1) * stride >= z->size[d] + z->padding[d])
        z->to[d]--;
    return true;
}

/* Fails unless x has planes that have elements, of which a batch may have none. */
static bool pool_allows_planes(const char *name, const rg_tensor *x) {
    bool fits = x->ndim == 3 || x->ndim == 4;
    for (int d = x->ndim == 4; d < x->ndim && fits; d++)
        fits = x->size[d] != 0;
    RG_FAIL_IF(!fits, name,
               "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
               "but got:%s",
               RG_SHAPE_TEXT(x));
    return true;
}

/* Returns whether both numbers are above 0. */
static bool pool_positive(const int64_t v[2]) { return v[0] > 0 && v[1] > 0; }

/* Fails as torch's pool2d_shape_check does. */
static bool pool_allows(const char *name, const rg_tensor *x, const k_window *z) {
    RG_FAIL_IF(!pool_positive(z->kernel), name,
               "kernel size should be greater than zero, but got kH: %lld kW: %lld",
               (long long)z->kernel[0], (long long)z->kernel[1]);
    RG_FAIL_IF(!pool_positive(z->stride), name,
               "stride should be greater than zero, but got dH: %lld dW: %lld",
               (long long)z->stride[0], (long long)z->stride[1]);
    RG_FAIL_IF(!pool_positive(z->dilation), name,
               "dilation should be greater than zero, but got dilationH: %lld dilationW: %lld",
               (long long)z->dilation[0], (long long)z->dilation[1]);
    if (!pool_allows_planes(name, x))
        return false;
    RG_FAIL_IF(z->kernel[0] / 2 < z->padding[0] || z->kernel[1] / 2 < z->padding[1], name,
               "pad should be smaller than or equal to half of kernel size, but got padW = %lld, "
               "padH = %lld, kW = %lld, kH = %lld",
               (long long)z->padding[1], (long long)z->padding[0], (long long)z->kernel[1],
               (long long)z->kernel[0]);
    const long long planes = x->size[x->ndim - 3];
    RG_FAIL_IF(z->to[0] < 1 || z->to[1] < 1, name,
               "Given input size: (%lldx%lldx%lld). Calculated output size: (%lldx%lldx%lld). "
               "Output size is too small",
               planes, (long long)z->size[0], (long long)z->size[1], planes, (long long)z->to[0],
               (long long)z->to[1]);
    return true;
}

/* Makes the sizes of a tensor's planes, and counts these. */
static void pool_planes(const rg_tensor *x, k_pool *p) {
    p->window.size[0] = x->size[x->ndim - 2];
    p->window.size[1] = x->size[x->ndim - 1];
    p->planes = 1;
    for (int d = 0; d < x->ndim - 2; d++)
        p->planes *= x->size[d];
}

/* Fails where a number isn't an int, as torch's must be: products of two of them can't overflow. */
static bool pool_allows_numbers(const char *name, const k_window *z) {
    for (int d = 0; d < 2; d++) {
        const int64_t numbers[] = { z->kernel[d], z->stride[d], z->padding[d], z->dilation[d] };
        bool ints = true;
        for (int i = 0; i < 4; i++)
            ints = ints && numbers[i] == (int)numbers[i];
        RG_FAIL_IF(!ints, name, "a kernel, stride, padding or dilation is too large");
    }
    return true;
}

/* Checks the sizes of both kinds of pooling. Errors of one dim have the name of a pool1d. */
static bool pool_sizes(const char *name, const rg_tensor *x, bool ceil_mode, k_pool *p) {
    pool_planes(x, p);
    k_window *z = &p->window;
    return pool_allows_numbers(name, z) && pool_count(name, z, 0, ceil_mode)
           && pool_count(name, z, 1, ceil_mode) && pool_allows(name, x, z);
}

static int pool_dims(const char *name) { return name[strlen(name) - 2] == '1' ? 1 : 2; }

bool rgi_max_pool_sizes(const char *name, const rg_tensor *x, const rg_dims *kernel,
                        const rg_max_pool_options *o, k_pool *p) {
    const int dims = pool_dims(name);
    k_window *z = &p->window;
    const rg_dims *strides = o->stride == RG_KERNEL && !o->strides.n ? kernel : &o->strides;
    if (!pool_option(name, "kernel_size", dims, 0, kernel, 1, z->kernel)
        || !pool_option(name, "stride", dims, o->stride, strides, 1, z->stride)
        || !pool_option(name, "padding", dims, o->padding, &o->paddings, 0, z->padding)
        || !pool_option(name, "dilation", dims, o->dilation, &o->dilations, 1, z->dilation))
        return false;
    RG_FAIL_IF(x->ndim != 3 && x->ndim != 4, name,
               "non-empty 3D or 4D (batch mode) tensor expected for input");
    RG_FAIL_DTYPE_IF(x->dtype == RG_BOOL, name, "max_pool2d", x->dtype);
    return pool_sizes(name, x, o->ceil_mode, p);
}

bool rgi_avg_pool_sizes(const char *name, const rg_tensor *x, const rg_dims *kernel,
                        const rg_avg_pool_options *o, k_pool *p) {
    const int dims = pool_dims(name);
    k_window *z = &p->window;
    const rg_dims *strides = o->stride == RG_KERNEL && !o->strides.n ? kernel : &o->strides;
    int third;
    p->count_padding = o->count_include_pad;
    p->divisor = o->divisor_override == RG_WINDOW ? 0 : o->divisor_override;
    z->dilation[0] = 1;
    z->dilation[1] = 1;
    if (!pool_option(name, "kernel_size", dims, 0, kernel, 1, z->kernel)
        || !pool_option(name, "stride", dims, o->stride, strides, 1, z->stride)
        || !pool_option(name, "padding", dims, o->padding, &o->paddings, 0, z->padding)
        || !rgi_wrap_dim(name, -3, x->ndim, &third))
        return false;
    RG_FAIL_IF(o->divisor_override == 0, name, "divisor must be not zero");
    RG_FAIL_DTYPE_IF(x->dtype == RG_BOOL, name, "avg_pool2d", x->dtype);
    return pool_sizes(name, x, o->ceil_mode, p);
}

/* ---- one dim ---------------------------------------------------------------------- */

bool rgi_pool_allows_row(const char *name, const rg_tensor *x) {
    RG_FAIL_IF(x->ndim != 2 && x->ndim != 3, name,
               "Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 'self' "
               "(while checking arguments for %s)",
               x->ndim, name);
    return true;
}

bool rgi_max_pool1d_allows(const rg_tensor *x, const rg_dims *kernel,
                           const rg_max_pool_options *o) {
    const bool fits = (x->ndim == 2 && x->size[0]) || (x->ndim == 3 && x->size[1]);
    RG_FAIL_IF(!fits || !x->size[x->ndim - 1], "max_pool1d",
               "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size "
               "for input, but got:%s",
               RG_SHAPE_TEXT(x));
    k_window z = { .size = { 1, x->size[x->ndim - 1] } };
    const rg_dims *strides = o->stride == RG_KERNEL && !o->strides.n ? kernel : &o->strides;
    if (!pool_option("max_pool1d", "kernel_size", 1, 0, kernel, 1, z.kernel)
        || !pool_option("max_pool1d", "stride", 1, o->stride, strides, 1, z.stride)
        || !pool_option("max_pool1d", "padding", 1, o->padding, &o->paddings, 0, z.padding)
        || !pool_option("max_pool1d", "dilation", 1, o->dilation, &o->dilations, 1, z.dilation))
        return false;
    const long long k = z.kernel[1];
    RG_FAIL_IF(k <= 0, "max_pool1d",
               "max_pool1d() kernel_size must be greater than zero, but got %lld", k);
    RG_FAIL_IF(z.stride[1] <= 0, "max_pool1d",
               "max_pool1d() stride must be greater than zero, but got %lld",
               (long long)z.stride[1]);
    RG_FAIL_IF(z.padding[1] < 0, "max_pool1d",
               "max_pool1d() padding must be non-negative, but got %lld", (long long)z.padding[1]);
    RG_FAIL_IF(z.padding[1] > k / 2, "max_pool1d",
               "max_pool1d() padding should be at most half of kernel size, but got padding=%lld "
               "and kernel_size=%lld",
               (long long)z.padding[1], k);
    RG_FAIL_IF(z.dilation[1] <= 0, "max_pool1d",
               "max_pool1d() dilation must be greater than zero, but got %lld",
               (long long)z.dilation[1]);
    if (!pool_allows_numbers("max_pool1d", &z) || !pool_count("max_pool1d", &z, 1, o->ceil_mode))
        return false;
    RG_FAIL_IF(z.to[1] < 1, "max_pool1d", "max_pool1d() Invalid computed output size: %lld",
               (long long)z.to[1]);
    RG_FAIL_DTYPE_IF(!rgi_is_float(x->dtype), "max_pool1d", "max_pool1d_impl", x->dtype);
    return true;
}

/* ---- adaptive --------------------------------------------------------------------- */

bool rgi_adaptive_pool_sees(const char *name, const rg_tensor *x, int dims) {
    for (int d = x->ndim - dims; d < x->ndim; d++)
        RG_FAIL_IF(x->size[d] == 0, name,
                   "%s(): Expected input to have non-zero size for non-batch dimensions, but input "
                   "has sizes %s with dimension %d being empty",
                   name, RG_SHAPE_TEXT(x), d);
    return true;
}

/* Makes `size` two numbers, of which RG_AS_IT_IS becomes the size of x. */
static bool adaptive_size(const char *name, const rg_tensor *x, rg_dims *size) {
    RG_FAIL_IF(size->n != 1 && size->n != 2, name, "output_size must be 2");
    RG_FAIL_VALUE_IF(size->n == 2 && x->ndim <= 2, name, "Input dimension should be at least 3");
    if (size->n == 1)
        size->v[1] = size->v[0];
    size->n = 2;
    for (int d = 0; d < 2 && x->ndim > 1; d++)
        if (size->v[d] == RG_AS_IT_IS)
            size->v[d] = x->size[x->ndim - 2 + d];
    return true;
}

static void adaptive_sizes(const rg_tensor *x, const rg_dims *size, k_pool *p) {
    p->adaptive = true;
    pool_planes(x, p);
    p->window.to[0] = size->v[0];
    p->window.to[1] = size->v[1];
}

bool rgi_adaptive_avg_pool_sizes(const char *name, const rg_tensor *x, rg_dims *size, k_pool *p) {
    if (!adaptive_size(name, x, size))
        return false;
    RG_FAIL_IF(size->v[0] < 0 || size->v[1] < 0, name,
               "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 "
               "but received {%lld, %lld}",
               (long long)size->v[0], (long long)size->v[1]);
    const bool mean = size->v[0] == 1 && size->v[1] == 1;
    RG_FAIL_IF(x->ndim != 3 && x->ndim != 4, name,
               "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got %s", RG_SHAPE_TEXT(x));
    if (mean)
        return true;
    if (!rgi_adaptive_pool_sees("adaptive_avg_pool2d", x, 2))
        return false;
    RG_FAIL_DTYPE_IF(!rgi_is_float(x->dtype), name, "adaptive_avg_pool2d", x->dtype);
    adaptive_sizes(x, size, p);
    return true;
}

bool rgi_adaptive_max_pool_sizes(const char *name, const rg_tensor *x, rg_dims *size, k_pool *p) {
    if (!adaptive_size(name, x, size))
        return false;
    RG_FAIL_IF(x->ndim != 3 && x->ndim != 4, name,
               "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: %s", RG_SHAPE_TEXT(x));
    if (!rgi_adaptive_pool_sees("adaptive_max_pool2d", x, x->ndim == 4 ? 3 : 2))
        return false;
    rg_dims shape = rg_shape((rg_tensor *)x);
    shape.v[x->ndim - 2] = size->v[0];
    shape.v[x->ndim - 1] = size->v[1];
    RG_FAIL_IF(size->v[0] < 0 || size->v[1] < 0, name,
               "Trying to create tensor with negative dimension %lld: %s",
               (long long)(size->v[0] < 0 ? size->v[0] : size->v[1]), RG_DIMS_TEXT(&shape));
    RG_FAIL_DTYPE_IF(!rgi_is_float(x->dtype), name, "adaptive_max_pool2d", x->dtype);
    adaptive_sizes(x, size, p);
    return true;
}
