/*
 * json_rules.h: rules for the members of an object in a JSON file. Members without a rule are
 * errors. Private.
 */
#pragma once

#include "tensor/files/file.h"
#include "tensor/files/json.h"

/* A parsed JSON file, for errors and look-ups. The file itself is closed. */
typedef struct {
    rg_file file;
    rg_json json;
} rg_json_file;

/* The kinds of values of a member, as bits. */
enum {
    RG_RULE_NULL = 1 << 0,
    RG_RULE_FALSE = 1 << 1,
    RG_RULE_TRUE = 1 << 2,
    RG_RULE_BOOL = RG_RULE_FALSE | RG_RULE_TRUE,
    RG_RULE_EMPTY = 1 << 3, /* The empty text. */
    RG_RULE_TEXT = 1 << 4,  /* A text without a 0 byte. */
    RG_RULE_ZERO = 1 << 5,
    RG_RULE_WHOLE = 1 << 6, /* An integer from 0 to INT32_MAX. */
    RG_RULE_NUMBER = 1 << 7,
    RG_RULE_ARRAY = 1 << 8,
    RG_RULE_OBJECT = 1 << 9,
    RG_RULE_ANYTHING = 1 << 10,
    RG_RULE_MUST = 1 << 11 /* The member is required. */
};
typedef struct {
    const char *name;
    unsigned takes;
    const char *text; /* If not NULL, the only text that is allowed. */
} rg_json_rule;

/* Reads a file. The scope owns its text. Returns false on failure, after which there is nothing to
 * free. */
bool rgi_json_file_read(rg_json_file *f, const char *op, const char *path);
void rgi_json_file_free(rg_json_file *f);
/* Returns whether the value is an object that obeys the rules, which end with a NULL name.
 * Otherwise fails with a message about `where`, such as "the model", or "" for the root. */
bool rgi_json_keeps(const rg_json_file *f, uint32_t object, const char *where,
                    const rg_json_rule *rules);
/* The next three functions return the member's value, or `other` if the object lacks it. The rules
 * must allow only this kind of value. */
int64_t rgi_json_whole(const rg_json_file *f, uint32_t object, const char *name, int64_t other);
double rgi_json_real(const rg_json_file *f, uint32_t object, const char *name, double other);
bool rgi_json_true(const rg_json_file *f, uint32_t object, const char *name, bool other);
/* Returns the text, or NULL if the value isn't a text. */
const char *rgi_json_word(const rg_json_file *f, uint32_t object, const char *name);
/* Returns the path of a file in the folder, which the scope owns, or NULL. */
const char *rgi_path_in(const char *op, const char *folder, const char *name);
/* Sets *there to whether the file exists. Fails if it exists but can't be opened. */
bool rgi_file_there(const char *op, const char *path, bool *there);
