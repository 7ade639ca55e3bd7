/*
 * memory_file.h: the one file of a fuzzer, which is in memory: the library's calls of the system
 * come here, so that no disk is used. A fuzzer includes it once.
 */
#pragma once

#include "tensor/files/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char memory_path[] = "/nowhere/fuzz.npy";
static const uint8_t *memory_bytes; /* What is read, */
static size_t memory_n;
static uint8_t *memory_written; /* and what was written. */
static size_t memory_written_n, memory_room;

static void fuzz_require(bool truth, const char *what) {
    if (truth)
        return;
    fprintf(stderr, "%s\n%s\n", what, rg_error());
    abort();
}

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)path;
    (void)flags;
    return mode ? 1 : 2;
}

static int memory_stat(int fd, struct stat *status) {
    (void)fd;
    *status = (struct stat){ .st_mode = S_IFREG | 0600, .st_size = (off_t)memory_n };
    return 0;
}

static ssize_t memory_pread(int fd, void *to, size_t n, off_t at) {
    (void)fd;
    fuzz_require((uint64_t)at <= memory_n && n <= memory_n - (size_t)at, "a read beyond the end");
    if (n)
        memcpy(to, memory_bytes + at, n);
    return (ssize_t)n;
}

static ssize_t memory_write(int fd, const void *from, size_t n) {
    (void)fd;
    if (memory_written_n + n > memory_room) {
        memory_room = 2 * (memory_written_n + n);
        memory_written = realloc(memory_written, memory_room);
        fuzz_require(memory_written, "there is no memory");
    }
    memcpy(memory_written + memory_written_n, from, n);
    memory_written_n += n;
    return (ssize_t)n;
}

static int memory_fd(int fd) { return fd < 0 ? -1 : 0; }
static int memory_rename(const char *from, const char *to) { return from == to ? -1 : 0; }
static int memory_unlink(const char *path) { return path ? 0 : -1; }

/* Makes these bytes the file that is read. */
static void memory_hold(const uint8_t *bytes, size_t n) {
    rgi_system = (rg_system){ memory_open, memory_stat, memory_pread,  memory_write,
                              memory_fd,   memory_fd,   memory_rename, memory_unlink };
    memory_bytes = bytes;
    memory_n = n;
    memory_written_n = 0;
}

/* Makes what was written the file that is read. */
static void memory_turn(void) {
    memory_bytes = memory_written;
    memory_n = memory_written_n;
}

#ifndef RG_LIBFUZZER
static uint64_t fuzz_state;

static uint32_t fuzz_below(uint32_t n) {
    fuzz_state = fuzz_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((fuzz_state >> 33) % n);
}

/* Takes out, doubles, overwrites or puts in a little, a few times. Returns the new length. */
static size_t fuzz_mutate(uint8_t *v, size_t n, size_t room, const char *const *words,
                          int n_words) {
    for (uint32_t times = 1 + fuzz_below(1 + fuzz_below(5)); times--;) {
        const size_t at = fuzz_below((uint32_t)n + 1);
        const size_t most = 1 + fuzz_below(8), some = RG_MIN(most, n - at);
        const char *word = words[fuzz_below((uint32_t)n_words)];
        const size_t wide = strlen(word);
        const uint32_t kind = fuzz_below(5);
        if (kind == 0) {
            memmove(v + at, v + at + some, n - at - some);
            n -= some;
        } else if (kind == 1 && n + some <= room) {
            memmove(v + at + some, v + at, n - at);
            n += some;
        } else if (kind == 2 && at < n) {
            v[at] = (uint8_t)(fuzz_below(2) ? fuzz_below(256) : fuzz_below(2) * 255);
        } else if (kind == 3 && n + wide <= room) {
            memmove(v + at + wide, v + at, n - at);
            memcpy(v + at, word, wide);
            n += wide;
        } else if (at + wide <= n) {
            memcpy(v + at, word, wide);
        }
    }
    return n;
}
#endif
