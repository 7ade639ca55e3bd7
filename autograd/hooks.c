/*
 * hooks.c: stores the hooks of a node and the gradients that its outputs retain. call_hooks.c
 * registers and calls the hooks.
 */
#include "hooks.h"
#include "tensor/memory.h"

/* Called when no tensor header has the node as its history any more. Then the program can't ask for
 * a retained gradient, and all of them are released. */
static void forget_retained(rg_note *note) {
    rg_hooks *hooks = (rg_hooks *)note;
    for (int k = 0; k < RG_MAX_OUTPUTS; k++) {
        rgi_release(hooks->grad[k]);
        hooks->grad[k] = NULL;
    }
}

static void hooks_free(rg_note *note) {
    rg_hooks *hooks = (rg_hooks *)note;
    forget_retained(note);
    rgi_hook_list_free(&hooks->list);
    rgi_free(hooks, sizeof *hooks, RG_MEM_NODE);
}

const rg_note_class rgi_hooks_class = { .lost_headers = forget_retained, .free = hooks_free };

rg_hooks *rgi_hooks_make(rg_node *n) {
    rg_hooks *hooks = rgi_hooks_of(n);
    if (hooks)
        return hooks;
    hooks = rgi_alloc(sizeof *hooks, RG_MEM_NODE);
    if (!hooks)
        return NULL;
    *hooks = (rg_hooks){ .retains = 0 };
    rgi_note_add(n, &hooks->note, &rgi_hooks_class);
    return hooks;
}

rg_tensor **rgi_retained(const rg_tensor *t) {
    rg_hooks *hooks = t->history ? rgi_hooks_of(rgi_node_of(t)) : NULL;
    return hooks && hooks->retains >> t->output & 1 ? &hooks->grad[t->output] : NULL;
}

bool rgi_retain_grad(const rg_tensor *t) {
    rg_hooks *hooks = rgi_hooks_make(rgi_node_of(t));
    if (hooks)
        hooks->retains |= 1u << t->output;
    rgi_count_change();
    return hooks;
}

void rgi_move_retained(const rg_tensor *t, const rg_tensor *after) {
    rg_tensor **from = rgi_retained(t);
    rg_tensor **to = from ? rgi_retained(after) : NULL;
    if (!to)
        return;
    *to = *from;
    *from = NULL;
    rgi_hooks_of(rgi_node_of(t))->retains &= ~(1u << t->output);
}
