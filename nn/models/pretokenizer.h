/*
 * pretokenizer.h: the steps by which the pre-tokenizer of a tokenizer cuts a text into words, as
 * `tokenizers` has them. Private.
 */
#pragma once

#include "aligned.h"
#include "regex.h"

typedef enum {
    RG_CUT_REMOVED,       /* The matches are dropped. */
    RG_CUT_ISOLATED,      /* Each match is a word. */
    RG_CUT_WITH_PREVIOUS, /* A match belongs to the text before it. */
    RG_CUT_WITH_NEXT,     /* A match belongs to the text after it. */
    RG_CUT_CONTIGUOUS     /* Matches without text between them form one word. */
} rg_cut_behavior;

typedef enum {
    RG_PRE_CUT,    /* Cuts the text at the matches of `regex`; with `invert` at what is between. */
    RG_PRE_PREFIX, /* Puts `text` before a text that doesn't begin with it. */
    RG_PRE_BLANKS, /* Replaces blanks by `text`, and then does what RG_PRE_PREFIX does, if `prefix`
                    * says so. */
    RG_PRE_BYTES /* Replaces each byte by the character that stands for it (rgi_byte_character). */
} rg_pre_kind;

typedef enum { RG_PREFIX_NEVER, RG_PREFIX_ALWAYS, RG_PREFIX_FIRST } rg_prefix;

typedef struct {
    rg_pre_kind kind;
    rg_cut_behavior behavior;
    bool invert;
    rg_prefix prefix; /* RG_PREFIX_FIRST: only before a piece with which the original begins. */
    char text[5];
    rg_regex regex;
} rg_pre_step;

/* Called with each word. Returns false on failure. */
typedef bool (*rg_take_word)(void *to, const rg_piece *word);

enum { RG_PRE_MOST = 16 }; /* The greatest number of steps. */
/* Cuts a piece by n steps and calls `take` with each word, none of which is empty. Step i may write
 * a changed text to room[i]. Returns false on failure. */
bool rgi_pretokenize(const rg_pre_step *steps, size_t n, rg_aligned room[RG_PRE_MOST],
                     const rg_piece *p, rg_take_word take, void *to);
/* Writes to `to`, as UTF-8, the character by which vocabularies represent the byte. Returns the
 * character's length, 1 or 2 bytes. */
size_t rgi_byte_character(unsigned char byte, char *to);
