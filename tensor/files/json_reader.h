/*
 * json_reader.h: reads values from JSON files, such as a model's config.json.
 *
 *     const rg_json_document *config = rg_json_load("config.json");
 *     int64_t width = rg_json_int(config, "/hidden_size", 768);
 *     double factor = rg_json_float(config, "/rope_scaling/factor", 1);
 *
 * The place of a value is a JSON pointer (RFC 6901): "" is the whole document, and each part behind
 * a "/" is a name in an object, or the index of an element of an array. In a name, "~1" stands for
 * "/", and "~0" for "~". A file is JSON as RFC 8259 describes it, in UTF-8. It is refused if an
 * object has a name twice, if a name contains the character U+0000, or if values are nested more
 * than 128 deep.
 */
#pragma once

#include "../tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_json_document rg_json_document;

/* Reads a file. The innermost scope owns the document. Returns NULL on failure. */
const rg_json_document *rg_json_load(const char *path);
/* Returns the number of elements of the array at this place, or of members of the object. Returns 0
 * if there is neither, and -1 on failure. */
int64_t rg_json_length(const rg_json_document *j, const char *at);
/* Return the value at this place, or `otherwise` if the value is missing or null. A value of
 * another kind is a failure. rg_json_int reads a number without a point or an exponent. A string
 * lives as long as the document; one with the character U+0000 is a failure. On failure they return
 * -1, NAN, false and NULL. As these may also be values of the file, rg_error() tells whether a call
 * has failed. */
int64_t rg_json_int(const rg_json_document *j, const char *at, int64_t otherwise);
double rg_json_float(const rg_json_document *j, const char *at, double otherwise);
bool rg_json_bool(const rg_json_document *j, const char *at, bool otherwise);
const char *rg_json_str(const rg_json_document *j, const char *at, const char *otherwise);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_json_int(j, at, otherwise)   rg_json_int(j, at, RG_WHOLE(otherwise))
#define rg_json_float(j, at, otherwise) rg_json_float(j, at, RG_REAL(otherwise))
#define rg_json_bool(j, at, otherwise)  rg_json_bool(j, at, RG_FLAG(otherwise))

RG_PUBLIC_END
