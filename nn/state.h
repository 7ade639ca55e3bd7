/*
 * state.h: loading a module's values in two steps: the first finds out whether all of it can be
 * loaded, and the second does it. Between the two others can be asked, so that a checkpoint is
 * loaded whole or not at all.
 */
#pragma once

#include "given.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A dictionary with its places by name. Where a name comes twice, the first place counts. */
typedef struct rg_dictionary {
    rg_named_list list;
    rg_map places;
} rg_dictionary;

/* Returns whether each entry of a dictionary has a name, and a tensor or RG_NONE. */
bool rgi_state_given(rg_named_list dict, const char *op);

/* A load takes the tensors of `dict` into `own`, which is the module's. */
typedef struct rg_module_load {
    rg_module *module;
    rg_dictionary own, dict;
    rg_names missing, unexpected; /* These keys of `own` and of `dict` aren't in the other one. */
    rg_text complaint;
} rg_module_load;

/* Fails with torch's complaints where the module can't take the dictionary. Returns false, with
 * nothing to end, on failure. A scope that is open must stay so until the end. */
bool rgi_module_load_begin(rg_module_load *l, void *m, rg_named_list dict, bool strict);
/* Copies the values, if `go`, and frees what the beginning made. */
bool rgi_module_load_end(rg_module_load *l, bool go);
