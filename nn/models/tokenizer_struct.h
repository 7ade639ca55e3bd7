/*
 * tokenizer_struct.h: the struct of a tokenizer. The files whose names end with "load" fill
 * it, tokenizer_encode.c encodes with it, tokenizer_decode.c decodes, and tokenizer.c frees it.
 * Private.
 */
#pragma once

#include "bpe.h"
#include "normalizer.h"
#include "pretokenizer.h"
#include "tokenizer.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef struct {
    const char *text; /* The token as the vocabulary writes it. The map `names` owns the string. */
    /* The string that is decoded. It is `text`; but the normalizer has changed that of an added
     * token with the flag `normalized`. */
    const char *decoded;
    uint32_t bytes; /* The length of `text` in bytes. */
    bool model;     /* The token is in the vocabulary of the model. */
    bool added;     /* The token is searched for in a text before the text is cut into words. */
    bool special;
    bool single_word, lstrip, rstrip;
    bool normalized; /* The token is searched for after the added tokens without this flag. */
} rg_token;

/* A string that is searched for in a text: that of the added token `id`, or what the normalizer
 * makes of it. */
typedef struct {
    char *text;
    size_t bytes;
    uint32_t id;
} rg_added_token;

/* The n added tokens that are searched for together, sorted by their first byte. Among those with
 * the same first byte, long ones come first. */
typedef struct {
    rg_added_token *v;
    size_t n, room;
    /* Tokens that begin with byte b have the indices from first[b] to first[b + 1] - 1 in v. */
    uint32_t first[257];
} rg_added_tokens;

typedef enum { RG_MODEL_BPE, RG_MODEL_WORDPIECE, RG_MODEL_WORDLEVEL, RG_MODEL_UNIGRAM } rg_model;

/* A step of a decoder. Each changes the text of one token, up to the steps that join all texts. */
typedef enum {
    RG_DECODE_REPLACE,    /* Replaces each match of `regex` by `text`. */
    RG_DECODE_STRIP,      /* Removes up to `start` and `stop` characters `text` at the ends. */
    RG_DECODE_WORDPIECE,  /* Removes the prefix `text`, or puts a blank before the token. */
    RG_DECODE_BLANKS,     /* Replaces `text` by a blank; with `start`, drops it in the first one. */
    RG_DECODE_BYTES,      /* The characters of the tokens stand for bytes (rgi_byte_character). */
    RG_DECODE_FALLBACK,   /* Tokens such as <0x0A> are bytes. */
    RG_DECODE_STRIP_START /* Removes up to `start` characters `text` from the joined text. */
} rg_decode_kind;
typedef struct {
    rg_decode_kind kind;
    char *text;
    rg_regex regex;
    int64_t start, stop;
    bool cleanup; /* RG_DECODE_WORDPIECE also removes blanks before punctuation. */
} rg_decode_step;

/* A piece of a template: the text number `sequence`, which is 0 or 1, or with -1 the special tokens
 * of which `ids` has n from `first` on. */
typedef struct {
    int sequence;
    int64_t type;
    size_t first, n;
} rg_template_piece;
typedef struct {
    rg_template_piece *v;
    size_t n, room;
} rg_template;

/* Settings by which texts are cut, or batches are filled up. */
typedef enum { RG_LONGEST_FIRST, RG_ONLY_FIRST, RG_ONLY_SECOND } rg_cut_strategy;
typedef struct {
    bool given;     /* The file has an object for it. */
    bool left;      /* Tokens are removed or added at the beginning, not at the end. */
    int64_t length; /* The greatest number of tokens, or the number to fill up to. -1 means the
                     * longest row. */
    int64_t multiple, id, type;
    rg_cut_strategy strategy;
} rg_fit;

struct rg_tokenizer {
    rg_handle handle;
    rg_unicode unicode;
    rg_map names; /* Maps the strings of tokens to ids. */
    rg_token *tokens;
    size_t n, room;
    size_t longest; /* The length in bytes of the model's longest token. */
    rg_added_tokens plain, normalized;
    rg_norm_step *norms;
    rg_pre_step *pres;
    rg_decode_step *decoders;
    size_t n_norms, norms_room, n_pres, pres_room, n_decoders, decoders_room;
    bool fused;            /* The decoder has the step Fuse. */
    bool joined_by_blanks; /* A file without a decoder: blanks are put between tokens. */
    bool by_first;         /* The pre-tokenizer asks where in the original a piece begins. */
    rg_template single, pair;
    int64_t *template_ids;
    size_t n_template_ids, template_ids_room;
    bool trim;          /* White space is no part of a token's offsets. */
    bool trim_prefixed; /* A single blank at the beginning is one, since it was put there. */
    rg_fit truncation, padding;

    rg_model model;
    char *prefix, *suffix; /* The prefix of tokens within a word, and the suffix of the last one.
                            * NULL if there is none. */
    /* The token of words or characters that aren't in the vocabulary. -1 means that there is none:
     * then BPE drops them. */
    int64_t unknown;
    int64_t most_characters; /* The length from which on words are unknown to WordPiece. */
    rg_merges merges;        /* The merges of BPE, to which the next five fields belong, too. */
    bool fuse_unknown;  /* Adjacent unknown characters are replaced by a single unknown token. */
    bool ignore_merges; /* If a whole word is a token, its characters aren't merged step by step. */
    /* The characters of words are bytes. A byte has the token of the character that represents it
     * (rgi_byte_character). */
    bool bytes;
    bool byte_fallback; /* An unknown character becomes the tokens of its bytes, such as <0x0A>. */
    /* Maps each byte to its token, for `bytes` or `byte_fallback`; -1 if it has none. */
    int64_t of_byte[256];
    /* Unigram: the scores of the tokens, and the tokens sorted by their strings. */
    double *scores, least_score;
    uint32_t *sorted;
    size_t n_sorted, sorted_room, scores_room;
};

/* Frees the tokenizer and all its memory. Unlike rg_tokenizer_free, doesn't check that t is a
 * tokenizer that hasn't been freed. */
void rgi_tokenizer_drop(rg_tokenizer *t);
/* Fails and returns false if the id is that of no token. */
bool rgi_is_token(const rg_tokenizer *t, int64_t id, const char *op);
