/*
 * sharded_state.h: whether rank 0 has the whole state of an optimizer. Private.
 */
#pragma once

#include "sharded_optim.h"

/* Returns whether rank 0 has the state of each parameter, as the rank that owns the parameter has
 * it. Otherwise fails on all ranks. `op` is the caller's name. Each rank must call this function.
 * At most 64 elements of each tensor of the state are compared. */
bool rgi_state_is_gathered(const char *op, rg_optim *o);
