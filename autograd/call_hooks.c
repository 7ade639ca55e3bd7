/*
 * call_hooks.c: registers and calls hooks. A hook is a function of the program that sees or changes
 * a gradient during a backward run. hooks.c stores the hooks of a node.
 */
#include "checks.h"
#include "engine.h"
#include "frozen.h"
#include "hooks.h"
#include "rebase.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"

/* ---- calling hooks ----------------------------------------------------------------- */

/* Calls the hook's function, and replaces the gradient by the result unless that is RG_NONE. Fails
 * if the result is NULL or of another dtype or shape. The function may remove its own hook. */
static bool hook_call(const rg_hook *h, rg_tensor **grad) {
    rg_hook_function *function = (rg_hook_function *)h->function;
    rg_tensor *g = rgi_lend(*grad);
    if (!g)
        return false;
    const int64_t before = rgi_failures();
    g = function(g, h->context);
    if (!rgi_called(g, before, RG_TYPE_ERROR, "hook", "expected a tensor but got NULL"))
        return false;
    if (g == RG_NONE)
        return true;
    if (!rgi_check(g, "hook") || !rgi_want_replacement(NULL, "hook", g, *grad))
        return false;
    rgi_retain(g);
    rgi_release(*grad);
    *grad = g;
    return true;
}

/* Adds `grad` to the retained gradient *kept of an output. If no tensor header has the node as its
 * history any more, the program can't ask for the gradient, and nothing is kept. This also avoids a
 * cycle: the graph of the gradient may refer back to the node (see node_history_release). */
static bool keep_gradient(const rg_node *n, rg_tensor **kept, rg_tensor *grad) {
    if (!rgi_node_has_headers(n))
        return true;
    rg_tensor *sum = *kept ? rg_add(*kept, grad) : rg_clone(grad);
    if (!sum)
        return false;
    rgi_retain(sum);
    rgi_release(*kept);
    *kept = sum;
    return true;
}

/* Calls the output's hooks, which may replace the gradient. Then keeps the gradient if the output
 * retains it. A hook that is added by another hook isn't called before the next run. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad) {
    if (!rgi_may_do_once("a hook"))
        return false;
    rg_hooks *hooks = rgi_hooks_of(n);
    const int end = hooks->list.next_id;
    const rg_hook *h = *grad ? rgi_hook_from(&hooks->list, 0, end, output) : NULL;
    while (h) {
        const int id = h->id;
        if (!hook_call(h, grad))
            return false;
        h = rgi_hook_from(&hooks->list, id + 1, end, output);
    }
    return !*grad || !(hooks->retains >> output & 1)
           || keep_gradient(n, &hooks->grad[output], *grad);
}

bool rgi_has_hooks_after(const rg_node *leaf) {
    const rg_hooks *hooks = rgi_hooks_of(leaf);
    return hooks && rgi_hook_from(&hooks->list, 0, hooks->list.next_id, RG_HOOK_AFTER_LEAF);
}

/* Returns whether the leaf to which these hooks belong is still alive. If the leaf was freed,
 * another tensor may have the same address, but that tensor's history isn't the leaf's node. */
static bool is_leaf_there(const rg_hooks *hooks, const rg_node *leaf) {
    return hooks->leaf && hooks->leaf->state == RG_ALIVE && hooks->leaf->history == &leaf->base;
}

/* Calls the leaf's post-accumulate-grad hooks. If the leaf's tensor was released, no hook is
 * called, even if the leaf's node is still in use. */
bool rgi_run_hooks_after(rg_node *leaf) {
    const rg_hooks *hooks = rgi_hooks_of(leaf);
    const int end = hooks->list.next_id;
    const rg_hook *h = rgi_hook_from(&hooks->list, 0, end, RG_HOOK_AFTER_LEAF);
    while (h) {
        const int id = h->id;
        rg_post_accumulate_grad_hook *after = (rg_post_accumulate_grad_hook *)h->function;
        const int64_t before = rgi_failures();
        const bool ok = !is_leaf_there(hooks, leaf) || after(hooks->leaf, h->context);
        if (!rgi_called(ok, before, RG_RUNTIME_ERROR, "post_accumulate_grad_hook",
                        "the hook failed, and said nothing"))
            return false;
        h = rgi_hook_from(&hooks->list, id + 1, end, RG_HOOK_AFTER_LEAF);
    }
    return true;
}

/* ---- registering hooks ------------------------------------------------------------- */

bool rg_retain_grad(rg_tensor *t) {
    if (!rgi_check(t, "retain_grad") || !rgi_renew(t, "retain_grad"))
        return false;
    RG_FAIL_IF(!rg_requires_grad(t), "retain_grad",
               "can't retain_grad on Tensor that has requires_grad=False");
    return rg_is_leaf(t) || rgi_retain_grad(t);
}

bool rg_retains_grad(rg_tensor *t) { return rgi_check(t, "retains_grad") && rgi_retained(t); }

/* Set once rg_register_hook was called for a leaf. Until then, no run looks for hooks of leaves. */
static atomic_bool leaves_were_hooked;

RG_HOT bool rgi_were_leaves_hooked(void) {
    return atomic_load_explicit(&leaves_were_hooked, memory_order_relaxed);
}

int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context) {
    if (!rgi_check(t, "register_hook") || !rgi_renew(t, "register_hook")
        || !RG_GIVEN_FUNCTION(function, "register_hook"))
        return -1;
    if (!t->history) {
        rgi_fail(RG_RUNTIME_ERROR, "register_hook",
                 "cannot register a hook on a tensor that doesn't require gradient");
        return -1;
    }
    rg_node *n = rgi_node_of(t);
    rg_hooks *hooks = rgi_hooks_make(n);
    if (hooks && !n->op)
        atomic_store_explicit(&leaves_were_hooked, true, memory_order_relaxed);
    return hooks ? rgi_hook_add(&hooks->list, t->output, (rg_any_function *)function, context) : -1;
}

int rg_register_post_accumulate_grad_hook(rg_tensor *t, rg_post_accumulate_grad_hook *hook,
                                          void *context) {
    static const char op[] = "register_post_accumulate_grad_hook";
    if (!rgi_check(t, op) || !rgi_renew(t, op) || !RG_GIVEN_FUNCTION(hook, op))
        return -1;
    if (!t->history || rgi_node_of(t)->op) {
        rgi_fail(RG_RUNTIME_ERROR, op,
                 t->history ? "post accumulate grad hooks cannot be registered on non-leaf tensors"
                            : "cannot register a hook on a tensor that doesn't require gradient");
        return -1;
    }
    rg_node *leaf = rgi_node_of(t);
    rg_hooks *hooks = rgi_hooks_make(leaf);
    if (!hooks)
        return -1;
    if (!is_leaf_there(hooks, leaf))
        hooks->leaf = t;
    return rgi_hook_add(&hooks->list, RG_HOOK_AFTER_LEAF, (rg_any_function *)hook, context);
}

bool(rg_remove_hook)(rg_tensor *t, int id) {
    if (!rgi_check(t, "remove_hook"))
        return false;
    const rg_node *n = t->history ? rgi_node_of(t) : rgi_leaf_of(t);
    rg_hooks *hooks = n ? rgi_hooks_of(n) : NULL;
    rg_hook *h = hooks ? rgi_hook_find(&hooks->list, id) : NULL;
    RG_FAIL_IF(!h || !(h->kind == t->output || h->kind == RG_HOOK_AFTER_LEAF), "remove_hook",
               "the tensor has no hook %d", id);
    rgi_hook_remove(&hooks->list, h);
    return true;
}
