/*
 * svg.c: draws curves and heat-maps in SVG files. terminal.c draws them as text.
 */
#include "drawing.h"

#include "tensor/error.h"
#include "tensor/files/file.h"
#include "tensor/observer.h"
#include "tensor/text/c_locale.h"
#include "tensor/text/digits.h"

#include <math.h>

/* Appends an element <text> at (x, y). `more` is a string of further attributes. */
static void put_text(rg_text *svg, double x, double y, const char *more, const char *text) {
    rgi_text_add(svg, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    while (*text) {
        char letter[5];
        text = rgi_letter(text, letter);
        const char *escaped = letter;
        if (*letter == '<')
            escaped = "&lt;";
        else if (*letter == '>')
            escaped = "&gt;";
        else if (*letter == '&')
            escaped = "&amp;";
        rgi_text_add(svg, "%s", escaped);
    }
    rgi_text_add(svg, "</text>\n");
}

static void begin_svg(rg_text *svg, double width, double height, const char *title) {
    const double wide = title ? fmax(width, 32 + 9 * rgi_letters(title)) : width;
    rgi_text_add(svg,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.1f\" height=\"%.1f\" "
                 "viewBox=\"0 0 %.1f %.1f\" font-family=\"sans-serif\" font-size=\"13\">\n"
                 "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                 wide, height, wide, height);
    if (title)
        put_text(svg, 16, 26, "font-size=\"16\"", title);
}

/* Ends the picture, and writes it to the file. Frees the text. Returns false on failure. */
static bool save_svg(rg_text *svg, const char *op, const char *path) {
    rgi_text_add(svg, "</svg>\n");
    rg_writer w;
    const bool begun = !svg->failed && rgi_writer_begin(&w, op, path);
    if (begun)
        rgi_write(&w, svg->v, svg->n);
    rgi_text_free(svg);
    return begun && rgi_writer_end(&w);
}

/* ---- curves ---------------------------------------------------------------------------- */

/* The rectangle in the picture in which the curve is drawn. */
enum { PLOT_LEFT = 72, PLOT_TOP = 56, PLOT_WIDE = 560, PLOT_HIGH = 280 };

static void add_axes(rg_text *svg, const rg_curve *c) {
    char number[32];
    for (int k = 0; k <= 4; k++) {
        const double at = PLOT_TOP + PLOT_HIGH * (1 - k / 4.0), to = k / 4.0;
        rgi_text_add(svg, "<path d=\"M%d %.1f h%d\" stroke=\"#ddd\"/>\n", PLOT_LEFT, at, PLOT_WIDE);
        put_text(svg, PLOT_LEFT - 8, at + 4, "text-anchor=\"end\"",
                 rgi_number_of_digits(3, c->low * (1 - to) + c->high * to));
    }
    const int parts = (int)RG_MIN(c->n - 1, (int64_t)4);
    for (int k = 0; k <= parts; k++) {
        const int64_t i = parts > 0 ? (c->n - 1) * k / parts : 0;
        const double along = parts > 0 ? (double)i / (double)(c->n - 1) : 0;
        snprintf(number, sizeof number, "%lld", (long long)i + 1);
        put_text(svg, PLOT_LEFT + PLOT_WIDE * along, PLOT_TOP + PLOT_HIGH + 22,
                 "text-anchor=\"middle\"", number);
    }
}

/* Appends number i as the next point of the path if the number is finite. If *gap is true, the path
 * begins anew at the point, with a stroke of length 0. This stroke is drawn as a dot, so that a
 * point between two gaps is visible. Sets *gap to whether the number isn't finite. */
static void add_point(rg_text *svg, const rg_curve *c, int64_t i, bool *gap) {
    const bool finite = isfinite(c->y[i]);
    if (finite) {
        const double along = c->n > 1 ? (double)i / (double)(c->n - 1) : 0;
        rgi_text_add(svg, *gap ? "M%.1f %.1fh0" : "L%.1f %.1f", PLOT_LEFT + PLOT_WIDE * along,
                     PLOT_TOP + PLOT_HIGH * (1 - rgi_place(c, c->y[i])));
    }
    *gap = !finite;
}

/* Appends the points of the numbers y[from] to y[to - 1], which share a column of pixels. Only the
 * lowest and the highest number get points, in their order. If one of the numbers isn't finite, a
 * gap follows. */
static void add_column(rg_text *svg, const rg_curve *c, int64_t from, int64_t to, bool *gap) {
    int64_t low = from, high = from;
    bool ends = false;
    for (int64_t i = from; i < to; i++) {
        ends = ends || !isfinite(c->y[i]);
        if (!isfinite(c->y[low]) || c->y[i] < c->y[low])
            low = i;
        if (!isfinite(c->y[high]) || c->y[i] > c->y[high])
            high = i;
    }
    add_point(svg, c, RG_MIN(low, high), gap);
    if (low != high)
        add_point(svg, c, RG_MAX(low, high), gap);
    *gap = *gap || ends;
}

static void add_curve(rg_text *svg, const rg_curve *c, const char *title) {
    begin_svg(svg, PLOT_LEFT + PLOT_WIDE + 24, PLOT_TOP + PLOT_HIGH + 44, title);
    if (c->missing > 0) {
        char text[96];
        snprintf(text, sizeof text, "%lld of %lld numbers are NaN or infinite",
                 (long long)c->missing, (long long)c->n);
        put_text(svg, 16, 44, "fill=\"#b00\"", text);
    }
    add_axes(svg, c);
    rgi_text_add(svg, "<path fill=\"none\" stroke=\"#08519c\" stroke-width=\"1.5\" "
                      "stroke-linecap=\"round\" d=\"");
    const int64_t columns = RG_MIN(c->n, (int64_t)PLOT_WIDE);
    bool gap = true;
    for (int64_t k = 0; k < columns; k++)
        add_column(svg, c, c->n * k / columns, c->n * (k + 1) / columns, &gap);
    rgi_text_add(svg, "\"/>\n");
}

bool rg_save_curve_with(rg_tensor *y, const char *path, rg_curve_options o) {
    const char *op = "save_curve";
    if (!rgi_may_do_once(op) || !rgi_given_path(path, op))
        return false;
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    RG_C_NUMBERS();
    rg_curve c;
    if (!rgi_curve(op, y, &c))
        return false;
    rg_text svg = { 0 };
    add_curve(&svg, &c, o.title);
    return save_svg(&svg, op, path);
}

/* ---- heat-maps ------------------------------------------------------------------------- */

enum { MAP_TOP = 40, WIDE_CELL = 48, NARROW_CELL = 14, LETTER = 8 };

/* Returns an estimate of the width in pixels of the longest label. */
static double width_of(rg_names labels) {
    int letters = 0;
    for (int i = 0; i < labels.n; i++)
        letters = RG_MAX(letters, rgi_letters(labels.v[i]));
    return LETTER * letters;
}

/* Appends a cell: a rectangle between white and dark blue, or a grey one for NaN, and its number if
 * the cell is wide. */
static void add_cell(rg_text *svg, const rg_pixels *p, double x, double y, int cell, double v) {
    const double shade = rgi_shade(p, v);
    rgi_text_add(svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" ", x, y, cell - 1,
                 cell - 1);
    if (isnan(shade))
        rgi_text_add(svg, "fill=\"#bbb\"/>\n");
    else
        rgi_text_add(svg, "fill=\"rgb(%d,%d,%d)\"/>\n", (int)(247 - 239 * shade),
                     (int)(251 - 203 * shade), (int)(255 - 148 * shade));
    if (cell < WIDE_CELL)
        return;
    char text[32];
    rgi_write_cell(v, text);
    put_text(svg, x + cell / 2, y + cell / 2 + 4,
             shade > 0.5 ? "text-anchor=\"middle\" fill=\"white\"" : "text-anchor=\"middle\"",
             text);
}

static void add_heat_map(rg_text *svg, const rg_pixels *p, const rg_heat_map_options *o) {
    const int cell = p->columns > RG_MOST_NUMBERS ? NARROW_CELL : WIDE_CELL;
    /* Columns' labels are turned by 45 degrees: 0.71 times their width is their height. */
    const double left = 24 + width_of(o->rows), above = 0.71 * width_of(o->columns);
    const double top = MAP_TOP + above + 16;
    begin_svg(svg, left + (double)p->columns * cell + above + 24, top + (double)p->rows * cell + 16,
              o->title);
    for (int k = 0; k < o->columns.n; k++) {
        const double x = left + (k + 0.5) * cell + 4;
        char turned[128];
        snprintf(turned, sizeof turned, "transform=\"rotate(-45 %.1f %.1f)\"", x, top - 8);
        put_text(svg, x, top - 8, turned, o->columns.v[k]);
    }
    for (int64_t i = 0; i < p->rows; i++) {
        const double y = top + (double)i * cell;
        if (o->rows.n > 0)
            put_text(svg, left - 8, y + cell / 2 + 4, "text-anchor=\"end\"", o->rows.v[i]);
        for (int64_t k = 0; k < p->columns; k++)
            add_cell(svg, p, left + (double)k * cell, y, cell, p->v[i * p->columns + k]);
    }
}

bool rg_save_heat_map_with(rg_tensor *t, const char *path, rg_heat_map_options o) {
    const char *op = "save_heat_map";
    if (!rgi_may_do_once(op) || !rgi_given_path(path, op))
        return false;
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    RG_C_NUMBERS();
    rg_pixels p;
    if (!rgi_heat_map(op, t, RG_MOST_PIXELS, &o, &p))
        return false;
    rg_text svg = { 0 };
    add_heat_map(&svg, &p, &o);
    return save_svg(&svg, op, path);
}
