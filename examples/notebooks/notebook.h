/* notebook.h: functions of the notebooks' programs: they stop the program at an error, and print
 * tuples. */
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error handler: a notebook stops at its first error. */
static void stop_on_error(rg_code code, const char *message) {
    fprintf(stderr, "error %d: %s\n", code, message);
    exit(1);
}

/* Prints a tuple as the notebook does: on one line or, if an item has several lines, with each item
 * on lines of its own. */
static inline void print_tuple(int n, const char *const items[]) {
    bool lines = false;
    for (int i = 0; i < n; i++)
        lines |= strchr(items[i], '\n') != NULL;
    for (int i = 0; i < n; i++) {
        const char *between = lines ? ",\n " : ", ";
        fputs(i == 0 ? "(" : between, stdout);
        for (const char *c = items[i]; *c; c++) {
            putchar(*c);
            if (*c == '\n')
                putchar(' ');
        }
    }
    puts(")");
}
#define PRINT_TUPLE(...)                                                  \
    print_tuple(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *), \
                (const char *[]){ __VA_ARGS__ })
