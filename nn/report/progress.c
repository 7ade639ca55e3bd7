/*
 * progress.c: the progress line of a loop. progress.h explains it.
 */
#include "progress.h"

#include "drawing.h"
#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/system/system.h"
#include "tensor/text/digits.h"

#include <math.h>
#include <time.h>

/* BAR is the number of characters of the bar. A line is due after the first and the last step. On a
 * terminal, a line is also due if the previous one is older than `redraw` seconds. In a file or a
 * pipe, a line is also due after each tenth of the steps. If the number of steps isn't known, a
 * line in a file or a pipe is due if the previous one is older than `rewrite` seconds. */
enum { BAR = 20 };
static const double redraw = 0.1, rewrite = 10;

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

rg_progress(rg_progress_begin)(FILE *to, int64_t steps) {
    const char *op = "progress_begin";
    rg_progress p = { .steps = steps, .began = seconds_now() };
    if (!rgi_may_do_once(op) || !rgi_given(to, op, "a stream"))
        return p;
    if (steps < 0) {
        rgi_fail(RG_VALUE_ERROR, op, "expected a number of steps, but got %lld", (long long)steps);
        return p;
    }
    p.to = to;
    p.terminal = rgi_is_terminal(to);
    return p;
}

static bool progress_given(const rg_progress *p, const char *op) {
    return rgi_may_do_once(op) && rgi_given(p, op, "a progress line")
           && rgi_given(p->to, op, "a progress line with a stream");
}

/* Returns how many tenths of the steps are complete after `done` steps. */
static int tenths(const rg_progress *p, int64_t done) {
    return (int)floor(10 * ((double)done / (double)p->steps));
}

/* Returns whether a line is due after `done` steps. The first call sets p->before to done - 1. A
 * later call whose `done` is less than p->before does the same, and the speed is then measured from
 * the last line on. */
static bool is_due(rg_progress *p, int64_t done, double now) {
    const bool back = p->started && done < p->before;
    if (back)
        p->began = fmax(p->began, p->shown);
    if (!p->started || back) {
        p->before = RG_MAX(done - 1, (int64_t)0);
        p->last = p->before;
    }
    p->started = true;
    if (done == p->before + 1 || done == p->steps)
        return true;
    if (p->terminal || p->steps == 0)
        return now - p->shown > (p->terminal ? redraw : rewrite);
    return tenths(p, done) != tenths(p, p->last);
}

/* Fails, and returns false, if the number of steps is negative. */
static bool done_given(const char *op, int64_t done) {
    RG_FAIL_VALUE_IF(done < 0, op, "expected a number of steps, but got %lld", (long long)done);
    return true;
}

bool(rg_progress_due)(rg_progress *p, int64_t done) {
    const char *op = "progress_due";
    return progress_given(p, op) && done_given(op, done) && is_due(p, done, seconds_now());
}

static void add_bar(rg_text *line, const rg_progress *p, int64_t done) {
    const double part = fmin((double)done / (double)p->steps, 1);
    rgi_text_add(line, "  [");
    for (int i = 0; i < BAR; i++)
        rgi_text_add(line, i < (int)(BAR * part) ? "█" : "·");
    rgi_text_add(line, "]");
}

static void add_time_left(rg_text *line, double seconds) {
    if (seconds < 120)
        rgi_text_add(line, "   %.1f s left", seconds);
    else if (seconds < 7200)
        rgi_text_add(line, "   %.0f min left", seconds / 60);
    else
        rgi_text_add(line, "   %.1f h left", seconds / 3600);
}

/* Appends the steps per second and, if the number of steps is known, the time that is left. */
static void add_times(rg_text *line, const rg_progress *p, int64_t done, double now) {
    const double rate = (double)(done - p->before) / fmax(now - p->began, 1e-9);
    if (rate < 10)
        rgi_text_add(line, "   %s steps/s", rgi_number_of_digits(2, rate));
    else
        rgi_text_add(line, "   %.0f steps/s", rate);
    if (p->steps > 0 && done <= p->steps && rate > 0)
        add_time_left(line, (double)(p->steps - done) / rate);
}

/* Writes the line. A line that is too long for the terminal is cut at the right edge: ESC [?7l and
 * ESC [?7h turn the wrapping of lines off and on. ESC [K clears what is still there of an earlier,
 * longer line. Returns false on failure. */
static bool show_line(rg_progress *p, const char *op, int64_t done, const char *format,
                      va_list args, double now) {
    rg_text line = { 0 };
    if (p->terminal)
        rgi_text_add(&line, "\r\033[?7l");
    if (p->terminal && p->steps > 0)
        add_bar(&line, p, done);
    rgi_text_add(&line, "  step %lld", (long long)done);
    if (p->steps > 0)
        rgi_text_add(&line, " of %lld", (long long)p->steps);
    rgi_text_add(&line, "   ");
    const size_t begin = line.n;
    if (!rgi_add_formatted(&line, op, format, args)) {
        rgi_text_free(&line);
        return false;
    }
    for (size_t i = begin; i < line.n; i++)
        if (line.v[i] == '\n' || line.v[i] == '\r')
            line.v[i] = ' ';
    add_times(&line, p, done, now);
    if (p->terminal)
        rgi_text_add(&line, "\033[K\033[?7h");
    p->opened = p->terminal && done != p->steps;
    if (!p->opened)
        rgi_text_add(&line, "\n");
    p->shown = now;
    p->last = done;
    return rgi_put_text(&line, op, p->to);
}

bool(rg_progress_show)(rg_progress *p, int64_t done, const char *format, ...) {
    const char *op = "progress_show";
    if (!progress_given(p, op) || !done_given(op, done) || !rgi_given(format, op, "a format"))
        return false;
    const double now = seconds_now();
    if (!is_due(p, done, now))
        return true;
    va_list args;
    va_start(args, format);
    const bool ok = show_line(p, op, done, format, args, now);
    va_end(args);
    return ok;
}

bool rg_progress_note(rg_progress *p, const char *format, ...) {
    const char *op = "progress_note";
    if (!progress_given(p, op) || !rgi_given(format, op, "a format"))
        return false;
    rg_text line = { 0 };
    rgi_text_add(&line, p->opened ? "\r\033[K" : "");
    p->opened = false;
    va_list args;
    va_start(args, format);
    const bool ok = rgi_add_formatted(&line, op, format, args);
    va_end(args);
    if (!ok) {
        rgi_text_free(&line);
        return false;
    }
    rgi_text_add(&line, "\n");
    return rgi_put_text(&line, op, p->to);
}

bool rg_progress_end(rg_progress *p) {
    const char *op = "progress_end";
    if (!progress_given(p, op))
        return false;
    rg_text line = { 0 };
    rgi_text_add(&line, p->opened ? "\n" : "");
    p->opened = false;
    return rgi_put_text(&line, op, p->to);
}
