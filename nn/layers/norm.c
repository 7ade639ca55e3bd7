/*
 * norm.c: LayerNorm, RMSNorm and GroupNorm. Weights are initialised with ones, biases with zeros.
 */
#include "layers.h"
#include "autograd/checks.h"
#include "tensor/error.h"
#include "tensor/text/python_text.h"
#include "tensor/shape.h"

#include <stdio.h>

/* Makes a norm module. `shape` is stored in the module's field of that name, and `affine` is the
 * shape of the weight and of the bias. has_bias is false for a class without a bias (RMSNorm). */
static rg_norm_module *norm_new(const rg_module_class *cls, rg_dims shape, rg_dims affine,
                                bool has_bias, rg_norm_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    o.bias = o.bias && o.elementwise_affine;
    rg_norm_module *self = RG_MODULE(rg_norm_module, cls, .shape = shape, .o = o);
    rg_dtype dtype = rg_default_dtype();
    RG_PARAMETER(self, weight, o.elementwise_affine ? rg_ones_dims(affine, dtype) : RG_NONE);
    if (has_bias)
        RG_PARAMETER(self, bias, o.bias ? rg_zeros_dims(affine, dtype) : RG_NONE);
    return RG_READY(self);
}

static double norm_eps(double eps) { return eps == RG_OWN_EPS ? 1e-5 : eps; }

/* Writes a shape as a Python tuple: "()", "(2,)", "(2, 3)". Returns the number of bytes written. */
static size_t norm_shape_repr(rg_dims shape, char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, "(");
    for (int d = 0; d < shape.n; d++)
        at += (size_t)snprintf(text + at, room - at, "%s%lld", d ? ", " : "",
                               (long long)shape.v[d]);
    at += (size_t)snprintf(text + at, room - at, "%s", shape.n == 1 ? ",)" : ")");
    return at;
}

/* ---- LayerNorm: (x - mean) / sqrt(variance + eps) * weight + bias -------------- */

static rg_tensor *layer_norm_module_forward(rg_module *m, rg_tensor *x) {
    rg_norm_module *self = (rg_norm_module *)m;
    return rg_layer_norm(x, self->shape, self->weight, self->bias, self->o.eps);
}

static void layer_norm_module_repr(rg_module *m, char *text, size_t room) {
    rg_norm_module *self = (rg_norm_module *)m;
    size_t at = norm_shape_repr(self->shape, text, room);
    snprintf(text + at, room - at, ", eps=%s, elementwise_affine=%s, bias=%s",
             rgi_python_float(self->o.eps), rgi_python_bool(self->o.elementwise_affine),
             rgi_python_bool(self->o.bias));
}

static const rg_module_class layer_norm_module_class = { .name = "LayerNorm",
                                                         .forward = layer_norm_module_forward,
                                                         .extra_repr = layer_norm_module_repr };

rg_norm_module *rg_nn_layer_norm_with(rg_dims shape, rg_norm_options o) {
    if (!rgi_check_dims("LayerNorm", shape.n))
        return NULL;
    o.eps = norm_eps(o.eps);
    return norm_new(&layer_norm_module_class, shape, shape, true, o);
}

/* ---- RMSNorm: x / sqrt(mean(x^2) + eps) * weight ------------------------------- */

static rg_tensor *rms_norm_module_forward(rg_module *m, rg_tensor *x) {
    rg_norm_module *self = (rg_norm_module *)m;
    return rg_rms_norm(x, self->shape, self->weight, self->o.eps);
}

static void rms_norm_module_repr(rg_module *m, char *text, size_t room) {
    rg_norm_module *self = (rg_norm_module *)m;
    size_t at = norm_shape_repr(self->shape, text, room);
    snprintf(text + at, room - at, ", eps=%s, elementwise_affine=%s",
             self->o.eps == RG_OWN_EPS ? "None" : rgi_python_float(self->o.eps),
             rgi_python_bool(self->o.elementwise_affine));
}

static const rg_module_class rms_norm_module_class = { .name = "RMSNorm",
                                                       .forward = rms_norm_module_forward,
                                                       .extra_repr = rms_norm_module_repr };

rg_norm_module *rg_nn_rms_norm_with(rg_dims shape, rg_norm_options o) {
    if (!rgi_check_dims("RMSNorm", shape.n))
        return NULL;
    return norm_new(&rms_norm_module_class, shape, shape, false, o);
}

/* ---- GroupNorm: LayerNorm over each group of channels, weight and bias by channel - */

static rg_tensor *group_norm_module_forward(rg_module *m, rg_tensor *x) {
    rg_norm_module *self = (rg_norm_module *)m;
    return rg_group_norm(x, self->shape.v[0], self->weight, self->bias, self->o.eps);
}

static void group_norm_module_repr(rg_module *m, char *text, size_t room) {
    rg_norm_module *self = (rg_norm_module *)m;
    snprintf(text, room, "%lld, %lld, eps=%s, affine=%s, bias=%s", (long long)self->shape.v[0],
             (long long)self->shape.v[1], rgi_python_float(self->o.eps),
             rgi_python_bool(self->o.elementwise_affine), rgi_python_bool(self->o.bias));
}

static const rg_module_class group_norm_module_class = { .name = "GroupNorm",
                                                         .forward = group_norm_module_forward,
                                                         .extra_repr = group_norm_module_repr };

rg_norm_module *(rg_nn_group_norm_with)(int64_t groups, int64_t channels, rg_norm_options o) {
    if (!rgi_want_positive("GroupNorm", "num_groups", 1, &groups))
        return NULL;
    RG_FAIL_VALUE_IF(channels % groups, "GroupNorm",
                     "num_channels (%lld) must be divisible by num_groups (%lld)",
                     (long long)channels, (long long)groups);
    o.eps = norm_eps(o.eps);
    return norm_new(&group_norm_module_class, RG_DIMS(groups, channels), RG_DIMS(channels), true,
                    o);
}
