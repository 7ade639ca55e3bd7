/*
 * frozen.h: frozen leaves: leaves whose requires_grad was set to false while they had a gradient,
 * hooks, or a graph that leads to them.
 */
#pragma once

#include "node.h"

/* Returns t's leaf: its node if t is a leaf that requires grad, or the node that t had before it
 * was frozen. Returns NULL if t has neither. */
rg_node *rgi_leaf_of(const rg_tensor *t);
/* leaf.c: returns what rg_grad_of does. An operation that reads the gradient again when it is
 * repeated (rgi_observe_operation) calls it with again = true. */
rg_tensor *rgi_grad_of(rg_tensor *t, bool again);
/* Freezes t, a leaf that requires grad: t has no history afterwards. Returns false if memory ran
 * out; then t hasn't changed. */
bool rgi_freeze(rg_tensor *t);
/* Makes a frozen leaf require grad again. Does nothing if t isn't frozen. */
void rgi_thaw(rg_tensor *t);
/* Gives `grad` to t, a tensor without a history and without a frozen leaf, by making a frozen leaf
 * for it. Takes over the caller's reference to `grad`, unless it fails and returns false. */
bool rgi_freeze_with(rg_tensor *t, rg_tensor *grad);
