/*
 * tie.c: makes two registered fields share a parameter. It also has the list of all modules, in
 * which it looks up the fields.
 */
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/threads/lock.h"

#include <string.h>

static rg_module *modules; /* The first module of the list. RG_LOCK_MODULES guards the list. */

void rgi_list_module(rg_module *m) {
    rgi_lock(RG_LOCK_MODULES);
    m->registry->next = modules;
    m->registry->link = &modules;
    if (modules)
        modules->registry->link = &m->registry->next;
    modules = m;
    rgi_unlock(RG_LOCK_MODULES);
}

void rgi_unlist_module(rg_module *m) {
    rgi_lock(RG_LOCK_MODULES);
    rg_module *next = m->registry->next;
    *m->registry->link = next;
    if (next)
        next->registry->link = m->registry->link;
    rgi_unlock(RG_LOCK_MODULES);
}

bool rgi_grow_entries(rg_registry *r) {
    rg_entry *before = r->entries, *v = NULL;
    const size_t room_before = r->room;
    size_t room = 0;
    if (r->n < room_before)
        return true;
    /* The lock isn't held here: a request that fails may call a function of the program. */
    if (!rgi_grow((void **)&v, &room, RG_MAX(1, 2 * room_before), sizeof *v))
        return false;
    if (before)
        memcpy(v, before, r->n * sizeof *v);
    rgi_lock(RG_LOCK_MODULES);
    r->entries = v;
    r->room = room;
    rgi_unlock(RG_LOCK_MODULES);
    rgi_free(before, room_before * sizeof *before, RG_MEM_OTHER);
    return true;
}

/* Returns whether a parameter is registered in the field `place`, in any module. */
static bool holds_parameter(rg_tensor *const *place) {
    bool found = false;
    rgi_lock(RG_LOCK_MODULES);
    for (const rg_module *m = modules; m && !found; m = m->registry->next)
        for (RG_EACH_ENTRY(e, m))
            found |= e->kind == RG_ENTRY_PARAMETER && e->place == (void *)place;
    rgi_unlock(RG_LOCK_MODULES);
    return found;
}

bool rgi_is_assigned_over(const rg_tensor *parameter) {
    const char *path = rgi_name_of(parameter), *dot = path ? strrchr(path, '.') : NULL;
    const char *name = dot ? dot + 1 : path;
    bool held = false, other = false;
    rgi_lock(RG_LOCK_MODULES);
    for (const rg_module *m = modules; name && m && !held; m = m->registry->next)
        for (RG_EACH_ENTRY(e, m)) {
            const rg_tensor *t = *e->place;
            if (e->kind != RG_ENTRY_PARAMETER || !t || t == RG_NONE)
                continue;
            held |= t == parameter;
            other |= !(t->flags & RG_IS_PARAMETER) && strcmp(e->name, name) == 0;
        }
    rgi_unlock(RG_LOCK_MODULES);
    return other && !held;
}

bool rg_tie(rg_tensor **place, rg_tensor *parameter) {
    const char *op = "tie";
    if (!rgi_given(place, op, "a place") || !rgi_check(*place, op) || !rgi_check(parameter, op))
        return false;
    RG_FAIL_VALUE_IF(!holds_parameter(place) || !(*place)->kept, op,
                     "the place isn't the registered field of a parameter, such as &fc->weight");
    RG_FAIL_VALUE_IF(!(parameter->flags & RG_IS_PARAMETER) || !parameter->kept, op,
                     "expected a module's parameter");
    RG_FAIL_VALUE_IF((*place)->dtype != parameter->dtype || !rgi_same_shape(*place, parameter), op,
                     "expected a parameter of shape %s and dtype %s, but got %s and %s",
                     RG_SHAPE_TEXT(*place), rg_dtype_name((*place)->dtype),
                     RG_SHAPE_TEXT(parameter), rg_dtype_name(parameter->dtype));
    rg_keep(parameter);
    rgi_replacements++;
    rgi_drop_as(*place, RG_MODULE_FREED);
    *place = parameter;
    return true;
}
