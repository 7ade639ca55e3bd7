/*
 * label.h: the label of a tensor (tensor/structs.h), which holds a name or a frozen leaf.
 */
#pragma once

#include "tensor/structs.h"

/* Returns the history that t had as a leaf before it was frozen (autograd/frozen.c), or NULL. */
rg_history *rgi_frozen_of(const rg_tensor *t);
/* Stores that history in t's label, which takes over the caller's reference. Doesn't release the
 * history that the label has. Returns false if memory ran out, which it doesn't if t has a
 * label. */
bool rgi_set_frozen(rg_tensor *t, rg_history *frozen);
