/*
 * show.h: for examples that train: begins and ends the page of a run, and saves the curve of its
 * losses.
 */
#pragma once

#include "options.h"

static inline void report_option(rg_report *report, const option *o) {
    if (o->kind == WHOLE)
        rg_report_setting(report, o->name, "%lld", (long long)*(int64_t *)o->value);
    if (o->kind == NUMBER)
        rg_report_setting(report, o->name, "%g", *(double *)o->value);
    if (o->kind == TEXT)
        rg_report_setting(report, o->name, "%s", *(char **)o->value);
}

/* Begins the page run.html in the folder, with the program's options as its settings. If `resume`
 * is true, appends to the page that an earlier run has left there. */
static inline rg_report *begin_page(const char *folder, bool resume, int n,
                                    const option options[]) {
    char path[4096];
    snprintf(path, sizeof path, "%s/run.html", folder);
    rg_report *report = rg_report_begin(path, .title = program, .resume = resume);
    for (int i = 0; i < n && report; i++)
        report_option(report, &options[i]);
    return report;
}
#define BEGIN_PAGE(folder, resume, options) \
    begin_page(folder, resume, (int)(sizeof(options) / sizeof *(options)), options)

static inline void save_losses(const char *folder, rg_tensor *losses, const char *title) {
    char path[4096];
    snprintf(path, sizeof path, "%s/loss.svg", folder);
    rg_save_curve(losses, path, .title = title);
    printf("wrote %s\n", path);
}

static inline void end_page(rg_report *report, const char *folder) {
    rg_report_end(report);
    printf("wrote %s/run.html\n", folder);
}
