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
 * Each parameter is owned by one rank: a rank owns parameters that are adjacent in the optimizer's
 * list, and all ranks own about the same number of elements. The parameters of a group that is
 * added later are divided in the same way, by themselves. Only the owner has a parameter's
 * state. After rg_sharded_optim_gather, rank 0 has the state of all parameters as well. All ranks
 * must have the same parameters and gradients, which rg_nn_distributed ensures, and the same
 * options.
 */
#pragma once

#include "../optim/optimizer.h"
#include "process_group.h"

RG_PUBLIC_BEGIN

/* Updates the parameters as rg_optim_step does. The new values have the same bits as after
 * rg_optim_step. Each rank updates the parameters that it owns, and sends them to the other ranks.
 * If one rank fails, this function fails on all ranks, and training is halted. After it,
 * rg_optim_step, rg_save_checkpoint and rg_torch_save_checkpoint fail until the rank loads a
 * checkpoint: save by rg_sharded_optim_gather and rg_distributed_save_checkpoint. In a list of
 * rg_optim_state_dict only the states of the rank's own parameters are right. The functions of this
 * file fail while a recording has a step of the optimizer. */
bool rg_sharded_optim_step(rg_optim *o);
/* Sends the state of all parameters to rank 0, so that rank 0 can save a checkpoint. All ranks must
 * call this function. If one rank fails, the call fails on all ranks. */
bool rg_sharded_optim_gather(rg_optim *o);
/* Frees the state of the parameters that other ranks own. Returns false on failure. */
bool rg_sharded_optim_release(rg_optim *o);

RG_PUBLIC_END
