/*
 * graph_observer.h: observers of the graph. An observer is told of ops that are applied, of nodes
 * that are recorded, and of the steps of backward runs. It can keep notes with nodes. Profiling,
 * replays, anomaly mode, inference mode and hooks on saved values are observers, each in a file of
 * its own.
 *
 * There are two kinds of observers. The thread's observer (tensor/observer.h) sees one thread, and
 * may do work in place of the functions of the graph. An observer of all threads does no such work:
 * it is told of events, and may refuse some of them.
 */
#pragma once

#include "hook_list.h"
#include "node.h"
#include "tensor/observer.h"
#include "tensor/thread.h"

/* An observer's notes on one call or one backward step, such as the time when it began. The
 * observer writes `notes` in begin_span, and reads them in end_call or end_step. There is room for
 * the notes of one observer, so only one observer may have begin_span. */
typedef struct rg_span {
    double notes[2];
} rg_span;

/* An observer. A function that is NULL isn't called. An observer refuses an event by returning
 * false, except in `records`, whose result answers a question. */
typedef struct rg_graph_observer rg_graph_observer;
struct rg_graph_observer {
    /* ---- the thread's observer ---- */
    rg_observer tensors;
    /* Called when the function with the name `op` is about to write over t's values. */
    bool (*may_update)(rg_graph_observer *o, rg_tensor *t, const char *op);
    /* Called when a call has computed its outputs. `alike` says whether its inputs suit
     * rgi_run_alike. */
    bool (*computed)(rg_graph_observer *o, const rg_call *c, size_t attr_size, bool alike);
    /* If the observer's thread may run backward, the observer must have the next three functions.
     * `step` does a step of the run in place of the engine. If `buffer` isn't NULL, it calls the
     * rule's `into`, which adds to `buffer`. Otherwise it calls the op's `fused` or `together`,
     * which fills gin[]. */
    bool (*step)(rg_graph_observer *o, const rg_step *s, rg_tensor *gin[], const rg_gradient *rule,
                 rg_tensor *buffer);
    /* Returns 1 if the observer holds a reference to t, one to t's storage and, if t is a view, one
     * to its base; 0 if it holds none of these; -1 if t must not be added to in place. */
    int (*references)(rg_graph_observer *o, const rg_tensor *t);
    /* Called when a run is about to give a leaf the gradient g. Returns the tensor to use in place
     * of g. Also called, with g = NULL, when rg_set_grad is about to set or remove a gradient. */
    rg_tensor *(*gradient)(rg_graph_observer *o, rg_node *leaf, rg_tensor *g);
    /* Called when t's gradient is read. `grad` is NULL if t has none. `again` is true if the reader
     * is an operation that reads the gradient again each time a recorded step is repeated
     * (rgi_observe_operation). */
    void (*read_gradient)(rg_graph_observer *o, rg_tensor *t, rg_tensor *grad, bool again);
    /* Called when a module is called whose list of hooks, `hooks`, is empty. */
    void (*called)(rg_graph_observer *o, rg_hook_list *hooks);
    /* Called when the program is about to change whether t requires grad. */
    void (*before_change)(rg_graph_observer *o, rg_tensor *t);
    /* Called when the program takes an alias of t without history (rg_detach). */
    void (*detached)(rg_graph_observer *o, rg_tensor *t);

    /* ---- observers of all threads: functions that are called at an event RG_SEES_.. ---- */
    /* RG_SEES_SPANS: a call or a step begins, or ends without failure. An observer that was put in
     * force after the beginning is told only of the end, and finds notes of 0. `made` is a mask, in
     * RG_IN bits, of the input gradients that the step computed by its own code, without a rule. */
    void (*begin_span)(rg_graph_observer *o, rg_span *span);
    void (*end_call)(rg_graph_observer *o, const rg_span *span, const rg_call *c);
    void (*end_step)(rg_graph_observer *o, const rg_span *span, const rg_step *s, uint32_t made);
    /* RG_SEES_RECORDING: some input of a call requires grad. `records` returns whether the call is
     * to be recorded. If all observers return true, may_save is called before anything is computed.
     * `needs` is the mask of the values that the node will save. */
    bool (*records)(rg_graph_observer *o, const rg_call *c);
    bool (*may_save)(rg_graph_observer *o, const rg_call *c, uint32_t needs);
    /* RG_SEES_CALLS: an op was applied. n is its new node, or NULL if the call wasn't recorded. */
    bool (*applied)(rg_graph_observer *o, const rg_call *c, rg_node *n);
    /* RG_SEES_GRADIENTS: a step has computed g, the gradient of input number `input`. */
    bool (*made_gradient)(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input);
    /* RG_SEES_COMMITS: a backward run is about to add to a leaf's gradient. */
    bool (*may_add)(rg_graph_observer *o, rg_tensor *grad);
    /* RG_SEES_REPLAYS: a recorded step is about to be repeated, without calls of the observer. */
    bool (*may_replay)(rg_graph_observer *o);

    /* Private fields, which must be zeros at first: how many times the observer was put in force,
     * whether it is in the list of observers, and the next observer in that list. */
    atomic_int in_force;
    bool listed;
    rg_graph_observer *next;
};

/* ---- finding the thread's observer ------------------------------------------------- */

static inline rg_graph_observer *rgi_graph_observer(void) {
    return (rg_graph_observer *)rgi_this.observer;
}

/* ---- functions for observers of all threads ---------------------------------------- */

/* The profiler, which is listed from the beginning, so that static programs contain it. */
extern rg_graph_observer rgi_profiler;

/* Puts an observer in force if `on`, else out of force. Returns whether it was in force before. */
bool rgi_set_graph_observer(rg_graph_observer *o, bool on);
/* Adds `by`, which is 1 or -1, to the number of times that an observer was put in force. The
 * observer is in force while this number is above 0. */
void rgi_count_graph_observer(rg_graph_observer *o, int by);
static inline bool rgi_is_in_force(const rg_graph_observer *o) {
    return atomic_load_explicit(&o->in_force, memory_order_relaxed) > 0;
}

/* The events that observers may want to see. rgi_observed is a mask of the events that observers in
 * force want to see. Usually it is 0, and an event costs only one comparison. */
enum {
    RG_SEES_SPANS = 1,
    RG_SEES_RECORDING = 2,
    RG_SEES_CALLS = 4,
    RG_SEES_GRADIENTS = 8,
    RG_SEES_COMMITS = 16,
    RG_SEES_REPLAYS = 32
};
extern atomic_int rgi_observed;
static inline bool rgi_is_observed(int event) {
    return RG_UNLIKELY(atomic_load_explicit(&rgi_observed, memory_order_relaxed) & event);
}

/* Each of these functions calls, for every observer in force, the observer's function with the same
 * name (without rgi_). rgi_end_call and rgi_end_step call it for observers out of force as well. If
 * an observer's function returns false, the rgi_ function returns false at once. */
void rgi_begin_span(rg_span *span);
void rgi_end_call(const rg_span *span, const rg_call *c);
void rgi_end_step(const rg_span *span, const rg_step *s, uint32_t made);
bool rgi_records(const rg_call *c);
bool rgi_may_save(const rg_call *c, uint32_t needs);
bool rgi_applied(const rg_call *c, rg_node *n);
bool rgi_made_gradient(const rg_step *s, rg_tensor *g, int input);
bool rgi_may_add(rg_tensor *grad);
bool rgi_may_replay(void);

/* ---- notes that observers keep with nodes ------------------------------------------ */

/* Data that an observer keeps with a node. The observer's own struct begins with this struct. */
struct rg_note {
    const struct rg_note_class *cls;
    rg_note *next;
};

/* Functions that are called when something happens to the node. They may be NULL, except `free`. */
typedef struct rg_note_class {
    /* begin_step is called before a backward run computes the node's step, and end_step after it,
     * even if begin_step failed. */
    bool (*begin_step)(rg_note *note, rg_node *n);
    void (*end_step)(rg_note *note, rg_node *n);
    /* Called when the node has freed its saved values. */
    void (*freed_saved)(rg_note *note, rg_node *n);
    /* Called when no tensor header has the node as its history any more. */
    void (*lost_headers)(rg_note *note);
    /* Called when the node is destroyed. */
    void (*free)(rg_note *note);
} rg_note_class;

static inline void rgi_note_add(rg_node *n, rg_note *note, const rg_note_class *cls) {
    *note = (rg_note){ cls, n->notes };
    n->notes = note;
}
/* Returns the node's note of the class `cls`, or NULL if it has none. */
rg_note *rgi_note_of(const rg_node *n, const rg_note_class *cls);
/* Each of these functions calls, for every note of the node, the function of rg_note_class with the
 * same name (without rgi_notes_). If a begin_step returns false, rgi_notes_begin_step returns false
 * at once. */
bool rgi_notes_begin_step(rg_node *n);
void rgi_notes_end_step(rg_node *n);
void rgi_notes_freed_saved(rg_node *n);
void rgi_notes_lost_headers(rg_node *n);
void rgi_notes_free(rg_node *n);

/* ---- changes that recordings must notice ------------------------------------------- */

/* rgi_count_change counts a change after which recorded steps must be checked again. It is called
 * by each function that adds or removes a hook, sets a gradient, or changes a tensor's data
 * (rg_set_data) or requires_grad. rgi_changes returns the number of these calls in all threads. */
uint32_t rgi_changes(void);
void rgi_count_change(void);
