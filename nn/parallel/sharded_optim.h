/*
 * sharded_optim.h: an optimizer whose state lies in parts on the ranks, as that of ZeRO's first
 * stage: torch's ZeroRedundancyOptimizer.
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

/* Does what rg_optim_step does, to the same bits: each rank moves its own parameters, and gives
 * them to the others. Where it fails on one rank, it returns false and halts training on all. */
bool rg_sharded_optim_step(rg_optim *o);
/* Gives rank 0 the states of all ranks' parameters, as a checkpoint needs them. */
bool rg_sharded_optim_gather(rg_optim *o);
/* Frees the states of other ranks' parameters. */
bool rg_sharded_optim_release(rg_optim *o);

RG_PUBLIC_END
