/*
 * hooks.h: the hooks of a node, which see the gradients of its outputs, and the gradients that
 * its outputs retain. They are stored in a note (see graph_observer.h), since few nodes have
 * any.
 */
#pragma once

#include "graph_observer.h"
#include "hook_list.h"

/* The kind of a hook is the index of the output whose gradient it gets, or RG_HOOK_AFTER_LEAF: such
 * a hook is called with `leaf` after a run has added to the leaf's gradient. `leaf` isn't counted
 * as a reference. Bit k of `retains` says that output k retains its gradient, in grad[k], for
 * rg_retain_grad. */
typedef struct rg_hooks {
    rg_note note;
    rg_hook_list list;
    rg_tensor *leaf;
    uint32_t retains;
    rg_tensor *grad[RG_MAX_OUTPUTS];
} rg_hooks;
enum { RG_HOOK_AFTER_LEAF = RG_MAX_OUTPUTS };

/* ---- hooks.c: the hooks of a node -------------------------------------------------- */
extern const rg_note_class rgi_hooks_class;
/* Returns the node's hooks, or NULL. */
static inline rg_hooks *rgi_hooks_of(const rg_node *n) {
    return RG_LIKELY(!n->notes) ? NULL : (rg_hooks *)rgi_note_of(n, &rgi_hooks_class);
}
static inline bool rgi_has_hooks(const rg_node *n) {
    const rg_hooks *hooks = rgi_hooks_of(n);
    return hooks && (hooks->list.live || hooks->retains);
}
/* Returns the node's hooks, which it makes if there are none, or NULL if memory ran out. */
rg_hooks *rgi_hooks_make(rg_node *n);
/* Returns the place of t's retained gradient, or NULL if t retains none. */
rg_tensor **rgi_retained(const rg_tensor *t);
/* Makes t, which has a node, retain its gradient. Returns false if memory ran out. */
bool rgi_retain_grad(const rg_tensor *t);
/* Moves t's retained gradient to `after`, if both retain one. */
void rgi_move_retained(const rg_tensor *t, const rg_tensor *after);

/* ---- call_hooks.c: calling them ---------------------------------------------------- */
/* Calls the hooks of an output with its gradient, which they may replace. *grad may be NULL. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad);
/* Returns whether any leaf ever got a hook. */
bool rgi_were_leaves_hooked(void);
/* Calls the leaf's post-accumulate-grad hooks, which run after its gradient was changed. */
bool rgi_run_hooks_after(rg_node *leaf);
/* Returns whether the leaf has such hooks. */
bool rgi_has_hooks_after(const rg_node *leaf);
