/*
 * holds.h: what the programs here assert. Check is no help where several processes run one test:
 * what doesn't hold on one rank ends the programs of all.
 */
#pragma once

#include "nn/parallel/parallel.h"
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void say_and_end(const char *file, int line, const char *what) {
    char text[500];
    snprintf(text, sizeof text, "%s:%d: %s does not hold; the last error is '%s'", file, line, what,
             rg_error());
    rg_abort_on_error(RG_RUNTIME_ERROR, text);
}

/* Asserts that it is true. */
#define HOLDS(condition)                                 \
    do {                                                 \
        if (!(condition))                                \
            say_and_end(__FILE__, __LINE__, #condition); \
    } while (0)

/* Asserts that the call fails with a sentence that has the text. */
#define FAILS(call, text)                                                               \
    do {                                                                                \
        rg_error_clear();                                                               \
        HOLDS(!(call) && rg_error_code() != RG_OK && strstr(rg_error(), text) != NULL); \
        rg_error_clear();                                                               \
    } while (0)
