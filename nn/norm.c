/*
 * norm.c: LayerNorm, RMSNorm and GroupNorm: a weight that begins as ones, a bias as zeros.
 */
#include "nn.h"
#include "tensor/internal.h"

#include <stdio.h>

/* "(2, 3), eps=1e-05, elementwise_affine=True, bias=True" */
static void norm_repr(rg_module *m, char *text, size_t room) {
    rg_norm_module *self = (rg_norm_module *)m;
    bool rms = *m->cls->name == 'R', group = *m->cls->name == 'G';
    size_t at = 0;
    const char *eps = rms && self->o.eps < 0 ? "None"
                                             : rg_str(rg_scalar_dtype(self->o.eps, RG_FLOAT64));
    for (int d = 0; d < self->shape.n; d++)
        at += (size_t)snprintf(text + at, room - at, "%s%lld",
                               d       ? ", "
                               : group ? ""
                                       : "(",
                               (long long)self->shape.v[d]);
    snprintf(text + at, room - at, "%s, eps=%s, %saffine=%s%s%s",
             group                ? ""
             : self->shape.n == 1 ? ",)"
             : self->shape.n      ? ")"
                                  : "()",
             eps ? eps : "", group ? "" : "elementwise_",
             self->o.elementwise_affine ? "True" : "False", rms ? "" : ", bias=",
             rms            ? ""
             : self->o.bias ? "True"
                            : "False");
}

#define NORM(ident, Name, expression)                                                        \
    static rg_tensor *ident##_module_forward(rg_module *m, rg_tensor *x) {                   \
        rg_norm_module *self = (rg_norm_module *)m;                                          \
        return expression;                                                                   \
    }                                                                                        \
    static const rg_module_class ident##_module_class = { .name = Name,                      \
                                                          .forward = ident##_module_forward, \
                                                          .extra_repr = norm_repr };
NORM(layer_norm, "LayerNorm", rg_layer_norm(x, self->shape, self->weight, self->bias, self->o.eps))
NORM(rms_norm, "RMSNorm", rg_rms_norm(x, self->shape, self->weight, self->o.eps))
NORM(group_norm, "GroupNorm",
     rg_group_norm(x, self->shape.v[0], self->weight, self->bias, self->o.eps))

static rg_norm_module *norm_new(const rg_module_class *cls, rg_dims shape, rg_dims affine,
                                rg_norm_options o) {
    RG_AS(cls->name);
    o.bias = o.bias && o.elementwise_affine;
    if (o.eps == -1 && cls != &rms_norm_module_class)
        o.eps = 1e-5;
    rg_norm_module *self = RG_MODULE(rg_norm_module, cls, .shape = shape, .o = o);
    RG_PARAMETER(self, weight,
                 o.elementwise_affine ? rg_ones_dims(affine, rg_default_dtype()) : RG_NONE);
    if (cls != &rms_norm_module_class)
        RG_PARAMETER(self, bias, o.bias ? rg_zeros_dims(affine, rg_default_dtype()) : RG_NONE);
    return RG_READY(self);
}

rg_norm_module *rg_nn_layer_norm_with(rg_dims shape, rg_norm_options o) {
    return rgi_check_dims("LayerNorm", shape.n)
               ? norm_new(&layer_norm_module_class, shape, shape, o)
               : NULL;
}

rg_norm_module *rg_nn_rms_norm_with(rg_dims shape, rg_norm_options o) {
    return rgi_check_dims("RMSNorm", shape.n) ? norm_new(&rms_norm_module_class, shape, shape, o)
                                              : NULL;
}

rg_norm_module *rg_nn_group_norm_with(int64_t groups, int64_t channels, rg_norm_options o) {
    RG_FAIL_VALUE_IF(groups == 0, "GroupNorm", "integer modulo by zero");
    RG_FAIL_VALUE_IF(groups != -1 && channels % groups, "GroupNorm",
                     "num_channels (%lld) must be divisible "
                     "by num_groups (%lld)",
                     (long long)channels, (long long)groups);
    return norm_new(&group_norm_module_class, RG_DIMS(groups, channels), RG_DIMS(channels), o);
}
