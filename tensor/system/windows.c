/*
 * windows.c: the functions of system.h for Windows, where the library is compiled by MinGW-w64.
 * Windows has no fork. The functions that look for return addresses find none.
 */
#ifdef _WIN32
#include "system.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* windows.h defines `near` and `far` as macros. The library uses both words as names, in files that
 * come after this one in regard.c, which joins all files of the library into one. */
#undef near
#undef far

#include <dirent.h>
#include <errno.h>
#include <io.h>
#include <locale.h>
#include <malloc.h>
#include <process.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory and time ------------------------------------------------------------------- */

void *rgi_system_alloc(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }

void rgi_system_free(void *block) { _aligned_free(block); }

bool rgi_core_losses(long *losses) {
    (void)losses;
    return false;
}

/* ---- processes and threads -------------------------------------------------------------- */

long rgi_process(void) { return (long)_getpid(); }

int rgi_cores(void) {
    DWORD_PTR own, all;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        return 1;
    return RG_MAX(1, __builtin_popcountll(own));
}

int rgi_start_thread(pthread_t *thread, size_t stack, void *(*run)(void *), void *context) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, stack);
    error = pthread_create(thread, &attributes, run, context);
    pthread_attr_destroy(&attributes);
    return error;
}

void rgi_expect_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    (void)before;
    (void)in_parent;
    (void)in_child;
}

/* ---- stacks ------------------------------------------------------------------------------ */

void rgi_find_stack(uintptr_t *low, size_t *bytes) {
    ULONG_PTR begin = 0, end = 0;
    GetCurrentThreadStackLimits(&begin, &end);
    *low = begin;
    *bytes = end - begin;
}

int rgi_find_calls(void **address, int n) {
    (void)address;
    (void)n;
    return 0;
}

bool rgi_find_place(const void *address, rg_place *place) {
    (void)address;
    (void)place;
    return false;
}

bool rgi_find_call(const void *address, char *text, size_t bytes) {
    (void)address;
    (void)text;
    (void)bytes;
    return false;
}

void rgi_write_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

bool rgi_is_terminal(FILE *stream) { return _isatty(_fileno(stream)); }

/* ---- programs and compiled code ------------------------------------------------------------ */

int rgi_run_program(const char *const argv[]) {
    (void)argv;
    return RG_NOT_STARTED;
}

void *rgi_load_code(const char *path) {
    (void)path;
    return NULL;
}

void *rgi_find_code(void *code, const char *name) {
    (void)code;
    (void)name;
    return NULL;
}

void rgi_unload_code(void *code) { (void)code; }

/* ---- numbers with a decimal point ---------------------------------------------------------- */

rg_locale rgi_locale_c(void) {
    rg_locale before = { .by_thread = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE) };
    const char *name = setlocale(LC_NUMERIC, NULL);
    snprintf(before.name, sizeof before.name, "%s", name ? name : "C");
    if (strcmp(before.name, "C") != 0)
        setlocale(LC_NUMERIC, "C");
    return before;
}

void rgi_locale_back(rg_locale *before) {
    if (strcmp(before->name, "C") != 0)
        setlocale(LC_NUMERIC, before->name);
    _configthreadlocale(before->by_thread);
}

/* ---- functions of the C library ------------------------------------------------------------ */

/* The linker takes these functions in place of MinGW-w64's, which are less exact: its fma rounds
 * more than once, its pow(10, 100) isn't 1e100, its sin and cos are wrong for large numbers, and
 * its strtod doesn't always return the double that is nearest to the string's number. The names are
 * in parentheses, since <tgmath.h>, which regard.c includes earlier, has macros of these names. */
#ifdef __x86_64__
/* Returns a + b, rounded to odd: if the sum isn't exact, the last bit of the result is 1. When the
 * caller rounds this result to a float or a double, it gets the exact sum rounded once. */
static __float128 sum_for_rounding(__float128 a, __float128 b) {
    union {
        __float128 value;
        unsigned __int128 bits;
    } sum = { a + b };
    const __float128 added = sum.value - a;
    const __float128 lost = (a - (sum.value - added)) + (b - added);
    if ((lost < 0 || lost > 0) && sum.bits % 2 == 0)
        sum.bits += (lost > 0) == (sum.value > 0) ? 1 : -1;
    return sum.value;
}

__attribute__((target("fma"))) static float fmaf_of_core(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
__attribute__((target("fma"))) static double fma_of_core(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}

/* fmaf and fma rely on the fact that the product of two doubles is exact in a __float128. */
float(fmaf)(float a, float b, float c) {
    if (__builtin_cpu_supports("fma"))
        return fmaf_of_core(a, b, c);
    return (float)sum_for_rounding((__float128)a * b, c);
}
double(fma)(double a, double b, double c) {
    if (__builtin_cpu_supports("fma"))
        return fma_of_core(a, b, c);
    return (double)sum_for_rounding((__float128)a * b, c);
}

/* Returns the function of this name in Windows' own C library, ucrtbase.dll. Some systems before
 * Windows 10 lack that library; there the function comes from msvcrt.dll. */
static void *of_windows(const char *name) {
    const HMODULE library = LoadLibraryA("ucrtbase.dll");
    return (void *)GetProcAddress(library ? library : LoadLibraryA("msvcrt.dll"), name);
}

/* Calls the function `name` of Windows' C library with x. The first call stores the function's
 * address in *function. */
static double call_windows(double (*_Atomic *function)(double), const char *name, double x) {
    if (!*function)
        *function = (double (*)(double))of_windows(name);
    return (*function)(x);
}

double(sin)(double x) {
    static double (*_Atomic function)(double);
    return call_windows(&function, "sin", x);
}
double(cos)(double x) {
    static double (*_Atomic function)(double);
    return call_windows(&function, "cos", x);
}
double(pow)(double a, double b) {
    static double (*_Atomic function)(double, double);
    if (!function)
        function = (double (*)(double, double))of_windows("pow");
    return function(a, b);
}

/* MinGW-w64's <stdlib.h> makes strtod a call of one of these two functions. */
double __strtod(const char *text, char **end);
double __mingw_strtod(const char *text, char **end);
/* Windows' own strtod reads decimal numbers. MinGW-w64's strtold reads the rest: inf, nan and
 * hexadecimal numbers, of which a long double holds at least 64 bits exactly. */
double __strtod(const char *text, char **end) {
    const char *first = text + strspn(text, " \t\n\v\f\r+-");
    const bool is_decimal = *first && strchr(".0123456789", *first) && (first[1] | 32) != 'x';
    if (!is_decimal)
        return (double)strtold(text, end);
    static double (*_Atomic function)(const char *, char **);
    if (!function)
        function = (double (*)(const char *, char **))of_windows("strtod");
    return function(text, end);
}
double __mingw_strtod(const char *text, char **end) { return __strtod(text, end); }

float(sinf)(float x) { return (float)sin(x); }
float(cosf)(float x) { return (float)cos(x); }
#endif

/* ---- files ------------------------------------------------------------------------------- */

/* Opens a file. Opening a folder fails; then sets errno to EISDIR, as POSIX systems do. */
static int windows_open(const char *path, int flags, mode_t mode) {
    const int fd = _open(path, flags | O_BINARY, mode & (_S_IREAD | _S_IWRITE));
    const DWORD attributes = fd < 0 ? GetFileAttributesA(path) : INVALID_FILE_ATTRIBUTES;
    if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY)
        errno = EISDIR;
    return fd;
}

static int windows_stat(int fd, struct stat *status) { return fstat(fd, status); }

/* Sets errno to `number` and returns -1. Used after a function of the Windows API has failed, since
 * such functions don't set errno. */
static int fail_with(int number) {
    errno = number;
    return -1;
}

static ssize_t windows_pread(int fd, void *to, size_t n, off_t at) {
    OVERLAPPED place = { .Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32) };
    DWORD got = 0;
    if (ReadFile((HANDLE)_get_osfhandle(fd), to, (DWORD)n, &got, &place))
        return (ssize_t)got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : fail_with(EIO);
}

static ssize_t windows_write(int fd, const void *from, size_t n) {
    return _write(fd, from, (unsigned)n);
}

static int windows_rename(const char *from, const char *to) {
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        return 0;
    const DWORD error = GetLastError();
    const bool absent = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
    return fail_with(absent ? ENOENT : EACCES);
}

rg_system rgi_system = { windows_open, windows_stat, windows_pread,  windows_write,
                         _commit,      _close,       windows_rename, _unlink };

/* Returns a copy of the path, without following links. So a save to a link replaces the link, not
 * the file to which the link leads. */
char *rgi_real_path(const char *path) { return _strdup(path); }

bool rgi_is_writable(const char *path) {
    enum { FOR_WRITING = 2 };
    return _access(path, FOR_WRITING) == 0;
}

bool rgi_make_folder(const char *path) {
    (void)path;
    return false;
}

void rgi_set_permissions(int fd, mode_t mode) {
    (void)fd;
    (void)mode;
}

bool rgi_is_running(long process) {
    DWORD code = 0;
    HANDLE handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)process);
    if (!handle)
        return GetLastError() != ERROR_INVALID_PARAMETER;
    const bool running = !GetExitCodeProcess(handle, &code) || code == STILL_ACTIVE;
    CloseHandle(handle);
    return running;
}

/* Unlike the function for POSIX systems, this one doesn't check for a lock: on Windows _unlink
 * fails for a file that a process has open. */
void rgi_remove_files(const char *folder, bool (*is_wanted)(const char *name, const void *context),
                      const void *context) {
    char path[4096];
    DIR *all = opendir(folder);
    if (!all)
        return;
    for (const struct dirent *e; (e = readdir(all));) {
        const int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (is_wanted(e->d_name, context) && n < (int)sizeof path)
            _unlink(path);
    }
    closedir(all);
}

bool rgi_hold(int fd, const char *path) {
    (void)fd;
    (void)path;
    return true;
}
#else
typedef int rg_not_windows; /* C requires a declaration in every source file. */
#endif
