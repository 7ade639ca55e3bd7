/*
 * leaf_table.h: the table of gradients that a run gathers for leaves. The engine commits them
 * at the end of the run.
 */
#pragma once

#include "node.h"

typedef struct rg_leaf_slot {
    rg_node *leaf;
    rg_tensor *grad;
    /* The number of the leaf's last contribution, among the run's contributions to all leaves. */
    uint32_t last;
    /* The number of steps that may still contribute, if the leaf has hooks. It is RG_LEAF_SEEN once
     * the hooks have run. */
    uint32_t awaited;
} rg_leaf_slot;
enum { RG_LEAF_SEEN = 0x7fffffff };

/* A table of n leaves. Up to RG_FEW_LEAVES leaves are in `few`, one after the other, followed by an
 * empty slot. More leaves are in a hash table, a block of `room` slots, which is a power of two;
 * the leaf's address gives the slot where its search begins. */
enum { RG_FEW_LEAVES = 16 };
typedef struct rg_leaf_table {
    rg_leaf_slot *slots;
    size_t n, room;
    rg_leaf_slot few[RG_FEW_LEAVES];
} rg_leaf_table;

void rgi_leaf_table_begin(rg_leaf_table *t);
/* Frees the table's memory, and releases the gradients in it. */
void rgi_leaf_table_end(rg_leaf_table *t);
/* Returns the leaf's slot, or an empty slot if the leaf isn't in the table. */
rg_leaf_slot *rgi_leaf_find(const rg_leaf_table *t, const rg_node *leaf);
/* Returns the leaf's slot, which it makes if there is none, or NULL if memory ran out. */
rg_leaf_slot *rgi_leaf_add(rg_leaf_table *t, rg_node *leaf);
/* Returns the number of slots to loop over. Some of them may be empty. */
static inline size_t rgi_leaf_slots(const rg_leaf_table *t) {
    return t->slots == t->few ? t->n : t->room;
}
/* Returns the end of the slots, which begin at t->slots. */
static inline rg_leaf_slot *rgi_leaf_slots_end(const rg_leaf_table *t) {
    return t->slots + rgi_leaf_slots(t);
}
