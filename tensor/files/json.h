/*
 * json.h: parsed JSON as a list of values. In the list, an array or object comes before the values
 * inside it. The parser accepts what RFC 8259 describes, in UTF-8. But it fails if an object has
 * the same name twice, if a name contains the character U+0000, if values are nested more than 128
 * deep, or if the text has 2^32 bytes or more.
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

/* A value. In the list, an array is followed by its elements. An object is followed by its members:
 * each is a name, which is a string, and then a value. */
typedef struct {
    rg_json_kind kind;
    /* The number of elements of an array, of members of an object, or of bytes of a string or
     * number. */
    uint32_t n;
    uint32_t end;  /* The index of the first value behind this value and all values inside it. */
    const char *v; /* The characters of a string, which a byte 0 follows; or the characters of a
                    * number in the input, which no 0 follows. */
} rg_json_value;

/* The list of values. v[0] is the outermost value. */
typedef struct {
    rg_json_value *v;
    size_t n, room;
} rg_json;

/* Parses n bytes of text, which a byte 0 must follow. The text is overwritten, and must live as
 * long as *j. `op` and `path` are for error messages, such as "op: 'path': it is no JSON: at byte
 * 12 ..". Returns false on failure; then there is nothing to free. */
bool rgi_json_parse(rg_json *j, const char *op, const char *path, char *text, size_t n);
void rgi_json_free(rg_json *j);

/* Iterates over the elements of an array, or over the names in an object. i is the index of the
 * element or name; a member's value is at i + 1. */
#define RG_EACH_JSON(i, j, of) \
    uint32_t i = (of) + 1;     \
    i < (j)->v[of].end;        \
    i = rgi_json_next(j, of, i)
static inline uint32_t rgi_json_next(const rg_json *j, uint32_t of, uint32_t i) {
    return j->v[of].kind == RG_JSON_OBJECT ? j->v[i + 1].end : j->v[i].end;
}

/* Returns the index of the value that an object has under this name. Returns 0 if the object
 * doesn't have the name, or if the value at index `object` isn't an object. */
uint32_t rgi_json_find(const rg_json *j, uint32_t object, const char *name);
/* If the value is a number without a point or an exponent, and int64 can hold it, sets *v to the
 * number and returns true; otherwise returns false, and *v has no meaning. */
bool rgi_json_integer(const rg_json *j, uint32_t value, int64_t *v);
/* If the value is a number, sets *v to the double nearest to it (which may be infinity) and returns
 * true; otherwise returns false. */
bool rgi_json_number(const rg_json *j, uint32_t value, double *v);
/* Returns the characters of a string. Returns NULL if the value isn't a string, or if the string
 * contains the character U+0000. */
const char *rgi_json_text(const rg_json *j, uint32_t value);
/* Returns a description of a value for error messages: a number as in -1.5; a string in quotes; or
 * null, false, true, an array, an object. The description may be written to `text`. */
const char *rgi_json_shown(const rg_json *j, uint32_t value, char text[RG_SHOWN_ROOM + 2]);
#define RG_JSON_SHOWN(j, value) rgi_json_shown(j, value, (char[RG_SHOWN_ROOM + 2]){ 0 })

/* Appends the string `text`, which must be UTF-8, to `to`: in double quotes, and with the escapes
 * that JSON requires. */
void rgi_json_quote(rg_text *to, const char *text);
