/*
 * save.h: writes a module's parameters and buffers to a safetensors file, and loads them, as
 * save_model and load_model of safetensors.torch do.
 *
 *     rg_module_save(model, "model.safetensors");
 *     rg_module_load(model, "model.safetensors");
 */
#pragma once

#include "../module.h"
#include "../../tensor/files/files.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Writes the module's state_dict. Tensors that share memory are written once, under the name of a
 * tensor that covers all of the shared memory. If several tensors do, the first name in
 * alphabetical order is taken; if none does, the function fails. The file's metadata map the names
 * of the other tensors to that name. On failure returns false, and a previous file is kept. */
bool rg_module_save_with(void *m, const char *path, rg_save_file_options o);
#define rg_module_save(m, path, ...) \
    rg_module_save_with(m, path,     \
                        RG_KEYWORDS(rg_save_file_options, (.metadata = { 0 }), __VA_ARGS__))

typedef struct RG_OPTIONS rg_module_load_options {
    RG_BY_NAME;
    /* If true, fail if the file lacks a name or has one that the module doesn't know. */
    rg_flag strict RG_DEFAULT(true);
    /* If this isn't NULL, *keys receives the missing and the unexpected names, as load_model
     * returns them. */
    rg_incompatible_keys *keys RG_DEFAULT(NULL);
} rg_module_load_options;
/* Copies the values in the file to the module. The path may name an index of several files, as for
 * rg_load_file. On failure returns false, and nothing has
 * changed. */
bool rg_module_load_with(void *m, const char *path, rg_module_load_options o);
#define rg_module_load(m, path, ...) \
    rg_module_load_with(m, path, RG_KEYWORDS(rg_module_load_options, (.strict = true), __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_module_save_with(m, path, ...) rg_module_save_with(RG_A_MODULE_(m), path, __VA_ARGS__)
#define rg_module_load_with(m, path, ...) rg_module_load_with(RG_A_MODULE_(m), path, __VA_ARGS__)

RG_PUBLIC_END
