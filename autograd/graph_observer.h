/*
 * graph_observer.h: observers of the graph. An observer is told of ops that are applied, of nodes
 * that are recorded and of steps of backward runs, and keeps notes with nodes. The graph's own
 * files know nothing else of profiling, recording, anomaly mode, inference mode or hooks on saved
 * values: each of these is an observer in a file of its own.
 *
 * There are two kinds. The thread's observer (tensor/observer.h) sees one thread, and may do work
 * in place of the graph's functions. An observer of all threads does no such work; it is told of
 * events, and may refuse some.
 */
#pragma once

#include "node.h"
#include "tensor/observer.h"
#include "tensor/thread.h"

/* A span is the time of a call or a step. An observer writes notes into it at the beginning, and
 * reads them at the end. It has room for one observer, so only one observer may have begin_span. */
typedef struct rg_span {
    double notes[2];
} rg_span;

/* A function that is NULL isn't called. An observer refuses an event by returning false, but
 * `records` answers a question. */
typedef struct rg_graph_observer rg_graph_observer;
struct rg_graph_observer {
    /* ---- the thread's observer ---- */
    rg_observer tensors;
    /* The function `op` is about to write over t's values. */
    bool (*may_update)(rg_graph_observer *o, const rg_tensor *t, const char *op);
    /* A call has computed its outputs. `alike` says whether its inputs suit rgi_run_alike. */
    bool (*computed)(rg_graph_observer *o, const rg_call *c, size_t attr_size, bool alike);
    /* The next three are required of the observer of a thread that runs backward. `step` does a
     * step of the run in place of the engine: by the op's fused derivative, by `together` (which
     * fills gin[]), or, if `buffer` isn't NULL, by the rule's `into`, which adds to the buffer. */
    bool (*step)(rg_graph_observer *o, const rg_step *s, rg_tensor *gin[], const rg_gradient *rule,
                 rg_tensor *buffer);
    /* Returns 1 if the observer holds a reference to t, to its storage and, if t is a view, to its
     * base. Returns -1 if t must not be added to in place. */
    int (*references)(rg_graph_observer *o, const rg_tensor *t);
    /* A leaf is about to get the gradient g, or, if g is NULL, to lose its gradient. Returns the
     * tensor to use instead of g. */
    rg_tensor *(*gradient)(rg_graph_observer *o, rg_node *leaf, rg_tensor *g);
    /* The program reads a leaf's gradient, which is NULL if it has none. */
    void (*read_gradient)(rg_graph_observer *o, const rg_tensor *grad);

    /* ---- observers of all threads ---- */
    /* RG_SEES_SPANS: a call or a step begins, and ends without failure. Every observer is told of
     * the end; an observer that wasn't in force at the beginning finds notes of 0. `made` is an
     * RG_IN mask of the gradients that the step made itself, without a rule. */
    void (*begin_span)(rg_graph_observer *o, rg_span *span);
    void (*end_call)(rg_graph_observer *o, const rg_span *span, const rg_call *c);
    void (*end_step)(rg_graph_observer *o, const rg_span *span, const rg_step *s, uint32_t made);
    /* RG_SEES_RECORDING: `records` returns whether to record a call of which some inputs require
     * grad. may_save is called before anything is computed, with a mask of the values that the node
     * will save (`needs`). */
    bool (*records)(rg_graph_observer *o, const rg_call *c);
    bool (*may_save)(rg_graph_observer *o, const rg_call *c, uint32_t needs);
    /* RG_SEES_CALLS: an op was applied. n is its new node, or NULL if nothing was recorded. */
    bool (*applied)(rg_graph_observer *o, const rg_call *c, rg_node *n);
    /* RG_SEES_GRADIENTS: a step has made the gradient g of an input. */
    bool (*made_gradient)(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input);
    /* RG_SEES_COMMITS: a backward run is about to add to a leaf's gradient. */
    bool (*may_add)(rg_graph_observer *o, rg_tensor *grad);

    /* Private fields, which begin with zeros: how many times the observer is in force, whether it
     * is in the list of observers, and the next observer there. */
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
/* Adds `by`, which is 1 or -1, to the count of times that an observer is in force. */
void rgi_count_graph_observer(rg_graph_observer *o, int by);
static inline bool rgi_is_in_force(const rg_graph_observer *o) {
    return atomic_load_explicit(&o->in_force, memory_order_relaxed) > 0;
}

/* rgi_observed has the bits of the events that observers in force see. It is usually 0, so an event
 * usually costs one comparison. */
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

/* Each of these calls that function of every observer in force. */
void rgi_begin_span(rg_span *span);
void rgi_end_call(const rg_span *span, const rg_call *c);
void rgi_end_step(const rg_span *span, const rg_step *s, uint32_t made);
bool rgi_records(const rg_call *c);
bool rgi_may_save(const rg_call *c, uint32_t needs);
bool rgi_applied(const rg_call *c, rg_node *n);
bool rgi_made_gradient(const rg_step *s, rg_tensor *g, int input);
bool rgi_may_add(rg_tensor *grad);

/* ---- notes ------------------------------------------------------------------------- */

/* A note is data that an observer keeps with a node. The observer's own struct begins with this
 * one. */
struct rg_note {
    const struct rg_note_class *cls;
    rg_note *next;
};

/* The functions of a kind of note. Each may be NULL, except `free`. */
typedef struct rg_note_class {
    /* A step of a backward run begins at the node, or ends there. end_step is called even if
     * begin_step failed. */
    bool (*begin_step)(rg_note *note, rg_node *n);
    void (*end_step)(rg_note *note, rg_node *n);
    /* The node has freed its saved values. */
    void (*freed_saved)(rg_note *note, rg_node *n);
    /* No tensor refers to the node as its history any more. */
    void (*lost_headers)(rg_note *note);
    /* The node is destroyed. */
    void (*free)(rg_note *note);
} rg_note_class;

static inline void rgi_note_add(rg_node *n, rg_note *note, const rg_note_class *cls) {
    *note = (rg_note){ cls, n->notes };
    n->notes = note;
}
/* Returns the node's note of that class, or NULL. */
rg_note *rgi_note_of(const rg_node *n, const rg_note_class *cls);
/* Each of these calls that function of all notes of the node. */
bool rgi_notes_begin_step(rg_node *n);
void rgi_notes_end_step(rg_node *n);
void rgi_notes_freed_saved(rg_node *n);
void rgi_notes_lost_headers(rg_node *n);
void rgi_notes_free(rg_node *n);
