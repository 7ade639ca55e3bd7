/*
 * state.c: state_dict, which lists a module's values by name, and load_state_dict, which copies
 * such a list into a module.
 */
#include "registry.h"
#include "state.h"
#include "tensor/error.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/text/text.h"

#include <stdlib.h>

rg_named_list(rg_state_dict)(void *m) {
    return rgi_walk("state_dict", m,
                    (rg_walk_for){ .parameters = true, .buffers = true, .saved = true });
}

/* ---- maps from the names in a list to indices ---------------------------------- */

/* Maps each name to its index in the list. Fails, and leaves the map empty, if a name occurs twice:
 * in Python the list is a dictionary, whose keys are unique. */
static bool map_names(rg_map *places, rg_named_list list, const char *op) {
    *places = (rg_map){ 0 };
    for (int i = 0; i < list.n; i++) {
        const char *name = list.v[i].name;
        const bool twice = rgi_map_name(places, name) >= 0;
        if (twice)
            rgi_fail(RG_VALUE_ERROR, op, "the name \"%s\" comes twice", name);
        if (twice || !rgi_map_put_name(places, name, i)) {
            rgi_map_free(places);
            return false;
        }
    }
    return true;
}

static bool dictionary_begin(rg_dictionary *d, rg_named_list list) {
    d->list = list;
    return map_names(&d->places, list, "load_state_dict");
}

static rg_tensor *tensor_named(const rg_dictionary *d, const char *name) {
    int64_t at = rgi_map_name(&d->places, name);
    return at < 0 ? NULL : d->list.v[at].tensor;
}

/* ---- torch's list of errors ---------------------------------------------------- */

/* In torch an unexpected key is reported by the last module on the key's path. The path of that
 * module is a prefix of the key. Returns the length of this prefix, which is 0 if the module is *of
 * itself. Sets *of to the last module. */
static size_t reporter(const rg_module **of, const char *key) {
    char name[sizeof((rg_entry *)0)->name];
    size_t end = 0;
    for (const char *rest = key;;) {
        const size_t n = strcspn(rest, ".");
        if (!rest[n] || n >= sizeof name)
            return end;
        memcpy(name, rest, n);
        name[n] = 0;
        const rg_entry *e = rgi_entry_named(*of, name);
        if (!e || e->kind != RG_ENTRY_CHILD)
            return end;
        *of = *e->place;
        end = (size_t)(rest - key) + n;
        rest += n + 1;
    }
}

bool rgi_state_may_lack(const rg_module *m, const char *key) {
    const size_t n = reporter(&m, key);
    const rg_entry *e = rgi_entry_named(m, key + n + (n > 0));
    return e && e->optional;
}

/* Appends a line such as `Missing key(s) in state_dict: "a", "b". `, as torch does. Appends nothing
 * if there are no keys. */
static void complain_of_keys(rg_text *complaint, const char *what, rg_names keys) {
    for (int i = 0; i < keys.n; i++)
        if (i > 0)
            rgi_text_add(complaint, ", \"%s\"", keys.v[i]);
        else
            rgi_text_add(complaint, "\n\t%s key(s) in state_dict: \"%s\"", what, keys.v[i]);
    if (keys.n > 0)
        rgi_text_add(complaint, ". ");
}

/* Lists in l->missing the module's keys that the dictionary lacks and must have. Returns false if
 * memory runs out. */
static bool list_missing(rg_module_load *l) {
    const rg_named_list own = l->own.list;
    const char **v = rgi_scope_alloc((size_t)own.n * sizeof *v);
    l->missing = (rg_names){ 0, v };
    for (int i = 0; v && i < own.n; i++)
        if (!tensor_named(&l->dict, own.v[i].name)
            && !rgi_state_may_lack(l->module, own.v[i].name))
            v[l->missing.n++] = own.v[i].name;
    return v;
}

/* An unexpected key: the index in `modules` of the module that reports it, and the key's index in
 * the dictionary. */
typedef struct unexpected_key {
    int64_t module, at;
} unexpected_key;

static int by_module(const void *a, const void *b) {
    const unexpected_key *x = a, *y = b;
    int64_t difference = x->module != y->module ? x->module - y->module : x->at - y->at;
    return difference < 0 ? -1 : difference > 0;
}

/* Returns the index in the map `modules` of the module that reports the key (see `reporter`).
 * Returns -1 if memory runs out. */
static int64_t reporter_number(rg_module_load *l, const rg_map *modules, const char *key) {
    const rg_module *last = l->module;
    size_t n = reporter(&last, key);
    char *name = rgi_scope_alloc(n + 1);
    if (!name)
        return -1;
    memcpy(name, key, n);
    name[n] = 0;
    return rgi_map_name(modules, name);
}

/* Writes the unexpected keys to `keys`, and returns their number. Returns -1 if memory runs out. */
static int find_unexpected(rg_module_load *l, const rg_map *modules, unexpected_key *keys) {
    rg_named_list dict = l->dict.list;
    int n = 0;
    for (int i = 0; i < dict.n; i++) {
        if (tensor_named(&l->own, dict.v[i].name))
            continue;
        RG_SCOPE();
        keys[n] = (unexpected_key){ reporter_number(l, modules, dict.v[i].name), i };
        if (keys[n].module < 0)
            return -1;
        n++;
    }
    return n;
}

/* Lists in l->unexpected the dictionary's keys that the module doesn't have, in torch's order:
 * sorted by the module that reports the key (see `reporter`). */
static bool list_unexpected(rg_module_load *l) {
    const rg_named_list dict = l->dict.list;
    const rg_named_list modules = rgi_walk("load_state_dict", l->module,
                                           (rg_walk_for){ .modules = true, .saved = true });
    unexpected_key *keys = rgi_scope_alloc((size_t)dict.n * sizeof *keys);
    const char **v = rgi_scope_alloc((size_t)dict.n * sizeof *v);
    rg_map places;
    int n = -1;
    if (modules.n >= 0 && keys && v && map_names(&places, modules, "load_state_dict")) {
        n = find_unexpected(l, &places, keys);
        rgi_map_free(&places);
    }
    if (n > 0)
        qsort(keys, (size_t)n, sizeof *keys, by_module);
    for (int i = 0; i < n; i++)
        v[i] = dict.v[keys[i].at].name;
    l->unexpected = (rg_names){ n, v };
    return n >= 0;
}

static void complain_of_sizes(rg_module_load *l) {
    rg_named_list own = l->own.list;
    for (int i = 0; i < own.n; i++) {
        const rg_tensor *from = tensor_named(&l->dict, own.v[i].name), *to = own.v[i].tensor;
        if (from == RG_NONE)
            rgi_text_add(&l->complaint,
                         "\n\tWhile copying the parameter named \"%s\", expected torch.Tensor or "
                         "Tensor-like object from checkpoint but received RG_NONE",
                         own.v[i].name);
        else if (from && !rgi_same_shape(from, to))
            rgi_text_add(&l->complaint,
                         "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) from "
                         "checkpoint, the shape in current model is torch.Size(%s).",
                         own.v[i].name, RG_SHAPE_TEXT(from), RG_SHAPE_TEXT(to));
    }
}

/* ---- loading a list into a module ---------------------------------------------- */

/* Returns whether each entry has a name, and a tensor or RG_NONE as its value. Fails if not. */
static bool entries_given(rg_named_list dict, const char *op) {
    if (!rgi_given_list(dict.n, dict.v, op))
        return false;
    for (int i = 0; i < dict.n; i++)
        if (!rgi_given(dict.v[i].name, op, "a name")
            || (dict.v[i].tensor != RG_NONE && !rgi_check(dict.v[i].tensor, op)))
            return false;
    return true;
}

bool rgi_state_given(rg_named_list dict, const char *op) {
    rg_map places;
    if (!entries_given(dict, op) || !map_names(&places, dict, op))
        return false;
    rgi_map_free(&places);
    return true;
}

/* Returns whether the dictionary can be loaded. If not, fails with torch's list of errors. */
static bool state_fits(rg_module_load *l, bool strict) {
    if (strict) {
        complain_of_keys(&l->complaint, "Missing", l->missing);
        complain_of_keys(&l->complaint, "Unexpected", l->unexpected);
    }
    complain_of_sizes(l);
    if (!l->complaint.n && !l->complaint.failed)
        return true;
    const char *text = rgi_text_own(&l->complaint);
    return text
           && rgi_fail(RG_RUNTIME_ERROR, "load_state_dict",
                       "Error(s) in loading state_dict for %s:%s", l->module->cls->name, text);
}

/* Copies the values. If a tensor can't be written to, fails before it copies any. */
static bool copy_values(const rg_module_load *l) {
    rg_named_list own = l->own.list;
    for (int i = 0; i < own.n; i++)
        if (tensor_named(&l->dict, own.v[i].name) && !rgi_may_write(own.v[i].tensor, NULL))
            return false;
    for (int i = 0; i < own.n; i++) {
        rg_tensor *from = tensor_named(&l->dict, own.v[i].name);
        if (from && !rg_copy_(own.v[i].tensor, from))
            return false;
    }
    return true;
}

bool rgi_module_load_begin(rg_module_load *l, void *m, rg_named_list dict, bool strict) {
    *l = (rg_module_load){ .module = m };
    rg_named_list own = rg_state_dict(m);
    if (own.n < 0 || !entries_given(dict, "load_state_dict"))
        return false;
    bool ok = dictionary_begin(&l->own, own) && dictionary_begin(&l->dict, dict) && list_missing(l)
              && list_unexpected(l) && state_fits(l, strict);
    return ok || rgi_module_load_end(l, false);
}

bool rgi_module_load_end(rg_module_load *l, bool go) {
    bool done = go && copy_values(l);
    rgi_map_free(&l->own.places);
    rgi_map_free(&l->dict.places);
    return done;
}

/* Copies the names to memory that the scope owns. On failure .n is -1. */
static rg_names names_for_scope(rg_names names) {
    size_t bytes = (size_t)names.n * sizeof(char *);
    for (int i = 0; i < names.n; i++)
        bytes += strlen(names.v[i]) + 1;
    const char **v = rgi_scope_alloc(bytes);
    if (!v)
        return (rg_names){ .n = -1 };
    char *text = (char *)(v + names.n);
    for (int i = 0; i < names.n; i++) {
        const size_t n = strlen(names.v[i]) + 1;
        v[i] = memcpy(text, names.v[i], n);
        text += n;
    }
    return (rg_names){ names.n, v };
}

bool(rg_load_state_dict)(void *m, rg_named_list dict, bool strict) {
    RG_AS("load_state_dict");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_module_load l;
    return rgi_module_load_begin(&l, m, dict, strict) && rgi_module_load_end(&l, true);
}

/* This function opens no scope, because the caller's scope must own the lists that are returned. */
rg_incompatible_keys(rg_load_state_dict_keys)(void *m, rg_named_list dict, bool strict) {
    RG_AS("load_state_dict");
    RG_NO_GRAD();
    const rg_incompatible_keys failed = { { .n = -1 }, { .n = -1 } };
    rg_module_load l;
    if (!rgi_module_load_begin(&l, m, dict, strict))
        return failed;
    const rg_incompatible_keys keys = { names_for_scope(l.missing), names_for_scope(l.unexpected) };
    const bool listed = keys.missing_keys.n >= 0 && keys.unexpected_keys.n >= 0;
    return rgi_module_load_end(&l, listed) ? keys : failed;
}
