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
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_vocabulary {
    rg_handle handle;
    int64_t n; /* The number of tokens. */
    /* The index of the token that stands for unknown ones. -1 if there is no such token. */
    int64_t unknown;
    const char **tokens;
    char *drop;
    bool characters;
    /* Used by the library alone. */
    struct rg_map *index;
    size_t tokens_bytes;
} rg_vocabulary;
typedef struct RG_OPTIONS rg_vocabulary_options {
    RG_BY_NAME;
    /* If true, the tokens of a text are its UTF-8 characters, white space included. If false, they
     * are its words. As in Python's split(), characters such as U+00A0 count as white space. */
    rg_flag characters RG_DEFAULT(false);
    /* Bytes that are removed from words. With the default, ",", the words are those of
     * text.replace(",", "").split(). */
    const char *drop RG_DEFAULT(",");
    /* A token, such as "<unk>", that stands for unknown tokens. It has the last index, unless it
     * occurs in the text. If NULL, looking up an unknown token is an error. */
    const char *unknown RG_DEFAULT(NULL);
} rg_vocabulary_options;
#define rg_vocabulary_new(text, ...) \
    rg_vocabulary_new_with(text, RG_KEYWORDS(rg_vocabulary_options, (.drop = ","), __VA_ARGS__))
rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o);
/* Frees the vocabulary. A later call with the vocabulary fails with RG_RELEASED, as long as its
 * memory hasn't been reused. */
void rg_vocabulary_free(rg_vocabulary *v);
/* Returns the token's index. If the token is unknown, returns v->unknown, the index of the token
 * that stands for unknown ones. If v->unknown is -1, fails and returns -1. */
int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token);
/* Returns the indices of the text's tokens as an int64 vector. Fails and returns NULL if a token is
 * unknown and no token stands for unknown ones. */
rg_tensor *rg_encode(const rg_vocabulary *v, const char *text);
/* Returns the text of the tokens with these indices. Words are separated by blanks. The scope owns
 * the text. Fails and returns NULL if an index has no token. */
const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices);

RG_PUBLIC_END
