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

/* Writes the module's state_dict. A tensor with several names is written once, under the first name
 * that covers all of its memory; the metadata map the other names to it. On failure returns false,
 * and keeps the previous file. */
bool rg_module_save_with(void *m, const char *path, rg_save_file_options o);
#define rg_module_save(m, path, ...) \
    rg_module_save_with(m, path,     \
                        RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))

typedef struct RG_OPTIONS rg_module_load_options {
    RG_BY_NAME;
    /* Fail if a name is missing in the file or unknown to the module. */
    bool strict RG_DEFAULT(true);
    /* If not NULL, receives the names that weren't loaded, sorted, as load_model returns them. */
    rg_incompatible_keys *keys RG_DEFAULT(NULL);
} rg_module_load_options;
/* Copies a file's values into the module. Returns false on failure, and then changes nothing. */
bool rg_module_load_with(void *m, const char *path, rg_module_load_options o);
#define rg_module_load(m, path, ...) \
    rg_module_load_with(m, path, RG_KEYWORDS(rg_module_load_options, (.strict = true), __VA_ARGS__))

RG_PUBLIC_END
