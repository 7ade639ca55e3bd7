/*
 * json_rules.h: checks the members of an object in a JSON file against rules, and reads them. A
 * member for which there is no rule is an error. Private.
 */
#pragma once

#include "tensor/files/file.h"
#include "tensor/files/json.h"

/* A JSON file that was read and parsed. `file` is closed already; its path is used in error
 * messages. */
typedef struct {
    rg_file file;
    rg_json json;
} rg_json_file;

/* The kinds of values that a rule allows. They are bits, so that they can be combined. */
enum {
    RG_RULE_NULL = 1 << 0,
    RG_RULE_FALSE = 1 << 1,
    RG_RULE_TRUE = 1 << 2,
    RG_RULE_BOOL = RG_RULE_FALSE | RG_RULE_TRUE,
    RG_RULE_EMPTY = 1 << 3, /* The empty string. */
    RG_RULE_TEXT = 1 << 4,  /* A string without a 0 byte. It may also be empty. */
    RG_RULE_ZERO = 1 << 5,
    RG_RULE_WHOLE = 1 << 6, /* A whole number from 0 to INT32_MAX. */
    RG_RULE_NUMBER = 1 << 7,
    RG_RULE_ARRAY = 1 << 8,
    RG_RULE_OBJECT = 1 << 9,
    RG_RULE_ANYTHING = 1 << 10,
    RG_RULE_MUST = 1 << 11 /* The member is required. (This bit isn't a kind.) */
};
typedef struct {
    const char *name;
    unsigned takes;
    const char *text; /* A string that is allowed in addition to the kinds in `takes`, or NULL. */
} rg_json_rule;

/* Reads and parses a file. The current scope owns the file's text. Returns false on failure; then
 * there is nothing to free. */
bool rgi_json_file_read(rg_json_file *f, const char *op, const char *path);
void rgi_json_file_free(rg_json_file *f);
/* Fails and returns false unless the value with the index `object` is a JSON object whose members
 * obey the rules. `where` is the object's name in the error message, such as "the model"; for the
 * root of the file `where` is "". The array of rules ends with a row that has no name. */
bool rgi_json_keeps(const rg_json_file *f, uint32_t object, const char *where,
                    const rg_json_rule *rules);
/* Return the value of the object's member `name`: rgi_json_whole a whole number, rgi_json_real any
 * number, rgi_json_true a boolean. If the object lacks the member, or its value is null, they
 * return `other`. Requires that the rules allow no other kind of value for this member. */
int64_t rgi_json_whole(const rg_json_file *f, uint32_t object, const char *name, int64_t other);
double rgi_json_real(const rg_json_file *f, uint32_t object, const char *name, double other);
bool rgi_json_true(const rg_json_file *f, uint32_t object, const char *name, bool other);
/* Returns the string that is the member's value. Returns NULL if it isn't a string or the member is
 * missing. */
const char *rgi_json_word(const rg_json_file *f, uint32_t object, const char *name);
/* Returns the path of the file `name` in the folder. The scope owns the path. Fails and returns
 * NULL if the folder is NULL or "", or memory runs out. */
const char *rgi_path_in(const char *op, const char *folder, const char *name);
/* Sets *there to true if the file can be opened. If the file doesn't exist, sets *there to false
 * and returns true. If opening fails for another reason, fails and returns false. */
bool rgi_file_there(const char *op, const char *path, bool *there);
