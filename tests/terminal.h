/* terminal.h: what a program writes to a terminal. */
#pragma once

#include "tests/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens a terminal, which a function prints to. Sets *master to the descriptor from which
 * read_terminal reads. Returns NULL if the system has no terminals. */
static inline FILE *open_terminal(int *master) {
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0 || grantpt(*master) || unlockpt(*master))
        return NULL;
    FILE *f = fopen(ptsname(*master), "w");
    ck_assert(f);
    return f;
}

/* Reads what was written to the terminal into `text`, until `text` contains `last`. One read may
 * return only a part of it. */
static inline void read_terminal(int master, char text[4096], const char *last) {
    size_t n = 0;
    for (text[0] = 0; !strstr(text, last); text[n] = 0) {
        const ssize_t got = read(master, text + n, 4095 - n);
        ck_assert_msg(got > 0, "%s", text);
        n += (size_t)got;
    }
}
