/*
 * progress.h: shows how far a loop is, as tqdm does in Python:
 *
 *     rg_progress progress = rg_progress_begin(stderr, steps);
 *     RG_FOR (int64_t step = 0; step < steps; step++) {
 *         ...
 *         rg_progress_show(&progress, step + 1, "loss %.4f", rg_item(loss));
 *     }
 *     rg_progress_end(&progress);
 *
 * On a terminal that is one line, which is drawn again ten times a second. In a file or a pipe it
 * is a line after the first step and after each tenth of the steps. The line has the program's
 * text, the steps per second, and the time that is left:
 *
 *       step 40 of 400   loss 0.1234   1234 steps/s   0.3 s left
 *
 * Functions return false on failure, for example if the stream is closed; the training may go on.
 * The calls about one rg_progress must not overlap: it belongs to one thread.
 */
#pragma once

#include "../../tensor/tensor.h"

#include <stdio.h>
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* The state of a progress line. It needs no memory but its own, and no call releases it. Programs
 * don't change the fields. */
typedef struct rg_progress {
    FILE *to;
    int64_t steps;
    int64_t before;       /* The number of steps that were done before the first that is shown. */
    double began, shown;  /* The times of rg_progress_begin and of the last line, in seconds. */
    bool terminal;        /* The stream is a terminal. */
    bool started, opened; /* A step was given; the cursor is in the line on the terminal. */
} rg_progress;

/* Returns the state of a loop of this number of steps, which is shown on the stream `to`. If the
 * number isn't known, `steps` is 0; a line in a file or a pipe is then written every ten seconds,
 * and no line says what time is left. The stream must stay open. On failure returns a state whose
 * stream is NULL. */
rg_progress rg_progress_begin(FILE *to, int64_t steps);
/* Writes the line, if it is time for one, after `done` steps. The format is printf's. A loop may
 * begin with any step, as a training does that goes on from a checkpoint: the steps before don't
 * count for the steps per second. */
bool rg_progress_show(rg_progress *p, int64_t done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns whether rg_progress_show would write a line after `done` steps. A program asks this
 * before it computes a number for the line alone. */
bool rg_progress_due(rg_progress *p, int64_t done);
/* Writes a line of its own, which stays above the progress line. The format is printf's, and the
 * newline is added. */
bool rg_progress_note(rg_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the line on the terminal, so that other output begins below it. The last step has done so
 * already; this call is for loops that may end before. */
bool rg_progress_end(rg_progress *p);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_progress_begin(to, steps)   rg_progress_begin(to, RG_WHOLE(steps))
#define rg_progress_show(p, done, ...) rg_progress_show(p, RG_WHOLE(done), __VA_ARGS__)
#define rg_progress_due(p, done)       rg_progress_due(p, RG_WHOLE(done))

RG_PUBLIC_END
