/*
 * json_reader.c: the public functions that read JSON files. The parser is in json.c.
 */
#include "json_reader.h"

#include "json.h"
#include "tensor/load.h"
#include "tensor/scope.h"

#include <math.h>
#include <stdlib.h>

/* A file that was read. Its values have pointers into its text. One scope owns the document, the
 * text and the values. */
struct rg_json_document {
    rg_json json;
    char path[];
};

const rg_json_document *rg_json_load(const char *path) {
    static const char op[] = "json_load";
    RG_LOADING(op, path);
    size_t bytes;
    rg_json parsed;
    char *text = rgi_file_text(op, path, &bytes);
    if (!text || !rgi_json_parse(&parsed, op, path, text, bytes))
        return NULL;
    const size_t n = strlen(path) + 1, room = parsed.n * sizeof *parsed.v;
    rg_json_document *j = rgi_scope_alloc(sizeof *j + n);
    rg_json_value *v = j ? rgi_scope_alloc(room) : NULL;
    if (v) {
        memcpy(v, parsed.v, room);
        memcpy(j->path, path, n);
        j->json = (rg_json){ .v = v, .n = parsed.n };
    }
    rgi_json_free(&parsed);
    return v ? j : NULL;
}

/* ---- finding a value ------------------------------------------------------------------ */

/* Returns whether the part of a JSON pointer from `part` to `end` stands for the name. */
static bool is_member(const char *part, const char *end, const char *name) {
    for (; part < end; part++) {
        const bool escaped = *part == '~' && part + 1 < end;
        const char c = escaped ? "~/"[*++part == '1'] : *part;
        if (c != *name++)
            return false;
    }
    return !*name;
}

/* Returns the index of the value that the array or object at the index `of` has under this part of
 * a JSON pointer, or 0 if it has none. */
static uint32_t find_part(const rg_json *j, uint32_t of, const char *part, const char *end) {
    const rg_json_kind kind = j->v[of].kind;
    char *behind;
    const unsigned long long wanted = strtoull(part, &behind, 10);
    const bool index = *part >= '0' && *part <= '9' && behind == end
                       && (*part != '0' || end == part + 1);
    uint32_t number = 0;
    if (kind != RG_JSON_OBJECT && !(kind == RG_JSON_ARRAY && index))
        return 0;
    for (RG_EACH_JSON(i, j, of))
        if (kind == RG_JSON_ARRAY) {
            if (number++ == wanted)
                return i;
        } else if (is_member(part, end, j->v[i].v))
            return i + 1;
    return 0;
}

/* Sets *value to the index of the value at this place. If there is none, or it is null, sets *value
 * to UINT32_MAX. Fails and returns false if `at` is no JSON pointer. */
static bool find_value(const rg_json_document *j, const char *op, const char *at, uint32_t *value) {
    if (!rgi_given(j, op, "a document") || !rgi_given(at, op, "the place of a value"))
        return false;
    RG_FAIL_VALUE_IF(*at && *at != '/', op, "the place \"%s\" doesn't begin with /", RG_SHOWN(at));
    for (const char *c = strchr(at, '~'); c; c = strchr(c + 1, '~'))
        RG_FAIL_VALUE_IF(c[1] != '0' && c[1] != '1', op,
                         "the place \"%s\" has a ~ that isn't ~0 or ~1", RG_SHOWN(at));
    uint32_t found = 0;
    while (*at) {
        const char *end = at + 1 + strcspn(at + 1, "/");
        found = find_part(&j->json, found, at + 1, end);
        if (!found)
            break;
        at = end;
    }
    *value = *at || j->json.v[found].kind == RG_JSON_NULL ? UINT32_MAX : found;
    return true;
}

/* Fails because the value is of another kind than `what`. Returns false. */
static bool refuse_kind(const rg_json_document *j, const char *op, const char *at, uint32_t value,
                        const char *what) {
    return rgi_fail(RG_IO_ERROR, op, "'%s': \"%s\" is %s, and no %s", j->path, RG_SHOWN(at),
                    RG_JSON_SHOWN(&j->json, value), what);
}

/* ---- reading a value ------------------------------------------------------------------ */

int64_t rg_json_length(const rg_json_document *j, const char *at) {
    uint32_t value;
    if (!find_value(j, "json_length", at, &value))
        return -1;
    if (value == UINT32_MAX)
        return 0;
    const rg_json_value *it = &j->json.v[value];
    return it->kind == RG_JSON_ARRAY || it->kind == RG_JSON_OBJECT ? it->n : 0;
}

int64_t(rg_json_int)(const rg_json_document *j, const char *at, int64_t otherwise) {
    uint32_t value;
    int64_t whole;
    if (!find_value(j, "json_int", at, &value))
        return -1;
    if (value == UINT32_MAX)
        return otherwise;
    if (rgi_json_integer(&j->json, value, &whole))
        return whole;
    refuse_kind(j, "json_int", at, value, "whole number");
    return -1;
}

double(rg_json_float)(const rg_json_document *j, const char *at, double otherwise) {
    uint32_t value;
    double number;
    if (!find_value(j, "json_float", at, &value))
        return NAN;
    if (value == UINT32_MAX)
        return otherwise;
    if (rgi_json_number(&j->json, value, &number))
        return number;
    refuse_kind(j, "json_float", at, value, "number");
    return NAN;
}

bool(rg_json_bool)(const rg_json_document *j, const char *at, bool otherwise) {
    uint32_t value;
    if (!find_value(j, "json_bool", at, &value))
        return false;
    if (value == UINT32_MAX)
        return otherwise;
    const rg_json_kind kind = j->json.v[value].kind;
    if (kind != RG_JSON_TRUE && kind != RG_JSON_FALSE)
        return refuse_kind(j, "json_bool", at, value, "true or false");
    return kind == RG_JSON_TRUE;
}

const char *rg_json_str(const rg_json_document *j, const char *at, const char *otherwise) {
    uint32_t value;
    if (!find_value(j, "json_str", at, &value))
        return NULL;
    if (value == UINT32_MAX)
        return otherwise;
    const char *text = rgi_json_text(&j->json, value);
    if (!text)
        refuse_kind(j, "json_str", at, value, "string");
    return text;
}
