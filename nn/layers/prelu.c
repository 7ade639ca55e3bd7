/*
 * prelu.c: the module PReLU, which returns x if x > 0, otherwise slope * x. The slope is a
 * parameter: one number for all channels, or one for each.
 */
#include "layers.h"
#include "tensor/error.h"

#include <stdio.h>

static rg_tensor *prelu_module_forward(rg_module *m, rg_tensor *x) {
    return rg_prelu(x, ((rg_prelu_module *)m)->weight);
}

static void prelu_module_repr(rg_module *m, char *text, size_t room) {
    long long n = ((rg_prelu_module *)m)->num_parameters;
    snprintf(text, room, "num_parameters=%lld", n);
}

static const rg_module_class prelu_module_class = { .name = "PReLU",
                                                    .forward = prelu_module_forward,
                                                    .extra_repr = prelu_module_repr };

rg_prelu_module *rg_nn_prelu_with(rg_prelu_options o) {
    RG_AS("PReLU");
    RG_SCOPE();
    rg_prelu_module *self = RG_MODULE(rg_prelu_module, &prelu_module_class,
                                      .num_parameters = o.num_parameters);
    RG_PARAMETER(self, weight, rg_full(RG_DIMS(o.num_parameters), o.init));
    return RG_READY(self);
}
