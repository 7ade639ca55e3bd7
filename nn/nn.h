/* nn.h: includes all headers that correspond to torch.nn (modules, containers, layers and losses),
 * and the headers for loading data and for saving. */
#pragma once

#include "module.h"
#include "containers.h"
#include "layers/layers.h"
#include "layers/losses.h"
#include "data/data.h"
#include "save/save.h"
#include "tools/functional_call.h"
#include "tools/vector.h"
#include "inside/points.h"
