/*
 * text_files.c: reads tables of numbers (CSV) and lines of text.
 */
#include "data.h"

#include "tensor/dtype.h"
#include "tensor/error.h"
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "tensor/files/file.h"
#include "tensor/files/utf8.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"
#include "tensor/text/c_locale.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text after its UTF-8 byte order mark, or the text itself if it begins with no such
 * mark. */
static char *behind_mark(char *text) {
    return strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
}

/* Reads a whole text file. Fails, and returns NULL, if it contains a 0 byte. The scope owns the
 * text. */
static char *read_text(rg_file *f, const char *op, const char *path) {
    size_t n;
    *f = (rg_file){ .op = op, .path = path, .fd = -1 };
    char *text = rgi_file_text(op, path, &n);
    if (!text)
        return NULL;
    if (strlen(text) != n) {
        rgi_file_refuse(f, "it is no text: byte %zu is 0", strlen(text));
        return NULL;
    }
    return text;
}

/* ---- lines of text -------------------------------------------------------------------- */

/* Ends the line that begins at `text`: writes a 0 in place of its line feed, and of a carriage
 * return before that. Returns the beginning of the next line. Returns NULL if this is the last
 * line. */
static char *cut_line(char *text) {
    char *end = strchr(text, '\n');
    if (!end)
        return NULL;
    *end = 0;
    if (end > text && end[-1] == '\r')
        end[-1] = 0;
    return end + 1;
}

rg_names rg_load_lines(const char *path) {
    const rg_names failed = { .n = -1 };
    RG_LOADING("load_lines", path);
    rg_file f;
    char *text = read_text(&f, "load_lines", path);
    if (!text)
        return failed;
    text = behind_mark(text);
    size_t n = 1;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        n++;
    if (n > INT_MAX) {
        rgi_file_refuse(&f, "it has %zu lines", n);
        return failed;
    }
    const char **v = rgi_scope_alloc(n * sizeof *v);
    int lines = 0;
    for (char *next; v && text && *text; text = next) {
        next = cut_line(text);
        v[lines++] = text;
    }
    return v ? (rg_names){ lines, v } : failed;
}

/* ---- cells of a CSV file -------------------------------------------------------------- */

/* A CSV file that is being read. `cells` is a vector of numbers; its first n elements are set. It
 * is allocated when the first line after the header is read, with room for all cells of the text
 * from there on. Before that it is NULL. */
typedef struct {
    const rg_file *file;
    rg_csv_options options;
    char *at;
    int64_t line, column; /* The line and the column of the next cell. Both count from 1. */
    rg_tensor *cells;
    int64_t n;
} csv_reader;

/* Fails with an error message about a cell. `what` is the end of the message, after the text of the
 * cell. Returns NULL. */
static void *csv_refuse(const csv_reader *r, const char *what, const char *cell) {
    rgi_file_refuse(r->file, "line %lld, column %lld: \"%s\" %s", (long long)r->line,
                    (long long)r->column, RG_SHOWN(cell), what);
    return NULL;
}

/* Moves the text of a quoted cell to the beginning of the cell, over the opening quote, and ends it
 * with a 0. Two quotes within the cell become one. Returns the position after the closing quote.
 * Fails, and returns NULL, if there is none. */
static char *csv_quoted(const csv_reader *r, char *cell) {
    char *to = cell, *p = cell + 1;
    for (; *p && (*p != '"' || p[1] == '"'); p++) {
        p += *p == '"';
        *to++ = *p;
    }
    if (!*p)
        return csv_refuse(r, "has an opening quote without a closing one", "");
    *to = 0;
    return p + 1;
}

/* Returns the end of a cell that isn't quoted. Fails, and returns NULL, if there is a quote in
 * it. */
static char *csv_plain(const csv_reader *r, char *cell) {
    char *end = cell + strcspn(cell, (char[]){ r->options.delimiter, '\n', '\r', '"', 0 });
    if (*end != '"')
        return end;
    *end = 0;
    return csv_refuse(r, "is followed by a quote, but doesn't begin with one", cell);
}

/* Returns the next cell, ended with a 0. Sets *ends to the character that followed the cell: the
 * delimiter, a line feed, or 0. A carriage return before a line feed or 0 is skipped. Returns NULL
 * on failure. */
static char *csv_cell(csv_reader *r, char *ends) {
    char *cell = r->at;
    const bool quoted = *cell == '"';
    char *end = quoted ? csv_quoted(r, cell) : csv_plain(r, cell);
    if (!end)
        return NULL;
    const bool returns = *end == '\r';
    *ends = end[returns];
    r->at = end + returns + (*ends != 0);
    *end = 0;
    if (returns && *ends && *ends != '\n')
        return csv_refuse(r, "is followed by a carriage return without a line feed", cell);
    if (*ends && *ends != r->options.delimiter && *ends != '\n')
        return csv_refuse(r, "has text after its closing quote", cell);
    for (const char *p = cell; (p = strchr(p, '\n')); p++)
        r->line++;
    return cell;
}

/* Reads a decimal number, nan or inf, with or without blanks and tabs around it. Writes it to
 * `place` as an element of the table. Fails if the cell isn't a number or is too large for the
 * dtype. */
static bool csv_number(const csv_reader *r, char *cell, void *place) {
    const char *blanks = " \t";
    char *begin = cell + strspn(cell, blanks), *end;
    const double v = strtod(begin, &end);
    const bool decimal = begin[strspn(begin, "0123456789+-.eE \t")] == 0;
    if (end == begin || end[strspn(end, blanks)] || (!decimal && strpbrk(begin, "(0123456789")))
        return csv_refuse(r, "is no number", cell);
    rgi_store_f64(place, r->options.dtype, v);
    const bool overflows = isinf(rgi_load_f64(place, r->options.dtype));
    return !(decimal && overflows) || csv_refuse(r, "is too large", cell);
}

/* Reads a decimal integer, with or without blanks and tabs around it. Writes it to `place` as an
 * element of the table. Fails if the cell isn't an integer or is too large for the dtype. */
static bool csv_whole(const csv_reader *r, char *cell, void *place) {
    const char *blanks = " \t";
    char *begin = cell + strspn(cell, blanks), *end;
    const char *digits = begin + (*begin == '-' || *begin == '+');
    errno = 0;
    const int64_t v = strtoll(begin, &end, 10);
    /* *digits must be checked, because strtoll returns 0 for an empty string, and skips more kinds
     * of white space than blanks and tabs. */
    if (*digits < '0' || end[strspn(end, blanks)])
        return csv_refuse(r, "is no integer", cell);
    rgi_store_i64(place, r->options.dtype, v);
    const bool overflows = errno || rgi_load_i64(place, r->options.dtype) != v;
    return !overflows || csv_refuse(r, "is too large", cell);
}

/* Allocates room for the cells of the remaining text. Each cell but the last is followed by a
 * delimiter or a line feed, so one more than the number of these is enough. A line feed at the very
 * end isn't counted. There may be fewer cells, because quoted cells can contain delimiters, and
 * lines can be empty. */
static bool csv_make_room(csv_reader *r) {
    int64_t most = 1;
    for (const char *p = r->at; *p; p++)
        most += *p == r->options.delimiter || (*p == '\n' && p[1]);
    r->cells = rg_empty_dims(RG_DIMS(most), r->options.dtype);
    return r->cells;
}

/* Reads the number in a cell, and appends it to the table. */
static bool csv_read_cell(csv_reader *r, char *cell) {
    const rg_dtype dtype = r->options.dtype;
    void *place = (char *)rgi_data(r->cells) + (size_t)r->n++ * rgi_sizeof(dtype);
    return rgi_is_integer(dtype) ? csv_whole(r, cell, place) : csv_number(r, cell, place);
}

/* Reads the cells of a line. If *columns is 0, sets it to the number of cells. Otherwise fails if
 * the line has another number of cells than *columns. The cells of a header aren't read as
 * numbers. */
static bool csv_line(csv_reader *r, bool header, int64_t *columns) {
    r->column = 1;
    if (!header && !r->cells && !csv_make_room(r))
        return false;
    const int64_t line = r->line;
    for (char ends = r->options.delimiter; ends == r->options.delimiter; r->column++) {
        char *cell = csv_cell(r, &ends);
        if (!cell || (!header && !csv_read_cell(r, cell)))
            return false;
    }
    const int64_t here = r->column - 1;
    if (*columns && here != *columns)
        return rgi_file_refuse(r->file, "line %lld has %lld cells, and the first one %lld",
                               (long long)line, (long long)here, (long long)*columns);
    *columns = here;
    return true;
}

static bool csv_table(csv_reader *r, int64_t *rows, int64_t *columns) {
    RG_C_NUMBERS();
    bool header = r->options.header;
    *rows = 0;
    *columns = 0;
    for (r->line = 1; *r->at; r->line++) {
        const size_t blank = strspn(r->at, "\r");
        if (r->at[blank] == '\n' || !r->at[blank]) {
            r->at += blank + (r->at[blank] == '\n');
            continue;
        }
        if (!csv_line(r, header, columns))
            return false;
        *rows += !header;
        header = false;
    }
    return true;
}

/* Returns the cells as a table (rows, columns). If the vector r->cells has more elements than the
 * table, returns a copy, so that the vector's memory is freed. Otherwise the table shares the
 * vector's memory. */
static rg_tensor *csv_result(const csv_reader *r, int64_t rows, int64_t columns) {
    if (!r->cells)
        return rg_empty_dims(RG_DIMS(rows, columns), r->options.dtype);
    rg_tensor *table = rg_reshape(rg_narrow(r->cells, 0, 0, r->n), rows, columns);
    return rg_numel(r->cells) == r->n ? rg_detach(table) : rg_clone(table);
}

rg_tensor *rg_load_csv_with(const char *path, rg_csv_options o) {
    const char *op = "load_csv";
    RG_AS(op);
    RG_LOADING(op, path);
    RG_SCOPE();
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_is_integer(o.dtype) && !rgi_is_float(o.dtype), op,
                  "expected dtype to be of floats or integers, but got %s", rg_dtype_name(o.dtype));
    RG_FAIL_VALUE_IF(!o.delimiter || strchr("\"\r\n0123456789+-.eE", o.delimiter), op,
                     "this character can't be the delimiter");
    rg_file f;
    char *text = read_text(&f, op, path);
    if (!text)
        return NULL;
    csv_reader r = { .file = &f, .options = o, .at = behind_mark(text) };
    int64_t rows, columns;
    return csv_table(&r, &rows, &columns) ? rg_escape(csv_result(&r, rows, columns)) : NULL;
}
