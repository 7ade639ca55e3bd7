/*
 * label.h: the label of a tensor (rg_label in tensor/structs.h). It holds the name of the tensor
 * and, for a frozen leaf, the history that the leaf had before.
 */
#pragma once

#include "tensor/structs.h"

/* Returns the history that t had as a leaf before it was frozen (autograd/frozen.c), or NULL. */
rg_history *rgi_frozen_of(const rg_tensor *t);
/* Stores the history of a frozen leaf, or NULL, in t's label; gives t a label if it has none. The
 * label takes over the caller's reference. The history that the label had isn't released. Returns
 * false if memory for a new label ran out. */
bool rgi_set_frozen(rg_tensor *t, rg_history *frozen);
