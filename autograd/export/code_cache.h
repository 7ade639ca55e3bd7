/*
 * code_cache.h: compiles C at run time, and keeps the compiled files for later runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The greatest number of options. */
enum { RG_MOST_OPTIONS = 32 };

/* Compiles a C file of n bytes by the command cc with these options, behind the last of which there
 * is NULL, and loads the result. If the same file was compiled before, loads the result of that; so
 * the file must name the options, for example in a comment. Returns a handle for rgi_find_code and
 * rgi_unload_code (system.h). If there is no compiler, or if it fails, warns and returns NULL. `op`
 * is named in warnings. */
void *rgi_compile(const char *op, const char *text, size_t n, const char *const options[]);
