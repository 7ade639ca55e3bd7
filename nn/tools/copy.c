/*
 * copy.c: deep copies of modules, as copy.deepcopy makes them. A tensor or module that occurs
 * several times in the original is copied once, and that copy stands in all places where the
 * original stood.
 */
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/kernels/copy.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/text/text.h"

#include <string.h>

/* The state of rg_deepcopy. Each original module and tensor is listed once, and `numbers` maps its
 * address to its index in its list. The arrays of copies have the same indices. Until all copies
 * exist, the scope owns the copied tensors, and nothing owns the copied modules: after a failure
 * `abandon` frees them. */
typedef struct copier {
    rg_named_list modules, tensors;
    rg_map numbers;
    rg_module **module_copies;
    rg_tensor **tensor_copies;
    int whole; /* Copies of modules from this index on are complete, so destroy may run on them. */
} copier;

static rg_module *original(const copier *c, int i) {
    return (rg_module *)(void *)c->modules.v[i].tensor;
}

/* Returns the copy of a value that an entry of this kind holds in the original. RG_NONE is its own
 * copy. */
static void *copy_of(const copier *c, rg_entry_kind kind, const void *value) {
    if (value == RG_NONE)
        return RG_NONE;
    int64_t at = rgi_map_address(&c->numbers, value);
    if (kind == RG_ENTRY_CHILD)
        return c->module_copies[at];
    return c->tensor_copies[at];
}

/* ---- tensors ------------------------------------------------------------------- */

/* Returns a new dense tensor with t's elements, or NULL on failure. Its dims have the same order in
 * memory as t's. */
static rg_tensor *copied_elements(rg_tensor *t) {
    rg_tensor *y = rgi_own(rgi_new_dense_like(t, (rg_dtype)t->dtype));
    if (y)
        rgi_copy_elements(y, t);
    return y;
}

/* Gives the copy a name if t has one. If t's name is its path in the original, the copy's name is
 * its path in the copy; otherwise the copy has t's name. */
static bool name_copy(rg_tensor *copy, rg_tensor *t, const char *above, const char *name) {
    const char *before = rgi_name_of(t);
    rg_text path = { 0 };
    if (!before)
        return true;
    rgi_text_add(&path, "%s%s%s", above, *above ? "." : "", name);
    const char *whole = rgi_text_own(&path);
    return whole && rg_set_name(copy, strcmp(before, whole) ? before : name);
}

static bool copy_gradient(rg_tensor *copy, rg_tensor *t) {
    rg_tensor *g = rg_grad_of(t);
    if (!g || g == RG_NONE)
        return g;
    return rg_set_grad(copy, copied_elements(g));
}

static rg_tensor *copy_tensor(rg_named what, const char *above) {
    rg_tensor *t = what.tensor;
    RG_FAIL_IF(!rg_is_leaf(t), "deepcopy",
               "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
               "protocol at the moment. '%s' was computed",
               what.name);
    rg_tensor *y = copied_elements(t);
    if (!y || !name_copy(y, t, above, what.name))
        return NULL;
    y->flags |= t->flags & RG_IS_PARAMETER;
    if (rg_requires_grad(t) && !rg_requires_grad_(y, true))
        return NULL;
    return t->flags & RG_IS_PARAMETER || copy_gradient(y, t) ? y : NULL;
}

static bool copy_tensors(copier *c) {
    char above[RG_PATH_ROOM];
    rgi_module_path(original(c, 0), above, sizeof above);
    for (int i = 0; i < c->tensors.n; i++) {
        c->tensor_copies[i] = copy_tensor(c->tensors.v[i], above);
        if (!c->tensor_copies[i])
            return false;
    }
    return true;
}

/* ---- modules ------------------------------------------------------------------- */

/* Returns the size of m's struct in bytes. */
static size_t struct_bytes(const rg_module *m) { return m->registry->bytes - sizeof(rg_registry); }

/* Copies the hooks, but not the hook by which inside/points.c observes modules. */
static bool copy_hooks(rg_registry *to, const rg_registry *from) {
    const rg_hook_list *hooks = &from->hooks;
    for (size_t i = 0; i < hooks->n; i++) {
        const rg_hook *h = &hooks->v[i];
        rg_any_function *of_observer = (rg_any_function *)rgi_module_observer.hook;
        if (h->kind == RG_HOOK_REMOVED || h->function == of_observer)
            continue;
        to->hooks.next_id = h->id;
        if (rgi_hook_add(&to->hooks, h->kind, h->function, h->context) < 0)
            return false;
    }
    to->hooks.next_id = hooks->next_id;
    return true;
}

/* Copies a module's struct, entries and hooks. The fields of the new struct still hold the
 * original's values. Returns NULL on failure. */
static rg_module *copy_struct(const rg_module *from) {
    const rg_module_class *cls = from->cls;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, cls->destroy && !cls->copy, "deepcopy",
                  "cannot copy '%s' object: its class has destroy, but no copy", cls->name);
    size_t bytes = struct_bytes(from);
    rg_module *m = rg_module_new(bytes, cls, from);
    if (!m)
        return NULL;
    m->training = from->training;
    m->registry->ready = true;
    bool ok = copy_hooks(m->registry, from->registry);
    for (RG_EACH_ENTRY(e, from))
        ok = ok && rgi_add_entry(m->registry, *e);
    if (!ok) {
        rgi_module_end(m);
        return NULL;
    }
    rg_move_places(m, from, m, bytes);
    return m;
}

/* Stores the copied values in the registered fields of the i-th module's copy: in the fields inside
 * its struct if `in_struct`, otherwise in the fields outside of it. */
static void fill_places(const copier *c, int i, bool in_struct) {
    const rg_module *from = original(c, i), *m = c->module_copies[i];
    const rg_entry *source = from->registry->entries;
    for (RG_EACH_ENTRY(e, m)) {
        bool inside = (uintptr_t)e->place - (uintptr_t)m < struct_bytes(m);
        if (inside == in_struct)
            *e->place = copy_of(c, e->kind, *source->place);
        source++;
    }
}

/* Returns whether all registered fields belong to the copy m. Fails if one is still a field of the
 * original, because it lies outside of the struct and the class hasn't moved it. */
static bool has_own_places(const rg_module *m, const rg_module *from) {
    const rg_entry *source = from->registry->entries;
    for (RG_EACH_ENTRY(e, m)) {
        RG_FAIL_AS_IF(RG_TYPE_ERROR, e->place == source->place, "deepcopy",
                      "cannot copy '%s' object: the place of '%s' lies outside of its struct, and "
                      "its class has no copy that moves it",
                      m->cls->name, e->name);
        source++;
    }
    return true;
}

/* Calls the class's function `copy`, if there is one, for the i-th module's copy. Then fills the
 * registered fields outside of the struct. Returns false on failure. */
static bool make_whole(copier *c, int i) {
    const rg_module *from = original(c, i);
    rg_module *m = c->module_copies[i];
    const int64_t before = rgi_failures();
    const bool ok = !m->cls->copy || m->cls->copy(m, from);
    if (ok)
        c->whole = i;
    if (!rgi_called(ok, before, RG_TYPE_ERROR, "deepcopy",
                    "expected true of the class's copy but got false"))
        return false;
    if (!has_own_places(m, from))
        return false;
    fill_places(c, i, false);
    return true;
}

static bool copy_modules(copier *c) {
    int n = c->modules.n;
    for (int i = 0; i < n; i++) {
        c->module_copies[i] = copy_struct(original(c, i));
        if (!c->module_copies[i])
            return false;
    }
    for (int i = 0; i < n; i++)
        fill_places(c, i, true);
    for (int i = n; i-- > 0;)
        if (!make_whole(c, i))
            return false;
    return true;
}

/* ---- beginning and end --------------------------------------------------------- */

static bool copier_begin(copier *c, void *m) {
    *c = (copier){ .modules = rgi_walk("deepcopy", m, (rg_walk_for){ .modules = true }) };
    if (c->modules.n < 0)
        return false;
    c->tensors = rgi_walk("deepcopy", m, (rg_walk_for){ .parameters = true, .buffers = true });
    if (c->tensors.n < 0)
        return false;
    size_t modules = (size_t)c->modules.n, tensors = (size_t)c->tensors.n;
    c->whole = c->modules.n;
    c->module_copies = rgi_scope_alloc(modules * sizeof *c->module_copies);
    if (!c->module_copies)
        return false;
    memset(c->module_copies, 0, modules * sizeof *c->module_copies);
    c->tensor_copies = rgi_scope_alloc(tensors * sizeof *c->tensor_copies);
    bool ok = c->tensor_copies;
    for (int i = 0; i < c->modules.n; i++)
        ok = ok && rgi_map_put_address(&c->numbers, original(c, i), i);
    for (int i = 0; i < c->tensors.n; i++)
        ok = ok && rgi_map_put_address(&c->numbers, c->tensors.v[i].tensor, i);
    return ok;
}

/* Frees all copies of modules after a failure. No module owns another yet, so each is freed by
 * itself. A class's `destroy` is called only for complete copies (see `whole`). */
static void abandon(const copier *c) {
    for (int i = 0; i < c->modules.n && c->module_copies; i++) {
        rg_module *m = c->module_copies[i];
        if (i >= c->whole && m->cls->destroy)
            m->cls->destroy(m);
    }
    for (int i = 0; i < c->modules.n && c->module_copies; i++)
        if (c->module_copies[i])
            rgi_module_end(c->module_copies[i]);
}

/* Sets the first parent of the i-th module's copy to the copy of the original's first parent, if
 * that was copied as well. The root of the copy gets no parent. */
static void keep_parent(const copier *c, int i) {
    const rg_registry *from = original(c, i)->registry;
    rg_registry *to = c->module_copies[i]->registry;
    int64_t at = from->parent ? rgi_map_address(&c->numbers, from->parent) : -1;
    if (i == 0 || at < 0)
        return;
    to->parent = c->module_copies[at];
    to->at = from->at;
}

/* Gives each copied module its parent, and references to its tensors and children. This can't fail,
 * so rg_deepcopy does it last. */
static void hold_all(const copier *c) {
    for (int i = 0; i < c->modules.n; i++)
        keep_parent(c, i);
    for (int i = 0; i < c->modules.n; i++) {
        rg_module *m = c->module_copies[i];
        for (RG_EACH_ENTRY(e, m)) {
            if (e->kind == RG_ENTRY_CHILD)
                rgi_join_parent(m, e, *e->place);
            else if (*e->place != RG_NONE)
                rg_keep(*e->place);
        }
    }
}

void *(rg_deepcopy)(void *m) {
    RG_AS("deepcopy");
    RG_SCOPE();
    RG_NO_GRAD();
    copier c;
    if (!rgi_may_do_once("deepcopy"))
        return NULL;
    bool ok = copier_begin(&c, m) && copy_tensors(&c);
    if (ok) {
        const char *user = rgi_module_begin_use(m, "deepcopy");
        ok = copy_modules(&c);
        rgi_module_end_use(m, user);
    }
    if (ok)
        hold_all(&c);
    else
        abandon(&c);
    rgi_map_free(&c.numbers);
    return ok ? c.module_copies[0] : NULL;
}
