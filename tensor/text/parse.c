/*
 * parse.c: makes tensors from strings. One parser accepts the literals of Python and C, and what
 * torch, NumPy and TensorFlow print:
 *
 *     text    = value | name "(" value { "," key "=" setting } ")"
 *     value   = number | "[" [ value { separator value } [","] ] "]"
 *
 * Braces are accepted in the place of brackets. The separators of a list are either all commas, or
 * all white space without a comma, as NumPy prints them. requires_grad and grad_fn are ignored, so
 * the result has no history. print.c writes tensors as such strings. This file is long because the
 * parts of the parser share one state.
 */
#include "ascii.h"
#include "c_locale.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/structs.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* An element, as a float and as an integer, because its dtype is known only at the end of the
 * string. `is_float` says whether it is written as a float. */
typedef struct parsed {
    double f;
    int64_t i;
    bool is_float;
} parsed;

typedef struct parser {
    /* The part of the string that hasn't been read yet. */
    const char *at;
    /* The shape. shape.n and each size are -1 until they are known. The first number, or the first
     * empty list, determines the number of dims shape.n. */
    rg_dims shape;
    /* The n elements that have been read, in memory for `room` elements. */
    parsed *items;
    size_t n, room;
    /* The highest dtype among the elements that were read: bool, int64 or float64. An empty list
     * counts as float64. */
    rg_dtype kind;
    /* The dtype that dtype= names and the shape that size= or shape= names. `dtype` is -1 if the
     * string names no dtype, and named.n is -1 if it names no shape. */
    int dtype;
    rg_dims named;
    /* The dtype of floats if the string names none: the default dtype or, for an array of NumPy,
     * float64, which NumPy doesn't print. */
    rg_dtype floating;
    /* Places in the string: the first integer and the first float that don't fit into an int64, and
     * the first integer that is too large for a double. Each is NULL if there is none. */
    const char *wide_int, *wide_float, *huge;
    /* The first list that is in the place of a number, or NULL. */
    const char *stray;
    /* The leftmost fault in the string; torch reports this fault as well. `code` is RG_OK if there
     * is none. */
    const char *fault_at;
    rg_code code;
    char message[192];
} parser;

/* Records a fault at the place `at`, unless a fault at the same place or further left was recorded
 * already. The place NULL counts as further left than any other. Returns false. */
__attribute__((format(printf, 4, 5))) static bool parse_fault(parser *s, const char *at,
                                                              rg_code code, const char *format,
                                                              ...) {
    if (s->code != RG_OK && s->fault_at <= at)
        return false;
    s->fault_at = at;
    s->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(s->message, sizeof s->message, format, args);
    va_end(args);
    return false;
}

/* Records that the string isn't a tensor at all. The place of this fault is NULL, so that the fault
 * is reported rather than a fault in the shape. Returns false. */
static bool parse_garbage(parser *s, const char *expected) {
    if (strncmp(s->at, "...", 3) == 0)
        return parse_fault(s, NULL, RG_VALUE_ERROR,
                           "the text is summarised: '...' stands for elements it leaves out");
    if (*s->at == 0)
        return parse_fault(s, NULL, RG_VALUE_ERROR, "expected %s but the text ends", expected);
    const bool names = rgi_is_letter(*s->at) && strcmp(expected, "a number") == 0;
    const int shown = (int)RG_MIN(strcspn(s->at, "\n"), 24);
    return parse_fault(s, NULL, RG_VALUE_ERROR, "expected %s but got '%.*s'%s", expected, shown,
                       s->at, names ? "; rg_from makes a tensor of variables' values" : "");
}

/* Skips white space. Returns whether there was any. */
static bool parse_space(parser *s) {
    const char *from = s->at;
    while (rgi_is_space(*s->at))
        s->at++;
    return s->at > from;
}

/* If `word` follows, skips it and returns true; otherwise returns false. */
static bool parse_take(parser *s, const char *word) {
    size_t n = strlen(word);
    if (strncmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* ---- reading numbers ------------------------------------------------------------ */

/* A number without its sign. f is its value as a double. For an integer or a bool, u is its exact
 * value, or UINT64_MAX if that is too large for a uint64. */
typedef struct number {
    double f;
    uint64_t u;
    rg_dtype kind;
} number;

/* If `text` begins with `name`, in small or capital letters, returns a pointer to the first
 * character after the name. Otherwise returns NULL. */
static const char *parse_same_letters(const char *text, const char *name) {
    for (; *name; name++, text++)
        if ((*text | 32) != *name)
            return NULL;
    return text;
}

/* Reads a number that has a name, such as true, False, nan, math.inf or INFINITY. If there is no
 * such name, records a fault that quotes the string at `from`, and returns false. */
static bool parse_named(parser *s, const char *from, number *v) {
    static const struct {
        const char *name;
        number value;
    } names[] = {
        { "true", { .kind = RG_BOOL, .f = 1, .u = 1 } },
        { "false", { .kind = RG_BOOL } },
        { "nan", { .kind = RG_FLOAT64, .f = NAN } },
        { "infinity", { .kind = RG_FLOAT64, .f = INFINITY } },
        { "inf", { .kind = RG_FLOAT64, .f = INFINITY } },
    };
    if (!parse_take(s, "math.") && !parse_take(s, "torch."))
        parse_take(s, "np.");
    for (int i = 0; i < RG_COUNT(names); i++) {
        const char *end = parse_same_letters(s->at, names[i].name);
        if (end) {
            s->at = end;
            *v = names[i].value;
            return true;
        }
    }
    s->at = from;
    return parse_garbage(s, "a number");
}

/* Skips the suffix that a number may have in C: up to `most` of these letters. */
static void parse_suffix(parser *s, const char *letters, int most) {
    for (int i = 0; i < most && *s->at && strchr(letters, *s->at); i++)
        s->at++;
}

/* Reads a number such as 12, 0x1F, 3LL, .5, 1., 2e-3f or 0x1.8p3. If it is a whole number with
 * leading zeros, records a fault and returns false. */
static bool parse_digits(parser *s, number *v) {
    const char *from = s->at;
    const bool hex = from[0] == '0' && (from[1] | 32) == 'x';
    char *end;
    RG_C_NUMBERS();
    *v = (number){ .f = strtod(from, &end), .kind = RG_INT64 };
    for (const char *c = from; c < end; c++)
        if (*c == '.' || (*c | 32) == (hex ? 'p' : 'e'))
            v->kind = RG_FLOAT64;
    s->at = end;
    if (rgi_is_float(v->kind)) {
        parse_suffix(s, "fFlL", 1);
        return true;
    }
    const size_t digits = (size_t)(end - from);
    if (from[0] == '0' && !hex && strspn(from, "0") < digits) {
        s->at = from;
        return parse_garbage(s, "a number without leading zeros (C would read it as octal)");
    }
    v->u = strtoull(from, NULL, hex ? 16 : 10);
    parse_suffix(s, "uUlL", 3);
    return true;
}

/* Skips all signs. Returns whether there was an odd number of minus signs. */
static bool parse_signs(parser *s) {
    bool negative = false;
    for (; *s->at == '-' || *s->at == '+'; s->at++)
        negative ^= *s->at == '-';
    return negative;
}

/* Reads a number with its sign. Also accepts Python's float('-inf'). If there is no valid number,
 * records a fault and returns false. */
static bool parse_signed(parser *s, number *v, bool *negative) {
    const char *from = s->at;
    *negative = parse_signs(s);
    const bool has_sign = s->at > from;
    const bool cast = parse_take(s, "float(");
    const bool quoted = cast && (parse_take(s, "'") || parse_take(s, "\""));
    *negative ^= parse_signs(s);
    const char first = *s->at == '.' ? s->at[1] : *s->at;
    const bool has_digits = rgi_is_digit(first);
    if (!(has_digits ? parse_digits(s, v) : parse_named(s, from, v)))
        return false;
    if (quoted && !parse_take(s, "'") && !parse_take(s, "\""))
        return parse_garbage(s, "a quote");
    if (cast && !parse_take(s, ")"))
        return parse_garbage(s, "')'");
    /* White space, a comma, a closing bracket or the end of the string must follow the number.
     * (strchr also finds the string's terminating 0.) */
    if (!rgi_is_space(*s->at) && !strchr(",]})", *s->at)) {
        s->at = from;
        return parse_garbage(s, "a number");
    }
    if (cast)
        v->kind = RG_FLOAT64;
    else if (has_sign && rgi_is_bool(v->kind))
        v->kind = RG_INT64;
    return true;
}

/* Returns the number as an element. Records the places of the first integer and the first float
 * that int64 can't hold, and of the first integer that is too large for a double. */
static parsed parse_item(parser *s, const char *from, const number *v, bool negative) {
    parsed item = { .f = negative ? -v->f : v->f, .is_float = rgi_is_float(v->kind) };
    if (item.is_float) {
        if (item.f >= -0x1p63 && item.f < 0x1p63)
            item.i = (int64_t)item.f;
        else if (!s->wide_float)
            s->wide_float = from;
        return item;
    }
    item.i = (int64_t)(negative ? -v->u : v->u);
    if (!s->wide_int && v->u > (uint64_t)INT64_MAX + negative)
        s->wide_int = from;
    if (!s->huge && isinf(v->f))
        s->huge = from;
    return item;
}

static bool parse_number(parser *s, int depth) {
    const char *from = s->at;
    number v = { 0 };
    bool negative;
    if (!parse_signed(s, &v, &negative))
        return false;
    const parsed item = parse_item(s, from, &v, negative);
    s->kind = (rg_dtype)rg_promote_types(s->kind, v.kind);
    if (s->shape.n < 0)
        s->shape.n = depth;
    else if (depth < s->shape.n)
        parse_fault(s, from, RG_TYPE_ERROR, "not a sequence");
    if (!rgi_grow((void **)&s->items, &s->room, s->n + 1, sizeof *s->items)) {
        /* rgi_grow has failed with an error of its own, so no fault is reported. */
        s->code = RG_OK;
        return false;
    }
    s->items[s->n++] = item;
    return true;
}

/* ---- reading lists ---------------------------------------------------------------- */

/* Skips the separator between two values. In one list all separators must be the same: *separator
 * is the first one, or 0 if there was none yet. If the separator is missing or isn't the same,
 * records a fault and returns false. */
static bool parse_separator(parser *s, char close, bool space, char *separator) {
    char found = space ? ' ' : 0;
    if (*s->at == ',')
        found = ',';
    if (!found || (*separator && found != *separator))
        return parse_garbage(s, close == ']' ? "',' or ']'" : "',' or '}'");
    *separator = found;
    if (found == ',') {
        s->at++;
        parse_space(s);
    }
    return true;
}

static bool parse_value(parser *s, int depth);

/* Reads the values of a list and its closing bracket. Returns the number of values, or -1 on
 * failure. */
static int64_t parse_values(parser *s, char close, int depth) {
    char separator = 0;
    for (int64_t n = 0;; n++) {
        bool space = parse_space(s);
        if (n && *s->at != close && !parse_separator(s, close, space, &separator))
            return -1;
        if (*s->at == close) {
            s->at++;
            return n;
        }
        if (!parse_value(s, depth + 1))
            return -1;
    }
}

/* Records that a list in dim `depth` has n items. If an earlier list of this dim has another number
 * of items, records a fault. */
static void parse_length(parser *s, const char *open, int depth, int64_t n) {
    if (s->shape.n < 0)
        s->shape.n = depth + 1;
    if (s->shape.v[depth] < 0)
        s->shape.v[depth] = n;
    else if (s->shape.v[depth] != n)
        parse_fault(s, open, RG_VALUE_ERROR,
                    "expected sequence of length %lld at dim %d (got %lld)",
                    (long long)s->shape.v[depth], depth, (long long)n);
}

static bool parse_list(parser *s, char close, int depth) {
    const char *open = s->at;
    if (depth == RG_MAX_DIMS)
        return parse_fault(s, NULL, RG_VALUE_ERROR, "too many dimensions: a tensor has at most %d",
                           RG_MAX_DIMS);
    const bool stray = s->shape.n >= 0 && depth >= s->shape.n;
    if (stray && !s->stray)
        s->stray = open;
    s->at++;
    int64_t n = parse_values(s, close, depth);
    if (n < 0)
        return false;
    if (n == 0)
        s->kind = RG_FLOAT64;
    if (!stray)
        parse_length(s, open, depth, n);
    return true;
}

static bool parse_value(parser *s, int depth) {
    if (*s->at == '[')
        return parse_list(s, ']', depth);
    if (*s->at == '{')
        return parse_list(s, '}', depth);
    return parse_number(s, depth);
}

/* ---- the string around the value ------------------------------------------------------------- */

static bool parse_dtype_name(parser *s) {
    if (!parse_take(s, "torch.") && !parse_take(s, "tf."))
        parse_take(s, "np.");
    for (s->dtype = 0; s->dtype < RG_DTYPE_COUNT; s->dtype++)
        if (parse_take(s, rg_dtype_name((rg_dtype)s->dtype) + strlen("torch.")))
            return true;
    return parse_garbage(s, "the dtype float32, float64, int64 or bool");
}

/* Reads a shape, such as (2, 3). If it isn't valid, records a fault and returns false. */
static bool parse_shape(parser *s) {
    s->named.n = 0;
    if (!parse_take(s, "("))
        return parse_garbage(s, "a shape");
    for (;;) {
        parse_space(s);
        if (parse_take(s, ")"))
            return true;
        if (s->named.n == RG_MAX_DIMS || !rgi_is_digit(*s->at))
            return parse_garbage(s, "a shape");
        char *end;
        errno = 0;
        s->named.v[s->named.n++] = strtoll(s->at, &end, 10);
        if (errno == ERANGE)
            return parse_garbage(s, "a size that int64 can hold");
        s->at = end;
        parse_space(s);
        if (!parse_take(s, ",") && *s->at != ')')
            return parse_garbage(s, "',' or ')'");
    }
}

static bool parse_setting(parser *s) {
    if (parse_take(s, "dtype="))
        return parse_dtype_name(s);
    if (parse_take(s, "size=") || parse_take(s, "shape="))
        return parse_shape(s);
    if (parse_take(s, "requires_grad=True") || parse_take(s, "requires_grad=False"))
        return true;
    const char *end = parse_take(s, "grad_fn=<") ? strchr(s->at, '>') : NULL;
    if (!end)
        return parse_garbage(s, "dtype=, size=, shape=, requires_grad= or grad_fn=<..>");
    s->at = end + 1;
    return true;
}

static bool parse_text(parser *s) {
    static const char *const names[] = { "torch.tensor(", "tensor(", "tf.Tensor(", "np.array(",
                                         "array(" };
    bool named = false;
    parse_space(s);
    if (parse_take(s, "Parameter containing:"))
        parse_space(s);
    for (int i = 0; i < RG_COUNT(names) && !named; i++) {
        named = parse_take(s, names[i]);
        if (named && strstr(names[i], "array("))
            s->floating = RG_FLOAT64;
    }
    parse_space(s);
    if (!parse_value(s, 0))
        return false;
    for (parse_space(s); named && !parse_take(s, ")"); parse_space(s)) {
        if (!parse_take(s, ","))
            return parse_garbage(s, "',' or ')'");
        parse_space(s);
        if (!parse_setting(s))
            return false;
    }
    parse_space(s);
    return !*s->at || parse_garbage(s, "the end of the text");
}

/* ---- making the tensor ----------------------------------------------------------- */

/* If the string names a shape, makes it the tensor's shape. If that shape doesn't have as many
 * elements as were read, records a fault and returns false. */
static bool parse_sizes(parser *s) {
    if (s->named.n < 0)
        return true;
    int64_t n = 1;
    bool fits = true;
    for (int i = 0; i < s->named.n; i++)
        fits = fits && !__builtin_mul_overflow(n, s->named.v[i], &n);
    s->shape = s->named;
    return (fits && n == (int64_t)s->n)
           || parse_fault(s, NULL, RG_VALUE_ERROR,
                          "shape '%s' is invalid for input of "
                          "size %zu",
                          RG_DIMS_TEXT(&s->named), s->n);
}

/* Records the faults that depend on the dtype, such as an integer that is too large for it. Returns
 * whether there is no fault at all. */
static bool parse_fits(parser *s, rg_dtype dtype) {
    bool whole = !rgi_is_float(dtype);
    bool is_int = rgi_is_integer(dtype);
    if (is_int && s->wide_int)
        parse_fault(s, s->wide_int, RG_VALUE_ERROR, "Overflow when unpacking long long");
    if (is_int && s->wide_float)
        parse_fault(s, s->wide_float, RG_RUNTIME_ERROR,
                    "value cannot be converted to type int64 without overflow");
    if (!whole && s->huge)
        parse_fault(s, s->huge, RG_VALUE_ERROR, "int too large to convert to float");
    if (s->stray)
        parse_fault(s, s->stray, RG_TYPE_ERROR,
                    whole ? "'list' object cannot be interpreted as an integer"
                          : "must be real number, not list");
    return s->code == RG_OK;
}

/* Returns the dtype that the string names. If it names none, returns the dtype of floats if an
 * element is floating or a list is empty, and otherwise int64 or bool. */
static rg_dtype parse_dtype_found(const parser *s) {
    if (s->dtype >= 0)
        return (rg_dtype)s->dtype;
    return rgi_is_float(s->kind) ? s->floating : s->kind;
}

/* Fails and returns false if an element doesn't fit into bytes. */
static bool parse_fits_bytes(const parser *s) {
    bool fits = true;
    for (size_t i = 0; i < s->n && fits; i++) {
        const parsed *item = &s->items[i];
        fits = item->is_float ? rgi_number_fits(NULL, item->f, RG_UINT8)
                              : rgi_whole_fits(NULL, item->i, RG_UINT8);
    }
    return fits;
}

/* Returns a tensor of the elements that were read. Returns NULL if there was a fault, or if memory
 * runs out. */
static rg_tensor *parse_made(parser *s, rg_dtype dtype) {
    if (!parse_fits(s, dtype) || !parse_sizes(s) || (rgi_is_byte(dtype) && !parse_fits_bytes(s)))
        return NULL;
    rg_tensor *t = rgi_new(dtype, s->shape.n, s->shape.v);
    for (size_t i = 0; t && i < s->n; i++) {
        char *to = t->data + i * rgi_sizeof(dtype);
        if (rgi_is_integer(dtype))
            rgi_store_i64(to, dtype, s->items[i].i);
        else
            rgi_store_f64(to, dtype, s->items[i].f);
    }
    return t;
}

/* Parses the string into a tensor of this dtype, or if `dtype` is -1, of the dtype that
 * parse_dtype_found returns. Returns NULL on failure. */
static rg_tensor *parse_tensor(const char *text, int dtype) {
    RG_AS("parse");
    if (!rgi_given(text, "parse", "a text"))
        return NULL;
    parser s = { .at = text,
                 .shape = { -1, { -1, -1, -1, -1, -1, -1, -1, -1 } },
                 .dtype = -1,
                 .named.n = -1,
                 .floating = rg_default_dtype() };
    rg_tensor *t = NULL;
    if (parse_text(&s))
        t = parse_made(&s, dtype < 0 ? parse_dtype_found(&s) : (rg_dtype)dtype);
    rgi_free(s.items, s.room * sizeof *s.items, RG_MEM_OTHER);
    RG_FAIL_AS_IF(s.code, s.code != RG_OK, "parse", "%s", s.message);
    return rgi_own(t);
}

rg_tensor *rg_parse(const char *text) { return parse_tensor(text, -1); }

rg_tensor *(rg_parse_dtype)(const char *text, rg_dtype dtype) {
    return rgi_check_dtype("parse", (int)dtype) ? parse_tensor(text, (int)dtype) : NULL;
}
