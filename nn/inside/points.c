/*
 * points.c: looks into a model. While one is in force, it hears of each point inside a forward, and
 * has forward hooks on those modules whose outputs it waits for. What a GPT calls its points is
 * models/gpt_points.c's business.
 */
#include "looks.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/text/text.h"

#include <stdio.h>
#include <string.h>

/* A module whose output is waited for, with the id of the forward hook there. */
typedef struct {
    struct rg_look *look;
    rg_module *module;
    char *name;
    int id;
} looked_module;

/* A look is one list of hooks in force. `called[i]` says that hook i was; `busy`, that one runs.
 * Other threads don't have it in their lists, so what they run isn't looked at. */
struct rg_look {
    struct rg_look *outer;
    rg_module *root;
    rg_thread *owner;
    bool busy;
    int n, n_modules;
    looked_module *modules;
    size_t room;
    bool *called;
    rg_hook_at v[];
};

__thread struct rg_look *rgi_looks __attribute__((tls_model("initial-exec")));

/* ---- names ------------------------------------------------------------------------- */

/* Returns whether the name is what stands from `pattern` up to `end`, in which * is any part. */
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

/* Returns whether the name is one of the patterns, which blanks keep apart. What must be asked for
 * by its own name isn't any part. */
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

/* Writes the name that the value has for a look. Returns false where the look isn't at that model.
 * A look at a part of `of` has the names that `of` has. */
static bool name_for(const struct rg_look *look, const rg_module *of, const char *name,
                     char text[2 * RG_PATH_ROOM]) {
    char root[RG_PATH_ROOM];
    size_t at = 0;
    if (is_above(look->root, of)) {
        size_t n = rgi_module_path(look->root, root, sizeof root);
        at = rgi_module_path(of, text, RG_PATH_ROOM);
        size_t begin = n ? RG_MIN(n + 1, at) : 0;
        at -= begin;
        memmove(text, text + begin, at);
    } else if (!is_above(of, look->root)) {
        return false;
    }
    snprintf(text + at, 2 * RG_PATH_ROOM - at, "%s%s", at ? "." : "", name);
    return true;
}

/* ---- calling hooks ------------------------------------------------------------------ */

/* Calls the look's hooks for a value of that name. Returns what takes its place. */
static rg_tensor *call_hooks(struct rg_look *look, const char *name, rg_tensor *x) {
    for (int i = 0; i < look->n && x; i++) {
        if (!matches(look->v[i].name, name))
            continue;
        if (!rgi_may_do_once("a hook at a point"))
            return NULL;
        look->called[i] = true;
        look->busy = true;
        rg_tensor *other = look->v[i].hook(x, name, look->v[i].context);
        look->busy = false;
        if (other == RG_NONE)
            continue;
        rgi_given(other, name, "a tensor of a hook");
        x = other;
    }
    return x;
}

/* The outer looks come first. */
static rg_tensor *through_looks(struct rg_look *look, rg_module *of, const char *name,
                                rg_tensor *x) {
    char text[2 * RG_PATH_ROOM];
    if (look->outer)
        x = through_looks(look->outer, of, name, x);
    if (look->busy || !name_for(look, of, name, text))
        return x;
    return call_hooks(look, text, x);
}

rg_tensor *rgi_point(rg_module *of, const char *name, rg_tensor *x) {
    return through_looks(rgi_looks, of, name, x);
}

bool rgi_is_awaited(rg_module *of, const char *name) {
    char text[2 * RG_PATH_ROOM];
    for (struct rg_look *look = rgi_looks; look; look = look->outer)
        for (int i = 0; i < look->n && !look->busy; i++)
            if (name_for(look, of, name, text) && matches(look->v[i].name, text))
                return true;
    return false;
}

rg_tensor *rg_hook_point(void *m, const char *name, rg_tensor *x) {
    if (!rgi_module_given(m, "hook_point") || !rgi_given(name, "hook_point", "a name")
        || !rgi_check(x, "hook_point"))
        return NULL;
    return rgi_is_looking() ? rgi_point(m, name, x) : x;
}

static rg_tensor *look_at_output(rg_module *m, rg_list in, rg_tensor *y, void *context) {
    (void)m;
    (void)in;
    const looked_module *at = context;
    if (at->look->owner != rgi_thread_get() || at->look->busy)
        return RG_NONE;
    rg_tensor *other = call_hooks(at->look, at->name, y);
    return other == y ? RG_NONE : other;
}

/* ---- a look's begin and end --------------------------------------------------------- */

static bool is_any_matched(const struct rg_look *look, const char *name) {
    for (int i = 0; i < look->n; i++)
        if (matches(look->v[i].name, name))
            return true;
    return false;
}

/* Makes room for the modules that are waited for, which don't move any more. */
static bool list_modules(struct rg_look *look, const rg_named_modules_list *all) {
    if (!rgi_grow((void **)&look->modules, &look->room, (size_t)all->n + 1, sizeof *look->modules))
        return false;
    for (int i = 1; i < all->n; i++) {
        if (!is_any_matched(look, all->v[i].name))
            continue;
        looked_module *at = &look->modules[look->n_modules];
        *at = (looked_module){ look, all->v[i].module, NULL, -1 };
        if (!rgi_rename(&at->name, all->v[i].name))
            return false;
        look->n_modules++;
        at->id = rg_register_forward_hook(at->module, look_at_output, at);
        if (at->id < 0)
            return false;
    }
    return true;
}

static void look_end(struct rg_look *look) {
    struct rg_look **at = &rgi_looks;
    while (*at && *at != look)
        at = &(*at)->outer;
    if (*at)
        *at = look->outer;
    for (int i = 0; i < look->n_modules; i++) {
        looked_module *m = &look->modules[i];
        if (m->id >= 0)
            rg_remove_forward_hook(m->module, m->id);
        rgi_rename(&m->name, NULL);
    }
    rgi_free(look->modules, look->room * sizeof *look->modules, RG_MEM_OTHER);
    rgi_free(look->called, (size_t)look->n + 1, RG_MEM_OTHER);
    rgi_free(look, sizeof *look + (size_t)look->n * sizeof *look->v, RG_MEM_OTHER);
}

/* The looks of this thread let a module go that ends. */
static void forget_module(const rg_module *m) {
    for (struct rg_look *look = rgi_looks; look; look = look->outer) {
        if (look->root == m)
            look->root = NULL;
        for (int i = 0; i < look->n_modules; i++)
            if (look->modules[i].module == m)
                look->modules[i].id = -1;
    }
}

__attribute__((constructor)) static void observe_modules(void) {
    rgi_module_observer = (rg_module_observer){ .ended = forget_module, .hook = look_at_output };
}

static bool hooks_given(const rg_hooks_at *hooks, const char *op) {
    RG_FAIL_VALUE_IF(hooks->n < 0, op, "expected hooks but got %d", hooks->n);
    if (hooks->n && !rgi_given(hooks->v, op, "hooks"))
        return false;
    for (int i = 0; i < hooks->n; i++)
        if (!rgi_given(hooks->v[i].name, op, "a name")
            || !rgi_given(hooks->v[i].hook, op, "a function"))
            return false;
    return true;
}

static struct rg_look *look_begin(rg_module *m, const rg_hooks_at *hooks, const char *op) {
    RG_AS(op);
    RG_SCOPE();
    if (!hooks_given(hooks, op))
        return NULL;
    rg_named_modules_list all = rg_named_modules(m);
    size_t bytes = (size_t)hooks->n * sizeof *hooks->v;
    struct rg_look *look = all.n < 0 ? NULL : rgi_alloc(sizeof *look + bytes, RG_MEM_OTHER);
    if (!look)
        return NULL;
    *look = (struct rg_look){ .root = m, .owner = rgi_thread_get(), .n = hooks->n };
    if (bytes)
        memcpy(look->v, hooks->v, bytes);
    look->called = rgi_alloc((size_t)look->n + 1, RG_MEM_OTHER);
    if (look->called)
        memset(look->called, 0, (size_t)look->n + 1);
    if (look->called && list_modules(look, &all)) {
        look->outer = rgi_looks;
        rgi_looks = look;
        return look;
    }
    look_end(look);
    return NULL;
}

rg_hooks_guard rg_hooks_guard_open(void *m, rg_hooks_at hooks) {
    return (rg_hooks_guard){ look_begin(m, &hooks, "hooks") };
}

void rg_hooks_guard_close(rg_hooks_guard *guard) {
    if (guard->look)
        look_end(guard->look);
    guard->look = NULL;
}

/* ---- runs ----------------------------------------------------------------------------- */

/* Calls m with the hooks, each of which must have been called for something. */
static rg_tensor *run_looked_at(rg_module *m, const rg_hooks_at *hooks, rg_list inputs,
                                const char *op) {
    struct rg_look *look = look_begin(m, hooks, op);
    if (!look)
        return NULL;
    rg_tensor *y = rg_call_list(m, inputs);
    int unseen = 0;
    while (unseen < look->n && look->called[unseen])
        unseen++;
    look_end(look);
    RG_FAIL_VALUE_IF(y && unseen < hooks->n, op, "the %s has no value that is called '%s'",
                     m->cls->name, hooks->v[unseen].name);
    return y;
}

rg_tensor *rg_run_with_hooks_list(void *m, rg_hooks_at hooks, rg_list inputs) {
    return run_looked_at(m, &hooks, inputs, "run_with_hooks");
}

/* The n values that were kept, each with a reference, by their numbers in `names`. */
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

/* Hands the values over to the scope. */
static rg_named_list list_kept(const kept_values *k) {
    const rg_named_list failed = { -1, NULL };
    rg_named *v = rgi_scope_alloc(k->n * sizeof *v);
    for (size_t i = 0; i < k->n && v; i++) {
        rg_text name = { 0 };
        rgi_text_add(&name, "%s", rgi_map_name_at(&k->names, i));
        rg_tensor *value = rgi_lend(k->v[i]);
        v[i] = (rg_named){ rgi_text_own(&name), value };
        if (!v[i].name || !value)
            return failed;
    }
    return v ? (rg_named_list){ (int)k->n, v } : failed;
}

rg_cached_run rg_run_with_cache_list(void *m, const char *names, rg_list inputs) {
    const rg_cached_run failed = { NULL, { -1, NULL } };
    kept_values k = { .v = NULL };
    const rg_hook_at keep = { names, keep_value, &k };
    rg_tensor *y = run_looked_at(m, &(rg_hooks_at){ 1, &keep }, inputs, "run_with_cache");
    rg_cached_run run = { y, { -1, NULL } };
    if (y)
        run.cache = list_kept(&k);
    for (size_t i = 0; i < k.n; i++)
        rgi_release(k.v[i]);
    rgi_free((void *)k.v, k.room * sizeof *k.v, RG_MEM_OTHER);
    rgi_map_free(&k.names);
    return run.cache.n < 0 ? failed : run;
}

rg_tensor *rg_cache_get(rg_named_list cache, const char *name) {
    if (!rgi_given(name, "cache_get", "a name") || !rgi_given_list(cache.n, cache.v, "cache_get"))
        return NULL;
    for (int i = 0; i < cache.n; i++)
        if (cache.v[i].name && strcmp(cache.v[i].name, name) == 0)
            return cache.v[i].tensor;
    return rgi_fail(RG_VALUE_ERROR, "cache_get", "KeyError: '%s'", name);
}
