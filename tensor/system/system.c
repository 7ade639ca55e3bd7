/*
 * system.c: the functions of system.h for POSIX systems. Linux, macOS and the BSDs aren't
 * distinguished by their names: where they differ, the code below checks for a macro or a header
 * that only some of them have.
 */
#ifndef _WIN32
#define _GNU_SOURCE
#include "system.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#if __has_include(<link.h>)
#include <link.h>
#endif
#if defined __linux__ && !defined __GLIBC__
#include <sys/syscall.h>
#endif

/* ---- memory and time ------------------------------------------------------------------- */

void *rgi_system_alloc(size_t alignment, size_t bytes) {
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (alignment >= RG_HUGE_PAGE)
        madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void rgi_system_free(void *block) { free(block); }

bool rgi_core_losses(long *losses) {
#ifdef RUSAGE_THREAD
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage))
        return false;
    *losses = usage.ru_nivcsw;
    return true;
#else
    (void)losses;
    return false;
#endif
}

/* ---- processes and threads -------------------------------------------------------------- */

long rgi_process(void) { return (long)getpid(); }

int rgi_cores(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return RG_MAX(1, CPU_COUNT(&set));
#endif
    return (int)RG_MAX(1, sysconf(_SC_NPROCESSORS_ONLN));
}

int rgi_start_thread(pthread_t *thread, size_t stack, void *(*run)(void *), void *context) {
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };
    pthread_attr_t attributes;
    sigset_t blocked, before;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, stack);
    sigfillset(&blocked);
    for (int i = 0; i < RG_COUNT(own); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(thread, &attributes, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

void rgi_expect_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    pthread_atfork(before, in_parent, in_child);
}

/* ---- stacks ------------------------------------------------------------------------------ */

#ifdef __linux__
/* In the main thread, extends *low and *bytes to the limit up to which the stack may grow. This is
 * needed with musl, whose pthread_getattr_np returns only the part of the main thread's stack that
 * is in use. */
static void grow_to_limit(uintptr_t *low, size_t *bytes) {
#ifdef __GLIBC__
    (void)low;
    (void)bytes;
#else
    struct rlimit limit;
    if (syscall(SYS_gettid) != getpid() || getrlimit(RLIMIT_STACK, &limit))
        return;
    uintptr_t high = *low + *bytes;
    *bytes = (size_t)RG_MIN(limit.rlim_cur, high);
    *low = high - *bytes;
#endif
}

void rgi_find_stack(uintptr_t *low, size_t *bytes) {
    pthread_attr_t attributes;
    void *address = NULL;
    *bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &address, bytes))
            *bytes = 0;
        pthread_attr_destroy(&attributes);
    }
    *low = (uintptr_t)address;
    grow_to_limit(low, bytes);
}
#elif defined __APPLE__
void rgi_find_stack(uintptr_t *low, size_t *bytes) {
    *bytes = pthread_get_stacksize_np(pthread_self());
    *low = (uintptr_t)pthread_get_stackaddr_np(pthread_self()) - *bytes;
}
#else
void rgi_find_stack(uintptr_t *low, size_t *bytes) { *low = *bytes = 0; }
#endif

int rgi_find_calls(void **address, int n) {
#if __has_include(<execinfo.h>)
    return backtrace(address, n);
#else /* musl */
    (void)address;
    (void)n;
    return 0;
#endif
}

bool rgi_find_place(const void *address, rg_place *place) {
    Dl_info at;
    if (!dladdr(address, &at) || !at.dli_fname)
        return false;
    *place = (rg_place){ at.dli_sname, at.dli_fname,
                         (size_t)((uintptr_t)address - (uintptr_t)at.dli_fbase) };
    return true;
}

/* Returns the offset of a call in `file`, the program or library that contains the call. If the
 * program is linked for a fixed address, returns the call's address. `address` is the call's return
 * address; it lies behind the call, so 1 is subtracted. */
static uintptr_t offset_of_call(const void *address, const Dl_info *file) {
    uintptr_t begin = (uintptr_t)file->dli_fbase;
#ifdef ET_EXEC
    if (((const ElfW(Ehdr) *)file->dli_fbase)->e_type == ET_EXEC)
        begin = 0;
#endif
    return (uintptr_t)address - begin - 1;
}

/* Writes to `text` the function and line that the command addr2line finds for an offset in a file,
 * and returns true. If addr2line finds no line, writes the function alone, or "" if it finds no
 * function or the file's name contains a single quote, and returns false. */
static bool find_line(const char *file, uintptr_t offset, char *text, size_t bytes) {
    char command[1200];
    text[0] = 0;
    if (strchr(file, '\''))
        return false;
    snprintf(command, sizeof command, "addr2line -f -p -s -e '%s' %#lx 2>/dev/null", file,
             (unsigned long)offset);
    FILE *lines = popen(command, "r");
    if (!lines)
        return false;
    const bool found = fgets(text, (int)bytes, lines) && text[0] != '?';
    pclose(lines);
    text[found ? strcspn(text, "(\n") : 0] = 0; /* addr2line may add more about the line in
                                                 * parentheses. */
    char *unknown = strstr(text, " at ??:");
    if (unknown)
        *unknown = 0;
    return found && !unknown;
}

bool rgi_find_call(const void *address, char *text, size_t bytes) {
    Dl_info file;
    if (!dladdr(address, &file) || !file.dli_fname)
        return false;
    const uintptr_t offset = offset_of_call(address, &file);
    if (find_line(file.dli_fname, offset, text, bytes))
        return true;
    if (!text[0])
        snprintf(text, bytes, "%s", file.dli_sname ? file.dli_sname : "?");
    const size_t n = strlen(text);
    snprintf(text + n, bytes - n, " at %s+%#lx", file.dli_fname, (unsigned long)offset);
    return true;
}

void rgi_write_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vdprintf(STDERR_FILENO, format, arguments);
    va_end(arguments);
}

bool rgi_is_terminal(FILE *stream) { return isatty(fileno(stream)); }

/* ---- programs and compiled code ------------------------------------------------------------ */

int rgi_run_program(const char *const argv[]) {
    pid_t child;
    int status;
    if (posix_spawnp(&child, argv[0], NULL, NULL, (char *const *)argv, environ) != 0)
        return RG_NOT_STARTED;
    /* If SIGCHLD is ignored, waitpid waits for the child's end, and then fails with ECHILD. */
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : RG_KILLED;
}

void *rgi_load_code(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

void *rgi_find_code(void *code, const char *name) { return dlsym(code, name); }

void rgi_unload_code(void *code) {
    if (code)
        dlclose(code);
}

/* ---- numbers with a decimal point ---------------------------------------------------------- */

/* The C locale is made at the first call, and is never freed. */
rg_locale rgi_locale_c(void) {
    static _Atomic(locale_t) made;
    locale_t c = made;
    if (!c) {
        c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        made = c;
    }
    return uselocale(c);
}

void rgi_locale_back(rg_locale *before) { uselocale(*before); }

/* ---- files ------------------------------------------------------------------------------- */

static int system_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

rg_system rgi_system = { system_open, fstat, pread, write, fsync, close, rename, unlink };

char *rgi_real_path(const char *path) {
    char *real = realpath(path, NULL);
    if (real || errno != ENOENT)
        return real;
    /* The path may be a link to a file that isn't there yet. */
    char target[4096], whole[8192];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return strdup(path);
    target[n] = 0;
    const char *slash = target[0] == '/' ? NULL : strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    const int size = snprintf(whole, sizeof whole, "%.*s%s", folder, path, target);
    if (size < (int)sizeof whole)
        return rgi_real_path(whole);
    errno = ENAMETOOLONG;
    return NULL;
}

/* AT_EACCESS asks for the effective user, as open does. */
bool rgi_is_writable(const char *path) { return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0; }

bool rgi_make_folder(const char *path) {
    struct stat status;
    return mkdir(path, S_IRWXU) == 0 || (stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

void rgi_set_permissions(int fd, mode_t mode) { (void)!fchmod(fd, mode); }

bool rgi_is_running(long process) { return kill((pid_t)process, 0) == 0 || errno != ESRCH; }

/* Removes a regular file of the folder, unless a process has locked it (rgi_hold). */
static void remove_unlocked(int folder, const char *name) {
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

void rgi_remove_files(const char *folder, bool (*is_wanted)(const char *name, const void *context),
                      const void *context) {
    DIR *all = opendir(folder);
    if (!all)
        return;
    for (const struct dirent *e; (e = readdir(all));)
        if (is_wanted(e->d_name, context))
            remove_unlocked(dirfd(all), e->d_name);
    closedir(all);
}

bool rgi_hold(int fd, const char *path) {
    struct stat mine, there;
    while (flock(fd, LOCK_EX | LOCK_NB) && errno == EINTR)
        continue;
    return fstat(fd, &mine) || (stat(path, &there) == 0 && there.st_ino == mine.st_ino);
}
#else
typedef int rg_not_posix; /* C requires a declaration in every source file. */
#endif
