/*
 * vector.h: all parameters as one vector, and back: torch.nn.utils.parameters_to_vector.
 */
#pragma once

#include "module.h"

RG_PUBLIC_BEGIN

/* Returns the concatenated parameters; gradients flow back to them. */
rg_tensor *rg_parameters_to_vector(rg_list parameters);
/* Makes each parameter a view of its part of the vector, as torch does: they share memory from then
 * on. On failure, such as a short vector, nothing has changed. */
bool rg_vector_to_parameters(rg_tensor *vector, rg_list parameters);

RG_PUBLIC_END
