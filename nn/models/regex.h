/*
 * regex.h: the regular expressions in files of tokenizers. It knows what published tokenizers use:
 * alternatives, groups, (?i:..), lookahead, classes of characters with \p, \s, \d and \w, and the
 * quantifiers ? * + {n,m}, also possessive ones. A quantifier other than ? can follow only a single
 * character or class. Private.
 */
#pragma once

#include "unicode.h"
#include "tensor/files/file.h"

/* A regular expression: a list of nodes, of which the match begins with `begin`. */
typedef struct {
    const rg_unicode *unicode;
    struct rg_regex_node *nodes;
    struct rg_regex_range *ranges;
    size_t n, room, n_ranges, ranges_room;
    uint32_t begin;
} rg_regex;

/* Compiles the n bytes of a pattern. The struct must be { 0 } before. Fails and returns false if
 * the pattern isn't a regular expression, uses what isn't supported, or can match an empty text.
 * `where` is the pattern's name in the error message, such as "the pre_tokenizer". */
bool rgi_regex_compile(rg_regex *r, const rg_unicode *u, const rg_file *f, const char *where,
                       const char *pattern, size_t n);
/* Makes an expression that matches exactly this string, which must not be empty. Returns false if
 * memory runs out. */
bool rgi_regex_literal(rg_regex *r, const rg_unicode *u, const char *text);
/* Makes an expression that matches one character that has one of the properties. Returns false if
 * memory runs out. */
bool rgi_regex_property(rg_regex *r, const rg_unicode *u, uint32_t is);
void rgi_regex_free(rg_regex *r);

/* Finds the first match in the text from p to `end`, which must be valid UTF-8. Sets *from and *to
 * to the match, or both to `end` if there is none. Fails and returns false if a match takes more
 * than ten million steps, as with Onig. */
bool rgi_regex_find(const rg_regex *r, const char *p, const char *end, const char **from,
                    const char **to);
