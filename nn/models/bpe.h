/*
 * bpe.h: byte pair encoding: a table of merges of two adjacent tokens, and merging a word's tokens
 * until no merge is possible. Private.
 */
#pragma once

#include "tensor/memory.h"

/* The token `left` with `right` after it becomes `made`. Merges of a lower rank are made first. */
typedef struct {
    uint32_t left, right, rank, made;
} rg_merge;

/* The merges sorted by left token and then by right token. */
typedef struct {
    rg_merge *v;
    size_t n, room;
    uint32_t *first; /* The index of each left token's first merge, and one past the end. */
    size_t first_room;
} rg_merges;

/* Adds a merge. Its rank is the number of earlier merges. */
bool rgi_merges_add(rg_merges *m, uint32_t left, uint32_t right, uint32_t made);
/* Sorts the merges of `tokens` tokens. If a pair was added twice, the last one counts. */
bool rgi_merges_ready(rg_merges *m, size_t tokens);
void rgi_merges_free(rg_merges *m);

/* A word: a linked list of tokens, and a heap of the possible merges. It begins as { 0 } and is
 * reused for the next word. */
typedef struct {
    struct rg_bpe_symbol *symbols;
    struct rg_bpe_due *heap;
    size_t n, room, due, due_room;
} rg_bpe;

/* Appends a token to the word. */
bool rgi_bpe_add(rg_bpe *w, uint32_t token);
/* Makes all merges. The time is O(n log n). */
bool rgi_bpe_merge(rg_bpe *w, const rg_merges *m);
/* Writes the word's tokens to `to`, which has room for w->n, empties the word, and returns the
 * number of tokens. */
size_t rgi_bpe_take(rg_bpe *w, int64_t *to);
void rgi_bpe_free(rg_bpe *w);
