/*
 * loading.h: loading an optimizer's state and a data loader's in two steps, as nn/state.h loads a
 * module's. Private.
 */
#pragma once

#include "nn/optim/optimizer_structs.h"
#include "nn/state.h"

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

/* The position in this order that a data loader is to have, and the state of its generator. */
typedef struct rg_loader_load {
    struct rg_data_loader *loader;
    rg_tensor *order, *generator; /* The latter is NULL where the loader has none of its own. */
    int64_t position;             /* -1 stands for a place between two epochs. */
} rg_loader_load;

/* Returns whether a generator can take the state, by giving it to one of its own. */
bool rgi_random_state_fits(rg_tensor *state);

/* These two are the same for a data loader. Once the beginning has succeeded, the end can fail only
 * where the generator can't be written to, and then changes nothing. */
bool rgi_loader_load_begin(rg_loader_load *load, struct rg_data_loader *l, rg_named_list dict);
bool rgi_loader_load_end(const rg_loader_load *load);

/* Returns whether a program's checkpoint is whole: nothing that it names is NULL. */
struct rg_checkpoint;
bool rgi_checkpoint_given(const struct rg_checkpoint *run, const char *op);

/* Returns the dictionary, which may be one of torch's in a file of torch.save's, as
 * rg_optim_state_dict writes it. Sets *torchs to whether it is torch's. The scope owns it. */
rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs);
/* These two are the same for an optimizer that a program may use, and a list whose entries have
 * names. Its end can't fail. Where the dictionary is torch's, which knows no schedules, theirs may
 * stay as they are. */
bool rgi_optim_load_begin(rg_optim_load *l, rg_optim *o, rg_named_list dict, bool torchs);
void rgi_optim_load_end(rg_optim_load *l, bool go);
