/*
 * call.c: calling a module. Every forward of every module is run by the function `call` here, and
 * so are the forward hooks.
 */
#include "registry.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/messages/unread.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/structs.h"
#include "tensor/system/stack.h"

#include <stdio.h>
#include <string.h>

static int most_inputs(const rg_module_class *c) {
    if (c->forward3)
        return 3;
    if (c->forward2)
        return 2;
    return c->forward ? 1 : 0;
}

/* Fails as rgi_fail_for_inputs does. `more` is appended to the message. */
static rg_tensor *fail_for_inputs(const rg_module_class *c, int n, int takes, const char *more) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, n > takes, c->name,
                  "%s.forward() takes %d positional arguments but %d were given%s", c->name,
                  takes + 1, n + 1, more);
    return rgi_fail(RG_TYPE_ERROR, c->name,
                    "%s.forward() missing %d required positional argument%s%s", c->name, takes - n,
                    takes - n > 1 ? "s" : "", more);
}

__attribute__((cold)) rg_tensor *rgi_fail_for_inputs_of(const rg_module_class *c, int n, int takes,
                                                        const char *const names[]) {
    char missing[100] = "";
    for (int i = n; i < takes; i++) {
        const size_t at = strlen(missing);
        const char *before = ", ";
        if (i == n)
            before = ": ";
        else if (i == takes - 1)
            before = takes - n > 2 ? ", and " : " and ";
        snprintf(missing + at, sizeof missing - at, "%s'%s'", before, names[i]);
    }
    return fail_for_inputs(c, n, takes, missing);
}

/* Fails for a call with n inputs, for which the class has no function, and returns NULL. */
static rg_tensor *fail_without_function(const rg_module_class *c, int n) {
    static const char *const functions[] = { "forward_with", "forward", "forward2", "forward3" };
    const int most = most_inputs(c);
    char needs[100];
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !most, c->name,
                  "Module [%s] is missing the required \"forward\" function", c->name);
    snprintf(needs, sizeof needs, "; the class has no .%s for a call with %d input%s",
             functions[n > 3 ? 0 : n], n, n == 1 ? "" : "s");
    return fail_for_inputs(c, n, most, needs);
}

__attribute__((cold)) rg_tensor *rgi_fail_for_inputs(const rg_module_class *c, int n) {
    return fail_for_inputs(c, n, most_inputs(c), "");
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
    return fail_without_function(c, in.n);
}

/* ---- forward hooks ------------------------------------------------------------- */

/* Calls the hooks of one kind: those before forward, or those after it. *hooked is the first input
 * for hooks before forward, and the output for hooks after it. A hook's result replaces *hooked,
 * unless it is RG_NONE. If a hook returns NULL, no further hook is called. A hook may add and
 * remove hooks. A hook that is added meanwhile isn't called before the next call of m. */
static void run_hooks(rg_module *m, int kind, rg_list in, rg_tensor **hooked) {
    const rg_hook_list *hooks = &m->registry->hooks;
    const int end = hooks->next_id;
    const rg_hook *h = rgi_hook_from(hooks, 0, end, kind);
    while (h && *hooked) {
        const int id = h->id;
        rg_forward_hook *function = (rg_forward_hook *)h->function;
        rg_tensor *y = kind == RG_HOOK_BEFORE ? RG_NONE : *hooked;
        rg_tensor *other = function(m, in, y, h->context);
        if (other != RG_NONE)
            *hooked = other;
        h = rgi_hook_from(hooks, id + 1, end, kind);
    }
}

/* Runs forward with hooks. Most modules have no hooks, so this code isn't inlined into their calls.
 * If the call has no input and a pre-hook returns a tensor, that tensor becomes the input. */
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

static int add_hook(const char *op, rg_module *m, int kind, rg_any_function *hook, void *context) {
    if (!rgi_module_given(m, op) || !RG_GIVEN_FUNCTION(hook, op))
        return -1;
    return rgi_hook_add(&m->registry->hooks, kind, hook, context);
}

int(rg_register_forward_hook)(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook("register_forward_hook", m, RG_HOOK_AFTER, (rg_any_function *)hook, context);
}

int(rg_register_forward_pre_hook)(rg_module *m, rg_forward_hook *hook, void *context) {
    return add_hook("register_forward_pre_hook", m, RG_HOOK_BEFORE, (rg_any_function *)hook,
                    context);
}

int(rg_register_full_backward_hook)(rg_module *m, rg_full_backward_hook *hook, void *context) {
    return add_hook("register_full_backward_hook", m, RG_HOOK_BACKWARD, (rg_any_function *)hook,
                    context);
}

int(rg_register_full_backward_pre_hook)(rg_module *m, rg_full_backward_pre_hook *hook,
                                         void *context) {
    return add_hook("register_full_backward_pre_hook", m, RG_HOOK_BACKWARD_PRE,
                    (rg_any_function *)hook, context);
}

bool(rg_remove_forward_hook)(rg_module *m, int id) {
    if (!rgi_module_given(m, "remove_forward_hook"))
        return false;
    rg_hook_list *hooks = &m->registry->hooks;
    rg_hook *h = rgi_hook_find(hooks, id);
    RG_FAIL_VALUE_IF(!h, "remove_forward_hook", "the module has no hook %d", id);
    rgi_hook_remove(hooks, h);
    return true;
}

/* ---- the call of a module ------------------------------------------------------ */

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

/* Returns m's path and class, such as "h.0.attn (Attention)", for anomaly mode to print. Returns
 * NULL if memory runs out. */
__attribute__((noinline, cold)) static const char *describe_module(rg_module *m) {
    char *text = rgi_scope_alloc(RG_PATH_ROOM);
    if (!text)
        return NULL;
    size_t at = rgi_module_path(m, text, RG_PATH_ROOM);
    snprintf(text + at, RG_PATH_ROOM - at, at ? " (%s)" : "%s", m->cls->name);
    return text;
}

/* Adds m's path to the message of a failure inside m's call. Adds nothing if m isn't the child of a
 * module, or in anomaly mode, whose messages have the path already. `before` is the number of
 * failures before the call. The functions that forward has then called with NULL are forgotten: the
 * caller of m knows only that m has failed. */
__attribute__((noinline, cold)) static void name_place(const rg_module *m, int64_t before) {
    char place[RG_PATH_ROOM] = "module ";
    const size_t n = strlen(place);
    if (rgi_this.failure.number > before)
        rgi_null_stayed_inside(0);
    if (rgi_module_path(m, place + n, sizeof place - n) && !rg_is_anomaly_enabled())
        rgi_failed_inside(before, place);
}

/* A call of a module that hasn't ended yet. The calls of a thread form a list, `calling`, with the
 * innermost call first. */
typedef struct call_frame {
    struct call_frame *outer;
    rg_module *m;
    void *keywords;
    /* True if rg_module_free was called for m meanwhile. Then the end of this call frees m. */
    bool frees;
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

void *(rg_keywords_of_call)(rg_module *m) {
    if (!rgi_module_given(m, "keywords_of_call"))
        return NULL;
    const call_frame *f = calling;
    while (f && f->m != m)
        f = f->outer;
    RG_FAIL_IF(!f, "keywords_of_call", "no call of the %s is under way", m->cls->name);
    return f->keywords;
}

/* Frees m, now that its call has ended, and returns y. y may be a parameter of m, so the scope gets
 * a reference to y first. */
__attribute__((noinline, cold)) static rg_tensor *free_called(rg_module *m, rg_tensor *y) {
    y = rgi_lend(y);
    rg_module_free(m);
    return y;
}

/* Calls m: checks the inputs, opens a scope, runs forward and the hooks, and returns the output.
 * Every call of a module is made by this function. */
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
    const int64_t before = rgi_failures();
    call_frame frame = { calling, m, keywords, false };
    calling = &frame;
    rg_hook_list *hooks = &m->registry->hooks;
    if (RG_UNLIKELY(rgi_this.observer != NULL) && !hooks->live)
        rgi_observe_hooks(hooks);
    rg_tensor *y = RG_UNLIKELY(hooks->live) ? forward_with_hooks(m, in, keywords)
                                            : forward_of(m, in, keywords);
    calling = frame.outer;
    rgi_inside = outside;
    const bool ok = rgi_called(y, before, RG_TYPE_ERROR, m->cls->name,
                               "expected a tensor of forward and its hooks but got NULL");
    if (RG_UNLIKELY(!ok))
        name_place(m, before);
    if (RG_UNLIKELY(frame.frees))
        y = free_called(m, y);
    return ok ? rg_escape(y) : NULL;
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
