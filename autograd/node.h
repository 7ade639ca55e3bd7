/*
 * node.h: the graph. A node is one application that was recorded, or a leaf: it leads
 * to the nodes of its inputs and keeps the values that the gradients need. What an
 * op's paragraph may use is declared in op.h, not here.
 */
#pragma once

#include "op.h"

/* An edge leads to one output of a node; the node is NULL where no gradient is wanted. */
typedef struct rg_edge {
    rg_node *node;
    uint32_t output;
} rg_edge;

/* A meta is all that the graph knows of an output without its value. */
typedef struct rg_meta {
    uint8_t ndim, dtype;
    int64_t size[RG_MAX_DIMS];
} rg_meta;

/* An observer's note (graph_observer.h). */
typedef struct rg_note rg_note;

/* A node is one block of memory: after this struct come its edges, metas, attributes, pointers to
 * saved values, their versions, and the headers of these values. */
struct rg_node {
    rg_history base;
    /* The low half counts all references, the high half those that tensor headers hold. */
    _Atomic int64_t refs;
    /* A leaf has no op. */
    const rg_op *op;
    /* Each node's order is greater than that of every node that it leads to. */
    uint64_t order;
    /* n_saved is n_in + n_out, or 0 where no gradient needs a value. */
    uint16_t n_in, n_out, n_saved;
    /* The saved values are gone. */
    bool freed;
    /* A run that begins at this node holds a reference to it. */
    bool held;
    /* `wanted` has RG_IN(i) for each of the first RG_INPUTS inputs that has a node. `bytes` is the
     * size of the whole block. */
    uint32_t attr_size, wanted;
    size_t bytes;
    rg_edge *edge;
    /* The values of n_in inputs, then of n_out outputs, are NULL where not needed. They end with
     * the node, so no gradient may be one of them; a rule, which may return what it is given, gets
     * an alias (rgi_saved). */
    rg_tensor **saved;
    /* Each value had this version when it was saved. There are no versions (NULL) in a recorded
     * step, whose values may be written to between runs. */
    uint32_t *version;
    rg_meta *meta;
    void *attr;
    /* Only a leaf has a gradient of its own. */
    rg_tensor *grad;
    /* The list of what observers keep with the node; it is usually NULL. */
    rg_note *notes;
    /* `run` is the address of the run that visits the node, else 0, and `slot` the node's place
     * there. */
    _Atomic uintptr_t run;
    size_t slot;
    /* Nodes that wait to be destroyed form a list, in which this is the next. */
    rg_node *pending;
};

/* ---- making ------------------------------------------------------------------------ */
/* Returns the mask of the values that some gradient of the call needs. */
static inline uint32_t rgi_needs_of(const rg_call *c) {
    const rg_gradient *rule = c->op->grad;
    bool one_serves_all = c->op->n_in == 0;
    uint32_t needs = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i]->history)
            needs |= rule->needs;
        if (!one_serves_all)
            rule++;
    }
    return needs;
}
/* Records an application: makes its node, and makes that the history of its outputs. */
bool rgi_record(const rg_call *c, size_t attr_size);
/* Does so where not the op, but `needs`, says which values the gradients need. */
bool rgi_record_needing(const rg_call *c, size_t attr_size, uint32_t needs);
/* Returns a new leaf like t, with one reference, which belongs to the caller. */
rg_node *rgi_leaf_new(const rg_tensor *t);
/* Notes t's strides in its leaf: if t has no gaps, its gradient gets the same strides, as in
 * torch. */
void rgi_leaf_lie_as(rg_node *leaf, const rg_tensor *t);
/* Returns the strides that the leaf's gradient is to have, or NULL if it is to be contiguous. */
static inline const int64_t *rgi_leaf_strides(const rg_node *leaf) {
    return leaf->attr_size ? leaf->attr : NULL;
}
/* Gives t, which has no history, the node as its history. */
void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output);
/* Takes t's history away and returns t. */
rg_tensor *rgi_forget_history(rg_tensor *t);
/* Returns an alias of value with that history; the scope owns it. */
rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output);

/* ---- looking and releasing --------------------------------------------------------- */
/* Returns the node behind t, or NULL if t does not require grad. */
static inline rg_node *rgi_node_of(const rg_tensor *t) { return (rg_node *)t->history; }
/* Returns torch's name, "MulBackward0" or the like. */
const char *rgi_node_name(const rg_node *n);
/* Returns whether any tensor header still has the node as its history. */
static inline bool rgi_node_has_headers(const rg_node *n) { return n->refs >> 32; }
static inline void rgi_node_retain(rg_node *n) { RG_COUNT_UP(&n->refs, 1); }
void rgi_node_release(rg_node *n);
/* The class of nodes as histories. rebase.c gives it its `name`, since a view gets its node anew
 * first if it was written to. */
extern rg_history_class rgi_node_class;
void rgi_node_free_saved(rg_node *n);
/* Makes t, over which the first output was written, that output's saved value if it has one. */
void rgi_node_save_instead(rg_node *n, rg_tensor *t);
rg_dims rgi_meta_dims(const rg_meta *m);
