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
 * On a terminal one line is drawn over again, at most ten times a second. In a file or a pipe a new
 * line is written after the first step and after each tenth of the steps. A line has the program's
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

/* The state of a progress line. It owns no memory, so no call releases it. Programs must not change
 * the fields. */
typedef struct rg_progress {
    FILE *to;
    int64_t steps;
    int64_t before;       /* The first call's `done` minus 1, but not below 0. A later call whose
                           * `done` is below this number sets it anew. */
    int64_t last;         /* The step of the last line; `before` if no line has been written. */
    double began, shown;  /* The time from which the speed is measured, and the time of the
                           * last line, both in seconds. */
    bool terminal;        /* Set if the stream is a terminal. */
    bool started, opened; /* `started` is set by the first call, `opened` while the cursor is in
                           * the line. */
} rg_progress;

/* Begins the progress line of a loop of `steps` steps on the stream `to`, which must stay open.
 * Pass 0 if the number of steps isn't known. Then a line in a file or a pipe is written about every
 * ten seconds, and no line says what time is left. On failure returns a state whose stream is
 * NULL. */
rg_progress rg_progress_begin(FILE *to, int64_t steps);
/* Writes the line if one is due after `done` steps. The format is printf's; a newline in the text
 * is written as a space. A loop that continues from a checkpoint may begin with any step. The steps
 * before that one don't count for the steps per second. */
bool rg_progress_show(rg_progress *p, int64_t done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns whether rg_progress_show would write a line after `done` steps. So a program can leave
 * out the computation of a number that only the line shows. */
bool rg_progress_due(rg_progress *p, int64_t done);
/* Writes a separate line, which stays above the progress line. The format is printf's, and the
 * newline is added. */
bool rg_progress_note(rg_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the line on the terminal, so that other output begins below it. rg_progress_show does this
 * itself after the last step. So this call matters only if a loop may end before its last step. */
bool rg_progress_end(rg_progress *p);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_progress_begin(to, steps)   rg_progress_begin(to, RG_WHOLE(steps))
#define rg_progress_show(p, done, ...) rg_progress_show(p, RG_WHOLE(done), __VA_ARGS__)
#define rg_progress_due(p, done)       rg_progress_due(p, RG_WHOLE(done))

RG_PUBLIC_END
