/*
 * graph_observer.h: what somebody who looks on (tensor/observer.h) sees of the graph:
 * ops that are applied, steps of a backward run, gradients of leaves. Every observer
 * of a thread is one of these.
 */
#pragma once

#include "node.h"
#include "tensor/thread.h"
#include "tensor/observer.h"

typedef struct rg_graph_observer rg_graph_observer;
struct rg_graph_observer {
    rg_observer tensors;
    /* The function `op` is about to change values that t has. False means that it may not, and that
     * an error stands. */
    bool (*may_update)(rg_graph_observer *o, const rg_tensor *t, const char *op);
    /* An op was applied; `alike` says that its inputs suit rgi_run_alike. */
    bool (*applied)(rg_graph_observer *o, const rg_call *c, size_t attr_size, bool alike);
    /* A backward run asks for the next three of every observer under which it runs.
     * Does a step of the run, in place of the engine: by the op's fused derivative, or all
     * `together`, which fills gin[], or, where `buffer` isn't NULL, by the rule's `into`, which
     * adds to the buffer. */
    bool (*step)(rg_graph_observer *o, const rg_step *s, rg_tensor *gin[], const rg_gradient *rule,
                 rg_tensor *buffer);
    /* Returns 1 where the observer has a reference to t, to its storage and, if it is a view, to
     * its base. Returns -1 where t must not be added to, whoever has it. */
    int (*references)(rg_graph_observer *o, const rg_tensor *t);
    /* A leaf is about to get the gradient g, or to lose the one that it has where g is NULL.
     * Returns the tensor that is to be its gradient instead of g. */
    rg_tensor *(*gradient)(rg_graph_observer *o, rg_node *leaf, rg_tensor *g);
    /* Somebody asks for the gradient that a leaf has; grad is NULL where it has none. */
    void (*read_gradient)(rg_graph_observer *o, const rg_tensor *grad);
};

static inline rg_graph_observer *rgi_graph_observer(void) {
    return (rg_graph_observer *)rgi_this.observer;
}
