/*
 * module.c: how a module is made, what is registered in it, and how it is freed. Calling it is in
 * call.c, walks over the whole tree are in tree.c.
 */
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/text.h"

/* ---- making -------------------------------------------------------------------- */

void *rg_module_new(size_t bytes, const rg_module_class *cls, const void *fields) {
    size_t both = (bytes + 7) / 8 * 8 + sizeof(rg_registry);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !cls || !cls->name, "module", "a module's class must have a name");
    rg_module *m = rgi_alloc(both, RG_MEM_OTHER);
    if (!m)
        return NULL;
    memcpy(m, fields, bytes);
    *m = (rg_module){ .cls = cls,
                      .training = true,
                      .registry = (rg_registry *)((char *)m + both) - 1 };
    *m->registry = (rg_registry){ .bytes = both };
    return m;
}

void *rg_module_ready(void *module) {
    rg_module *m = module;
    if (!m || !m->failed)
        return m;
    rg_module_free(m);
    return NULL;
}

/* A freed module keeps its mark, since the pool's list of free blocks writes elsewhere in the
 * block. */
bool rgi_module_given(const rg_module *m, const char *op) {
    if (!rgi_given(m, op, "a module"))
        return false;
    return !m->released || rgi_fail(RG_RELEASED, op, "module released by rg_module_free");
}

static void release_entry(rg_module *m, rg_entry *e) {
    if (e->kind != RG_ENTRY_CHILD) {
        rg_drop(*e->place);
        return;
    }
    rg_module *child = *e->place;
    child->registry->parents--;
    if (child->registry->parent == m)
        child->registry->parent = NULL;
    rg_module_free(child);
}

void rg_module_free(void *module) {
    rg_module *m = module;
    if (!m || !rgi_module_given(m, "module_free") || m->registry->parents)
        return;
    rg_registry *r = m->registry;
    for (size_t i = r->n; i-- > 0;)
        release_entry(m, &r->entries[i]);
    if (m->cls->destroy)
        m->cls->destroy(m);
    rgi_free(r->hooks, r->hook_room * sizeof *r->hooks, RG_MEM_OTHER);
    rgi_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    m->released = true;
    rgi_free(m, r->bytes, RG_MEM_OTHER);
}

/* ---- registering --------------------------------------------------------------- */

static bool may_enter(rg_module *m, rg_entry_kind kind, const char *name) {
    static const char *const kinds[] = {
        [RG_ENTRY_PARAMETER] = "parameter",
        [RG_ENTRY_BUFFER] = "buffer",
        [RG_ENTRY_CHILD] = "module",
    };
    const char *cls = m->cls->name;
    RG_FAIL_VALUE_IF(!*name, cls, "%s name can't be empty string \"\"", kinds[kind]);
    RG_FAIL_VALUE_IF(strchr(name, '.'), cls, "%s name can't contain \".\"", kinds[kind]);
    RG_FAIL_VALUE_IF(strlen(name) >= sizeof((rg_entry *)0)->name, cls, "the name '%s' is too long",
                     name);
    for (RG_EACH_ENTRY(e, m))
        RG_FAIL_VALUE_IF(!strcmp(e->name, name), cls, "attribute '%s' already exists", name);
    return true;
}

/* Returns the new entry, or marks m as failed and returns NULL. A tensor is taken from its scope.
 * The value goes to the place only if all is well. */
static rg_entry *enter(rg_module *m, rg_entry_kind kind, const char *name, void **place,
                       void *value) {
    static const char *const ops[] = {
        [RG_ENTRY_PARAMETER] = "register_parameter",
        [RG_ENTRY_BUFFER] = "register_buffer",
        [RG_ENTRY_CHILD] = "register_child",
    };
    const char *op = ops[kind];
    if (kind != RG_ENTRY_CHILD && value && value != RG_NONE) {
        RG_AS(op);
        value = rg_keep(value);
    }
    bool there = rgi_module_given(m, op);
    rg_registry *r = there ? m->registry : NULL;
    bool ok = there && rgi_given(name, op, "a name") && rgi_given(place, op, "a place")
              && rgi_given(value, op, "a tensor") && may_enter(m, kind, name)
              && rgi_grow((void **)&r->entries, &r->room, r->n + 1, sizeof *r->entries);
    if (there)
        m->failed |= !ok;
    if (!ok || m->failed) {
        if (kind != RG_ENTRY_CHILD)
            rg_drop(value);
        return NULL;
    }
    rg_entry *e = &r->entries[r->n++];
    *e = (rg_entry){ .kind = kind, .place = place };
    strcpy(e->name, name);
    *place = value;
    return e;
}

/* Detaches the value from its history and lets it require grad, as nn.Parameter does, and gives it
 * the name if it has none. */
static rg_tensor *as_parameter(rg_tensor *value, const char *name) {
    RG_AS("register_parameter");
    RG_FAIL_IF(rgi_check(value, NULL) && !rgi_is_float(value->dtype), NULL,
               "Only Tensors of floating point and complex dtype can require gradients");
    if (!rg_is_leaf(value))
        value = rg_detach(value);
    value = rg_requires_grad_(value, true);
    if (value && name && !*rg_name(value))
        value = rg_set_name(value, name);
    if (value)
        value->flags |= RG_IS_PARAMETER;
    return value;
}

bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value) {
    if (value && !rgi_is_none(value))
        value = as_parameter(value, name);
    return enter(m, RG_ENTRY_PARAMETER, name, (void **)place, value);
}

bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o) {
    rg_entry *e = enter(m, RG_ENTRY_BUFFER, name, (void **)place, value);
    if (e)
        e->transient = !o.persistent;
    return e;
}

static bool leads_to(rg_module *from, const rg_module *to) {
    if (from == to)
        return true;
    for (RG_EACH_ENTRY(e, from))
        if (e->kind == RG_ENTRY_CHILD && leads_to(*e->place, to))
            return true;
    return false;
}

/* Gives t the name "attn.w_query" if its name is still its path below the child, "w_query". */
static bool prefix_name(rg_named t, const char *child) {
    rg_text path = { 0 };
    rgi_text_add(&path, "%s.%s", child, t.name);
    const char *text = rgi_text_own(&path);
    if (!text)
        return false;
    return strcmp(rg_name(t.tensor), t.name) || rg_set_name(t.tensor, text);
}

static bool prefix_names(rg_module *child, const char *name) {
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(child);
    for (int i = 0; i < l.n; i++)
        if (!prefix_name(l.v[i], name))
            return false;
    return l.n >= 0;
}

bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    if ((void *)child == (void *)RG_NONE)
        child = rgi_fail(RG_TYPE_ERROR, "register_child", "expected a module but got RG_NONE");
    if (!rgi_module_given(child, "register_child"))
        child = NULL;
    bool circle = m && child && leads_to(child, m);
    if (circle)
        rgi_fail_(RG_VALUE_ERROR, m->cls->name, "the module '%s' would be a child of itself", name);
    if (!enter(m, RG_ENTRY_CHILD, name, (void **)place, circle ? NULL : child)) {
        if (!circle)
            rg_module_free(child);
        return false;
    }
    if (!child->registry->parents++)
        child->registry->parent = m;
    if (!prefix_names(child, name))
        m->failed = true;
    return !m->failed;
}

bool rg_tie(rg_tensor **place, rg_tensor *parameter) {
    const char *op = "tie";
    if (!rgi_given(place, op, "a place") || !rgi_check(*place, op) || !rgi_check(parameter, op))
        return false;
    RG_FAIL_VALUE_IF(!(*place)->kept, op, "the place is none that is registered");
    RG_FAIL_VALUE_IF(!rg_is_leaf(parameter) || !parameter->kept, op,
                     "expected a module's parameter");
    RG_FAIL_VALUE_IF((*place)->dtype != parameter->dtype || !rgi_same_shape(*place, parameter), op,
                     "expected a parameter of shape %s and dtype %s, but got %s and %s",
                     RG_SHAPE_TEXT(*place), rg_dtype_name((*place)->dtype),
                     RG_SHAPE_TEXT(parameter), rg_dtype_name(parameter->dtype));
    rg_keep(parameter);
    rg_drop(*place);
    *place = parameter;
    return true;
}
