/*
 * module.c: makes a module, registers its parameters, buffers and children, and frees it. Calls of
 * a module are in call.c, functions on a module and all modules below it in tree.c, and names in
 * names.c.
 */
#include "registry.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/system/stack.h"
#include "tensor/text/text.h"
#include "tensor/threads/lock.h"

#include <stdio.h>

/* ---- making a module ----------------------------------------------------------- */

void *(rg_module_new)(size_t bytes, const rg_module_class *cls, const void *fields) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !cls || !cls->name, "module", "a module's class must have a name");
    RG_FAIL_VALUE_IF(!fields || bytes < sizeof(rg_module) || bytes > PTRDIFF_MAX / 2, cls->name,
                     "a module of %zu bytes doesn't begin with an rg_module", bytes);
    size_t both = (bytes + 7) / 8 * 8 + sizeof(rg_registry);
    rg_module *m = rgi_alloc(both, RG_MEM_OTHER);
    if (!m)
        return NULL;
    memcpy(m, fields, bytes);
    *m = (rg_module){ .handle = RG_NEW_HANDLE(MODULE),
                      .cls = cls,
                      .training = true,
                      .registry = (rg_registry *)((char *)m + both) - 1 };
    *m->registry = (rg_registry){ .bytes = both };
    rgi_list_module(m);
    return m;
}

void *(rg_module_ready)(void *module) {
    rg_module *m = module;
    if (!m)
        return NULL;
    if (m->failed) {
        rgi_refuse_unfinished(m, m->cls->name);
        rg_module_free(m);
        return NULL;
    }
    m->registry->ready = true;
    return m;
}

/* ---- the check that a pointer is a module -------------------------------------- */

/* Fails because m is no module. If m is a tensor, the error message is torch's. (The compiler can't
 * refuse a tensor where a function takes a void *.) */
__attribute__((cold)) static bool refuse_module(const rg_module *m, const char *op) {
    const bool tensor = m && (const void *)m != RG_NONE && rgi_is_tensor(m);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, tensor, op, "torch.%sTensor is not a Module subclass",
                  rgi_scalar_name((rg_dtype)((const rg_tensor *)(const void *)m)->dtype));
    return rgi_refuse_handle(m, op, RG_HANDLE_MODULE);
}

bool rgi_module_given(const rg_module *m, const char *op) {
    return RG_LIKELY(rgi_is_module(m)) || refuse_module(m, op);
}

/* ---- freeing a module ---------------------------------------------------------- */

static bool is_kept(const rg_tensor *t) {
    return t && (t == RG_NONE || (t->state == RG_ALIVE && t->kept));
}

static bool is_child(const rg_module *m) { return rgi_is_module(m) && m->registry->parents; }

bool rgi_is_registered(const char *op, const rg_entry *e) {
    if (e->kind == RG_ENTRY_CHILD) {
        rg_module *child = *e->place;
        if (!rgi_module_given(child, op))
            return false;
        RG_FAIL_IF(!is_child(child), op,
                   "the module in '%s' isn't registered: RG_CHILD, or a container's _set, puts it "
                   "there",
                   e->name);
        return true;
    }
    rg_tensor *t = *e->place;
    RG_FAIL_IF(t && !is_kept(t), op,
               "the tensor in '%s' isn't registered: RG_PARAMETER or RG_BUFFER puts it there",
               e->name);
    return rgi_given(t, op, "a tensor");
}

/* Releases a value that m's entry held. A value that isn't registered is not released: the program
 * has assigned it to the field, and still owns it. A child is only separated from m and returned,
 * and the caller frees it. In all other cases returns NULL. */
static rg_module *release_value(const rg_module *m, rg_entry_kind kind, void *value) {
    if (kind != RG_ENTRY_CHILD) {
        if (is_kept(value))
            rgi_drop_as(value, RG_MODULE_FREED);
        return NULL;
    }
    rg_module *child = value;
    if (!is_child(child))
        return NULL;
    child->registry->parents--;
    if (child->registry->parent == m)
        child->registry->parent = NULL;
    return child;
}

rg_module_observer rgi_module_observer;

void rgi_module_end(rg_module *m) {
    rg_registry *r = m->registry;
    if (rgi_module_observer.ended)
        rgi_module_observer.ended(m);
    rgi_unlist_module(m);
    rgi_hook_list_free(&r->hooks);
    rgi_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    rgi_map_free(&r->names);
    rgi_free_handle(&m->handle, r->bytes);
}

/* Begins to free m. `above` is the module that is freed after m, or NULL. Returns the module with
 * which rg_module_free goes on: m, or `above` if m is NULL or can't be freed now. */
static rg_module *free_begin(rg_module *m, rg_module *above) {
    if (!m || !rgi_module_given(m, "module_free") || m->registry->parents || rgi_free_after_call(m)
        || !rgi_may_free(m))
        return above;
    rgi_module_begin_use(m, "module_free");
    m->registry->freed_after = above;
    m->registry->held = m->registry->n;
    return m;
}

/* Frees a module after the modules below it. There is no recursion, so a tree may have any depth.
 * Instead, `freed_after` leads from each module that is being freed to the one above it. */
void(rg_module_free)(void *module) {
    rg_module *m = free_begin(module, NULL);
    while (m) {
        rg_registry *r = m->registry;
        if (r->held > 0) {
            const rg_entry *e = &r->entries[--r->held];
            rg_module *child = release_value(m, e->kind, *e->place);
            m = child ? free_begin(child, m) : m;
            continue;
        }
        rg_module *above = r->freed_after;
        if (m->cls->destroy)
            m->cls->destroy(m);
        rgi_module_end(m);
        m = above;
    }
}

/* ---- entries by name ----------------------------------------------------------- */

/* A module with at most this number of entries is searched by comparing names. With more entries,
 * the map is used. */
enum { FEW_ENTRIES = 16 };

rg_entry *rgi_entry_named(const rg_module *m, const char *name) {
    const rg_registry *r = m->registry;
    if (rgi_map_names(&r->names) == r->n && r->n) {
        int64_t at = rgi_map_name(&r->names, name);
        return at < 0 ? NULL : &r->entries[at];
    }
    for (RG_EACH_ENTRY(e, m))
        if (!strcmp(e->name, name))
            return e;
    return NULL;
}

/* Appends the entry. If there are more than FEW_ENTRIES now, adds to the map all names that it
 * lacks. Usually this is only the new name. Returns NULL if memory runs out; then the entry isn't
 * appended, and the map may be empty. */
rg_entry *rgi_add_entry(rg_registry *r, rg_entry entry) {
    if (!rgi_grow_entries(r))
        return NULL;
    r->entries[r->n] = entry;
    for (size_t i = rgi_map_names(&r->names); r->n >= FEW_ENTRIES && i <= r->n; i++)
        if (!rgi_map_put_name(&r->names, r->entries[i].name, (int64_t)i))
            return NULL;
    rgi_lock(RG_LOCK_MODULES); /* Another thread's rg_tie may read r->n. */
    rg_entry *e = &r->entries[r->n++];
    rgi_unlock(RG_LOCK_MODULES);
    return e;
}

/* ---- registering parameters, buffers and children ------------------------------ */

/* Returns the entry of a field of m's struct, or NULL if there is none. */
static rg_entry *entry_of_field(const rg_module *m, void **place) {
    if ((uintptr_t)place - (uintptr_t)m < m->registry->bytes)
        for (RG_EACH_ENTRY(e, m))
            if (e->place == place)
                return e;
    return NULL;
}

/* Returns whether a value may be registered under the name, and fails if not. If the name is
 * registered already, with the same kind and field, the new value will replace the old one. */
static bool may_enter(rg_module *m, rg_entry_kind kind, const char *name, void **place) {
    static const char *const kinds[] = { "parameter", "buffer", "module" };
    const char *cls = m->cls->name;
    RG_FAIL_VALUE_IF(!*name, cls, "%s name can't be empty string \"\"", kinds[kind]);
    RG_FAIL_VALUE_IF(strchr(name, '.'), cls, "%s name can't contain \".\"", kinds[kind]);
    RG_FAIL_VALUE_IF(strlen(name) >= sizeof((rg_entry *)0)->name, cls, "the name '%s' is too long",
                     name);
    const rg_entry *e = rgi_entry_named(m, name);
    RG_FAIL_VALUE_IF(e && (e->kind != kind || e->place != place), cls,
                     "attribute '%s' already exists", name);
    e = e ? NULL : entry_of_field(m, place);
    RG_FAIL_VALUE_IF(e, cls, "the field of '%s' is registered as '%s' already", name, e->name);
    return true;
}

void rgi_join_parent(rg_module *m, const rg_entry *e, rg_module *child) {
    rg_registry *r = child->registry;
    r->parents++;
    if (!r->parent) {
        r->parent = m;
        r->at = (size_t)(e - m->registry->entries);
    }
}

/* Stores the value in the field `place`, makes m an owner of the value, and returns its entry.
 * Releases the field's previous value. Returns NULL if memory runs out. */
static rg_entry *put_value(rg_module *m, rg_entry_kind kind, const char *name, void **place,
                           void *value) {
    rg_entry *e = rgi_entry_named(m, name);
    void *before = e ? *place : NULL;
    if (!e) {
        rg_entry entry = { .kind = kind, .place = place };
        strcpy(entry.name, name);
        e = rgi_add_entry(m->registry, entry);
    }
    if (!e)
        return NULL;
    /* From here on nothing can fail, so m takes the value over from its owner. */
    if (kind != RG_ENTRY_CHILD && value != RG_NONE)
        rg_keep(value);
    *place = value;
    if (kind == RG_ENTRY_CHILD)
        rgi_join_parent(m, e, value);
    if (before) {
        rgi_replacements++;
        rg_module_free(release_value(m, kind, before));
    }
    return e;
}

/* Registers the value and returns its entry. On failure returns NULL, and leaves the value to its
 * owner. A failure before rg_module_ready marks m as failed; a later failure leaves m unchanged. */
static rg_entry *enter(rg_module *m, rg_entry_kind kind, const char *name, void **place,
                       void *value) {
    static const char *const ops[] = { "register_parameter", "register_buffer", "register_child" };
    const char *op = ops[kind];
    if (kind != RG_ENTRY_CHILD && value != RG_NONE && !rgi_check(value, op))
        value = NULL;
    bool there = rgi_module_given(m, op);
    bool ok = there && (!m->failed || rgi_refuse_unfinished(m, op))
              && rgi_given(name, op, "a name") && rgi_given(place, op, "a place")
              && rgi_given(value, op, "a tensor") && may_enter(m, kind, name, place);
    if (ok && kind == RG_ENTRY_CHILD)
        ok = rgi_name_child(m, name, value);
    rg_entry *e = ok ? put_value(m, kind, name, place, value) : NULL;
    if (there && !m->registry->ready)
        m->failed |= !e;
    return e;
}

/* Makes a parameter of the value, as nn.Parameter does: detaches it from its history, and makes it
 * require grad. Gives it the name, unless it has one. */
static rg_tensor *as_parameter(rg_tensor *value, const char *name) {
    RG_AS("register_parameter");
    RG_FAIL_IF(rgi_check(value, NULL) && !rgi_is_float(value->dtype), NULL,
               "Only Tensors of floating point and complex dtype can require gradients");
    if (!rg_is_leaf(value))
        value = rg_detach(value);
    value = rg_requires_grad_(value, true);
    if (value && !*rg_name(value))
        value = rg_set_name(value, name);
    if (value)
        value->flags |= RG_IS_PARAMETER;
    return value;
}

/* Returns the name for a tensor that replaces m's parameter `name`: the name that the old tensor
 * has, such as "attn.w_query". If there is no old tensor, or it has no name, returns `name`. */
static const char *name_before(const rg_module *m, const char *name) {
    rg_entry *e = name && rgi_is_module(m) ? rgi_entry_named(m, name) : NULL;
    rg_tensor *t = e && e->kind == RG_ENTRY_PARAMETER ? *e->place : RG_NONE;
    return is_kept(t) && rgi_name_of(t) ? rgi_name_of(t) : name;
}

bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value) {
    rg_tensor *parameter = value;
    if (value && !rgi_is_none(value))
        parameter = as_parameter(value, name_before(m, name));
    const bool ok = enter(m, RG_ENTRY_PARAMETER, name, (void **)place, parameter);
    if (!ok && parameter && parameter != value)
        rg_drop(parameter);
    return ok;
}

bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o) {
    rg_entry *e = enter(m, RG_ENTRY_BUFFER, name, (void **)place, value);
    if (e)
        e->transient = !o.persistent;
    return e;
}

/* Returns whether `to` is `from` or lies below `from`. A module without parents lies below none.
 * Fails and returns true if the tree is too deep for the stack. */
static bool leads_to(rg_module *from, const rg_module *to) {
    if (from == to)
        return true;
    if (!to->registry->parents)
        return false;
    if (rgi_stack_is_short()) {
        rg_fail(RG_RUNTIME_ERROR, "register_child", "maximum recursion depth exceeded");
        return true;
    }
    for (RG_EACH_ENTRY(e, from))
        if (e->kind == RG_ENTRY_CHILD && leads_to(*e->place, to))
            return true;
    return false;
}

bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    const bool contained = rgi_is_module(m) && rgi_is_container(m) && name && place;
    return contained ? rgi_container_put(m, name, place, child)
                     : rgi_put_child(m, name, place, child);
}

bool rgi_put_child(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    if (!rgi_module_given(child, "register_child"))
        child = NULL;
    bool circle = child && rgi_is_module(m) && leads_to(child, m);
    if (circle)
        rg_fail(RG_VALUE_ERROR, m->cls->name, "the module '%s' would be a child of itself", name);
    if (enter(m, RG_ENTRY_CHILD, name, (void **)place, circle ? NULL : child))
        return true;
    if (!circle)
        rg_module_free(child);
    return false;
}
