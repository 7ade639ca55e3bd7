/*
 * print.c: tensors as text: torch's (rg_repr), Python's for one number (rg_str),
 * NumPy's and TensorFlow's. One pass over the elements that will be shown finds
 * what they look like and how wide they get; another one writes them.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRINT_PRECISION_MAX = 1000, PRINT_WORD = PRINT_PRECISION_MAX + DBL_MAX_10_EXP + 16 };

static rg_printoptions print_options = { 4, 1000, 3, 80, -1 };

rg_printoptions rg_get_printoptions(void) { return print_options; }

void rg_set_printoptions(rg_printoptions o) {
    print_options = (rg_printoptions){
        .precision = RG_MIN(RG_MAX(o.precision, 0), PRINT_PRECISION_MAX),
        .threshold = RG_MAX(o.threshold, 0),
        .edgeitems = RG_MAX(o.edgeitems, 0),
        .linewidth = RG_MAX(o.linewidth, 0),
        .sci_mode  = o.sci_mode < 0 ? -1 : o.sci_mode > 0,
    };
}

/* ---- numbers as text --------------------------------------------------------------
 * They look the same whatever LC_NUMERIC the program has set. */

static locale_t c_locale(void) {
    static _Atomic(locale_t) made;
    locale_t c = made;
    if (!c) made = c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c;
}

double rg_read_double(const char *text, char **end) {
    locale_t before = uselocale(c_locale());
    double v = strtod(text, end);
    uselocale(before);
    return v;
}

/* Python's '{:.4f}' and '{:.4e}' */
static int print_number(char *to, char form, int precision, double v) {
    if (!isfinite(v)) return sprintf(to, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    locale_t before = uselocale(c_locale());
    int n = form == 'e' ? snprintf(to, PRINT_WORD, "%.*e", precision, v)
                        : snprintf(to, PRINT_WORD, "%.*f", precision, v);
    uselocale(before);
    return n;
}

typedef struct digits { char d[24]; int n, exponent; } digits;  /* d[0].d[1]d[2].. * 10^exponent */

/* from the text of "%.*e", without trailing zeros */
static digits digits_read(const char *text) {
    digits s = { .n = 0 };
    for (; *text != 'e'; text++)
        if (*text != '.') s.d[s.n++] = *text;
    while (s.n > 1 && s.d[s.n - 1] == '0') s.n--;
    s.exponent = atoi(text + 1);
    return s;
}

/* The number with one more in its last digit; false if that would carry all the way. */
static bool digits_raise(char *text) {
    char *c = strchr(text, 'e') - 1;
    while (c > text && (*c == '9' || *c == '.')) {
        if (*c == '9') *c = '0';
        c--;
    }
    return *c != '9' && (*c)++;
}

static bool digits_read_back(const char *text, double v, bool single) {
    return (single ? strtof(text, NULL) : strtod(text, NULL)) == v;
}

/* The fewest digits that read back as v >= 0, and of those the closest to it. At
 * a power of two the gap above is twice the one below, so there the digits next
 * above may read back where the closest ones don't. */
static digits digits_shortest(double v, bool single) {
    char text[PRINT_WORD];
    int exponent, p = v < (single ? FLT_MIN : DBL_MIN) ? 1 : single ? FLT_DIG : DBL_DIG;
    bool power = frexp(v, &exponent) == 0.5, found = false;
    locale_t before = uselocale(c_locale());
    for (; !found; p++) {
        snprintf(text, sizeof text, "%.*e", p - 1, v);
        found = digits_read_back(text, v, single) ||
                (power && digits_raise(text) && digits_read_back(text, v, single));
    }
    uselocale(before);
    return digits_read(text);
}

/* 12.5, 0.01, 3. */
static int print_positional(char *to, bool negative, const digits *s) {
    int n = 0;
    if (negative) to[n++] = '-';
    if (s->exponent < 0) to[n++] = '0';
    for (int i = 0; i <= s->exponent; i++) to[n++] = i < s->n ? s->d[i] : '0';
    to[n++] = '.';
    for (int i = -1; i > s->exponent; i--) to[n++] = '0';
    for (int i = RG_MAX(s->exponent + 1, 0); i < s->n; i++) to[n++] = s->d[i];
    to[n] = 0;
    return n;
}

/* 1.25e+01 with at least so many digits after the point and in the exponent */
static int print_scientific(char *to, bool negative, const digits *s, int fraction, int wide) {
    int n = 0;
    if (negative) to[n++] = '-';
    to[n++] = s->d[0];
    to[n++] = '.';
    for (int i = 1; i < RG_MAX(s->n, fraction + 1); i++) to[n++] = i < s->n ? s->d[i] : '0';
    return n + sprintf(to + n, "e%c%0*d", s->exponent < 0 ? '-' : '+', wide, abs(s->exponent));
}

/* One number on its own: Python's repr of a double, and NumPy's of a float. */
static int print_alone(char *to, double v, bool single) {
    if (!isfinite(v)) return print_number(to, 'f', 0, v);
    digits s = digits_shortest(fabs(v), single);
    double a = fabs(v);
    if (a == 0 || (a >= 1e-4 && a < (single ? 1e6 : 1e16))) {
        int n = print_positional(to, signbit(v), &s);
        if (to[n - 1] == '.') to[n++] = '0', to[n] = 0;
        return n;
    }
    int n = print_scientific(to, signbit(v), &s, 0, 2);
    char *point = strchr(to, '.');
    if (point[1] == 'e') memmove(point, point + 1, strlen(point)), n--;
    return n;
}

/* ---- the printer --------------------------------------------------------------------- */

typedef struct printer {
    const rg_tensor *t;
    bool numpy;                         /* NumPy's layout, else torch's */
    bool cut;                           /* show the edges of each dim only */
    int  edge, linewidth, precision, indent;
    double least, most;                 /* absolute, of the numbers that are finite and not 0 */
    bool fraction, sci, nonfinite, minus_inf;
    int  width;                         /* of a word; NumPy's floats say it in three: */
    int  left, right, exponent;         /* before the point, after it, in the exponent */
    int  column;                        /* in a row of NumPy's */
    char  *text;
    size_t used, room;
    bool   failed;
    char   word[PRINT_WORD];
} printer;

static void print_put(printer *p, const char *s, size_t n) {
    p->failed = p->failed || !rg_grow((void **)&p->text, &p->room, p->used + n, 1);
    if (p->failed) return;
    memcpy(p->text + p->used, s, n);
    p->used += n;
}

static void print_text(printer *p, const char *s) { print_put(p, s, strlen(s)); }

static void print_repeat(printer *p, const char *c, int64_t n) {
    while (n-- > 0) print_put(p, c, 1);
}

/* what was written, as a string of the scope's */
static const char *print_finish(printer *p, const char *before, const char *after) {
    size_t head = strlen(before), tail = strlen(after);
    char *s = p->failed ? NULL : rg_own_string(head + p->used + tail + 1);
    if (s) {
        memcpy(s, before, head);
        if (p->used) memcpy(s + head, p->text, p->used);
        memcpy(s + head + p->used, after, tail + 1);
    }
    rg_free(p->text, p->room, RG_MEM_OTHER);
    return s;
}

static void print_visit(printer *p, int dim, const char *at, void (*visit)(printer *, const char *)) {
    const rg_tensor *t = p->t;
    if (dim == t->ndim) {
        visit(p, at);
        return;
    }
    int64_t n = t->size[dim], step = t->stride[dim] * (int64_t)rg_sizeof(t->dtype);
    bool gap = p->cut && n > 2 * (int64_t)p->edge;
    for (int64_t i = 0; i < n; i++) {
        if (gap && i == p->edge) i = n - p->edge;
        if (i < n) print_visit(p, dim + 1, at + i * step, visit);
    }
}

static void print_scan(printer *p, const char *at) {
    double v = rg_load_f64(at, p->t->dtype), a = fabs(v);
    p->nonfinite = p->nonfinite || !isfinite(v);
    p->minus_inf = p->minus_inf || (isinf(v) && v < 0);
    if (!isfinite(v) || v == 0) return;
    p->least = p->most ? fmin(p->least, a) : a;
    p->most = fmax(p->most, a);
    p->fraction = p->fraction || v != ceil(v);
}

static int print_whole(char *to, const char *at, rg_dtype dtype) {
    if (dtype == RG_BOOL) return sprintf(to, "%s", *(const bool *)at ? "True" : "False");
    return sprintf(to, "%lld", (long long)*(const int64_t *)at);
}

/* ---- torch's numbers -------------------------------------------------------------------- */

static int print_torch_word(printer *p, const char *at) {
    if (!rg_is_float(p->t->dtype)) return print_whole(p->word, at, p->t->dtype);
    double v = rg_load_f64(at, p->t->dtype);
    if (p->sci || p->fraction) return print_number(p->word, p->sci ? 'e' : 'f', p->precision, v);
    int n = print_number(p->word, 'f', 0, v);
    if (isfinite(v)) p->word[n++] = '.', p->word[n] = 0;
    return n;
}

/* Only numbers that are finite and not 0 count for the width of floats. */
static void print_torch_measure(printer *p, const char *at) {
    double v = rg_load_f64(at, p->t->dtype);
    if (rg_is_float(p->t->dtype) && (!isfinite(v) || v == 0)) return;
    p->width = RG_MAX(p->width, print_torch_word(p, at));
}

static void print_torch_look(printer *p) {
    if (rg_is_float(p->t->dtype)) print_visit(p, 0, p->t->data, print_scan);
    if (p->most) {
        int asked = print_options.sci_mode;
        p->sci = asked < 0 ? p->most / p->least > 1000 || p->most > 1e8 || p->least < 1e-4 : asked;
    }
    p->width = 1;
    print_visit(p, 0, p->t->data, print_torch_measure);
}

/* ---- NumPy's numbers: the fewest digits, at most eight after the point ----------------------
 * In a column of exponents all have as many as the longest, and those are true digits. */

enum { NUMPY_PRECISION = 8 };

static digits numpy_digits(const printer *p, double v) {
    bool single = p->t->dtype == RG_FLOAT32;
    digits s = digits_shortest(fabs(v), single);
    int least = p->sci ? p->right + 1 : 1, most = NUMPY_PRECISION + 1 + (p->sci ? 0 : s.exponent);
    if (least <= s.n && s.n <= most) return s;
    char text[PRINT_WORD];
    print_number(text, 'e', RG_MAX(least, RG_MIN(s.n, most)) - 1, fabs(v));
    return digits_read(text);
}

static void numpy_measure(printer *p, const char *at) {
    double v = rg_load_f64(at, p->t->dtype);
    if (!rg_is_float(p->t->dtype)) {
        p->width = RG_MAX(p->width, print_whole(p->word, at, p->t->dtype));
    } else if (isfinite(v)) {
        digits s = numpy_digits(p, v);
        int left = p->sci ? 1 : RG_MAX(s.exponent + 1, 1);
        p->left = RG_MAX(p->left, left + !!signbit(v));
        p->right = RG_MAX(p->right, s.n - 1 - (p->sci ? 0 : s.exponent));
        p->exponent = RG_MAX(p->exponent, abs(s.exponent) >= 100 ? 3 : 2);
    }
}

static void numpy_look(printer *p) {
    if (rg_is_float(p->t->dtype)) print_visit(p, 0, p->t->data, print_scan);
    bool single = p->t->dtype == RG_FLOAT32;
    if (p->most) {                      /* compared as NumPy does, in the array's own precision */
        double ratio = single ? (float)p->most / (float)p->least : p->most / p->least;
        p->sci = p->most >= (single ? 1e6 : 1e8) || p->least < (single ? 1e-4f : 1e-4) || ratio > 1000;
    }
    p->width = p->t->dtype == RG_BOOL && p->t->ndim ? 5 : 1;
    print_visit(p, 0, p->t->data, numpy_measure);
    if (!rg_is_float(p->t->dtype)) return;
    int after = p->right + 1 + (p->sci ? 2 + p->exponent : 0);
    if (p->nonfinite) p->left = RG_MAX(p->left, 3 + p->minus_inf - after);
    p->width = p->left + after;
}

static int numpy_word(printer *p, const char *at) {
    double v = rg_load_f64(at, p->t->dtype);
    if (!rg_is_float(p->t->dtype)) return print_whole(p->word, at, p->t->dtype);
    if (!isfinite(v)) return print_number(p->word, 'f', 0, v);
    digits s = numpy_digits(p, v);
    if (p->sci) return print_scientific(p->word, signbit(v), &s, p->right, p->exponent);
    int n = print_positional(p->word, signbit(v), &s);
    int wide = (int)(strchr(p->word, '.') - p->word) + 1 + p->right;
    while (n < wide) p->word[n++] = ' ';
    return n;
}

/* ---- brackets and lines --------------------------------------------------------------------- */

static void print_break(printer *p, int lines, int indent) {
    if (!p->numpy) print_put(p, ",", 1);
    print_repeat(p, "\n", lines);
    print_repeat(p, " ", indent);
    p->column = indent;
}

static void print_word(printer *p, const char *at) {
    int n = p->numpy ? numpy_word(p, at) : print_torch_word(p, at);
    print_repeat(p, " ", p->width - n);
    print_put(p, p->word, (size_t)n);
}

/* The k-th item of a row; at NULL stands for those left out. torch puts the same
 * number on every line, NumPy as many as fit. */
static void print_item(printer *p, const char *at, int64_t k, int dim) {
    int indent = p->indent + dim;
    if (p->numpy) {
        int wide = at ? p->width : 3;
        if (k) print_put(p, " ", 1), p->column++;
        if (p->column + wide > p->linewidth - dim - 1 && p->column > indent) {
            while (p->used && p->text[p->used - 1] == ' ') p->used--;
            print_break(p, 1, indent);
        }
        p->column += wide;
    } else if (k) {
        int64_t a_line = ((int64_t)p->linewidth - indent + 1) / (p->width + 2);
        if (k % RG_MAX(a_line, 1) == 0) print_break(p, 1, indent);
        else print_put(p, ", ", 2);
    }
    if (at) print_word(p, at);
    else print_text(p, p->numpy || p->edge == 0 ? "..." : " ...");
}

static void print_block(printer *p, int dim, const char *at) {
    const rg_tensor *t = p->t;
    int64_t n = t->size[dim], step = t->stride[dim] * (int64_t)rg_sizeof(t->dtype);
    bool gap = p->cut && n > 2 * (int64_t)p->edge, row = dim == t->ndim - 1;
    print_put(p, "[", 1);
    p->column = p->indent + dim;
    for (int64_t i = 0, k = 0; i < n; i++, k++) {
        bool dots = gap && i == p->edge;
        const char *item = dots ? NULL : at + i * step;
        if (row) {
            print_item(p, item, k, dim);
        } else {
            if (k) print_break(p, t->ndim - 1 - dim, p->indent + dim);
            if (dots) print_text(p, "...");
            else print_block(p, dim + 1, item);
        }
        if (dots) i = n - p->edge - 1;
    }
    print_put(p, "]", 1);
}

static void print_contents(printer *p) {
    if (p->t->numel == 0) {
        print_put(p, "[]", 2);
        return;
    }
    if (p->numpy) numpy_look(p);
    else print_torch_look(p);
    if (p->t->ndim) print_block(p, 0, p->t->data);
    else print_word(p, p->t->data);
}

/* Python's tuple: (2, 3), (3,), () */
static const char *print_tuple(const rg_tensor *t, char buf[192]) {
    rg_shape_text(t->ndim, t->size, buf);
    size_t n = strlen(buf);
    buf[0] = '(';
    strcpy(buf + n - 1, t->ndim == 1 ? ",)" : ")");
    return buf;
}

/* ---- torch's text ------------------------------------------------------------------------------ */

/* Goes behind the text, or below it where the line (counted one longer than it is) gets too long. */
static void print_suffix(printer *p, const char *key, const char *value, const char *end, size_t *line) {
    size_t n = strlen(key) + strlen(value) + strlen(end);
    bool fits = *line + n + 2 <= (size_t)print_options.linewidth;
    print_text(p, fits ? ", " : ",\n       ");
    *line = fits ? *line + n + 2 : 7 + n;
    print_text(p, key);
    print_text(p, value);
    print_text(p, end);
}

const char *rg_repr(rg_tensor *t) {
    if (!rg_check(t, "repr")) return NULL;
    rg_printoptions o = print_options;
    printer p = { .t = t, .cut = t->numel > o.threshold, .edge = o.edgeitems, .linewidth = o.linewidth,
                  .precision = o.precision, .indent = 8 };
    print_text(&p, "tensor(");
    print_contents(&p);

    char shape[192];
    const char *newline = p.failed ? NULL : memrchr(p.text, '\n', p.used);
    size_t line = newline ? (size_t)(p.text + p.used - newline) + 1 : p.used + 2;
    if (t->numel == 0 ? t->ndim != 1 : o.edgeitems == 0)
        print_suffix(&p, "size=", print_tuple(t, shape), "", &line);
    if (t->dtype != rg_default_dtype() && (t->numel == 0 || rg_is_float(t->dtype)))
        print_suffix(&p, "dtype=", rg_dtype_name(t->dtype), "", &line);
    const char *grad_fn = t->history ? t->history->cls->name(t->history) : NULL;
    if (grad_fn) print_suffix(&p, "grad_fn=<", grad_fn, ">", &line);
    else if (t->history) print_suffix(&p, "requires_grad=True", "", "", &line);
    return print_finish(&p, "", ")");
}

void rg_print(rg_tensor *t) {
    RG_SCOPE();
    const char *s = rg_repr(t);
    if (s) puts(s);
}

const char *rg_str(rg_tensor *t) {
    if (!rg_check(t, "str")) return NULL;
    if (t->ndim) return rg_repr(t);
    char word[PRINT_WORD];
    int n = rg_is_float(t->dtype) ? print_alone(word, rg_load_f64(t->data, t->dtype), false)
                                  : print_whole(word, t->data, t->dtype);
    char *s = rg_own_string((size_t)n + 1);
    return s ? memcpy(s, word, (size_t)n + 1) : NULL;
}

const char *rg_repr_shape(rg_tensor *t) {
    if (!rg_check(t, "repr_shape")) return NULL;
    char shape[192];
    printer p = { .t = t };
    print_text(&p, rg_shape_text(t->ndim, t->size, shape));
    return print_finish(&p, "torch.Size(", ")");
}

/* ---- NumPy's and TensorFlow's -------------------------------------------------------------------- */

/* NumPy 2.4's str(); an array without dims is its number */
static void print_numpy(printer *p, const rg_tensor *t) {
    *p = (printer){ .t = t, .numpy = true, .cut = t->numel > 1000, .edge = 3, .linewidth = 75, .indent = 1 };
    if (t->ndim || !rg_is_float(t->dtype)) {
        print_contents(p);
    } else {
        int n = print_alone(p->word, rg_load_f64(t->data, t->dtype), t->dtype == RG_FLOAT32);
        print_put(p, p->word, (size_t)n);
    }
}

const char *rg_repr_numpy(rg_tensor *t) {
    if (!rg_check(t, "repr_numpy")) return NULL;
    printer p;
    print_numpy(&p, t);
    return print_finish(&p, "", "");
}

const char *rg_repr_tf(rg_tensor *t) {
    if (!rg_check(t, "repr_tf")) return NULL;
    printer p;
    print_numpy(&p, t);
    char shape[192], after[256];
    snprintf(after, sizeof after, ", shape=%s, dtype=%s)", print_tuple(t, shape),
             strchr(rg_dtype_name(t->dtype), '.') + 1);
    bool lines = !p.failed && memchr(p.text, '\n', p.used);
    return print_finish(&p, lines ? "tf.Tensor(\n" : "tf.Tensor(", after);
}
