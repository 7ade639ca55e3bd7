/*
 * utf8.h: reads and writes one character of UTF-8. The reader refuses encodings that are longer
 * than necessary, surrogates, and characters above U+10FFFF. The writer checks nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bytes of a character whose first byte is `lead`. Requires that `lead` isn't
 * ASCII. */
static inline size_t rgi_utf8_width(unsigned lead) {
    if (lead >= 0xF0)
        return 4;
    return lead >= 0xE0 ? 3 : 2;
}

/* Reads the character at p: sets *code to the character's number, and returns the number of its
 * bytes. Returns 0 if there is no complete and valid character before `end`. */
static inline size_t rgi_utf8_read(const char *p, const char *end, uint32_t *code) {
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *u = (const unsigned char *)p;
    if (p >= end)
        return 0;
    if (*u < 0x80) {
        *code = *u;
        return 1;
    }
    const size_t n = rgi_utf8_width(*u);
    if (*u < 0xC2 || *u > 0xF4 || (size_t)(end - p) < n)
        return 0;
    uint32_t c = *u & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3F);
    }
    *code = c;
    return c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0 : n;
}

/* Returns whether all n bytes are valid UTF-8. */
static inline bool rgi_is_utf8(const char *text, size_t n) {
    const char *end = text + n;
    uint32_t code;
    for (size_t wide = 1; text < end && wide > 0; text += wide)
        wide = rgi_utf8_read(text, end, &code);
    return text == end;
}

/* Writes the character with the code point `code` to p in UTF-8. Returns the number of bytes that
 * it has written, at most 4. */
static inline size_t rgi_utf8_write(char *p, uint32_t code) {
    static const uint8_t lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    if (code < 0x80) {
        *p = (char)code;
        return 1;
    }
    size_t n = 2 + (size_t)(code >= 0x800) + (size_t)(code >= 0x10000);
    for (size_t i = n - 1; i > 0; i--) {
        p[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    *p = (char)(lead[n] | code);
    return n;
}
