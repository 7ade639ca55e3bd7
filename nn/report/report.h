/*
 * report.h: the page of a run: one HTML file with curves, heat-maps, histograms, settings and
 * texts, which a browser shows without a network.
 *
 *     rg_report *report = rg_report_begin("run.html", .title = "Two heads");
 *     rg_report_setting(report, "lr", "%g", lr);
 *     rg_report_text(report, "model", rg_module_repr(model));
 *     RG_FOR (int64_t step = 0; step < steps; step++) {
 *         ...
 *         rg_report_number(report, "loss/train", step, rg_item(loss));
 *         if (step % 100 == 0)
 *             rg_report_parameters(report, step, model);
 *     }
 *     rg_report_end(report);
 *
 * Each call appends a record to the file before it returns, so that the page of a run that was
 * killed shows all that was reported. A page that is open in a browser shows new records when it is
 * loaded again.
 *
 * A name may have a slash. Numbers with the same part before the slash share a chart, and pictures
 * share a slider over the steps. If a name is reported at a step that isn't greater than its last
 * one, as by a run that goes on from a checkpoint, its records from that step on are replaced.
 *
 * Functions return false on failure. A record that can't be written, as on a full disk, is lost,
 * but later ones are written as soon as there is room. Several threads may report at once.
 */
#pragma once

#include "../module.h"

#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_report rg_report;

typedef struct RG_OPTIONS rg_report_options {
    RG_BY_NAME;
    const char *title RG_DEFAULT(NULL); /* NULL stands for the path. */
    /* Append to the page that is at the path, if there is one. */
    bool resume RG_DEFAULT(false);
} rg_report_options;
/* Begins the page with the time, the library's version, the seed of the default generator and the
 * number of threads; a file that is at the path is replaced. Returns a report, which rg_report_end
 * releases, or NULL. */
rg_report *rg_report_begin_with(const char *path, rg_report_options o);
#define rg_report_begin(path, ...) \
    rg_report_begin_with(path, RG_KEYWORDS(rg_report_options, (.title = NULL), __VA_ARGS__))

/* Adds a line to the table of settings: a name, and a value that is written as by printf. */
bool rg_report_setting(rg_report *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a text, such as rg_module_repr(model). */
bool rg_report_text(rg_report *r, const char *name, const char *text);
/* Adds a number to the curve of this name. NaN and infinities are marked in the curve. About once a
 * second the time and the memory in use are added, too. */
bool rg_report_number(rg_report *r, const char *name, int64_t step, double value);

typedef struct RG_OPTIONS rg_report_picture_options {
    RG_BY_NAME;
    rg_names rows RG_DEFAULT({});    /* The names of the rows, or none. */
    rg_names columns RG_DEFAULT({}); /* The names of the columns, or none. */
} rg_report_picture_options;
/* Adds a heat-map of the matrix t, (rows, columns), or several, (n, rows, columns) with n of at
 * most 64. In a matrix of more than 128 rows or columns, each pixel is the mean of several
 * elements. */
bool rg_report_picture_with(rg_report *r, const char *name, int64_t step, rg_tensor *t,
                            rg_report_picture_options o);
#define rg_report_picture(r, name, step, t, ...) \
    rg_report_picture_with(r, name, step, t,     \
                           RG_KEYWORDS(rg_report_picture_options, (.rows = { 0 }), __VA_ARGS__))
/* Adds a histogram of t's elements. */
bool rg_report_histogram(rg_report *r, const char *name, int64_t step, rg_tensor *t);
/* Adds a histogram of each parameter, "weights/" and its name, and of its gradient, if it has one,
 * "gradients/" and its name. */
bool rg_report_parameters(rg_report *r, int64_t step, void *model);

/* Writes the end of the run, its time and its memory, closes the file and releases the report. */
bool rg_report_end(rg_report *r);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_report_number(r, name, step, value) rg_report_number(r, name, RG_WHOLE(step), value)
#define rg_report_picture_with(r, name, step, t, ...) \
    rg_report_picture_with(r, name, RG_WHOLE(step), t, __VA_ARGS__)
#define rg_report_histogram(r, name, step, t) rg_report_histogram(r, name, RG_WHOLE(step), t)
#define rg_report_parameters(r, step, model)  rg_report_parameters(r, RG_WHOLE(step), model)

RG_PUBLIC_END
