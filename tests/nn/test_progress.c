/*
 * test_progress.c: the progress line of a loop, in a file and on a terminal.
 */
#define _GNU_SOURCE
#include "regard.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/terminal.h"
#include "tests/test.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *stream(void) {
    FILE *f = fopen(scratch("shown"), "w");
    ck_assert(f);
    return f;
}

/* Returns the file's contents, which the caller frees. */
static char *shown(void) {
    size_t n;
    char *bytes = file_bytes(scratch("shown"), &n), *text = realloc(bytes, n + 1);
    ck_assert(text);
    text[n] = 0;
    return text;
}

/* Returns the first number behind each "step " in the file, such as "1 10 20 ". */
static const char *steps_shown(void) {
    static char steps[1024];
    char *text = shown();
    size_t n = 0;
    for (char *at = text; (at = strstr(at, "step ")); at++)
        n += (size_t)snprintf(steps + n, sizeof steps - n, "%d ", atoi(at + 5));
    free(text);
    return steps;
}

/* Shows `p`, which writes to a file, after each step from `from` to `to`. Asserts that
 * rg_progress_due tells beforehand whether anything is written. */
static void run(rg_progress *p, int64_t from, int64_t to) {
    for (int64_t done = from; done <= to; done++) {
        const bool due = rg_progress_due(p, done);
        const long before = ftell(p->to);
        ck_ok(rg_progress_show(p, done, "loss %.2f of %s", 0.5, "many"));
        ck_assert_int_eq(due, ftell(p->to) > before);
    }
}

/* When a loop goes back to an earlier step, the speed is counted anew, and isn't negative. */
START_TEST(test_back_to_an_earlier_step) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 5);
    ck_ok(rg_progress_show(&p, 7, "x") && rg_progress_show(&p, 2, "y"));
    fclose(f);
    char *text = shown();
    ck_assert(strstr(text, "step 2 of 5   y   ") && !strstr(text, "-"));
    free(text);
    scratch_end();
}
END_TEST

START_TEST(test_in_a_file) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 100);
    run(&p, 1, 100);
    ck_ok(rg_progress_end(&p));
    ck_assert_str_eq(steps_shown(), "1 10 20 30 40 50 60 70 80 90 100 ");
    char *text = shown();
    const char first[] = "  step 1 of 100   loss 0.50 of many   ";
    ck_assert(strncmp(text, first, strlen(first)) == 0);
    ck_assert(strstr(text, " steps/s   ") && !strchr(text, '\033') && !strchr(text, '\r'));
    ck_assert(strcmp(text + strlen(text) - 12, " 0.0 s left\n") == 0);
    free(text);
    fclose(f);
    scratch_end();
}
END_TEST

/* A newline in the text doesn't end the line. */
START_TEST(test_newlines) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 1);
    ck_ok(rg_progress_show(&p, 1, "%s%d", "a\r\nb\n", 7));
    char *text = shown();
    const char first[] = "  step 1 of 1   a  b 7   ";
    ck_assert_msg(strncmp(text, first, strlen(first)) == 0, "%s", text);
    ck_assert(strchr(text, '\n') == text + strlen(text) - 1);
    free(text);
    fclose(f);
    scratch_end();
}
END_TEST

/* A loop may begin after step 1, end before the last step, have fewer than ten steps, or go beyond
 * the last step. */
START_TEST(test_other_loops) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 100);
    run(&p, 58, 75);
    ck_assert_str_eq(steps_shown(), "58 60 70 ");
    fclose(f);
    f = stream();
    p = rg_progress_begin(f, 3);
    run(&p, 1, 5);
    ck_assert_str_eq(steps_shown(), "1 2 3 4 5 ");
    fclose(f);
    /* Ten times the number of these steps would overflow. */
    f = stream();
    p = rg_progress_begin(f, INT64_MAX);
    run(&p, INT64_MAX - 2, INT64_MAX - 1);
    fclose(f);
    scratch_end();
}
END_TEST

/* A line is due at the first call after each tenth, even if the call isn't that of the tenth. */
START_TEST(test_calls_now_and_then) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 1000);
    for (int64_t done = 32; done < 1000; done += 32)
        ck_ok(rg_progress_show(&p, done, "x"));
    ck_ok(rg_progress_show(&p, 1000, "x"));
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(steps_shown(), "32 128 224 320 416 512 608 704 800 928 1000 ");
    scratch_end();
}
END_TEST

START_TEST(test_unknown_number) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 0);
    run(&p, 1, 50);
    p.shown -= 11;
    run(&p, 51, 60);
    ck_assert_str_eq(steps_shown(), "1 51 ");
    char *text = shown();
    ck_assert(strstr(text, "  step 51   loss") && !strstr(text, " of 0") && !strstr(text, "left"));
    free(text);
    fclose(f);
    scratch_end();
}
END_TEST

/* The time that is left is shown in a suitable unit. A speed below one step per second is shown
 * with decimals. */
START_TEST(test_times) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 1000);
    const double late[] = { 10, 100, 1000 };
    for (int i = 0; i < 3; i++) {
        p.began -= late[i];
        ck_ok(rg_progress_show(&p, 100 * (i + 1), "x"));
    }
    char *text = shown();
    ck_assert_msg(strstr(text, "0.1 steps/s   2.5 h left"), "%s", text);
    ck_assert_msg(strstr(text, "0.92 steps/s"), "%s", text);
    free(text);
    fclose(f);
    scratch_end();
}
END_TEST

START_TEST(test_notes) {
    scratch_begin();
    FILE *f = stream();
    rg_progress p = rg_progress_begin(f, 2);
    ck_ok(rg_progress_note(&p, "after %d: %s", 3, "good"));
    ck_ok(rg_progress_end(&p));
    char *text = shown();
    ck_assert_str_eq(text, "after 3: good\n");
    free(text);
    fclose(f);
    scratch_end();
}
END_TEST

/* ---- a terminal ------------------------------------------------------------------------ */

START_TEST(test_on_a_terminal) {
    int master;
    char text[4096];
    FILE *f = open_terminal(&master);
    if (!f)
        return;
    rg_progress p = rg_progress_begin(f, 4);
    ck_assert(p.terminal);
    ck_ok(rg_progress_show(&p, 1, "loss %d", 7));
    read_terminal(master, text, "\033[?7h");
    const char first[] = "\r\033[?7l  [█████···············]  step 1 of 4   loss 7   ";
    ck_assert_msg(strncmp(text, first, strlen(first)) == 0, "%s", text);
    ck_assert(strstr(text, "left\033[K\033[?7h") && !strchr(text, '\n'));
    ck_ok(rg_progress_note(&p, "a note"));
    read_terminal(master, text, "\n");
    ck_assert_str_eq(text, "\r\033[Ka note\r\n");
    /* Shortly after a line was shown, no other line is due. Later, one is due. */
    p.shown += 100;
    ck_assert(!rg_progress_due(&p, 2));
    p.shown -= 200;
    ck_ok(rg_progress_show(&p, 2, "x"));
    ck_ok(rg_progress_end(&p));
    read_terminal(master, text, "\n");
    ck_assert(strstr(text, "[██████████··········]  step 2") && strchr(text, '\n'));
    ck_ok(rg_progress_show(&p, 4, "x"));
    ck_ok(rg_progress_end(&p));
    read_terminal(master, text, "\n");
    ck_assert(strstr(text, "step 4 of 4") && strchr(text, '\n') == strrchr(text, '\n'));
    ck_ok(rg_progress_note(&p, "after the last"));
    read_terminal(master, text, "\n");
    ck_assert_str_eq(text, "after the last\r\n");
    fclose(f);
    close(master);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------- */

static rg_progress *in_recording;
static void shows(void *unused) {
    (void)unused;
    rg_progress_show(in_recording, 1, "x");
}

START_TEST(test_refusals) {
    scratch_begin();
    rg_progress none = rg_progress_begin(NULL, 3);
    ck_assert_str_eq(rg_error(), "progress_begin: expected a stream but got NULL");
    rg_error_clear();
    ck_fails(rg_progress_show(&none, 1, "x"), RG_TYPE_ERROR,
             "progress_show: expected a progress line with a stream but got NULL");
    ck_assert(!rg_progress_begin(stderr, -1).to);
    ck_assert_str_eq(rg_error(), "progress_begin: expected a number of steps, but got -1");
    rg_error_clear();
    FILE *f = stream(), *full = fopen("/dev/full", "w");
    rg_progress p = rg_progress_begin(f, 3), in_full = rg_progress_begin(full, 3);
    ck_fails(rg_progress_show(&p, -1, "x"), RG_VALUE_ERROR,
             "progress_show: expected a number of steps, but got -1");
    ck_fails(rg_progress_show(&p, 1, NULL), RG_TYPE_ERROR, "progress_show: expected a format");
    ck_fails(rg_progress_note(&p, NULL), RG_TYPE_ERROR, "progress_note: expected a format");
    const wchar_t odd[] = { 0x20ac, 0 };
    ck_fails(rg_progress_show(&p, 1, "%ls", odd), RG_VALUE_ERROR,
             "progress_show: the format \"%ls\" can't be printed");
    ck_fails(rg_progress_show(&in_full, 1, "x"), RG_IO_ERROR,
             "progress_show: [Errno 28] No space left on device");
    ck_fails(rg_progress_note(&in_full, "x"), RG_IO_ERROR, "progress_note: [Errno 28]");
    in_recording = &p;
    ck_fails(rg_record(shows, NULL), RG_NOT_IMPLEMENTED, "progress_show");
    fclose(f);
    fclose(full);
    scratch_end();
}
END_TEST

static bool whole_loop(void) {
    FILE *f = fopen("/dev/null", "w");
    rg_progress p = rg_progress_begin(f, 4);
    const bool ok = f && rg_progress_show(&p, 1, "x") && rg_progress_note(&p, "y")
                    && rg_progress_show(&p, 4, "z");
    return (!f || fclose(f) == 0) && ok;
}

START_TEST(test_denied) { ck_assert_int_gt(deny_in_turn(whole_loop, NULL), 2); }
END_TEST

RG_TESTS(progress, test_in_a_file, test_newlines, test_other_loops, test_calls_now_and_then,
         test_unknown_number, test_times, test_notes, test_back_to_an_earlier_step,
         test_on_a_terminal, test_refusals, test_denied)
