/*
 * ascii.h: kinds of ASCII characters, as in <ctype.h>, but the same in every locale of the program.
 */
#pragma once

#include <stdbool.h>

static inline bool rgi_is_digit(char c) { return c >= '0' && c <= '9'; }

static inline bool rgi_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns whether c can be a part of a name in C. */
static inline bool rgi_is_in_name(char c) {
    return rgi_is_letter(c) || rgi_is_digit(c) || c == '_';
}

static inline bool rgi_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static inline char rgi_to_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
