/*
 * posix.h: the functions of POSIX that tests call and that Windows lacks, or has under other names.
 * `make windows` includes this header before each file of tests/. The files in sys/ take the place
 * of POSIX headers that Windows lacks.
 */
#pragma once

#include <stdio.h>
#include <sys/types.h>

/* Ends the test's process, and reports the test as left out because Windows lacks this function. */
_Noreturn void bare_leave_out(const char *function);
/* Returns the reason for which left_out.def leaves out this test, or NULL if it doesn't. */
const char *bare_reason_to_leave_out(const char *suite, const char *test);
#define BARE_NOT_HERE(function) (bare_leave_out(#function), -1)

int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);
char *strndup(const char *text, size_t n);

/* Makes a folder whose path is `path` with other letters in place of its last six. */
char *mkdtemp(char *path);
int _mkdir(const char *path);
#define mkdir(path, ...) _mkdir(path)
/* Removes a file, or a folder that is empty. */
int bare_remove(const char *path);
#define remove bare_remove
/* Reads from the offset `at`, and leaves the file's own offset as it was. */
ssize_t pread(int file, void *to, size_t n, off_t at);
/* Returns -1 if the file isn't open. */
int fcntl(int file, int command);
enum { F_GETFD };
#define mkfifo(path, mode)                   BARE_NOT_HERE(mkfifo)
#define link(path, other)                    BARE_NOT_HERE(link)
#define symlink(path, other)                 BARE_NOT_HERE(symlink)
#define lstat                                stat
#define S_ISLNK(mode)                        0
#define flock(file, how)                     BARE_NOT_HERE(flock)
#define EDQUOT                               122
#define faccessat(folder, path, mode, flags) access(path, mode)

/* Ends this process after this number of seconds. */
unsigned alarm(unsigned seconds);
int pause(void);
/* Ends this process at once, whatever `process` is. */
#define SIGKILL 9
int kill(pid_t process, int signal);
int fork(void);
#define geteuid()     0
#define seteuid(user) BARE_NOT_HERE(seteuid)
#define setuid(user)  BARE_NOT_HERE(setuid)
#define pipe(files)   BARE_NOT_HERE(pipe)
#undef popen
#define popen bare_popen
FILE *popen(const char *command, const char *mode);

typedef struct {
    void *ss_sp;
    size_t ss_size;
} stack_t;
struct sigaction {
    void (*sa_handler)(int);
    int sa_flags;
};
int sigaltstack(const stack_t *stack, stack_t *before);
int sigaction(int signal, const struct sigaction *action, struct sigaction *before);
#define SA_ONSTACK 0
#define SIGUSR1    0
#define SIGALRM    0
typedef int sigset_t;
#define sigismember(set, signal) (bare_leave_out("sigismember"), *(set))

/* posix_openpt fails, since Windows has no pseudo-terminals of POSIX. */
#define O_NOCTTY          0
#define posix_openpt(...) (-1)
#define grantpt(file)     (-1)
#define unlockpt(file)    (-1)
#define ptsname(file)     ""

enum { _SC_PAGESIZE };
long sysconf(int name);
