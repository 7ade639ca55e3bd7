/*
 * hooks.h: what is called with a gradient that is complete, on its way back.
 */
#pragma once

#include "node.h"

/* Lets the hooks of an output see its gradient, and replace it. *grad may be NULL. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad);
/* Returns whether some leaf once got a hook. */
bool rgi_were_leaves_hooked(void);
/* Runs the hooks that follow the accumulation of the leaf's gradient. */
bool rgi_run_hooks_after(rg_node *leaf);
/* Returns whether the leaf has any. */
bool rgi_has_hooks_after(const rg_node *leaf);
/* Releases the gradients that the hooks keep. */
void rgi_hooks_forget_grads(rg_hooks *hooks);
/* Frees the hooks of a node that ends; `hooks` may be NULL. */
void rgi_hooks_free(rg_hooks *hooks);
/* Returns the hook that keeps t's gradient though t is no leaf, or NULL. */
rg_hook *rgi_hook_that_retains(const rg_tensor *t);
/* Gives `after`, whose node is new, a hook that will keep its gradient if t has one. Returns false
 * if there is no memory. */
bool rgi_retain_alike(rg_tensor *after, const rg_tensor *t);
/* Hands the gradient that t keeps to `after`, and takes t's keeping hook away, if both have one. */
void rgi_move_retained(const rg_tensor *t, const rg_tensor *after);
