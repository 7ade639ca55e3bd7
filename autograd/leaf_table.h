/*
 * leaf_table.h: the table in which a backward run sums the gradients of leaves. At the end of the
 * run, the engine commits these gradients to the leaves.
 */
#pragma once

#include "node.h"

typedef struct rg_leaf_slot {
    rg_node *leaf;
    rg_tensor *grad;
    /* The number of the last gradient that reached the leaf. The gradients that reach any leaf in
     * the run are numbered in the order in which they arrive. */
    uint32_t last;
    /* The number of steps that may still add to the gradient, if the leaf has hooks. RG_LEAF_SEEN
     * once the hooks have been called. */
    uint32_t awaited;
} rg_leaf_slot;
enum { RG_LEAF_SEEN = 0x7fffffff };

/* A table of n leaves. Up to RG_FEW_LEAVES - 1 leaves are in `few`, one after the other, followed
 * by an empty slot. If there are more, they are in a hash table, a block of `room` slots. `room` is
 * a power of two. A leaf's address decides at which slot the search for the leaf begins. */
enum { RG_FEW_LEAVES = 16 };
typedef struct rg_leaf_table {
    rg_leaf_slot *slots;
    size_t n, room;
    rg_leaf_slot few[RG_FEW_LEAVES];
} rg_leaf_table;

void rgi_leaf_table_begin(rg_leaf_table *t);
/* Frees the table's memory, and releases the gradients in it. */
void rgi_leaf_table_end(rg_leaf_table *t);
/* Returns the leaf's slot. If the leaf isn't in the table, returns an empty slot, whose leaf is
 * NULL. */
rg_leaf_slot *rgi_leaf_find(const rg_leaf_table *t, const rg_node *leaf);
/* Returns the leaf's slot, and adds the leaf to the table if it isn't there yet. Returns NULL if
 * memory ran out. */
rg_leaf_slot *rgi_leaf_add(rg_leaf_table *t, rg_node *leaf);
/* Returns the number of slots that a loop over all leaves must look at. Some of them may be
 * empty. */
static inline size_t rgi_leaf_slots(const rg_leaf_table *t) {
    return t->slots == t->few ? t->n : t->room;
}
/* Returns the end of the slots, which begin at t->slots. */
static inline rg_leaf_slot *rgi_leaf_slots_end(const rg_leaf_table *t) {
    return t->slots + rgi_leaf_slots(t);
}
