/*
 * tokenizer_struct.h: the struct of a tokenizer. It is filled by tokenizer_load.c, used by
 * tokenizer.c (decoding) and tokenizer_encode.c (encoding), and freed by tokenizer.c. Private.
 */
#pragma once

#include "bpe.h"
#include "tokenizer.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef struct {
    const char *text; /* The token as the vocabulary writes it. The map `names` owns the string. */
    uint32_t bytes;   /* The length of `text` in bytes. */
    bool model;       /* The token is in the vocabulary of the model, so merges can produce it. */
    bool added;       /* The token is searched for in a text before the text is cut into words. */
    bool special;
    bool single_word, lstrip, rstrip;
    bool normalized; /* The token is searched for after the added tokens without this flag. */
} rg_token;

/* Tokens that are searched for in a text. v holds the ids of these n tokens, sorted by the tokens'
 * first byte. Among tokens with the same first byte, long ones come first. */
typedef struct {
    uint32_t *v;
    size_t n, room;
    /* Tokens that begin with byte b have the indices from first[b] to first[b + 1] - 1 in v. */
    uint32_t first[257];
} rg_added_tokens;

struct rg_tokenizer {
    rg_handle handle;
    rg_map names; /* Maps the strings of tokens to ids. */
    rg_token *tokens;
    size_t n, room;
    /* The decoded bytes of all tokens, one after the other. Token i's bytes have the indices
     * bytes_at[i] to bytes_at[i + 1] - 1. */
    char *bytes;
    uint64_t *bytes_at;
    size_t bytes_room, bytes_at_room;
    size_t longest; /* The length in bytes of the model's longest token. */
    rg_merges merges;
    /* Maps each byte to its token, or to -1 if the vocabulary has no token for it. */
    int64_t of_byte[256];
    /* The token that replaces bytes without a token. -1 means that such bytes are dropped. */
    int64_t unknown;
    bool fuse_unknown;  /* Adjacent bytes without a token are replaced by a single unknown token. */
    bool ignore_merges; /* If a whole word is a token, its bytes aren't merged step by step. */
    bool prefix_space;  /* Each text between added tokens gets a leading blank if it lacks one. */
    bool words;         /* Texts are cut into words first, by GPT-2's regular expression. */
    rg_added_tokens plain, normalized;
};

/* Writes to `to`, as UTF-8, the character by which vocabularies represent the byte. Returns the
 * character's length, 1 or 2 bytes. */
size_t rgi_byte_character(unsigned char byte, char *to);
/* Frees the tokenizer and all its memory. Unlike rg_tokenizer_free, doesn't check that t is a
 * tokenizer that hasn't been freed. */
void rgi_tokenizer_drop(rg_tokenizer *t);
