/*
 * unicode.h: what kind of character a code point is, in Unicode 16, as the regular expressions of
 * tokenizers see it; and the words into which GPT-2's expression cuts a text. Private.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The first four are \p{L}, \p{N}, \s and all others. The last is added to one of them where \w
 * takes the character, too. */
enum {
    RG_UNICODE_OTHER = 0,
    RG_UNICODE_LETTER = 1,
    RG_UNICODE_NUMBER = 2,
    RG_UNICODE_SPACE = 3,
    RG_UNICODE_KINDS = 3, /* These four have these bits. */
    RG_UNICODE_WORD = 4
};

/* Returns the class of a code point. */
unsigned rgi_unicode_class(uint32_t code);
/* Both return the class of the character at p, or of the one that ends at p. They require UTF-8,
 * and that there is one. *n is set to its bytes. */
unsigned rgi_unicode_at(const char *p, const char *end, size_t *n);
unsigned rgi_unicode_before(const char *begin, const char *p, size_t *n);

/* Returns how many bytes the first match takes, at p, of
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Requires UTF-8, and p < end. */
size_t rgi_gpt2_word(const char *p, const char *end);
