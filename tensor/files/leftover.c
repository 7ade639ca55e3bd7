/*
 * leftover.c: removes temporary files, such as "model.safetensors.4711-0.new", which lie beside a
 * file if a process was killed while saving it. The next save to the same path removes them.
 *
 * A file is removed only if three conditions hold: it is a regular file, no process with the number
 * in its name is running, and no process holds the file's lock. A save holds the lock as long as it
 * writes the file. The lock is needed because the process may run on another machine or in another
 * container, where process numbers are different.
 */
#include "file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Reads digits that are followed by the character `end`, and sets *number to their value. Returns a
 * pointer behind that character, or NULL if the string doesn't begin with such digits, or if a long
 * can't hold their value. */
static const char *behind_digits(const char *text, char end, long *number) {
    char *last;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    *number = strtol(text, &last, 10);
    return errno || *last != end ? NULL : last + 1;
}

/* If `name` is the name of a temporary file that a process wrote while saving to `base`, returns
 * the number of the process (4711 in model.safetensors.4711-0.new); otherwise returns -1. A crafted
 * name may have the number 0, which no process has. */
static long process_of(const char *name, const char *base) {
    const size_t n = strlen(base);
    long process, count;
    if (strncmp(name, base, n) != 0 || name[n] != '.')
        return -1;
    const char *at = behind_digits(name + n + 1, '-', &process);
    at = at ? behind_digits(at, '.', &count) : NULL;
    return at && strcmp(at, "new") == 0 && process <= INT_MAX ? process : -1;
}

/* Returns whether `name` is the name of a temporary file of a save to `base`, and the process that
 * wrote it isn't running. */
static bool is_leftover(const char *name, const void *base) {
    const long process = process_of(name, base);
    return process > 0 && !rgi_is_running(process);
}

void rgi_remove_leftovers(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof folder)
        return;
    memcpy(folder, path, n);
    folder[n] = 0;
    rgi_remove_files(n ? folder : ".", is_leftover, base);
}
