/*
 * json.h: a JSON text as a list of values, each of which stands before those that are in it. The
 * reader believes nothing: it takes what RFC 8259 describes, in UTF-8, and refuses names that come
 * twice in one object.
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

/* An array's values follow it. In an object a name, which is a text, stands before each value. */
typedef struct {
    rg_json_kind kind;
    uint32_t n;    /* The number of its values, or of its bytes of text. */
    uint32_t end;  /* The value that comes after all that is in this one has this number. */
    const char *v; /* The text, with a 0 behind it, or the number as it is written. */
} rg_json_value;

/* Value 0 is the whole text. */
typedef struct {
    rg_json_value *v;
    size_t n, room;
} rg_json;

/* Reads the n bytes of text, which are changed and have to live as long as *j. A 0 must stand
 * behind them. `op` and `path` are for errors: op: 'path': it is no JSON: at byte 12 .. Returns
 * false, with nothing to free, on failure. */
bool rgi_json_parse(rg_json *j, const char *op, const char *path, char *text, size_t n);
void rgi_json_free(rg_json *j);

/* Walks the values in an array, or the names in an object, of which i becomes the number. A name's
 * value is at i + 1. */
#define RG_EACH_JSON(i, j, of) \
    uint32_t i = (of) + 1;     \
    i < (j)->v[of].end;        \
    i = rgi_json_next(j, of, i)
static inline uint32_t rgi_json_next(const rg_json *j, uint32_t of, uint32_t i) {
    return j->v[of].kind == RG_JSON_OBJECT ? j->v[i + 1].end : j->v[i].end;
}

/* Returns the number of what an object has under a name; 0 where it lacks it or is no object. */
uint32_t rgi_json_find(const rg_json *j, uint32_t object, const char *name);
/* Returns whether the value is written as an integer that int64 can hold, and sets *v. */
bool rgi_json_integer(const rg_json *j, uint32_t value, int64_t *v);
/* Returns whether the value is a number, and sets *v. */
bool rgi_json_number(const rg_json *j, uint32_t value, double *v);
/* Returns a text without a 0 in it, or NULL where the value is something else. */
const char *rgi_json_text(const rg_json *j, uint32_t value);
/* Returns what a value is, for errors: -1.5, "a text", null, false, true, an array, an object. */
const char *rgi_json_shown(const rg_json *j, uint32_t value, char text[RG_SHOWN_ROOM + 2]);
#define RG_JSON_SHOWN(j, value) rgi_json_shown(j, value, (char[RG_SHOWN_ROOM + 2]){ 0 })

/* Adds a text in double quotes, with what JSON asks for escaped. Requires that it is UTF-8. */
void rgi_json_quote(rg_text *to, const char *text);
