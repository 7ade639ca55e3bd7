/*
 * vector.h: concatenates parameters to a vector, and makes parameters views of a vector, as
 * torch.nn.utils.parameters_to_vector and vector_to_parameters do.
 */
#pragma once

#include "../module.h"

RG_PUBLIC_BEGIN

/* Returns the parameters' elements, concatenated in the order of the list. The gradient of the
 * vector flows back to the parameters. Returns NULL on failure. */
rg_tensor *rg_parameters_to_vector(rg_list parameters);
/* Makes each parameter a view of its part of the vector, as torch does: from then on the parameter
 * and the vector share memory. On failure, for instance because the vector is too short, returns
 * false, and nothing has changed. */
bool rg_vector_to_parameters(rg_tensor *vector, rg_list parameters);

RG_PUBLIC_END
