/*
 * call.c: the one door through which every forward of every module goes, and the hooks there.
 */
#include "registry.h"
#include "stack.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/structs.h"
#include "tensor/thread.h"

#include <stdio.h>
#include <string.h>

static int most_inputs(const rg_module_class *c) {
    if (c->forward3)
        return 3;
    if (c->forward2)
        return 2;
    return c->forward ? 1 : 0;
}

__attribute__((cold)) rg_tensor *rgi_fail_for_inputs_of(const rg_module_class *c, int n,
                                                        int takes) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n > takes, c->name,
                  "%s.forward() takes %d positional arguments but %d were given", c->name,
                  takes + 1, n + 1);
    return rgi_fail(RG_TYPE_ERROR, c->name,
                    "%s.forward() missing %d required positional argument%s", c->name, takes - n,
                    takes - n > 1 ? "s" : "");
}

__attribute__((cold)) rg_tensor *rgi_fail_for_inputs(const rg_module_class *c, int n) {
    int most = most_inputs(c);
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !most, c->name,
                  "Module [%s] is missing the required \"forward\" function", c->name);
    return rgi_fail_for_inputs_of(c, n, most);
}

static rg_tensor *forward_of(rg_module *m, rg_list in, void *keywords) {
    const rg_module_class *c = m->cls;
    int n = keywords ? -1 : in.n;
    if (n == 1 && c->forward)
        return c->forward(m, in.v[0]);
    if (n == 2 && c->forward2)
        return c->forward2(m, in.v[0], in.v[1]);
    if (n == 3 && c->forward3)
        return c->forward3(m, in.v[0], in.v[1], in.v[2]);
    if (c->forward_with)
        return c->forward_with(m, in, keywords);
    return rgi_fail_for_inputs(c, in.n);
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
static void run_hooks(rg_module *m, rg_module_hook_kind kind, rg_list in, rg_tensor **hooked) {
    const bool before = kind == RG_HOOK_BEFORE;
    const rg_registry *r = m->registry;
    for (size_t i = 0; i < r->n_hooks && *hooked;) {
        rg_module_hook h = r->hooks[i];
        if (h.kind == kind) {
            rg_tensor *other = h.forward(m, in, before ? RG_NONE : *hooked, h.context);
            if (other != RG_NONE)
                *hooked = other;
        }
        i = hook_place(r, h.id + 1);
    }
}

/* Hooks are rare: their code stays out of the way of calls that have none. Where there is no input,
 * what a pre-hook returns becomes one. */
__attribute__((noinline, cold)) static rg_tensor *forward_with_hooks(rg_module *m, rg_list in,
                                                                     void *keywords) {
    if (!rgi_may_do_once("a forward hook"))
        return NULL;
    rg_tensor **x = rgi_scope_alloc((size_t)(in.n + 1) * sizeof *x);
    if (!x)
        return NULL;
    if (in.n)
        memcpy(x, in.v, (size_t)in.n * sizeof *x);
    else
        x[0] = RG_NONE;
    in.v = x;
    run_hooks(m, RG_HOOK_BEFORE, in, &x[0]);
    if (in.n == 0 && x[0] != RG_NONE)
        in.n = 1;
    rg_backward_call *call = NULL;
    if (!x[0] || !rgi_backward_call_begin(m, in.n, x, &call))
        return NULL;
    rg_tensor *y = forward_of(m, in, keywords);
    run_hooks(m, RG_HOOK_AFTER, in, &y);
    return rgi_backward_call_end(call, y);
}

static int add_hook(const char *op, rg_module *m, rg_module_hook hook) {
    if (!rgi_module_given(m, op) || !rgi_given((void *)(uintptr_t)hook.forward, op, "a function"))
        return -1;
    rg_registry *r = m->registry;
    if (!rgi_grow((void **)&r->hooks, &r->hook_room, r->n_hooks + 1, sizeof *r->hooks))
        return -1;
    hook.id = ++r->last_hook;
    r->hooks[r->n_hooks++] = hook;
    r->live_hooks++;
    return r->last_hook;
}

int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    const rg_module_hook h = { .kind = RG_HOOK_AFTER, .forward = hook, .context = context };
    return add_hook("register_forward_hook", m, h);
}

int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context) {
    const rg_module_hook h = { .kind = RG_HOOK_BEFORE, .forward = hook, .context = context };
    return add_hook("register_forward_pre_hook", m, h);
}

int rg_register_full_backward_hook(rg_module *m, rg_full_backward_hook *hook, void *context) {
    const rg_module_hook h = { .kind = RG_HOOK_BACKWARD, .backward = hook, .context = context };
    return add_hook("register_full_backward_hook", m, h);
}

int rg_register_full_backward_pre_hook(rg_module *m, rg_full_backward_pre_hook *hook,
                                       void *context) {
    const rg_module_hook h = { .kind = RG_HOOK_BACKWARD_PRE, .pre = hook, .context = context };
    return add_hook("register_full_backward_pre_hook", m, h);
}

/* Closes the gaps that removed hooks leave, once they are at least half. */
static void close_hook_gaps(rg_registry *r) {
    size_t n = 0;
    if (r->n_hooks < 2 * r->live_hooks)
        return;
    for (size_t i = 0; i < r->n_hooks; i++)
        if (r->hooks[i].kind != RG_HOOK_REMOVED)
            r->hooks[n++] = r->hooks[i];
    r->n_hooks = n;
}

bool(rg_remove_forward_hook)(rg_module *m, int id) {
    if (!rgi_module_given(m, "remove_forward_hook"))
        return false;
    rg_registry *r = m->registry;
    size_t i = hook_place(r, id);
    RG_FAIL_VALUE_IF(i == r->n_hooks || r->hooks[i].id != id || r->hooks[i].kind == RG_HOOK_REMOVED,
                     "remove_forward_hook", "the module has no hook %d", id);
    r->hooks[i].kind = RG_HOOK_REMOVED;
    r->live_hooks--;
    close_hook_gaps(r);
    return true;
}

/* ---- the door ------------------------------------------------------------------ */

static bool may_call(rg_module *m, rg_list in) {
    if (!rgi_module_given(m, "call") || !rgi_given_list(in.n, in.v, m->cls->name))
        return false;
    RG_FAIL_IF(RG_UNLIKELY(m->failed), m->cls->name,
               "the module isn't whole, since something wasn't registered in its constructor; "
               "RG_READY returns NULL for such a module");
    for (int i = 0; i < in.n; i++)
        if (in.v[i] != RG_NONE && !rgi_check(in.v[i], m->cls->name))
            return false;
    return true;
}

/* Returns "h.0.attn (Attention)", which anomaly mode shows, or NULL if there is no memory. */
__attribute__((noinline, cold)) static const char *describe_module(rg_module *m) {
    char *text = rgi_scope_alloc(RG_PATH_ROOM);
    if (!text)
        return NULL;
    size_t at = rgi_module_path(m, text, RG_PATH_ROOM);
    snprintf(text + at, RG_PATH_ROOM - at, at ? " (%s)" : "%s", m->cls->name);
    return text;
}

/* The thread's calls that are under way form a list, the innermost first. */
typedef struct call_frame {
    struct call_frame *outer;
    rg_module *m;
    void *keywords;
    bool frees; /* The module was freed meanwhile: the end of this call frees it. */
} call_frame;
static __thread call_frame *calling __attribute__((tls_model("initial-exec")));

bool rgi_free_after_call(const rg_module *m) {
    call_frame *outermost = NULL;
    for (call_frame *f = calling; f; f = f->outer)
        if (f->m == m)
            outermost = f;
    if (!outermost)
        return false;
    if (outermost->frees)
        rg_fail(RG_RELEASED, "module_free", "module released by rg_module_free");
    outermost->frees = true;
    return true;
}

void *rg_keywords_of_call(rg_module *m) {
    if (!rgi_module_given(m, "keywords_of_call"))
        return NULL;
    const call_frame *f = calling;
    while (f && f->m != m)
        f = f->outer;
    RG_FAIL_IF(!f, "keywords_of_call", "no call of the %s is under way", m->cls->name);
    return f->keywords;
}

/* Frees the module of a call that has ended. Returns y, which may be the module's own parameter. */
__attribute__((noinline, cold)) static rg_tensor *free_called(rg_module *m, rg_tensor *y) {
    y = rgi_lend(y);
    rg_module_free(m);
    return y;
}

/* Every forward of every module goes through here. */
static inline rg_tensor *call(rg_module *m, rg_list in, void *keywords) {
    if (!may_call(m, in))
        return NULL;
    RG_FAIL_IF(rgi_stack_is_short(), m->cls->name, "maximum recursion depth exceeded");
    RG_SCOPE();
    const char *outside = rgi_inside;
    if (RG_UNLIKELY(rg_is_anomaly_enabled())) {
        rgi_inside = describe_module(m);
        if (!rgi_inside) {
            rgi_inside = outside;
            return NULL;
        }
    }
    call_frame frame = { calling, m, keywords, false };
    calling = &frame;
    rg_tensor *y = RG_UNLIKELY(m->registry->live_hooks) ? forward_with_hooks(m, in, keywords)
                                                        : forward_of(m, in, keywords);
    calling = frame.outer;
    rgi_inside = outside;
    rgi_given(y, m->cls->name, "a tensor of forward and its hooks");
    if (RG_UNLIKELY(frame.frees))
        y = free_called(m, y);
    return y ? rg_escape(y) : NULL;
}

rg_tensor *rg_call_list(rg_module *m, rg_list in) { return call(m, in, NULL); }

rg_tensor *(rg_call_with)(rg_module *m, rg_list in, void *keywords, size_t keywords_bytes) {
    if (!rgi_module_given(m, "call"))
        return NULL;
    const rg_module_class *c = m->cls;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, keywords && !c->keywords_bytes, c->name,
                  "%s.forward() got unexpected keyword arguments", c->name);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, keywords && c->keywords_bytes != keywords_bytes, c->name,
                  "%s.forward() takes keywords of %zu bytes but got %zu", c->name,
                  c->keywords_bytes, keywords_bytes);
    return call(m, in, keywords);
}
