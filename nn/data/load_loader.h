/*
 * load_loader.h: loading a data loader's state in two steps, as nn/state.h loads a module's.
 * Private.
 */
#pragma once

#include "data.h"

/* The position in this order that a data loader is to have, and the state of its generator. */
typedef struct rg_loader_load {
    struct rg_data_loader *loader;
    rg_tensor *order, *generator; /* The latter is NULL where the loader has none of its own. */
    int64_t position;             /* -1 stands for a place between two epochs. */
} rg_loader_load;

/* Returns whether a generator can take the state, by giving it to one of its own. */
bool rgi_random_state_fits(rg_tensor *state);

/* Both steps. Once the beginning has succeeded, the end can fail only
 * where the generator can't be written to, and then changes nothing. */
bool rgi_loader_load_begin(rg_loader_load *load, struct rg_data_loader *l, rg_named_list dict);
bool rgi_loader_load_end(const rg_loader_load *load);
