/*
 * scratch.h: a folder for the files of a test, in TMPDIR or /tmp.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* scratch_begin makes a new folder, and scratch_end removes it with all files in it. */
void scratch_begin(void);
void scratch_end(void);
/* Returns the path of the file `name` in the folder, or the path of the folder itself if `name` is
 * "". The fourth call after this one overwrites the returned path. */
const char *scratch(const char *name);
/* Returns the number of files in the folder. */
int scratch_files(void);

/* Writes a file into the folder, and returns its path. */
const char *scratch_write(const char *name, const void *bytes, size_t n);
/* Returns the bytes of a file, which the caller frees. */
char *file_bytes(const char *path, size_t *n);
/* Returns whether two files have the same bytes. */
bool same_files(const char *a, const char *b);
