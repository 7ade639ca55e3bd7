/*
 * pictures.h: draws curves and heat maps, on the terminal and as SVG files.
 */
#pragma once

#include "options.h"

#include <unistd.h>

/* A heat map of the weights w. They are between 0 and 1, and are stored row by row. */
typedef struct {
    const char *title;
    int rows, columns;
    const double *w;
    const char *const *row_labels, *const *column_labels;
} heat_map;

/* Returns the largest of n numbers. Returns 1 if none is above 0. */
static inline double top_of(int64_t n, const double y[]) {
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, y[i]);
    return top > 0 ? top : 1;
}

/* ---- text ---------------------------------------------------------------------- */

/* Prints a UTF-8 string, cut or padded to `width` characters. */
static inline void print_padded(const char *text, int width) {
    while (*text && width > 0) {
        do {
            putchar(*text++);
        } while ((*text & 0xc0) == 0x80);
        width--;
    }
    printf("%*s", width, "");
}

/* Returns the number of characters in a UTF-8 string. */
static inline int text_width(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* ---- in the terminal ----------------------------------------------------------- */

enum { CURVE_HIGH = 10, CURVE_WIDE = 64 };

/* Prints a cell that is filled from below up to the fraction `filled`. */
static inline void print_cell(double filled) {
    static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄",
                                           "▅", "▆", "▇", "█" };
    int whole = filled > 0 ? (int)ceil(fmin(filled, 8)) : 0;
    fputs(eighths[whole], stdout);
}

/* Prints y as a curve of at most CURVE_WIDE columns. Each column shows the mean of its part of
 * y. */
static inline void print_curve(const char *title, int64_t n, const double y[]) {
    int wide = n < CURVE_WIDE ? (int)n : CURVE_WIDE;
    double column[CURVE_WIDE];
    for (int c = 0; c < wide; c++) {
        int64_t from = n * c / wide, to = n * (c + 1) / wide;
        column[c] = 0;
        for (int64_t i = from; i < to; i++)
            column[c] += y[i] / (double)(to - from);
    }
    double top = top_of(wide, column);
    printf("%s\n", title);
    for (int row = CURVE_HIGH - 1; row >= 0; row--) {
        if (row == CURVE_HIGH - 1 || row == 0)
            printf("%8.3f │", row ? top : 0.0);
        else
            printf("%8s │", "");
        for (int c = 0; c < wide; c++)
            print_cell(8 * (column[c] / top * CURVE_HIGH - row));
        putchar('\n');
    }
    printf("%8s └", "");
    for (int c = 0; c < wide; c++)
        fputs("─", stdout);
    printf("\n%10s1%*lld\n", "", wide - 1, (long long)n);
}

/* Prints a weight, in colour or after a shaded block. */
static inline void print_weight(double v, bool colour) {
    static const char *const shades[] = { "  ", "░░", "▒▒", "▓▓", "██" };
    if (colour) {
        int background = 255 - (int)(22 * v), foreground = v < 0.5 ? 16 : 231;
        printf("\033[48;5;%dm\033[38;5;%dm  %.2f  \033[0m", background, foreground, v);
    } else {
        printf("%s %.2f ", shades[(int)ceil(4 * v - 0.02)], v);
    }
}

/* Prints the weights. On a terminal they are in colour, unless NO_COLOR is set. */
static inline void print_heat_map(const heat_map *m) {
    bool colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    int label = 0, cell = 8;
    for (int i = 0; i < m->rows; i++)
        label = (int)fmax(label, fmin(text_width(m->row_labels[i]), 16));
    printf("%s\n  ", m->title);
    print_padded("", label + 1);
    for (int k = 0; k < m->columns; k++) {
        print_padded(m->column_labels[k], cell - 1);
        putchar(' ');
    }
    putchar('\n');
    for (int i = 0; i < m->rows; i++) {
        printf("  ");
        print_padded(m->row_labels[i], label);
        putchar(' ');
        for (int k = 0; k < m->columns; k++)
            print_weight(fmin(fmax(m->w[i * m->columns + k], 0), 1), colour);
        putchar('\n');
    }
}

/* ---- as SVG -------------------------------------------------------------------- */

static inline void svg_text(FILE *f, double x, double y, const char *more, const char *text) {
    fprintf(f, "<text x=\"%g\" y=\"%g\" %s>", x, y, more);
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    }
    fputs("</text>\n", f);
}

static inline void svg_begin(FILE *f, int width, int height, const char *title) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    svg_text(f, 16, 26, "font-size=\"16\"", title);
}

/* The rectangle in the picture in which the curve is drawn. */
enum { PLOT_LEFT = 60, PLOT_TOP = 48, PLOT_WIDE = 560, PLOT_HIGH = 280 };

static inline void svg_axes(FILE *f, int64_t n, double top) {
    char number[32];
    for (int k = 0; k <= 4; k++) {
        double at = PLOT_TOP + PLOT_HIGH * (1 - k / 4.0);
        snprintf(number, sizeof number, "%.3g", top * k / 4);
        fprintf(f, "<path d=\"M%d %g h%d\" stroke=\"#ddd\"/>\n", PLOT_LEFT, at, PLOT_WIDE);
        svg_text(f, PLOT_LEFT - 8, at + 4, "text-anchor=\"end\"", number);
        snprintf(number, sizeof number, "%lld", k ? (long long)(n * k / 4) : 1);
        svg_text(f, PLOT_LEFT + PLOT_WIDE * k / 4.0, PLOT_TOP + PLOT_HIGH + 22,
                 "text-anchor=\"middle\"", number);
    }
}

/* Saves y as a curve of at most PLOT_WIDE points. The first and the last number of y are among
 * them. */
static inline void save_curve(const char *folder, const char *name, const char *title, int64_t n,
                              const double y[]) {
    char path[4096];
    FILE *f = write_file(folder, name, path);
    double top = top_of(n, y);
    svg_begin(f, PLOT_LEFT + PLOT_WIDE + 24, PLOT_TOP + PLOT_HIGH + 44, title);
    svg_axes(f, n, top);
    fprintf(f, "<polyline fill=\"none\" stroke=\"#08519c\" stroke-width=\"1.5\" points=\"");
    int64_t points = n < PLOT_WIDE ? n : PLOT_WIDE;
    for (int64_t k = 0; k < points; k++) {
        int64_t i = points > 1 ? k * (n - 1) / (points - 1) : 0;
        double along = n > 1 ? (double)i / (double)(n - 1) : 0;
        fprintf(f, "%.1f,%.1f ", PLOT_LEFT + PLOT_WIDE * along,
                PLOT_TOP + PLOT_HIGH * (1 - y[i] / top));
    }
    fprintf(f, "\"/>\n</svg>\n");
    close_file(f, path);
}

enum { MAP_TOP = 120, MAP_CELL = 48 };

static inline void svg_weight(FILE *f, double x, double y, double weight) {
    double v = fmin(fmax(weight, 0), 1);
    int red = (int)(247 - 239 * v), green = (int)(251 - 203 * v), blue = (int)(255 - 148 * v);
    char text[32];
    snprintf(text, sizeof text, "%.2f", weight);
    fprintf(f, "<rect x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" ", x, y, MAP_CELL - 1,
            MAP_CELL - 1);
    fprintf(f, "fill=\"rgb(%d,%d,%d)\"/>\n", red, green, blue);
    svg_text(f, x + MAP_CELL / 2, y + MAP_CELL / 2 + 4,
             v < 0.5 ? "text-anchor=\"middle\"" : "text-anchor=\"middle\" fill=\"white\"", text);
}

static inline void save_heat_map(const char *folder, const char *name, const heat_map *m) {
    char path[4096], turned[128];
    FILE *f = write_file(folder, name, path);
    int left = 40;
    for (int i = 0; i < m->rows; i++)
        left = (int)fmax(left, 24 + 8 * text_width(m->row_labels[i]));
    svg_begin(f, (int)fmax(left + m->columns * MAP_CELL + 80, 400),
              MAP_TOP + m->rows * MAP_CELL + 24, m->title);
    for (int k = 0; k < m->columns; k++) {
        double x = left + (k + 0.5) * MAP_CELL + 4;
        snprintf(turned, sizeof turned, "transform=\"rotate(-45 %g %d)\"", x, MAP_TOP - 8);
        svg_text(f, x, MAP_TOP - 8, turned, m->column_labels[k]);
    }
    for (int i = 0; i < m->rows; i++) {
        int y = MAP_TOP + i * MAP_CELL;
        svg_text(f, left - 8, MAP_TOP + (i + 0.5) * MAP_CELL + 4, "text-anchor=\"end\"",
                 m->row_labels[i]);
        for (int k = 0; k < m->columns; k++)
            svg_weight(f, left + k * MAP_CELL, y, m->w[i * m->columns + k]);
    }
    fprintf(f, "</svg>\n");
    close_file(f, path);
}
