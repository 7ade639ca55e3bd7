/*
 * optim_state.h: writes an optimizer's state in the form of PyTorch's files or in regard's own, and
 * loads a state in two steps, as nn/state.h does with a module's. Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

/* Writes the optimizer's state as the value of the key; if the key is NULL, writes it as the whole
 * value. If `own` is false, the form is torch's. If `own` is true, the form is regard's. In it each
 * option is a float, such as "betas.0", each group has the number of its parameters instead of a
 * list, and the state of the schedules is included. First makes the state tensors that are missing
 * (rgi_optim_complete_states), since the state couldn't be loaded without them. If that fails, sets
 * p->failed. */
void rgi_optim_add(rg_py *p, const char *key, rg_optim *o, bool own);
/* Fails and returns false if this rank lacks the present state of parameters that other ranks own,
 * so that a file of the state would be wrong. */
bool rgi_optim_can_be_saved(const rg_optim *o, const char *op);
/* Records that this rank has the states of all parameters. Called after a checkpoint was loaded. */
void rgi_optim_has_all_states(rg_optim *o);
/* Writes the schedules, as programs save them with torch.save: a single schedule under the key
 * "scheduler", several as a list under "schedulers". Omits schedules that another schedule steps,
 * since they are saved as a part of that schedule. */
void rgi_optim_add_schedules(rg_py *p, const rg_optim *o);

/* rgi_optim_kind returns the name of the optimizer's class, rgi_optim_schedule_kinds the names of
 * its schedules' classes, as strings for the metadata of a file. The scope owns the strings. Both
 * functions return NULL on failure. */
const char *rgi_optim_kind(const rg_optim *o);
const char *rgi_optim_schedule_kinds(const rg_optim *o);

/* Returns the dictionary in regard's own form. If torch has saved it, each group lists its
 * parameters: the list becomes one entry with their number. Values that are None, and options that
 * only torch has, are dropped. All other entries are kept, with their names. Sets *torchs to
 * whether a group had such a list. The scope owns the result. On failure .n is -1. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);

/* A loading of a state, in two steps. The first step, rgi_optim_load_begin, reads and checks the
 * whole dictionary, and returns NULL on failure. The second step, rgi_optim_load_end, can't fail.
 * The optimizer must be valid, and each entry of the list must have a name. The scope that is open
 * at the first step must stay open until the second. */
typedef struct rg_optim_load rg_optim_load;
rg_optim_load *rgi_optim_load_begin(rg_optim *o, rg_named_list dict, bool torchs);
/* Second step: puts the values into the optimizer if `go` is true, and frees the memory of the load
 * in either case. */
void rgi_optim_load_end(rg_optim_load *l, bool go);
