/*
 * tokenizer_model.h: the model of a tokenizer, which makes tokens of one word. Private.
 */
#pragma once

#include "tokenizer_struct.h"

/* Ids of tokens, and with `aligned` also the ranges of the original that they stand for. */
typedef struct {
    int64_t *v;
    rg_byte_range *span;
    size_t n, room, span_room;
    bool aligned;
} rg_ids;
/* Appends a token that stands for the bytes of the word from `from` to `to`. Returns false if
 * memory runs out. */
bool rgi_ids_add(rg_ids *ids, int64_t id, const rg_piece *word, size_t from, size_t to);
void rgi_ids_free(rg_ids *ids);

/* The best way to cut the part of the word before an offset: its score, the last token, and where
 * that begins. There is none unless `found`. `to` is the end of the token that begins here. */
typedef struct {
    double score;
    size_t from, to;
    uint32_t id;
    bool found;
} rg_unigram_node;
/* Memory that a model uses again for each word. It begins as { 0 }. */
typedef struct {
    rg_bpe word;
    char *name;
    rg_unigram_node *nodes;
    size_t name_room, nodes_room;
} rg_model_room;

/* Appends the tokens of a word, which isn't empty, by another model than Unigram. Returns false on
 * failure. */
bool rgi_model_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids, const rg_piece *word);
/* The same for the model Unigram. */
bool rgi_unigram_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                      const rg_piece *word);
/* Sorts the tokens of the model Unigram by their strings. Returns false if memory runs out. */
bool rgi_unigram_sort(rg_tokenizer *t);

/* Returns the id of the model's token that is `before`, n bytes, and `after`. The strings may be
 * NULL. Returns -1 if there is no such token, and -2 if memory runs out. */
int64_t rgi_model_token(const rg_tokenizer *t, rg_model_room *room, const char *before,
                        const char *p, size_t n, const char *after);
/* Appends the tokens of the n bytes at p, such as <0x0A>, each of which stands for the word's bytes
 * from `from` to `to`. Returns 1, 0 if one of the bytes has no token, and -1 if memory runs out. */
int rgi_model_bytes(const rg_tokenizer *t, rg_ids *ids, const rg_piece *word, size_t from,
                    size_t to);
