/*
 * tokenizer_parts.h: reads the parts of tokenizer.json: the model, the normalizer, the
 * pre-tokenizer, the decoder and the post-processor. Private.
 */
#pragma once

#include "json_rules.h"
#include "tokenizer_struct.h"

/* Allocates room for n tokens, and clears them. Returns false if memory runs out. */
bool rgi_begin_tokens(rg_tokenizer *t, size_t n);
/* Adds a new token with this string and id. The id must be less than t->room. Returns false if
 * memory runs out. */
bool rgi_put_token(rg_tokenizer *t, int64_t id, const char *text);
/* Reads the model, after the pre-tokenizer. Fails and returns false if it has another form, or uses
 * what isn't supported. */
bool rgi_load_model(rg_tokenizer *t, const rg_json_file *f, uint32_t model);
/* Reads vocab.json, which is `f`, and the file `merges`. */
bool rgi_load_model_files(rg_tokenizer *t, const rg_json_file *f, const char *merges);

/* Read the member of the file with the index `part`: 0 or null if there is none. Fail and return
 * false if it has another form, or uses what isn't supported. */
bool rgi_load_normalizer(rg_tokenizer *t, const rg_json_file *f, uint32_t part);
bool rgi_load_pretokenizer(rg_tokenizer *t, const rg_json_file *f, uint32_t part);
bool rgi_load_decoder(rg_tokenizer *t, const rg_json_file *f, uint32_t part);
/* This one follows the added tokens, which it may name. */
bool rgi_load_processor(rg_tokenizer *t, const rg_json_file *f, uint32_t part);
/* Sets the templates that add nothing, unless the post-processor has set others. Returns false if
 * memory runs out. */
bool rgi_default_templates(rg_tokenizer *t);
/* Read the objects "truncation" and "padding". */
bool rgi_load_fits(rg_tokenizer *t, const rg_json_file *f, uint32_t truncation, uint32_t padding);

/* Sets the steps of GPT-2's tokenizer, for vocab.json and merges.txt. Returns false if memory runs
 * out. */
bool rgi_parts_of_gpt2(rg_tokenizer *t, const rg_json_file *f);
/* Adds the step that cuts a text into words by GPT-2's regular expression. Returns false if memory
 * runs out. */
bool rgi_gpt2_words(rg_tokenizer *t, const rg_json_file *f);

/* Returns the string "type" of an object. If there is none, fails and returns NULL. */
const char *rgi_json_type(const rg_json_file *f, uint32_t object, const char *where);
/* Fails because the object's type isn't supported. Returns false. */
bool rgi_refuse_type(const rg_json_file *f, uint32_t object, const char *where);

/* A type of a part: the rules for its members, and the function that reads it. A list of types ends
 * with a row without a type. */
typedef struct {
    const char *type;
    rg_json_rule rules[8];
    bool (*read)(rg_tokenizer *t, const rg_json_file *f, uint32_t part);
} rg_part_type;
#define RG_PART_TYPE \
    { "type", RG_RULE_TEXT, NULL }
#define RG_NO_MORE \
    { NULL, 0, NULL }
#define RG_PART_BOOL(name) \
    { name, RG_RULE_BOOL | RG_RULE_MUST, NULL }
#define RG_PART_MAY_BE(name) \
    { name, RG_RULE_BOOL | RG_RULE_NULL, NULL }
#define RG_PART_TEXT(name) \
    { name, RG_RULE_TEXT | RG_RULE_MUST, NULL }
#define RG_PART_ARRAY(name) \
    { name, RG_RULE_ARRAY | RG_RULE_MUST, NULL }
#define RG_PART_OBJECT(name) \
    { name, RG_RULE_OBJECT | RG_RULE_MUST, NULL }

#define RG_PART_METASPACE                                                                    \
    {                                                                                        \
        RG_PART_TYPE, RG_PART_TEXT("replacement"), { "prepend_scheme", RG_RULE_TEXT, NULL }, \
            { "add_prefix_space", RG_RULE_BOOL, NULL }, { "split", RG_RULE_BOOL, NULL }, {   \
            "str_rep", RG_RULE_TEXT, NULL                                                    \
        }                                                                                    \
    }

/* Returns whether the file has the part, and it isn't null. */
bool rgi_part_given(const rg_json_file *f, uint32_t part);
/* Reads a part by the row of its type. `where` is its name in error messages. */
bool rgi_read_part(rg_tokenizer *t, const rg_json_file *f, uint32_t part, const char *where,
                   const rg_part_type *types);
/* Reads each part of an array. */
bool rgi_read_parts(rg_tokenizer *t, const rg_json_file *f, uint32_t list, const char *where,
                    const rg_part_type *types);
/* Compiles the pattern of a part: {"String": ".."} or {"Regex": ".."}. */
bool rgi_read_pattern(rg_tokenizer *t, const rg_json_file *f, uint32_t part, const char *where,
                      rg_regex *regex);
/* Reads the replacement of blanks, a single character, to `text`. */
bool rgi_read_replacement(const rg_json_file *f, uint32_t part, const char *where, char text[5]);
/* Sets *prefix to when Metaspace puts its character before a text. Older files have
 * "add_prefix_space" for it. */
bool rgi_read_prefix(const rg_json_file *f, uint32_t part, const char *where, rg_prefix *prefix);
