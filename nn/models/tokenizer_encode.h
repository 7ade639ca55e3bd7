/*
 * tokenizer_encode.h: encodes one text: finds added tokens in it, normalizes what is between them,
 * cuts that into words, and lets the model make tokens of these. Private.
 */
#pragma once

#include "tokenizer_model.h"

/* The encoding of texts. `seen` has words whose tokens are known; see tokenizer_encode.c. */
typedef struct {
    const rg_tokenizer *t;
    rg_ids ids;
    rg_norm_room norm;
    rg_aligned pre[RG_PRE_MOST];
    rg_model_room model;
    struct rg_seen_word *seen;
    size_t n_seen; /* The number of slots in `seen`, a power of 2. */
} rg_encoding_run;

/* Begins encodings of texts, of which `n` is the length in bytes of the longest. With `offsets`,
 * ids.span has the ranges of the tokens. Returns false if memory runs out. In any case
 * rgi_encoding_end frees the memory. */
bool rgi_encoding_begin(rg_encoding_run *e, const rg_tokenizer *t, size_t n, bool offsets);
/* Appends the tokens of a text of n bytes to e->ids. Fails and returns false if it isn't UTF-8 or
 * has a word that isn't in the vocabulary. */
bool rgi_encode_text(rg_encoding_run *e, const char *text, size_t n);
void rgi_encoding_end(rg_encoding_run *e);
