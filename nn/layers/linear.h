/*
 * linear.h: the class of the linear layer inside MultiheadAttention. It is a class of its own,
 * because its name in torch isn't Linear. Private. The Linear for programs, rg_nn_linear, is in
 * layers.h.
 */
#pragma once

#include "layers.h"

/* The class named NonDynamicallyQuantizableLinear in torch. It computes the same as Linear. */
extern const rg_module_class rgi_out_proj_class;
