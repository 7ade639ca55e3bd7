/*
 * tokenizer_struct.h: the struct of a tokenizer. tokenizer_load.c fills it, tokenizer.c frees it
 * and decodes, tokenizer_encode.c encodes. Private.
 */
#pragma once

#include "bpe.h"
#include "tokenizer.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef struct {
    const char *text; /* The table owns it. */
    uint32_t bytes;   /* The length in bytes. */
    bool model;       /* Set if the token is in the vocabulary: merges can yield it. */
    bool added;       /* Found in texts before they are cut into words. */
    bool special;
    bool single_word, lstrip, rstrip;
    bool normalized; /* Found after the tokens that aren't normalized. */
} rg_token;

/* Tokens to find in a text, by their first byte, long ones first. */
typedef struct {
    uint32_t *v;
    size_t n, room;
    uint32_t first[257]; /* Tokens that begin with byte b are first[b] to first[b + 1] - 1. */
} rg_added_tokens;

struct rg_tokenizer {
    rg_handle handle;
    rg_map names; /* Maps the tokens' texts to ids. */
    rg_token *tokens;
    size_t n, room;
    /* Token i, decoded, is at bytes_at[i] to bytes_at[i + 1]. */
    char *bytes;
    uint64_t *bytes_at;
    size_t bytes_room, bytes_at_room;
    size_t longest; /* The longest text of a token. */
    rg_merges merges;
    int64_t of_byte[256]; /* -1 if the vocabulary lacks the byte. */
    int64_t unknown;      /* Replaces missing bytes; -1: drop them. */
    bool fuse_unknown;    /* One replaces a run of missing bytes. */
    bool ignore_merges;   /* A word that is a token isn't merged. */
    bool prefix_space;    /* A blank is put before a text without. */
    bool words;           /* Texts are cut into words first. */
    rg_added_tokens plain, normalized;
};

/* Writes the character that stands for a byte in vocabularies, and returns its length: 1 or 2. */
size_t rgi_byte_character(unsigned char byte, char *to);
/* Frees the tokenizer and all its memory. */
void rgi_tokenizer_drop(rg_tokenizer *t);
