/* nn.h: torch.nn: modules, containers, layers and losses. */
#pragma once

#include "module.h"
#include "containers.h"
#include "layers.h"
#include "losses.h"
#include "data/data.h"
#include "save.h"
#include "vector.h"
#include "points.h"
