/*
 * show.h: the examples share it: how they stop, their options, a progress line, and curves and
 * heat-maps for the terminal and as SVG. Nothing in it is about training.
 */
#pragma once

#include "regard.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- stopping ------------------------------------------------------------------------ */

/* A program ends with status 1 where the library failed, and with 2 where the user asked for what
 * can't be. */

static const char *program = "example"; /* argv[0] without its folders */

static inline void stop_on_error(rg_code code, const char *message) {
    fprintf(stderr, "%s: %s\n", program, message);
    exit(code == RG_OUT_OF_MEMORY ? 2 : 1);
}

static inline __attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...) {
    char line[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    /* The message stays one line, whatever the user's text holds. */
    for (char *c = line; *c; c++)
        if (*c == '\n')
            *c = ' ';
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program, line);
    exit(2);
}

/* ---- options: --steps 300 or --steps=300 --------------------------------------------- */

typedef struct {
    const char *name;
    enum { WHOLE, NUMBER, TEXT } kind;
    void *value;        /* an int64_t, a double or a const char *, which holds the default */
    double least, most; /* the bounds of a number */
    const char *help;
} option;

static inline void print_help(const char *usage, int n, const option options[]) {
    printf("usage: %s [options] %s\n\n", program, usage);
    for (int i = 0; i < n; i++) {
        char given[96] = "";
        const option *o = &options[i];
        if (o->kind == WHOLE)
            snprintf(given, sizeof given, " (%lld)", (long long)*(int64_t *)o->value);
        if (o->kind == NUMBER)
            snprintf(given, sizeof given, " (%g)", *(double *)o->value);
        if (o->kind == TEXT && **(char **)o->value)
            snprintf(given, sizeof given, " (%s)", *(char **)o->value);
        printf("  --%-12s %s%s\n", o->name, o->help, given);
    }
    printf("  --%-12s this text\n", "help");
}

static inline void set_option(const option *o, const char *text) {
    char *end = NULL;
    double number = o->kind == NUMBER ? strtod(text, &end) : 0;
    if (o->kind == TEXT)
        *(const char **)o->value = text;
    if (o->kind == NUMBER)
        *(double *)o->value = number;
    if (o->kind == WHOLE) {
        errno = 0;
        int64_t whole = *(int64_t *)o->value = strtoll(text, &end, 10);
        number = errno ? NAN : (double)whole;
    }
    if (end && (end == text || *end || !(number >= o->least && number <= o->most))) {
        bool high = number > o->most;
        refuse("--%s takes a %s of at %s %g, not '%s'", o->name,
               o->kind == WHOLE ? "whole number" : "number", high ? "most" : "least",
               high ? o->most : o->least, text);
    }
}

/* Returns where in argv the options end. */
static inline int read_options(int argc, char *argv[], const char *usage, int n,
                               const option options[]) {
    const char *slash = strrchr(argv[0], '/');
    program = slash ? slash + 1 : argv[0];
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *name = argv[i] + 2, *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const option *found = NULL;
        if (strcmp(argv[i], "--") == 0)
            return i + 1;
        if (argv[i][1] != '-')
            refuse("there is no option %s; --help lists them", argv[i]);
        if (strcmp(name, "help") == 0) {
            print_help(usage, n, options);
            exit(0);
        }
        for (int k = 0; k < n; k++)
            if (strlen(options[k].name) == length && strncmp(options[k].name, name, length) == 0)
                found = &options[k];
        if (!found)
            refuse("there is no option --%.*s; --help lists them", (int)length, name);
        if (!equals && i + 1 == argc)
            refuse("--%s takes a value", name);
        set_option(found, equals ? equals + 1 : argv[++i]);
    }
    return i;
}
#define READ_OPTIONS(argc, argv, usage, options) \
    read_options(argc, argv, usage, (int)(sizeof(options) / sizeof *(options)), options)

/* ---- files --------------------------------------------------------------------------- */

/* Returns the file's text, which the caller frees. */
static inline char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t n = 0;
    size_t room = 0;
    for (size_t got = 1; f && got; n += got) {
        if (n == room) {
            room = 2 * room + 4096;
            text = realloc(text, room + 1);
            if (!text)
                refuse("no memory for '%s'", path);
        }
        got = fread(text + n, 1, room - n, f);
    }
    if (!f || ferror(f))
        refuse("can't read '%s': %s", path, strerror(errno));
    fclose(f);
    text[n] = 0;
    if (strlen(text) != n)
        refuse("'%s' is no text: it holds a zero byte", path);
    return text;
}

/* Makes the folder and those above it, where they are missing. */
static inline void make_folder(const char *path) {
    char part[4096];
    for (size_t i = 1; i <= strlen(path) && i < sizeof part; i++)
        if (path[i] == '/' || !path[i]) {
            snprintf(part, i + 1, "%s", path);
            if (mkdir(part, 0777) && errno != EEXIST)
                refuse("can't make the folder '%s': %s", part, strerror(errno));
        }
    struct stat s;
    if (stat(path, &s) || !S_ISDIR(s.st_mode))
        refuse("'%s' is no folder", path);
}

static inline FILE *write_file(const char *folder, const char *name, char path[4096]) {
    snprintf(path, 4096, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f)
        refuse("can't write to '%s': %s", path, strerror(errno));
    return f;
}

static inline void close_file(FILE *f, const char *path) {
    if (ferror(f) | fclose(f))
        refuse("can't write to '%s'", path);
    printf("wrote %s\n", path);
}

/* ---- the progress line --------------------------------------------------------------- */

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a terminal the progress is one line, drawn anew ten times a second. Elsewhere it is a line for
 * every tenth of the way. */
typedef struct {
    int64_t steps;
    double begin, shown;
    bool terminal;
} progress;

static inline progress progress_begin(int64_t steps) {
    return (progress){ steps, seconds(), 0, isatty(STDOUT_FILENO) };
}

/* Returns whether it is time to show step number `done`. Asking costs little, and finding the loss
 * may cost more. */
static inline bool progress_due(const progress *p, int64_t done) {
    if (done == 1 || done == p->steps)
        return true;
    return p->terminal ? seconds() - p->shown > 0.1
                       : done * 10 / p->steps != (done - 1) * 10 / p->steps;
}

static inline void progress_show(progress *p, int64_t done, double loss) {
    double now = seconds(), rate = (double)done / fmax(now - p->begin, 1e-9);
    p->shown = now;
    if (p->terminal) {
        int filled = (int)(20 * done / p->steps);
        printf("\r  [");
        for (int i = 0; i < 20; i++)
            fputs(i < filled ? "█" : "·", stdout);
        printf("]");
    }
    printf("  step %lld of %lld   loss %.4f   %.0f steps/s   %.1f s left%s", (long long)done,
           (long long)p->steps, loss, rate, (double)(p->steps - done) / rate,
           p->terminal && done < p->steps ? "\033[K" : "\n");
    fflush(stdout);
}

/* Prints a line that stays, above the progress line. */
static inline __attribute__((format(printf, 2, 3))) void progress_note(const progress *p,
                                                                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (p->terminal)
        fputs("\r\033[K", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
}

/* ---- pictures in the terminal -------------------------------------------------------- */

/* Prints the text, cut or padded to so many characters. */
static inline void print_padded(const char *text, int width) {
    while (*text && width > 0) {
        do
            putchar(*text++);
        while ((*text & 0xc0) == 0x80);
        width--;
    }
    printf("%*s", width, "");
}

static inline int text_width(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* Prints a curve as columns of eighths: 10 lines high, of at most 64 columns. A column is the mean
 * of its part. */
static inline void print_curve(const char *title, int64_t n, const double y[]) {
    enum { HIGH = 10, WIDE = 64 };
    static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    enum { FULL = 8 };
    int wide = n < WIDE ? (int)n : WIDE;
    double column[WIDE], top = 0;
    for (int c = 0; c < wide; c++) {
        int64_t from = n * c / wide, to = n * (c + 1) / wide;
        column[c] = 0;
        for (int64_t i = from; i < to; i++)
            column[c] += y[i] / (double)(to - from);
        top = fmax(top, column[c]);
    }
    if (!(top > 0))
        top = 1;
    printf("%s\n", title);
    for (int row = HIGH - 1; row >= 0; row--) {
        if (row == HIGH - 1 || row == 0)
            printf("%8.3f │", row ? top : 0.0);
        else
            printf("%8s │", "");
        for (int c = 0; c < wide; c++) {
            double filled = FULL * (column[c] / top * HIGH - row);
            fputs(eighths[(int)ceil(fmin(fmax(filled, 0), FULL))], stdout);
        }
        putchar('\n');
    }
    printf("%8s └", "");
    for (int c = 0; c < wide; c++)
        fputs("─", stdout);
    printf("\n%10s1%*lld\n", "", wide - 1, (long long)n);
}

/* The weights lie between 0 and 1, row by row. */
typedef struct {
    const char *title;
    int rows, columns;
    const double *w;
    const char *const *row_labels, *const *column_labels;
} heat_map;

/* Prints the weights in colour on a terminal, unless NO_COLOR is set, and shaded elsewhere. */
static inline void print_heat_map(const heat_map *m) {
    static const char *const shades[] = { "  ", "░░", "▒▒", "▓▓", "██" };
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
        for (int k = 0; k < m->columns; k++) {
            double v = fmin(fmax(m->w[i * m->columns + k], 0), 1);
            if (colour)
                printf("\033[48;5;%dm\033[38;5;%dm  %.2f  \033[0m", 255 - (int)(22 * v),
                       v < 0.5 ? 16 : 231, v);
            else
                printf("%s %.2f ", shades[(int)ceil(4 * v - 0.02)], v);
        }
        putchar('\n');
    }
}

/* ---- pictures as SVG ----------------------------------------------------------------- */

static inline void svg_text(FILE *f, double x, double y, const char *more, const char *text) {
    fprintf(f, "<text x=\"%g\" y=\"%g\" %s>", x, y, more);
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    fputs("</text>\n", f);
}

static inline void svg_begin(FILE *f, int width, int height, const char *title) {
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", width,
            height);
    fprintf(f, "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n", width,
            height);
    fprintf(f, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    svg_text(f, 16, 26, "font-size=\"16\"", title);
}

static inline void save_curve(const char *folder, const char *name, const char *title, int64_t n,
                              const double y[]) {
    enum { LEFT = 60, TOP = 48, WIDE = 560, HIGH = 280 };
    char path[4096], number[32];
    FILE *f = write_file(folder, name, path);
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, y[i]);
    if (!(top > 0))
        top = 1;
    svg_begin(f, LEFT + WIDE + 24, TOP + HIGH + 44, title);
    for (int k = 0; k <= 4; k++) {
        double at = TOP + HIGH * (1 - k / 4.0);
        snprintf(number, sizeof number, "%.3g", top * k / 4);
        fprintf(f, "<path d=\"M%d %g h%d\" stroke=\"#ddd\"/>\n", LEFT, at, WIDE);
        svg_text(f, LEFT - 8, at + 4, "text-anchor=\"end\"", number);
        snprintf(number, sizeof number, "%lld", k ? (long long)(n * k / 4) : 1);
        svg_text(f, LEFT + WIDE * k / 4.0, TOP + HIGH + 22, "text-anchor=\"middle\"", number);
    }
    fprintf(f, "<polyline fill=\"none\" stroke=\"#08519c\" stroke-width=\"1.5\" points=\"");
    /* The first point is the first loss, and the last point the last one. */
    int64_t points = n < WIDE ? n : WIDE;
    for (int64_t k = 0; k < points; k++) {
        int64_t i = points > 1 ? k * (n - 1) / (points - 1) : 0;
        fprintf(f, "%.1f,%.1f ", LEFT + WIDE * (n > 1 ? (double)i / (double)(n - 1) : 0),
                TOP + HIGH * (1 - y[i] / top));
    }
    fprintf(f, "\"/>\n</svg>\n");
    close_file(f, path);
}

static inline void save_heat_map(const char *folder, const char *name, const heat_map *m) {
    enum { TOP = 120, CELL = 48 };
    char path[4096], text[128];
    FILE *f = write_file(folder, name, path);
    int left = 40;
    for (int i = 0; i < m->rows; i++)
        left = (int)fmax(left, 24 + 8 * text_width(m->row_labels[i]));
    svg_begin(f, (int)fmax(left + m->columns * CELL + 80, 400), TOP + m->rows * CELL + 24,
              m->title);
    for (int k = 0; k < m->columns; k++) {
        double x = left + (k + 0.5) * CELL + 4;
        snprintf(text, sizeof text, "transform=\"rotate(-45 %g %d)\"", x, TOP - 8);
        svg_text(f, x, TOP - 8, text, m->column_labels[k]);
    }
    for (int i = 0; i < m->rows; i++) {
        svg_text(f, left - 8, TOP + (i + 0.5) * CELL + 4, "text-anchor=\"end\"", m->row_labels[i]);
        for (int k = 0; k < m->columns; k++) {
            double weight = m->w[i * m->columns + k];
            double v = fmin(fmax(weight, 0), 1);
            double x = left + k * CELL;
            double y = TOP + i * CELL;
            fprintf(f, "<rect x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" ", x, y, CELL - 1,
                    CELL - 1);
            fprintf(f, "fill=\"rgb(%d,%d,%d)\"/>\n", (int)(247 - 239 * v), (int)(251 - 203 * v),
                    (int)(255 - 148 * v));
            const char *colour = v < 0.5 ? "text-anchor=\"middle\""
                                         : "text-anchor=\"middle\" fill=\"white\"";
            snprintf(text, sizeof text, "%.2f", weight);
            svg_text(f, x + CELL / 2, y + CELL / 2 + 4, colour, text);
        }
    }
    fprintf(f, "</svg>\n");
    close_file(f, path);
}
