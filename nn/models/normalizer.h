/*
 * normalizer.h: the steps by which the normalizer of a tokenizer changes a text, as `tokenizers`
 * has them. Private.
 */
#pragma once

#include "aligned.h"
#include "regex.h"

typedef enum {
    RG_NORM_FORM,    /* One of Unicode's normal forms; see the flags. */
    RG_NORM_LOWER,   /* Lower case. */
    RG_NORM_REMOVE,  /* Removes the characters that have one of the properties `is`. */
    RG_NORM_CLEAN,   /* BertNormalizer's clean_text. */
    RG_NORM_CHINESE, /* Puts blanks around Chinese characters. */
    RG_NORM_STRIP,   /* Removes white space at the ends that the flags name. */
    RG_NORM_PREPEND, /* Puts `text` before a text that isn't empty. */
    RG_NORM_REPLACE, /* Replaces each match of `regex` by `text`. */
    RG_NORM_CHARSMAP /* Sentencepiece's table of characters and their replacements. */
} rg_norm_kind;

/* Sentencepiece's table: a double array, which maps strings to offsets in `texts`. There lie the
 * replacements, each of which a 0 ends. The block of memory has `bytes` bytes. */
typedef struct {
    uint8_t *block;
    size_t bytes;
    const uint8_t *units, *texts; /* `units` has 4 bytes for each unit. */
    size_t n_units, n_texts;
} rg_charsmap;

typedef struct {
    rg_norm_kind kind;
    bool compatible, compose; /* NFKC has both, NFKD and NFC one of them, and NFD neither. */
    bool left, right;
    uint32_t is;
    char *text;
    rg_regex regex;
    rg_charsmap charsmap;
} rg_norm_step;

/* Two texts, of which steps read one and write the other. */
typedef struct {
    rg_aligned text[2];
    struct rg_norm_mark *marks; /* Characters that are being put in order. */
    size_t marks_room;
    int last;
} rg_norm_room;

/* Changes *p by n steps. It then is a part of a text in `room`, or as it was. Returns false on
 * failure. */
bool rgi_normalize(const rg_norm_step *steps, size_t n, const rg_unicode *u, rg_norm_room *room,
                   rg_piece *p);
void rgi_norm_room_free(rg_norm_room *room);
void rgi_norm_free(rg_norm_step *step);
/* Replaces each match of the expression in the piece by a text, and appends the whole to `to`.
 * Returns false on failure. */
bool rgi_replace(rg_aligned *to, const rg_regex *regex, const char *text, const rg_piece *p);
/* Reads the table from n characters in base64. `where` is its name in the error message. Fails and
 * returns false if it isn't one. */
bool rgi_charsmap_load(rg_charsmap *c, const rg_file *f, const char *base64, size_t n);
