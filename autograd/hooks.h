/*
 * hooks.h: the hooks of a node, which see the gradients of its outputs, and the gradients that
 * outputs keep for the program. They are a note (graph_observer.h) that few nodes have.
 */
#pragma once

#include "graph_observer.h"
#include "hook_list.h"

/* The kind of a hook is the number of the output whose gradient it is called with, or
 * RG_HOOK_AFTER_LEAF: then it is called with `leaf`, once a run has added to the leaf's gradient.
 * The leaf is no reference. Where `retains` has bit k, output k keeps its gradient in grad[k], for
 * rg_retain_grad. */
typedef struct rg_hooks {
    rg_note note;
    rg_hook_list list;
    rg_tensor *leaf;
    uint32_t retains;
    rg_tensor *grad[RG_MAX_OUTPUTS];
} rg_hooks;
enum { RG_HOOK_AFTER_LEAF = RG_MAX_OUTPUTS };

/* ---- hooks.c: what a node has ------------------------------------------------------ */
extern const rg_note_class rgi_hooks_class;
/* Returns the node's hooks, or NULL. */
static inline rg_hooks *rgi_hooks_of(const rg_node *n) {
    return RG_LIKELY(!n->notes) ? NULL : (rg_hooks *)rgi_note_of(n, &rgi_hooks_class);
}
static inline bool rgi_has_hooks(const rg_node *n) {
    const rg_hooks *hooks = rgi_hooks_of(n);
    return hooks && (hooks->list.live || hooks->retains);
}
/* Returns the node's hooks, which are made if need be, or NULL where there is no memory. */
rg_hooks *rgi_hooks_make(rg_node *n);
/* Returns where t keeps its gradient though it is no leaf, or NULL where it doesn't. */
rg_tensor **rgi_retained(const rg_tensor *t);
/* Lets t, which has a node, keep its gradient. Returns false where there is no memory. */
bool rgi_retain_grad(const rg_tensor *t);
/* Hands the gradient that t keeps to `after`, and t keeps none from now on, if both keep one. */
void rgi_move_retained(const rg_tensor *t, const rg_tensor *after);

/* ---- call_hooks.c: calling them ---------------------------------------------------- */
/* Lets the hooks of an output see its gradient, and replace it. *grad may be NULL. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad);
/* Returns whether some leaf once got a hook. */
bool rgi_were_leaves_hooked(void);
/* Runs the hooks that follow the accumulation of the leaf's gradient. */
bool rgi_run_hooks_after(rg_node *leaf);
/* Returns whether the leaf has any. */
bool rgi_has_hooks_after(const rg_node *leaf);
