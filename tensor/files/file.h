/*
 * file.h: access to the file system, in one place. A file that is read may be truncated or changed
 * at any moment; so no file is mapped: a read is a copy, and missing bytes are an error. A new file
 * is written beside its final path until it is complete and on the disk, and is then renamed, so
 * that a reader finds either the old file or the new one.
 */
#pragma once

#include "tensor/error.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The system calls that may fail, in a table that tests replace to let each of them fail. The calls
 * before a save (where a link points to, whether there is a file, its permissions) aren't in the
 * table: if they fail, a new file is made. */
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

/* An open file. `op` is the function that reads, for errors. The path must live as long as the file
 * is open. */
typedef struct {
    const char *op, *path;
    int fd;
    uint64_t bytes; /* The size of the file when it was opened. */
} rg_file;

/* Opens a regular file. Returns false, with nothing to close, on failure. */
bool rgi_file_open(rg_file *f, const char *op, const char *path);
/* Closes the file, if it is open. */
void rgi_file_close(rg_file *f);
/* Reads n bytes from the offset `at` on. Fails if the file has fewer. */
bool rgi_file_read(const rg_file *f, uint64_t at, void *to, size_t n);
/* Fails with RG_IO_ERROR: op: 'path': the sentence. Returns false. */
bool rgi_file_refuse(const rg_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Returns a copy of n bytes of a file for an error's sentence: at most the first 120, up to the
 * first that isn't UTF-8, with ? for each control character, which might act on a terminal. */
enum { RG_SHOWN_ROOM = 128 };
const char *rgi_shown(const char *name, size_t n, char text[RG_SHOWN_ROOM]);
#define RG_SHOWN_BYTES(name, n) rgi_shown(name, n, (char[RG_SHOWN_ROOM]){ 0 })
#define RG_SHOWN(name)          RG_SHOWN_BYTES(name, strlen(name))

/* Returns the whole file, followed by a 0, and sets *n to its size. The scope owns the result,
 * which is NULL on failure. */
char *rgi_file_text(const char *op, const char *path, size_t *n);

/* ---- writing -------------------------------------------------------------------------- */

/* Removes files that saves to this path have left because they were killed. */
void rgi_remove_leftovers(const char *path);
/* Locks a new file until it is closed, so that no process removes it as a leftover. Returns whether
 * it is still at the path. */
bool rgi_hold(int fd, const char *path);

typedef struct {
    const char *op;
    char *path;   /* The final path: the caller's, or, for a link, the path that it points to. */
    char *beside; /* The path while the file is written. */
    size_t room;  /* The size of the memory of each of the two paths. */
    int fd;
    uint64_t bytes; /* The number of bytes that were written. */
    size_t used;    /* The number of bytes in the buffer. */
    char *buffer;
    bool failed;
} rg_writer;

/* Opens a new file beside the path. Returns false, with nothing to end, on failure, or if training
 * is halted (error.h). */
bool rgi_writer_begin(rg_writer *w, const char *op, const char *path);
/* Writes n bytes. Does nothing after a failure. */
void rgi_write(rg_writer *w, const void *from, size_t n);
/* Writes zeros up to a multiple of `alignment`. */
void rgi_write_zeros_to(rg_writer *w, size_t alignment);
/* Writes the buffer, syncs and closes the file, so that only the rename is left. Returns false if
 * this or an earlier call failed. */
bool rgi_writer_settle(rg_writer *w);
/* Calls rgi_writer_settle, and renames the file. If this or an earlier call failed, removes the
 * file, and returns false. */
bool rgi_writer_end(rg_writer *w);
/* Removes the file. All functions except the first require that rgi_writer_begin has returned true.
 */
void rgi_writer_cancel(rg_writer *w);
