/*
 * vector.h: all parameters as one vector, and back: torch.nn.utils.parameters_to_vector.
 */
#pragma once

#include "module.h"

RG_PUBLIC_BEGIN

/* Returns the parameters one after the other; gradients flow back into them. */
rg_tensor *rg_parameters_to_vector(rg_list parameters);
/* As torch does, gives each parameter its part of the vector as data: from then on they share its
 * memory. If the vector is too short, or this fails otherwise, nothing has changed. */
bool rg_vector_to_parameters(rg_tensor *vector, rg_list parameters);

RG_PUBLIC_END
