/*
 * module.c: how a module is made, what is registered in it, and how it is freed. Calling it is in
 * call.c, walks over the whole tree are in tree.c.
 */
#include "registry.h"
#include "tensor/dtype.h"
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

/* ---- what is a module ---------------------------------------------------------- */

/* A program may give a tensor in place of a module where the compiler can't see it. The bytes of
 * a tensor's state are the flags of a module, which are 0 or 1, and so tell one from the other. */
_Static_assert(offsetof(rg_module, training) == offsetof(rg_tensor, state)
                   && offsetof(rg_module, released) == offsetof(rg_tensor, state) + 2,
               "a tensor's state stands where a module has its flags");

static bool is_tensor(const void *it) {
    const uint32_t alive = RG_ALIVE, dead = RG_DEAD;
    const char *state = (const char *)it + offsetof(rg_tensor, state);
    return memcmp(state, &alive, 3) == 0 || memcmp(state, &dead, 3) == 0;
}

/* A freed module keeps its mark, since the pool's list of free blocks writes elsewhere in the
 * block. The mark is read as a byte, since a tensor has no bool there. */
static bool is_marked(const rg_module *m) {
    return *((const unsigned char *)m + offsetof(rg_module, released)) != 0;
}

bool rgi_is_module(const rg_module *m) { return m && !is_marked(m); }

__attribute__((cold)) static bool fail_for_module(const void *it, const char *op) {
    const rg_tensor *t = it;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, it == RG_NONE, op, "expected a module but got RG_NONE");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, is_tensor(it), op, "torch.%sTensor is not a Module subclass",
                  rgi_scalar_name((rg_dtype)t->dtype));
    return rgi_fail(RG_RELEASED, op, "module released by rg_module_free");
}

bool rgi_module_given(const rg_module *m, const char *op) {
    if (!rgi_given(m, op, "a module"))
        return false;
    return RG_LIKELY(!is_marked(m)) || fail_for_module(m, op);
}

/* ---- freeing ------------------------------------------------------------------- */

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
    if (rgi_free_after_call(m))
        return;
    rg_registry *r = m->registry;
    for (size_t i = r->n; i-- > 0;)
        release_entry(m, &r->entries[i]);
    if (m->cls->destroy)
        m->cls->destroy(m);
    rgi_free(r->hooks, r->hook_room * sizeof *r->hooks, RG_MEM_OTHER);
    rgi_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    rgi_map_free(&r->names);
    m->released = true;
    rgi_free(m, r->bytes, RG_MEM_OTHER);
}

/* ---- entries by name ----------------------------------------------------------- */

/* Up to so many entries are looked through one by one; more are in the map. */
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

/* Adds an entry. Returns NULL if there is no memory; where that leaves the map empty, the next
 * entry fills it again. */
static rg_entry *add_entry(rg_registry *r, rg_entry entry) {
    if (!rgi_grow((void **)&r->entries, &r->room, r->n + 1, sizeof *r->entries))
        return NULL;
    r->entries[r->n] = entry;
    for (size_t i = rgi_map_names(&r->names); r->n >= FEW_ENTRIES && i <= r->n; i++)
        if (!rgi_map_put_name(&r->names, r->entries[i].name, (int64_t)i))
            return NULL;
    return &r->entries[r->n++];
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
    RG_FAIL_VALUE_IF(rgi_entry_named(m, name), cls, "attribute '%s' already exists", name);
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
    bool ok = there && rgi_given(name, op, "a name") && rgi_given(place, op, "a place")
              && rgi_given(value, op, "a tensor") && may_enter(m, kind, name) && !m->failed;
    rg_entry *e = NULL;
    if (ok) {
        rg_entry entry = { .kind = kind, .place = place };
        strcpy(entry.name, name);
        e = add_entry(m->registry, entry);
    }
    if (e)
        *place = value;
    else if (kind != RG_ENTRY_CHILD)
        rg_drop(value);
    if (there)
        m->failed |= !e;
    return e;
}

/* Detaches the value from its history and lets it require grad, as nn.Parameter does, and gives it
 * the name if it has none. */
static rg_tensor *as_parameter(rg_tensor *value, const char *name) {
    RG_AS("register_parameter");
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

/* Nothing leads to a module that is nobody's child. */
static bool leads_to(rg_module *from, const rg_module *to) {
    if (from == to)
        return true;
    if (!to->registry->parents)
        return false;
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
    child->registry->parents++;
    if (!child->registry->parent)
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
