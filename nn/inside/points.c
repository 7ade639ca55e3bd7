/*
 * points.c: calls hooks on named values inside a model. At each point of a forward, this file calls
 * the hooks whose patterns match the point's name, in all hook scopes. If a hook's pattern matches
 * the output of a module, the module gets a forward hook, which calls the hook. The names of a
 * GPT's points are in models/gpt_points.c.
 */
#include "hook_scopes.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/text/text.h"

#include <stdio.h>
#include <string.h>

/* A module whose path matches the pattern of a hook of the scope. `name` is the path. `id` is the
 * id of the forward hook that was registered on the module, which calls the hooks of the scope. */
typedef struct {
    struct rg_hook_scope *scope;
    rg_module *module;
    char *name;
    int id;
} awaited_module;

/* A hook scope: a list of n hooks that is in force for the module `root` and the modules below it.
 * called[i] is set once hook i has been called. `busy` is set while one of the hooks runs. `counts`
 * has the number of hooks of each of these modules that a recorded step has called. The scope
 * counts as one hook of each such module. Therefore a repetition of the step, which would call no
 * hooks, fails. A scope belongs to the thread `owner`; forwards in other threads don't call its
 * hooks. */
struct rg_hook_scope {
    struct rg_hook_scope *outer;
    rg_module *root;
    rg_thread *owner;
    bool busy;
    int n, n_modules, n_counts;
    awaited_module *modules;
    size_t room;
    rg_hook_count **counts;
    size_t counts_room;
    bool *called;
    rg_hook_at v[];
};

__thread struct rg_hook_scope *rgi_hook_scopes __attribute__((tls_model("initial-exec")));

/* ---- names of points, and patterns of names ---------------------------------------- */

/* Returns whether the name matches the pattern from `pattern` to `end`. A * in the pattern matches
 * any string, also the empty one. */
static bool matches_one(const char *pattern, const char *end, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (pattern < end && *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

static bool ends_with(const char *text, size_t n, const char *tail) {
    size_t m = strlen(tail);
    return n >= m && memcmp(text + n - m, tail, m) == 0;
}

/* Returns whether the name matches one of the patterns, which are separated by blanks. The point
 * hook_result is expensive, so a pattern matches it only if the pattern ends with "hook_result". So
 * "*" doesn't match it. */
static bool matches(const char *patterns, const char *name) {
    static const char large[] = "hook_result";
    bool by_name = ends_with(name, strlen(name), large);
    for (patterns += strspn(patterns, " "); *patterns; patterns += strspn(patterns, " ")) {
        const char *pattern = patterns;
        patterns += strcspn(patterns, " ");
        if (matches_one(pattern, patterns, name)
            && (!by_name || ends_with(pattern, (size_t)(patterns - pattern), large)))
            return true;
    }
    return false;
}

static bool is_above(const rg_module *above, const rg_module *m) {
    while (m && m != above)
        m = m->registry->parent;
    return m;
}

/* Writes to `text` the full name of a value, with which the patterns of the scope's hooks are
 * compared. `name` is the value's name in the module `of`. The full name consists of the path of
 * `of` below the scope's root, a dot, and `name`. If the root lies below `of`, the full name is
 * `name` alone. Returns false if neither module lies below the other: hooks of the scope don't see
 * such a value. */
static bool name_for(const struct rg_hook_scope *scope, const rg_module *of, const char *name,
                     char text[2 * RG_PATH_ROOM]) {
    char root[RG_PATH_ROOM];
    size_t at = 0;
    if (is_above(scope->root, of)) {
        size_t n = rgi_module_path(scope->root, root, sizeof root);
        at = rgi_module_path(of, text, RG_PATH_ROOM);
        size_t begin = n ? RG_MIN(n + 1, at) : 0;
        at -= begin;
        memmove(text, text + begin, at);
    } else if (!is_above(of, scope->root)) {
        return false;
    }
    snprintf(text + at, 2 * RG_PATH_ROOM - at, "%s%s", at ? "." : "", name);
    return true;
}

/* ---- calling the hooks of a point --------------------------------------------------- */

/* Calls the hooks of a scope whose pattern matches the name. Returns x, or the tensor by which a
 * hook replaced it, or NULL if a hook fails. */
static rg_tensor *call_hooks(struct rg_hook_scope *scope, const char *name, rg_tensor *x) {
    for (int i = 0; i < scope->n && x; i++) {
        if (!matches(scope->v[i].name, name))
            continue;
        if (!rgi_may_do_once("a hook at a point"))
            return NULL;
        scope->called[i] = true;
        scope->busy = true;
        const int64_t before = rgi_failures();
        rg_tensor *other = scope->v[i].hook(x, name, scope->v[i].context);
        scope->busy = false;
        if (!rgi_called(other, before, RG_TYPE_ERROR, name,
                        "expected a tensor of a hook but got NULL"))
            return NULL;
        if (other != RG_NONE)
            x = other;
    }
    return x;
}

/* Calls the matching hooks of all scopes, those of the outer scopes first. A scope is skipped while
 * one of its hooks is running. */
static rg_tensor *through_scopes(struct rg_hook_scope *scope, rg_module *of, const char *name,
                                 rg_tensor *x) {
    char text[2 * RG_PATH_ROOM];
    if (scope->outer)
        x = through_scopes(scope->outer, of, name, x);
    if (scope->busy || !name_for(scope, of, name, text))
        return x;
    return call_hooks(scope, text, x);
}

rg_tensor *rgi_point(rg_module *of, const char *name, rg_tensor *x) {
    return through_scopes(rgi_hook_scopes, of, name, x);
}

bool rgi_is_awaited(rg_module *of, const char *name) {
    char text[2 * RG_PATH_ROOM];
    for (struct rg_hook_scope *scope = rgi_hook_scopes; scope; scope = scope->outer)
        for (int i = 0; i < scope->n && !scope->busy; i++)
            if (name_for(scope, of, name, text) && matches(scope->v[i].name, text))
                return true;
    return false;
}

rg_tensor *(rg_hook_point)(void *m, const char *name, rg_tensor *x) {
    if (!rgi_module_given(m, "hook_point") || !rgi_given(name, "hook_point", "a name")
        || !rgi_check(x, "hook_point"))
        return NULL;
    return rgi_has_hook_scope() ? rgi_point(m, name, x) : x;
}

static rg_tensor *output_hook(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    const awaited_module *at = context;
    if (at->scope->owner != rgi_thread_get() || at->scope->busy)
        return RG_NONE;
    rg_tensor *other = call_hooks(at->scope, at->name, y);
    return other == y ? RG_NONE : other;
}

/* ---- a hook scope's begin and end --------------------------------------------------- */

static bool is_any_matched(const struct rg_hook_scope *scope, const char *name) {
    for (int i = 0; i < scope->n; i++)
        if (matches(scope->v[i].name, name))
            return true;
    return false;
}

/* Registers a forward hook on each module below the root whose path matches a hook's pattern, and
 * lists these modules. Returns false on failure. The list is allocated for all modules at once, so
 * that it never moves: the forward hooks have pointers to its elements. */
static bool list_modules(struct rg_hook_scope *scope, const rg_named_modules_list *all) {
    if (!rgi_grow((void **)&scope->modules, &scope->room, (size_t)all->n + 1,
                  sizeof *scope->modules))
        return false;
    for (int i = 1; i < all->n; i++) {
        if (!is_any_matched(scope, all->v[i].name))
            continue;
        awaited_module *at = &scope->modules[scope->n_modules];
        *at = (awaited_module){ scope, all->v[i].module, NULL, -1 };
        if (!rgi_rename(&at->name, all->v[i].name))
            return false;
        scope->n_modules++;
        at->id = rg_register_forward_hook(at->module, output_hook, at);
        if (at->id < 0)
            return false;
    }
    return true;
}

/* Adds 1 to the number of hooks of each module that a recorded step has called, and lists these
 * numbers in scope->counts. Returns false if memory runs out. */
static bool count_for_replays(struct rg_hook_scope *scope, const rg_named_modules_list *all) {
    if (!rgi_grow((void **)&scope->counts, &scope->counts_room, (size_t)all->n,
                  sizeof *scope->counts))
        return false;
    for (int i = 0; i < all->n; i++) {
        rg_hook_list *hooks = &all->v[i].module->registry->hooks;
        if (!hooks->count)
            continue;
        scope->counts[scope->n_counts] = rgi_hook_count_of(hooks);
        rgi_count_hooks(scope->counts[scope->n_counts++], 1);
    }
    return true;
}

static void scope_end(struct rg_hook_scope *scope) {
    struct rg_hook_scope **at = &rgi_hook_scopes;
    while (*at && *at != scope)
        at = &(*at)->outer;
    if (*at)
        *at = scope->outer;
    for (int i = 0; i < scope->n_modules; i++) {
        awaited_module *m = &scope->modules[i];
        if (m->id >= 0)
            rg_remove_forward_hook(m->module, m->id);
        rgi_rename(&m->name, NULL);
    }
    for (int i = 0; i < scope->n_counts; i++) {
        rgi_count_hooks(scope->counts[i], -1);
        rgi_hook_count_release(scope->counts[i]);
    }
    rgi_free(scope->counts, scope->counts_room * sizeof *scope->counts, RG_MEM_OTHER);
    rgi_free(scope->modules, scope->room * sizeof *scope->modules, RG_MEM_OTHER);
    rgi_free(scope->called, (size_t)scope->n + 1, RG_MEM_OTHER);
    rgi_free(scope, sizeof *scope + (size_t)scope->n * sizeof *scope->v, RG_MEM_OTHER);
}

/* Called when a module is freed: removes it from the scopes of this thread. */
static void forget_module(const rg_module *m) {
    for (struct rg_hook_scope *scope = rgi_hook_scopes; scope; scope = scope->outer) {
        if (scope->root == m)
            scope->root = NULL;
        for (int i = 0; i < scope->n_modules; i++)
            if (scope->modules[i].module == m)
                scope->modules[i].id = -1;
    }
}

__attribute__((constructor)) static void observe_modules(void) {
    rgi_module_observer = (rg_module_observer){ .ended = forget_module, .hook = output_hook };
}

static bool hooks_given(const rg_hooks_at *hooks, const char *op) {
    RG_FAIL_VALUE_IF(hooks->n < 0, op, "expected hooks but got %d", hooks->n);
    if (hooks->n && !rgi_given(hooks->v, op, "hooks"))
        return false;
    for (int i = 0; i < hooks->n; i++)
        if (!rgi_given(hooks->v[i].name, op, "a name")
            || !RG_GIVEN_FUNCTION(hooks->v[i].hook, op))
            return false;
    return true;
}

static struct rg_hook_scope *scope_begin(rg_module *m, const rg_hooks_at *hooks, const char *op) {
    RG_AS(op);
    RG_SCOPE();
    if (!hooks_given(hooks, op))
        return NULL;
    rg_named_modules_list all = rg_named_modules(m);
    size_t bytes = (size_t)hooks->n * sizeof *hooks->v;
    struct rg_hook_scope *scope = all.n < 0 ? NULL : rgi_alloc(sizeof *scope + bytes, RG_MEM_OTHER);
    if (!scope)
        return NULL;
    *scope = (struct rg_hook_scope){ .root = m, .owner = rgi_thread_get(), .n = hooks->n };
    if (bytes)
        memcpy(scope->v, hooks->v, bytes);
    scope->called = rgi_alloc((size_t)scope->n + 1, RG_MEM_OTHER);
    if (scope->called)
        memset(scope->called, 0, (size_t)scope->n + 1);
    if (scope->called && count_for_replays(scope, &all) && list_modules(scope, &all)) {
        scope->outer = rgi_hook_scopes;
        rgi_hook_scopes = scope;
        return scope;
    }
    scope_end(scope);
    return NULL;
}

rg_hooks_guard(rg_hooks_guard_open)(void *m, rg_hooks_at hooks) {
    return (rg_hooks_guard){ scope_begin(m, &hooks, "hooks") };
}

void rg_hooks_guard_close(rg_hooks_guard *guard) {
    if (guard->scope)
        scope_end(guard->scope);
    guard->scope = NULL;
}

/* ---- rg_run_with_hooks and rg_run_with_cache ------------------------------------------ */

/* Calls m with these hooks in force. Fails, and returns NULL, if one of the hooks was never called
 * because its pattern matches no value. */
static rg_tensor *run_in_scope(rg_module *m, const rg_hooks_at *hooks, rg_list inputs,
                               const char *op) {
    RG_SCOPE();
    struct rg_hook_scope *scope = scope_begin(m, hooks, op);
    if (!scope)
        return NULL;
    rg_tensor *y = rg_call_list(m, inputs);
    int unseen = 0;
    while (unseen < scope->n && scope->called[unseen])
        unseen++;
    scope_end(scope);
    RG_FAIL_VALUE_IF(y && unseen < hooks->n, op, "the %s has no value that is called '%s'",
                     m->cls->name, hooks->v[unseen].name);
    return rg_escape(y);
}

rg_tensor *(rg_run_with_hooks_list)(void *m, rg_hooks_at hooks, rg_list inputs) {
    return run_in_scope(m, &hooks, inputs, "run_with_hooks");
}

/* The values that are kept for a cache. The struct owns a reference to each. `names` maps a value's
 * name to its index in v. */
typedef struct {
    rg_map names;
    rg_tensor **v;
    size_t n, room;
} kept_values;

static rg_tensor *keep_value(rg_tensor *x, const char *name, void *context) {
    kept_values *k = context;
    int64_t i = rgi_map_name(&k->names, name);
    if (i < 0) {
        i = (int64_t)k->n;
        if (!rgi_grow((void **)&k->v, &k->room, k->n + 1, sizeof *k->v)
            || !rgi_map_put_name(&k->names, name, i))
            return NULL;
        k->v[k->n++] = NULL;
    }
    rgi_retain(x);
    rgi_release(k->v[i]);
    k->v[i] = x;
    return RG_NONE;
}

/* Returns the values as a list. The scope owns the list and its names, but not the values. On
 * failure .n is -1. */
static rg_named_list list_kept(const kept_values *k) {
    const rg_named_list failed = { -1, NULL };
    rg_named *v = rgi_scope_alloc(k->n * sizeof *v);
    for (size_t i = 0; i < k->n && v; i++) {
        rg_text name = { 0 };
        rgi_text_add(&name, "%s", rgi_map_name_at(&k->names, i));
        v[i] = (rg_named){ rgi_text_own(&name), k->v[i] };
        if (!v[i].name)
            return failed;
    }
    return v ? (rg_named_list){ (int)k->n, v } : failed;
}

/* Gives the output and the values to the caller's scope. Returns false on failure; then the scope
 * has none of them. */
static bool give_to_scope(rg_tensor *output, rg_named_list cache) {
    RG_SCOPE();
    if (!rgi_lend(output))
        return false;
    for (int i = 0; i < cache.n; i++)
        if (!rgi_lend(cache.v[i].tensor))
            return false;
    rg_escape(output);
    for (int i = 0; i < cache.n; i++)
        rg_escape(cache.v[i].tensor);
    return true;
}

rg_cached_run(rg_run_with_cache_list)(void *m, const char *names, rg_list inputs) {
    rg_cached_run run = { NULL, { -1, NULL } };
    kept_values k = { .v = NULL };
    const rg_hook_at keep = { names, keep_value, &k };
    {
        RG_SCOPE();
        const rg_hooks_at hooks = { 1, &keep };
        rgi_set_reference(&run.output, run_in_scope(m, &hooks, inputs, "run_with_cache"));
    }
    rg_tensor *const output = run.output;
    if (output)
        run.cache = list_kept(&k);
    if (run.cache.n < 0 || !give_to_scope(output, run.cache))
        run = (rg_cached_run){ NULL, { -1, NULL } };
    rgi_release(output);
    for (size_t i = 0; i < k.n; i++)
        rgi_release(k.v[i]);
    rgi_free((void *)k.v, k.room * sizeof *k.v, RG_MEM_OTHER);
    rgi_map_free(&k.names);
    return run;
}

/* Returns how many characters two names have in common at their beginnings and at their ends. */
static size_t likeness(const char *a, const char *b) {
    const size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m;
    size_t first = 0, last = 0;
    while (first < shorter && a[first] == b[first])
        first++;
    while (last < shorter - first && a[n - 1 - last] == b[m - 1 - last])
        last++;
    return first + last;
}

/* Returns the name in the cache that is most like `name`, or NULL if the cache is empty. */
static const char *nearest_name(rg_named_list cache, const char *name) {
    const char *nearest = NULL;
    for (int i = 0; i < cache.n; i++) {
        const char *other = cache.v[i].name;
        if (other && (!nearest || likeness(other, name) > likeness(nearest, name)))
            nearest = other;
    }
    return nearest;
}

rg_tensor *rg_cache_get(rg_named_list cache, const char *name) {
    if (!rgi_given(name, "cache_get", "a name") || !rgi_given_list(cache.n, cache.v, "cache_get"))
        return NULL;
    for (int i = 0; i < cache.n; i++)
        if (cache.v[i].name && strcmp(cache.v[i].name, name) == 0)
            return cache.v[i].tensor;
    const char *nearest = nearest_name(cache, name);
    RG_FAIL_VALUE_IF(!nearest, "cache_get", "KeyError: '%s'; the cache is empty", name);
    return rgi_fail(RG_VALUE_ERROR, "cache_get", "KeyError: '%s'; the nearest name is '%s'", name,
                    nearest);
}
