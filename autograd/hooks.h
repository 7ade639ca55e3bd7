/*
 * hooks.h: the hooks of a node, and the gradients that its outputs retain. A hook is called with
 * the gradient of an output or, after a run, with the leaf. Hooks and gradients are stored in a
 * note (graph_observer.h), since few nodes have them.
 */
#pragma once

#include "graph_observer.h"
#include "hook_list.h"

/* The hooks and the retained gradients of a node. The kind of a hook is the index of the output
 * whose gradient the hook gets. A hook of the kind RG_HOOK_AFTER_LEAF is called with `leaf`
 * instead, after a run has added to the leaf's gradient. The pointer `leaf` doesn't count as a
 * reference. Bit k of `retains` says that output k retains its gradient (see rg_retain_grad), which
 * is in grad[k]. */
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
/* Returns the node's hooks, or NULL if it has none. */
static inline rg_hooks *rgi_hooks_of(const rg_node *n) {
    return RG_LIKELY(!n->notes) ? NULL : (rg_hooks *)rgi_note_of(n, &rgi_hooks_class);
}
static inline bool rgi_has_hooks(const rg_node *n) {
    const rg_hooks *hooks = rgi_hooks_of(n);
    return hooks && (hooks->list.live || hooks->retains);
}
/* Returns the node's hooks, and makes the note for them if there is none. Returns NULL if memory
 * ran out. */
rg_hooks *rgi_hooks_make(rg_node *n);
/* Returns the address of the pointer to t's retained gradient, or NULL if t doesn't retain its
 * gradient. */
rg_tensor **rgi_retained(const rg_tensor *t);
/* Makes t retain its gradient. Requires that t has a node. Returns false if memory ran out. */
bool rgi_retain_grad(const rg_tensor *t);
/* If t and `after` retain their gradients, moves t's gradient to `after`. t then retains none. */
void rgi_move_retained(const rg_tensor *t, const rg_tensor *after);

/* ---- call_hooks.c: calling hooks --------------------------------------------------- */
/* Calls the hooks of an output with its gradient *grad, which they may replace. Then keeps *grad if
 * the output retains it. Does nothing if *grad is NULL. Returns false on failure. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad);
/* Returns whether rg_register_hook was ever called for any leaf. */
bool rgi_were_leaves_hooked(void);
/* Calls the leaf's post-accumulate-grad hooks, after a run has added to its gradient. Returns false
 * if one of them returns false. */
bool rgi_run_hooks_after(rg_node *leaf);
/* Returns whether the leaf has post-accumulate-grad hooks. */
bool rgi_has_hooks_after(const rg_node *leaf);
