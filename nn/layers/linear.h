/*
 * linear.h: the Linear inside MultiheadAttention, which has another class name in torch. Private;
 * rg_nn_linear is in layers.h.
 */
#pragma once

#include "layers.h"

/* torch calls it NonDynamicallyQuantizableLinear. */
extern const rg_module_class rgi_out_proj_class;
