/*
 * safetensors.c: regard's half of tests/exchange/safetensors.py.
 *
 *     safetensors copy FROM TO     loads a file and saves what is in it, with its metadata
 *     safetensors lazy FROM TO     does the same, but reads the file with rg_safe_open
 *     safetensors gpt FROM TO      loads a file into a small GPT with tied weights and saves it
 */
#include "regard.h"

#include <stdio.h>
#include <string.h>

static bool copy(const char *from, const char *to) {
    rg_safe_file *f = rg_safe_open(from);
    rg_metadata metadata = rg_safe_metadata(f);
    rg_safe_close(f);
    return metadata.n >= 0 && rg_save_file(rg_load_file(from), to, .metadata = metadata);
}

static bool copy_lazily(const char *from, const char *to) {
    rg_named tensors[256];
    rg_safe_file *f = rg_safe_open(from);
    rg_names names = rg_safe_keys(f);
    if (names.n < 0 || names.n > 256)
        return false;
    for (int i = 0; i < names.n; i++)
        tensors[i] = (rg_named){ names.v[i], rg_safe_get_tensor(f, names.v[i]) };
    rg_metadata metadata = rg_safe_metadata(f);
    rg_safe_close(f);
    rg_named_list all = { names.n, tensors };
    return metadata.n >= 0 && rg_save_file(all, to, .metadata = metadata);
}

static bool through_gpt(const char *from, const char *to) {
    rg_gpt *m = rg_nn_gpt(.block_size = 5, .vocab_size = 7, .n_layer = 2, .n_head = 2, .n_embd = 4);
    const rg_metadata_pair pairs[] = { { "format", "pt" } };
    bool ok = rg_module_load(m, from) && rg_module_save(m, to, .metadata = { 1, pairs });
    rg_module_free(m);
    return ok;
}

int main(int argc, char **argv) {
    RG_SCOPE();
    static const struct {
        const char *name;
        bool (*run)(const char *from, const char *to);
    } ways[] = { { "copy", copy }, { "lazy", copy_lazily }, { "gpt", through_gpt } };
    for (size_t i = 0; argc == 4 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0 && ways[i].run(argv[2], argv[3]))
            return 0;
    fprintf(stderr, "%s\n", *rg_error() ? rg_error() : "usage: safetensors copy|lazy|gpt FROM TO");
    return 1;
}
