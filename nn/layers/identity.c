/*
 * identity.c: Identity, which returns its input.
 */
#include "child.h"

static rg_tensor *identity_module_forward(rg_module *m, rg_tensor *x) {
    (void)m;
    return x;
}

const rg_module_class rgi_identity_class = { .name = "Identity",
                                             .forward = identity_module_forward };

rg_plain_module *rg_nn_identity(void) { return RG_MODULE(rg_plain_module, &rgi_identity_class); }
