/*
 * holds.h: assertions for programs of several processes, which Check doesn't support. A failed
 * assertion on one rank ends the programs of all ranks.
 */
#pragma once

#include "nn/parallel/parallel.h"
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void end_unless(bool holds, const char *file, int line) {
    char text[600];
    if (holds)
        return;
    snprintf(text, sizeof text, "%s:%d does not hold; the last error is '%s'", file, line,
             rg_error());
    rg_abort_ranks_on_error(RG_RUNTIME_ERROR, text);
}

/* Asserts that the condition is true. */
#define HOLDS(condition) end_unless((condition) ? true : false, __FILE__, __LINE__)

/* Asserts that the call fails with a sentence that has the text. */
#define FAILS(call, text)                                                               \
    do {                                                                                \
        rg_error_clear();                                                               \
        HOLDS(!(call) && rg_error_code() != RG_OK && strstr(rg_error(), text) != NULL); \
        rg_error_clear();                                                               \
    } while (0)

/* A thread keeps the list of the tensors that its scopes own, which only grows. This function makes
 * the list long, so that later calls don't take memory for it. */
static inline void lengthen_scope(void) {
    RG_SCOPE();
    for (int i = 0; i < 1000; i++)
        HOLDS(rg_zeros(1));
}
