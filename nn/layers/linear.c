/*
 * linear.c: the module Linear: y = x weight^T + bias.
 */
#include "linear.h"
#include "init.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"

#include <math.h>
#include <stdio.h>

static rg_tensor *linear_module_forward(rg_module *m, rg_tensor *x) {
    rg_linear_module *self = (rg_linear_module *)m;
    return rg_linear(x, self->weight, self->bias);
}

static void linear_module_repr(rg_module *m, char *text, size_t room) {
    rg_linear_module *self = (rg_linear_module *)m;
    snprintf(text, room, "in_features=%lld, out_features=%lld, bias=%s",
             (long long)self->in_features, (long long)self->out_features,
             rgi_python_bool(self->bias != RG_NONE));
}

static const rg_module_class linear_module_class = { .name = "Linear",
                                                     .forward = linear_module_forward,
                                                     .extra_repr = linear_module_repr };

const rg_module_class rgi_out_proj_class = { .name = "NonDynamicallyQuantizableLinear",
                                             .forward = linear_module_forward,
                                             .extra_repr = linear_module_repr };

bool rgi_is_linear(const rg_module *m) {
    return m->cls == &linear_module_class || m->cls == &rgi_out_proj_class;
}

/* Draws first the weight and then the bias, as torch does, from U(-1/sqrt(in), 1/sqrt(in)). */
rg_linear_module *(rg_nn_linear_with)(int64_t in, int64_t out, rg_linear_options o) {
    RG_AS("Linear");
    RG_SCOPE();
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    rg_linear_module *self = RG_MODULE(rg_linear_module, &linear_module_class, .in_features = in,
                                       .out_features = out);
    RG_PARAMETER(self, weight, rg_nn_init_kaiming_uniform_(rg_empty(out, in), .a = sqrt(5)));
    /* If bound is 0, -bound would be -0, but 0 - bound is 0. In torch, too, the bias of a layer
     * without inputs is 0 and not -0. */
    RG_PARAMETER(self, bias,
                 o.bias ? rg_nn_init_uniform_(rg_empty(out), 0 - bound, bound) : RG_NONE);
    return RG_READY(self);
}
