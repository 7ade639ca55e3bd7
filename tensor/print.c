/*
 * print.c: tensors as text: torch's (rg_repr), Python's for one number (rg_str),
 * NumPy's and TensorFlow's. One pass over the elements that will be shown finds
 * what they look like and how wide they get; another one writes them.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRINT_PRECISION_MAX = 1000, PRINT_WORD = PRINT_PRECISION_MAX + DBL_MAX_10_EXP + 16 };

static rg_printoptions print_options = { 4, 1000, 3, 80, -1 };

rg_printoptions rg_get_printoptions(void) { return print_options; }

void rg_set_printoptions(rg_printoptions o) {
    print_options = (rg_printoptions){
        .precision = RG_MIN(o.precision, PRINT_PRECISION_MAX),
        .threshold = RG_MAX(o.threshold, 0),
        .edgeitems = RG_MAX(o.edgeitems, 0),
        .linewidth = RG_MAX(o.linewidth, 0),
        .sci_mode = o.sci_mode < 0 ? -1 : o.sci_mode > 0,
    };
}

/* ---- numbers as text --------------------------------------------------------------
 * They look the same whatever LC_NUMERIC the program has set. */

/* Python's '{:.4f}' and '{:.4e}' */
static int print_number(char *to, const char *format, int precision, double v) {
    if (!isfinite(v))
        return sprintf(to, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    RG_C_NUMBERS();
    return snprintf(to, PRINT_WORD, format, precision, v);
}

/* d[0].d[1]d[2].. * 10^exponent */
typedef struct digits {
    char d[24];
    int n, exponent;
} digits;

/* from the text of "%.*e", without trailing zeros */
static digits digits_read(const char *text) {
    digits s = { .n = 0 };
    for (; *text != 'e'; text++)
        if (*text != '.')
            s.d[s.n++] = *text;
    while (s.n > 1 && s.d[s.n - 1] == '0')
        s.n--;
    s.exponent = atoi(text + 1);
    return s;
}

/* The number with one more in its last digit; false if that would carry all the way. */
static bool digits_raise(char *text) {
    char *c = strchr(text, 'e') - 1;
    for (; c > text && (*c == '9' || *c == '.'); c--)
        if (*c == '9')
            *c = '0';
    return *c != '9' && (*c)++;
}

static bool digits_are(const char *text, double v, bool single) {
    return (single ? strtof(text, NULL) : strtod(text, NULL)) == v;
}

/* The fewest digits that read back as v >= 0, and of those the closest to it. At
 * a power of two the gap above is twice the one below, so there the digits next
 * above may read back where the closest ones don't. */
static digits digits_shortest(double v, bool single) {
    char text[PRINT_WORD];
    int exponent, p = v < (single ? FLT_MIN : DBL_MIN) ? 1 : single ? FLT_DIG : DBL_DIG;
    bool power = frexp(v, &exponent) == 0.5, found = false;
    RG_C_NUMBERS();
    for (; !found; p++) {
        snprintf(text, sizeof text, "%.*e", p - 1, v);
        found = digits_are(text, v, single)
                || (power && digits_raise(text) && digits_are(text, v, single));
    }
    return digits_read(text);
}

/* 12.5, 0.01, 3. */
static int print_positional(char *to, bool negative, const digits *s) {
    int n = 0;
    if (negative)
        to[n++] = '-';
    if (s->exponent < 0)
        to[n++] = '0';
    for (int i = 0; i <= s->exponent; i++)
        to[n++] = i < s->n ? s->d[i] : '0';
    to[n++] = '.';
    for (int i = -1; i > s->exponent; i--)
        to[n++] = '0';
    for (int i = RG_MAX(s->exponent + 1, 0); i < s->n; i++)
        to[n++] = s->d[i];
    to[n] = 0;
    return n;
}

/* 1.25e+01 with at least so many digits after the point (-1: none, and no point) and in the
 * exponent */
static int print_scientific(char *to, bool negative, const digits *s, int fraction, int wide) {
    int n = 0;
    if (negative)
        to[n++] = '-';
    to[n++] = s->d[0];
    if (s->n > 1 || fraction >= 0)
        to[n++] = '.';
    for (int i = 1; i < RG_MAX(s->n, fraction + 1); i++)
        to[n++] = i < s->n ? s->d[i] : '0';
    return n + sprintf(to + n, "e%c%0*d", s->exponent < 0 ? '-' : '+', wide, abs(s->exponent));
}

/* One number on its own: Python's repr of a double, and NumPy's of a float. */
static int print_alone(char *to, double v, bool single) {
    if (!isfinite(v))
        return print_number(to, "", 0, v);
    digits s = digits_shortest(fabs(v), single);
    if (v != 0 && (fabs(v) < 1e-4 || fabs(v) >= (single ? 1e6 : 1e16)))
        return print_scientific(to, signbit(v), &s, -1, 2);
    int n = print_positional(to, signbit(v), &s);
    if (to[n - 1] == '.')
        to[n++] = '0', to[n] = 0;
    return n;
}

/* ---- the printer ----------------------------------------------------------------- */

typedef struct printer {
    const rg_tensor *t;
    bool numpy; /* NumPy's layout, else torch's */
    bool cut;   /* show the edges of each dim only */
    int edge, linewidth, precision, indent;
    const char *format; /* of torch's floats */
    double least, most; /* absolute, of the numbers that are finite and not 0 */
    bool fraction, sci, nonfinite, minus_inf;
    int width;                 /* of a word; NumPy's floats say it in three: */
    int left, right, exponent; /* before the point, after it, in the exponent */
    int column;                /* in a row of NumPy's */
    rg_text text;
    char word[PRINT_WORD];
} printer;

static void print_put(printer *p, const char *s, int64_t times) {
    rg_text *t = &p->text;
    for (size_t n = strlen(s); times > 0; times--) {
        t->failed = t->failed || !rgi_grow((void **)&t->v, &t->room, t->n + n + 1, 1);
        if (t->failed)
            return;
        memcpy(t->v + t->n, s, n + 1);
        t->n += n;
    }
}

static void print_visit(printer *p, int dim, const char *at,
                        void (*visit)(printer *, const char *)) {
    const rg_tensor *t = p->t;
    if (dim == t->ndim)
        return visit(p, at);
    int64_t n = t->size[dim], step = n > 1 ? t->stride[dim] * (int64_t)rgi_sizeof(t->dtype) : 0;
    bool gap = p->cut && n > 2 * (int64_t)p->edge;
    for (int64_t i = 0; i < n; i++) {
        if (gap && i == p->edge)
            i = n - p->edge;
        if (i < n)
            print_visit(p, dim + 1, at + i * step, visit);
    }
}

static void print_scan(printer *p, const char *at) {
    double v = rgi_load_f64(at, p->t->dtype), a = fabs(v);
    p->nonfinite = p->nonfinite || !isfinite(v);
    p->minus_inf = p->minus_inf || (isinf(v) && v < 0);
    if (!isfinite(v) || v == 0)
        return;
    p->least = p->most ? fmin(p->least, a) : a;
    p->most = fmax(p->most, a);
    p->fraction = p->fraction || v != ceil(v);
}

/* ---- one element as a word: NumPy's floats have the fewest digits, at most eight after the point ----
 * In a column of exponents all have as many as the longest, and those are true digits. */

enum { NUMPY_PRECISION = 8 };

static digits numpy_digits(const printer *p, double v) {
    digits s = digits_shortest(fabs(v), p->t->dtype == RG_FLOAT32);
    int least = p->sci ? p->right + 1 : 1, most = NUMPY_PRECISION + 1 + (p->sci ? 0 : s.exponent);
    if (least <= s.n && s.n <= most)
        return s;
    char text[PRINT_WORD];
    print_number(text, "%.*e", RG_MAX(least, RG_MIN(s.n, most)) - 1, fabs(v));
    return digits_read(text);
}

static int print_element(printer *p, const char *at) {
    double v = rgi_load_f64(at, p->t->dtype);
    if (p->t->dtype == RG_BOOL)
        return sprintf(p->word, "%s", v != 0 ? "True" : "False");
    if (p->t->dtype == RG_INT64)
        return sprintf(p->word, "%lld", (long long)*(const int64_t *)at);
    if (!p->numpy || !isfinite(v))
        return print_number(p->word, p->format, p->precision, v);
    digits s = numpy_digits(p, v);
    if (p->sci)
        return print_scientific(p->word, signbit(v), &s, p->right, p->exponent);
    int n = print_positional(p->word, signbit(v), &s),
        wide = (int)strcspn(p->word, ".") + 1 + p->right;
    memset(p->word + n, ' ', (size_t)(wide - n));
    p->word[wide] = 0;
    return wide;
}

/* Of torch's floats only those that are finite and not 0 count. */
static void print_measure(printer *p, const char *at) {
    double v = rgi_load_f64(at, p->t->dtype);
    bool floats = rgi_is_float(p->t->dtype);
    if (floats && (!isfinite(v) || (v == 0 && !p->numpy)))
        return;
    if (!floats || !p->numpy) {
        p->width = RG_MAX(p->width, print_element(p, at));
        return;
    }
    digits s = numpy_digits(p, v);
    p->left = RG_MAX(p->left, (p->sci ? 1 : RG_MAX(s.exponent + 1, 1)) + !!signbit(v));
    p->right = RG_MAX(p->right, s.n - 1 - (p->sci ? 0 : s.exponent));
    p->exponent = RG_MAX(p->exponent, abs(s.exponent) >= 100 ? 3 : 2);
}

static void print_look(printer *p) {
    bool floats = rgi_is_float(p->t->dtype), single = p->t->dtype == RG_FLOAT32;
    int asked = print_options.sci_mode;
    if (floats)
        print_visit(p, 0, p->t->data, print_scan);
    if (p->most && p->numpy) { /* compared as NumPy does, in the array's own precision */
        double ratio = single ? (float)p->most / (float)p->least : p->most / p->least;
        p->sci = p->most >= (single ? 1e6 : 1e8) || p->least < (single ? 1e-4f : 1e-4)
                 || ratio > 1000;
    } else if (p->most) {
        p->sci = asked < 0 ? p->most / p->least > 1000 || p->most > 1e8 || p->least < 1e-4 : asked;
    }
    if (!p->sci && !p->fraction)
        p->precision = 0;
    if (floats && p->precision < 0)
        p->text.failed = !rgi_fail(RG_VALUE_ERROR, "repr", "Format specifier missing precision");
    p->format = p->sci ? "%.*e" : p->fraction ? "%.*f" : "%#.*f";
    p->width = p->numpy && p->t->dtype == RG_BOOL && p->t->ndim ? 5 : 1;
    print_visit(p, 0, p->t->data, print_measure);
    if (!p->numpy || !floats)
        return;
    int after = p->right + 1 + (p->sci ? 2 + p->exponent : 0);
    if (p->nonfinite)
        p->left = RG_MAX(p->left, 3 + p->minus_inf - after);
    p->width = p->left + after;
}

/* ---- brackets and lines ---------------------------------------------------------- */

static void print_break(printer *p, int lines, int indent) {
    if (!p->numpy)
        print_put(p, ",", 1);
    print_put(p, "\n", lines);
    print_put(p, " ", indent);
    p->column = indent;
}

static void print_word(printer *p, const char *at) {
    print_put(p, " ", p->width - print_element(p, at));
    print_put(p, p->word, 1);
}

/* The k-th item of a row; at NULL stands for those left out. torch puts the same
 * number on every line, NumPy as many as fit. */
static void print_item(printer *p, const char *at, int64_t k, int dim) {
    int indent = p->indent + dim, wide = at ? p->width : 3;
    if (p->numpy) {
        if (k)
            print_put(p, " ", 1), p->column++;
        if (p->column + wide > p->linewidth - dim - 1 && p->column > indent) {
            while (p->text.n && p->text.v[p->text.n - 1] == ' ')
                p->text.n--;
            print_break(p, 1, indent);
        }
        p->column += wide;
    } else if (k) {
        int64_t a_line = ((int64_t)p->linewidth - indent + 1) / (p->width + 2);
        if (k % RG_MAX(a_line, 1) == 0)
            print_break(p, 1, indent);
        else
            print_put(p, ", ", 1);
    }
    if (at)
        print_word(p, at);
    else
        print_put(p, p->numpy || p->edge == 0 ? "..." : " ...", 1);
}

static void print_block(printer *p, int dim, const char *at) {
    const rg_tensor *t = p->t;
    int64_t n = t->size[dim], step = t->stride[dim] * (int64_t)rgi_sizeof(t->dtype);
    bool gap = p->cut && n > 2 * (int64_t)p->edge, row = dim == t->ndim - 1;
    print_put(p, "[", 1);
    p->column = p->indent + dim;
    for (int64_t i = 0, k = 0; i < n; i++, k++) {
        bool dots = gap && i == p->edge;
        const char *item = dots ? NULL : at + i * step;
        if (row)
            print_item(p, item, k, dim);
        else if (k)
            print_break(p, t->ndim - 1 - dim, p->indent + dim);
        if (!row && dots)
            print_put(p, "...", 1);
        else if (!row)
            print_block(p, dim + 1, item);
        if (dots)
            i = n - p->edge - 1;
    }
    print_put(p, "]", 1);
}

static void print_contents(printer *p) {
    if (p->t->numel == 0)
        return print_put(p, "[]", 1);
    print_look(p);
    if (p->t->ndim)
        print_block(p, 0, p->t->data);
    else
        print_word(p, p->t->data);
}

/* Python's tuple: (2, 3), (3,), () */
static const char *print_tuple(const rg_tensor *t, char buf[192]) {
    rgi_shape_text(t->ndim, t->size, buf);
    size_t n = strlen(buf);
    buf[0] = '(';
    strcpy(buf + n - 1, t->ndim == 1 ? ",)" : ")");
    return buf;
}
#define PRINT_TUPLE(t) print_tuple(t, (char[192]){ 0 })

/* ---- torch's text ---------------------------------------------------------------- */

/* Goes behind the text, or below it where the line (counted one longer than it is) gets too long.
 */
static void print_suffix(printer *p, size_t *line, const char *key, const char *value,
                         const char *end) {
    size_t n = strlen(key) + strlen(value) + strlen(end);
    bool fits = *line + n + 2 <= (size_t)print_options.linewidth;
    rgi_text_add(&p->text, "%s%s%s%s", fits ? ", " : ",\n       ", key, value, end);
    *line = fits ? *line + n + 2 : 7 + n;
}

const char *rg_repr(rg_tensor *t) {
    if (!rgi_check(t, "repr"))
        return NULL;
    rg_printoptions o = print_options;
    printer p = { .t = t,
                  .cut = t->numel > o.threshold,
                  .edge = o.edgeitems,
                  .linewidth = o.linewidth,
                  .precision = o.precision,
                  .indent = 8 };
    if (t->flags & RG_IS_PARAMETER)
        print_put(&p, "Parameter containing:\n", 1);
    print_put(&p, "tensor(", 1);
    print_contents(&p);
    const char *newline = p.text.failed ? NULL : memrchr(p.text.v, '\n', p.text.n);
    size_t line = newline ? (size_t)(p.text.v + p.text.n - newline) + 1 : p.text.n + 2;
    if (t->numel == 0 ? t->ndim != 1 : o.edgeitems == 0)
        print_suffix(&p, &line, "size=", PRINT_TUPLE(t), "");
    if (t->dtype != rg_default_dtype() && (t->numel == 0 || rgi_is_float(t->dtype)))
        print_suffix(&p, &line, "dtype=", rg_dtype_name(t->dtype), "");
    const char *grad_fn = t->history ? t->history->cls->name(t->history) : NULL;
    if (grad_fn)
        print_suffix(&p, &line, "grad_fn=<", grad_fn, ">");
    else if (t->history)
        print_suffix(&p, &line, "requires_grad=True", "", "");
    print_put(&p, ")", 1);
    return rgi_text_own(&p.text);
}

void rg_print(rg_tensor *t) {
    RG_SCOPE();
    const char *s = rg_repr(t);
    if (s)
        puts(s);
}

const char *rg_repr_shape(rg_tensor *t) {
    if (!rgi_check(t, "repr_shape"))
        return NULL;
    rg_text text = { 0 };
    rgi_text_add(&text, "torch.Size(%s)", RG_SHAPE_TEXT(t));
    return rgi_text_own(&text);
}

/* ---- NumPy's and TensorFlow's ---------------------------------------------------- */

/* NumPy 2.4's str(); an array without dims is its number, as a single or a double has it */
static const char *print_numpy(const rg_tensor *t, bool single) {
    printer p = {
        .t = t, .numpy = true, .cut = t->numel > 1000, .edge = 3, .linewidth = 75, .indent = 1
    };
    if (t->ndim || !rgi_is_float(t->dtype)) {
        print_contents(&p);
    } else {
        print_alone(p.word, rgi_load_f64(t->data, t->dtype), single);
        print_put(&p, p.word, 1);
    }
    return rgi_text_own(&p.text);
}

const char *rg_repr_numpy(rg_tensor *t) {
    return rgi_check(t, "repr_numpy") ? print_numpy(t, t->dtype == RG_FLOAT32) : NULL;
}

const char *rg_str(rg_tensor *t) {
    if (!rgi_check(t, "str"))
        return NULL;
    return t->ndim ? rg_repr(t) : print_numpy(t, false); /* Python's numbers are double */
}

const char *rg_repr_tf(rg_tensor *t) {
    if (!rgi_check(t, "repr_tf"))
        return NULL;
    const char *array = print_numpy(t, t->dtype == RG_FLOAT32);
    rg_text text = { .failed = !array };
    if (array)
        rgi_text_add(&text, "tf.Tensor(%s%s, shape=%s, dtype=%s)", strchr(array, '\n') ? "\n" : "",
                     array, PRINT_TUPLE(t), strchr(rg_dtype_name(t->dtype), '.') + 1);
    return rgi_text_own(&text);
}
