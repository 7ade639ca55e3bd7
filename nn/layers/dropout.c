/*
 * dropout.c: Dropout. In training mode each element is set to zero with probability p, and the
 * other elements are multiplied by 1 / (1 - p). In evaluation mode x is returned.
 */
#include "child.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"

#include <stdio.h>

static rg_tensor *dropout_module_forward(rg_module *m, rg_tensor *x) {
    return rg_dropout(x, ((rg_plain_module *)m)->a, m->training);
}

static void dropout_module_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "p=%s, inplace=False", rgi_python_float(((rg_plain_module *)m)->a));
}

const rg_module_class rgi_dropout_class = { .name = "Dropout",
                                            .forward = dropout_module_forward,
                                            .extra_repr = dropout_module_repr };

rg_plain_module *(rg_nn_dropout)(double p) {
    RG_FAIL_VALUE_IF(!(p >= 0 && p <= 1), "Dropout",
                     "dropout probability has to be between 0 and 1, but got %s",
                     rgi_python_float(p));
    return RG_MODULE(rg_plain_module, &rgi_dropout_class, .a = p);
}
