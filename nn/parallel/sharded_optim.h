/*
 * sharded_optim.h: an optimizer whose state is split among the ranks, as in ZeRO's first stage:
 * torch's ZeroRedundancyOptimizer.
 *
 *     rg_optim *o = rg_optim_adamw(rg_parameters(model), .lr = 3e-4);
 *     rg_distributed_load_checkpoint(path, run);
 *     rg_sharded_optim_release(o);
 *     ...
 *         rg_sharded_optim_step(o);
 *     ...
 *     rg_sharded_optim_gather(o);
 *     rg_distributed_save_checkpoint(path, run);
 *     rg_sharded_optim_release(o);
 *
 * Each parameter belongs to one rank; neighbours belong to the same, such that all ranks have about
 * as many elements. The state of a parameter is on its rank alone. All ranks must have the same
 * parameters and gradients, as rg_nn_distributed sees to, and the same options.
 */
#pragma once

#include "../optim/optimizer.h"
#include "process_group.h"

RG_PUBLIC_BEGIN

/* Makes rg_optim_step's step, with the same bits: each rank updates its own parameters and sends
 * them to the others. If one rank fails, all fail and training is halted. */
bool rg_sharded_optim_step(rg_optim *o);
/* Sends all ranks' states to rank 0, for a checkpoint. */
bool rg_sharded_optim_gather(rg_optim *o);
/* Frees the states of other ranks' parameters. */
bool rg_sharded_optim_release(rg_optim *o);

RG_PUBLIC_END
