/*
 * tokenizer_struct.h: what a tokenizer consists of. tokenizer_load.c fills it, tokenizer.c frees it
 * and decodes, and tokenizer_encode.c encodes. Private.
 */
#pragma once

#include "bpe.h"
#include "tokenizer.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef struct {
    const char *text; /* Owned by the table. */
    uint32_t bytes;   /* The bytes of the text. */
    bool model;       /* The vocabulary has the token, and it may come of merges. */
    bool added;       /* The token is looked for in texts before they are cut into words. */
    bool special;
    bool single_word, lstrip, rstrip;
    bool normalized; /* The token is looked for after those that aren't. */
} rg_token;

/* Tokens that are looked for in a text, by their first byte, long ones first. */
typedef struct {
    uint32_t *v;
    size_t n, room;
    uint32_t first[257]; /* Tokens that begin with byte b lie from first[b] to first[b + 1]. */
} rg_added_tokens;

struct rg_tokenizer {
    rg_handle handle;
    rg_map names; /* From the tokens' texts to their numbers. */
    rg_token *tokens;
    size_t n, room;
    /* The text of the i-th token, decoded, lies from bytes_at[i] to bytes_at[i + 1]. */
    char *bytes;
    uint64_t *bytes_at;
    size_t bytes_room, bytes_at_room;
    size_t longest; /* No token of the vocabulary has a longer text. */
    rg_merges merges;
    int64_t of_byte[256]; /* -1: the vocabulary lacks the byte. */
    int64_t unknown;      /* It stands for such a byte, which is left out where this is -1. */
    bool fuse_unknown;    /* One stands for all that lie side by side. */
    bool ignore_merges;   /* A word that is a token is not made of others. */
    bool prefix_space;    /* A text gets a blank in front where it has none. */
    bool words;           /* A text is cut into words first. */
    rg_added_tokens plain, normalized;
};

/* Writes the character by which vocabularies stand for a byte, and returns its bytes, 1 or 2. */
size_t rgi_byte_character(unsigned char byte, char *to);
/* Frees all that the tokenizer holds, and the tokenizer. */
void rgi_tokenizer_drop(rg_tokenizer *t);
