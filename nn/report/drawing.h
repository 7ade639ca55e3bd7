/*
 * drawing.h: functions that the pictures of a page (tensors.c), on a terminal (terminal.c) and in
 * SVG files (svg.c) share: numbers to draw, labels, and their letters; and writing to a stream,
 * which progress.c does, too. Private.
 */
#pragma once

#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "pictures.h"
#include "tensor/text/text.h"

#include <stdarg.h>

/* ---- heat-maps ------------------------------------------------------------------------- */

/* The most rows and the most columns of a heat-map, and the most columns whose numbers are shown.
 */
enum { RG_MOST_PIXELS = 128, RG_MOST_NUMBERS = 16 };

/* The numbers of a heat-map, row by row; the innermost scope owns them. `low` and `high` are the
 * numbers of the lightest and of the darkest colour; both are equal if all numbers are. */
typedef struct {
    int64_t rows, columns;
    const double *v;
    double low, high;
} rg_pixels;

/* Sets *p to the numbers of the matrix t. If the matrix has more than most_rows rows or more than
 * most_columns columns, a number is the mean of several elements. `low` and `high` are the smallest
 * and the greatest finite number, or 0 if there is none. Requires that t has two dims and isn't
 * empty. Returns false on failure. */
bool rgi_pixels(rg_tensor *t, int64_t most_rows, int64_t most_columns, rg_pixels *p);
/* Does the same for a program's call, whose arguments and options it checks first. If a number is
 * the mean of several rows, the rows have no labels: then empties o->rows. The same holds for
 * columns. */
bool rgi_heat_map(const char *op, rg_tensor *t, int64_t most_columns, rg_heat_map_options *o,
                  rg_pixels *p);
/* Returns where v is between low and high: 0 at low or below, 1 at high or above. Returns NaN for
 * NaN. */
double rgi_shade(const rg_pixels *p, double v);
/* Writes the number that a cell shows: with two digits behind the point, or in short if it has more
 * than three before the point. Requires a locale whose numbers have a point. */
void rgi_write_cell(double v, char text[32]);
/* Returns true if the list of labels is empty, or has one for each of the `size` rows or columns,
 * which `what` names. Otherwise fails, and returns false. */
bool rgi_labels_given(const char *op, rg_names names, int64_t size, const char *what);

/* ---- curves ---------------------------------------------------------------------------- */

/* The numbers of a curve, which the innermost scope owns, and the ends of its axis. `missing` is
 * the number of those that are NaN or infinite. */
typedef struct {
    int64_t n, missing;
    const double *y;
    double low, high;
} rg_curve;

/* Sets *c to the numbers of the vector y. Fails and returns false if y is none or is empty. */
bool rgi_curve(const char *op, rg_tensor *y, rg_curve *c);
/* Returns the place of a number on the axis: 0 at its low end, 1 at its high end. */
double rgi_place(const rg_curve *c, double y);

/* ---- letters, and streams ---------------------------------------------------------------- */

/* Copies the letter at `text` to `letter` as a string, and returns the text behind it. A control
 * character, or a byte that isn't UTF-8, becomes a question mark. Requires that the text isn't
 * empty. */
const char *rgi_letter(const char *text, char letter[5]);
/* Returns the number of letters. */
int rgi_letters(const char *text);

/* Appends to the text what printf would print for a program's format and arguments, with a decimal
 * point in any locale. Fails and returns false if they can't be printed. */
bool rgi_add_formatted(rg_text *text, const char *op, const char *format, va_list args);
/* Writes the text to the stream, flushes it, and frees the text. Returns false on failure. */
bool rgi_put_text(rg_text *text, const char *op, FILE *to);
