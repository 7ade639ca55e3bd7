/* nn.h: torch.nn: modules, containers, layers and losses. */
#pragma once

#include "module.h"
#include "containers.h"
#include "layers/layers.h"
#include "layers/losses.h"
#include "data/data.h"
#include "save/save.h"
#include "vector.h"
#include "inside/points.h"
