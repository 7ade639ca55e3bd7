/*
 * identity.c: Identity, which returns its input.
 */
#include "layers.h"

static rg_tensor *identity_module_forward(rg_module *m, rg_tensor *x) {
    (void)m;
    return x;
}

static const rg_module_class identity_module_class = { .name = "Identity",
                                                       .forward = identity_module_forward };

rg_plain_module *rg_nn_identity(void) { return RG_MODULE(rg_plain_module, &identity_module_class); }
