/*
 * frozen.h: frozen leaves. A frozen leaf doesn't require grad, but it has a gradient or hooks, or
 * is a part of a graph that was recorded when it required grad.
 */
#pragma once

#include "node.h"

/* Returns t's leaf: its node if t is a leaf that requires grad, or the node that t had before it
 * was frozen. Returns NULL if t has neither. */
rg_node *rgi_leaf_of(const rg_tensor *t);
/* Returns the address of the pointer to t's gradient. The pointer is in t's leaf, frozen or not, or
 * among the gradients that t's node retains. Returns NULL if t has no leaf and retains no
 * gradient. */
rg_tensor **rgi_grad_place(const rg_tensor *t);
/* Does the same as rg_grad_of (leaf.c). `again` is true if the caller is an operation that reads
 * the gradient again each time a recorded step is repeated (rgi_observe_operation). */
rg_tensor *rgi_grad_of(rg_tensor *t, bool again);
/* Freezes t, a leaf that requires grad, so that t has no history. If the leaf has no gradient and
 * no hooks, and nothing but t refers to it, it isn't kept, and t only loses its history. If memory
 * ran out, returns false and leaves t unchanged. */
bool rgi_freeze(rg_tensor *t);
/* Makes a frozen leaf require grad again. Does nothing if t isn't frozen. */
void rgi_thaw(rg_tensor *t);
/* Gives `grad` to t, a tensor without a history and without a frozen leaf, by making a frozen leaf
 * for it. Takes over the caller's reference to `grad`, unless it fails and returns false. */
bool rgi_freeze_with(rg_tensor *t, rg_tensor *grad);
