/*
 * vocabulary.h: words or characters as numbers.
 *
 *     rg_vocabulary *word_to_idx = rg_vocabulary_new(sentence);
 *     rg_tensor *sentence_int = rg_encode(word_to_idx, sentence);
 *
 * The vocabulary is {w: i for i, w in enumerate(sorted(set(words)))}.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

typedef struct rg_vocabulary {
    rg_handle handle;
    int64_t n;       /* The number of tokens. */
    int64_t unknown; /* The token for unknown ones has this index, or it is -1. */
    const char **tokens;
    char *drop;
    bool characters;
    /* The library alone uses these two. */
    struct rg_map *index;
    size_t tokens_bytes;
} rg_vocabulary;
typedef struct RG_OPTIONS rg_vocabulary_options {
    RG_BY_NAME;
    /* If true, tokens are UTF-8 characters, white space among them; else words. */
    bool characters RG_DEFAULT(false);
    /* Words are text.replace(",", "").split(), but each of these bytes is taken out, not the comma
     * alone. */
    const char *drop RG_DEFAULT(",");
    /* This token, such as "<unk>", comes last and stands for what isn't known. NULL makes an
     * unknown token an error. */
    const char *unknown RG_DEFAULT(NULL);
} rg_vocabulary_options;
#define rg_vocabulary_new(text, ...) \
    rg_vocabulary_new_with(text, RG_KEYWORDS(rg_vocabulary_options, (.drop = ","), __VA_ARGS__))
rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o);
/* A use after this is noticed (RG_RELEASED) only while the memory isn't in use for something else.
 */
void rg_vocabulary_free(rg_vocabulary *v);
/* Returns word_to_idx[token], or -1 on failure. */
int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token);
/* Returns int64 indices, one for each token of the text. */
rg_tensor *rg_encode(const rg_vocabulary *v, const char *text);
/* Returns the tokens' text, words with a blank between them. The scope owns it. */
const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices);

RG_PUBLIC_END
