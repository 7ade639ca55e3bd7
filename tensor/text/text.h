/*
 * text.h: strings that grow, and copies of strings.
 */
#pragma once

#include "tensor/memory.h"

/* A string that grows. It is initialised with { 0 }. After something was added, v points to n
 * characters and a 0, in memory for `room` bytes. If memory runs out, `failed` is set, and nothing
 * more is added. */
typedef struct rg_text {
    char *v;
    size_t n, room;
    bool failed;
} rg_text;
/* Appends to the string what printf would print. Numbers have a decimal point in any locale. */
void rgi_text_add(rg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Removes all but the first n bytes. Does nothing if nothing was ever added. */
static inline void rgi_text_cut(rg_text *t, size_t n) {
    if (!t->v)
        return;
    t->n = n;
    t->v[n] = 0;
}
void rgi_text_free(rg_text *t);
/* Returns a copy of the string, which the innermost scope owns, and frees the string itself.
 * Requires that something was added. Returns NULL if memory runs out, or if it ran out earlier
 * while the string grew (`failed`). */
char *rgi_text_own(rg_text *t);
/* Returns `text`, a string that the program will probably print at once. If `text` is NULL, first
 * reports the unread failure, since puts(NULL) ends the program without a message. */
const char *rgi_told(const char *text);

/* Returns whether the string `text` ends with `end`. */
bool rgi_ends_with(const char *text, const char *end);

/* Replaces the name at *place with a copy of `name`; if `name` is NULL, *place becomes NULL. If
 * memory runs out, returns false and changes nothing. */
bool rgi_rename(char **place, const char *name);
