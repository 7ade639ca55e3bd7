/*
 * options.h: functions that all examples use: they stop the program at an error, read its options
 * and files, and make folders.
 */
#pragma once

#include "regard.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- stopping -------------------------------------------------------------------- */

/* The name with which the program's messages begin: argv[0] without its folders. */
static const char *program = "example";

/* In a program of several processes, the error handler that ends all of them. */
static rg_error_handler *end_all;

/* An error handler. Stops the program with status 2 if memory ran out, otherwise with status 1. */
static inline void stop_on_error(rg_code code, const char *message) {
    if (end_all)
        end_all(code, message);
    fprintf(stderr, "%s: %s\n", program, message);
    exit(code == RG_OUT_OF_MEMORY ? 2 : 1);
}

/* Stops the program with status 2, after one line about the user's mistake. Newlines in strings
 * that the user gave become blanks. */
static inline __attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...) {
    char line[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if (*c == '\n')
            *c = ' ';
    fflush(stdout);
    if (end_all)
        end_all(RG_VALUE_ERROR, line);
    fprintf(stderr, "%s: %s\n", program, line);
    exit(2);
}

/* Runs when the program exits, and ends it with status 1 if a part of its output couldn't be
 * written. */
static void check_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "%s: standard output can't be written\n", program);
    _exit(1);
}

/* ---- options: --steps 300 or --steps=300, and flags: --fast ---------------------- */

typedef struct {
    const char *name;
    /* The type of the value: an int64_t, a double, a const char *, or a bool. A bool is a flag: it
     * is given without a value, and is then true. */
    enum { WHOLE, NUMBER, TEXT, FLAG } kind;
    /* A pointer to the value. At first the value is the default. */
    void *value;
    /* The bounds of a number. */
    double least, most;
    const char *help;
} option;

static inline void print_option(const option *o) {
    printf("  --%-12s %s", o->name, o->help);
    if (o->kind == WHOLE)
        printf(" (%lld)", (long long)*(int64_t *)o->value);
    if (o->kind == NUMBER)
        printf(" (%g)", *(double *)o->value);
    if (o->kind == TEXT && **(char **)o->value)
        printf(" (%s)", *(char **)o->value);
    printf("\n");
}

static inline void print_help(const char *usage, int n, const option options[]) {
    printf("usage: %s [options] %s\n\n", program, usage);
    for (int i = 0; i < n; i++)
        print_option(&options[i]);
    printf("  --%-12s this text\n", "help");
}

static inline void set_option(const option *o, const char *text) {
    if (o->kind == FLAG) {
        *(bool *)o->value = true;
        return;
    }
    if (o->kind == TEXT) {
        *(const char **)o->value = text;
        return;
    }
    char *end;
    double number;
    if (o->kind == NUMBER) {
        number = strtod(text, &end);
        *(double *)o->value = number;
    } else {
        errno = 0;
        int64_t whole = strtoll(text, &end, 10);
        *(int64_t *)o->value = whole;
        number = errno ? NAN : (double)whole;
    }
    if (end > text && !*end && number >= o->least && number <= o->most)
        return;
    const char *kind = o->kind == WHOLE ? "whole number" : "number";
    if (number > o->most)
        refuse("--%s takes a %s of at most %g, not '%s'", o->name, kind, o->most, text);
    refuse("--%s takes a %s of at least %g, not '%s'", o->name, kind, o->least, text);
}

/* Returns the option whose name is the first `length` bytes of `name`. Returns NULL if there is
 * none. */
static inline const option *find_option(const char *name, size_t length, int n,
                                        const option options[]) {
    for (int i = 0; i < n; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

/* Reads the options. Moves the arguments that aren't options to the end of argv, in their order,
 * and returns the index of the first of them. Arguments after -- aren't options. */
static inline int read_options(int argc, char *argv[], const char *usage, int n,
                               const option options[]) {
    const char *slash = strrchr(argv[0], '/');
    program = slash ? slash + 1 : argv[0];
    atexit(check_output);
    char *others[argc + 1];
    int i = 1, found_others = 0;
    for (; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (argv[i][0] != '-' || !argv[i][1]) {
            others[found_others++] = argv[i];
            continue;
        }
        if (argv[i][1] != '-')
            refuse("there is no option %s; --help lists them", argv[i]);
        if (strcmp(argv[i], "--help") == 0) {
            print_help(usage, n, options);
            exit(0);
        }
        const char *name = argv[i] + 2, *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const option *found = find_option(name, length, n, options);
        if (!found)
            refuse("there is no option --%.*s; --help lists them", (int)length, name);
        bool flag = found->kind == FLAG;
        if (flag && equals)
            refuse("--%s takes no value", found->name);
        if (!flag && !equals && i + 1 == argc)
            refuse("--%s takes a value", name);
        if (!flag && !equals)
            i++;
        set_option(found, equals ? equals + 1 : argv[i]);
    }
    memcpy(argv + i - found_others, others, (size_t)found_others * sizeof *others);
    return i - found_others;
}
#define READ_OPTIONS(argc, argv, usage, options) \
    read_options(argc, argv, usage, (int)(sizeof(options) / sizeof *(options)), options)

/* ---- files --------------------------------------------------------------------- */

/* Returns the contents of the file. The caller frees them. */
static inline char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t n = 0, room = 0;
    for (size_t got = 1; f && got; n += got) {
        if (n == room) {
            room = 2 * room + 4096;
            text = realloc(text, room + 1);
            if (!text)
                refuse("no memory for '%s'", path);
        }
        got = fread(text + n, 1, room - n, f);
    }
    if (!f || ferror(f))
        refuse("can't read '%s': %s", path, strerror(errno));
    fclose(f);
    text[n] = 0;
    if (strlen(text) != n)
        refuse("'%s' is no text: it holds a zero byte", path);
    return text;
}

/* Creates the folder, and the folders that contain it, if they don't exist. */
static inline void make_folder(const char *path) {
    char part[4096];
    for (size_t i = 1; i <= strlen(path) && i < sizeof part; i++) {
        if (path[i] != '/' && path[i])
            continue;
        snprintf(part, i + 1, "%s", path);
        if (mkdir(part, 0777) && errno != EEXIST)
            refuse("can't make the folder '%s': %s", part, strerror(errno));
    }
    struct stat s;
    if (stat(path, &s) || !S_ISDIR(s.st_mode))
        refuse("'%s' is no folder", path);
}

/* ---- time ------------------------------------------------------------------------- */

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
