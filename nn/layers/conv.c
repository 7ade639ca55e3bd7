/*
 * conv.c: Conv1d and Conv2d. The convolution itself pads with zeros; for another padding_mode, x is
 * padded by rg_pad first.
 */
#include "layers.h"
#include "init.h"
#include "autograd/checks.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"
#include "tensor/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the forward of Conv1d and Conv2d ---------------------------------------------- */

/* Returns the padding before and after each spatial dim, as rg_pad takes it: the last dim first. */
static rg_dims conv_around(const rg_conv_module *self) {
    rg_dims around = { .n = 2 * self->dims };
    for (int d = 0; d < self->dims; d++) {
        const int64_t total = self->dilation.v[d] * (self->kernel_size.v[d] - 1);
        const bool same = self->padding_text && !strcmp(self->padding_text, "same");
        const int at = 2 * (self->dims - 1 - d);
        around.v[at] = same ? total / 2 : self->padding.v[d];
        around.v[at + 1] = same ? total - total / 2 : self->padding.v[d];
    }
    return around;
}

static rg_tensor *conv_module_forward(rg_module *m, rg_tensor *x) {
    rg_conv_module *self = (rg_conv_module *)m;
    rg_conv_options o = { .stride = 1,
                          .strides = self->stride,
                          .dilation = 1,
                          .dilations = self->dilation,
                          .groups = self->groups };
    if (self->padding_mode != RG_CONSTANT)
        x = rg_pad_with(x, conv_around(self), self->padding_mode, 0);
    else if (self->padding_text)
        o.padding = strcmp(self->padding_text, "same") ? RG_VALID : RG_SAME;
    else
        o.paddings = self->padding;
    return self->dims == 1 ? rg_conv1d_with(x, self->weight, self->bias, o)
                           : rg_conv2d_with(x, self->weight, self->bias, o);
}

/* ---- the repr of Conv1d and Conv2d --------------------------------------------------- */

static const char *const conv_modes[] = { "zeros", "reflect", "replicate", "circular" };

/* Appends ", name=(2, 3)" to the text or, if v has one element, ", name=(2,)". Returns the text's
 * new length. */
static int conv_tuple(char *text, size_t room, int at, const char *name, const rg_dims *v) {
    at += snprintf(text + at, room - (size_t)at, ", %s=(%lld,", name, (long long)v->v[0]);
    if (v->n == 1)
        return at + snprintf(text + at, room - (size_t)at, ")");
    return at + snprintf(text + at, room - (size_t)at, " %lld)", (long long)v->v[1]);
}

static bool conv_all(const rg_dims *v, int64_t number) {
    return v->v[0] == number && v->v[v->n - 1] == number;
}

/* Writes the module's repr. Some options are shown only if they differ from torch's defaults. */
static void conv_module_repr(rg_module *m, char *text, size_t room) {
    rg_conv_module *self = (rg_conv_module *)m;
    int at = snprintf(text, room, "%lld, %lld", (long long)self->in_channels,
                      (long long)self->out_channels);
    at = conv_tuple(text, room, at, "kernel_size", &self->kernel_size);
    at = conv_tuple(text, room, at, "stride", &self->stride);
    if (self->padding_text)
        at += snprintf(text + at, room - (size_t)at, ", padding=%s", self->padding_text);
    else if (!conv_all(&self->padding, 0))
        at = conv_tuple(text, room, at, "padding", &self->padding);
    if (!conv_all(&self->dilation, 1))
        at = conv_tuple(text, room, at, "dilation", &self->dilation);
    if (self->groups != 1)
        at += snprintf(text + at, room - (size_t)at, ", groups=%lld", (long long)self->groups);
    if (self->bias == RG_NONE)
        at += snprintf(text + at, room - (size_t)at, ", bias=False");
    if (self->padding_mode != RG_CONSTANT)
        snprintf(text + at, room - (size_t)at, ", padding_mode=%s", conv_modes[self->padding_mode]);
}

static const rg_module_class conv1d_module_class = { .name = "Conv1d",
                                                     .forward = conv_module_forward,
                                                     .extra_repr = conv_module_repr };
static const rg_module_class conv2d_module_class = { .name = "Conv2d",
                                                     .forward = conv_module_forward,
                                                     .extra_repr = conv_module_repr };

/* ---- constructors of Conv1d and Conv2d ----------------------------------------------- */

typedef bool conv_range(const char *op, const char *what, int n, const int64_t *v);

/* Stores one number for each spatial dim in *to: the elements of `list`. If the list has one
 * element, each number is that element. If the list is empty, each number is `number`. Fails if
 * both are given, that is, if the list isn't empty and `number` isn't `absent`, its default. Also
 * fails if the list has another length than 0, 1 or `dims`, or if `range`, unless it is NULL,
 * refuses the numbers. */
static bool conv_sizes(const char *name, const char *what, int dims, int64_t number, int64_t absent,
                       rg_dims list, conv_range *range, rg_dims *to) {
    if (!rgi_given_once(name, what, number, absent, list.n))
        return false;
    RG_FAIL_IF(list.n < 0 || (list.n > 1 && list.n != dims), name,
               "expected a single integer value or a list of %d values", dims);
    to->n = dims;
    for (int d = 0; d < dims; d++)
        to->v[d] = list.n ? list.v[list.n > 1 ? d : 0] : number;
    return !range || range(name, what, dims, to->v);
}

/* `same` says that padding = "same" was asked for. o->strides has one element for each spatial
 * dim. */
static bool conv_allows(const char *name, int64_t in, int64_t out, bool same,
                        const rg_conv_module_options *o) {
    const int64_t groups = o->groups;
    const bool strided = !conv_all(&o->strides, 1);
    RG_FAIL_VALUE_IF(groups <= 0, name, "groups must be a positive integer");
    RG_FAIL_VALUE_IF(in % groups, name, "in_channels must be divisible by groups");
    RG_FAIL_VALUE_IF(out % groups, name, "out_channels must be divisible by groups");
    RG_FAIL_VALUE_IF(same && strided, name,
                     "padding='same' is not supported for strided convolutions");
    RG_FAIL_VALUE_IF((unsigned)o->padding_mode > RG_CIRCULAR, name,
                     "padding_mode must be one of {'zeros', 'reflect', 'circular', 'replicate'}, "
                     "but got padding_mode='%d'",
                     (int)o->padding_mode);
    return true;
}

/* Makes a Conv1d or Conv2d. Draws first the weight and then the bias, as torch does, from
 * U(-1/sqrt(fan in), 1/sqrt(fan in)). Returns NULL on failure. */
static rg_conv_module *conv_new(const rg_module_class *cls, int dims, int64_t in, int64_t out,
                                rg_dims kernel, rg_conv_module_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    const bool same = !o.paddings.n && o.padding == RG_SAME;
    const bool valid = !o.paddings.n && o.padding == RG_VALID;
    if (same || valid)
        o.padding = 0;
    /* In modes other than RG_CONSTANT, rg_pad computes the padding. If that is negative, it removes
     * elements. */
    conv_range *paddings = o.padding_mode == RG_CONSTANT ? rgi_want_non_negative : NULL;
    conv_range *positive = rgi_want_positive;
    const char *name = cls->name;
    if (!conv_sizes(name, "kernel_size", dims, 0, 0, kernel, positive, &kernel)
        || !conv_sizes(name, "stride", dims, o.stride, 1, o.strides, positive, &o.strides)
        || !conv_sizes(name, "padding", dims, o.padding, 0, o.paddings, paddings, &o.paddings)
        || !conv_sizes(name, "dilation", dims, o.dilation, 1, o.dilations, positive, &o.dilations)
        || !conv_allows(cls->name, in, out, same, &o))
        return NULL;
    rg_dims shape = { .n = dims + 2, .v = { out, in / o.groups } };
    double fan = (double)(in / o.groups);
    for (int d = 0; d < dims; d++) {
        shape.v[d + 2] = kernel.v[d];
        fan *= (double)shape.v[d + 2];
    }
    const char *word = valid ? "valid" : NULL;
    rg_conv_module *self =
        RG_MODULE(rg_conv_module, cls, .dims = dims, .in_channels = in, .out_channels = out,
                  .groups = o.groups, .kernel_size = kernel, .stride = o.strides,
                  .padding = o.paddings, .dilation = o.dilations,
                  .padding_text = same ? "same" : word, .padding_mode = o.padding_mode);
    RG_PARAMETER(
        self, weight,
        rg_nn_init_kaiming_uniform_(rg_empty_dims(shape, rg_default_dtype()), .a = sqrt(5)));
    rg_tensor *bias = RG_NONE;
    if (o.bias && RG_UNFAILED_(self)) {
        bias = rg_zeros(out);
        if (fan > 0)
            bias = rg_nn_init_uniform_(bias, -1 / sqrt(fan), 1 / sqrt(fan));
    }
    RG_PARAMETER(self, bias, bias);
    return RG_READY(self);
}

rg_conv_module *(rg_nn_conv1d_with)(int64_t in, int64_t out, rg_dims kernel,
                                    rg_conv_module_options o) {
    return conv_new(&conv1d_module_class, 1, in, out, kernel, o);
}

rg_conv_module *(rg_nn_conv2d_with)(int64_t in, int64_t out, rg_dims kernel,
                                    rg_conv_module_options o) {
    return conv_new(&conv2d_module_class, 2, in, out, kernel, o);
}
