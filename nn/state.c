/*
 * state.c: a module's values by name, as state_dict has them, and how they are loaded.
 */
#include "registry.h"
#include "tensor/error.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/text.h"

rg_named_list rg_state_dict(void *m) {
    return rgi_walk("state_dict", m,
                    (rg_walk_for){ .parameters = true, .buffers = true, .saved = true });
}

static rg_tensor *tensor_named(rg_named_list l, const char *name) {
    for (int i = 0; i < l.n; i++)
        if (strcmp(l.v[i].name, name) == 0)
            return l.v[i].tensor;
    return NULL;
}

/* ---- complaints ---------------------------------------------------------------- */

/* In torch, the last module on an unexpected key's way down the tree reports the key. Returns the
 * length of that module's name, with which the key begins. */
static size_t reporter(rg_module *m, const char *key) {
    size_t n = strcspn(key, ".");
    if (!key[n])
        return 0;
    for (RG_EACH_ENTRY(e, m)) {
        if (e->kind != RG_ENTRY_CHILD || strlen(e->name) != n || strncmp(e->name, key, n))
            continue;
        size_t more = reporter(*e->place, key + n + 1);
        return n + (more ? more + 1 : 0);
    }
    return 0;
}

/* Adds one key to torch's `Missing key(s) in state_dict: "a", "b". `, and counts it in *so_far. */
static void complain_of_key(rg_text *complaint, const char *what, int *so_far, const char *key) {
    if ((*so_far)++)
        rgi_text_add(complaint, ", \"%s\"", key);
    else
        rgi_text_add(complaint, "\n\t%s key(s) in state_dict: \"%s\"", what, key);
}

static void complain_of_missing(rg_text *complaint, rg_named_list own, rg_named_list dict) {
    int missing = 0;
    for (int i = 0; i < own.n; i++)
        if (!tensor_named(dict, own.v[i].name))
            complain_of_key(complaint, "Missing", &missing, own.v[i].name);
    if (missing)
        rgi_text_add(complaint, ". ");
}

/* torch lists unexpected keys module by module. */
static void complain_of_unexpected(rg_text *complaint, rg_module *m, rg_named_list own,
                                   rg_named_list dict) {
    int unexpected = 0;
    rg_named_list modules = rgi_walk("load_state_dict", m,
                                     (rg_walk_for){ .modules = true, .saved = true });
    for (int k = 0; k < modules.n; k++)
        for (int i = 0; i < dict.n; i++) {
            const char *key = dict.v[i].name, *module = modules.v[k].name;
            size_t n = reporter(m, key);
            if (n == strlen(module) && !strncmp(module, key, n) && !tensor_named(own, key))
                complain_of_key(complaint, "Unexpected", &unexpected, key);
        }
    if (unexpected)
        rgi_text_add(complaint, ". ");
    complaint->failed |= modules.n < 0;
}

static void complain_of_sizes(rg_text *complaint, rg_named_list own, rg_named_list dict) {
    for (int i = 0; i < own.n; i++) {
        const rg_tensor *from = tensor_named(dict, own.v[i].name), *to = own.v[i].tensor;
        if (from && !rgi_same_shape(from, to))
            rgi_text_add(complaint,
                         "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) from "
                         "checkpoint, the shape in current model is torch.Size(%s).",
                         own.v[i].name, RG_SHAPE_TEXT(from), RG_SHAPE_TEXT(to));
    }
}

/* ---- loading ------------------------------------------------------------------- */

static bool dict_given(rg_named_list dict) {
    if (!rgi_given_list(dict.n, dict.v, "load_state_dict"))
        return false;
    for (int i = 0; i < dict.n; i++)
        if (!rgi_given(dict.v[i].name, "load_state_dict", "a name")
            || !rgi_check(dict.v[i].tensor, "load_state_dict"))
            return false;
    return true;
}

bool rg_load_state_dict(void *m, rg_named_list dict, bool strict) {
    RG_AS("load_state_dict");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_named_list own = rg_state_dict(m);
    if (own.n < 0 || !dict_given(dict))
        return false;
    rg_text complaint = { 0 };
    if (strict) {
        complain_of_missing(&complaint, own, dict);
        complain_of_unexpected(&complaint, m, own, dict);
    }
    complain_of_sizes(&complaint, own, dict);
    if (complaint.n || complaint.failed) {
        const char *text = rgi_text_own(&complaint);
        return text
               && rgi_fail(RG_RUNTIME_ERROR, "load_state_dict",
                           "Error(s) in loading state_dict for %s:%s", ((rg_module *)m)->cls->name,
                           text);
    }
    for (int i = 0; i < own.n; i++) {
        rg_tensor *from = tensor_named(dict, own.v[i].name);
        if (from && !rg_copy_(own.v[i].tensor, from))
            return false;
    }
    return true;
}
