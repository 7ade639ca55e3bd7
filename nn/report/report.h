/*
 * report.h: a page about one run of a program (for example a training). The page is one HTML file
 * with curves, heat-maps, histograms, a table of settings, and texts. A browser shows it without a
 * network.
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
 * A name may have a slash, such as "loss/train". Curves whose names have the same part before the
 * slash share a chart. Heat-maps and histograms with the same part share a slider over the steps. A
 * run that continues from a checkpoint may report a name again at the same step or an earlier one.
 * The new record then replaces the records of this name and kind from that step on.
 *
 * Functions return false on failure. A record that can't be written, for example because the disk
 * is full, is lost; later records are written as soon as there is room. Several threads may report
 * at once.
 */
#pragma once

#include "../module.h"

#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_report rg_report;

typedef struct RG_OPTIONS rg_report_options {
    RG_BY_NAME;
    const char *title RG_DEFAULT(NULL); /* The title. If NULL, it is the path. */
    /* Append to the page that is at the path, if there is one. If an interrupted run has left only
     * the beginning of the page there, the rest of the page is written first. */
    rg_flag resume RG_DEFAULT(false);
} rg_report_options;
/* Creates the file, and writes the page. Appends a record with the title, the time, the library's
 * version, the seed of the default generator and the number of threads. A file that is at the path
 * is replaced. But if o.resume is true, a report's page at the path is kept and continued, and any
 * other file that isn't empty is an error. Returns a report, which rg_report_end releases. On
 * failure returns NULL; unless o.resume is true, the file at the path is then as it was. */
rg_report *rg_report_begin_with(const char *path, rg_report_options o);
#define rg_report_begin(path, ...) \
    rg_report_begin_with(path, RG_KEYWORDS(rg_report_options, (.title = NULL), __VA_ARGS__))

/* Adds a line to the table of settings. `name` is its left column. Its right column is the value,
 * which is formatted as by printf. */
bool rg_report_setting(rg_report *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a string of any number of lines, such as rg_module_repr(model), below the heading `name`. A
 * later string with the same name replaces it. */
bool rg_report_text(rg_report *r, const char *name, const char *text);
/* Adds the point (step, number) to the curve with this name. NaN and infinities are marked in the
 * chart. About once a second, this function also records the time since rg_report_begin and the
 * memory in use. The page draws curves of both. */
bool rg_report_number(rg_report *r, const char *name, int64_t step, double number);

typedef struct RG_OPTIONS rg_report_picture_options {
    RG_BY_NAME;
    rg_names rows RG_DEFAULT({});    /* The labels of the rows, or an empty list. */
    rg_names columns RG_DEFAULT({}); /* The labels of the columns, or an empty list. */
} rg_report_picture_options;
/* Adds a heat-map of t, whose shape is (rows, columns). If the shape is (n, rows, columns), adds n
 * heat-maps side by side; n is at most 64. A heat-map has at most 128 by 128 pixels. If a matrix
 * has more rows, a pixel shows the mean of several elements, and the rows' labels are left out. The
 * same holds for columns. Numbers are rounded to a thousandth of the matrix's range or less. */
bool rg_report_picture_with(rg_report *r, const char *name, int64_t step, rg_tensor *t,
                            rg_report_picture_options o);
#define rg_report_picture(r, name, step, t, ...) \
    rg_report_picture_with(r, name, step, t,     \
                           RG_KEYWORDS(rg_report_picture_options, (.rows = { 0 }), __VA_ARGS__))
/* Adds a histogram of t's finite elements. The page also tells how many elements are NaN or
 * infinite. */
bool rg_report_histogram(rg_report *r, const char *name, int64_t step, rg_tensor *t);
/* Adds a histogram of each parameter of the model, named "weights/" and the parameter's name. If
 * the parameter has a gradient, also adds a histogram of the gradient, named "gradients/" and the
 * parameter's name. */
bool rg_report_parameters(rg_report *r, int64_t step, void *model);

/* Records the time and the memory in use for the last time, marks the run as ended, closes the file
 * and releases the report. The report is released even if writing fails. */
bool rg_report_end(rg_report *r);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_report_number(r, name, step, number) rg_report_number(r, name, RG_WHOLE(step), number)
#define rg_report_picture_with(r, name, step, t, ...) \
    rg_report_picture_with(r, name, RG_WHOLE(step), t, __VA_ARGS__)
#define rg_report_histogram(r, name, step, t) rg_report_histogram(r, name, RG_WHOLE(step), t)
#define rg_report_parameters(r, step, model) \
    rg_report_parameters(r, RG_WHOLE(step), RG_A_MODULE_(model))

RG_PUBLIC_END
