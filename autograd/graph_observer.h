/*
 * graph_observer.h: observers of the graph. An observer is told of ops that are applied, of nodes
 * that are recorded and of steps of backward runs, and keeps notes with nodes. The graph's own
 * files know nothing else of profiling, recording, anomaly mode, inference mode or hooks on saved
 * values: each of these is an observer in a file of its own.
 *
 * There are two kinds. The thread's observer (tensor/observer.h) sees one thread, and may do work
 * in the graph's place. An observer of all threads only looks on, and may refuse.
 */
#pragma once

#include "node.h"
#include "tensor/observer.h"
#include "tensor/thread.h"

/* A span is the time that a call or a step takes. What an observer notes at its beginning stands
 * here until its end. There is room for one observer, so only one may have begin_span. */
typedef struct rg_span {
    double notes[2];
} rg_span;

/* A function that is NULL isn't called. Where one returns false, the observer has refused, and its
 * error stands; `records` is the exception. */
typedef struct rg_graph_observer rg_graph_observer;
struct rg_graph_observer {
    /* ---- the thread's observer ---- */
    rg_observer tensors;
    /* The function `op` is about to change values that t has. */
    bool (*may_update)(rg_graph_observer *o, const rg_tensor *t, const char *op);
    /* A call has computed its outputs; `alike` says that its inputs suit rgi_run_alike. */
    bool (*computed)(rg_graph_observer *o, const rg_call *c, size_t attr_size, bool alike);
    /* A backward run requires the next three of a thread's observer.
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
    /* The program asks for the gradient that a leaf has; grad is NULL where it has none. */
    void (*read_gradient)(rg_graph_observer *o, const rg_tensor *grad);

    /* ---- observers of all threads ---- */
    /* RG_SEES_SPANS: a call or a step begins, and has ended without a failure. The end is told
     * though the observer has gone out of force since, and the notes are 0 where it had done so
     * before the beginning. `made` is an RG_IN mask of the gradients that the step made itself,
     * not by a rule. */
    void (*begin_span)(rg_graph_observer *o, rg_span *span);
    void (*end_call)(rg_graph_observer *o, const rg_span *span, const rg_call *c);
    void (*end_step)(rg_graph_observer *o, const rg_span *span, const rg_step *s, uint32_t made);
    /* RG_SEES_RECORDING: `records` returns whether a call is to be recorded some of whose inputs
     * require grad. may_save is asked, before anything is computed, about the values that the node
     * will save (`needs`). */
    bool (*records)(rg_graph_observer *o, const rg_call *c);
    bool (*may_save)(rg_graph_observer *o, const rg_call *c, uint32_t needs);
    /* RG_SEES_CALLS: an op was applied, and n is the new node, or NULL where none was recorded. */
    bool (*applied)(rg_graph_observer *o, const rg_call *c, rg_node *n);
    /* RG_SEES_GRADIENTS: a step has made the gradient g of an input. */
    bool (*made_gradient)(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input);
    /* RG_SEES_COMMITS: a backward run is about to add to a leaf's gradient. */
    bool (*may_add)(rg_graph_observer *o, rg_tensor *grad);

    /* An observer begins with zeros in these fields: how often it is in force, whether it is in
     * the list of all observers, and the next one there. */
    atomic_int in_force;
    bool listed;
    rg_graph_observer *next;
};

/* ---- the thread's observer --------------------------------------------------------- */

static inline rg_graph_observer *rgi_graph_observer(void) {
    return (rg_graph_observer *)rgi_this.observer;
}

/* ---- observers of all threads ------------------------------------------------------ */

/* Puts an observer in force, or out of force, and returns whether it was in force before. */
bool rgi_set_graph_observer(rg_graph_observer *o, bool on);
/* Puts an observer in force once more, or, where `by` is -1, once less. */
void rgi_count_graph_observer(rg_graph_observer *o, int by);
static inline bool rgi_is_in_force(const rg_graph_observer *o) {
    return atomic_load_explicit(&o->in_force, memory_order_relaxed) > 0;
}

/* Some observer in force sees the events whose bits are in rgi_observed. Usually it is 0, and then
 * each event costs one look at it. */
enum {
    RG_SEES_SPANS = 1,
    RG_SEES_RECORDING = 2,
    RG_SEES_CALLS = 4,
    RG_SEES_GRADIENTS = 8,
    RG_SEES_COMMITS = 16
};
extern atomic_int rgi_observed;
static inline bool rgi_is_observed(int event) {
    return RG_UNLIKELY(atomic_load_explicit(&rgi_observed, memory_order_relaxed) & event);
}

/* Each of these asks, or tells, every observer in force. */
void rgi_begin_span(rg_span *span);
void rgi_end_call(const rg_span *span, const rg_call *c);
void rgi_end_step(const rg_span *span, const rg_step *s, uint32_t made);
bool rgi_records(const rg_call *c);
bool rgi_may_save(const rg_call *c, uint32_t needs);
bool rgi_applied(const rg_call *c, rg_node *n);
bool rgi_made_gradient(const rg_step *s, rg_tensor *g, int input);
bool rgi_may_add(rg_tensor *grad);

/* ---- notes ------------------------------------------------------------------------- */

/* A note is what an observer keeps with a node: the observer's own struct begins with it. */
struct rg_note {
    const struct rg_note_class *cls;
    rg_note *next;
};

/* A function that is NULL isn't called, but `free` must be there. */
typedef struct rg_note_class {
    /* A step of a backward run begins at the node, and has ended, also where beginning failed. */
    bool (*begin_step)(rg_note *note, rg_node *n);
    void (*end_step)(rg_note *note, rg_node *n);
    /* The node has freed its saved values. */
    void (*freed_saved)(rg_note *note, rg_node *n);
    /* No tensor has the node as its history any more. */
    void (*lost_headers)(rg_note *note);
    /* The node ends. */
    void (*free)(rg_note *note);
} rg_note_class;

static inline void rgi_note_add(rg_node *n, rg_note *note, const rg_note_class *cls) {
    *note = (rg_note){ cls, n->notes };
    n->notes = note;
}
/* Returns the node's note of that class, or NULL. */
rg_note *rgi_note_of(const rg_node *n, const rg_note_class *cls);
/* Each of these tells all notes of the node. */
bool rgi_notes_begin_step(rg_node *n);
void rgi_notes_end_step(rg_node *n);
void rgi_notes_freed_saved(rg_node *n);
void rgi_notes_lost_headers(rg_node *n);
void rgi_notes_free(rg_node *n);
