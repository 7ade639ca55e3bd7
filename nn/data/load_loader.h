/*
 * load_loader.h: loads a data loader's state in two steps. The first step checks the state, and the
 * second changes the loader. nn/state.h loads a module's state in the same way. Private.
 */
#pragma once

#include "data.h"

/* A state that the first step has checked: the order of the epoch, the position in it, and the
 * state of the generator. */
typedef struct rg_loader_load {
    struct rg_data_loader *loader;
    /* The order, and the state of the generator. That state is NULL if the loader has no generator
     * of its own. */
    rg_tensor *order, *generator;
    /* The position in the order. -1 if the loader is between two epochs. */
    int64_t position;
} rg_loader_load;

/* Returns whether the tensor is a valid state of a generator. Fails if not. To find out, sets the
 * state of a temporary generator to the tensor. */
bool rgi_random_state_fits(rg_tensor *state);

/* rgi_loader_load_begin is the first step, rgi_loader_load_end the second. If the first step has
 * succeeded, the second can fail only if the program has freed the generator; then it changes
 * nothing. */
bool rgi_loader_load_begin(rg_loader_load *load, struct rg_data_loader *l, rg_named_list dict);
bool rgi_loader_load_end(const rg_loader_load *load);
