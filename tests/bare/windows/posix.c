/*
 * posix.c: defines the functions of posix.h. On other systems than Windows this file is empty.
 */
#ifdef _WIN32
#include "posix.h"
#include "../check.h"

#include "sys/mman.h"
#include "sys/resource.h"
#include "sys/wait.h"

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* ---- tests that are left out ----------------------------------------------------------------- */

void bare_leave_out(const char *function) {
    printf("Windows has no %s: ", function);
    fflush(NULL);
    _exit(BARE_LEFT_OUT);
}

static const struct {
    const char *suite, *test, *reason;
} left_out[] = {
#include "left_out.def"
};

const char *bare_reason_to_leave_out(const char *suite, const char *test) {
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(left_out[i].suite, suite) == 0 && strcmp(left_out[i].test, test) == 0)
            return left_out[i].reason;
    return NULL;
}

/* ---- the environment and files --------------------------------------------------------------- */

/* Opens files in binary mode, so that they get the same bytes as on other systems. */
__attribute__((constructor)) static void set_binary_mode(void) { _fmode = _O_BINARY; }

int setenv(const char *name, const char *value, int replace) {
    return !replace && getenv(name) ? 0 : _putenv_s(name, value);
}

int unsetenv(const char *name) { return _putenv_s(name, ""); }

char *strndup(const char *text, size_t n) {
    const size_t length = strnlen(text, n);
    char *copy = calloc(length + 1, 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

char *mkdtemp(char *path) {
    static unsigned next;
    LARGE_INTEGER time;
    do {
        QueryPerformanceCounter(&time);
        const unsigned number = (unsigned)time.QuadPart * 31 + (unsigned)_getpid() + next++;
        snprintf(path + strlen(path) - 6, 7, "%06x", number & 0xffffff);
        if (_mkdir(path) == 0)
            return path;
    } while (errno == EEXIST);
    return NULL;
}

int bare_remove(const char *path) { return _unlink(path) && _rmdir(path) ? -1 : 0; }

ssize_t pread(int file, void *to, size_t n, off_t at) {
    const long long before = _lseeki64(file, 0, SEEK_CUR);
    if (before < 0 || _lseeki64(file, at, SEEK_SET) < 0)
        return -1;
    const int got = _read(file, to, (unsigned)n);
    return _lseeki64(file, before, SEEK_SET) < 0 ? -1 : got;
}

int fcntl(int file, int command) {
    return command == F_GETFD && _get_osfhandle(file) != -1 ? 0 : -1;
}

/* ---- processes ------------------------------------------------------------------------------- */

typedef struct {
    HANDLE begun;
    DWORD seconds;
} bell;

static DWORD WINAPI ring(void *argument) {
    const bell *b = argument;
    const DWORD seconds = b->seconds;
    SetEvent(b->begun);
    Sleep(seconds * 1000);
    _exit(128 + 14);
}

/* Waits until the thread has begun: in Wine a thread that begins while the process ends writes an
 * error. */
unsigned alarm(unsigned seconds) {
    bell b = { CreateEventA(NULL, FALSE, FALSE, NULL), seconds };
    CloseHandle(CreateThread(NULL, 0, ring, &b, 0, NULL));
    WaitForSingleObject(b.begun, INFINITE);
    CloseHandle(b.begun);
    return 0;
}

int pause(void) {
    Sleep(INFINITE);
    return -1;
}

int kill(pid_t process, int signal) {
    (void)process;
    _exit(128 + signal);
}

int fork(void) { bare_leave_out("fork"); }

FILE *popen(const char *command, const char *mode) {
    (void)command, (void)mode;
    bare_leave_out("popen");
}

pid_t waitpid(pid_t child, int *status, int flags) {
    (void)child, (void)status, (void)flags;
    bare_leave_out("waitpid");
}

int sigaltstack(const stack_t *stack, stack_t *before) {
    (void)stack, (void)before;
    bare_leave_out("sigaltstack");
}

int sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
    (void)signal, (void)action, (void)before;
    bare_leave_out("sigaction");
}

/* ---- memory and limits ----------------------------------------------------------------------- */

/* Returns memory that this program shares with the processes that it starts, or MAP_FAILED. The
 * processes find the memory's name in an environment variable that they inherit. */
static void *shared(size_t bytes) {
    static const char variable[] = "BARE_SHARED";
    char own[32];
    snprintf(own, sizeof own, "bare-%d", _getpid());
    if (!getenv(variable))
        _putenv_s(variable, own);
    HANDLE pages = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, (DWORD)bytes,
                                      getenv(variable));
    void *block = pages ? MapViewOfFile(pages, FILE_MAP_ALL_ACCESS, 0, 0, bytes) : NULL;
    return block ? block : MAP_FAILED;
}

void *mmap(void *where, size_t bytes, int may, int flags, int file, off_t at) {
    (void)may, (void)file, (void)at;
    if (flags & MAP_SHARED)
        return shared(bytes);
    void *block = VirtualAlloc(where, bytes, MEM_COMMIT | MEM_RESERVE, PAGE_NOACCESS);
    return block ? block : MAP_FAILED;
}

int mprotect(void *block, size_t bytes, int may) {
    DWORD before;
    return VirtualProtect(block, bytes, may ? PAGE_READWRITE : PAGE_NOACCESS, &before) ? 0 : -1;
}

long sysconf(int name) {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return name == _SC_PAGESIZE ? (long)system.dwPageSize : -1;
}

int getrlimit(int which, struct rlimit *limit) {
    ULONG_PTR low, high;
    GetCurrentThreadStackLimits(&low, &high);
    *limit = (struct rlimit){ high - low, high - low };
    return which == RLIMIT_STACK ? 0 : -1;
}

int setrlimit(int which, const struct rlimit *limit) {
    (void)which, (void)limit;
    return -1;
}
#endif
