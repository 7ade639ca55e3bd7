/*
 * warning.c: gives warnings, with torch's wording.
 *
 * A warning is given once for each distinct line, which is made of the function's name and the
 * sentence with the shapes in it. (Python warns once for each sentence and line of the program, but
 * a C function doesn't know from which line it was called.)
 */
#include "warning.h"

#include "tensor/text/c_locale.h"
#include "tensor/thread.h"
#include "unread.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

void rg_print_warning(const char *message) {
    fprintf(stderr, "regard: warning: %s\n", message);
    rgi_tell_calls();
}

static _Atomic(rg_warning_handler *) on_warning = rg_print_warning;

/* Hashes of the warnings that were given; unused entries are 0. When the table is full, a new
 * warning isn't given. */
enum { MOST_WARNINGS = 256 };
static _Atomic uint64_t warned[MOST_WARNINGS];

static uint64_t warning_hash(const char *line) {
    uint64_t hash = 14695981039346656037u;
    for (; *line; line++)
        hash = (hash ^ (unsigned char)*line) * 1099511628211u;
    return hash ? hash : 1;
}

/* Returns whether the warning hasn't been given before, and records it. */
static bool warning_is_new(const char *line) {
    uint64_t hash = warning_hash(line);
    for (int i = 0; i < MOST_WARNINGS; i++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&warned[i], &there, hash))
            return true;
        if (there == hash)
            return false;
    }
    return false;
}

void rgi_warn(const char *op, const char *format, ...) {
    rg_warning_handler *handler = atomic_load(&on_warning);
    char line[1024];
    if (!handler)
        return;
    va_list args;
    va_start(args, format);
    {
        RG_C_NUMBERS();
        int at = snprintf(line, sizeof line, "%s: ", rgi_named_as ? rgi_named_as : op);
        vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    }
    va_end(args);
    const char *as = rgi_named_as;
    rgi_named_as = NULL;
    if (warning_is_new(line))
        handler(line);
    rgi_named_as = as;
}

void rgi_warn_of_variable(const char *variable, const char *value, const char *expected,
                          const char *taken) {
    const char *as = rgi_named_as;
    /* The line begins with the variable's name, so a name given by RG_AS must not replace it. */
    rgi_named_as = NULL;
    rgi_warn(variable, "'%.40s' is not %s; %s", value, expected, taken);
    rgi_named_as = as;
}

rg_warning_handler *rg_on_warning(rg_warning_handler *handler) {
    for (int i = 0; i < MOST_WARNINGS; i++)
        atomic_store(&warned[i], 0);
    return atomic_exchange(&on_warning, handler);
}
