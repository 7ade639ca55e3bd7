/*
 * char_model.h: a small GPT whose tokens are characters, and its file. char_gpt trains such a
 * model, and export writes it as a C file.
 */
#pragma once

#include "options.h"

/* The options of the model. */
static int64_t block = 64, layers = 4, heads = 4, dim = 64;
static double dropout = 0.1;

static inline rg_gpt *make_model(const rg_vocabulary *vocabulary) {
    rg_gpt *model = rg_nn_gpt(.block_size = block, .vocab_size = vocabulary->n, .n_layer = layers,
                              .n_head = heads, .n_embd = dim, .dropout = dropout);
    if (!model)
        refuse("%s", rg_error());
    return model;
}

/* The metadata of a saved model: the options of the GPT, and its characters. */
static const struct {
    const char *key;
    int64_t *value;
} shape[] = { { "block", &block }, { "layers", &layers }, { "heads", &heads }, { "dim", &dim } };
enum { SHAPES = sizeof shape / sizeof *shape };

/* Saves a model, with its characters, to the file at `path`. */
static inline void save_model(rg_gpt *model, const rg_vocabulary *vocabulary, const char *path) {
    char numbers[SHAPES][24];
    rg_metadata_pair pairs[SHAPES + 1];
    RG_SCOPE();
    for (int i = 0; i < SHAPES; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)*shape[i].value);
        pairs[i] = (rg_metadata_pair){ shape[i].key, numbers[i] };
    }
    const char *characters = rg_decode(vocabulary, rg_arange(vocabulary->n));
    pairs[SHAPES] = (rg_metadata_pair){ "characters", characters };
    rg_module_save(model, path, .metadata = { SHAPES + 1, pairs });
}

/* Returns a value of the metadata of the file at `path`. */
static inline const char *text_of(rg_metadata all, const char *key, const char *path) {
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.v[i].key, key) == 0)
            return all.v[i].value;
    refuse("'%s' doesn't say its %s: char_gpt --save has not written it", path, key);
}

/* Makes a model with the options and weights in the file at `path`. */
static inline rg_gpt *load_model(const char *path, rg_vocabulary **vocabulary) {
    rg_safe_file *f = rg_safe_open(path);
    rg_metadata all = { 0 };
    if (f)
        all = rg_safe_metadata(f);
    rg_safe_close(f);
    if (rg_error_code())
        refuse("%s", rg_error());
    for (int i = 0; i < SHAPES; i++)
        *shape[i].value = atoll(text_of(all, shape[i].key, path));
    *vocabulary = rg_vocabulary_new(text_of(all, "characters", path), .characters = true);
    rg_gpt *model = make_model(*vocabulary);
    if (!rg_module_load(model, path))
        refuse("%s", rg_error());
    return model;
}
