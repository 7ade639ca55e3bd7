/*
 * torch_entries.c: turns the value of a pickle into a list of named tensors. Values in nested
 * dicts, lists and tuples get names with dots. Numbers and bools become 0-d tensors. Other values
 * that aren't tensors, such as None and strings, become RG_NONE.
 */
#include "torch_file.h"

#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/unheld.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    /* The greatest number of values that are visited for each byte of a pickle. A limit is needed
     * because a container may be in several other containers, and is visited in each of them. */
    VISITS_A_BYTE = 4,
    LETTERS_A_BYTE = 256, /* The greatest length of all names together, per byte of a pickle. */
};

/* An entry of the list. `name` is the offset of the entry's name in torch_walk.names. */
typedef struct {
    size_t name;
    rg_tensor *tensor;
} torch_entry;

/* A walk through the pickle's value. `path` is the name of the value that is visited now. `names`
 * has the names of all entries, each followed by a byte 0. `known` is the set of these names. */
typedef struct {
    rg_torch_reader *reader;
    rg_text path, names;
    torch_entry *v;
    size_t n, room, visits;
    rg_map known;
} torch_walk;

static bool walk_value(torch_walk *w, uint32_t value, int depth);

/* Fails with a message about the value that is visited, and evaluates to false. */
#define REFUSE_VALUE(w, format, ...)                            \
    rgi_file_refuse((w)->reader->file, "entry \"%s\": " format, \
                    RG_SHOWN((w)->path.v ? (w)->path.v : ""), ##__VA_ARGS__)

/* ---- adding entries ------------------------------------------------------------------- */

/* Adds an entry with the name w->path. The entry gets the caller's reference to the tensor; on
 * failure the reference is released, and the function returns false. */
static bool add_torch_entry(torch_walk *w, rg_tensor *tensor) {
    const char *name = w->path.v ? w->path.v : "";
    size_t at = w->names.n;
    bool ok = false;
    if (rgi_map_name(&w->known, name) >= 0)
        REFUSE_VALUE(w, "it comes twice");
    else if (at / LETTERS_A_BYTE > w->reader->pickle.n)
        REFUSE_VALUE(w, "the names are longer than the pickle's bytes can say");
    else
        ok = rgi_map_put_name(&w->known, name, (int64_t)w->n)
             && rgi_grow((void **)&w->v, &w->room, w->n + 1, sizeof *w->v);
    if (ok) {
        rgi_text_add(&w->names, "%s%c", name, 0);
        ok = !w->names.failed;
    }
    if (!ok) {
        rgi_release(tensor);
        return false;
    }
    w->v[w->n++] = (torch_entry){ at, tensor };
    return true;
}

static bool add_torch_number(torch_walk *w, const rg_pickle_value *v) {
    static const rg_dtype dtypes[] = {
        [RG_PICKLE_BOOL] = RG_BOOL,
        [RG_PICKLE_INT] = RG_INT64,
        [RG_PICKLE_FLOAT] = RG_FLOAT64,
    };
    rg_tensor *t = rgi_new(dtypes[v->kind], 0, NULL);
    if (!t)
        return false;
    if (v->kind == RG_PICKLE_BOOL)
        *(bool *)t->data = v->i;
    else
        memcpy(t->data, &v->i, sizeof v->i);
    return add_torch_entry(w, t);
}

/* Adds an entry for an integer that int64 can't hold. Its tensor has the state RG_UNHELD, so that
 * functions that are given the tensor fail. */
static bool add_large_integer(torch_walk *w) {
    RG_SCOPE();
    rg_text sentence = { 0 };
    rgi_text_add(&sentence, "entry \"%s\" of '%s': it is an integer that int64 can't hold",
                 RG_SHOWN(w->path.v ? w->path.v : ""), w->reader->file->path);
    const char *name = rgi_text_own(&sentence);
    rg_tensor *t = name ? rgi_new(RG_INT64, 0, NULL) : NULL;
    if (!t)
        return false;
    if (!rg_set_name(t, name)) {
        rgi_release(t);
        return false;
    }
    *(int64_t *)t->data = 0;
    t->state = RG_UNHELD;
    return add_torch_entry(w, t);
}

static bool add_torch_tensor(torch_walk *w, uint32_t value) {
    rg_tensor *t = rgi_torch_tensor(w->reader, value, w->path.v ? w->path.v : "");
    if (!t)
        return false;
    rgi_retain(t);
    return add_torch_entry(w, t);
}

/* ---- visiting containers -------------------------------------------------------------- */

/* Visits a value in a container. The value's name is the current path, a dot (except at depth 0),
 * and the n bytes of `text`. Returns false on failure. */
static bool walk_below(torch_walk *w, const char *text, size_t n, uint32_t value, int depth) {
    const size_t before = w->path.n;
    if (memchr(text, 0, n))
        return REFUSE_VALUE(w, "a key in it holds a 0");
    rgi_text_add(&w->path, "%s%.*s", depth > 0 ? "." : "", (int)n, text);
    if (w->path.failed || !walk_value(w, value, depth + 1))
        return false;
    w->path.n = before;
    w->path.v[before] = 0;
    return true;
}

static bool walk_numbered(torch_walk *w, int64_t number, uint32_t value, int depth) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return walk_below(w, digits, (size_t)n, value, depth);
}

static bool walk_list(torch_walk *w, uint32_t list, int depth) {
    const rg_pickle *p = &w->reader->pickle;
    int64_t i = 0;
    for (RG_EACH_ITEM(cell, p, list))
        if (!walk_numbered(w, i++, p->cells[cell].value, depth))
            return false;
    return true;
}

static bool walk_pair(torch_walk *w, uint32_t key, uint32_t value, int depth) {
    const rg_pickle *p = &w->reader->pickle;
    const rg_pickle_value *k = &p->v[key];
    if (k->kind == RG_PICKLE_INT)
        return walk_numbered(w, k->i, value, depth);
    if (k->kind != RG_PICKLE_TEXT)
        return REFUSE_VALUE(w, "a key in it is %s, and no str and no int",
                            rgi_pickle_kind_name(p, key));
    return walk_below(w, k->v, k->n, value, depth);
}

static bool walk_dict(torch_walk *w, uint32_t dict, int depth) {
    const rg_pickle *p = &w->reader->pickle;
    uint32_t key = 0;
    bool has_key = false;
    for (RG_EACH_ITEM(cell, p, dict)) {
        uint32_t item = p->cells[cell].value;
        if (has_key && !walk_pair(w, key, item, depth))
            return false;
        has_key = !has_key;
        key = item;
    }
    return true;
}

static bool walk_container(torch_walk *w, uint32_t value, int depth) {
    rg_pickle_value *v = &w->reader->pickle.v[value];
    if (v->open)
        return REFUSE_VALUE(w, "it is in itself");
    if (depth >= RG_PICKLE_DEPTH)
        return REFUSE_VALUE(w, RG_PICKLE_TOO_DEEP, RG_PICKLE_DEPTH);
    v->open = true;
    bool ok = v->kind == RG_PICKLE_DICT ? walk_dict(w, value, depth) : walk_list(w, value, depth);
    v->open = false;
    return ok;
}

static bool walk_value(torch_walk *w, uint32_t value, int depth) {
    const rg_pickle *p = &w->reader->pickle;
    const rg_pickle_value *v = &p->v[value];
    if (w->visits++ / VISITS_A_BYTE > p->n || w->n >= INT_MAX)
        return REFUSE_VALUE(w, "there are more values than the pickle's bytes can say");
    switch ((rg_pickle_kind)v->kind) {
    case RG_PICKLE_TUPLE:
    case RG_PICKLE_LIST:
    case RG_PICKLE_DICT: return walk_container(w, value, depth);
    case RG_PICKLE_STORAGE:
    case RG_PICKLE_TENSOR: return add_torch_tensor(w, value);
    case RG_PICKLE_BOOL:
    case RG_PICKLE_INT:
    case RG_PICKLE_FLOAT: return add_torch_number(w, v);
    case RG_PICKLE_LONG: return add_large_integer(w);
    case RG_PICKLE_NONE:
    case RG_PICKLE_TEXT:
    case RG_PICKLE_BYTES:
    case RG_PICKLE_SET:
    case RG_PICKLE_GLOBAL:
    case RG_PICKLE_OTHER: break;
    }
    return add_torch_entry(w, RG_NONE);
}

/* ---- making the list ------------------------------------------------------------------ */

/* Returns the entries as a list. The innermost scope owns the list, the names and the tensors. A
 * list with .n == -1 means that memory ran out. */
static rg_named_list own_entries(torch_walk *w) {
    const rg_named_list failed = { .n = -1 };
    rg_named *v = rgi_scope_alloc(w->n * sizeof *v);
    char *names = rgi_scope_alloc(w->names.n + 1);
    if (!v || !names)
        return failed;
    if (w->names.n)
        memcpy(names, w->names.v, w->names.n);
    bool ok = true;
    for (size_t i = 0; i < w->n; i++) {
        v[i] = (rg_named){ names + w->v[i].name, rgi_own(w->v[i].tensor) };
        w->v[i].tensor = NULL;
        ok &= v[i].tensor != NULL;
    }
    return ok ? (rg_named_list){ (int)w->n, v } : failed;
}

rg_named_list rgi_torch_entries(rg_torch_reader *r) {
    rg_named_list list = { .n = -1 };
    torch_walk w = { .reader = r };
    r->made_room = r->pickle.n_values * sizeof *r->made;
    r->made = rgi_alloc(r->made_room, RG_MEM_OTHER);
    if (r->made) {
        memset(r->made, 0, r->made_room);
        if (walk_value(&w, r->pickle.result, 0))
            list = own_entries(&w);
    }
    for (size_t i = 0; i < w.n; i++)
        rgi_release(w.v[i].tensor);
    rgi_free(w.v, w.room * sizeof *w.v, RG_MEM_OTHER);
    rgi_text_free(&w.path);
    rgi_text_free(&w.names);
    rgi_map_free(&w.known);
    return list;
}
