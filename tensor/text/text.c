/*
 * text.c: strings that grow, and copies of strings. text.h explains them.
 */
#include "text.h"

#include "c_locale.h"
#include "tensor/messages/unread.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rgi_text_add(rg_text *t, const char *format, ...) {
    va_list args, again;
    RG_C_NUMBERS();
    va_start(args, format);
    va_copy(again, args);
    size_t n = (size_t)vsnprintf(NULL, 0, format, args);
    t->failed = t->failed || !rgi_grow((void **)&t->v, &t->room, t->n + n + 1, 1);
    if (!t->failed)
        t->n += (size_t)vsnprintf(t->v + t->n, n + 1, format, again);
    va_end(again);
    va_end(args);
}

void rgi_text_free(rg_text *t) { rgi_free(t->v, t->room, RG_MEM_OTHER); }

const char *rgi_told(const char *text) {
    if (!text)
        rgi_tell_unread();
    return text;
}

bool rgi_ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool rgi_rename(char **place, const char *name) {
    char *copy = NULL;
    if (name) {
        size_t bytes = strlen(name) + 1;
        copy = rgi_alloc(bytes, RG_MEM_OTHER);
        if (!copy)
            return false;
        memcpy(copy, name, bytes);
    }
    if (*place)
        rgi_free(*place, strlen(*place) + 1, RG_MEM_OTHER);
    *place = copy;
    return true;
}
