/*
 * progress.h: shows the progress of a training. On a terminal it is one line, which is redrawn ten
 * times a second; otherwise a line is printed after each tenth of the steps.
 */
#pragma once

#include "regard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    int64_t steps;
    /* The time when the training began, and when the line was last shown, in seconds. */
    double begin, shown;
    bool terminal;
} progress;

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline progress progress_begin(int64_t steps) {
    return (progress){ steps, seconds(), 0, isatty(STDOUT_FILENO) };
}

/* Returns whether progress should be shown after `done` steps. Asking is cheap, but computing the
 * loss that is shown may not be. */
static inline bool progress_due(const progress *p, int64_t done) {
    if (done == 1 || done == p->steps)
        return true;
    if (p->terminal)
        return seconds() - p->shown > 0.1;
    return done * 10 / p->steps != (done - 1) * 10 / p->steps;
}

static inline void progress_show(progress *p, int64_t done, double loss) {
    double now = seconds(), rate = (double)done / fmax(now - p->begin, 1e-9);
    p->shown = now;
    if (p->terminal) {
        int filled = (int)(20 * done / p->steps);
        printf("\r  [");
        for (int i = 0; i < 20; i++)
            fputs(i < filled ? "█" : "·", stdout);
        printf("]");
    }
    printf("  step %lld of %lld   loss %.4f   %.0f steps/s   %.1f s left", (long long)done,
           (long long)p->steps, loss, rate, (double)(p->steps - done) / rate);
    fputs(p->terminal && done < p->steps ? "\033[K" : "\n", stdout);
    fflush(stdout);
}

/* Prints a line that stays on the terminal, above the progress line. */
static inline __attribute__((format(printf, 2, 3))) void progress_note(const progress *p,
                                                                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (p->terminal)
        fputs("\r\033[K", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
}
