/*
 * tokenizer_parts.c: functions that read the parts of tokenizer.json: the type of a part, lists of
 * parts, patterns, and the options of Metaspace.
 */
#include "tokenizer_parts.h"
#include "tensor/files/utf8.h"

#include <string.h>

const char *rgi_json_type(const rg_json_file *f, uint32_t object, const char *where) {
    static const rg_json_rule rules[] = { { "type", RG_RULE_TEXT | RG_RULE_MUST, NULL } };
    if (f->json.v[object].kind != RG_JSON_OBJECT) {
        rgi_file_refuse(&f->file, "%s is no object", where);
        return NULL;
    }
    uint32_t type = rgi_json_find(&f->json, object, rules->name);
    const char *text = type ? rgi_json_text(&f->json, type) : NULL;
    if (!type)
        rgi_file_refuse(&f->file, "%s has no \"type\"", where);
    else if (!text)
        rgi_refuse_type(f, object, where);
    return text;
}

bool rgi_refuse_type(const rg_json_file *f, uint32_t object, const char *where) {
    uint32_t type = rgi_json_find(&f->json, object, "type");
    return rgi_file_refuse(&f->file, "%s's \"type\" is %s, which isn't supported", where,
                           RG_JSON_SHOWN(&f->json, type));
}

bool rgi_read_part(rg_tokenizer *t, const rg_json_file *f, uint32_t part, const char *where,
                   const rg_part_type *types) {
    const char *type = rgi_json_type(f, part, where);
    if (!type)
        return false;
    const rg_part_type *row = types;
    while (row->type && strcmp(row->type, type))
        row++;
    if (!row->type)
        return rgi_refuse_type(f, part, where);
    return rgi_json_keeps(f, part, where, row->rules) && row->read(t, f, part);
}

bool rgi_read_parts(rg_tokenizer *t, const rg_json_file *f, uint32_t list, const char *where,
                    const rg_part_type *types) {
    for (RG_EACH_JSON(i, &f->json, list))
        if (!rgi_read_part(t, f, i, where, types))
            return false;
    return true;
}

bool rgi_read_pattern(rg_tokenizer *t, const rg_json_file *f, uint32_t part, const char *where,
                      rg_regex *regex) {
    static const rg_json_rule rules[] = { { "String", RG_RULE_TEXT, NULL },
                                          { "Regex", RG_RULE_TEXT, NULL },
                                          RG_NO_MORE };
    uint32_t pattern = rgi_json_find(&f->json, part, "pattern");
    if (!rgi_json_keeps(f, pattern, "a pattern", rules))
        return false;
    const char *text = rgi_json_word(f, pattern, "String");
    const char *expression = rgi_json_word(f, pattern, "Regex");
    if (text && *text && !expression)
        return rgi_regex_literal(regex, &t->unicode, text);
    if (text || !expression)
        return rgi_file_refuse(&f->file, "%s's pattern is neither a text nor a regular expression",
                               where);
    return rgi_regex_compile(regex, &t->unicode, &f->file, where, expression, strlen(expression));
}

bool rgi_part_given(const rg_json_file *f, uint32_t part) {
    return part && f->json.v[part].kind != RG_JSON_NULL;
}

bool rgi_read_replacement(const rg_json_file *f, uint32_t part, const char *where, char text[5]) {
    const char *from = rgi_json_word(f, part, "replacement");
    uint32_t code;
    size_t n = rgi_utf8_read(from, from + strlen(from), &code);
    if (n == 0 || from[n])
        return rgi_file_refuse(&f->file, "%s's \"replacement\" is \"%s\", and no character", where,
                               RG_SHOWN(from));
    memcpy(text, from, n + 1);
    return true;
}

bool rgi_read_prefix(const rg_json_file *f, uint32_t part, const char *where, rg_prefix *prefix) {
    static const char *const names[] = { "never", "always", "first" };
    const char *name = rgi_json_word(f, part, "prepend_scheme");
    *prefix = rgi_json_true(f, part, "add_prefix_space", true) ? RG_PREFIX_ALWAYS : RG_PREFIX_NEVER;
    for (int i = 0; name && i < RG_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) {
            *prefix = (rg_prefix)i;
            return true;
        }
    return !name
           || rgi_file_refuse(&f->file, "%s's \"prepend_scheme\" is \"%s\", which isn't supported",
                              where, RG_SHOWN(name));
}
