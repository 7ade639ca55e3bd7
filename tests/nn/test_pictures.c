/*
 * test_pictures.c: curves and heat-maps as text and as SVG files.
 */
#define _GNU_SOURCE
#include "regard.h"
#include "tests/faults.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/terminal.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was drawn -------------------------------------------------------------------- */

/* Returns the contents of the file "picture", which the caller frees. */
static char *picture(void) {
    size_t n;
    char *bytes = file_bytes(scratch("picture"), &n), *text = realloc(bytes, n + 1);
    ck_assert(text);
    text[n] = 0;
    return text;
}

static void has(const char *part, bool there) {
    char *text = picture();
    ck_assert_msg(!strstr(text, part) != there, "'%s' is %s:\n%.2000s", part,
                  there ? "missing" : "there", text);
    free(text);
}

static void is_text(const char *expected) {
    char *text = picture();
    ck_assert_str_eq(text, expected);
    free(text);
}

/* Returns how often `part` occurs in the picture. */
static int count(const char *part) {
    char *text = picture();
    int n = 0;
    for (char *at = text; (at = strstr(at, part)); at++)
        n++;
    free(text);
    return n;
}

/* Opens the file "picture" for a function that prints. */
static FILE *stream(void) {
    FILE *f = fopen(scratch("picture"), "w");
    ck_assert(f);
    return f;
}
static bool closed(FILE *f, bool ok) { return fclose(f) == 0 && ok; }

#define PRINT(call)                                       \
    do {                                                  \
        FILE *f = stream();                               \
        ck_assert_msg(closed(f, call), "%s", rg_error()); \
    } while (0)

static rg_tensor *line(void) { return rg_literal([ 4., 2., nan, 1., 0.5 ]); }
static rg_tensor *square(void) { return rg_literal([ [ 0., 0.25 ], [ 1., nan ] ]); }
static const char *const words[] = { "a<b>&\"\n", "\xff\xe2\x82\xac\x1b[31m" };
static const rg_names labels = { 2, words };

/* ---- curves ---------------------------------------------------------------------------- */

START_TEST(test_printed_curve) {
    scratch_begin();
    RG_SCOPE();
    PRINT(rg_print_curve(line(), f, .title = "Lo\tss"));
    is_text("Lo?ss\n"
            "1 of 5 numbers are NaN or infinite\n"
            "   4.000 │█    \n         │█    \n         │█    \n         │█    \n         │█    \n"
            "         │██   \n         │██   \n         │██ ▄ \n         │██ █▂\n"
            "   0.000 │██ ██\n"
            "         └─────\n"
            "          1   5\n");
    /* The axis always contains 0. Numbers that are too long are written shorter. */
    PRINT(rg_print_curve(rg_literal([ -3., -1e9 ]), f));
    has("   0.000 │█ \n", true);
    has("-1.0e+09 │█ \n", true);
    /* Each of the 64 columns is the mean of several numbers, even if their sum overflows. */
    rg_tensor *great = rg_full_dims(RG_DIMS(100000), 1.7e308, RG_FLOAT64);
    PRINT(rg_print_curve(great, f));
    has("1.7e+308 │████████████████████████████████████████████████████████████████\n", true);
    /* The first column shows the first number, and the last column the last one. */
    rg_tensor *ends = rg_zeros(1000);
    rg_fill_(rg_select(ends, 0, 0), rg_literal(8.));
    rg_fill_(rg_select(ends, 0, 999), rg_literal(4.));
    PRINT(rg_print_curve(ends, f));
    has("   8.000 │█     ", true);
    has("\n         │█                                                              █\n", true);
    PRINT(rg_print_curve(rg_literal([ 1e-5, -4e-4 ]), f));
    has(" 1.0e-05 │█ \n", true);
    has("-4.0e-04 │", true);
    PRINT(rg_print_curve(rg_literal([nan]), f));
    has("   1.000 │ \n", true);
    PRINT(rg_print_curve(rg_requires_grad_(rg_ones(3), true), f));
    PRINT(rg_print_curve(rg_literal([ True, False ]), f));
    has("   1.000 │█ \n", true);
    scratch_end();
}
END_TEST

START_TEST(test_saved_curve) {
    scratch_begin();
    RG_SCOPE();
    ck_ok(rg_save_curve(line(), scratch("picture"), .title = "a <title> & more"));
    has(">a &lt;title&gt; &amp; more</text>", true);
    has("d=\"M72.0 56.0h0L212.0 196.0M492.0 266.0h0L632.0 301.0\"/>", true);
    has("1 of 5 numbers are NaN or infinite", true);
    has(">4</text>", true);
    /* A single peak among a million numbers is drawn. A number that isn't finite leaves a gap. */
    rg_tensor *y = rg_zeros_dims(RG_DIMS(1000000), RG_FLOAT64);
    double *numbers = rg_data(y);
    numbers[700001] = 8;
    numbers[300000] = INFINITY;
    ck_ok(rg_save_curve(y, scratch("picture")));
    has(" 56.0", true);
    ck_assert_int_eq(count("h0"), 2);
    has(">1000000</text>", true);
    /* One number is a dot. */
    ck_ok(rg_save_curve(rg_ones(1), scratch("picture")));
    has("d=\"M72.0 56.0h0\"/>", true);
    ck_ok(rg_save_curve(rg_from(((double[]){ 1.7e308, -1.7e308 }), 2), scratch("picture")));
    has("d=\"M72.0 56.0h0L632.0 336.0\"/>", true);
    scratch_end();
}
END_TEST

/* ---- heat-maps ------------------------------------------------------------------------- */

START_TEST(test_printed_heat_map) {
    scratch_begin();
    RG_SCOPE();
    PRINT(rg_print_heat_map(square(), f, .title = "Map", .rows = labels, .columns = labels));
    is_text("Map\n"
            "          a<b>&\"? ?€?[31m \n"
            "  a<b>&\"?    0.00 ░░ 0.25 \n"
            "  ?€?[31m ██ 1.00 ??  nan \n");
    PRINT(rg_print_heat_map(square(), f, .low = -1, .high = 1));
    is_text("   ▒▒ 0.00 ▓▓ 0.25 \n   ██ 1.00 ??  nan \n");
    PRINT(rg_print_heat_map(rg_literal([[ -inf, 12345., inf ]]), f));
    is_text("       -inf    12345 ██   inf \n");
    PRINT(rg_print_heat_map(rg_literal([[ 999.5, 1499.4, 999999., 1000000. ]]), f));
    is_text("      999.50      1499 ██ 999999 ██  1e+06 \n");
    /* A cell of a large heat-map is the mean of several elements, even if their sum overflows. */
    ck_ok(rg_save_heat_map(rg_full_dims(RG_DIMS(300, 300), 1e308, RG_FLOAT64), scratch("picture")));
    has("inf", false);
    scratch_end();
}
END_TEST

/* A terminal shows grey cells, black on white for 0 and white on black for 1, but shaded blocks if
 * NO_COLOR is set. A cell for NaN has no colour. */
START_TEST(test_heat_map_on_a_terminal) {
    RG_SCOPE();
    static const char cell[] = "\033[48;5;244m\033[38;5;231m  \033[0m";
    int master;
    char text[4096];
    FILE *f = open_terminal(&master);
    if (!f)
        return;
    unsetenv("NO_COLOR");
    rg_tensor *x = rg_literal([ [ 0., 0.25 ], [ 0.5, 1. ], [ nan, 0.49 ] ]);
    ck_ok(rg_print_heat_map(x, f) && fflush(f) == 0);
    read_terminal(master, text, "0.49  \033[0m\r\n");
    ck_assert_str_eq(text, "   \033[48;5;255m\033[38;5;16m  0.00  \033[0m"
                           "\033[48;5;250m\033[38;5;16m  0.25  \033[0m\r\n"
                           "   \033[48;5;244m\033[38;5;231m  0.50  \033[0m"
                           "\033[48;5;233m\033[38;5;231m  1.00  \033[0m\r\n"
                           "   ??  nan "
                           "\033[48;5;245m\033[38;5;16m  0.49  \033[0m\r\n");
    rg_tensor *wide = rg_expand(rg_literal([[1.]]), 1, 20);
    ck_ok(rg_print_heat_map(wide, f, .low = 0, .high = 2) && fflush(f) == 0);
    read_terminal(master, text, "\r\n");
    for (char *at = text + strlen("   "); *at != '\r'; at += strlen(cell))
        ck_assert_msg(strncmp(at, cell, strlen(cell)) == 0, "%s", text);
    setenv("NO_COLOR", "1", true);
    ck_ok(rg_print_heat_map(x, f) && fflush(f) == 0);
    read_terminal(master, text, "0.49 \r\n");
    ck_assert(!strchr(text, '\033') && strstr(text, "██ 1.00 "));
    setenv("NO_COLOR", "", true);
    ck_ok(rg_print_heat_map(x, f) && fflush(f) == 0);
    read_terminal(master, text, "0.49  \033[0m\r\n");
    unsetenv("NO_COLOR");
    fclose(f);
    close(master);
}
END_TEST

/* If a printed heat-map has many columns, they are narrow. If it has even more, a cell is the mean
 * of several elements. */
START_TEST(test_wide_heat_map) {
    scratch_begin();
    RG_SCOPE();
    const char *names[200];
    for (int i = 0; i < 200; i++)
        names[i] = "xy";
    rg_tensor *wide = rg_remainder(rg_reshape(rg_arange(400), 2, 200), 2);
    PRINT(rg_print_heat_map(wide, f, .rows = labels, .columns = { 200, names }));
    ck_assert_int_eq(count("\n"), 2);
    has("xy", false);
    PRINT(rg_print_heat_map(rg_narrow(wide, 1, 0, 20), f, .columns = { 20, names }));
    has("   x x x x x x x x x x x x x x x x x x x x \n     ██  ██", true);
    rg_tensor *high = rg_expand(rg_unsqueeze(rg_arange(1000), 1), 1000, 300);
    ck_ok(rg_save_heat_map(high, scratch("picture"), .title = "high"));
    ck_assert_int_eq(count("<rect"), 1 + 128 * 128);
    has("width=\"1840.0\" height=\"1864.0\"", true);
    scratch_end();
}
END_TEST

START_TEST(test_saved_heat_map) {
    scratch_begin();
    RG_SCOPE();
    ck_ok(rg_save_heat_map(square(), scratch("picture"), .title = "<Map>", .rows = labels,
                           .columns = labels));
    has(">&lt;Map&gt;</text>", true);
    has(">a&lt;b&gt;&amp;\"?</text>", true);
    has(">?€?[31m</text>", true);
    has("fill=\"rgb(247,251,255)\"", true);
    has("fill=\"rgb(8,48,107)\"", true);
    has("fill=\"#bbb\"", true);
    has("fill=\"white\">1.00</text>", true);
    ck_assert_int_eq(count("</text>"), 1 + 4 + 4);
    ck_assert_int_eq(count("</svg>\n"), 1);
    scratch_end();
}
END_TEST

/* ---- whole files ----------------------------------------------------------------------- */

START_TEST(test_whole_files) {
    static const char *const names[] = { "to", "be" };
    scratch_begin();
    RG_SCOPE();
    ck_ok(rg_save_curve(rg_literal([ 1., 0.5, nan, -1. ]), scratch("picture"), .title = "Loss"));
    is_text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"656.0\" height=\"380.0\" "
            "viewBox=\"0 0 656.0 380.0\" font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
            "<text x=\"16.0\" y=\"26.0\" font-size=\"16\">Loss</text>\n"
            "<text x=\"16.0\" y=\"44.0\" fill=\"#b00\">1 of 4 numbers are NaN or "
            "infinite</text>\n"
            "<path d=\"M72 336.0 h560\" stroke=\"#ddd\"/>\n"
            "<text x=\"64.0\" y=\"340.0\" text-anchor=\"end\">-1</text>\n"
            "<path d=\"M72 266.0 h560\" stroke=\"#ddd\"/>\n"
            "<text x=\"64.0\" y=\"270.0\" text-anchor=\"end\">-0.5</text>\n"
            "<path d=\"M72 196.0 h560\" stroke=\"#ddd\"/>\n"
            "<text x=\"64.0\" y=\"200.0\" text-anchor=\"end\">0</text>\n"
            "<path d=\"M72 126.0 h560\" stroke=\"#ddd\"/>\n"
            "<text x=\"64.0\" y=\"130.0\" text-anchor=\"end\">0.5</text>\n"
            "<path d=\"M72 56.0 h560\" stroke=\"#ddd\"/>\n"
            "<text x=\"64.0\" y=\"60.0\" text-anchor=\"end\">1</text>\n"
            "<text x=\"72.0\" y=\"358.0\" text-anchor=\"middle\">1</text>\n"
            "<text x=\"258.7\" y=\"358.0\" text-anchor=\"middle\">2</text>\n"
            "<text x=\"445.3\" y=\"358.0\" text-anchor=\"middle\">3</text>\n"
            "<text x=\"632.0\" y=\"358.0\" text-anchor=\"middle\">4</text>\n"
            "<path fill=\"none\" stroke=\"#08519c\" stroke-width=\"1.5\" "
            "stroke-linecap=\"round\" d=\"M72.0 56.0h0L258.7 126.0M632.0 336.0h0\"/>\n"
            "</svg>\n");
    ck_ok(rg_save_heat_map(rg_literal([ [ 0., 0.25 ], [ 1., nan ] ]), scratch("picture"),
                           .title = "Seen", .rows = { 2, names }, .columns = { 2, names }));
    is_text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"171.4\" height=\"179.4\" "
            "viewBox=\"0 0 171.4 179.4\" font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
            "<text x=\"16.0\" y=\"26.0\" font-size=\"16\">Seen</text>\n"
            "<text x=\"68.0\" y=\"59.4\" transform=\"rotate(-45 68.0 59.4)\">to</text>\n"
            "<text x=\"116.0\" y=\"59.4\" transform=\"rotate(-45 116.0 59.4)\">be</text>\n"
            "<text x=\"32.0\" y=\"95.4\" text-anchor=\"end\">to</text>\n"
            "<rect x=\"40.0\" y=\"67.4\" width=\"47\" height=\"47\" "
            "fill=\"rgb(247,251,255)\"/>\n"
            "<text x=\"64.0\" y=\"95.4\" text-anchor=\"middle\">0.00</text>\n"
            "<rect x=\"88.0\" y=\"67.4\" width=\"47\" height=\"47\" "
            "fill=\"rgb(187,200,218)\"/>\n"
            "<text x=\"112.0\" y=\"95.4\" text-anchor=\"middle\">0.25</text>\n"
            "<text x=\"32.0\" y=\"143.4\" text-anchor=\"end\">be</text>\n"
            "<rect x=\"40.0\" y=\"115.4\" width=\"47\" height=\"47\" fill=\"rgb(8,48,107)\"/>\n"
            "<text x=\"64.0\" y=\"143.4\" text-anchor=\"middle\" fill=\"white\">1.00</text>\n"
            "<rect x=\"88.0\" y=\"115.4\" width=\"47\" height=\"47\" fill=\"#bbb\"/>\n"
            "<text x=\"112.0\" y=\"143.4\" text-anchor=\"middle\">nan</text>\n"
            "</svg>\n");
    scratch_end();
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------- */

static rg_tensor *recorded;
static void draws(void *unused) {
    (void)unused;
    rg_save_curve(recorded, scratch("picture"));
}

START_TEST(test_refusals) {
    scratch_begin();
    RG_SCOPE();
    rg_tensor *x = rg_ones(2, 3), *y = rg_ones(2);
    const char *path = scratch("picture");
    ck_fails(rg_save_curve(NULL, path), RG_TYPE_ERROR, "save_curve: expected a tensor");
    ck_fails(rg_save_heat_map(RG_NONE, path), RG_TYPE_ERROR, "save_heat_map: expected a tensor");
    ck_fails(rg_print_curve(x, stderr), RG_RUNTIME_ERROR,
             "print_curve: expected a vector, but got a tensor with 2 dims");
    ck_fails(rg_save_curve(rg_empty(0), path), RG_RUNTIME_ERROR,
             "save_curve: a tensor of shape [0] has no elements");
    ck_fails(rg_print_heat_map(y, stderr), RG_RUNTIME_ERROR,
             "print_heat_map: expected a matrix, but got a tensor with 1 dims");
    ck_fails(rg_save_heat_map(rg_empty(2, 0), path), RG_RUNTIME_ERROR,
             "save_heat_map: a tensor of shape [2, 0] has no elements");
    ck_fails(rg_save_heat_map(x, path, .low = 1), RG_VALUE_ERROR,
             "save_heat_map: expected a low number and a high one, but got 1 and 0");
    ck_fails(rg_save_heat_map(x, path, .high = NAN), RG_VALUE_ERROR, "save_heat_map: expected");
    ck_fails(rg_save_heat_map(x, path, .rows = { 1, words }), RG_VALUE_ERROR,
             "save_heat_map: expected a name for each of 2 rows, but got 1");
    ck_fails(rg_save_heat_map(x, path, .columns = { 3, NULL }), RG_TYPE_ERROR,
             "save_heat_map: expected a list but got NULL");
    ck_fails(rg_save_heat_map(x, path, .rows = { 2, (const char *const[2]){ "a", NULL } }),
             RG_TYPE_ERROR, "save_heat_map: expected a name but got NULL");
    ck_fails(rg_save_curve(y, "/nowhere/curve.svg"), RG_IO_ERROR,
             "save_curve: [Errno 2] No such file or directory: '/nowhere/curve.svg'");
    recorded = y;
    ck_fails(rg_record(draws, NULL), RG_NOT_IMPLEMENTED, "save_curve");
    ck_assert_int_eq(scratch_files(), 0);
    scratch_end();
}
END_TEST

/* Printing fails if the stream is full, or open for reading. Saving fails if the disk is full, and
 * leaves the old file. */
START_TEST(test_full) {
    scratch_begin();
    RG_SCOPE();
    FILE *full = fopen("/dev/full", "w"), *reading = fopen("/dev/null", "r");
    ck_assert(full && reading);
    ck_fails(rg_print_curve(line(), full), RG_IO_ERROR,
             "print_curve: [Errno 28] No space left on device");
    ck_fails(rg_print_heat_map(square(), reading), RG_IO_ERROR,
             "print_heat_map: [Errno 9] Bad file descriptor");
    fclose(full);
    fclose(reading);
    scratch_write("picture", "old", 3);
    faults_begin();
    faults.fail_at = 3;
    faults.number = 28;
    ck_fails(rg_save_curve(line(), scratch("picture")), RG_IO_ERROR, "save_curve: [Errno 28]");
    faults_end();
    is_text("old");
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

/* Returns ok. If it is false, the error must begin with the op's name. */
static bool named(const char *op, bool ok) {
    if (!ok)
        ck_each(strncmp(rg_error_peek(), op, strlen(op)) == 0, "%s", rg_error_peek());
    return ok;
}

static bool all_pictures(void) {
    rg_tensor *y = line(), *t = square();
    FILE *f = fopen("/dev/null", "w");
    bool ok = f && y && t && named("print_curve: ", rg_print_curve(y, f, .title = "title"));
    ok = ok && named("print_heat_map: ", rg_print_heat_map(t, f, .rows = labels));
    ok = ok && named("save_curve: ", rg_save_curve(y, scratch("a")));
    ok = ok && named("save_heat_map: ", rg_save_heat_map(t, scratch("b"), .columns = labels));
    return (!f || fclose(f) == 0) && ok;
}

START_TEST(test_denied) {
    scratch_begin();
    ck_assert_int_gt(deny_in_turn(all_pictures, NULL), 10);
    ck_assert_int_gt(fail_in_turn(all_pictures, NULL), 8);
    scratch_end();
}
END_TEST

RG_TESTS(pictures, test_printed_curve, test_saved_curve, test_printed_heat_map,
         test_heat_map_on_a_terminal, test_wide_heat_map, test_saved_heat_map, test_whole_files,
         test_refusals, test_full, test_denied)
