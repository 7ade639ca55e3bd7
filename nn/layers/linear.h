/*
 * linear.h: declares the class of the linear layer inside MultiheadAttention. This layer isn't a
 * Linear, because its class has another name in torch. Also tells modules of both classes from
 * others. Private. The Linear for programs, rg_nn_linear, is in layers.h.
 */
#pragma once

#include "layers.h"

/* The class NonDynamicallyQuantizableLinear, with the name that it has in torch. Its modules
 * compute the same as a Linear. */
extern const rg_module_class rgi_out_proj_class;
/* Returns whether m is of this class or a Linear. Both have the struct rg_linear_module. */
bool rgi_is_linear(const rg_module *m);
