/*
 * tree.c: functions on a module and all modules below it. They list parameters, buffers and
 * modules, look one up by its path, or change all of them. Lists are in the order of registration.
 * A path consists of names, joined with dots.
 */
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/system/stack.h"
#include "tensor/text/text.h"

/* ---- lists of parameters, buffers and modules ---------------------------------- */

typedef struct walker {
    const char *op;
    rg_walk_for wanted;
    size_t n, room;
    rg_named *found;
    /* The path of the module or tensor that is being visited. It is empty for the root. */
    rg_text path;
    /* The set of values that were found. Used only if each value is to be listed once, and at
     * least FEW_FOUND values were found. */
    rg_map known;
} walker;

/* If fewer values than this were found, a value is compared with each found value; otherwise it is
 * looked up in the map `known`. */
enum { FEW_FOUND = 32 };

static bool is_known(const walker *w, const void *what) {
    if (w->n >= FEW_FOUND)
        return rgi_map_address(&w->known, what) >= 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->found[i].tensor == what)
            return true;
    return false;
}

/* If at least FEW_FOUND values were found, adds to the map `known` those that it lacks. Returns
 * false if memory runs out. */
static bool make_known(walker *w) {
    for (size_t i = rgi_map_addresses(&w->known); w->n >= FEW_FOUND && i < w->n; i++)
        if (!rgi_map_put_address(&w->known, w->found[i].tensor, (int64_t)i))
            return false;
    return true;
}

/* Appends a tensor or module to the found values. A value that was found before isn't appended
 * again, unless `saved` is set. Returns false if memory runs out. */
static bool found(walker *w, void *what) {
    rg_text name = { .failed = w->path.failed };
    if (!w->wanted.saved && is_known(w, what))
        return true;
    if (!rgi_grow((void **)&w->found, &w->room, w->n + 1, sizeof *w->found))
        return false;
    rgi_text_add(&name, "%s", w->path.n ? w->path.v : "");
    w->found[w->n] = (rg_named){ rgi_text_own(&name), what };
    return w->found[w->n++].name && (w->wanted.saved || make_known(w));
}

/* Returns whether values of the entry's kind are to be listed. */
static bool is_wanted(const walker *w, const rg_entry *e) {
    if (e->kind == RG_ENTRY_PARAMETER)
        return w->wanted.parameters;
    return w->wanted.buffers && !(w->wanted.saved && e->transient);
}

static bool walk_modules(walker *w, rg_module *m);

static bool visit_entry(walker *w, rg_entry *e) {
    const size_t before = w->path.n;
    if (!rgi_is_registered(w->op, e))
        return false;
    if (*e->place == RG_NONE || (e->kind != RG_ENTRY_CHILD && !is_wanted(w, e)))
        return true;
    rgi_text_add(&w->path, "%s%s", before ? "." : "", e->name);
    if (w->path.failed)
        return false;
    const bool ok = e->kind == RG_ENTRY_CHILD ? walk_modules(w, *e->place) : found(w, *e->place);
    rgi_text_cut(&w->path, before);
    return ok;
}

/* Visits a module's own parameters first, then its buffers, then its children, as torch does. */
static bool walk_modules(walker *w, rg_module *m) {
    RG_FAIL_IF(rgi_stack_is_short(), w->op, "maximum recursion depth exceeded");
    if (w->wanted.modules && !found(w, m))
        return false;
    for (rg_entry_kind kind = RG_ENTRY_PARAMETER; kind <= RG_ENTRY_CHILD; kind++)
        for (RG_EACH_ENTRY(e, m))
            if (e->kind == kind && !visit_entry(w, e))
                return false;
    return true;
}

rg_named_list rgi_walk(const char *op, void *m, rg_walk_for wanted) {
    walker w = { .op = op, .wanted = wanted };
    bool ok = rgi_module_given(m, op) && walk_modules(&w, m);
    rg_named *own = ok ? rgi_scope_alloc(w.n * sizeof *own) : NULL;
    if (own && w.n)
        memcpy(own, w.found, w.n * sizeof *own);
    rgi_free(w.found, w.room * sizeof *w.found, RG_MEM_OTHER);
    rgi_map_free(&w.known);
    rgi_text_free(&w.path);
    return (rg_named_list){ own ? (int)w.n : -1, own };
}

rg_named_list(rg_named_parameters)(void *m) {
    return rgi_walk("named_parameters", m, (rg_walk_for){ .parameters = true });
}

rg_named_list(rg_named_buffers)(void *m) {
    return rgi_walk("named_buffers", m, (rg_walk_for){ .buffers = true });
}

rg_named_modules_list(rg_named_modules)(void *m) {
    rg_named_list l = rgi_walk("named_modules", m, (rg_walk_for){ .modules = true });
    return (rg_named_modules_list){ l.n, (const rg_named_module *)(const void *)l.v };
}

rg_list(rg_parameters)(void *m) {
    RG_AS("parameters");
    rg_named_list l = rg_named_parameters(m);
    rg_tensor **v = l.n < 0 ? NULL : rgi_scope_alloc((size_t)l.n * sizeof *v);
    for (int i = 0; i < l.n && v; i++)
        v[i] = l.v[i].tensor;
    return v ? (rg_list){ l.n, v } : rgi_list_failed;
}

int64_t(rg_num_parameters)(void *m) {
    RG_AS("num_parameters");
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    int64_t n = l.n < 0 ? rgi_failed_count() : 0;
    for (int i = 0; i < l.n; i++)
        n += rg_numel(l.v[i].tensor);
    return n;
}

/* ---- looking up by path -------------------------------------------------------- */

/* Returns m's entry whose name is the first n bytes of the text. If there is none, or its value
 * isn't registered, fails and returns NULL. */
static rg_entry *attribute(const char *op, rg_module *m, const char *text, size_t n) {
    char name[sizeof((rg_entry *)0)->name] = "";
    if (n < sizeof name)
        memcpy(name, text, n);
    rg_entry *e = rgi_entry_named(m, name);
    RG_FAIL_VALUE_IF(!e, op, "%s has no attribute `%.*s`", m->cls->name, (int)RG_MIN(n, 200), text);
    return rgi_is_registered(op, e) ? e : NULL;
}

/* Returns the module whose path is the first n bytes of `path`. Fails as torch does, and returns
 * NULL, if there is none. */
static rg_module *module_at(const char *op, rg_module *m, const char *path, size_t n) {
    if (!rgi_module_given(m, op) || !rgi_given(path, op, "a path"))
        return NULL;
    for (size_t at = 0; n;) {
        size_t length = RG_MIN(strcspn(path + at, "."), n - at);
        const rg_entry *e = attribute(op, m, path + at, length);
        if (!e)
            return NULL;
        RG_FAIL_VALUE_IF(e->kind != RG_ENTRY_CHILD, op, "`%s` is not an nn.Module", e->name);
        m = *e->place;
        at += length;
        if (at == n)
            break;
        at++;
    }
    return m;
}

/* Returns the entry at this path. Fails as torch does, and returns NULL, if there is none. */
static rg_entry *entry_at(const char *op, rg_module *m, const char *path) {
    const char *dot = path ? strrchr(path, '.') : NULL;
    m = module_at(op, m, path, dot ? (size_t)(dot - path) : 0);
    if (!m)
        return NULL;
    const char *name = dot ? dot + 1 : path;
    return attribute(op, m, name, strlen(name));
}

void *(rg_get_submodule)(void *m, const char *path) {
    return module_at("get_submodule", m, path, path ? strlen(path) : 0);
}

rg_tensor *(rg_get_parameter)(void *m, const char *path) {
    const rg_entry *e = entry_at("get_parameter", m, path);
    if (!e)
        return NULL;
    RG_FAIL_VALUE_IF(e->kind != RG_ENTRY_PARAMETER || *e->place == RG_NONE, "get_parameter",
                     "`%s` is not an nn.Parameter", e->name);
    return rgi_lend(*e->place);
}

rg_tensor *(rg_get_buffer)(void *m, const char *path) {
    const rg_entry *e = entry_at("get_buffer", m, path);
    if (!e)
        return NULL;
    RG_FAIL_VALUE_IF(e->kind != RG_ENTRY_BUFFER, "get_buffer", "`%s` is not a buffer", e->name);
    return rgi_lend(*e->place);
}

/* ---- functions that change the whole tree -------------------------------------- */

const char *rgi_module_begin_use(rg_module *m, const char *user) {
    m->registry->users++;
    return atomic_exchange(&m->registry->user, user);
}

void rgi_module_end_use(rg_module *m, const char *user_before) {
    m->registry->user = user_before;
    m->registry->users--;
}

bool rgi_may_free(const rg_module *m) {
    const char *user = m->registry->user;
    RG_FAIL_IF(m->registry->users, "module_free",
               "the module can't be freed while %s is working on it",
               user ? user : "another thread");
    return true;
}

/* Each pass of the loop reads the registry's fields anew, because f may register more entries. */
void(rg_apply_to_modules)(void *module, void (*f)(rg_module *m, void *context), void *context) {
    rg_module *m = module;
    if (!rgi_module_given(m, "apply_to_modules") || !RG_GIVEN_FUNCTION(f, "apply_to_modules"))
        return;
    if (rgi_stack_is_short()) {
        rg_fail(RG_RUNTIME_ERROR, "apply_to_modules", "maximum recursion depth exceeded");
        return;
    }
    const char *user = rgi_module_begin_use(m, "apply_to_modules");
    for (size_t i = 0; i < m->registry->n; i++)
        if (m->registry->entries[i].kind == RG_ENTRY_CHILD)
            rg_apply_to_modules(*m->registry->entries[i].place, f, context);
    f(m, context);
    rgi_module_end_use(m, user);
}

static void set_training(rg_module *m, void *on) { m->training = *(bool *)on; }

void(rg_train)(void *m, bool on) {
    RG_AS("train");
    rg_apply_to_modules(m, set_training, &on);
}

static void clear_grads(rg_module *m, void *unused) {
    (void)unused;
    for (RG_EACH_ENTRY(e, m))
        if (e->kind == RG_ENTRY_PARAMETER && *e->place != RG_NONE)
            rg_set_grad(*e->place, RG_NONE);
}

void(rg_zero_grad)(void *m) {
    RG_AS("zero_grad");
    rg_apply_to_modules(m, clear_grads, NULL);
}
