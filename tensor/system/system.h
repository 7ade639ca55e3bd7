/*
 * system.h: everything that the library needs from the operating system, except the C library,
 * POSIX threads and their clocks. system.c is for POSIX systems, and does without features that a
 * system lacks; windows.c is for Windows. No other file of the library includes a header of the
 * system, except pthread.h; tests/style checks that.
 */
#pragma once

#include "tensor/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* ---- memory and time ------------------------------------------------------------------- */

/* rgi_system_alloc returns a block of memory whose address is a multiple of `alignment`, a power of
 * two. It returns NULL if memory runs out. If the alignment is at least RG_HUGE_PAGE, the size of a
 * huge page, it also asks the system to use huge pages for the block, where the system has a call
 * for that. */
enum { RG_HUGE_PAGE = 2 << 20 };
void *rgi_system_alloc(size_t alignment, size_t bytes);
void rgi_system_free(void *block);

/* Sets *losses to the number of times that the system has taken the core away from the calling
 * thread and given it to another one. Returns false if the system doesn't count that. */
bool rgi_core_losses(long *losses);

/* ---- processes and threads -------------------------------------------------------------- */

/* Returns the process ID. */
long rgi_process(void);
/* Returns the number of cores that the process may use. */
int rgi_cores(void);
/* Starts a thread with a stack of `stack` bytes, which calls run(context). The thread blocks
 * signals, so the program's own threads handle them. Only two kinds of signals aren't blocked:
 * SIGPROF, the profiler's signal, and the signals of the thread's own faults, such as SIGSEGV.
 * Windows has no such signals. Returns 0, or an error number on failure. */
int rgi_start_thread(pthread_t *thread, size_t stack, void *(*run)(void *), void *context);
/* Registers functions that are called by the thread that forks: one before the fork, one after it
 * in the parent, and one after it in the child. Each may be NULL. */
void rgi_expect_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* ---- stacks ------------------------------------------------------------------------------ */

/* Sets *low to the lowest address of the calling thread's stack, as it is when the stack has grown
 * to its full size, and *bytes to the full size. A stack grows downwards. If the size is unknown,
 * sets *bytes to 0. */
void rgi_find_stack(uintptr_t *low, size_t *bytes);

/* Sets address[] to the return addresses of the innermost calls, at most n, and returns their
 * number. Returns 0 if the system has no function for that. */
int rgi_find_calls(void **address, int n);

/* The place of an address in the program. `function` is the name of the function, or NULL if it is
 * unknown. `file` is the program or the shared library that contains the address, and `offset` is
 * the offset of the address from the beginning of that file in memory. */
typedef struct {
    const char *function, *file;
    size_t offset;
} rg_place;

/* Sets *place to the place of an address. Returns false if no file that contains the address is
 * known. */
bool rgi_find_place(const void *address, rg_place *place);
/* Writes a string for a return address to `text`, which has room for `bytes` bytes. If the command
 * addr2line finds the line, the string is like "main at train.c:40". Otherwise it is like "main at
 * ./train+0x1234"; programs without debug information have such strings. Returns false if the
 * address is unknown. */
bool rgi_find_call(const void *address, char *text, size_t bytes);

/* Writes to standard error as printf does, but without keeping anything in a buffer. */
void rgi_write_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns whether the stream is a terminal. */
bool rgi_is_terminal(FILE *stream);

/* ---- programs and compiled code ------------------------------------------------------------ */

/* Finds the program argv[0] in PATH, and runs it with the arguments from argv[1] on, up to a NULL.
 * Returns its exit status. Returns 0 as well if the status is unknown, because the program ignores
 * SIGCHLD. Returns RG_NOT_STARTED if it couldn't be started, as always on Windows, and RG_KILLED if
 * a signal ended it. */
enum { RG_NOT_STARTED = -1, RG_KILLED = -2 };
int rgi_run_program(const char *const argv[]);
/* rgi_load_code loads a shared library, and returns a handle, or NULL on failure. rgi_find_code
 * returns the address of a name in it, or NULL. On Windows no library can be loaded. */
void *rgi_load_code(const char *path);
void *rgi_find_code(void *code, const char *name);
void rgi_unload_code(void *code);

/* ---- numbers with a decimal point ---------------------------------------------------------- */

/* rgi_locale_c sets the calling thread's locale to the C locale, and returns the locale that the
 * thread had before. rgi_locale_back restores the locale that rgi_locale_c returned. */
#ifdef _WIN32
typedef struct {
    int by_thread;
    char name[64];
} rg_locale;
#else
#include <locale.h>
typedef locale_t rg_locale;
#endif
rg_locale rgi_locale_c(void);
void rgi_locale_back(rg_locale *before);

/* ---- files ------------------------------------------------------------------------------- */

#ifdef _WIN32
#define O_CLOEXEC   O_NOINHERIT
#define O_NONBLOCK  0
#define O_DIRECTORY 0
enum { RG_OPEN_FILES_CAN_BE_RENAMED = 0 };
#else
enum { RG_OPEN_FILES_CAN_BE_RENAMED = 1 };
#endif

/* A table of the system calls for files that may fail. Tests replace its entries to let each call
 * fail. The calls that find where a link points to, whether there is a file, and its permissions
 * aren't in the table: if one of them fails in a save, the new file is made all the same. `pread`
 * reads from the offset `at` on. `sync` returns when the file is on the disk. `rename` replaces the
 * file at `to` if there is one. */
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

/* Returns the path of the file to which `path` leads when links are followed; the caller frees it.
 * The file need not exist. Returns NULL and sets errno on failure, for example if links lead in a
 * circle or a folder can't be searched. */
char *rgi_real_path(const char *path);
/* Returns whether the process may write to the file at the path. If not, sets errno to the cause,
 * which may also be that there is no file, or that the system can't tell. */
bool rgi_is_writable(const char *path);
/* Makes a folder that only its owner can use. Returns whether there is a folder at the path now. */
bool rgi_make_folder(const char *path);
/* Gives an open file these permissions. Failure is ignored. On Windows does nothing. */
void rgi_set_permissions(int fd, mode_t mode);

/* Returns whether a process with this ID is running. */
bool rgi_is_running(long process);
/* Calls is_wanted with the name of each file in a folder. If is_wanted returns true, removes the
 * file, unless a process holds it (see rgi_hold) or it isn't a regular file. */
void rgi_remove_files(const char *folder, bool (*is_wanted)(const char *name, const void *context),
                      const void *context);
/* Locks a new file at `path`, open as fd, until it is closed, so that rgi_remove_files doesn't
 * remove it. Returns false if the file was removed from the path before it was locked. On Windows
 * does nothing and returns true, because an open file can't be removed there. */
bool rgi_hold(int fd, const char *path);
