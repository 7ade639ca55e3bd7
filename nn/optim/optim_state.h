/*
 * optim_state.h: an optimizer's state as a value of PyTorch's, and loading it in two steps, as
 * nn/state.h loads a module's state. Private.
 */
#pragma once

#include "optimizer.h"
#include "tensor/files/torch/torch_value.h"

/* Writes the optimizer's state: as the value of the key, or alone if the key is NULL. It has
 * torch's form or, if `own`, regard's names and the schedules' numbers. */
void rgi_optim_add(rg_py *p, const char *key, const rg_optim *o, bool own);
/* Writes the schedules that no other schedule steps, as torch.save does: a single one as
 * "scheduler", several as a list "schedulers". */
void rgi_optim_add_schedules(rg_py *p, const rg_optim *o);

/* The kind of the optimizer and the kinds of its schedules, each as a text for a file's metadata,
 * which the scope owns (NULL on failure). */
const char *rgi_optim_kind(const rg_optim *o);
const char *rgi_optim_schedule_kinds(const rg_optim *o);

/* Returns the dictionary with regard's names, as rg_optim_state_dict writes it. Sets *torchs to
 * whether it had torch's names. The scope owns the result. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);

/* The two steps of a load. They require a valid optimizer, and a list whose entries have names. The
 * first step returns NULL on failure. The scope that owns the load must stay open until the second
 * step, which can't fail. */
typedef struct rg_optim_load rg_optim_load;
rg_optim_load *rgi_optim_load_begin(rg_optim *o, rg_named_list dict, bool torchs);
/* Puts the values into the optimizer if `go`, and frees the load's memory. */
void rgi_optim_load_end(rg_optim_load *l, bool go);
