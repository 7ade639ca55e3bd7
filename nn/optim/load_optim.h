/*
 * load_optim.h: loading an optimizer's state in two steps, as nn/state.h loads a module's. Private.
 */
#pragma once

#include "optimizer_structs.h"

/* The entries are names of the optimizer's state, with the dictionary's values for them. */
typedef struct rg_optim_load {
    rg_optim *optim;
    struct optim_entry *v;
    int n;
    rg_map places;  /* It has the entries' places by name. */
    bool *loaded;   /* The dictionary has something of the slot of this number. */
    rg_lbfgs lbfgs; /* The state that LBFGS is to have. */
    bool torchs;    /* The dictionary is torch's. */
} rg_optim_load;

/* Returns the dictionary, which may be one of torch's in a file of torch.save's, as
 * rg_optim_state_dict writes it. Sets *torchs to whether it is torch's. The scope owns it. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);
/* Both steps, for an optimizer that a program may use, and a list whose entries have names. The end
 * can't fail. Where the dictionary is torch's, which knows no schedules, theirs may
 * stay as they are. */
bool rgi_optim_load_begin(rg_optim_load *l, rg_optim *o, rg_named_list dict, bool torchs);
void rgi_optim_load_end(rg_optim_load *l, bool go);
