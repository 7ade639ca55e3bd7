/*
 * call.c: the one door through which every forward of every module goes, and the hooks there.
 */
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/structs.h"
#include "tensor/thread.h"

#include <stdio.h>
#include <string.h>

/* Writes m's path from the top of its tree, "h.0.attn", and returns its length. */
static size_t module_path(rg_module *m, char *text, size_t room) {
    rg_module *above = m->registry->parent;
    if (!above)
        return 0;
    size_t at = module_path(above, text, room);
    const char *name = "";
    for (RG_EACH_ENTRY(e, above))
        if (*e->place == m)
            name = e->name;
    int written = snprintf(text + at, room - at, "%s%s", at ? "." : "", name);
    return RG_MIN(room - 1, at + (size_t)written);
}

static int most_inputs(const rg_module_class *c) {
    if (c->forward3)
        return 3;
    if (c->forward2)
        return 2;
    return c->forward ? 1 : 0;
}

__attribute__((cold)) static rg_tensor *fail_for_inputs(const rg_module_class *c, int n) {
    int most = most_inputs(c);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !most, c->name,
                  "Module [%s] is missing the required \"forward\" function", c->name);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n > most, c->name,
                  "%s.forward() takes %d positional arguments but %d were given", c->name, most + 1,
                  n + 1);
    return rgi_fail(RG_TYPE_ERROR, c->name,
                    "%s.forward() missing %d required positional argument%s", c->name, most - n,
                    most - n > 1 ? "s" : "");
}

static rg_tensor *forward_of(rg_module *m, int n, rg_tensor *const x[]) {
    const rg_module_class *c = m->cls;
    if (n == 1 && c->forward)
        return c->forward(m, x[0]);
    if (n == 2 && c->forward2)
        return c->forward2(m, x[0], x[1]);
    if (n == 3 && c->forward3)
        return c->forward3(m, x[0], x[1], x[2]);
    return fail_for_inputs(c, n);
}

/* ---- hooks --------------------------------------------------------------------- */

/* Returns the place of the first hook whose id isn't below this one. */
static size_t hook_place(const rg_registry *r, int id) {
    size_t low = 0, high = r->n_hooks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->hooks[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Calls the hooks that run before, or those after, forward. What a hook returns takes the place
 * of *hooked, which is the first input, or the result. A hook may add and remove hooks: the next
 * one is found by its id. */
static void run_hooks(rg_module *m, bool before, rg_list in, rg_tensor **hooked) {
    const rg_registry *r = m->registry;
    for (size_t i = 0; i < r->n_hooks && *hooked;) {
        rg_module_hook h = r->hooks[i];
        if (h.function && h.before == before) {
            rg_tensor *other = h.function(m, in, before ? RG_NONE : *hooked, h.context);
            if (other != RG_NONE)
                *hooked = other;
        }
        i = hook_place(r, h.id + 1);
    }
}

enum { MOST_HOOKED_INPUTS = 3 };

/* Hooks are rare: their code stays out of the way of calls that have none. */
__attribute__((noinline, cold)) static rg_tensor *forward_with_hooks(rg_module *m, rg_list in) {
    rg_tensor *x[MOST_HOOKED_INPUTS];
    memcpy(x, in.v, (size_t)in.n * sizeof *x);
    in.v = x;
    run_hooks(m, true, in, &x[0]);
    rg_tensor *y = x[0] ? forward_of(m, in.n, in.v) : NULL;
    run_hooks(m, false, in, &y);
    return y;
}

static int add_hook(rg_module *m, bool before, rg_forward_hook *hook, void *context) {
    const char *op = before ? "register_forward_pre_hook" : "register_forward_hook";
    if (!rgi_module_given(m, op) || !rgi_given(hook, op, "a function"))
        return -1;
    rg_registry *r = m->registry;
    if (!rgi_grow((void **)&r->hooks, &r->hook_room, r->n_hooks + 1, sizeof *r->hooks))
        return -1;
    r->hooks[r->n_hooks++] = (rg_module_hook){ ++r->last_hook, before, hook, context };
    r->live_hooks++;
    return r->last_hook;
}

int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook(m, false, hook, context);
}

int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook(m, true, hook, context);
}

/* Closes the gaps that removed hooks leave, once they are at least half. */
static void close_hook_gaps(rg_registry *r) {
    size_t n = 0;
    if (r->n_hooks < 2 * r->live_hooks)
        return;
    for (size_t i = 0; i < r->n_hooks; i++)
        if (r->hooks[i].function)
            r->hooks[n++] = r->hooks[i];
    r->n_hooks = n;
}

bool rg_remove_forward_hook(rg_module *m, int id) {
    if (!rgi_module_given(m, "remove_forward_hook"))
        return false;
    rg_registry *r = m->registry;
    size_t i = hook_place(r, id);
    RG_FAIL_VALUE_IF(i == r->n_hooks || r->hooks[i].id != id || !r->hooks[i].function,
                     "remove_forward_hook", "the module has no hook %d", id);
    r->hooks[i].function = NULL;
    r->live_hooks--;
    close_hook_gaps(r);
    return true;
}

/* ---- the door ------------------------------------------------------------------ */

static bool may_call(rg_module *m, rg_list in) {
    if (!rgi_module_given(m, "call") || !rgi_given_list(in.n, in.v, m->cls->name))
        return false;
    for (int i = 0; i < in.n; i++)
        if (in.v[i] != RG_NONE && !rgi_check(in.v[i], m->cls->name))
            return false;
    return true;
}

/* Writes "h.0.attn (Attention)", which anomaly mode shows. */
__attribute__((noinline, cold)) static void describe_module(rg_module *m, char *text, size_t room) {
    size_t at = module_path(m, text, room);
    snprintf(text + at, room - at, at ? " (%s)" : "%s", m->cls->name);
}

rg_tensor *rg_call_list(rg_module *m, rg_list in) {
    if (!may_call(m, in))
        return NULL;
    RG_SCOPE();
    bool hooked = m->registry->live_hooks && in.n > 0 && in.n <= MOST_HOOKED_INPUTS;
    if (hooked && !rgi_may_do_once("a forward hook"))
        return NULL;
    const char *outside = rgi_inside;
    char path[128];
    if (RG_UNLIKELY(rg_is_anomaly_enabled())) {
        describe_module(m, path, sizeof path);
        rgi_inside = path;
    }
    rg_tensor *y = RG_UNLIKELY(hooked) ? forward_with_hooks(m, in) : forward_of(m, in.n, in.v);
    rgi_inside = outside;
    return rgi_given(y, m->cls->name, "a tensor of forward and its hooks") ? rg_escape(y) : NULL;
}
