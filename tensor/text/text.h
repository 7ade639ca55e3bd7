/*
 * text.h: strings that grow, and copies of strings.
 */
#pragma once

#include "tensor/memory.h"

/* A string that grows. It is initialised with { 0 }; v then holds n characters and a 0, and has a
 * capacity of `room`. If there is no memory for more, `failed` is set, and nothing more is added.
 */
typedef struct rg_text {
    char *v;
    size_t n, room;
    bool failed;
} rg_text;
/* Appends as printf does, with a point in numbers. */
void rgi_text_add(rg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rgi_text_free(rg_text *t);
/* Frees the text, and returns a copy that the scope owns, or NULL if there is no memory, now or
 * earlier. */
char *rgi_text_own(rg_text *t);

/* Returns whether the text ends with `end`. */
bool rgi_ends_with(const char *text, const char *end);

/* Replaces the name at *place with a copy of `name`; NULL means no name. Returns false, and changes
 * nothing, if there is no memory. */
bool rgi_rename(char **place, const char *name);
