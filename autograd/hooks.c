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

/* Returns the hook that comes after number id; a hook may add others, and take itself away. */
static rg_hook *hook_after(const rg_node *n, int id) {
    rg_hook *h = n->hooks;
    while (h && h->id <= id)
        h = h->next;
    return h;
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

/* Hooks that are added meanwhile come after the last one, and wait for the next run. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad) {
    if (!rgi_may_do_once("a hook"))
        return false;
    int last = -1;
    for (const rg_hook *h = n->hooks; h; h = h->next)
        last = h->id;
    rg_hook *h = hook_after(n, -1);
    while (*grad && h && h->id <= last) {
        int id = h->id;
        bool ok = true;
        if (h->output == output)
            ok = h->function ? hook_call(n, h, grad) : hook_keep(n, h, *grad);
        if (!ok)
            return false;
        h = hook_after(n, id);
    }
    return true;
}

/* ---- registering ------------------------------------------------------------------- */

rg_hook *rgi_hook_that_retains(const rg_tensor *t) {
    rg_hook *h = t->history ? rgi_node_of(t)->hooks : NULL;
    while (h && (h->function || h->output != t->output))
        h = h->next;
    return h;
}

void rgi_move_retained(rg_node *from, int output, rg_node *to, int to_output) {
    rg_hook **at = &from->hooks;
    while (*at && ((*at)->function || (*at)->output != output))
        at = &(*at)->next;
    rg_hook *h = *at;
    if (!h)
        return;
    *at = h->next;
    h->output = to_output;
    h->next = to->hooks;
    to->hooks = h;
}

static rg_hook *hook_new(rg_tensor *t, rg_hook_function *function, void *context) {
    rg_node *n = rgi_node_of(t);
    rg_hook *h = rgi_alloc(sizeof *h, RG_MEM_NODE);
    if (!h)
        return NULL;
    rg_hook **end = &n->hooks;
    int id = 0;
    for (; *end; end = &(*end)->next)
        id = RG_MAX(id, (*end)->id + 1);
    *h = (rg_hook){ .id = id, .output = t->output, .function = function, .context = context };
    *end = h;
    return h;
}

bool rg_retain_grad(rg_tensor *t) {
    if (!rgi_check(t, "retain_grad") || !rgi_renew(t))
        return false;
    RG_FAIL_IF(!t->history, "retain_grad",
               "can't retain_grad on Tensor that has requires_grad=False");
    if (!rgi_node_of(t)->op || rgi_hook_that_retains(t))
        return true;
    return hook_new(t, NULL, NULL) != NULL;
}

int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context) {
    if (!rgi_check(t, "register_hook") || !rgi_renew(t))
        return -1;
    if (!t->history || !function) {
        rgi_fail(RG_RUNTIME_ERROR, "register_hook",
                 "cannot register a hook on a tensor that doesn't require gradient");
        return -1;
    }
    rg_hook *h = hook_new(t, function, context);
    return h ? h->id : -1;
}

bool rg_remove_hook(rg_tensor *t, int id) {
    if (!rgi_check(t, "remove_hook"))
        return false;
    rg_hook **h = t->history ? &rgi_node_of(t)->hooks : NULL;
    while (h && *h && ((*h)->id != id || (*h)->output != t->output))
        h = &(*h)->next;
    RG_FAIL_IF(!h || !*h || !(*h)->function, "remove_hook", "the tensor has no hook %d", id);
    rg_hook *gone = *h;
    *h = gone->next;
    rgi_free(gone, sizeof *gone, RG_MEM_NODE);
    return true;
}
