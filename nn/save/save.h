/*
 * save.h: a module's parameters and buffers in a safetensors file, as safetensors.torch's
 * save_model and load_model have them.
 *
 *     rg_module_save(model, "model.safetensors");
 *     rg_module_load(model, "model.safetensors");
 */
#pragma once

#include "../module.h"
#include "../../tensor/files/files.h"

RG_PUBLIC_BEGIN

/* Writes the module's state_dict. What several names share is written once, under the first of
 * those names that has all of the memory; under each other name the metadata say which one. Returns
 * false, and leaves the file that was there, where that fails. */
bool rg_module_save_with(void *m, const char *path, rg_save_file_options o);
#define rg_module_save(m, path, ...) \
    rg_module_save_with(m, path,     \
                        RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))

typedef struct RG_OPTIONS rg_module_load_options {
    RG_BY_NAME;
    /* A name that is missing in the file, or unknown to the module, is an error. */
    bool strict RG_DEFAULT(true);
    /* If this isn't NULL, it gets what was left out, as load_model returns it, sorted. */
    rg_incompatible_keys *keys RG_DEFAULT(NULL);
} rg_module_load_options;
/* Copies the values of a file into the module. Returns false, and changes nothing, where that
 * fails. */
bool rg_module_load_with(void *m, const char *path, rg_module_load_options o);
#define rg_module_load(m, path, ...) \
    rg_module_load_with(m, path, RG_KEYWORDS(rg_module_load_options, (.strict = true), __VA_ARGS__))

RG_PUBLIC_END
