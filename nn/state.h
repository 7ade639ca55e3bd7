/*
 * state.h: loading a module's values in two steps: the first checks that all can be loaded, and the
 * second copies. A checkpoint checks all its parts before it copies any.
 */
#pragma once

#include "given.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A dictionary with a map of its names, which differ, to indices. */
typedef struct rg_dictionary {
    rg_named_list list;
    rg_map places;
} rg_dictionary;

/* Returns whether each entry of a dictionary has a name that no other has, and a tensor or RG_NONE.
 */
bool rgi_state_given(rg_named_list dict, const char *op);

/* A load: the values of `dict` are copied to `own`, the module's tensors. */
typedef struct rg_module_load {
    rg_module *module;
    rg_dictionary own, dict;
    rg_names missing, unexpected; /* Keys of `own` that `dict` lacks, and the reverse. */
    rg_text complaint;
} rg_module_load;

/* Fails with torch's errors if the module can't load the dictionary. Returns false on failure,
 * after which there is nothing to free. An open scope must stay open until the end. */
bool rgi_module_load_begin(rg_module_load *l, void *m, rg_named_list dict, bool strict);
/* Copies the values if `go`, and frees the load's memory. */
bool rgi_module_load_end(rg_module_load *l, bool go);
