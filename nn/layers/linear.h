/*
 * linear.h: Linear under the name that it has inside MultiheadAttention. Private; rg_nn_linear is
 * in layers.h.
 */
#pragma once

#include "layers.h"

/* torch calls it NonDynamicallyQuantizableLinear. */
extern const rg_module_class rgi_out_proj_class;
