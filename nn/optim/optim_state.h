/*
 * optim_state.h: an optimizer's state as a value of PyTorch's, and loading it in two steps, as
 * nn/state.h loads a module's state. Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

/* Writes the optimizer's state, after the key, if that isn't NULL: as torch.save does or, if `own`,
 * with regard's names, and with the schedules' numbers. */
void rgi_optim_add(rg_py *p, const char *key, const rg_optim *o, bool own);
/* Writes the schedules as torch.save does: one as "scheduler", and several as a list "schedulers",
 * but for those that others step. */
void rgi_optim_add_schedules(rg_py *p, const rg_optim *o);

/* Both return the kinds in a text that the file of a state has. The scope owns the second one, or
 * it is NULL. */
const char *rgi_optim_kind(const rg_optim *o);
const char *rgi_optim_schedule_kinds(const rg_optim *o);

/* Returns the dictionary with regard's names, as rg_optim_state_dict writes it. It may come from
 * torch.save: sets *torchs to that. The scope owns it. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);

/* The two steps, for a valid optimizer, and a list whose entries have names. The first one returns
 * NULL on failure; the scope that owns the load must stay open until the end, which can't fail. */
typedef struct rg_optim_load rg_optim_load;
rg_optim_load *rgi_optim_load_begin(rg_optim *o, rg_named_list dict, bool torchs);
/* Puts the values into the optimizer if `go`, and frees the load's memory. */
void rgi_optim_load_end(rg_optim_load *l, bool go);
