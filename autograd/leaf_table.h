/*
 * leaf_table.h: the gradients that a run gathers for leaves, by leaf. They are kept
 * aside here until the run's end, when the engine commits them.
 */
#pragma once

#include "node.h"

typedef struct rg_leaf_slot {
    rg_node *leaf;
    rg_tensor *grad;
    uint32_t last; /* This of the run's contributions to leaves was the last one to this leaf. */
    /* The number of steps to come that may contribute, if the leaf has hooks. Once these have run,
     * it is RG_LEAF_SEEN. */
    uint32_t awaited;
} rg_leaf_slot;
enum { RG_LEAF_SEEN = 0x7fffffff };

/* The table has n leaves. A few lie one after the other in `few`, with an empty slot behind the
 * last. More lie in a hash table, which is a block of `room` slots, a power of two: a leaf's
 * address says at which slot the search for it begins. */
enum { RG_FEW_LEAVES = 16 };
typedef struct rg_leaf_table {
    rg_leaf_slot *slots;
    size_t n, room;
    rg_leaf_slot few[RG_FEW_LEAVES];
} rg_leaf_table;

void rgi_leaf_table_begin(rg_leaf_table *t);
/* Frees the table's memory, and releases the gradients in it. */
void rgi_leaf_table_end(rg_leaf_table *t);
/* Returns the leaf's slot, or an empty one where it has none. */
rg_leaf_slot *rgi_leaf_find(const rg_leaf_table *t, const rg_node *leaf);
/* Returns the leaf's slot, which it makes if need be, or NULL if memory ran out. */
rg_leaf_slot *rgi_leaf_add(rg_leaf_table *t, rg_node *leaf);
/* Returns the number of slots to go through, of which some may be empty. */
static inline size_t rgi_leaf_slots(const rg_leaf_table *t) {
    return t->slots == t->few ? t->n : t->room;
}
/* Returns the end of these slots, which begin at t->slots. */
static inline rg_leaf_slot *rgi_leaf_slots_end(const rg_leaf_table *t) {
    return t->slots + rgi_leaf_slots(t);
}
