/*
 * faults.c: a file system that fails as a test specifies.
 */
#include "faults.h"
#include "tensor/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

faulty faults;
static rg_system real;

/* Counts a call, and returns whether it is to fail. */
static bool begin_call(const char *name) {
    faults.calls++;
    if (faults.calls == faults.kill_at && !faults.kill_after)
        kill(getpid(), SIGKILL);
    if (faults.calls != faults.fail_at || faults.nothing)
        return false;
    faults.failed = name;
    errno = faults.number;
    return true;
}

/* Returns whether this read or write must move nothing. */
static bool moves_nothing(const char *name) {
    if (faults.calls != faults.fail_at || !faults.nothing)
        return false;
    faults.failed = name;
    return true;
}

static int end_call(int result) {
    if (faults.calls == faults.kill_at && faults.kill_after)
        kill(getpid(), SIGKILL);
    return result;
}

static bool interrupted(void) {
    if (!faults.interrupts || faults.calls % 2)
        return false;
    errno = EINTR;
    return true;
}

static size_t few(size_t n) { return faults.most && faults.most < n ? faults.most : n; }

static int faulty_open(const char *path, int flags, mode_t mode) {
    if (begin_call("open"))
        return -1;
    if (flags & O_CREAT && faults.exists) {
        faults.exists = false;
        errno = EEXIST;
        return -1;
    }
    int fd = real.open(path, flags, mode);
    faults.open += fd >= 0;
    return end_call(fd);
}

static int faulty_stat(int fd, struct stat *status) {
    return begin_call("stat") ? -1 : end_call(real.stat(fd, status));
}

static ssize_t faulty_pread(int fd, void *to, size_t n, off_t at) {
    if (begin_call("pread") || interrupted())
        return -1;
    if (moves_nothing("pread") || faults.ends)
        return 0;
    return real.pread(fd, to, few(n), at);
}

static ssize_t faulty_write(int fd, const void *from, size_t n) {
    if (begin_call("write") || interrupted())
        return -1;
    if (moves_nothing("write") || faults.full)
        return 0;
    ssize_t put = real.write(fd, from, few(n));
    end_call(0);
    return put;
}

/* Does nothing, so that no test waits for the disk. */
static int faulty_sync(int fd) {
    (void)fd;
    return begin_call("sync") || interrupted() ? -1 : end_call(0);
}

/* The file is closed even if the call fails. */
static int faulty_close(int fd) {
    bool fails = begin_call("close");
    int number = errno;
    faults.open--;
    int result = end_call(real.close(fd));
    if (fails)
        errno = number;
    return fails ? -1 : result;
}

static int faulty_rename(const char *from, const char *to) {
    if (begin_call("rename"))
        return -1;
    faults.renamed = true;
    return end_call(real.rename(from, to));
}

static int faulty_unlink(const char *path) {
    return begin_call("unlink") ? -1 : end_call(real.unlink(path));
}

void faults_begin(void) {
    real = rgi_system;
    faults = (faulty){ .number = EIO };
    rgi_system = (rg_system){ faulty_open, faulty_stat,  faulty_pread,  faulty_write,
                              faulty_sync, faulty_close, faulty_rename, faulty_unlink };
}

void faults_end(void) { rgi_system = real; }
