/*
 * unicode.h: the class of a code point in Unicode 16, for tokenizers' regular expressions, and the
 * words of GPT-2's expression. Private.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The classes: \p{L}, \p{N}, \s and all others. RG_UNICODE_WORD is a bit that is added to a class
 * if \w matches, too. */
enum {
    RG_UNICODE_OTHER = 0,
    RG_UNICODE_LETTER = 1,
    RG_UNICODE_NUMBER = 2,
    RG_UNICODE_SPACE = 3,
    RG_UNICODE_KINDS = 3, /* The bits of the four classes. */
    RG_UNICODE_WORD = 4
};

/* Returns the class of a code point. */
unsigned rgi_unicode_class(uint32_t code);
/* Return a character's class: of the one at p, and of the one that ends at p. They require UTF-8
 * and that the character exists. *n is set to its length. */
unsigned rgi_unicode_at(const char *p, const char *end, size_t *n);
unsigned rgi_unicode_before(const char *begin, const char *p, size_t *n);

/* Returns the length in bytes of the first match at p of
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Requires UTF-8, and p < end. */
size_t rgi_gpt2_word(const char *p, const char *end);
