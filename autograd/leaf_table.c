/*
 * leaf_table.c: a table of leaves, by address. A small table is an array within the run, and a
 * larger one is a hash table. engine.c commits the gradients in the table.
 */
#include "leaf_table.h"
#include "tensor/memory.h"

RG_HOT void rgi_leaf_table_begin(rg_leaf_table *t) {
    t->slots = t->few;
    t->n = 0;
    t->room = RG_FEW_LEAVES;
    t->few[0] = (rg_leaf_slot){ 0 };
}

RG_HOT void rgi_leaf_table_end(rg_leaf_table *t) {
    const rg_leaf_slot *end = rgi_leaf_slots_end(t);
    for (const rg_leaf_slot *s = t->slots; s < end; s++)
        rgi_release(s->grad);
    if (t->slots != t->few)
        rgi_free(t->slots, t->room * sizeof *t->slots, RG_MEM_OTHER);
}

/* Returns the leaf's slot or, if the leaf isn't in the table, the first empty slot of the search.
 * There always is an empty slot. If there are few leaves, the search begins at the first slot, and
 * otherwise at a slot that is computed from the leaf's address. */
static rg_leaf_slot *leaf_probe(rg_leaf_slot *slots, size_t room, bool few, const rg_node *leaf) {
    size_t at = few ? 0 : ((uintptr_t)leaf >> 6) * 0x9E3779B97F4A7C15u >> 20;
    for (;; at++) {
        rg_leaf_slot *s = &slots[at & (room - 1)];
        if (s->leaf == leaf || !s->leaf)
            return s;
    }
}

rg_leaf_slot *rgi_leaf_find(const rg_leaf_table *t, const rg_node *leaf) {
    return leaf_probe(t->slots, t->room, t->slots == t->few, leaf);
}

static bool leaf_table_grow(rg_leaf_table *t) {
    size_t room = t->room * 2;
    rg_leaf_slot *slots = rgi_alloc(room * sizeof *slots, RG_MEM_OTHER);
    if (!slots)
        return false;
    memset(slots, 0, room * sizeof *slots);
    for (size_t i = 0; i < rgi_leaf_slots(t); i++)
        if (t->slots[i].leaf)
            *leaf_probe(slots, room, false, t->slots[i].leaf) = t->slots[i];
    if (t->slots != t->few)
        rgi_free(t->slots, t->room * sizeof *slots, RG_MEM_OTHER);
    t->slots = slots;
    t->room = room;
    return true;
}

/* Every search must end at an empty slot. Therefore the last slot of `few` stays empty, and so do
 * at least half of the slots of a hash table. */
RG_HOT rg_leaf_slot *rgi_leaf_add(rg_leaf_table *t, rg_node *leaf) {
    rg_leaf_slot *s = rgi_leaf_find(t, leaf);
    if (s->leaf)
        return s;
    size_t most = t->slots == t->few ? RG_FEW_LEAVES - 1 : t->room / 2;
    if (RG_UNLIKELY(t->n >= most)) {
        if (!leaf_table_grow(t))
            return NULL;
        s = rgi_leaf_find(t, leaf);
    }
    s->leaf = leaf;
    t->n++;
    if (t->slots == t->few)
        s[1] = (rg_leaf_slot){ 0 };
    return s;
}
