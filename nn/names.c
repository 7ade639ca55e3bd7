/*
 * names.c: a module's path, and the names of the parameters in a tree of modules.
 */
#include "registry.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/text/text.h"

#include <stdio.h>
#include <string.h>

rg_module *rgi_module_parent(const rg_module *m) { return m->registry->parent; }

/* Returns m's name in its first parent. */
static const char *name_in_parent(const rg_module *m) {
    return m->registry->parent->registry->entries[m->registry->at].name;
}

/* Writes the names from right to left: m's own name first, the name below the root last. */
size_t rgi_module_path(const rg_module *m, char *text, size_t room) {
    size_t length = 0;
    for (const rg_module *at = m; at->registry->parent; at = at->registry->parent)
        length += strlen(name_in_parent(at)) + (length > 0);
    size_t end = length;
    for (; m->registry->parent; m = m->registry->parent) {
        const char *name = name_in_parent(m);
        const size_t begin = end - strlen(name);
        for (size_t i = begin; i < end && i < room; i++)
            text[i] = name[i - begin];
        end = begin - (begin > 0);
        if (end < begin && end < room)
            text[end] = '.';
    }
    length = RG_MIN(room - 1, length);
    text[length] = 0;
    return length;
}

/* Returns "above.below", or only "below" if `above` is "". The scope owns the string. Returns NULL
 * if memory runs out. */
static const char *path_below(const char *above, const char *below) {
    rg_text path = { 0 };
    rgi_text_add(&path, "%s%s%s", above, *above ? "." : "", below);
    return rgi_text_own(&path);
}

/* If the parameter t.tensor has the name "from.path", renames it to "to.path", where path is
 * t.name. If `from` or `to` is empty, the dot is left out. Any other name is kept. Returns false if
 * memory runs out. */
static bool rename_one(rg_named t, const char *from, const char *to) {
    const char *before = path_below(from, t.name);
    if (!before)
        return false;
    if (strcmp(rg_name(t.tensor), before))
        return true;
    const char *name = path_below(to, t.name);
    return name && rg_set_name(t.tensor, name);
}

bool rgi_rename_below(rg_module *m, const char *from, const char *to) {
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    for (int i = 0; i < l.n; i++)
        if (!rename_one(l.v[i], from, to))
            return false;
    return l.n >= 0;
}

bool rgi_name_child(rg_module *m, const char *name, rg_module *child) {
    RG_AS("register_child");
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(child);
    if (l.n < 1)
        return l.n == 0;
    char above[RG_PATH_ROOM];
    rgi_module_path(m, above, sizeof above);
    const char *path = path_below(above, name);
    for (int i = 0; i < l.n && path; i++)
        if (!rename_one(l.v[i], "", path))
            return false;
    return path;
}
