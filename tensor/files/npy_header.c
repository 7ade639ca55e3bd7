/*
 * npy_header.c: parses and writes the header of .npy, which is a Python literal. Only what NumPy
 * writes is accepted: a dict with three keys. The literal is compared with what is expected, and
 * never evaluated.
 */
#include "npy.h"

#include "tensor/shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool rgi_npy_refuse(const rg_npy_source *s, const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    const char *what = s->what ? s->what : "";
    return rgi_file_refuse(s->file, "%s%s%s", what, s->what ? ": " : "", sentence);
}

/* ---- reading tokens ------------------------------------------------------------------- */

typedef struct {
    const rg_npy_source *s;
    const char *text, *at, *end;
    rg_npy_header *h;
} npy_parser;

static bool npy_complain(const npy_parser *p, const char *what) {
    return rgi_npy_refuse(p->s, "its header is no dict as NumPy writes it: at byte %lld %s",
                          (long long)(p->at - p->text), what);
}

/* Skips white space. If `word` follows, skips it as well and returns true; otherwise returns
 * false. */
static bool npy_next(npy_parser *p, const char *word) {
    const size_t n = strlen(word);
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n))
        return false;
    p->at += n;
    return true;
}

/* Reads a string in single or double quotes. Returns a pointer to its first character, and sets *n
 * to its length. Returns NULL if no string follows, or if the string contains a backslash or a
 * control character. */
static const char *npy_quoted(npy_parser *p, size_t *n) {
    const char quote = npy_next(p, "'") ? '\'' : '"';
    if (quote == '"' && !npy_next(p, "\""))
        return NULL;
    const char *text = p->at;
    while (p->at < p->end && *p->at != quote && *p->at != '\\' && (unsigned char)*p->at >= ' ')
        p->at++;
    *n = (size_t)(p->at - text);
    if (p->at == p->end || *p->at != quote)
        return NULL;
    p->at++;
    return text;
}

/* ---- reading values ------------------------------------------------------------------- */

/* Reads an element type. '<f4' is little-endian, and '>f4' is big-endian. '=f4' and '|b1' are in
 * the machine's byte order. Returns false on failure. */
static bool npy_descr(npy_parser *p) {
    if (npy_next(p, "["))
        return rgi_npy_refuse(p->s, "its elements are records of several fields, which no tensor "
                                    "has");
    size_t n;
    const char *text = npy_quoted(p, &n);
    if (!text)
        return npy_complain(p, "a type is expected");
    for (int i = 0; i < RG_FOREIGN_COUNT; i++) {
        const char *name = rgi_foreign[i].numpy;
        if (!name || n != strlen(name) + 1 || memcmp(text + 1, name, n - 1)
            || !memchr("<>=|", *text, 4))
            continue;
        p->h->type = (rg_foreign)i;
        p->h->swapped = *text == (rgi_little_endian() ? '>' : '<');
        return true;
    }
    return rgi_npy_refuse(p->s, "its elements are of NumPy's type '%s', which no tensor takes",
                          RG_SHOWN_BYTES(text, n));
}

static bool npy_order(npy_parser *p) {
    p->h->fortran = npy_next(p, "True");
    return p->h->fortran || npy_next(p, "False") || npy_complain(p, "True or False is expected");
}

/* Reads a size, from its first digit on. An L may follow the digits, as Python 2 wrote it. Returns
 * false on failure. */
static bool npy_size(npy_parser *p, int64_t *v) {
    const char *begin = p->at;
    *v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *p->at - '0', v))
            return npy_complain(p, "a size is larger than int64 can hold");
    if (p->at == begin || (*begin == '0' && p->at > begin + 1))
        return npy_complain(p, "a size is expected");
    if (p->at < p->end && *p->at == 'L')
        p->at++;
    return true;
}

/* Reads a tuple of sizes: (), (3,) or (2, 3). A comma must follow a single size, because Python
 * reads (3) as a number. Returns false on failure. */
static bool npy_shape(npy_parser *p) {
    rg_dims *shape = &p->h->shape;
    if (!npy_next(p, "("))
        return npy_complain(p, "a tuple is expected");
    bool comma = true;
    while (!npy_next(p, ")")) {
        int64_t size;
        if (!comma)
            return npy_complain(p, "a comma or ) is expected");
        if (!npy_size(p, &size))
            return false;
        if (shape->n == RG_MAX_DIMS)
            return rgi_npy_refuse(p->s, "it has more than %d dims", RG_MAX_DIMS);
        shape->v[shape->n++] = size;
        comma = npy_next(p, ",");
    }
    return shape->n != 1 || comma || npy_complain(p, "a comma is expected in a tuple of one size");
}

/* ---- reading the dict ----------------------------------------------------------------- */

static const char *const npy_keys[] = { "descr", "fortran_order", "shape" };

/* Reads a key and its value, and sets the key's bit in *seen. Returns false on failure. */
static bool npy_entry(npy_parser *p, unsigned *seen) {
    static bool (*const values[])(npy_parser *) = { npy_descr, npy_order, npy_shape };
    size_t n;
    const char *key = npy_quoted(p, &n);
    if (!key)
        return npy_complain(p, "a key is expected");
    for (int k = 0; k < RG_COUNT(npy_keys); k++) {
        if (n != strlen(npy_keys[k]) || memcmp(key, npy_keys[k], n))
            continue;
        if (*seen & 1u << k)
            return rgi_npy_refuse(p->s, "its header has '%s' twice", npy_keys[k]);
        *seen |= 1u << k;
        return (npy_next(p, ":") || npy_complain(p, "a colon is expected")) && values[k](p);
    }
    return rgi_npy_refuse(p->s, "its header has a key '%s', which .npy doesn't know",
                          RG_SHOWN_BYTES(key, n));
}

/* Sets h->numel to the number of elements. Fails and returns false if this number is too large. If
 * a size is 0, also fails if the product of the other sizes is too large. */
static bool npy_count(npy_parser *p) {
    rg_npy_header *h = p->h;
    bool empty = false;
    h->numel = 1;
    for (int d = 0; d < h->shape.n; d++) {
        const int64_t size = h->shape.v[d];
        empty |= size == 0;
        if (size && (__builtin_mul_overflow(h->numel, size, &h->numel) || h->numel > RG_NUMEL_MAX))
            return rgi_npy_refuse(p->s, "its shape %s has too many elements",
                                  RG_DIMS_TEXT(&h->shape));
    }
    if (empty)
        h->numel = 0;
    return true;
}

bool rgi_npy_parse(const rg_npy_source *s, const char *text, size_t n, rg_npy_header *h) {
    npy_parser p = { s, text, text, text + n, h };
    unsigned seen = 0;
    *h = (rg_npy_header){ 0 };
    if (!npy_next(&p, "{"))
        return npy_complain(&p, "a dict is expected");
    bool comma = true;
    while (!npy_next(&p, "}")) {
        if (!comma)
            return npy_complain(&p, "a comma or } is expected");
        if (!npy_entry(&p, &seen))
            return false;
        comma = npy_next(&p, ",");
    }
    for (int k = 0; k < RG_COUNT(npy_keys); k++)
        if (!(seen & 1u << k))
            return rgi_npy_refuse(s, "its header lacks '%s'", npy_keys[k]);
    npy_next(&p, "");
    if (p.at < p.end)
        return npy_complain(&p, "there is more behind the dict");
    return npy_count(&p);
}

/* ---- writing a header ----------------------------------------------------------------- */

bool rgi_npy_is_fortran(const rg_tensor *t) {
    if (t->flags & RG_CONTIGUOUS)
        return false;
    int64_t stride = 1;
    for (int d = 0; d < t->ndim; stride *= t->size[d++])
        if (t->size[d] != 1 && t->stride[d] != stride)
            return false;
    return true;
}

/* Appends the dict that describes t. A program may append elements to the file later, and then the
 * first size grows (in Fortran's order, the last size). Therefore blanks follow the dict, as in
 * NumPy: there is room for a size of up to 21 digits. If t is 0-d, no blanks are appended. */
static void npy_add_dict(rg_text *text, const rg_tensor *t) {
    const rg_foreign_row *row = &rgi_foreign[rgi_foreign_of((rg_dtype)t->dtype)];
    const bool fortran = rgi_npy_is_fortran(t);
    const char order = rgi_little_endian() ? '<' : '>';
    rgi_text_add(text, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (",
                 row->bytes == 1 ? '|' : order, row->numpy, fortran ? "True" : "False");
    for (int d = 0; d < t->ndim; d++)
        rgi_text_add(text, d ? ", %lld" : "%lld", (long long)t->size[d]);
    rgi_text_add(text, t->ndim == 1 ? ",), }" : "), }");
    char digits[32];
    if (t->ndim == 0)
        return;
    const int64_t grows = t->size[fortran ? t->ndim - 1 : 0];
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)grows);
    rgi_text_add(text, "%*s", 21 - n, "");
}

bool rgi_npy_takes(const char *op, const rg_tensor *t) {
    const rg_dtype dtype = (rg_dtype)t->dtype;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_foreign[rgi_foreign_of(dtype)].numpy, op,
                  "NumPy has no %s: rg_to converts the tensor, to float32 for example",
                  strchr(rg_dtype_name(dtype), '.') + 1);
    return true;
}

bool rgi_npy_make_header(rg_text *text, const rg_tensor *t) {
    enum { BEFORE = 10, ALIGNMENT = 64 };
    /* Leaves room for the bytes before the dict, which are filled in at the end. */
    rgi_text_add(text, "%*s", BEFORE, "");
    npy_add_dict(text, t);
    rgi_text_add(text, "%*s\n", (int)(ALIGNMENT - (text->n + 1) % ALIGNMENT), "");
    if (text->failed)
        return false;
    const size_t n = text->n - BEFORE;
    memcpy(text->v, "\x93NUMPY\1\0", 8);
    text->v[8] = (char)(n & 0xFF);
    text->v[9] = (char)(n >> 8);
    return true;
}
