/*
 * packed.h: what the graph and the engine ask of the hooks on saved tensors, which saved.h declares
 * for users.
 */
#pragma once

#include "autograd/node.h"

/* Hands the values that a new node has saved to the thread's hooks, if it has any. Returns false
 * where a hook failed. */
bool rgi_pack_saved(rg_node *n);
/* Gives a node whose values are packed these back, for a step. Afterwards, or where this failed, it
 * lets go of them again. */
bool rgi_unpack_saved(rg_node *n);
void rgi_pack_again(rg_node *n);
/* Drops what a node's values became. */
void rgi_packed_free(rg_node *n);
