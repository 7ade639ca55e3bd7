/*
 * terminal.c: draws curves and heat-maps as text. svg.c draws them in SVG files.
 */
#include "drawing.h"

#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/system/system.h"
#include "tensor/text/c_locale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CURVE_ROWS = 10, CURVE_COLUMNS = 64, LABEL_LETTERS = 16 };

/* Appends the text, cut or padded with blanks to `width` characters. */
static void add_padded(rg_text *out, const char *text, int width) {
    char letter[5];
    for (; *text && width > 0; width--) {
        text = rgi_letter(text, letter);
        rgi_text_add(out, "%s", letter);
    }
    rgi_text_add(out, "%*s", width, "");
}

static void add_title(rg_text *out, const char *title) {
    if (!title)
        return;
    add_padded(out, title, rgi_letters(title));
    rgi_text_add(out, "\n");
}

/* ---- curves ---------------------------------------------------------------------------- */

/* Appends a character whose lower part is black. This part is `filled` eighths of the character's
 * height, rounded up to whole eighths. The character is blank if `filled` is negative or NaN. */
static void add_filled(rg_text *out, double filled) {
    static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    rgi_text_add(out, "%s", eighths[filled > 0 ? (int)ceil(fmin(filled, 8)) : 0]);
}

/* Returns the mean of the finite numbers y[from] to y[to - 1], or NaN if there is none. */
static double mean_of_finite(const double *y, int64_t from, int64_t to) {
    double mean = 0;
    int64_t n = 0;
    for (int64_t i = from; i < to; i++)
        n += isfinite(y[i]) != 0;
    for (int64_t i = from; i < to; i++)
        mean += isfinite(y[i]) ? y[i] / (double)n : 0;
    return n > 0 ? mean : NAN;
}

/* Returns the index of the first number that column i shows. Its last number is the one before the
 * first number of column i + 1. The first column shows only the first of the n numbers, and the
 * last column only the last. The columns between them share the other numbers. */
static int64_t first_of_column(int i, int columns, int64_t n) {
    if (i < 2)
        return i;
    return i == columns ? n : 1 + (n - 2) * (i - 1) / (columns - 2);
}

/* Divides the numbers among columns, and returns the number of columns. place[i] becomes the place
 * on the axis (rgi_place) of the mean of column i's finite numbers, or NaN if there are none. The
 * axis is set so that it reaches from the smallest mean to the greatest one, and contains 0. */
static int find_places(rg_curve *c, double place[CURVE_COLUMNS]) {
    const int columns = (int)RG_MIN(c->n, (int64_t)CURVE_COLUMNS);
    double low = 0, high = 0;
    for (int i = 0; i < columns; i++) {
        place[i] = mean_of_finite(c->y, first_of_column(i, columns, c->n),
                                  first_of_column(i + 1, columns, c->n));
        low = fmin(low, place[i]);
        high = fmax(high, place[i]);
    }
    c->low = low;
    c->high = high > low ? high : 1;
    for (int i = 0; i < columns; i++)
        place[i] = rgi_place(c, place[i]);
    return columns;
}

/* Writes v to the string `to` with three decimals. If that takes more than 8 characters, or shows 0
 * though v isn't 0, writes v in a form such as 1.2e-05 instead. */
static void write_label(char *to, size_t room, double v) {
    snprintf(to, room, "%.3f", v);
    if (strlen(to) > 8 || (v != 0 && fabs(v) < 0.0005))
        snprintf(to, room, "%.1e", v);
}

static void plot_curve(rg_text *out, rg_curve *c, const char *title) {
    double place[CURVE_COLUMNS];
    const int columns = find_places(c, place);
    add_title(out, title);
    if (c->missing > 0)
        rgi_text_add(out, "%lld of %lld numbers are NaN or infinite\n", (long long)c->missing,
                     (long long)c->n);
    for (int row = CURVE_ROWS - 1; row >= 0; row--) {
        char number[32] = "";
        if (row == CURVE_ROWS - 1 || row == 0)
            write_label(number, sizeof number, row ? c->high : c->low);
        rgi_text_add(out, "%8s │", number);
        for (int i = 0; i < columns; i++)
            add_filled(out, 8 * (place[i] * CURVE_ROWS - row));
        rgi_text_add(out, "\n");
    }
    rgi_text_add(out, "%8s └", "");
    for (int i = 0; i < columns; i++)
        rgi_text_add(out, "─");
    rgi_text_add(out, "\n%10s1", "");
    if (c->n > 1)
        rgi_text_add(out, "%*lld", columns - 1, (long long)c->n);
    rgi_text_add(out, "\n");
}

bool rg_print_curve_with(rg_tensor *y, FILE *to, rg_curve_options o) {
    const char *op = "print_curve";
    if (!rgi_may_do_once(op) || !rgi_given(to, op, "a stream"))
        return false;
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    RG_C_NUMBERS();
    rg_curve c;
    if (!rgi_curve(op, y, &c))
        return false;
    rg_text out = { 0 };
    plot_curve(&out, &c, o.title);
    return rgi_put_text(&out, op, to);
}

/* ---- heat-maps ------------------------------------------------------------------------- */

/* A heat-map on a terminal has at most this many columns. */
enum { NARROW_COLUMNS = 64 };

/* The style of a heat-map. `colour` says whether it has colours. `label`, `digits` and `cell` are
 * the widths, in characters, of the rows' labels, of a number in a cell, and of a whole cell.
 * `digits` is 0 if cells show no numbers. */
typedef struct {
    bool colour;
    int label, digits, cell;
} form;

static form form_of(const rg_pixels *p, const rg_heat_map_options *o, FILE *to) {
    const char *no_colour = getenv("NO_COLOR"); /* Any value but "" means no colours. */
    form f = { .colour = rgi_is_terminal(to) && !(no_colour && *no_colour), .cell = 2 };
    for (int i = 0; i < o->rows.n; i++)
        f.label = RG_MAX(f.label, RG_MIN(rgi_letters(o->rows.v[i]), (int)LABEL_LETTERS));
    if (p->columns > RG_MOST_NUMBERS)
        return f;
    for (int64_t i = 0; i < p->rows * p->columns; i++) {
        char number[32];
        rgi_write_cell(p->v[i], number);
        f.digits = RG_MAX(f.digits, (int)strlen(number));
    }
    f.cell = f.digits + 4;
    return f;
}

/* Appends a cell, in colour or with shaded blocks. A cell for NaN shows "??" instead. */
static void plot_cell(rg_text *out, const form *f, double v, double shade) {
    static const char *const shades[] = { "  ", "░░", "▒▒", "▓▓", "██" };
    char number[32] = "";
    if (f->digits > 0)
        rgi_write_cell(v, number);
    if (f->colour && !isnan(shade)) {
        const int background = 255 - (int)(22 * shade), foreground = shade < 0.5 ? 16 : 231;
        rgi_text_add(out, "\033[48;5;%dm\033[38;5;%dm  %*s%s\033[0m", background, foreground,
                     f->digits, number, f->digits > 0 ? "  " : "");
        return;
    }
    rgi_text_add(out, "%s", isnan(shade) ? "??" : shades[(int)ceil(4 * shade - 0.02)]);
    if (f->digits > 0)
        rgi_text_add(out, " %*s ", f->digits, number);
}

static void plot_heat_map(rg_text *out, const rg_pixels *p, const rg_heat_map_options *o,
                          const form *f) {
    add_title(out, o->title);
    if (o->columns.n > 0) {
        rgi_text_add(out, "  %*s", f->label + 1, "");
        for (int64_t k = 0; k < p->columns; k++) {
            add_padded(out, o->columns.v[k], f->cell - 1);
            rgi_text_add(out, " ");
        }
        rgi_text_add(out, "\n");
    }
    for (int64_t i = 0; i < p->rows; i++) {
        rgi_text_add(out, "  ");
        add_padded(out, o->rows.n > 0 ? o->rows.v[i] : "", f->label);
        rgi_text_add(out, " ");
        for (int64_t k = 0; k < p->columns; k++) {
            const double v = p->v[i * p->columns + k];
            plot_cell(out, f, v, rgi_shade(p, v));
        }
        rgi_text_add(out, "\n");
    }
}

bool rg_print_heat_map_with(rg_tensor *t, FILE *to, rg_heat_map_options o) {
    const char *op = "print_heat_map";
    if (!rgi_may_do_once(op) || !rgi_given(to, op, "a stream"))
        return false;
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    RG_C_NUMBERS();
    rg_pixels p;
    if (!rgi_heat_map(op, t, NARROW_COLUMNS, &o, &p))
        return false;
    const form f = form_of(&p, &o, to);
    rg_text out = { 0 };
    plot_heat_map(&out, &p, &o, &f);
    return rgi_put_text(&out, op, to);
}
