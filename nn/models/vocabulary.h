/*
 * vocabulary.h: encodes words or characters as integers.
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
    int64_t unknown; /* The index of the token for unknown ones, or -1. */
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
    /* The bytes that words drop. Words are text.replace(",", "").split() for the default, ",". */
    const char *drop RG_DEFAULT(",");
    /* The token, such as "<unk>", that is last and stands for unknown tokens. If NULL, an unknown
     * token is an error. */
    const char *unknown RG_DEFAULT(NULL);
} rg_vocabulary_options;
#define rg_vocabulary_new(text, ...) \
    rg_vocabulary_new_with(text, RG_KEYWORDS(rg_vocabulary_options, (.drop = ","), __VA_ARGS__))
rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o);
/* Frees the vocabulary. A later use is an error (RG_RELEASED) as long as the allocator hasn't
 * reused the memory. */
void rg_vocabulary_free(rg_vocabulary *v);
/* Returns word_to_idx[token], or -1 on failure. */
int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token);
/* Returns the indices of the text's tokens, int64. */
rg_tensor *rg_encode(const rg_vocabulary *v, const char *text);
/* Returns the tokens' text, with a blank between words. The scope owns it. */
const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices);

RG_PUBLIC_END
