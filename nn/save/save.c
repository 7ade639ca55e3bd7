/*
 * save.c: writes a module to a safetensors file and loads it, as save_model and load_model of
 * safetensors.torch do. Tensors that share memory, such as one with several names, are written
 * once.
 */
#include "save.h"
#include "nn/state.h"
#include "tensor/files/safetensors.h"
#include "tensor/load.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"
#include "tensor/text/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors that share memory ------------------------------------------------------ */

/* A tensor of the state_dict (`it`), and the memory that it covers: from the address `begin` of its
 * first element to `end`, the address after its last element. */
typedef struct area {
    const rg_named *it;
    const char *begin, *end;
    /* NULL if the file has the tensor under its own name. Otherwise the name under which the file
     * has it. */
    const char *keeper;
    bool written; /* Set if the file that is being loaded has this tensor's own name. */
} area;

/* Compares two areas by their addresses, so that areas that overlap become adjacent. */
static int by_memory(const void *a, const void *b) {
    const area *x = a, *y = b;
    if (x->begin != y->begin)
        return (uintptr_t)x->begin < (uintptr_t)y->begin ? -1 : 1;
    if (x->end != y->end)
        return (uintptr_t)x->end < (uintptr_t)y->end ? -1 : 1;
    return strcmp(x->it->name, y->it->name);
}

static area area_of(const rg_named *it) {
    return (area){ .it = it, .begin = rgi_data(it->tensor), .end = rgi_data_end(it->tensor) };
}

/* Returns whether x begins inside the area `before`, so that both share memory. Requires that x
 * doesn't begin at a lower address than `before`. */
static bool share(const area *before, const area *x) { return x->begin < before->end; }

/* Fails with safetensors' error, because none of these tensors covers the whole storage that they
 * share. Returns false. */
static bool refuse_group(const char *op, const area *v, int n) {
    rg_text names = { 0 };
    for (int i = 0; i < n; i++)
        rgi_text_add(&names, "%s'%s'", i ? ", " : "", v[i].it->name);
    const char *text = rgi_text_own(&names);
    return text
           && rgi_fail(RG_RUNTIME_ERROR, op,
                       "Error while trying to find names to remove to save state dict, but found no"
                       " suitable name to keep for saving amongst: {%s}. None is covering the"
                       " entire storage.Refusing to save/load the model since you could be storing"
                       " much more memory than needed.",
                       text);
}

/* Chooses one name for a group of tensors that share memory. The file stores them once, under this
 * name. It must be the name of a tensor that covers the whole storage. If there are several such
 * tensors, the first name in alphabetical order is chosen. When loading, names that occur in the
 * file come before others. Fails if no tensor of the group covers the whole storage. */
static bool choose_keeper(const char *op, area *v, int n) {
    const area *best = NULL;
    for (int i = 0; i < n; i++)
        if (rgi_fills_storage(v[i].it->tensor) && (!best || v[i].written > best->written))
            best = &v[i];
    if (!best)
        return refuse_group(op, v, n);
    for (int i = 0; i < n; i++)
        if (&v[i] != best)
            v[i].keeper = best->it->name;
    return true;
}

/* Chooses, for each tensor, the name under which the file has it. A tensor that shares no memory is
 * stored under its own name. Returns false on failure. */
static bool choose_keepers(const char *op, area *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_memory);
    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && share(&v[end - 1], &v[end]);)
            end++;
        if (end - begin > 1 && !choose_keeper(op, v + begin, end - begin))
            return false;
    }
    return true;
}

static int by_area_name(const void *a, const void *b) {
    return strcmp(((const area *)a)->it->name, ((const area *)b)->it->name);
}

/* Lists the module's tensors, sorted by name, with the names that the file has for them. The keys
 * of `file` are the names in the file that is being loaded; when saving, `file` is empty. The scope
 * owns the list. Returns NULL on failure. */
static area *list_areas(const char *op, rg_named_list state, const rg_map *file) {
    area *v = rgi_scope_alloc((size_t)state.n * sizeof *v);
    for (int i = 0; v && i < state.n; i++) {
        v[i] = area_of(&state.v[i]);
        v[i].written = rgi_map_name(file, state.v[i].name) >= 0;
    }
    if (!v || !choose_keepers(op, v, state.n))
        return NULL;
    qsort(v, (size_t)state.n, sizeof *v, by_area_name);
    return v;
}

/* ---- saving a module ---------------------------------------------------------------- */

static bool has_key(rg_metadata m, const char *key) {
    for (int i = 0; i < m.n; i++)
        if (m.v[i].key && strcmp(m.v[i].key, key) == 0)
            return true;
    return false;
}

bool(rg_module_save_with)(void *m, const char *path, rg_save_file_options o) {
    const char *op = "module_save";
    RG_AS("module_save");
    RG_SCOPE();
    rg_named_list state = rg_state_dict(m);
    if (state.n < 0 || !rgi_given_list(o.metadata.n, o.metadata.v, op))
        return false;
    const area *areas = list_areas(op, state, &(rg_map){ 0 });
    if (!areas)
        return false;
    rg_named *kept = rgi_scope_alloc((size_t)state.n * sizeof *kept);
    rg_metadata_pair *pairs =
        rgi_scope_alloc(((size_t)o.metadata.n + (size_t)state.n) * sizeof *pairs);
    if (!kept || !pairs)
        return false;
    rg_named_list tensors = { 0, kept };
    rg_metadata metadata = { o.metadata.n, pairs };
    for (int i = 0; i < o.metadata.n; i++)
        pairs[i] = o.metadata.v[i];
    for (int i = 0; i < state.n; i++)
        if (!areas[i].keeper)
            kept[tensors.n++] = *areas[i].it;
        else if (!has_key(o.metadata, areas[i].it->name))
            pairs[metadata.n++] = (rg_metadata_pair){ areas[i].it->name, areas[i].keeper };
    o.metadata = metadata;
    return rgi_safetensors_save(op, tensors, path, &o);
}

/* ---- loading a module --------------------------------------------------------------- */

/* A module that is being loaded, its state_dict (`state`), and the tensors in the file (`file`). */
typedef struct module_loading {
    rg_module *module;
    rg_named_list state, file;
    rg_map state_names, file_names;
    rg_incompatible_keys keys; /* The names that don't match, sorted. */
} module_loading;

static bool index_names(rg_map *map, rg_named_list list) {
    for (int i = 0; i < list.n; i++)
        if (!rgi_map_put_name(map, list.v[i].name, i))
            return false;
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the names in the file that are unexpected, because the module doesn't have them, or because
 * the file should have their tensor under another name. */
static bool find_unexpected_names(module_loading *l, const area *areas) {
    const char **names = rgi_scope_alloc(((size_t)l->file.n + (size_t)l->state.n) * sizeof *names);
    int n = 0;
    if (!names)
        return false;
    for (int i = 0; i < l->file.n; i++)
        if (rgi_map_name(&l->state_names, l->file.v[i].name) < 0)
            names[n++] = l->file.v[i].name;
    for (int i = 0; i < l->state.n; i++)
        if (areas[i].keeper && areas[i].written)
            names[n++] = areas[i].it->name;
    qsort(names, (size_t)n, sizeof *names, by_text);
    l->keys.unexpected_keys = (rg_names){ n, names };
    return true;
}

static bool find_missing_names(module_loading *l, const area *areas) {
    const char **names = rgi_scope_alloc((size_t)l->state.n * sizeof *names);
    int n = 0;
    for (int i = 0; names && i < l->state.n; i++)
        if (!areas[i].keeper && !areas[i].written
            && !rgi_state_may_lack(l->module, areas[i].it->name))
            names[n++] = areas[i].it->name;
    l->keys.missing_keys = (rg_names){ n, names };
    return names;
}

/* Returns whether each tensor in the file has the shape of the module's tensor with the same name.
 * Tensors that the module doesn't have are skipped. */
static bool shapes_fit(const module_loading *l) {
    for (int i = 0; i < l->file.n; i++) {
        int64_t at = rgi_map_name(&l->state_names, l->file.v[i].name);
        if (at >= 0 && !rgi_have_same_shape(l->file.v[i].tensor, l->state.v[at].tensor))
            return false;
    }
    return true;
}

static void add_names(rg_text *to, const char *what, rg_names names) {
    for (int i = 0; i < names.n; i++)
        if (i > 0)
            rgi_text_add(to, ", \"%s\"", names.v[i]);
        else
            rgi_text_add(to, "\n    %s key(s) in state_dict: \"%s\"", what, names.v[i]);
}

/* Lists the missing and the unexpected names. With `strict`, fails as load_model does if there are
 * any. But if a shape is wrong as well, returns true, because load_state_dict will then fail and
 * report the shape. */
static bool names_fit(module_loading *l, bool strict) {
    const area *areas = list_areas("module_load", l->state, &l->file_names);
    if (!areas || !find_missing_names(l, areas) || !find_unexpected_names(l, areas))
        return false;
    const int n = l->keys.missing_keys.n + l->keys.unexpected_keys.n;
    if (n == 0 || !strict || !shapes_fit(l))
        return true;
    rg_text text = { 0 };
    add_names(&text, "Missing", l->keys.missing_keys);
    add_names(&text, "Unexpected", l->keys.unexpected_keys);
    const char *complaint = rgi_text_own(&text);
    return complaint
           && rgi_fail(RG_RUNTIME_ERROR, "module_load", "Error(s) in loading state_dict for %s:%s",
                       l->module->cls->name, complaint);
}

static bool load_module(void *m, const char *path, const rg_module_load_options *o) {
    module_loading l = { .module = m, .state = rg_state_dict(m) };
    if (l.state.n < 0)
        return false;
    l.file = rg_load_file(path);
    bool ok = l.file.n >= 0 && index_names(&l.state_names, l.state)
              && index_names(&l.file_names, l.file);
    ok = ok && ((!o->strict && !o->keys) || names_fit(&l, o->strict))
         && rg_load_state_dict(m, l.file, false);
    rgi_map_free(&l.state_names);
    rgi_map_free(&l.file_names);
    for (int i = 0; i < l.file.n; i++)
        rg_drop(l.file.v[i].tensor);
    if (o->keys)
        *o->keys = ok ? l.keys : (rg_incompatible_keys){ { .n = -1 }, { .n = -1 } };
    return ok;
}

bool(rg_module_load_with)(void *m, const char *path, rg_module_load_options o) {
    RG_AS("module_load");
    RG_LOADING("module_load", path);
    if (o.keys)
        /* The missing and unexpected keys are returned in *o.keys, so their strings must belong to
         * the caller's scope. Therefore no RG_SCOPE is opened in this case. */
        return load_module(m, path, &o);
    RG_SCOPE();
    return load_module(m, path, &o);
}
