/*
 * parse.c: tensors from text. One reader for literals as Python and C write
 * them, for what torch prints and for what NumPy and TensorFlow print:
 *
 *     text    = value | name "(" value { "," key "=" setting } ")"
 *     value   = number | "[" [ value { separator value } [","] ] "]"      braces will do, too
 *
 * The separator is a comma, or throughout a list just space, as NumPy has it.
 * requires_grad and grad_fn are read over: the result is a tensor without a past.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct parsed {
    double f;
    int64_t i;
} parsed; /* one element, as either */

typedef struct parser {
    const char *at;
    /* each -1 until it is known: n by the first number or empty list */
    rg_dims shape;
    parsed *items;
    size_t n, room;
    /* the highest dtype seen: bool, int64 or float64 (as is []) */
    int kind;
    int dtype;     /* what the text names, or -1 */
    rg_dims named; /* the shape that the text names; n < 0: none */
    /* the first item that fits no int64, or no double */
    const char *wide_int, *wide_float, *huge;
    const char *stray;    /* the first list where a number should be */
    const char *fault_at; /* torch names the leftmost fault */
    rg_code code;
    char message[192];
} parser;

/* Notes a fault unless one further left is noted. */
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

/* What isn't a text at all comes before any fault in shape. */
static bool parse_garbage(parser *s, const char *expected) {
    if (strncmp(s->at, "...", 3) == 0)
        return parse_fault(s, NULL, RG_VALUE_ERROR,
                           "the text is summarised: '...' stands for elements it leaves out");
    if (*s->at == 0)
        return parse_fault(s, NULL, RG_VALUE_ERROR, "expected %s but the text ends", expected);
    int shown = 0;
    while (shown < 24 && s->at[shown] && s->at[shown] != '\n')
        shown++;
    return parse_fault(s, NULL, RG_VALUE_ERROR, "expected %s but got '%.*s'", expected, shown,
                       s->at);
}

static bool parse_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool parse_space(parser *s) {
    const char *from = s->at;
    while (parse_is_space(*s->at))
        s->at++;
    return s->at > from;
}

static bool parse_take(parser *s, const char *word) {
    size_t n = strlen(word);
    if (strncmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* ---- numbers -------------------------------------------------------------------- */

typedef struct number {
    double f;
    uint64_t u;
    int kind;
    bool wide;
} number;

/* true, False, nan, math.inf, INFINITY; what is none of them began at `from` */
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
        const char *name = names[i].name, *c = s->at;
        /* small and capital letters */
        while (*name && (*c | 32) == *name)
            name++, c++;
        if (!*name)
            return s->at = c, *v = names[i].value, true;
    }
    return s->at = from, parse_garbage(s, "a number");
}

/* 12, 0x1F, 3LL, .5, 1., 2e-3f, 0x1.8p3 */
static bool parse_digits(parser *s, number *v) {
    const char *from = s->at;
    char *end;
    bool hex = from[0] == '0' && (from[1] | 32) == 'x';
    RG_C_NUMBERS();
    *v = (number){ .f = strtod(from, &end), .kind = RG_INT64 };
    for (const char *c = from; c < end; c++)
        if (*c == '.' || (*c | 32) == (hex ? 'p' : 'e'))
            v->kind = RG_FLOAT64;
    s->at = end;
    if (v->kind == RG_FLOAT64) {
        if (*s->at && strchr("fFlL", *s->at))
            s->at++;
        return true;
    }
    if (from[0] == '0' && end - from > 1 && !hex && strspn(from, "0") < (size_t)(end - from))
        return s->at = from,
               parse_garbage(s, "a number without leading zeros (C would read it as octal)");
    errno = 0;
    v->u = strtoull(from, NULL, hex ? 16 : 10);
    v->wide = errno == ERANGE;
    for (int i = 0; i < 3 && *s->at && strchr("uUlL", *s->at); i++)
        s->at++;
    return true;
}

static bool parse_signs(parser *s) {
    bool negative = false;
    while (*s->at == '-' || *s->at == '+')
        negative ^= *s->at++ == '-';
    return negative;
}

static bool parse_number(parser *s, int depth) {
    const char *from = s->at;
    bool negative = parse_signs(s), sign = s->at > from;
    /* as Python writes -float('inf'), float('-inf') */
    bool cast = parse_take(s, "float(");
    bool quoted = cast && (parse_take(s, "'") || parse_take(s, "\""));
    if (cast)
        negative ^= parse_signs(s);
    number v = { 0 };
    char c = *s->at == '.' ? s->at[1] : *s->at;
    if (!(c >= '0' && c <= '9' ? parse_digits(s, &v) : parse_named(s, from, &v)))
        return false;
    if (quoted && !parse_take(s, "'") && !parse_take(s, "\""))
        return parse_garbage(s, "a quote");
    if (cast && !parse_take(s, ")"))
        return parse_garbage(s, "')'");
    if (*s->at && !parse_is_space(*s->at) && !strchr(",]})", *s->at))
        return s->at = from, parse_garbage(s, "a number");
    if (cast)
        v.kind = RG_FLOAT64;
    else if (sign && v.kind == RG_BOOL)
        v.kind = RG_INT64;

    parsed item = { .f = negative ? -v.f : v.f };
    if (v.kind == RG_FLOAT64) {
        if (item.f >= -0x1p63 && item.f < 0x1p63)
            item.i = (int64_t)item.f;
        else if (!s->wide_float)
            s->wide_float = from;
    } else {
        item.i = (int64_t)(negative ? -v.u : v.u);
        if (!s->wide_int && (v.wide || v.u > (uint64_t)INT64_MAX + negative))
            s->wide_int = from;
        if (!s->huge && isinf(v.f))
            s->huge = from;
    }
    s->kind = RG_MAX(s->kind, v.kind);
    if (s->shape.n < 0)
        s->shape.n = depth;
    else if (depth < s->shape.n)
        parse_fault(s, from, RG_TYPE_ERROR, "not a sequence");
    if (!rgi_grow((void **)&s->items, &s->room, s->n + 1, sizeof *s->items))
        return s->code = RG_OK, false;
    s->items[s->n++] = item;
    return true;
}

/* ---- lists ------------------------------------------------------------------------ */

static bool parse_value(parser *s, int depth) {
    const char *open = s->at;
    char close = *open == '[' ? ']' : *open == '{' ? '}' : 0;
    if (!close)
        return parse_number(s, depth);
    if (depth == RG_MAX_DIMS)
        return parse_fault(s, NULL, RG_VALUE_ERROR, "too many dimensions: a tensor has at most %d",
                           RG_MAX_DIMS);
    bool stray = s->shape.n >= 0 && depth >= s->shape.n;
    if (stray && !s->stray)
        s->stray = open;
    s->at++;
    int64_t n = 0;
    char separator = 0;
    for (;; n++) {
        bool space = parse_space(s);
        if (n && *s->at != close) {
            char found = *s->at == ',' ? ',' : space ? ' ' : 0;
            if (!found || (separator && found != separator))
                return parse_garbage(s, close == ']' ? "',' or ']'" : "',' or '}'");
            separator = found;
            if (found == ',')
                s->at++, parse_space(s);
        }
        if (*s->at == close)
            break;
        if (!parse_value(s, depth + 1))
            return false;
    }
    s->at++;
    if (n == 0)
        s->kind = RG_FLOAT64;
    if (stray)
        return true;
    if (s->shape.n < 0)
        s->shape.n = depth + 1;
    if (s->shape.v[depth] < 0)
        s->shape.v[depth] = n;
    else if (s->shape.v[depth] != n)
        parse_fault(s, open, RG_VALUE_ERROR,
                    "expected sequence of length %lld at dim %d (got %lld)",
                    (long long)s->shape.v[depth], depth, (long long)n);
    return true;
}

/* ---- what stands around them ----------------------------------------------------- */

static bool parse_dtype_name(parser *s) {
    if (!parse_take(s, "torch.") && !parse_take(s, "tf."))
        parse_take(s, "np.");
    for (s->dtype = RG_BOOL; s->dtype <= RG_FLOAT64; s->dtype++)
        if (parse_take(s, rg_dtype_name((rg_dtype)s->dtype) + strlen("torch.")))
            return true;
    return parse_garbage(s, "the dtype float32, float64, int64 or bool");
}

/* (2, 3) */
static bool parse_shape(parser *s) {
    s->named.n = 0;
    if (!parse_take(s, "("))
        return parse_garbage(s, "a shape");
    for (;;) {
        parse_space(s);
        if (parse_take(s, ")"))
            return true;
        if (s->named.n == RG_MAX_DIMS || !isdigit((unsigned char)*s->at))
            return parse_garbage(s, "a shape");
        char *end;
        s->named.v[s->named.n++] = strtoll(s->at, &end, 10);
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
    for (int i = 0; i < RG_COUNT(names) && !named; i++)
        named = parse_take(s, names[i]);
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

/* ---- the tensor ------------------------------------------------------------------ */

/* The shape that the text names, if it names one, must hold the elements that it has. */
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

/* Faults that depend on the dtype. */
static bool parse_fits(parser *s, rg_dtype dtype) {
    bool whole = !rgi_is_float(dtype), is_int = dtype == RG_INT64;
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

static rg_tensor *parse_tensor(const char *text, int dtype) {
    if (!rgi_given(text, "parse", "a text"))
        return NULL;
    parser s = {
        .at = text, .shape = { -1, { -1, -1, -1, -1, -1, -1, -1, -1 } }, .dtype = -1, .named.n = -1
    };
    rg_tensor *t = NULL;
    if (parse_text(&s)) {
        if (dtype < 0)
            dtype = s.dtype >= 0           ? s.dtype
                    : s.kind == RG_FLOAT64 ? (int)rg_default_dtype()
                                           : s.kind;
        if (parse_fits(&s, (rg_dtype)dtype) && parse_sizes(&s))
            t = rgi_new((rg_dtype)dtype, s.shape.n, s.shape.v);
    }
    for (size_t i = 0; t && i < s.n; i++) {
        char *to = t->data + i * rgi_sizeof(t->dtype);
        if (t->dtype == RG_INT64)
            rgi_store_i64(to, t->dtype, s.items[i].i);
        else
            rgi_store_f64(to, t->dtype, s.items[i].f);
    }
    rgi_free(s.items, s.room * sizeof *s.items, RG_MEM_OTHER);
    RG_FAIL_AS_IF(s.code, s.code != RG_OK, "parse", "%s", s.message);
    return rgi_own(t);
}

rg_tensor *rg_parse(const char *text) { return parse_tensor(text, -1); }

rg_tensor *rg_parse_dtype(const char *text, rg_dtype dtype) {
    return rgi_check_dtype("parse", (int)dtype) ? parse_tensor(text, (int)dtype) : NULL;
}
