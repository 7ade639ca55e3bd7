/*
 * file.h: the one door to the file system. A file that is read may be cut short or changed at any
 * moment, so that nothing of it is mapped: a read is a copy, and what is missing is an error. A
 * file that is written stands beside its place until it is whole and on the disk; only then is it
 * renamed, so that a reader meets the old file or the new one.
 */
#pragma once

#include "tensor/error.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Calls of the system that may fail go through this table, so that the tests can let each fail. The
 * questions that come before a save (what a path leads to, what stands there, whose permissions it
 * has) don't: where there is no answer, a new file is made. */
typedef struct {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*stat)(int fd, struct stat *status);
    ssize_t (*pread)(int fd, void *to, size_t n, off_t at);
    ssize_t (*write)(int fd, const void *from, size_t n);
    int (*sync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
} rg_system;
extern rg_system rgi_system;

/* Fails with RG_IO_ERROR and Python's sentence: op: [Errno 2] No such file or directory: 'path' */
void rgi_fail_errno(const char *op, int number, const char *path);

/* ---- reading -------------------------------------------------------------------------- */

/* `op` is the function that reads, for errors. The path is the caller's, and must live as long. */
typedef struct {
    const char *op, *path;
    int fd;
    uint64_t bytes; /* The file's bytes when it was opened. */
} rg_file;

/* Opens a regular file. Returns false, with nothing to close, on failure. */
bool rgi_file_open(rg_file *f, const char *op, const char *path);
/* Closes the file, if it is open. */
void rgi_file_close(rg_file *f);
/* Reads n bytes from this place on. Fails where the file has fewer. */
bool rgi_file_read(const rg_file *f, uint64_t at, void *to, size_t n);
/* Fails with RG_IO_ERROR: op: 'path': the sentence. Returns false. */
bool rgi_file_refuse(const rg_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Returns a copy of n bytes that stand in a file, as a sentence may hold them: at most the first
 * 120, up to what is no UTF-8, with ? for each control character, since who reads an error may see
 * it on a terminal. */
enum { RG_SHOWN_ROOM = 128 };
const char *rgi_shown(const char *name, size_t n, char text[RG_SHOWN_ROOM]);
#define RG_SHOWN_BYTES(name, n) rgi_shown(name, n, (char[RG_SHOWN_ROOM]){ 0 })
#define RG_SHOWN(name)          RG_SHOWN_BYTES(name, strlen(name))

/* Returns the whole file, with a 0 behind its *n bytes, or NULL. The scope owns it. */
char *rgi_file_text(const char *op, const char *path, size_t *n);

/* ---- writing -------------------------------------------------------------------------- */

/* Takes away what saves to this path left beside it that were killed. */
void rgi_remove_leftovers(const char *path);
/* Locks a new file until it is closed, so that nobody takes it for a leftover. Returns whether it
 * is still at the path. */
bool rgi_hold(int fd, const char *path);

typedef struct {
    const char *op;
    char *path;   /* The file is to have this path. It is another than the caller's for a link. */
    char *beside; /* Meanwhile it has this one. */
    size_t room;  /* The bytes that were asked for each of the two. */
    int fd;
    uint64_t bytes; /* The bytes that were written, */
    size_t used;    /* and how many of them wait in the buffer. */
    char *buffer;
    bool failed;
} rg_writer;

/* Opens a new file beside the path. Returns false, with nothing to end, on failure, and where
 * training is halted (error.h). */
bool rgi_writer_begin(rg_writer *w, const char *op, const char *path);
/* Writes n bytes, or does nothing where something failed before. */
void rgi_write(rg_writer *w, const void *from, size_t n);
/* Writes zeros up to a multiple of `alignment`. */
void rgi_write_zeros_to(rg_writer *w, size_t alignment);
/* Writes what waits, syncs and closes, so that only the rename is left to the end. Returns false
 * where that or anything before it failed. */
bool rgi_writer_settle(rg_writer *w);
/* Settles and renames. Where that or anything before it failed, takes away what was written, and
 * returns false. */
bool rgi_writer_end(rg_writer *w);
/* Takes away what was written. Requires, as all but the first do, that the writer has begun. */
void rgi_writer_cancel(rg_writer *w);
