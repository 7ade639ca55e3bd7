/*
 * json_rules.h: what a JSON file may say: rules for the members of an object, each of which is
 * either known or refused by its name. Private.
 */
#pragma once

#include "tensor/files/file.h"
#include "tensor/files/json.h"

/* A file of JSON, for errors and for looking. The file isn't open. */
typedef struct {
    rg_file file;
    rg_json json;
} rg_json_file;

/* A member may have these values. */
enum {
    RG_RULE_NULL = 1 << 0,
    RG_RULE_FALSE = 1 << 1,
    RG_RULE_TRUE = 1 << 2,
    RG_RULE_BOOL = RG_RULE_FALSE | RG_RULE_TRUE,
    RG_RULE_EMPTY = 1 << 3, /* The empty text. */
    RG_RULE_TEXT = 1 << 4,  /* Any text without a 0. */
    RG_RULE_ZERO = 1 << 5,
    RG_RULE_WHOLE = 1 << 6, /* An integer of 0 or more that int32 holds. */
    RG_RULE_NUMBER = 1 << 7,
    RG_RULE_ARRAY = 1 << 8,
    RG_RULE_OBJECT = 1 << 9,
    RG_RULE_ANYTHING = 1 << 10,
    RG_RULE_MUST = 1 << 11 /* The object has to have the member. */
};
typedef struct {
    const char *name;
    unsigned takes;
    const char *text; /* If this isn't NULL, the value is this text, or what else it takes. */
} rg_json_rule;

/* Reads a file. Its text belongs to the scope. Returns false, with nothing to free, on failure. */
bool rgi_json_file_read(rg_json_file *f, const char *op, const char *path);
void rgi_json_file_free(rg_json_file *f);
/* Returns whether the value is an object that keeps to the rules, which end with a name of NULL. If
 * not, fails with a sentence about `where`, such as "the model", which may be "" for the top. */
bool rgi_json_keeps(const rg_json_file *f, uint32_t object, const char *where,
                    const rg_json_rule *rules);
/* Each returns what the object has under the name, or the other value where it lacks it. They
 * require that the object keeps to rules under which the value is of this kind. */
int64_t rgi_json_whole(const rg_json_file *f, uint32_t object, const char *name, int64_t other);
double rgi_json_real(const rg_json_file *f, uint32_t object, const char *name, double other);
bool rgi_json_true(const rg_json_file *f, uint32_t object, const char *name, bool other);
/* Returns a text, or NULL where the value is none. */
const char *rgi_json_word(const rg_json_file *f, uint32_t object, const char *name);
/* Returns a path in the folder, which the scope owns, or NULL. */
const char *rgi_path_in(const char *op, const char *folder, const char *name);
/* Sets *there to whether there is such a file. Fails where it can't be opened for another reason
 * than that there is none. */
bool rgi_file_there(const char *op, const char *path, bool *there);
