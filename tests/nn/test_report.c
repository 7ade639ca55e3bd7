/*
 * test_report.c: the records that a report appends to its page, and what happens where a record
 * can't be written. tests/report/run looks at a page in a browser.
 */
#include "regard.h"
#include "tensor/files/json.h"
#include "tests/faults.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading a page -------------------------------------------------------------------- */

static const char records_begin[] = "<script type=\"text/plain\" id=\"records\">\n";

/* Returns the records of the page "run", without the part of the page before them. The caller frees
 * the records. */
static char *records_of_page(void) {
    size_t n;
    char *all = file_bytes(scratch("run"), &n), *text = realloc(all, n + 1);
    ck_assert(text);
    text[n] = 0;
    char *from = strstr(text, records_begin);
    ck_assert(from && !strstr(from + 1, "<script"));
    char *records = strdup(from + strlen(records_begin));
    free(text);
    return records;
}

/* Returns the number of records. Asserts that all of them are JSON, except for `broken` lines. */
static int count_records(int broken) {
    char *text = records_of_page(), *rest;
    int n = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        rg_json json;
        if (rgi_json_parse(&json, "test", "page", line, strlen(line))) {
            ck_assert(json.v[0].kind == RG_JSON_ARRAY && json.v[1].kind == RG_JSON_TEXT);
            rgi_json_free(&json);
            n++;
        } else {
            rg_error_clear();
            broken--;
        }
    }
    free(text);
    ck_assert_int_eq(broken, 0);
    return n;
}

/* Asserts that a line of the page is this record. */
static void has_record(const char *record) {
    char *text = records_of_page(), line[4096];
    const int n = snprintf(line, sizeof line, "\n%s", record);
    const char *at = strstr(text, line);
    ck_assert_msg(at && (at[n] == '\n' || !at[n]), "no record %s in%s", record, text);
    free(text);
}

static rg_report *begin(void) {
    rg_report *r = rg_report_begin(scratch("run"), .title = "A </script> run");
    ck_assert_msg(r, "%s", rg_error());
    return r;
}

/* ---- records --------------------------------------------------------------------------- */

START_TEST(test_numbers) {
    scratch_begin();
    rg_manual_seed(18446744073709551615u);
    rg_report *r = begin();
    ck_ok(rg_report_number(r, "loss", 1, 0.1));
    ck_ok(rg_report_number(r, "loss", INT64_MAX, 1e-300));
    ck_ok(rg_report_number(r, "a \"<b>&\\\n\x01\x7f\xe2\x82\xac", -2, NAN));
    ck_ok(rg_report_number(r, "", 3, INFINITY));
    ck_ok(rg_report_number(r, "", 3, -INFINITY));
    ck_ok(rg_report_setting(r, "lr", "%g and %s", 0.5, "<more>"));
    ck_ok(rg_report_text(r, "model", "two\nlines"));
    /* A run that is killed leaves a page with all records but that of the end. */
    has_record("[\"number\",\"loss\",1,0.1]");
    ck_ok(rg_report_end(r));
    has_record("[\"number\",\"loss\",9223372036854775807,1e-300]");
    has_record(
        "[\"number\",\"a \\u0022\\u003cb>&\\u005c\\u000a\\u0001\\u007f\xe2\x82\xac\",-2,null]");
    has_record("[\"number\",\"\",3,1e999]");
    has_record("[\"number\",\"\",3,-1e999]");
    has_record("[\"setting\",\"lr\",\"0.5 and \\u003cmore>\"]");
    has_record("[\"text\",\"model\",\"two\\u000alines\"]");
    has_record("[\"end\"]");
    /* The records are the run, the times at the first number and at the end, and the eight
     * above. */
    ck_assert_int_eq(count_records(0), 1 + 2 + 8);
    char *text = records_of_page();
    const char run[] = "\n[\"run\",\"A \\u003c/script> run\",\"" RG_VERSION
                       "\",\"18446744073709551615\",";
    ck_assert(strncmp(text, run, strlen(run)) == 0);
    free(text);
    scratch_end();
}
END_TEST

START_TEST(test_pictures) {
    static const char *const rows[] = { "up", "do\"wn" }, *const columns[] = { "a", "b", "c" };
    scratch_begin();
    RG_SCOPE();
    rg_report *r = begin();
    rg_tensor *x = rg_literal([ [ 0., 0.25, nan ], [ inf, -inf, 123456. ] ]);
    ck_ok(rg_report_picture(r, "x", 5, x, .rows = { 2, rows }, .columns = { 3, columns }));
    has_record("[\"picture\",\"x\",5,[\"up\",\"do\\u0022wn\"],[\"a\",\"b\",\"c\"],2,3,"
               "[[0,0.25,null,1e999,-1e999,1.235e+05]]]");
    ck_ok(rg_report_picture(r, "n", 0, rg_reshape(rg_arange(4), 2, 1, 2)));
    has_record("[\"picture\",\"n\",0,[],[],1,2,[[0,1],[2,3]]]");
    /* Numbers that lie close together stay apart. */
    rg_tensor *close = rg_literal_as(RG_FLOAT64, [[ 100000001., 100000002., 100000004. ]]);
    ck_ok(rg_report_picture(r, "close", 0, close));
    has_record("[\"picture\",\"close\",0,[],[],1,3,[[100000001,100000002,100000004]]]");
    ck_ok(rg_report_picture(r, "same", 0, rg_mul(close, 0)));
    has_record("[\"picture\",\"same\",0,[],[],1,3,[[0,0,0]]]");
    /* Each of the 128 pixels is the mean of two elements. The 256 names of columns aren't written.
     */
    const char *names[256];
    for (int i = 0; i < 256; i++)
        names[i] = "name";
    rg_tensor *wide = rg_unsqueeze(rg_remainder(rg_arange(256), 2), 0);
    ck_ok(rg_report_picture(r, "wide", 0, wide, .columns = { 256, names }));
    char *text = records_of_page();
    const char *pixels = strstr(text, "\"wide\",0,[],[],1,256,[[0.5,0.5,");
    ck_assert(pixels && !strstr(pixels + 20, ",0,"));
    free(text);
    ck_ok(rg_report_end(r));
    scratch_end();
}
END_TEST

/* Reads the counts of the histogram whose record has this text, and returns their sum. */
static int64_t counts_of(const char *text, int64_t counts[48]) {
    char *records = records_of_page(), *at = strstr(records, text);
    ck_assert_msg(at, "no %s in%s", text, records);
    at = strchr(at, '[') + 1;
    int64_t sum = 0;
    for (int i = 0; i < 48; i++, at++)
        sum += counts[i] = strtoll(at, &at, 10);
    ck_assert(strncmp(at - 1, "]]", 2) == 0);
    free(records);
    return sum;
}

START_TEST(test_histograms) {
    scratch_begin();
    RG_SCOPE();
    rg_report *r = begin();
    int64_t counts[48];
    rg_tensor *x = rg_literal([ [ -1., 1., 1. ], [ nan, inf, 0. ] ]);
    ck_ok(rg_report_histogram(r, "x", 2, x));
    ck_assert_int_eq(counts_of("\"x\",2,-1.0,1.0,0.25,0.8291561975888", counts), 4);
    ck_assert(counts[0] == 1 && counts[24] == 1 && counts[47] == 2);
    ck_ok(rg_report_histogram(r, "same", 2, rg_full(RG_DIMS(3), rg_scalar(7))));
    ck_assert_int_eq(counts_of("\"same\",2,7.0,7.0,7.0,0.0,0,0,", counts), 3);
    ck_ok(rg_report_histogram(r, "none", 2, rg_empty(0)));
    ck_assert_int_eq(counts_of("\"none\",2,0.0,0.0,0.0,0.0,0,0,", counts), 0);
    ck_ok(rg_report_histogram(r, "great", 2, rg_double(rg_literal([ 1.7e308, -1.7e308 ]))));
    ck_ok(rg_report_histogram(r, "bool", 2, rg_literal([ True, False, True ])));
    ck_assert_int_eq(counts_of("\"bool\",2,0.0,1.0,0.6666666666666666,0.47140452079103", counts),
                     3);
    /* A view with more elements than are read at a time. */
    rg_tensor *many = rg_transpose(rg_reshape(rg_arange(300000), 3, 100000), 0, 1);
    ck_ok(rg_report_histogram(r, "many", 2, many));
    ck_assert_int_eq(counts_of("\"many\",2,0.0,299999.0,149999.5,86602.54037", counts), 300000);
    ck_assert_int_eq(counts[0], 6250);
    /* Numbers that lie close together, and numbers whose squares and sums overflow. */
    x = rg_literal_as(RG_FLOAT64, [ 100000001., 100000002., 100000004., 100000001. ]);
    ck_ok(rg_report_histogram(r, "close", 2, x));
    ck_assert_int_eq(
        counts_of("\"close\",2,100000001.0,100000004.0,100000002.0,1.22474487", counts), 4);
    ck_ok(rg_report_histogram(r, "vast", 2, rg_mul(x, 1.7e300)));
    ck_assert_int_eq(
        counts_of("\"vast\",2,1.700000017e+308,1.700000068e+308,1.700000034e+308,2.08", counts), 4);
    ck_ok(rg_report_histogram(r, "ends", 2,
                              rg_literal_as(RG_FLOAT64, [ 1.5e308, 1.5e308, -1.5e308 ])));
    ck_assert_int_eq(counts_of("\"ends\",2,-1.5e+308,1.5e+308,5.00000000000000", counts), 3);
    ck_ok(rg_report_end(r));
    scratch_end();
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------- */

static rg_report *in_recording;
static void reports(void *unused) {
    (void)unused;
    rg_report_number(in_recording, "loss", 1, 1);
}

START_TEST(test_refusals) {
    scratch_begin();
    RG_SCOPE();
    ck_fails(rg_report_begin("/nowhere/run.html"), RG_IO_ERROR,
             "report_begin: [Errno 2] No such file or directory: '/nowhere/run.html'");
    ck_fails(rg_report_begin(scratch("")), RG_IO_ERROR, "report_begin: [Errno 21] Is a directory");
    ck_fails(rg_report_begin("/dev/full"), RG_IO_ERROR,
             "report_begin: '/dev/full': it is no regular file");
    rg_report *r = begin();
    rg_tensor *x = rg_ones(2, 3), *gone = rg_ones(2);
    rg_drop(gone);
    ck_fails(rg_report_number(r, NULL, 1, 1), RG_TYPE_ERROR,
             "report_number: expected a name but got NULL");
    ck_fails(rg_report_text(r, "model", NULL), RG_TYPE_ERROR,
             "report_text: expected a text but got NULL");
    ck_fails(rg_report_setting(r, "lr", NULL), RG_TYPE_ERROR,
             "report_setting: expected a format but got NULL");
    ck_fails(rg_report_picture(r, "x", 1, NULL), RG_TYPE_ERROR,
             "report_picture: expected a tensor");
    ck_fails(rg_report_picture(r, "x", 1, rg_ones(3)), RG_RUNTIME_ERROR,
             "report_picture: expected a matrix or several, but got a tensor with 1 dims");
    ck_fails(rg_report_picture(r, "x", 1, rg_ones(2, 0)), RG_RUNTIME_ERROR,
             "report_picture: a tensor of shape [2, 0] has no elements");
    ck_fails(rg_report_picture(r, "x", 1, rg_ones(65, 1, 1)), RG_RUNTIME_ERROR,
             "report_picture: expected at most 64 matrices, but got 65");
    static const char *const one[] = { NULL };
    ck_fails(rg_report_picture(r, "x", 1, x, .rows = { 1, one }), RG_VALUE_ERROR,
             "report_picture: expected a name for each of 2 rows, but got 1");
    ck_fails(rg_report_picture(r, "x", 1, x, .columns = { 3, NULL }), RG_TYPE_ERROR,
             "report_picture: expected a list but got NULL");
    ck_fails(rg_report_picture(r, "x", 1, rg_ones(1, 3), .rows = { 1, one }), RG_TYPE_ERROR,
             "report_picture: expected a name but got NULL");
    ck_fails(rg_report_picture(r, "x", 1, x, .rows = { -1, NULL }), RG_TYPE_ERROR,
             "report_picture: expected a list but got one that failed");
    ck_fails(rg_report_histogram(r, "x", 1, gone), RG_RELEASED, "report_histogram: ");
    ck_fails((rg_report_parameters)(r, 1, x), RG_TYPE_ERROR, "report_parameters: ");
    in_recording = r;
    ck_fails(rg_record(reports, NULL), RG_NOT_IMPLEMENTED, "report_number");
    ck_assert_int_eq(count_records(0), 1);
    ck_ok(rg_report_end(r));
    scratch_end();
}
END_TEST

/* ---- resumed pages --------------------------------------------------------------------- */

START_TEST(test_resume) {
    scratch_begin();
    for (int i = 0; i < 2; i++) {
        rg_report *r = rg_report_begin(scratch("run"), .resume = true);
        ck_assert_msg(r, "%s", rg_error());
        ck_ok(rg_report_number(r, "loss", i, 1));
        ck_ok(rg_report_end(r));
    }
    ck_assert_int_eq(count_records(0), 2 * (1 + 1 + 2 + 1));
    ck_ok(rg_report_end(begin()));
    ck_assert_int_eq(count_records(0), 1 + 1 + 1);
    scratch_write("run", "<!DOCTYPE html> of something else, which is longer than the line", 64);
    ck_fails(rg_report_begin(scratch("run"), .resume = true), RG_IO_ERROR,
             "it is no page of a report, so that it can't be resumed");
    scratch_write("run", "<", 1);
    ck_fails(rg_report_begin(scratch("run"), .resume = true), RG_IO_ERROR, "it is no page");
    scratch_end();
}
END_TEST

static size_t page_bytes(void) {
    char *records = records_of_page();
    size_t all;
    free(file_bytes(scratch("run"), &all));
    const size_t n = all - strlen(records);
    free(records);
    return n;
}

/* If a page was cut off, resuming it completes it. A cut page of another version is refused. */
START_TEST(test_resume_of_cut_page) {
    scratch_begin();
    ck_ok(rg_report_end(begin()));
    const size_t bytes = page_bytes();
    const size_t cuts[] = { 0, 60, 100, 5000, 20000, bytes - 1, bytes };
    size_t n;
    char *whole = file_bytes(scratch("run"), &n);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        scratch_write("run", whole, cuts[i]);
        rg_report *r = rg_report_begin(scratch("run"), .resume = true);
        ck_assert_msg(r, "cut to %zu: %s", cuts[i], rg_error());
        ck_ok(rg_report_number(r, "loss", 1, 1));
        ck_ok(rg_report_end(r));
        ck_assert_uint_eq(page_bytes(), bytes);
        ck_assert_int_eq(count_records(0), 1 + 1 + 2 + 1);
    }
    whole[bytes - 100] ^= 1;
    scratch_write("run", whole, bytes - 10);
    ck_fails(rg_report_begin(scratch("run"), .resume = true), RG_IO_ERROR, "it is no page");
    scratch_write("run", whole, bytes);
    rg_report *r = rg_report_begin(scratch("run"), .resume = true);
    ck_assert_msg(r, "%s", rg_error());
    ck_ok(rg_report_end(r));
    free(whole);
    scratch_end();
}
END_TEST

/* A report that can't be begun leaves the page that is at its path. */
START_TEST(test_old_page_stays) {
    scratch_begin();
    rg_report *r = begin();
    ck_ok(rg_report_number(r, "loss", 1, 0.25));
    ck_ok(rg_report_end(r));
    faults_begin();
    faults.most = 5000;
    faults.fail_at = 4;
    faults.number = 28;
    ck_fails(rg_report_begin(scratch("run")), RG_IO_ERROR, "[Errno 28]");
    faults_end();
    has_record("[\"number\",\"loss\",1,0.25]");
    scratch_end();
}
END_TEST

static int (*open_before)(const char *path, int flags, mode_t mode);
static int open_no_append(const char *path, int flags, mode_t mode) {
    errno = EMFILE;
    return flags & O_APPEND ? -1 : open_before(path, flags, mode);
}

/* The old page also stays if the new page is written, but can't be opened to append records. */
START_TEST(test_old_page_stays_if_opening_fails) {
    scratch_begin();
    rg_report *r = begin();
    ck_ok(rg_report_number(r, "loss", 1, 0.25));
    ck_ok(rg_report_end(r));
    faults_begin();
    open_before = rgi_system.open;
    rgi_system.open = open_no_append;
    char said[700];
    snprintf(said, sizeof said, "report_begin: [Errno 24] %s: '%s'", strerror(EMFILE),
             scratch("run"));
    ck_fails(rg_report_begin(scratch("run")), RG_IO_ERROR, said);
    ck_assert_int_eq(faults.open, 0);
    faults_end();
    ck_assert_int_eq(scratch_files(), 1);
    has_record("[\"number\",\"loss\",1,0.25]");
    scratch_end();
}
END_TEST

/* ---- disks and memory that are full ------------------------------------------------------ */

/* Only a record that was cut short is lost. */
START_TEST(test_full_disk) {
    scratch_begin();
    rg_report *r = begin();
    ck_ok(rg_report_number(r, "loss", 1, 1));
    faults_begin();
    faults.most = 9;
    faults.fail_at = 2;
    faults.number = 28;
    ck_fails(rg_report_number(r, "loss", 2, 1), RG_IO_ERROR,
             "report_number: [Errno 28] No space left on device: '");
    faults.fail_at = 0;
    faults.full = true;
    ck_fails(rg_report_number(r, "loss", 3, 1), RG_IO_ERROR, "[Errno 28]");
    faults.full = false;
    faults.interrupts = true;
    ck_ok(rg_report_number(r, "loss", 4, 1));
    faults_end();
    ck_ok(rg_report_end(r));
    has_record("[\"number\",\"loss\",4,1.0]");
    /* The six records: the run, two numbers, the times at the first number and at the end, and the
     * end. */
    ck_assert_int_eq(count_records(1), 6);
    scratch_end();
}
END_TEST

static rg_sequential *model;
static bool whole_run(void) {
    RG_SCOPE();
    rg_report *r = rg_report_begin(scratch("run"), .resume = true);
    bool ok = r && rg_report_number(r, "loss", 1, 0.5);
    ok = ok && rg_report_setting(r, "lr", "%g", 0.5) && rg_report_text(r, "model", "a text");
    rg_tensor *x = ok ? rg_ones(2, 3) : NULL;
    ok = x && rg_report_picture(r, "x", 1, x) && rg_report_parameters(r, 1, model);
    if (x && !ok)
        ck_each(strncmp(rg_error_peek(), "report_", 7) == 0, "%s", rg_error_peek());
    return (!r || rg_report_end(r)) && ok;
}

START_TEST(test_denied) {
    scratch_begin();
    model = rg_nn_sequential(rg_nn_linear(2, 3));
    rg_backward(rg_sum(rg_call(model, rg_ones(2, 2))));
    ck_assert_int_gt(deny_in_turn(whole_run, NULL), 20);
    ck_assert_int_gt(fail_in_turn(whole_run, NULL), 10);
    rg_module_free(model);
    scratch_end();
}
END_TEST

/* ---- threads ---------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 500 };
static void *report_many(void *r) {
    static atomic_int next;
    char name[16];
    snprintf(name, sizeof name, "thread %d", next++);
    for (int i = 0; i < EACH; i++)
        if (!rg_report_number(r, name, i, i) || (i % 100 == 0 && !rg_report_text(r, name, name)))
            return "failed";
    return NULL;
}

START_TEST(test_threads) {
    scratch_begin();
    rg_report *r = begin();
    pthread_t threads[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, report_many, r) == 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert(pthread_join(threads[i], &failed) == 0 && !failed);
    ck_ok(rg_report_end(r));
    ck_assert_int_ge(count_records(0), THREADS * (EACH + EACH / 100) + 4);
    scratch_end();
}
END_TEST

RG_TESTS(report, test_numbers, test_pictures, test_histograms, test_refusals, test_resume,
         test_resume_of_cut_page, test_old_page_stays, test_old_page_stays_if_opening_fails,
         test_full_disk, test_denied, test_threads)
