/*
 * file.h: reads files, and writes new ones. Other programs may truncate or change a file while it
 * is read. Therefore files aren't mapped into memory: bytes are copied when they are read, and
 * missing bytes are an error. A new file is written beside its final path. It is renamed when it is
 * complete and on the disk, so a reader of the path finds either the old file or the new one.
 */
#pragma once

#include "tensor/error.h"
#include "tensor/system/system.h"

#include <string.h>

/* Fails with RG_IO_ERROR and Python's message for the error `number`, such as: op: [Errno 2] No
 * such file or directory: 'path' */
void rgi_fail_errno(const char *op, int number, const char *path);

/* ---- reading a file ------------------------------------------------------------------- */

/* A file that is open for reading. `op` is the name of the function that reads it, for error
 * messages. The string `path` must live as long as the file is open. */
typedef struct {
    const char *op, *path;
    int fd;
    uint64_t bytes;        /* The size of the file when it was opened. */
    const uint8_t *memory; /* The file's bytes, if they are in memory; else NULL. */
} rg_file;

/* Opens a regular file for reading. If that fails, returns false, and there is nothing to close. */
bool rgi_file_open(rg_file *f, const char *op, const char *path);
/* Closes the file. Does nothing if it is closed already. */
void rgi_file_close(rg_file *f);
/* Reads the n bytes of the file that begin at offset `at` into `to`. Fails if the file has fewer
 * bytes. */
bool rgi_file_read(const rg_file *f, uint64_t at, void *to, size_t n);
/* Fails with RG_IO_ERROR and the message "op: 'path': sentence". Returns false. */
bool rgi_file_refuse(const rg_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* rgi_shown makes a name that was read from a file fit for an error message: it writes the n bytes
 * of `name` to `text`, and returns `text`. It writes at most the first 120 bytes, and stops at the
 * first byte that isn't UTF-8; ".." shows that something was left out. Control characters, which
 * might have an effect on a terminal, are replaced by question marks. */
enum { RG_SHOWN_ROOM = 128 };
const char *rgi_shown(const char *name, size_t n, char text[RG_SHOWN_ROOM]);
#define RG_SHOWN_BYTES(name, n) rgi_shown(name, n, (char[RG_SHOWN_ROOM]){ 0 })
#define RG_SHOWN(name)          RG_SHOWN_BYTES(name, strlen(name))

/* Returns the contents of the whole file, followed by a 0, and sets *n to the number of bytes. The
 * innermost scope owns the result. Returns NULL on failure. */
char *rgi_file_text(const char *op, const char *path, size_t *n);

/* ---- appending to a file ---------------------------------------------------------------- */

/* Writes n bytes to the end of an open file, in several calls if the system writes fewer at a time.
 * `path` is for error messages. Returns false on failure; a part of the bytes may then be in the
 * file. */
bool rgi_file_append(int fd, const char *op, const char *path, const char *from, size_t n);
/* Closes a file that was opened for appending. Does nothing if fd is -1. Returns false on failure.
 * If a signal interrupts the call (EINTR), that isn't a failure, since Linux has closed the file
 * all the same. */
bool rgi_file_append_end(int fd, const char *op, const char *path);

/* ---- writing a new file --------------------------------------------------------------- */

/* Removes the temporary files that processes left beside this path when they were killed while
 * saving to it. */
void rgi_remove_leftovers(const char *path);

typedef struct {
    const char *op;
    char *path;   /* The final path: the caller's path or, if that is a symbolic link, the path that
                   * the link points to. */
    char *beside; /* The path of the new file while it is being written. */
    size_t room;  /* The size in bytes of the memory of each of the two paths. */
    int fd;
    uint64_t bytes; /* The number of bytes written up to now, including those in the buffer. */
    size_t used;    /* The number of bytes in the buffer, which haven't been written yet. */
    char *buffer;
    bool failed;
} rg_writer;

/* Opens a new file in the folder of the path; rgi_writer_end renames it to the path. If opening
 * fails, if the process may not write to the file that is at the path, or if training is halted
 * (see error.h), returns false, and there is nothing to end. The functions below require that
 * rgi_writer_begin has returned true. */
bool rgi_writer_begin(rg_writer *w, const char *op, const char *path);
/* Writes n bytes, to the buffer at first. After a failure nothing more gets into the file. */
void rgi_write(rg_writer *w, const void *from, size_t n);
/* Writes zeros until the number of bytes is a multiple of `alignment`. */
void rgi_write_zeros_to(rg_writer *w, size_t alignment);
/* Writes the buffer, and syncs and closes the file, which then only has to be renamed. Returns
 * false if any of this fails, or if an earlier call has failed. */
bool rgi_writer_settle(rg_writer *w);
/* Calls rgi_writer_settle if the caller hasn't done so, and renames the file to its final path. If
 * any of this fails, or if an earlier call has failed, removes the new file and returns false. */
bool rgi_writer_end(rg_writer *w);
/* Closes and removes the new file, so that the old file stays as it was. A caller that doesn't want
 * the new file calls this in place of rgi_writer_end. */
void rgi_writer_cancel(rg_writer *w);
