/*
 * load_optim.h: loading an optimizer's state in two steps, as nn/state.h loads a module's state.
 * Private.
 */
#pragma once

#include "optimizer_structs.h"

/* A load. Its entries are the names in the optimizer's state, with the dictionary's values. */
typedef struct rg_optim_load {
    rg_optim *optim;
    struct optim_entry *v;
    int n;
    rg_map places;  /* Maps names to entries' indices. */
    bool *loaded;   /* Whether the dictionary has a state of slot i. */
    rg_lbfgs lbfgs; /* LBFGS's new state. */
    bool torchs;    /* The dictionary has torch's names. */
} rg_optim_load;

/* Returns the dictionary with regard's names, as rg_optim_state_dict writes it. It may come from
 * torch.save: sets *torchs to that. The scope owns it. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);
/* The two steps, for a valid optimizer, and a list whose entries have names. The end can't fail.
 * torch's dictionary has no schedules, so schedules keep their state then. */
bool rgi_optim_load_begin(rg_optim_load *l, rg_optim *o, rg_named_list dict, bool torchs);
void rgi_optim_load_end(rg_optim_load *l, bool go);
