/*
 * lines.h: how a program answers the Python script that has started it. The script writes commands
 * to the program's standard input, and the program answers each line with a line. Texts are in
 * hexadecimal, and "-" is the empty text; a list of numbers is decimal, with blanks between them.
 */
#pragma once

#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts and numbers ---------------------------------------------------------------- */

static inline int from_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* Turns hexadecimal digits into bytes, in place. Returns the number of bytes. */
static inline int64_t from_hex(char *text) {
    size_t n = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(from_digit(text[2 * i]) << 4 | from_digit(text[2 * i + 1]));
    text[n] = 0;
    return (int64_t)n;
}

static inline void print_hex(const char *text, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        printf("%02x", (unsigned char)text[i]);
}

/* Returns the numbers of a line as a tensor. */
static inline rg_tensor *from_decimals(char *text) {
    int64_t n = 0, *v = malloc((strlen(text) / 2 + 1) * sizeof *v);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        v[n++] = strtoll(word, NULL, 10);
    rg_tensor *t = rg_from_int64(v, RG_DIMS(n));
    free(v);
    return t;
}

/* ---- commands ------------------------------------------------------------------------- */

/* A command, which is the first word of a line. `run` gets the rest of the line, prints the answer,
 * and returns false on failure. */
typedef struct {
    const char *name;
    bool (*run)(char *text);
} command;

/* Runs one line. If the command fails, the answer is the error. */
static inline void answer(size_t n, const command commands[], char *line) {
    RG_SCOPE();
    rg_error_clear();
    line[strcspn(line, "\n")] = 0;
    char *rest = strchr(line, ' ');
    if (rest)
        *rest++ = 0;
    rest = rest ? rest : line + strlen(line);
    for (size_t i = 0; i < n; i++)
        if (strcmp(commands[i].name, line) == 0 && !commands[i].run(rest))
            printf("error %s", rg_error());
    printf("\n");
    fflush(stdout);
}

/* Answers all lines of the standard input. */
static inline void answer_lines(size_t n, const command commands[]) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0)
        answer(n, commands, line);
    free(line);
}
