/*
 * print.c: writes tensors as strings in the layout of torch (rg_repr), NumPy or TensorFlow. rg_str
 * writes a 0-d tensor as Python writes a number. A first pass over the elements that are shown
 * determines their format and width; a second pass writes them. digits.c writes a single number.
 * parse.c reads such strings back.
 */
#include "c_locale.h"
#include "digits.h"
#include "tensor/memory.h"
#include "tensor/kernels/limits.h"
#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/structs.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rg_printoptions print_options = {
    .precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80, .sci_mode = -1
};
rg_printoptions rg_get_printoptions(void) { return print_options; }

static int given_or(int64_t o, int64_t was) { return rgi_nearest_int(o == RG_UNCHANGED ? was : o); }

bool rg_set_printoptions_with(rg_printoptions o) {
    rg_printoptions *p = &print_options;
    const int precision = given_or(o.precision, p->precision);
    const int edgeitems = given_or(o.edgeitems, p->edgeitems);
    RG_FAIL_VALUE_IF(precision < 0 || edgeitems < 0, "set_printoptions",
                     "precision and edgeitems must be non-negative, but got %d and %d", precision,
                     edgeitems);
    p->sci_mode = o.sci_mode < 0 ? -1 : o.sci_mode > 0;
    p->precision = RG_MIN(precision, RG_PRECISION_MAX);
    p->threshold = RG_MAX(given_or(o.threshold, p->threshold), 0);
    p->edgeitems = edgeitems;
    p->linewidth = RG_MAX(given_or(o.linewidth, p->linewidth), 0);
    return true;
}

/* ---- the state of the printer ---------------------------------------------------- */

typedef struct printer {
    const rg_tensor *t;
    /* Set for NumPy's layout; not set for torch's layout. */
    bool numpy;
    /* Set if each dim with more than 2 * edge items is cut: only its first and last `edge` items
     * are shown. */
    bool cut;
    int edge;
    int linewidth, precision, indent;
    /* The printf format of floats in torch's layout. */
    const char *format;
    /* The least and the greatest absolute value among the numbers that are finite and not 0. Both
     * are 0 if there is no such number. */
    double least, most;
    /* `fraction` is set if some finite number isn't whole, `scientific` if all numbers are written
     * with exponents, `nonfinite` if some number is infinite or NaN, and minus_inf if some number
     * is -infinity. */
    bool fraction, scientific, nonfinite, minus_inf;
    /* The width to which each printed element is padded. */
    int width;
    /* The greatest numbers of characters that a float in NumPy's layout has before the point
     * (including a minus sign), after the point, and in the exponent. */
    int left, right, exponent;
    /* The column at which the current line ends, in NumPy's layout. */
    int column;
    rg_text text;
    char word[RG_WORD_ROOM];
} printer;

/* Appends the string s to the text, `times` times. */
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

/* Returns whether items in the middle of this dim are left out. */
static bool print_has_gap(const printer *p, int dim) {
    return p->cut && p->t->size[dim] > 2 * (int64_t)p->edge;
}

/* Returns the distance in bytes from one item of a dim to the next. If there is only one item,
 * returns 0, because the dim's stride may then be any number. */
static int64_t print_step(const rg_tensor *t, int dim) {
    return t->size[dim] > 1 ? t->stride[dim] * (int64_t)rgi_sizeof(t->dtype) : 0;
}

/* Calls `visit` for each shown element of the part of the tensor that begins at `at` and has the
 * dims from `dim` on. */
static void print_visit(printer *p, int dim, const char *at,
                        void (*visit)(printer *, const char *)) {
    const rg_tensor *t = p->t;
    if (dim == t->ndim) {
        visit(p, at);
        return;
    }
    const int64_t n = t->size[dim];
    const int64_t step = print_step(t, dim);
    const bool gap = print_has_gap(p, dim);
    const int64_t head = gap ? p->edge : n;
    const int64_t tail = gap ? n - p->edge : n;
    for (int64_t i = 0; i < head; i++)
        print_visit(p, dim + 1, at + i * step, visit);
    for (int64_t i = tail; i < n; i++)
        print_visit(p, dim + 1, at + i * step, visit);
}

/* Updates the printer's flags, and its range of numbers (`least` and `most`), for the element at
 * `at`. */
static void print_scan(printer *p, const char *at) {
    double v = rgi_load_f64(at, p->t->dtype);
    double size = fabs(v);
    p->nonfinite = p->nonfinite || !isfinite(v);
    p->minus_inf = p->minus_inf || (isinf(v) && v < 0);
    if (!isfinite(v) || v == 0)
        return;
    p->least = p->most ? fmin(p->least, size) : size;
    p->most = fmax(p->most, size);
    p->fraction = p->fraction || v != ceil(v);
}

/* ---- writing one element ----------------------------------------------------------------------
 * NumPy writes a float with as few digits as identify it, and at most eight after the point. If
 * floats are written with exponents, all of them get the same number of digits: the number that the
 * longest one needs. */

enum { NUMPY_PRECISION = 8 };

static rg_digits numpy_digits(const printer *p, double v) {
    rg_digits s = rgi_digits_shortest(fabs(v), p->t->dtype);
    const int least = p->scientific ? p->right + 1 : 1;
    const int most = NUMPY_PRECISION + 1 + (p->scientific ? 0 : s.exponent);
    if (least <= s.n && s.n <= most)
        return s;
    return rgi_digits_rounded(fabs(v), RG_MAX(least, RG_MIN(s.n, most)));
}

/* Writes the element at `at` into p->word, and returns the length of the string. */
static int print_element(printer *p, const char *at) {
    const rg_dtype dtype = p->t->dtype;
    if (rgi_is_bool(dtype))
        return sprintf(p->word, "%s", rgi_load_i64(at, dtype) ? "True" : "False");
    if (!rgi_is_float(dtype))
        return sprintf(p->word, "%lld", (long long)rgi_load_i64(at, dtype));
    double v = rgi_load_f64(at, dtype);
    if (!p->numpy || !isfinite(v))
        return rgi_print_number(p->word, p->format, p->precision, v);
    rg_digits s = numpy_digits(p, v);
    if (p->scientific)
        return rgi_print_scientific(p->word, signbit(v), &s, p->right, p->exponent);
    int n = rgi_print_positional(p->word, signbit(v), &s);
    int wide = (int)strcspn(p->word, ".") + 1 + p->right;
    memset(p->word + n, ' ', (size_t)(wide - n));
    p->word[wide] = 0;
    return wide;
}

/* Raises p->width so that this element fits. For floats in NumPy's layout, raises p->left, p->right
 * and p->exponent instead. Does nothing for floats that aren't finite, and for zeros in torch's
 * layout. */
static void print_measure(printer *p, const char *at) {
    double v = rgi_load_f64(at, p->t->dtype);
    bool floats = rgi_is_float(p->t->dtype);
    if (floats && (!isfinite(v) || (v == 0 && !p->numpy)))
        return;
    if (!floats || !p->numpy) {
        int length = print_element(p, at);
        p->width = RG_MAX(p->width, length);
        return;
    }
    rg_digits s = numpy_digits(p, v);
    int before_point = p->scientific ? 1 : RG_MAX(s.exponent + 1, 1);
    int after_point = s.n - 1 - (p->scientific ? 0 : s.exponent);
    int in_exponent = abs(s.exponent) >= 100 ? 3 : 2;
    p->left = RG_MAX(p->left, before_point + !!signbit(v));
    p->right = RG_MAX(p->right, after_point);
    p->exponent = RG_MAX(p->exponent, in_exponent);
}

/* Returns whether the floats must be written with exponents. */
static bool print_needs_exponents(const printer *p) {
    if (!p->most)
        return false;
    if (!p->numpy) {
        if (print_options.sci_mode >= 0)
            return print_options.sci_mode;
        return p->most / p->least > 1000 || p->most > 1e8 || p->least < 1e-4;
    }
    /* As in NumPy, the limits and the ratio are rounded to the array's dtype. If a number reaches a
     * limit, all numbers are written with exponents. The limit is lower for a dtype with few
     * digits. */
    const rg_dtype dtype = p->t->dtype;
    const double large = pow(10, RG_MIN(NUMPY_PRECISION, rgi_decimal_digits(dtype)));
    return p->most >= large || p->least < rgi_rounded(1e-4, dtype)
           || rgi_rounded(p->most / p->least, dtype) > 1000;
}

/* Determines the format and the width of all elements. */
static void print_look(printer *p) {
    const bool floats = rgi_is_float(p->t->dtype);
    if (floats)
        print_visit(p, 0, p->t->data, print_scan);
    p->scientific = print_needs_exponents(p);
    if (!p->scientific && !p->fraction)
        p->precision = 0;
    if (p->scientific)
        p->format = "%.*e";
    else
        p->format = p->fraction ? "%.*f" : "%#.*f";
    p->width = p->numpy && rgi_is_bool(p->t->dtype) && p->t->ndim ? 5 : 1;
    print_visit(p, 0, p->t->data, print_measure);
    if (!p->numpy || !floats)
        return;
    int after = p->right + 1 + (p->scientific ? 2 + p->exponent : 0);
    /* The width must be at least 3 for inf and nan, and 4 for -inf. */
    if (p->nonfinite)
        p->left = RG_MAX(p->left, 3 + p->minus_inf - after);
    p->width = p->left + after;
}

/* ---- brackets and lines ---------------------------------------------------------- */

/* Ends the line with a comma in torch's layout and with `lines` line feeds. Begins the next line
 * with `indent` blanks. */
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

/* Returns the dots that stand for the items of the last dim that are left out. */
static const char *print_dots(const printer *p) {
    return p->numpy || p->edge == 0 ? "..." : " ...";
}

/* Writes what comes before item k of a row in NumPy's layout: a line break if the item doesn't fit
 * into the current line, otherwise a blank if k isn't 0. The item takes `wide` columns. */
static void print_next_numpy(printer *p, int64_t k, int wide, int dim) {
    const int indent = p->indent + dim;
    if (k) {
        print_put(p, " ", 1);
        p->column++;
    }
    if (p->column + wide > p->linewidth - dim - 1) {
        while (p->text.n && p->text.v[p->text.n - 1] == ' ')
            p->text.n--;
        print_break(p, 1, indent);
    }
    p->column += wide;
}

/* In torch's layout, writes what comes before item k of a row if k isn't 0: a comma and a blank, or
 * a comma and a line break. All lines of a row but the last have the same number of items. */
static void print_next_torch(printer *p, int64_t k, int dim) {
    if (k == 0)
        return;
    const int indent = p->indent + dim;
    int64_t a_line = ((int64_t)p->linewidth - indent + 1) / (p->width + 2);
    if (k % RG_MAX(a_line, 1) == 0)
        print_break(p, 1, indent);
    else
        print_put(p, ", ", 1);
}

/* Writes the k-th item of a row. If `at` is NULL, writes dots for the items that are left out. */
static void print_item(printer *p, const char *at, int64_t k, int dim) {
    if (p->numpy)
        print_next_numpy(p, k, at ? p->width : 3, dim);
    else
        print_next_torch(p, k, dim);
    if (at)
        print_word(p, at);
    else
        print_put(p, print_dots(p), 1);
}

static void print_block(printer *p, int dim, const char *at);

/* Writes the k-th block of `dim`, which isn't the last dim: the part of the tensor at one index of
 * this dim. If `at` is NULL, writes dots for the blocks that are left out. */
static void print_inner(printer *p, const char *at, int64_t k, int dim) {
    if (k)
        print_break(p, p->t->ndim - 1 - dim, p->indent + dim);
    if (at)
        print_block(p, dim + 1, at);
    else
        print_put(p, "...", 1);
}

/* Writes the k-th entry of a dim, which is a number in the last dim and a block in others. If `at`
 * is NULL, writes dots for the entries that are left out. */
static void print_entry(printer *p, const char *at, int64_t k, int dim) {
    if (dim == p->t->ndim - 1)
        print_item(p, at, k, dim);
    else
        print_inner(p, at, k, dim);
}

/* Writes the entries of `dim` in brackets. `at` points to the first one. */
static void print_block(printer *p, int dim, const char *at) {
    const rg_tensor *t = p->t;
    const int64_t n = t->size[dim];
    const int64_t step = print_step(t, dim);
    const bool gap = print_has_gap(p, dim);
    const int64_t head = gap ? p->edge : n;
    int64_t k = 0;
    print_put(p, "[", 1);
    p->column = p->indent + dim;
    for (int64_t i = 0; i < head; i++)
        print_entry(p, at + i * step, k++, dim);
    if (gap)
        print_entry(p, NULL, k++, dim);
    for (int64_t i = gap ? n - p->edge : n; i < n; i++)
        print_entry(p, at + i * step, k++, dim);
    print_put(p, "]", 1);
}

static void print_contents(printer *p) {
    if (p->t->numel == 0) {
        print_put(p, "[]", 1);
        return;
    }
    print_look(p);
    if (p->t->ndim)
        print_block(p, 0, p->t->data);
    else
        print_word(p, p->t->data);
}

/* Writes t's shape as a Python tuple, such as (2, 3), (3,) or (), into buf, and returns buf. */
static const char *print_tuple(const rg_tensor *t, char buf[192]) {
    rgi_shape_text(t->ndim, t->size, buf);
    size_t n = strlen(buf);
    buf[0] = '(';
    strcpy(buf + n - 1, t->ndim == 1 ? ",)" : ")");
    return buf;
}
#define PRINT_TUPLE(t) print_tuple(t, (char[192]){ 0 })

/* ---- torch's layout -------------------------------------------------------------- */

/* Writes a comma, and then `key`, `value` and `end`, on the current line, or on the next one if the
 * current one would become too long. *line is the length of the current line; for the first suffix
 * it is 2 more than the length, as in torch. */
static void print_suffix(printer *p, size_t *line, const char *key, const char *value,
                         const char *end) {
    size_t n = strlen(key) + strlen(value) + strlen(end);
    bool fits = *line + n + 2 <= (size_t)print_options.linewidth;
    rgi_text_add(&p->text, "%s%s%s%s", fits ? ", " : ",\n       ", key, value, end);
    *line = fits ? *line + n + 2 : 7 + n;
}

/* Writes what follows the numbers, if torch would show it: size, dtype, and grad_fn or
 * requires_grad. */
static void print_suffixes(printer *p, rg_tensor *t) {
    const rg_text *text = &p->text;
    size_t begin = text->failed ? 0 : text->n; /* The offset of the text's last line. */
    while (begin > 0 && text->v[begin - 1] != '\n')
        begin--;
    size_t line = text->n - begin + 2;
    if (t->numel == 0 ? t->ndim != 1 : p->edge == 0)
        print_suffix(p, &line, "size=", PRINT_TUPLE(t), "");
    const rg_kind kind = t->numel == 0 ? RG_FLOATING : rgi_kind(t->dtype);
    if (t->dtype != rgi_usual_dtype(kind))
        print_suffix(p, &line, "dtype=", rg_dtype_name(t->dtype), "");
    const rg_history *history = rgi_history_of(t);
    const char *grad_fn = history ? history->cls->name(t) : NULL;
    /* cls->name has renewed the history of a stale view. If the view is still stale and has no
     * name, memory ran out. */
    if (history && !grad_fn && rgi_is_stale(t))
        p->text.failed = true;
    if (grad_fn)
        print_suffix(p, &line, "grad_fn=<", grad_fn, ">");
    else if (history && rgi_is_float(t->dtype))
        print_suffix(p, &line, "requires_grad=True", "", "");
}

static const char *print_torch(rg_tensor *t) {
    if (t == RG_NONE) /* For example, the gradient of a leaf that no backward run has reached. */
        return "None";
    if (!rgi_check(t, "repr"))
        return NULL;
    const rg_printoptions o = print_options;
    printer p = { .t = t,
                  .cut = t->numel > o.threshold,
                  .edge = (int)o.edgeitems,
                  .linewidth = (int)o.linewidth,
                  .precision = (int)o.precision,
                  .indent = 8 };
    if (t->flags & RG_IS_PARAMETER)
        print_put(&p, "Parameter containing:\n", 1);
    print_put(&p, "tensor(", 1);
    print_contents(&p);
    print_suffixes(&p, t);
    print_put(&p, ")", 1);
    return rgi_text_own(&p.text);
}

const char *rg_repr(rg_tensor *t) {
    return rgi_told(rgi_may_do_once("repr") ? print_torch(t) : NULL);
}

/* Unlike rg_repr, this function may be called while a training step is recorded for replays,
 * because the program doesn't get the string. */
void rg_print(rg_tensor *t) {
    RG_SCOPE();
    RG_AS("print");
    const char *s = print_torch(t);
    if (!s) {
        rgi_tell_unread();
        return;
    }
    /* The flush shows at once whether writing fails. If the buffer were written later, nobody would
     * notice a failure. */
    if (puts(s) < 0 || fflush(stdout) != 0) {
        const int number = errno;
        RG_C_NUMBERS(); /* Makes strerror return the message of the C locale, not of the
                         * program's. */
        rgi_fail(RG_IO_ERROR, "print", "[Errno %d] %s", number, strerror(number));
    }
}

const char *rg_repr_shape(rg_tensor *t) {
    if (!rgi_check(t, "repr_shape"))
        return rgi_told(NULL);
    rg_text text = { 0 };
    rgi_text_add(&text, "torch.Size(%s)", RG_SHAPE_TEXT(t));
    return rgi_text_own(&text);
}

/* ---- NumPy's and TensorFlow's layout ---------------------------------------------- */

/* Returns what str() returns in NumPy 2.4 for an array like t. A 0-d floating array is written as a
 * number, with as many digits as identify it in `dtype` (rg_str passes float64); otherwise `dtype`
 * isn't read. */
static const char *print_numpy(const rg_tensor *t, rg_dtype dtype) {
    printer p = {
        .t = t, .numpy = true, .cut = t->numel > 1000, .edge = 3, .linewidth = 75, .indent = 1
    };
    if (t->ndim || !rgi_is_float(t->dtype)) {
        print_contents(&p);
    } else {
        rgi_print_alone(p.word, rgi_load_f64(t->data, t->dtype), dtype);
        print_put(&p, p.word, 1);
    }
    return rgi_text_own(&p.text);
}

const char *rg_repr_numpy(rg_tensor *t) {
    const bool ok = rgi_may_do_once("repr_numpy") && rgi_check(t, "repr_numpy");
    return rgi_told(ok ? print_numpy(t, t->dtype) : NULL);
}

const char *rg_str(rg_tensor *t) {
    if (!rgi_may_do_once("str") || (t != RG_NONE && !rgi_check(t, "str")))
        return rgi_told(NULL);
    /* A 0-d tensor is written as a Python number, and Python's floats are doubles. */
    return t == RG_NONE || t->ndim ? print_torch(t) : print_numpy(t, RG_FLOAT64);
}

const char *rg_repr_tf(rg_tensor *t) {
    if (!rgi_may_do_once("repr_tf") || !rgi_check(t, "repr_tf"))
        return rgi_told(NULL);
    const char *array = print_numpy(t, t->dtype);
    rg_text text = { .failed = !array };
    if (array)
        rgi_text_add(&text, "tf.Tensor(%s%s, shape=%s, dtype=%s)", strchr(array, '\n') ? "\n" : "",
                     array, PRINT_TUPLE(t), strchr(rg_dtype_name(t->dtype), '.') + 1);
    return rgi_text_own(&text);
}
