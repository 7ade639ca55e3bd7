/*
 * bpe.h: byte pair encoding. A merge replaces two adjacent tokens by one. This file declares the
 * table of merges, and a function that merges the tokens of a word until no merge is possible.
 * Private.
 */
#pragma once

#include "tensor/memory.h"

/* A merge: the token `left`, followed by the token `right`, is replaced by the token `made`. If
 * several merges are possible, the one with the lowest rank is made first. */
typedef struct {
    uint32_t left, right, rank, made;
} rg_merge;

/* A table of merges, sorted by the left token and then by the right one. */
typedef struct {
    rg_merge *v;
    size_t n, room;
    /* The merges whose left token is t have the indices first[t] to first[t + 1] - 1. `first` has
     * one element more than there are tokens. This last element ends the merges of the last
     * token. */
    uint32_t *first;
    size_t first_room;
} rg_merges;

/* Appends a merge. Its rank is the number of merges that were added before. Returns false if memory
 * runs out. */
bool rgi_merges_add(rg_merges *m, uint32_t left, uint32_t right, uint32_t made);
/* Sorts the table and fills `first`; the merges can be looked up only after that. Tokens are
 * numbered from 0 to `tokens` - 1. If several merges have the same left and right tokens, only the
 * one that was added last is kept. Returns false if memory runs out. */
bool rgi_merges_ready(rg_merges *m, size_t tokens);
void rgi_merges_free(rg_merges *m);

/* A word that is being merged: a linked list of its tokens, and a heap of the possible merges. The
 * struct begins as { 0 }. It is used again for the next word, so that its memory needn't be
 * allocated again. */
typedef struct {
    struct rg_bpe_symbol *symbols;
    struct rg_bpe_due *heap;
    size_t n, room, due, due_room;
} rg_bpe;

/* Appends a token, which stands for some bytes of the text, to the word. Returns false if memory
 * runs out or the word is too long. */
bool rgi_bpe_add(rg_bpe *w, uint32_t token, size_t bytes);
/* Merges the word's tokens until no merge is possible, in time O(n log n). Returns false if memory
 * runs out. */
bool rgi_bpe_merge(rg_bpe *w, const rg_merges *m);
/* Iterates over the word's tokens: *at must be 0 at first. Sets *token to the next token, and
 * *bytes to the number of bytes that it stands for. Returns false if there are no more. */
bool rgi_bpe_next(const rg_bpe *w, uint32_t *at, int64_t *token, size_t *bytes);
void rgi_bpe_free(rg_bpe *w);
