/*
 * state.h: loading a module's values in two steps. The first step checks that all values can be
 * loaded, and the second copies them. Therefore a checkpoint can check all its parts before it
 * changes any of them.
 */
#pragma once

#include "given.h"
#include "tensor/map.h"
#include "tensor/text/text.h"

/* A list of named values, with a map from each name to its index in the list. No name may come
 * twice. */
typedef struct rg_dictionary {
    rg_named_list list;
    rg_map places;
} rg_dictionary;

/* Fails and returns false unless each entry of a dictionary has a name and a value (a tensor or
 * RG_NONE), and no name comes twice. */
bool rgi_state_given(rg_named_list dict, const char *op);

/* Returns whether a dictionary may lack m's value of this key: the module then keeps its own value.
 * As in torch, a dictionary may lack BatchNorm's num_batches_tracked, which old versions of torch
 * didn't save. */
bool rgi_state_may_lack(const rg_module *m, const char *key);

/* A load_state_dict in progress. `own` lists the module's tensors, and `dict` the values that the
 * second step copies to them. `complaint` is the text of the errors that the first step has
 * found. */
typedef struct rg_module_load {
    rg_module *module;
    rg_dictionary own, dict;
    /* The keys of `own` that `dict` lacks, and the keys of `dict` that `own` lacks. */
    rg_names missing, unexpected;
    rg_text complaint;
} rg_module_load;

/* First step: fills *l, and checks that the module can load the dictionary. If not, fails with
 * torch's errors and returns false; then rgi_module_load_end needn't be called. The scope that is
 * open at this call must stay open until rgi_module_load_end. */
bool rgi_module_load_begin(rg_module_load *l, void *m, rg_named_list dict, bool strict);
/* Second step: copies the values if `go` is true, and frees the memory of the load in either case.
 * Returns whether the values were copied. */
bool rgi_module_load_end(rg_module_load *l, bool go);
