/*
 * node.h: the graph. A node is a recorded call of an op, or a leaf. It has edges to the nodes
 * of its inputs, and keeps the values that the gradients need. Ops don't need this header: op.h
 * declares what they use.
 */
#pragma once

#include "op.h"

/* An edge leads to one output of a node. The node is NULL if no gradient is wanted. */
typedef struct rg_edge {
    rg_node *node;
    uint32_t output;
} rg_edge;

/* A meta describes an output without its value: dtype and shape. */
typedef struct rg_meta {
    uint8_t ndim, dtype;
    int64_t size[RG_MAX_DIMS];
} rg_meta;

/* An observer's note (graph_observer.h). */
typedef struct rg_note rg_note;

/* A node is one block of memory. The struct is followed by the node's edges, metas, attributes,
 * pointers to saved values, their versions, and the headers of the saved values. */
struct rg_node {
    rg_history base;
    /* Counts all references in the low half, and the references of tensor headers in the high
     * half. */
    _Atomic int64_t refs;
    /* The op; NULL for a leaf. */
    const rg_op *op;
    /* The order is greater than the order of every node to which this node leads. */
    uint64_t order;
    /* n_saved is n_in + n_out, or 0 if no gradient needs a value. */
    uint16_t n_in, n_out, n_saved;
    /* True once the saved values are released. */
    bool freed;
    /* True while a run that begins at this node holds a reference to it. */
    bool held;
    /* Bit RG_IN(i) of `wanted` says that input i, one of the first RG_INPUTS, has a node. `bytes`
     * is the size of the whole block. */
    uint32_t attr_size, wanted;
    size_t bytes;
    rg_edge *edge;
    /* The saved values: of n_in inputs, then of n_out outputs, NULL where no gradient needs the
     * value. The node frees them, so they mustn't leave it: a rule, which may return a value as a
     * gradient, gets an alias (see rgi_saved). */
    rg_tensor **saved;
    /* The version of each value when it was saved. NULL in a recorded step, where values may be
     * written to between runs. */
    uint32_t *version;
    rg_meta *meta;
    void *attr;
    /* The gradient of a leaf; NULL for other nodes. */
    rg_tensor *grad;
    /* The list of observers' notes. It is usually NULL. */
    rg_note *notes;
    /* `run` is the address of the run that visits the node, or 0. `slot` is the node's index in
     * that run. */
    _Atomic uintptr_t run;
    size_t slot;
    /* The next node in the list of nodes that are to be destroyed. */
    rg_node *pending;
};

/* ---- making ------------------------------------------------------------------------ */
/* Returns the mask of the values that the wanted gradients of the call need. */
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
/* Records a call: makes its node, which becomes the history of its outputs. */
bool rgi_record(const rg_call *c, size_t attr_size);
/* Does the same, but saves the values in the mask `needs` instead of those that the op names. */
bool rgi_record_needing(const rg_call *c, size_t attr_size, uint32_t needs);
/* Returns a new leaf for t, with one reference, which belongs to the caller. */
rg_node *rgi_leaf_new(const rg_tensor *t);
/* Notes t's strides in its leaf: if t has no gaps, its gradient gets the same strides, as in
 * torch. */
void rgi_leaf_lie_as(rg_node *leaf, const rg_tensor *t);
/* Returns the strides of the leaf's gradient, or NULL if the gradient is to be contiguous. */
static inline const int64_t *rgi_leaf_strides(const rg_node *leaf) {
    return leaf->attr_size ? leaf->attr : NULL;
}
/* Makes the node the history of t, which has none. */
void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output);
/* Removes t's history, and returns t. */
rg_tensor *rgi_forget_history(rg_tensor *t);
/* Returns an alias of the value with this output of the node as its history. The scope owns it. */
rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output);

/* ---- reading and releasing --------------------------------------------------------- */
/* Returns the node behind t, or NULL if t does not require grad. */
static inline rg_node *rgi_node_of(const rg_tensor *t) { return (rg_node *)t->history; }
/* Returns torch's name of the node, such as "MulBackward0". */
const char *rgi_node_name(const rg_node *n);
/* Returns whether any tensor header still has the node as its history. */
static inline bool rgi_node_has_headers(const rg_node *n) { return n->refs >> 32; }
static inline void rgi_node_retain(rg_node *n) { RG_COUNT_UP(&n->refs, 1); }
void rgi_node_release(rg_node *n);
/* The class of histories that are nodes. rebase.c sets its `name` function, since a view that was
 * written to gets a new node before its name is read. */
extern rg_history_class rgi_node_class;
void rgi_node_free_saved(rg_node *n);
/* t has been written over with the first output. If the node saved that output, t becomes the saved
 * value. */
void rgi_node_save_instead(rg_node *n, rg_tensor *t);
rg_dims rgi_meta_dims(const rg_meta *m);
