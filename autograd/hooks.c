/*
 * hooks.c: functions that the user registers to see a gradient on its way back or to
 * change it, and the hooks that keep gradients of tensors that are no leaves.
 */
#include "hooks.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "engine.h"
#include "rebase.h"

/* ---- running ----------------------------------------------------------------------- */

/* Returns the place of the first hook whose id isn't below this one. */
static size_t place_of(const rg_hooks *hooks, int id) {
    size_t low = 0;
    size_t high = hooks->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hooks->v[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the first hook that is there from number id on, or NULL. A hook is found by its number
 * and not by its place, since it may add others, and take itself away. */
static rg_hook *hook_from(const rg_hooks *hooks, int id) {
    for (size_t i = place_of(hooks, id); i < hooks->n; i++)
        if (!hooks->v[i].removed)
            return &hooks->v[i];
    return NULL;
}

/* Adds to the gradient that is kept for rg_retain_grad. Where no header is left to ask for it, it
 * isn't kept: its graph would keep the node (see node_history_release). */
static bool hook_keep(const rg_node *n, rg_hook *h, rg_tensor *grad) {
    if (!rgi_node_has_headers(n))
        return true;
    rg_tensor *kept = h->grad ? rg_add(h->grad, grad) : rg_clone(grad);
    if (!kept)
        return false;
    rgi_retain(kept);
    rgi_release(h->grad);
    h->grad = kept;
    return true;
}

/* Calls the user's function, which may remove the hook itself, and takes what it returns. */
static bool hook_call(const rg_node *n, const rg_hook *h, rg_tensor **grad) {
    int output = h->output;
    rg_tensor *g = rgi_lend(*grad);
    if (g)
        g = h->function(g, h->context);
    if (g == RG_NONE)
        return true;
    if (!rgi_check(g, "hook"))
        return false;
    g = rgi_sum_to(g, &n->meta[output]);
    if (!g)
        return false;
    rgi_retain(g);
    rgi_release(*grad);
    *grad = g;
    return true;
}

/* Hooks that are added meanwhile wait for the next run. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad) {
    if (!rgi_may_do_once("a hook"))
        return false;
    int end = n->hooks->next_id;
    for (rg_hook *h = hook_from(n->hooks, 0); *grad && h && h->id < end;) {
        int id = h->id;
        bool ok = true;
        if (h->output == output && !h->after)
            ok = h->function ? hook_call(n, h, grad) : hook_keep(n, h, *grad);
        if (!ok)
            return false;
        h = hook_from(n->hooks, id + 1);
    }
    return true;
}

bool rgi_has_hooks_after(const rg_node *leaf) {
    const rg_hook *h = rgi_has_hooks(leaf) ? hook_from(leaf->hooks, 0) : NULL;
    while (h && !h->after)
        h = hook_from(leaf->hooks, h->id + 1);
    return h;
}

/* A leaf that was released, while something else has its node, isn't called. */
bool rgi_run_hooks_after(rg_node *leaf) {
    int end = leaf->hooks->next_id;
    for (rg_hook *h = hook_from(leaf->hooks, 0); h && h->id < end;) {
        int id = h->id;
        bool there = h->after && h->leaf->state == RG_ALIVE && h->leaf->history == &leaf->base;
        if (there && !h->after(h->leaf, h->context))
            return false;
        h = hook_from(leaf->hooks, id + 1);
    }
    return true;
}

/* ---- registering ------------------------------------------------------------------- */

/* A hook that was taken away by rgi_move_retained is on a node that t no longer has. */
rg_hook *rgi_hook_that_retains(const rg_tensor *t) {
    const rg_hooks *hooks = t->history ? rgi_node_of(t)->hooks : NULL;
    for (size_t i = 0; hooks && i < hooks->n; i++) {
        rg_hook *h = &hooks->v[i];
        if (!h->function && !h->after && h->output == t->output)
            return h;
    }
    return NULL;
}

static rg_hook *hook_new(rg_tensor *t, rg_hook_function *function, void *context) {
    rg_node *n = rgi_node_of(t);
    if (!n->hooks) {
        n->hooks = rgi_alloc(sizeof *n->hooks, RG_MEM_NODE);
        if (!n->hooks)
            return NULL;
        *n->hooks = (rg_hooks){ 0 };
    }
    rg_hooks *hooks = n->hooks;
    if (!rgi_grow((void **)&hooks->v, &hooks->room, hooks->n + 1, sizeof *hooks->v))
        return NULL;
    rg_hook *h = &hooks->v[hooks->n++];
    *h = (rg_hook){
        .id = hooks->next_id++, .output = t->output, .function = function, .context = context
    };
    hooks->live++;
    return h;
}

bool rgi_retain_alike(rg_tensor *after, const rg_tensor *t) {
    return !rgi_hook_that_retains(t) || hook_new(after, NULL, NULL);
}

void rgi_move_retained(const rg_tensor *t, const rg_tensor *after) {
    rg_hook *from = rgi_hook_that_retains(t);
    rg_hook *to = from ? rgi_hook_that_retains(after) : NULL;
    if (!to)
        return;
    to->grad = from->grad;
    from->grad = NULL;
    from->removed = true;
}

/* Closes the gaps that removed hooks leave, once they are at least half. */
static void close_gaps(rg_hooks *hooks) {
    size_t n = 0;
    if (hooks->n < 2 * hooks->live)
        return;
    for (size_t i = 0; i < hooks->n; i++)
        if (!hooks->v[i].removed)
            hooks->v[n++] = hooks->v[i];
    hooks->n = n;
}

void rgi_hooks_forget_grads(rg_hooks *hooks) {
    for (size_t i = 0; hooks && i < hooks->n; i++) {
        if (hooks->v[i].after)
            continue;
        rgi_release(hooks->v[i].grad);
        hooks->v[i].grad = NULL;
    }
}

void rgi_hooks_free(rg_hooks *hooks) {
    if (!hooks)
        return;
    rgi_hooks_forget_grads(hooks);
    rgi_free(hooks->v, hooks->room * sizeof *hooks->v, RG_MEM_OTHER);
    rgi_free(hooks, sizeof *hooks, RG_MEM_NODE);
}

bool rg_retain_grad(rg_tensor *t) {
    if (!rgi_check(t, "retain_grad") || !rgi_renew(t, "retain_grad"))
        return false;
    RG_FAIL_IF(!t->history, "retain_grad",
               "can't retain_grad on Tensor that has requires_grad=False");
    if (!rgi_node_of(t)->op || rgi_hook_that_retains(t))
        return true;
    return hook_new(t, NULL, NULL) != NULL;
}

bool rg_retains_grad(rg_tensor *t) {
    return rgi_check(t, "retains_grad") && rgi_hook_that_retains(t);
}

/* A run looks for leaves that have hooks only where there may be some. */
static atomic_bool leaves_were_hooked;

RG_HOT bool rgi_were_leaves_hooked(void) {
    return atomic_load_explicit(&leaves_were_hooked, memory_order_relaxed);
}

int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context) {
    if (!rgi_check(t, "register_hook") || !rgi_renew(t, "register_hook"))
        return -1;
    if (!t->history || !function) {
        rgi_fail(RG_RUNTIME_ERROR, "register_hook",
                 "cannot register a hook on a tensor that doesn't require gradient");
        return -1;
    }
    rg_hook *h = hook_new(t, function, context);
    if (h && !rgi_node_of(t)->op)
        atomic_store_explicit(&leaves_were_hooked, true, memory_order_relaxed);
    return h ? h->id : -1;
}

int rg_register_post_accumulate_grad_hook(rg_tensor *t, rg_post_accumulate_grad_hook *hook,
                                          void *context) {
    static const char op[] = "register_post_accumulate_grad_hook";
    if (!rgi_check(t, op) || !rgi_renew(t, op) || !rgi_given(hook, op, "a function"))
        return -1;
    if (!t->history || rgi_node_of(t)->op) {
        rgi_fail(RG_RUNTIME_ERROR, op,
                 t->history ? "post accumulate grad hooks cannot be registered on non-leaf tensors"
                            : "cannot register a hook on a tensor that doesn't require gradient");
        return -1;
    }
    rg_hook *h = hook_new(t, NULL, context);
    if (!h)
        return -1;
    h->after = hook;
    h->leaf = t;
    return h->id;
}

bool(rg_remove_hook)(rg_tensor *t, int id) {
    if (!rgi_check(t, "remove_hook"))
        return false;
    rg_hooks *hooks = t->history ? rgi_node_of(t)->hooks : NULL;
    size_t at = hooks ? place_of(hooks, id) : 0;
    rg_hook *h = hooks && at < hooks->n ? &hooks->v[at] : NULL;
    RG_FAIL_IF(!h || h->id != id || h->removed || h->output != t->output
                   || !(h->function || h->after),
               "remove_hook", "the tensor has no hook %d", id);
    h->removed = true;
    hooks->live--;
    close_gaps(hooks);
    return true;
}
