/*
 * node.h: the graph. A node is a recorded call of an op, or a leaf. It has edges to the nodes of
 * its inputs, and keeps the values that the gradients need. Ops don't need this header: op.h
 * declares what they use.
 */
#pragma once

#include "op.h"

/* An edge of a node belongs to one of the node's inputs. It says which node computed the input
 * (`node`), and which output of that node the input is (`output`). `node` is NULL if the input
 * doesn't require grad. */
typedef struct rg_edge {
    rg_node *node;
    uint32_t output;
} rg_edge;

/* The dtype and the shape of an output, without its values. */
typedef struct rg_meta {
    uint8_t ndim, dtype;
    int64_t size[RG_MAX_DIMS];
} rg_meta;

/* Data that an observer keeps with a node (graph_observer.h). */
typedef struct rg_note rg_note;

/* A node is one block of memory. The struct is followed by the node's edges, the metas of its
 * outputs, the attributes, the pointers to saved values, the versions of these values, and their
 * headers. */
struct rg_node {
    rg_history base;
    /* The number of references: the low half counts all references, and the high half counts those
     * that tensor headers hold. */
    _Atomic int64_t refs;
    /* The op. NULL if the node is a leaf. */
    const rg_op *op;
    /* A number that is greater than the order of every node to which this node leads. */
    uint64_t order;
    /* n_saved is n_in + n_out, or 0 if no gradient needs a value. */
    uint16_t n_in, n_out, n_saved;
    /* True once saved values have been released. */
    bool freed;
    /* True while a backward run that begins at this node holds a reference to it. */
    bool held;
    /* True for a frozen leaf (frozen.h). In the node of an op it has no meaning. */
    bool frozen;
    /* True if the first output is no view and has elements of 16 bits. */
    bool half;
    /* True if the last call of rg_set_grad for this leaf gave it a gradient, not RG_NONE. */
    bool given;
    /* Bit RG_IN(i) of `wanted` says that input i has a node, for i below RG_INPUTS. `bytes` is the
     * size of the whole block. */
    uint32_t attr_size, wanted;
    size_t bytes;
    rg_edge *edge;
    /* The saved values: first those of the n_in inputs, then those of the n_out outputs. A pointer
     * is NULL if no gradient needs the value, or if the value has been freed. The headers are freed
     * with the node, so they mustn't be handed out. A rule may return a saved value as a gradient;
     * therefore a rule gets an alias of it (see rgi_saved). */
    rg_tensor **saved;
    /* The version that each value had when it was saved. NULL in the copy of the node that a
     * recording keeps (replay.c), since the saved values may be written to between two replays. */
    uint32_t *version;
    rg_meta *meta;
    void *attr;
    /* The gradient of a leaf. NULL for other nodes. */
    rg_tensor *grad;
    /* The list of observers' notes. For most nodes it is NULL. */
    rg_note *notes;
    /* `run` is the address of the backward run to which the node belongs at the moment, or 0.
     * `slot` is then the index of the node's first output among all outputs of the run's nodes. */
    _Atomic uintptr_t run;
    size_t slot;
    /* The next node in the thread's list of nodes that are to be destroyed. */
    rg_node *pending;
};

/* ---- making nodes ------------------------------------------------------------------ */
/* Returns the mask (RG_IN, RG_OUT) of the values to save: those that are read by the gradient rules
 * of the inputs that require grad. */
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
/* Records a call: makes its node, which becomes the history of its outputs. Returns false if memory
 * ran out or an observer refuses the call. */
bool rgi_record(const rg_call *c, size_t attr_size);
/* Records a call as rgi_record does, but the caller chooses the values to save: those in the mask
 * `needs`. rgi_record saves the values that the op's gradient rules read. */
bool rgi_record_needing(const rg_call *c, size_t attr_size, uint32_t needs);
/* Returns a new leaf for t, with one reference, which belongs to the caller. */
rg_node *rgi_leaf_new(const rg_tensor *t);
/* Stores t's strides in t's leaf. As in torch, they are the gradient's if t has no gaps. */
void rgi_leaf_lie_as(rg_node *leaf, const rg_tensor *t);
/* Returns the strides that the leaf's gradient is to have, or NULL if it is to be contiguous. */
static inline const int64_t *rgi_leaf_strides(const rg_node *leaf) {
    return leaf->attr_size ? leaf->attr : NULL;
}
/* Makes n the history of t, as n's output number `output`. t must not have a history yet. */
void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output);
/* Removes t's history, and returns t. */
rg_tensor *rgi_forget_history(rg_tensor *t);
/* Returns an alias of `value` whose history is n, as n's output number `output`. The scope owns the
 * alias. */
rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output);

/* ---- reading and releasing nodes --------------------------------------------------- */
/* Returns the node that is t's history, or NULL if t doesn't require grad. */
static inline rg_node *rgi_node_of(const rg_tensor *t) { return (rg_node *)t->history; }
/* Returns torch's name of the node, such as "MulBackward0". */
const char *rgi_node_name(const rg_node *n);
/* Returns whether any tensor header still has the node as its history. */
static inline bool rgi_node_has_headers(const rg_node *n) { return n->refs >> 32; }
/* Returns whether a backward run adds to the leaf's gradient. */
static inline bool rgi_leaf_is_open(const rg_node *n) { return n->refs >> 32 && !n->frozen; }
static inline void rgi_node_retain(rg_node *n) { RG_COUNT_UP(&n->refs, 1); }
void rgi_node_release(rg_node *n);
/* The class of those histories that are nodes. rebase.c sets its function `name`. That function
 * first gives a stale view its new node, and then returns the node's name. */
extern rg_history_class rgi_node_class;
void rgi_node_free_saved(rg_node *n);
/* Called after the node's first output was written over t. If the node saved that output, the saved
 * value becomes an alias of t. */
void rgi_node_save_instead(rg_node *n, rg_tensor *t);
rg_dims rgi_meta_dims(const rg_meta *m);
