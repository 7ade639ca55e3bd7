/*
 * memory_file.h: a file system with a single file in memory, for tests and fuzzers of functions
 * that read and write files.
 *
 *     memory_file_begin();
 *     memory_file_set(bytes, n);     the file, whatever its path, has these bytes
 *     ...                            a reader sees them; a writer's bytes take their place
 *     memory_file_end();
 */
#pragma once

#include "tensor/files/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char *v; /* The n bytes of the file. */
    size_t n, room;
    rg_system before;
} memory_file;

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)path;
    (void)mode;
    if (flags & O_CREAT)
        memory_file.n = 0;
    return 1 << 20;
}

static int memory_stat(int fd, struct stat *status) {
    (void)fd;
    *status = (struct stat){ .st_mode = S_IFREG | 0600, .st_size = (off_t)memory_file.n };
    return 0;
}

static ssize_t memory_pread(int fd, void *to, size_t n, off_t at) {
    (void)fd;
    /* The library knows the file's size, and must not read beyond its end. */
    if ((size_t)at > memory_file.n || n > memory_file.n - (size_t)at)
        abort();
    if (n > 0)
        memcpy(to, memory_file.v + at, n);
    return (ssize_t)n;
}

static ssize_t memory_write(int fd, const void *from, size_t n) {
    (void)fd;
    if (memory_file.n + n > memory_file.room) {
        memory_file.room = 2 * (memory_file.n + n);
        memory_file.v = realloc(memory_file.v, memory_file.room);
        if (!memory_file.v)
            abort();
    }
    if (n > 0)
        memcpy(memory_file.v + memory_file.n, from, n);
    memory_file.n += n;
    return (ssize_t)n;
}

static int memory_done(int fd) {
    (void)fd;
    return 0;
}

static int memory_rename(const char *from, const char *to) {
    (void)from;
    (void)to;
    return 0;
}

static int memory_unlink(const char *path) {
    (void)path;
    return 0;
}

static void memory_file_begin(void) {
    memory_file.before = rgi_system;
    rgi_system = (rg_system){ memory_open, memory_stat, memory_pread,  memory_write,
                              memory_done, memory_done, memory_rename, memory_unlink };
}

static void memory_file_end(void) {
    rgi_system = memory_file.before;
    free(memory_file.v);
    memset(&memory_file, 0, sizeof memory_file);
}

static void memory_file_set(const void *bytes, size_t n) {
    memory_file.n = 0;
    memory_write(0, bytes, n);
}

/* Calls f while the file has these bytes. */
static inline void memory_file_with(const void *bytes, size_t n, void (*f)(void)) {
    memory_file_begin();
    memory_file_set(bytes, n);
    f();
    memory_file_end();
}
