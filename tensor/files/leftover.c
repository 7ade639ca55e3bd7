/*
 * leftover.c: removes leftovers: files such as "model.safetensors.4711-0.new", which a process
 * leaves beside a file if it is killed while saving. The next save to the same path removes them.
 *
 * A file is removed only if three conditions hold: it is a regular file, no process with the number
 * in its name is running, and nobody holds its lock. A save holds the lock as long as it writes.
 * The lock is needed because the process may run on another machine or in another container, where
 * process numbers are different.
 */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Reads digits that are followed by the character `end`, and sets *number to their value. Returns
 * what follows that character, or NULL if the string doesn't begin in this way. */
static const char *behind_digits(const char *text, char end, long *number) {
    char *last;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    *number = strtol(text, &last, 10);
    return errno || *last != end ? NULL : last + 1;
}

/* If `name` is the name of a temporary file that a process wrote while saving to `base`, returns
 * the number of the process; otherwise returns -1. A crafted name may have the number 0, which no
 * process has. */
static long process_of(const char *name, const char *base) {
    const size_t n = strlen(base);
    long process, count;
    if (strncmp(name, base, n) != 0 || name[n] != '.')
        return -1;
    const char *at = behind_digits(name + n + 1, '-', &process);
    at = at ? behind_digits(at, '.', &count) : NULL;
    return at && strcmp(at, "new") == 0 && process <= INT_MAX ? process : -1;
}

/* Removes a file of the folder, unless a process holds its lock. */
static void remove_unlocked(int folder, const char *name) {
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

void rgi_remove_leftovers(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof folder)
        return;
    memcpy(folder, path, n);
    folder[n] = 0;
    DIR *all = opendir(n ? folder : ".");
    if (!all)
        return;
    for (const struct dirent *e; (e = readdir(all));) {
        const long process = process_of(e->d_name, base);
        if (process > 0 && kill((pid_t)process, 0) && errno == ESRCH)
            remove_unlocked(dirfd(all), e->d_name);
    }
    closedir(all);
}

bool rgi_hold(int fd, const char *path) {
    struct stat mine, there;
    while (flock(fd, LOCK_EX | LOCK_NB) && errno == EINTR)
        continue;
    return fstat(fd, &mine) || (stat(path, &there) == 0 && there.st_ino == mine.st_ino);
}
