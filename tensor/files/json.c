/*
 * json.c: parses JSON, and writes strings in JSON.
 */
#include "json.h"

#include "tensor/text/c_locale.h"
#include "tensor/error.h"
#include "file.h"
#include "utf8.h"
#include "tensor/map.h"
#include "tensor/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The greatest depth of nested values. The outermost value has depth 1. */
enum { JSON_DEPTH = 128 };

/* The state of the parser. `text` is the input, `at` points to its next character, and `end` points
 * to the byte 0 behind the input. A parsed string, with its escapes replaced, is stored in the
 * input's memory, and overwrites characters that were already read. */
typedef struct {
    rg_json *j;
    const char *op, *path;
    char *text, *at, *end;
    int depth;
} json_parser;

static bool json_value(json_parser *p);

/* Fails with a message that says what is wrong at the next character. Returns false. */
static bool complain(const json_parser *p, const char *what) {
    return rgi_fail(RG_IO_ERROR, p->op, "'%s': it is no JSON: at byte %lld %s", p->path,
                    (long long)(p->at - p->text), what);
}

/* Adds a value to the list j->v, and returns the value's index. Returns -1 if memory runs out. The
 * index fits into 32 bits, because the input has fewer than 2^32 bytes, and each value takes at
 * least one byte. */
static int64_t add_value(json_parser *p, rg_json_kind kind) {
    rg_json *j = p->j;
    if (!rgi_grow((void **)&j->v, &j->room, j->n + 1, sizeof *j->v))
        return -1;
    j->v[j->n] = (rg_json_value){ .kind = kind, .end = (uint32_t)j->n + 1 };
    return (int64_t)j->n++;
}

static void skip_blanks(json_parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

/* If the next character is c, skips it and returns true; otherwise returns false. */
static bool next_is(json_parser *p, char c) {
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

/* ---- parsing strings ------------------------------------------------------------------ */

/* Reads four hexadecimal digits, as in \u12ab, and returns their value. Returns -1 if there aren't
 * four digits. */
static int32_t four_digits(json_parser *p) {
    int32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = p->at[i];
        bool digit = c >= '0' && c <= '9';
        char lower = (char)(c | 0x20);
        if (!digit && !(lower >= 'a' && lower <= 'f'))
            return -1;
        code = code * 16 + (digit ? c - '0' : lower - 'a' + 10);
    }
    p->at += 4;
    return code;
}

/* Reads the four digits after \u. If they are the first half of a surrogate pair, also reads the \u
 * and the four digits of the second half. Sets *code to the character. Returns false on failure. */
static bool json_unicode(json_parser *p, uint32_t *code) {
    int32_t high = four_digits(p);
    if (high < 0)
        return complain(p, "four hexadecimal digits are expected");
    *code = (uint32_t)high;
    if (high < 0xD800 || high > 0xDFFF)
        return true;
    int32_t low = -1;
    if (high < 0xDC00 && p->at[0] == '\\' && p->at[1] == 'u') {
        p->at += 2;
        low = four_digits(p);
    }
    if (low < 0xDC00 || low > 0xDFFF)
        return complain(p, "there is half of a surrogate pair");
    *code = 0x10000 + (((uint32_t)high & 0x3FF) << 10) + ((uint32_t)low & 0x3FF);
    return true;
}

/* json_escapes has the characters that may follow a backslash, except u. json_escaped has, in the
 * same order, the characters that they stand for. The last one, /, isn't escaped when JSON is
 * written. */
static const char json_escapes[] = "\"\\bfnrt/", json_escaped[] = "\"\\\b\f\n\r\t/";

/* Reads the rest of an escape sequence, behind its backslash, and sets *code to the character that
 * the sequence stands for. Returns false on failure. */
static bool json_escape(json_parser *p, uint32_t *code) {
    if (next_is(p, 'u'))
        return json_unicode(p, code);
    const char *which = *p->at ? strchr(json_escapes, *p->at) : NULL;
    if (!which)
        return complain(p, "there is an escape that JSON doesn't know");
    p->at++;
    *code = (unsigned char)json_escaped[which - json_escapes];
    return true;
}

/* Reads the rest of a string, behind its opening quote, up to and including its closing quote. Adds
 * the string to the list of values. Returns false on failure. */
static bool json_text(json_parser *p) {
    int64_t me = add_value(p, RG_JSON_TEXT);
    char *to = p->at, *begin = to;
    if (me < 0)
        return false;
    while (!next_is(p, '"')) {
        uint32_t code = 0;
        if (p->at == p->end)
            return complain(p, "a text doesn't end");
        if ((unsigned char)*p->at < 0x20)
            return complain(p, "there is a control character in a text");
        if (next_is(p, '\\')) {
            if (!json_escape(p, &code))
                return false;
        } else {
            size_t n = rgi_utf8_read(p->at, p->end, &code);
            if (n == 0)
                return complain(p, "there is no UTF-8");
            p->at += n;
        }
        to += rgi_utf8_write(to, code);
    }
    *to = 0;
    p->j->v[me].v = begin;
    p->j->v[me].n = (uint32_t)(to - begin);
    return true;
}

/* ---- numbers, true, false and null ------------------------------------------------------ */

static bool digits(json_parser *p) {
    const char *begin = p->at;
    while (*p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at > begin;
}

/* Reads a number, and adds it to the list of values. The value has a pointer to the number's
 * characters in the input, and their count, since no byte 0 follows them. Returns false on
 * failure. */
static bool json_digits(json_parser *p) {
    int64_t me = add_value(p, RG_JSON_NUMBER);
    const char *begin = p->at;
    if (me < 0)
        return false;
    next_is(p, '-');
    if (!next_is(p, '0') && !digits(p))
        return complain(p, "a value is expected");
    if (next_is(p, '.') && !digits(p))
        return complain(p, "a digit is expected");
    if (next_is(p, 'e') || next_is(p, 'E')) {
        if (!next_is(p, '+'))
            next_is(p, '-');
        if (!digits(p))
            return complain(p, "a digit is expected");
    }
    p->j->v[me].v = begin;
    p->j->v[me].n = (uint32_t)(p->at - begin);
    return true;
}

static bool json_word(json_parser *p, const char *word, rg_json_kind kind) {
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0)
        return complain(p, "a value is expected");
    p->at += n;
    return add_value(p, kind) >= 0;
}

/* ---- arrays and objects --------------------------------------------------------------- */

static bool json_array(json_parser *p) {
    int64_t me = add_value(p, RG_JSON_ARRAY);
    if (me < 0)
        return false;
    skip_blanks(p);
    if (!next_is(p, ']'))
        for (;;) {
            if (!json_value(p))
                return false;
            p->j->v[me].n++;
            skip_blanks(p);
            if (next_is(p, ']'))
                break;
            if (!next_is(p, ','))
                return complain(p, "a comma or ] is expected");
        }
    p->j->v[me].end = (uint32_t)p->j->n;
    return true;
}

/* Returns true if the names in an object are all different, and none contains the character U+0000;
 * otherwise fails and returns false. */
static bool names_differ(json_parser *p, uint32_t object) {
    const rg_json *j = p->j;
    rg_map names = { 0 };
    bool ok = true;
    for (RG_EACH_JSON(i, j, object)) {
        const char *name = j->v[i].v;
        if (strlen(name) != j->v[i].n)
            ok = rgi_fail(RG_IO_ERROR, p->op, "'%s': a name that begins with \"%s\" has a 0 in it",
                          p->path, RG_SHOWN(name));
        else if (rgi_map_name(&names, name) >= 0)
            ok = rgi_fail(RG_IO_ERROR, p->op, "'%s': \"%s\" comes twice in one object", p->path,
                          RG_SHOWN(name));
        else
            ok = rgi_map_put_name(&names, name, i);
        if (!ok)
            break;
    }
    rgi_map_free(&names);
    return ok;
}

static bool json_member(json_parser *p) {
    skip_blanks(p);
    if (!next_is(p, '"'))
        return complain(p, "a name is expected");
    if (!json_text(p))
        return false;
    skip_blanks(p);
    if (!next_is(p, ':'))
        return complain(p, "a colon is expected");
    return json_value(p);
}

static bool json_object(json_parser *p) {
    int64_t me = add_value(p, RG_JSON_OBJECT);
    if (me < 0)
        return false;
    skip_blanks(p);
    if (!next_is(p, '}'))
        for (;;) {
            if (!json_member(p))
                return false;
            p->j->v[me].n++;
            skip_blanks(p);
            if (next_is(p, '}'))
                break;
            if (!next_is(p, ','))
                return complain(p, "a comma or } is expected");
        }
    p->j->v[me].end = (uint32_t)p->j->n;
    return names_differ(p, (uint32_t)me);
}

static bool json_value(json_parser *p) {
    skip_blanks(p);
    if (p->at == p->end)
        return complain(p, "the text ends");
    if (p->depth == JSON_DEPTH)
        return complain(p, "values lie too deep in each other");
    p->depth++;
    bool ok;
    switch (*p->at) {
    case '"':
        p->at++;
        ok = json_text(p);
        break;
    case '[':
        p->at++;
        ok = json_array(p);
        break;
    case '{':
        p->at++;
        ok = json_object(p);
        break;
    case 't': ok = json_word(p, "true", RG_JSON_TRUE); break;
    case 'f': ok = json_word(p, "false", RG_JSON_FALSE); break;
    case 'n': ok = json_word(p, "null", RG_JSON_NULL); break;
    default: ok = json_digits(p);
    }
    p->depth--;
    return ok;
}

/* Returns an estimate of the number of values: outside of strings, a value begins after each comma,
 * colon and opening bracket. The parser allocates memory for this number of values at the
 * beginning, so that the values of a large input aren't copied again and again as the list grows.
 * The estimate is at most a quarter of the number of the input's bytes, plus 1. Without this limit,
 * an input of nothing but commas would make the parser allocate too much. */
static size_t expected_values(const char *text, size_t bytes) {
    size_t n = 1;
    bool quoted = false;
    for (const char *p = text; p < text + bytes && *p; p++) {
        if (*p == '"')
            quoted = !quoted;
        else if (quoted)
            p += *p == '\\' && p[1];
        else
            n += *p == ',' || *p == ':' || *p == '[' || *p == '{';
    }
    return RG_MIN(n, bytes / 4 + 1);
}

bool rgi_json_parse(rg_json *j, const char *op, const char *path, char *text, size_t n) {
    *j = (rg_json){ 0 };
    if (n > UINT32_MAX)
        return rgi_fail(RG_IO_ERROR, op, "'%s': it has %zu bytes, and %u are the most", path, n,
                        UINT32_MAX);
    json_parser p = { j, op, path, text, text, text + n, 0 };
    bool ok = rgi_grow((void **)&j->v, &j->room, expected_values(text, n), sizeof *j->v)
              && json_value(&p);
    skip_blanks(&p);
    if (ok && p.at < p.end)
        ok = complain(&p, "there is more behind the value");
    if (!ok)
        rgi_json_free(j);
    return ok;
}

void rgi_json_free(rg_json *j) {
    rgi_free(j->v, j->room * sizeof *j->v, RG_MEM_OTHER);
    *j = (rg_json){ 0 };
}

/* ---- finding and reading values ------------------------------------------------------- */

uint32_t rgi_json_find(const rg_json *j, uint32_t object, const char *name) {
    if (j->v[object].kind != RG_JSON_OBJECT)
        return 0;
    for (RG_EACH_JSON(i, j, object))
        if (strcmp(j->v[i].v, name) == 0)
            return i + 1;
    return 0;
}

bool rgi_json_integer(const rg_json *j, uint32_t value, int64_t *v) {
    char text[32];
    const rg_json_value *it = &j->v[value];
    if (it->kind != RG_JSON_NUMBER || it->n >= sizeof text)
        return false;
    memcpy(text, it->v, it->n);
    text[it->n] = 0;
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    *v = whole;
    return !*end && !errno;
}

bool rgi_json_number(const rg_json *j, uint32_t value, double *v) {
    const rg_json_value *it = &j->v[value];
    if (it->kind != RG_JSON_NUMBER)
        return false;
    RG_C_NUMBERS();
    *v = strtod(it->v, NULL);
    return true;
}

const char *rgi_json_text(const rg_json *j, uint32_t value) {
    const rg_json_value *it = &j->v[value];
    return it->kind == RG_JSON_TEXT && strlen(it->v) == it->n ? it->v : NULL;
}

const char *rgi_json_shown(const rg_json *j, uint32_t value, char text[RG_SHOWN_ROOM + 2]) {
    const rg_json_value *it = &j->v[value];
    switch (it->kind) {
    case RG_JSON_NULL: return "null";
    case RG_JSON_FALSE: return "false";
    case RG_JSON_TRUE: return "true";
    case RG_JSON_ARRAY: return "an array";
    case RG_JSON_OBJECT: return "an object";
    case RG_JSON_NUMBER: return rgi_shown(it->v, it->n, text);
    case RG_JSON_TEXT: break;
    }
    snprintf(text, RG_SHOWN_ROOM + 2, "\"%s\"", RG_SHOWN_BYTES(it->v, it->n));
    return text;
}

/* ---- writing strings ------------------------------------------------------------------ */

void rgi_json_quote(rg_text *to, const char *text) {
    rgi_text_add(to, "\"");
    for (const char *begin = text;;) {
        const char *p = begin;
        while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
            p++;
        rgi_text_add(to, "%.*s", (int)(p - begin), begin);
        if (!*p)
            break;
        const char *which = strchr(json_escaped, *p);
        if (which)
            rgi_text_add(to, "\\%c", json_escapes[which - json_escaped]);
        else
            rgi_text_add(to, "\\u%04x", (unsigned)*p);
        begin = p + 1;
    }
    rgi_text_add(to, "\"");
}
