/*
 * json_rules.c: checks the members of objects in JSON files against rules, and reads them.
 */
#include "json_rules.h"
#include "tensor/memory.h"

#include <errno.h>
#include <string.h>

bool rgi_json_file_read(rg_json_file *f, const char *op, const char *path) {
    *f = (rg_json_file){ .file = { .op = op, .path = path, .fd = -1 } };
    size_t n;
    char *text = rgi_file_text(op, path, &n);
    return text && rgi_json_parse(&f->json, op, path, text, n);
}

void rgi_json_file_free(rg_json_file *f) { rgi_json_free(&f->json); }

/* ---- checking members against rules --------------------------------------------------- */

/* Returns whether the value is of one of the kinds in the bits `takes`. */
static bool rule_takes(const rg_json *j, uint32_t value, unsigned takes) {
    int64_t whole;
    double number;
    const char *text = rgi_json_text(j, value);
    switch (j->v[value].kind) {
    case RG_JSON_NULL: return takes & RG_RULE_NULL;
    case RG_JSON_FALSE: return takes & RG_RULE_FALSE;
    case RG_JSON_TRUE: return takes & RG_RULE_TRUE;
    case RG_JSON_TEXT: return text && takes & (*text ? RG_RULE_TEXT : RG_RULE_TEXT | RG_RULE_EMPTY);
    case RG_JSON_ARRAY: return takes & RG_RULE_ARRAY;
    case RG_JSON_OBJECT: return takes & RG_RULE_OBJECT;
    case RG_JSON_NUMBER: break;
    }
    if (takes & RG_RULE_WHOLE && rgi_json_integer(j, value, &whole) && whole >= 0
        && whole <= INT32_MAX)
        return true;
    rgi_json_number(j, value, &number);
    return takes & RG_RULE_NUMBER || (takes & RG_RULE_ZERO && number == 0);
}

/* Fails because the value of a member isn't supported. The message contains the value. Returns
 * false. */
static bool refuse_value(const rg_json_file *f, uint32_t value, const char *where,
                         const char *name) {
    return rgi_file_refuse(&f->file, "%s%s\"%s\" is %s, which isn't supported", where,
                           *where ? "'s " : "", name, RG_JSON_SHOWN(&f->json, value));
}

static bool keeps_rule(const rg_json_file *f, uint32_t name, const char *where,
                       const rg_json_rule *rules) {
    const rg_json *j = &f->json;
    const char *text = rgi_json_text(j, name + 1);
    const rg_json_rule *r = rules;
    while (r->name && strcmp(r->name, j->v[name].v))
        r++;
    if (!r->name)
        return rgi_file_refuse(&f->file, "%s%s\"%s\" isn't supported", where, *where ? "'s " : "",
                               RG_SHOWN(j->v[name].v));
    if (r->takes & RG_RULE_ANYTHING || (r->text && text && strcmp(r->text, text) == 0)
        || rule_takes(j, name + 1, r->takes))
        return true;
    return refuse_value(f, name + 1, where, r->name);
}

bool rgi_json_keeps(const rg_json_file *f, uint32_t object, const char *where,
                    const rg_json_rule *rules) {
    const rg_json *j = &f->json;
    const char *what = *where ? where : "the file";
    if (j->v[object].kind != RG_JSON_OBJECT)
        return rgi_file_refuse(&f->file, "%s is no object", what);
    for (RG_EACH_JSON(i, j, object))
        if (!keeps_rule(f, i, where, rules))
            return false;
    for (const rg_json_rule *r = rules; r->name; r++)
        if (r->takes & RG_RULE_MUST && !rgi_json_find(j, object, r->name))
            return rgi_file_refuse(&f->file, "%s has no \"%s\"", what, r->name);
    return true;
}

/* ---- reading members ------------------------------------------------------------------
 * rgi_json_find returns 0 if an object lacks a member. The value 0 is the root of the file, an
 * object. As the root is neither a number nor a string, the functions below then return `other` or
 * NULL. */

int64_t rgi_json_whole(const rg_json_file *f, uint32_t object, const char *name, int64_t other) {
    int64_t whole;
    uint32_t at = rgi_json_find(&f->json, object, name);
    return rgi_json_integer(&f->json, at, &whole) ? whole : other;
}

double rgi_json_real(const rg_json_file *f, uint32_t object, const char *name, double other) {
    double number;
    uint32_t at = rgi_json_find(&f->json, object, name);
    return rgi_json_number(&f->json, at, &number) ? number : other;
}

bool rgi_json_true(const rg_json_file *f, uint32_t object, const char *name, bool other) {
    uint32_t at = rgi_json_find(&f->json, object, name);
    rg_json_kind kind = at ? f->json.v[at].kind : RG_JSON_NULL;
    return kind == RG_JSON_TRUE || (other && kind != RG_JSON_FALSE);
}

const char *rgi_json_word(const rg_json_file *f, uint32_t object, const char *name) {
    return rgi_json_text(&f->json, rgi_json_find(&f->json, object, name));
}

const char *rgi_path_in(const char *op, const char *folder, const char *name) {
    if (!rgi_given_path(folder, op))
        return NULL;
    if (!folder[0]) { /* Otherwise "" would become "/", the root folder. */
        rgi_fail_errno(op, ENOENT, folder);
        return NULL;
    }
    size_t n = strlen(folder), m = strlen(name);
    char *path = rgi_scope_alloc(n + m + 2);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    path[n] = '/';
    memcpy(path + n + 1, name, m + 1);
    return path;
}

bool rgi_file_there(const char *op, const char *path, bool *there) {
    const int fd = rgi_system.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    *there = fd >= 0;
    if (fd >= 0) {
        rgi_system.close(fd);
        return true;
    }
    if (errno == ENOENT)
        return true;
    rgi_fail_errno(op, errno, path);
    return false;
}
