/*
 * json.h: a JSON text as a list of values, in which each value comes before those inside it. The
 * reader accepts what RFC 8259 describes, in UTF-8, and refuses repeated names in an object.
 */
#pragma once

#include "file.h"
#include "tensor/text/text.h"

typedef enum {
    RG_JSON_NULL,
    RG_JSON_FALSE,
    RG_JSON_TRUE,
    RG_JSON_NUMBER,
    RG_JSON_TEXT,
    RG_JSON_ARRAY,
    RG_JSON_OBJECT
} rg_json_kind;

/* A value. An array is followed by its values. In an object, each value comes after its name, which
 * is a text. */
typedef struct {
    rg_json_kind kind;
    /* The number of values of an array or object, or of bytes of a text or number. */
    uint32_t n;
    uint32_t end;  /* The index of the first value behind this one and those inside it. */
    const char *v; /* The text, followed by a 0, or the number as it is written. */
} rg_json_value;

/* The list of values. Value 0 is the outermost one. */
typedef struct {
    rg_json_value *v;
    size_t n, room;
} rg_json;

/* Parses n bytes of text, which are changed, and must live as long as *j. They must be followed by
 * a 0. `op` and `path` are for errors: op: 'path': it is no JSON: at byte 12 .. Returns false, with
 * nothing to free, on failure. */
bool rgi_json_parse(rg_json *j, const char *op, const char *path, char *text, size_t n);
void rgi_json_free(rg_json *j);

/* Iterates over the values of an array, or over the names of an object; i is the index. A name's
 * value is at i + 1. */
#define RG_EACH_JSON(i, j, of) \
    uint32_t i = (of) + 1;     \
    i < (j)->v[of].end;        \
    i = rgi_json_next(j, of, i)
static inline uint32_t rgi_json_next(const rg_json *j, uint32_t of, uint32_t i) {
    return j->v[of].kind == RG_JSON_OBJECT ? j->v[i + 1].end : j->v[i].end;
}

/* Returns the index of the value that an object has under a name, or 0 if it has none or is no
 * object. */
uint32_t rgi_json_find(const rg_json *j, uint32_t object, const char *name);
/* Returns whether the value is an integer that int64 can hold, and sets *v if so. */
bool rgi_json_integer(const rg_json *j, uint32_t value, int64_t *v);
/* Returns whether the value is a number, and sets *v if so. */
bool rgi_json_number(const rg_json *j, uint32_t value, double *v);
/* Returns a text value, or NULL if the value is no text or has a 0 in it. */
const char *rgi_json_text(const rg_json *j, uint32_t value);
/* Returns a description of a value for errors: -1.5, "a text", null, false, true, an array, an
 * object. */
const char *rgi_json_shown(const rg_json *j, uint32_t value, char text[RG_SHOWN_ROOM + 2]);
#define RG_JSON_SHOWN(j, value) rgi_json_shown(j, value, (char[RG_SHOWN_ROOM + 2]){ 0 })

/* Appends a text in double quotes, with the escapes that JSON needs. Requires UTF-8. */
void rgi_json_quote(rg_text *to, const char *text);
