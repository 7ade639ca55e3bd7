/*
 * documents.h: reads the lines of a UTF-8 text file as documents, like Python's `line.strip() for
 * line in open(path)`: without white space at both ends, and without empty lines.
 */
#pragma once

#include "options.h"

/* A text file's lines. The pointers point into `text`. */
typedef struct {
    uint32_t n;
    const char **v;
    char *text;
} documents;

/* Returns the length in bytes of the UTF-8 character at p. Returns 0 if there is none. */
static inline size_t character_at(const char *p) {
    const unsigned char *c = (const unsigned char *)p;
    if (c[0] < 0x80)
        return 1;
    size_t n = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    /* Overlong encodings, surrogates, and code points above 0x10ffff are invalid. */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f)
        || (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < n; i++)
        if (c[i] >> 6 != 2)
            return 0;
    return n;
}

/* Returns whether the character at p, of n bytes, is white space in the sense of Python's
 * str.isspace. */
static inline bool is_blank(const char *p, size_t n) {
    static const char *const blanks[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
    };
    if (n == 1)
        return (*p >= '\t' && *p <= '\r') || (*p >= 0x1c && *p <= ' ');
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++)
        if (strncmp(blanks[i], p, n) == 0)
            return true;
    return false;
}

/* Removes the white space at both ends of the line at p: writes a 0 after the last character that
 * isn't white space, and sets *begin to the first one. Sets *begin to NULL if the line is blank.
 * Returns the beginning of the next line, or NULL if this is the last line. */
static inline char *strip_line(char *p, char **begin) {
    char *end = p;
    *begin = NULL;
    while (*p && *p != '\n' && *p != '\r') {
        size_t n = character_at(p);
        if (!is_blank(p, n)) {
            *begin = *begin ? *begin : p;
            end = p + n;
        }
        p += n;
    }
    char *next = *p ? p + 1 : NULL;
    *end = 0;
    return next;
}

/* Reads the documents in the file. Free them with free_documents. Stops the program if there are
 * none. */
static inline documents read_documents(const char *path) {
    documents d = { .text = read_text(path) };
    size_t lines = 1, n;
    for (char *p = d.text; *p; p += n) {
        n = character_at(p);
        if (!n)
            refuse("'%s' is no UTF-8 at byte %zu", path, (size_t)(p - d.text));
        lines += *p == '\n' || *p == '\r';
    }
    d.v = malloc(lines * sizeof *d.v);
    if (!d.v || lines > INT32_MAX)
        refuse("no memory for the %zu lines of '%s'", lines, path);
    char *begin;
    for (char *p = d.text; p;) {
        p = strip_line(p, &begin);
        if (begin)
            d.v[d.n++] = begin;
    }
    if (!d.n)
        refuse("'%s' has nothing but blanks", path);
    return d;
}

static inline void free_documents(documents *d) {
    free(d->v);
    free(d->text);
}
