/*
 * drawing.h: functions that several files of this folder share. Pictures on a page (tensors.c), on
 * a terminal (terminal.c) and in SVG files (svg.c) get their numbers, labels and letters here.
 * terminal.c and progress.c also use functions of this file to write to a stream. Private.
 */
#pragma once

#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "pictures.h"
#include "tensor/text/text.h"

#include <stdarg.h>

/* ---- heat-maps ------------------------------------------------------------------------- */

/* RG_MOST_PIXELS is the greatest number of rows of a heat-map, and also of columns. A heat-map with
 * more than RG_MOST_NUMBERS columns shows no numbers in its cells. */
enum { RG_MOST_PIXELS = 128, RG_MOST_NUMBERS = 16 };

/* The numbers of a heat-map, row by row; the innermost scope owns them. A cell whose number is
 * `low` gets the lightest colour, and one whose number is `high` the darkest. `low` and `high` are
 * equal if all finite numbers are equal and the program gave no range. */
typedef struct {
    int64_t rows, columns;
    const double *v;
    double low, high;
} rg_pixels;

/* Sets *p to the numbers of the matrix t. If the matrix has more than most_rows rows or more than
 * most_columns columns, a number is the mean of several elements. p->low and p->high become the
 * smallest and the greatest of these numbers that are finite, or 0 if none is. Requires that t has
 * two dims and isn't empty. Returns false on failure. */
bool rgi_pixels(rg_tensor *t, int64_t most_rows, int64_t most_columns, rg_pixels *p);
/* Calls rgi_pixels for a function that a program has called, after checking the arguments and
 * options of that function. If o->low is less than o->high, they become p->low and p->high. If t
 * has more rows than the picture, a row of the picture has no single label, so o->rows is emptied.
 * The same holds for columns. Returns false on failure. */
bool rgi_heat_map(const char *op, rg_tensor *t, int64_t most_columns, rg_heat_map_options *o,
                  rg_pixels *p);
/* Returns the colour of v as a number from 0 (lightest: p->low or less) to 1 (darkest: p->high or
 * more). Returns NaN if v is NaN. */
double rgi_shade(const rg_pixels *p, double v);
/* Writes v as a cell shows it: with two decimals, as in 0.25; without, as in 1499, if its absolute
 * value is 1000 or more; or with an exponent, as in 1e+06, if it is a million or more. NaN and
 * infinities become "nan", "inf" and "-inf". Requires a locale whose numbers have a point. */
void rgi_write_cell(double v, char text[32]);
/* Returns true if the list is empty, or has a label for each of the `size` rows or columns.
 * Otherwise fails and returns false. `what` is "rows" or "columns", for the error message. */
bool rgi_labels_given(const char *op, rg_names names, int64_t size, const char *what);

/* ---- curves ---------------------------------------------------------------------------- */

/* The n numbers y of a curve, which the innermost scope owns. `missing` is how many of them are NaN
 * or infinite. The vertical axis reaches from `low` to `high`. */
typedef struct {
    int64_t n, missing;
    const double *y;
    double low, high;
} rg_curve;

/* Sets *c to the numbers of the vector y. Its axis contains 0 and all finite numbers. Fails and
 * returns false if y isn't a vector or is empty, or if memory runs out. */
bool rgi_curve(const char *op, rg_tensor *y, rg_curve *c);
/* Returns the place of the number y on the axis: 0 if it is c->low, 1 if it is c->high. */
double rgi_place(const rg_curve *c, double y);

/* ---- letters, and streams ---------------------------------------------------------------- */

/* Copies the UTF-8 character at `text` to `letter` as a string, and returns the position after the
 * character. A control character, one that XML files can't contain, or a byte that isn't UTF-8
 * becomes a question mark. Requires that the text isn't empty. */
const char *rgi_letter(const char *text, char letter[5]);
/* Returns the number of characters in the text, as rgi_letter divides it. */
int rgi_letters(const char *text);

/* Appends to the text what printf would print for a program's format and arguments, with a decimal
 * point in any locale. Returns false if printf can't print them, or if memory runs out. */
bool rgi_add_formatted(rg_text *text, const char *op, const char *format, va_list args);
/* Writes the text to the stream, flushes it, and frees the text. Returns false on failure. */
bool rgi_put_text(rg_text *text, const char *op, FILE *to);
