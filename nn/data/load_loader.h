/*
 * load_loader.h: loading a data loader's state in two steps, as nn/state.h loads a module's state.
 * Private.
 */
#pragma once

#include "data.h"

/* A checked state, which rgi_loader_load_end loads: the order, the position in it, and the
 * generator's state. */
typedef struct rg_loader_load {
    struct rg_data_loader *loader;
    rg_tensor *order, *generator; /* generator: NULL without one of its own. */
    int64_t position;             /* -1 means between two epochs. */
} rg_loader_load;

/* Returns whether a generator accepts the state. Tries it on a temporary generator. */
bool rgi_random_state_fits(rg_tensor *state);

/* The two steps. After a successful begin, end can fail only if the generator can't be written to,
 * and then changes nothing. */
bool rgi_loader_load_begin(rg_loader_load *load, struct rg_data_loader *l, rg_named_list dict);
bool rgi_loader_load_end(const rg_loader_load *load);
