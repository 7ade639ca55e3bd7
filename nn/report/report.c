/*
 * report.c: writes the page about a run of a program. The file begins with page.html. A script in
 * page.html draws the records that follow it. A record is one line of JSON. It is appended by a
 * single write() if possible, so that records from several threads don't mix. A record begins, not
 * ends, with a newline: if an earlier record was cut short, the next one still begins a new line.
 * The records that show tensors are made in tensors.c.
 */
#include "drawing.h"
#include "record.h"

#include "regard.h"
#include "tensor/files/file.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/text/digits.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct rg_report {
    rg_handle handle;
    int fd;
    double began;           /* The monotonic clock in seconds when rg_report_begin was called. */
    atomic_long next_beat;  /* Seconds after `began`. The first number that is reported at this time
                             * or later also appends a "beat" record (see add_beat). */
    atomic_llong last_step; /* The step of the number that was reported last. */
    char path[];
};

/* The text of page.html, with which the file of a report begins. */
static const char page_text[] = {
#include "page.inc"
};

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- writing records as JSON ---------------------------------------------------------- */

/* Returns whether a JSON string may contain the character as it is. Other characters are written as
 * \uXXXX: control characters, quotes, backslashes, and "<", which could end the HTML element that
 * contains the records. Also returns false for the 0 at the end of a string. */
static bool needs_no_escape(char c) {
    return (unsigned char)c >= ' ' && c != '"' && c != '\\' && c != '<' && c != 0x7f;
}

void rgi_record_text(rg_text *record, const char *text) {
    rgi_text_add(record, "\"");
    while (*text) {
        const char *from = text;
        while (needs_no_escape(*text))
            text++;
        rgi_text_add(record, "%.*s", (int)(text - from), from);
        if (*text)
            rgi_text_add(record, "\\u%04x", (unsigned)*text++);
    }
    rgi_text_add(record, "\"");
}

void rgi_record_double(rg_text *record, double v) {
    if (isnan(v))
        rgi_text_add(record, "null");
    else if (isinf(v))
        rgi_text_add(record, v > 0 ? "1e999" : "-1e999");
    else
        rgi_text_add(record, "%s", rgi_python_float(v));
}

void rgi_record_begin(rg_text *record, const char *kind, const char *name, int64_t step) {
    rgi_text_add(record, "\n[\"%s\",", kind);
    rgi_record_text(record, name);
    rgi_text_add(record, ",%lld", (long long)step);
}

/* ---- opening, writing and closing the file -------------------------------------------- */

bool rgi_report_given(const rg_report *r, const char *name, const char *op) {
    return rgi_may_do_once(op) && rgi_handle_given(r, op, RG_HANDLE_REPORT)
           && rgi_given(name, op, "a name");
}

bool rgi_report_append(rg_report *r, const char *op, rg_text *records) {
    const bool ok = !records->failed
                    && rgi_file_append(r->fd, op, r->path, records->v, records->n);
    rgi_text_free(records);
    return ok;
}

/* Returns the last line of page_text, with its newline. */
static const char *last_line_of_page(void) {
    const char *line = page_text + sizeof page_text - 2;
    while (line[-1] != '\n')
        line--;
    return line;
}

/* Fails unless the file is empty or a report. `head` is a string of the file's first bytes. Sets
 * *whole to whether the file has a whole page, which may be that of another version of the library.
 * If writing was interrupted, a report can end inside page_text, but not in its first line. */
static bool is_report(const rg_report *r, const char *op, const char *head, bool *whole) {
    const size_t n = strlen(head), first_line = strcspn(page_text, "\n") + 1;
    *whole = strstr(head, last_line_of_page());
    const bool begun = strncmp(head, page_text, n) == 0;
    const bool named = strncmp(head, page_text, first_line) == 0;
    RG_FAIL_AS_IF(RG_IO_ERROR, n > 0 && !(named && (begun || *whole)), op,
                  "'%s': it is no page of a report, so that it can't be resumed", r->path);
    return true;
}

/* Appends what the file lacks of the page: all of it if the file is new. Fails if the file is no
 * report. */
static bool complete_page(rg_report *r, const char *op) {
    struct stat status;
    if (rgi_system.stat(r->fd, &status)) {
        rgi_fail_errno(op, errno, r->path);
        return false;
    }
    RG_FAIL_AS_IF(RG_IO_ERROR, !S_ISREG(status.st_mode), op, "'%s': it is no regular file",
                  r->path);
    const rg_file file = {
        .op = op, .path = r->path, .fd = r->fd, .bytes = (uint64_t)status.st_size
    };
    const size_t n = (size_t)RG_MIN(file.bytes, 4 * (uint64_t)sizeof page_text);
    char *head = rgi_alloc(n + 1, RG_MEM_OTHER);
    rg_text rest = { 0 };
    bool whole = false, ok = head && rgi_file_read(&file, 0, head, n);
    if (ok) {
        head[n] = 0;
        ok = is_report(r, op, head, &whole);
    }
    if (ok && !whole)
        rgi_text_add(&rest, "%s", page_text + strlen(head));
    if (head)
        rgi_free(head, n + 1, RG_MEM_OTHER);
    return ok && rgi_report_append(r, op, &rest);
}

/* Opens the file for appending. `path` is the report's path, or the path of the new file that will
 * be renamed to it. `flags` are further flags of open. */
static bool open_page(rg_report *r, const char *op, const char *path, int flags) {
    r->fd = rgi_system.open(path, flags | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (r->fd < 0)
        rgi_fail_errno(op, errno, r->path);
    return r->fd >= 0;
}

/* Replaces the file by a new one that has the page and the first record, and opens the new file. If
 * the system can rename open files, the new file is opened before it is renamed, so that the old
 * one stays as it was if opening fails. Frees the record. Returns false on failure. */
static bool replace_page(rg_report *r, const char *op, rg_text *record) {
    rg_writer w;
    const bool begun = !record->failed && rgi_writer_begin(&w, op, r->path);
    if (begun) {
        rgi_write(&w, page_text, strlen(page_text));
        rgi_write(&w, record->v, record->n);
    }
    rgi_text_free(record);
    if (!begun)
        return false;
    if (!rgi_writer_settle(&w)
        || (RG_OPEN_FILES_CAN_BE_RENAMED && !open_page(r, op, w.beside, O_WRONLY))) {
        rgi_writer_cancel(&w);
        return false;
    }
    return rgi_writer_end(&w) && (r->fd >= 0 || open_page(r, op, r->path, O_WRONLY));
}

/* Appends a "beat" record: the step of the last number, the seconds since rg_report_begin, and the
 * bytes of tensor memory in use now and at their peak. */
static void add_beat(rg_text *record, rg_report *r, double seconds) {
    const rg_memory memory = rg_memory_stats();
    rgi_text_add(record, "\n[\"beat\",%lld,%.3f,%lld,%lld]", (long long)r->last_step, seconds,
                 (long long)memory.now, (long long)memory.peak);
}

/* Writes the first record of a run, and opens the file. If `resume` is true, appends the record to
 * the report that is at the path; otherwise replaces that report. */
static bool begin_run(rg_report *r, const char *op, const char *title, bool resume) {
    rg_text record = { 0 };
    rgi_text_add(&record, "\n[\"run\",");
    rgi_record_text(&record, title);
    rgi_text_add(&record, ",\"%s\",\"%llu\",%.0f,%d]", RG_VERSION,
                 (unsigned long long)rg_initial_seed(), seconds_of(CLOCK_REALTIME),
                 rg_get_num_threads());
    if (!resume)
        return replace_page(r, op, &record);
    if (open_page(r, op, r->path, O_RDWR | O_CREAT) && complete_page(r, op))
        return rgi_report_append(r, op, &record);
    rgi_text_free(&record);
    return false;
}

static size_t report_bytes(const rg_report *r) { return sizeof *r + strlen(r->path) + 1; }

/* Closes the file and releases the report. Returns false if closing failed. */
static bool close_report(rg_report *r, const char *op) {
    const bool ok = rgi_file_append_end(r->fd, op, r->path);
    rgi_free_handle(&r->handle, report_bytes(r));
    return ok;
}

rg_report *rg_report_begin_with(const char *path, rg_report_options o) {
    const char *op = "report_begin";
    if (!rgi_may_do_once(op) || !rgi_given_path(path, op))
        return NULL;
    rg_report *r = rgi_alloc(sizeof *r + strlen(path) + 1, RG_MEM_OTHER);
    if (!r)
        return NULL;
    *r = (rg_report){ .handle = RG_NEW_HANDLE(REPORT),
                      .fd = -1,
                      .began = seconds_of(CLOCK_MONOTONIC) };
    strcpy(r->path, path);
    if (begin_run(r, op, o.title ? o.title : path, o.resume))
        return r;
    close_report(r, op);
    return NULL;
}

bool rg_report_end(rg_report *r) {
    const char *op = "report_end";
    if (!rgi_may_do_once(op) || !rgi_handle_given(r, op, RG_HANDLE_REPORT))
        return false;
    rg_text record = { 0 };
    add_beat(&record, r, seconds_of(CLOCK_MONOTONIC) - r->began);
    rgi_text_add(&record, "\n[\"end\"]\n");
    const bool ok = rgi_report_append(r, op, &record);
    return close_report(r, op) && ok;
}

/* ---- records of numbers and texts ----------------------------------------------------- */

bool(rg_report_number)(rg_report *r, const char *name, int64_t step, double number) {
    if (!rgi_report_given(r, name, "report_number"))
        return false;
    rg_text record = { 0 };
    rgi_record_begin(&record, "number", name, step);
    rgi_text_add(&record, ",");
    rgi_record_double(&record, number);
    rgi_text_add(&record, "]");
    r->last_step = step;
    const double seconds = seconds_of(CLOCK_MONOTONIC) - r->began;
    long due = r->next_beat;
    if (seconds >= (double)due
        && atomic_compare_exchange_strong(&r->next_beat, &due, (long)seconds + 1))
        add_beat(&record, r, seconds);
    return rgi_report_append(r, "report_number", &record);
}

static bool append_text(rg_report *r, const char *op, const char *kind, const char *name,
                        const char *text) {
    rg_text record = { 0 };
    rgi_text_add(&record, "\n[\"%s\",", kind);
    rgi_record_text(&record, name);
    rgi_text_add(&record, ",");
    rgi_record_text(&record, text);
    rgi_text_add(&record, "]");
    return rgi_report_append(r, op, &record);
}

bool rg_report_text(rg_report *r, const char *name, const char *text) {
    return rgi_report_given(r, name, "report_text") && rgi_given(text, "report_text", "a text")
           && append_text(r, "report_text", "text", name, text);
}

bool rg_report_setting(rg_report *r, const char *name, const char *format, ...) {
    const char *op = "report_setting";
    if (!rgi_report_given(r, name, op) || !rgi_given(format, op, "a format"))
        return false;
    rg_text value = { 0 };
    va_list args;
    va_start(args, format);
    const bool ok = rgi_add_formatted(&value, op, format, args)
                    && append_text(r, op, "setting", name, value.v);
    va_end(args);
    rgi_text_free(&value);
    return ok;
}
