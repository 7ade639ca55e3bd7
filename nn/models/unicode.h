/*
 * unicode.h: the class of a code point in Unicode 16, as the regular expressions of tokenizers need
 * it, and a function that matches GPT-2's regular expression. Private.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The classes of code points: letters (\p{L}), numbers (\p{N}), white space (\s) and all others. If
 * \w matches the code point, the bit RG_UNICODE_WORD is added to the class. */
enum {
    RG_UNICODE_OTHER = 0,
    RG_UNICODE_LETTER = 1,
    RG_UNICODE_NUMBER = 2,
    RG_UNICODE_SPACE = 3,
    RG_UNICODE_KINDS = 3, /* A mask of the bits that hold the class. */
    RG_UNICODE_WORD = 4
};

/* Returns the class of a code point, with RG_UNICODE_WORD if \w matches it. */
unsigned rgi_unicode_class(uint32_t code);
/* rgi_unicode_at returns the class of the character at p, rgi_unicode_before that of the character
 * before p. Both set *n to the character's length in bytes. Requires that the text is valid UTF-8
 * and has such a character. */
unsigned rgi_unicode_at(const char *p, const char *end, size_t *n);
unsigned rgi_unicode_before(const char *begin, const char *p, size_t *n);

/* Returns the length in bytes of the first match at p of
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * The text extends from p to `end`. Requires that it is valid UTF-8 and isn't empty. */
size_t rgi_gpt2_word(const char *p, const char *end);
