/*
 * file.c: opens, reads and closes files. A new file is written beside its final path, flushed to
 * disk (fsync), and then renamed.
 */
#include "file.h"

#include "tensor/text/c_locale.h"
#include "utf8.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/text/text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rgi_fail_errno(const char *op, int number, const char *path) {
    RG_C_NUMBERS(); /* Makes strerror return the message of the C locale, not of the program's. */
    rgi_fail(RG_IO_ERROR, op, "[Errno %d] %s: '%s'", number, strerror(number), path);
}

/* ---- reading a file ------------------------------------------------------------------- */

bool rgi_file_open(rg_file *f, const char *op, const char *path) {
    if (!rgi_may_read_once(op) || !rgi_given_path(path, op))
        return false;
    *f = (rg_file){ .op = op, .path = path };
    f->fd = rgi_system.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (f->fd < 0) {
        rgi_fail_errno(op, errno, path);
        return false;
    }
    struct stat status;
    if (rgi_system.stat(f->fd, &status)) {
        rgi_fail_errno(op, errno, path);
    } else if (S_ISDIR(status.st_mode)) {
        rgi_fail_errno(op, EISDIR, path);
    } else if (!S_ISREG(status.st_mode)) {
        rgi_file_refuse(f, "it is no regular file");
    } else {
        f->bytes = (uint64_t)status.st_size;
        rgi_load_reads(f->bytes);
        return true;
    }
    rgi_file_close(f);
    return false;
}

void rgi_file_close(rg_file *f) {
    if (f->fd >= 0)
        rgi_system.close(f->fd);
    f->fd = -1;
}

bool rgi_file_read(const rg_file *f, uint64_t at, void *to, size_t n) {
    if (!rgi_may_read_once(f->op))
        return false;
    char *next = to;
    if (at > f->bytes || n > f->bytes - at)
        return rgi_file_refuse(f, "it ends at byte %llu, but byte %llu is needed",
                               (unsigned long long)f->bytes, (unsigned long long)at + n);
    if (f->memory) {
        memcpy(to, f->memory + at, n);
        return true;
    }
    while (n > 0) {
        ssize_t got = rgi_system.pread(f->fd, next, RG_MIN(n, (size_t)1 << 30), (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rgi_fail_errno(f->op, errno, f->path);
            return false;
        }
        if (got == 0)
            return rgi_file_refuse(f, "it was cut short at byte %llu while it was read",
                                   (unsigned long long)at);
        next += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

bool rgi_file_refuse(const rg_file *f, const char *format, ...) {
    char sentence[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return rgi_fail(RG_IO_ERROR, f->op, "'%s': %s", f->path, sentence);
}

const char *rgi_shown(const char *name, size_t n, char text[RG_SHOWN_ROOM]) {
    enum { MOST = 120 };
    const char *end = name + n;
    uint32_t code;
    size_t at = 0;
    for (size_t more; (more = rgi_utf8_read(name, end, &code)) > 0 && at + more <= MOST;) {
        const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
        at += rgi_utf8_write(text + at, control ? '?' : code);
        name += more;
    }
    strcpy(text + at, name < end ? ".." : "");
    return text;
}

char *rgi_file_text(const char *op, const char *path, size_t *n) {
    rg_file f;
    if (!rgi_file_open(&f, op, path))
        return NULL;
    char *text = rgi_scope_alloc((size_t)RG_MIN(f.bytes, (uint64_t)SIZE_MAX - 1) + 1);
    if (text && rgi_file_read(&f, 0, text, (size_t)f.bytes)) {
        *n = (size_t)f.bytes;
        text[*n] = 0;
    } else {
        text = NULL;
    }
    rgi_file_close(&f);
    return text;
}

/* ---- appending to a file ---------------------------------------------------------------- */

bool rgi_file_append(int fd, const char *op, const char *path, const char *from, size_t n) {
    while (n > 0) {
        const ssize_t put = rgi_system.write(fd, from, RG_MIN(n, (size_t)1 << 30));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            rgi_fail_errno(op, put < 0 ? errno : ENOSPC, path);
            return false;
        }
        from += put;
        n -= (size_t)put;
    }
    return true;
}

bool rgi_file_append_end(int fd, const char *op, const char *path) {
    const bool ok = fd < 0 || rgi_system.close(fd) == 0 || errno == EINTR;
    if (!ok)
        rgi_fail_errno(op, errno, path);
    return ok;
}

/* ---- writing a new file --------------------------------------------------------------- */

enum { WRITER_BUFFER = 1 << 16 };

static void writer_fail(rg_writer *w, int number) {
    if (!w->failed)
        rgi_fail_errno(w->op, number, w->path);
    w->failed = true;
}

static void writer_free(rg_writer *w) {
    rgi_free(w->path, w->room, RG_MEM_OTHER);
    rgi_free(w->beside, w->room, RG_MEM_OTHER);
    rgi_free(w->buffer, WRITER_BUFFER, RG_MEM_OTHER);
    *w = (rg_writer){ .fd = -1, .failed = true };
}

/* Returns whether the file at the path may be replaced. Fails if it is a folder, a device or the
 * like, or if the process may not write to it. (Without this check, renaming a new file to the path
 * would replace even a device or a write-protected file.) Sets *mode to the permissions of the
 * existing file, or to 0 if there is none. */
static bool may_replace(rg_writer *w, mode_t *mode) {
    struct stat old;
    *mode = 0;
    if (stat(w->path, &old))
        return true;
    *mode = old.st_mode & 07777;
    if (S_ISDIR(old.st_mode)) {
        writer_fail(w, EISDIR);
    } else if (!S_ISREG(old.st_mode)) {
        rg_fail(RG_IO_ERROR, w->op, "'%s': it is no regular file", w->path);
        w->failed = true;
    } else if (!rgi_is_writable(w->path) && (errno == EACCES || errno == EPERM || errno == EROFS)) {
        writer_fail(w, errno);
    }
    return !w->failed;
}

/* Opens a new file beside the path, with the permissions of the file that it will replace. If there
 * is no such file, the umask decides on the permissions. Also removes temporary files that killed
 * processes have left beside the path. Returns false on failure. */
static bool open_beside(rg_writer *w) {
    static atomic_uint counter;
    mode_t mode;
    if (!may_replace(w, &mode))
        return false;
    for (int attempt = 0; attempt < 100 && w->fd < 0; attempt++) {
        snprintf(w->beside, w->room, "%s.%ld-%u.new", w->path, rgi_process(),
                 atomic_fetch_add(&counter, 1u));
        w->fd = rgi_system.open(w->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST)
            break;
        if (w->fd >= 0 && !rgi_hold(w->fd, w->beside)) {
            rgi_system.close(w->fd);
            w->fd = -1;
            errno = EEXIST;
        }
    }
    if (w->fd < 0) {
        writer_fail(w, errno);
        return false;
    }
    /* Gives the new file the permissions of the file that it replaces. If the system refuses that,
     * the new file keeps the permissions that it was created with. */
    if (mode)
        rgi_set_permissions(w->fd, mode);
    rgi_remove_leftovers(w->path);
    return true;
}

bool rgi_writer_begin(rg_writer *w, const char *op, const char *path) {
    *w = (rg_writer){ .op = op, .fd = -1 };
    rgi_tell_unread();
    if (rgi_training_halted() || !rgi_may_do_once(op) || !rgi_given_path(path, op))
        return false;
    /* If the path is a symbolic link, the file that the link points to is replaced, and the link
     * stays. */
    char *target = rgi_real_path(path);
    if (!target) {
        rgi_fail_errno(op, errno, path);
        return false;
    }
    w->room = strlen(target) + 64;
    w->path = rgi_alloc(w->room, RG_MEM_OTHER);
    w->beside = rgi_alloc(w->room, RG_MEM_OTHER);
    w->buffer = rgi_alloc(WRITER_BUFFER, RG_MEM_OTHER);
    bool ok = w->path && w->beside && w->buffer;
    if (ok) {
        memcpy(w->path, target, strlen(target) + 1);
        ok = open_beside(w);
    }
    free(target);
    if (!ok)
        writer_free(w);
    return ok;
}

static void write_all(rg_writer *w, const char *from, size_t n) {
    if (!w->failed)
        w->failed = !rgi_file_append(w->fd, w->op, w->path, from, n);
}

static void flush(rg_writer *w) {
    write_all(w, w->buffer, w->used);
    w->used = 0;
}

void rgi_write(rg_writer *w, const void *from, size_t n) {
    w->bytes += n;
    if (n >= WRITER_BUFFER) {
        flush(w);
        write_all(w, from, n);
        return;
    }
    if (n > WRITER_BUFFER - w->used)
        flush(w);
    if (n > 0)
        memcpy(w->buffer + w->used, from, n);
    w->used += n;
}

void rgi_write_zeros_to(rg_writer *w, size_t alignment) {
    static const char zeros[64];
    size_t left = (alignment - w->bytes % alignment) % alignment;
    for (size_t n; left > 0; left -= n) {
        n = RG_MIN(left, sizeof zeros);
        rgi_write(w, zeros, n);
    }
}

/* Syncs the folder of the path, in which a file was renamed, so that the new name survives a power
 * failure. It is no error if the file system can't sync a folder, because the file has its new name
 * already. */
static void sync_folder(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof folder)
        return;
    memcpy(folder, path, n);
    folder[n] = 0;
    const char *here = slash ? "/" : ".";
    int fd = rgi_system.open(n ? folder : here, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    rgi_system.sync(fd);
    rgi_system.close(fd);
}

static void sync_writer(rg_writer *w) {
    while (!w->failed && rgi_system.sync(w->fd))
        if (errno != EINTR)
            writer_fail(w, errno);
}

bool rgi_writer_settle(rg_writer *w) {
    flush(w);
    sync_writer(w);
    /* If a signal interrupts close, that is no failure: the bytes have been synced, so they are on
     * the disk. */
    if (rgi_system.close(w->fd) && errno != EINTR)
        writer_fail(w, errno);
    w->fd = -1;
    return !w->failed;
}

bool rgi_writer_end(rg_writer *w) {
    if (w->fd >= 0)
        rgi_writer_settle(w);
    if (!w->failed && rgi_system.rename(w->beside, w->path))
        writer_fail(w, errno);
    if (w->failed) {
        rgi_writer_cancel(w);
        return false;
    }
    sync_folder(w->path);
    writer_free(w);
    return true;
}

void rgi_writer_cancel(rg_writer *w) {
    if (w->fd >= 0)
        rgi_system.close(w->fd);
    rgi_system.unlink(w->beside);
    writer_free(w);
}
