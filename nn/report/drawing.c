/*
 * drawing.c: functions that the files of pictures share. drawing.h explains them.
 */
#include "drawing.h"

#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/opaque.h"
#include "tensor/text/c_locale.h"
#include "tensor/text/digits.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- heat-maps ------------------------------------------------------------------------- */

/* Divides some elements of a matrix by the divisor, and returns the sum of the quotients. The
 * elements are those in rows row[0] to row[1] - 1 and columns column[0] to column[1] - 1. The
 * matrix has `columns` columns. */
static double sum_of_quotients(const double *matrix, int64_t columns, const int64_t row[2],
                               const int64_t column[2], double divisor) {
    double sum = 0;
    for (int64_t i = row[0]; i < row[1]; i++)
        for (int64_t k = column[0]; k < column[1]; k++)
            sum += matrix[i * columns + k] / divisor;
    return sum;
}

/* Returns the mean of the elements in these rows and columns (see sum_of_quotients). If their sum
 * overflows, each is divided by their number before they are added. */
static double mean_of(const double *matrix, int64_t columns, const int64_t row[2],
                      const int64_t column[2]) {
    const double n = (double)((row[1] - row[0]) * (column[1] - column[0]));
    const double sum = sum_of_quotients(matrix, columns, row, column, 1);
    return isfinite(sum) ? sum / n : sum_of_quotients(matrix, columns, row, column, n);
}

/* Extends the range from *low to *high by v if v is finite. *any tells whether a finite number was
 * found before; if not, the range becomes v alone. */
static void extend(double v, bool *any, double *low, double *high) {
    if (!isfinite(v))
        return;
    *low = *any ? fmin(*low, v) : v;
    *high = *any ? fmax(*high, v) : v;
    *any = true;
}

bool rgi_pixels(rg_tensor *t, int64_t most_rows, int64_t most_columns, rg_pixels *p) {
    rg_tensor *all = rg_contiguous(rg_double(t));
    if (!all)
        return false;
    const int64_t rows = rg_size(all, 0), columns = rg_size(all, 1);
    const int64_t high = RG_MIN(rows, most_rows), wide = RG_MIN(columns, most_columns);
    const double *elements = rg_data_as(double, all);
    double *v = rgi_scope_alloc((size_t)(high * wide) * sizeof *v);
    if (!v)
        return false;
    *p = (rg_pixels){ .rows = high, .columns = wide, .v = v };
    bool any = false;
    for (int64_t i = 0; i < high; i++) {
        for (int64_t k = 0; k < wide; k++) {
            const int64_t row[] = { i * rows / high, (i + 1) * rows / high };
            const int64_t column[] = { k * columns / wide, (k + 1) * columns / wide };
            v[i * wide + k] = mean_of(elements, columns, row, column);
            extend(v[i * wide + k], &any, &p->low, &p->high);
        }
    }
    return true;
}

bool rgi_labels_given(const char *op, rg_names names, int64_t size, const char *what) {
    if (!rgi_given_list(names.n, names.v, op))
        return false;
    RG_FAIL_VALUE_IF(names.n && names.n != size, op,
                     "expected a name for each of %lld %s, but got %d", (long long)size, what,
                     names.n);
    for (int i = 0; i < names.n; i++)
        if (!rgi_given(names.v[i], op, "a name"))
            return false;
    return true;
}

bool rgi_heat_map(const char *op, rg_tensor *t, int64_t most_columns, rg_heat_map_options *o,
                  rg_pixels *p) {
    if (!rg_check_tensor(t, op))
        return false;
    RG_FAIL_IF(rg_ndim(t) != 2, op, "expected a matrix, but got a tensor with %d dims", rg_ndim(t));
    RG_FAIL_IF(rg_numel(t) == 0, op, "a tensor of shape %s has no elements", RG_SIZES_TEXT(t));
    RG_FAIL_VALUE_IF(!(isfinite(o->low) && isfinite(o->high) && o->low <= o->high), op,
                     "expected a low number and a high one, but got %s and %s", rgi_number(o->low),
                     rgi_number(o->high));
    const int64_t rows = rg_size(t, 0), columns = rg_size(t, 1);
    if (!rgi_labels_given(op, o->rows, rows, "rows")
        || !rgi_labels_given(op, o->columns, columns, "columns")
        || !rgi_pixels(t, RG_MOST_PIXELS, most_columns, p))
        return false;
    if (o->low < o->high) {
        p->low = o->low;
        p->high = o->high;
    }
    if (p->rows < rows)
        o->rows = (rg_names){ 0 };
    if (p->columns < columns)
        o->columns = (rg_names){ 0 };
    return true;
}

/* Returns (v - low) / (high - low). The three numbers are halved first, because high - low could
 * overflow. */
static double between(double low, double high, double v) {
    return (v / 2 - low / 2) / (high / 2 - low / 2);
}

double rgi_shade(const rg_pixels *p, double v) {
    if (isnan(v))
        return v;
    if (v <= p->low)
        return 0;
    return v >= p->high ? 1 : between(p->low, p->high, v);
}

void rgi_write_cell(double v, char text[32]) {
    if (isnan(v))
        strcpy(text, "nan");
    else if (isinf(v) || fabs(v) < 1000)
        snprintf(text, 32, "%.2f", v);
    else
        snprintf(text, 32, fabs(v) < 999999.5 ? "%.0f" : "%.0e", v);
}

/* ---- curves ---------------------------------------------------------------------------- */

bool rgi_curve(const char *op, rg_tensor *y, rg_curve *c) {
    if (!rg_check_tensor(y, op))
        return false;
    RG_FAIL_IF(rg_ndim(y) != 1, op, "expected a vector, but got a tensor with %d dims", rg_ndim(y));
    RG_FAIL_IF(rg_numel(y) == 0, op, "a tensor of shape %s has no elements", RG_SIZES_TEXT(y));
    rg_tensor *all = rg_contiguous(rg_double(y));
    if (!all)
        return false;
    *c = (rg_curve){ .n = rg_numel(all), .y = rg_data_as(double, all) };
    bool any = true; /* 0 is on the axis from the beginning. */
    for (int64_t i = 0; i < c->n; i++) {
        c->missing += !isfinite(c->y[i]);
        extend(c->y[i], &any, &c->low, &c->high);
    }
    if (c->low == c->high)
        c->high = 1;
    return true;
}

double rgi_place(const rg_curve *c, double y) { return between(c->low, c->high, y); }

/* ---- letters, and streams ---------------------------------------------------------------- */

/* Returns whether a picture may show the character. Pictures show neither control characters nor
 * U+FFFE and U+FFFF, which no XML file may contain. */
static bool is_shown(uint32_t code) {
    return code >= ' ' && !(code >= 0x7f && code < 0xa0) && code != 0xfffe && code != 0xffff;
}

const char *rgi_letter(const char *text, char letter[5]) {
    uint32_t code;
    const size_t n = rgi_utf8_read(text, text + strnlen(text, 4), &code);
    if (n > 0 && is_shown(code))
        snprintf(letter, 5, "%.*s", (int)n, text);
    else
        strcpy(letter, "?");
    return text + RG_MAX(n, (size_t)1);
}

int rgi_letters(const char *text) {
    char letter[5];
    int n = 0;
    for (; *text; n++)
        text = rgi_letter(text, letter);
    return n;
}

bool rgi_add_formatted(rg_text *text, const char *op, const char *format, va_list args) {
    va_list again;
    RG_C_NUMBERS();
    RG_SCOPE();
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *value = n < 0 ? NULL : rgi_scope_alloc((size_t)n + 1);
    if (value)
        vsnprintf(value, (size_t)n + 1, format, again);
    va_end(again);
    RG_FAIL_VALUE_IF(n < 0, op, "the format \"%s\" can't be printed", format);
    if (!value)
        return false;
    rgi_text_add(text, "%s", value);
    return !text->failed;
}

bool rgi_put_text(rg_text *text, const char *op, FILE *to) {
    bool ok = !text->failed;
    errno = EBADF; /* musl's fputs doesn't set errno if the stream is open only for reading. */
    if (ok && (fputs(text->v, to) < 0 || fflush(to) != 0)) {
        const int number = errno;
        RG_C_NUMBERS(); /* Makes strerror return the message of the C locale. */
        rgi_fail(RG_IO_ERROR, op, "[Errno %d] %s", number, strerror(number));
        ok = false;
    }
    rgi_text_free(text);
    return ok;
}
