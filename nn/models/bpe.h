/*
 * bpe.h: byte pair encoding: which two tokens that stand side by side become one, and the merging
 * of a word until no two of them do. Private.
 */
#pragma once

#include "tensor/memory.h"

/* Where `right` stands behind `left`, both become `made`. Merges of a lower rank come first. */
typedef struct {
    uint32_t left, right, rank, made;
} rg_merge;

/* The merges of each left token lie side by side, in the order of the right one. */
typedef struct {
    rg_merge *v;
    size_t n, room;
    uint32_t *first; /* The first merge of each left token; there is one more number than tokens. */
    size_t first_room;
} rg_merges;

/* Adds a merge, whose rank is the number of those before it. */
bool rgi_merges_add(rg_merges *m, uint32_t left, uint32_t right, uint32_t made);
/* Sorts the merges of `tokens` tokens. Where a pair was added twice, the last one counts. */
bool rgi_merges_ready(rg_merges *m, size_t tokens);
void rgi_merges_free(rg_merges *m);

/* A word is a list of tokens that are linked, and a heap of the merges that are due. It begins as
 * { 0 } and is used again for the next word. */
typedef struct {
    struct rg_bpe_symbol *symbols;
    struct rg_bpe_due *heap;
    size_t n, room, due, due_room;
} rg_bpe;

/* Adds a token to the word's end. */
bool rgi_bpe_add(rg_bpe *w, uint32_t token);
/* Merges what can be merged. It takes n log n steps. */
bool rgi_bpe_merge(rg_bpe *w, const rg_merges *m);
/* Writes the word's tokens to `to`, which has room for w->n, empties the word, and returns how many
 * they were. */
size_t rgi_bpe_take(rg_bpe *w, int64_t *to);
void rgi_bpe_free(rg_bpe *w);
