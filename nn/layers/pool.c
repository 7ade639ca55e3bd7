/*
 * pool.c: the modules for pooling with sliding windows and for adaptive pooling. If a max pooling
 * module is called with rg_pool_keywords, it also stores the indices of the maxima in them.
 */
#include "layers.h"
#include "autograd/checks.h"
#include "autograd/ops/pool.h"
#include "tensor/text/python_text.h"
#include "nn/registry.h"
#include "tensor/error.h"

#include <stdio.h>

/* ---- parts of the repr, and options as lists ---------------------------------------- */

/* Appends "name=2" or "name=(2, 3)" with the values v to `text`, whose length is `at`. If the text
 * isn't empty, a comma comes first. If `tuple` is true, a single value is written as a tuple:
 * "name=(2,)". RG_AS_IT_IS is written as None. Returns the text's new length. */
static int pool_text(char *text, size_t room, int at, const char *name, rg_dims v, bool tuple) {
    const bool number = v.n == 1 && !tuple;
    at += snprintf(text + at, room - (size_t)at, "%s%s=%s", at ? ", " : "", name,
                   number ? "" : "(");
    for (int d = 0; d < v.n; d++) {
        const char *before = d ? ", " : "";
        if (v.v[d] == RG_AS_IT_IS)
            at += snprintf(text + at, room - (size_t)at, "%sNone", before);
        else
            at += snprintf(text + at, room - (size_t)at, "%s%lld", before, (long long)v.v[d]);
    }
    return number ? at : at + snprintf(text + at, room - (size_t)at, v.n == 1 ? ",)" : ")");
}

/* Returns the list if it isn't empty, otherwise the number as a list of length 1. */
static rg_dims list_or_number(int64_t number, rg_dims list) {
    return list.n ? list : RG_DIMS(number);
}

/* Returns the stride as a list: the list `strides` if it isn't empty, otherwise the number
 * `stride`. If neither was given (stride is RG_KERNEL), the stride is the size of the kernel. */
static rg_dims pool_stride(int64_t stride, rg_dims strides, rg_dims kernel) {
    return stride == RG_KERNEL && !strides.n ? kernel : list_or_number(stride, strides);
}

/* Fails if no call of a module with these sizes can succeed. */
static bool pool_allows(const char *name, rg_dims kernel, rg_dims stride, rg_dims padding,
                        rg_dims dilation) {
    if (!rgi_want_positive(name, "kernel_size", kernel.n, kernel.v)
        || !rgi_want_positive(name, "stride", stride.n, stride.v)
        || !rgi_want_non_negative(name, "padding", padding.n, padding.v)
        || !rgi_want_positive(name, "dilation", dilation.n, dilation.v))
        return false;
    for (int d = 0; d < padding.n && kernel.n > 0; d++)
        if (!rgi_pool_padding_fits(name, padding.v[d], kernel.v[RG_MIN(d, kernel.n - 1)]))
            return false;
    return true;
}

static const char *const input_name = "input";

/* ---- MaxPool1d, MaxPool2d ------------------------------------------------------------ */

/* Returns the maxima. If the call has keywords, stores the indices of the maxima in them. */
static rg_tensor *pool_give(rg_values_indices r, void *keywords) {
    rg_pool_keywords *k = keywords;
    if (k)
        k->indices = rg_escape(r.indices);
    return r.values;
}

static rg_tensor *max_pool_module_forward(rg_module *m, rg_list in, void *keywords) {
    rg_max_pool_module *self = (rg_max_pool_module *)m;
    if (in.n != 1)
        return rgi_fail_for_inputs_of(m->cls, in.n, 1, &input_name);
    rg_tensor *x = in.v[0];
    if (self->dims == 2)
        return pool_give(rg_max_pool2d_with_indices_with(x, self->kernel_size, self->o), keywords);
    if (!keywords)
        return rg_max_pool1d_with(x, self->kernel_size, self->o);
    return pool_give(rg_max_pool1d_with_indices_with(x, self->kernel_size, self->o), keywords);
}

static void max_pool_module_repr(rg_module *m, char *text, size_t room) {
    rg_max_pool_module *self = (rg_max_pool_module *)m;
    const rg_max_pool_options *o = &self->o;
    const rg_dims stride = pool_stride(o->stride, o->strides, self->kernel_size);
    int at = pool_text(text, room, 0, "kernel_size", self->kernel_size, false);
    at = pool_text(text, room, at, "stride", stride, false);
    at = pool_text(text, room, at, "padding", list_or_number(o->padding, o->paddings), false);
    at = pool_text(text, room, at, "dilation", list_or_number(o->dilation, o->dilations), false);
    snprintf(text + at, room - (size_t)at, ", ceil_mode=%s", rgi_python_bool(o->ceil_mode));
}

#define MAX_POOL                                                                         \
    .forward_with = max_pool_module_forward, .keywords_bytes = sizeof(rg_pool_keywords), \
    .extra_repr = max_pool_module_repr
static const rg_module_class max_pool_classes[2] = { { .name = "MaxPool1d", MAX_POOL },
                                                     { .name = "MaxPool2d", MAX_POOL } };

static rg_max_pool_module *max_pool_new(int dims, rg_dims kernel, rg_max_pool_options o) {
    const rg_module_class *cls = &max_pool_classes[dims - 1];
    RG_AS(cls->name);
    if (!rgi_given_once(cls->name, "stride", o.stride, RG_KERNEL, o.strides.n)
        || !rgi_given_once(cls->name, "padding", o.padding, 0, o.paddings.n)
        || !rgi_given_once(cls->name, "dilation", o.dilation, 1, o.dilations.n)
        || !pool_allows(cls->name, kernel, pool_stride(o.stride, o.strides, kernel),
                        list_or_number(o.padding, o.paddings),
                        list_or_number(o.dilation, o.dilations)))
        return NULL;
    return RG_READY(
        RG_MODULE(rg_max_pool_module, cls, .dims = dims, .kernel_size = kernel, .o = o));
}

rg_max_pool_module *rg_nn_max_pool1d_with(rg_dims kernel, rg_max_pool_options o) {
    return max_pool_new(1, kernel, o);
}

rg_max_pool_module *rg_nn_max_pool2d_with(rg_dims kernel, rg_max_pool_options o) {
    return max_pool_new(2, kernel, o);
}

/* ---- AvgPool1d, AvgPool2d ------------------------------------------------------------ */

static rg_tensor *avg_pool_module_forward(rg_module *m, rg_tensor *x) {
    rg_avg_pool_module *self = (rg_avg_pool_module *)m;
    return self->dims == 1 ? rg_avg_pool1d_with(x, self->kernel_size, self->o)
                           : rg_avg_pool2d_with(x, self->kernel_size, self->o);
}

static void avg_pool_module_repr(rg_module *m, char *text, size_t room) {
    rg_avg_pool_module *self = (rg_avg_pool_module *)m;
    const rg_avg_pool_options *o = &self->o;
    const bool tuple = self->dims == 1;
    const rg_dims stride = pool_stride(o->stride, o->strides, self->kernel_size);
    int at = pool_text(text, room, 0, "kernel_size", self->kernel_size, tuple);
    at = pool_text(text, room, at, "stride", stride, tuple);
    pool_text(text, room, at, "padding", list_or_number(o->padding, o->paddings), tuple);
}

#define AVG_POOL .forward = avg_pool_module_forward, .extra_repr = avg_pool_module_repr
static const rg_module_class avg_pool_classes[2] = { { .name = "AvgPool1d", AVG_POOL },
                                                     { .name = "AvgPool2d", AVG_POOL } };

static rg_avg_pool_module *avg_pool_new(int dims, rg_dims kernel, rg_avg_pool_options o) {
    const rg_module_class *cls = &avg_pool_classes[dims - 1];
    RG_AS(cls->name);
    if (!rgi_given_once(cls->name, "stride", o.stride, RG_KERNEL, o.strides.n)
        || !rgi_given_once(cls->name, "padding", o.padding, 0, o.paddings.n)
        || !pool_allows(cls->name, kernel, pool_stride(o.stride, o.strides, kernel),
                        list_or_number(o.padding, o.paddings), RG_DIMS(1)))
        return NULL;
    RG_FAIL_IF(o.divisor_override == 0, cls->name, "divisor must be not zero");
    return RG_READY(
        RG_MODULE(rg_avg_pool_module, cls, .dims = dims, .kernel_size = kernel, .o = o));
}

rg_avg_pool_module *rg_nn_avg_pool1d_with(rg_dims kernel, rg_avg_pool_options o) {
    return avg_pool_new(1, kernel, o);
}

rg_avg_pool_module *rg_nn_avg_pool2d_with(rg_dims kernel, rg_avg_pool_options o) {
    return avg_pool_new(2, kernel, o);
}

/* ---- adaptive pooling: average and maximum, 1d and 2d -------------------------------- */

static rg_tensor *adaptive_avg_module_forward(rg_module *m, rg_tensor *x) {
    rg_adaptive_pool_module *self = (rg_adaptive_pool_module *)m;
    return self->dims == 1 ? rg_adaptive_avg_pool1d(x, self->output_size.v[0])
                           : rg_adaptive_avg_pool2d_with(x, self->output_size);
}

static rg_tensor *adaptive_max_module_forward(rg_module *m, rg_list in, void *keywords) {
    rg_adaptive_pool_module *self = (rg_adaptive_pool_module *)m;
    if (in.n != 1)
        return rgi_fail_for_inputs_of(m->cls, in.n, 1, &input_name);
    rg_tensor *x = in.v[0];
    if (self->dims == 1)
        return pool_give(rg_adaptive_max_pool1d_with_indices(x, self->output_size.v[0]), keywords);
    return pool_give(rg_adaptive_max_pool2d_with_indices_with(x, self->output_size), keywords);
}

static void adaptive_module_repr(rg_module *m, char *text, size_t room) {
    rg_adaptive_pool_module *self = (rg_adaptive_pool_module *)m;
    pool_text(text, room, 0, "output_size", self->output_size, false);
}

#define ADAPTIVE_AVG .forward = adaptive_avg_module_forward, .extra_repr = adaptive_module_repr
#define ADAPTIVE_MAX                                                                         \
    .forward_with = adaptive_max_module_forward, .keywords_bytes = sizeof(rg_pool_keywords), \
    .extra_repr = adaptive_module_repr
static const rg_module_class adaptive_classes[2][2] = {
    { { .name = "AdaptiveAvgPool1d", ADAPTIVE_AVG },
      { .name = "AdaptiveAvgPool2d", ADAPTIVE_AVG } },
    { { .name = "AdaptiveMaxPool1d", ADAPTIVE_MAX },
      { .name = "AdaptiveMaxPool2d", ADAPTIVE_MAX } },
};

static rg_adaptive_pool_module *adaptive_new(bool max, int dims, rg_dims size) {
    const rg_module_class *cls = &adaptive_classes[max][dims - 1];
    RG_AS(cls->name);
    RG_FAIL_IF(size.n != 1 && size.n != dims, cls->name, "output_size must be %d", dims);
    for (int d = 0; d < size.n; d++)
        if (size.v[d] != RG_AS_IT_IS
            && !rgi_want_non_negative(cls->name, "output_size", 1, &size.v[d]))
            return NULL;
    return RG_READY(RG_MODULE(rg_adaptive_pool_module, cls, .dims = dims, .output_size = size));
}

rg_adaptive_pool_module *(rg_nn_adaptive_avg_pool1d)(int64_t size) {
    return adaptive_new(false, 1, RG_DIMS(size));
}

rg_adaptive_pool_module *rg_nn_adaptive_avg_pool2d_with(rg_dims size) {
    return adaptive_new(false, 2, size);
}

rg_adaptive_pool_module *(rg_nn_adaptive_max_pool1d)(int64_t size) {
    return adaptive_new(true, 1, RG_DIMS(size));
}

rg_adaptive_pool_module *rg_nn_adaptive_max_pool2d_with(rg_dims size) {
    return adaptive_new(true, 2, size);
}
