/*
 * code_cache.h: compiles C at run time, and keeps the compiled files for later runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The greatest number of options. */
enum { RG_MOST_OPTIONS = 32 };

/* Compiles the n bytes of C at `text` with the command cc, and loads the result. options[] ends
 * with NULL. If the same text was compiled before, loads the result of that; the text must
 * therefore name the options, for example in a comment. Returns a handle for rgi_find_code and
 * rgi_unload_code (system.h), or NULL: with an error if memory runs out or the C file can't be
 * written, and with a warning that names `op` in all other cases. */
void *rgi_compile(const char *op, const char *text, size_t n, const char *const options[]);
