/*
 * unicode.c: looks up the class of a character in a table of ranges, and matches GPT-2's regular
 * expression.
 */
#include "unicode.h"
#include "tensor/base.h"
#include "tensor/files/utf8.h"

#include <stdbool.h>
#include <string.h>

/* Ranges of code points, in ascending order. All code points of a range have the same class. An
 * element is the first code point of a range, times 8, plus the class. */
static const uint32_t unicode_ranges[] = {
#include "unicode_ranges.inc"
};

unsigned rgi_unicode_class(uint32_t code) {
    size_t low = 0, high = RG_COUNT(unicode_ranges);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (unicode_ranges[middle] >> 3 <= code)
            low = middle;
        else
            high = middle;
    }
    return unicode_ranges[low] & 7;
}

unsigned rgi_unicode_at(const char *p, const char *end, size_t *n) {
    uint32_t code = 0;
    *n = rgi_utf8_read(p, end, &code);
    unsigned lower = code | 0x20;
    if (lower >= 'a' && lower <= 'z')
        return RG_UNICODE_LETTER | RG_UNICODE_WORD;
    return rgi_unicode_class(code);
}

unsigned rgi_unicode_before(const char *begin, const char *p, size_t *n) {
    const char *at = p - 1;
    while (at > begin && (*at & 0xC0) == 0x80)
        at--;
    return rgi_unicode_at(at, p, n);
}

/* ---- GPT-2's regular expression ------------------------------------------------------- */

/* Returns the length in bytes of 's, 't, 're, 've, 'm, 'll or 'd, if one of them is at p. Otherwise
 * returns 0. */
static size_t contraction(const char *p, const char *end) {
    static const char *const suffixes[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (*p != '\'')
        return 0;
    for (int i = 0; i < RG_COUNT(suffixes); i++) {
        size_t n = strlen(suffixes[i]);
        if ((size_t)(end - p) > n && memcmp(p + 1, suffixes[i], n) == 0)
            return n + 1;
    }
    return 0;
}

/* Skips the characters of this class that begin at p, and returns the position after them. Sets
 * *last to the length in bytes of the last of them. If there are none, returns p and leaves *last
 * as it is. */
static const char *end_of_kind(const char *p, const char *end, unsigned kind, size_t *last) {
    size_t n;
    while (p < end && (rgi_unicode_at(p, end, &n) & RG_UNICODE_KINDS) == kind) {
        p += n;
        *last = n;
    }
    return p;
}

size_t rgi_gpt2_word(const char *p, const char *end) {
    size_t n = contraction(p, end), last = 0;
    if (n > 0)
        return n;
    const char *q = *p == ' ' && end - p > 1 ? p + 1 : p;
    unsigned kind = rgi_unicode_at(q, end, &n) & RG_UNICODE_KINDS;
    if (kind != RG_UNICODE_SPACE)
        return (size_t)(end_of_kind(q, end, kind, &last) - p);
    /* The match is white space. If several white space characters are followed by another
     * character, the last white space character belongs to the next match. But if there is only
     * one, it is a match of its own. */
    q = end_of_kind(p, end, RG_UNICODE_SPACE, &last);
    if (q < end && (size_t)(q - p) > last)
        q -= last;
    return (size_t)(q - p);
}
