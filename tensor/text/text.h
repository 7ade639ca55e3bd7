/*
 * text.h: strings that grow, and copies of strings.
 */
#pragma once

#include "tensor/memory.h"

/* A text begins as { 0 }; v then holds n characters and a 0, and has room for `room`. Once
 * there was no memory for it, it has `failed` and takes nothing more. */
typedef struct rg_text {
    char *v;
    size_t n, room;
    bool failed;
} rg_text;
/* Adds to the end, as printf would, with a point in numbers. */
void rgi_text_add(rg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rgi_text_free(rg_text *t);
/* Frees the text, and returns a copy that the scope owns; NULL where there was no memory for it. */
char *rgi_text_own(rg_text *t);

/* Returns whether the text ends so. */
bool rgi_ends_with(const char *text, const char *end);

/* Puts a copy of the name in place of the one that stands there; NULL stands for none. Returns
 * false, and leaves the old name, where there is no memory. */
bool rgi_rename(char **place, const char *name);
