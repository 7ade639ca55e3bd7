/*
 * graph_observer.c: the list of the observers of all threads, the functions that tell observers of
 * events, and the notes that observers keep with nodes. Each observer itself is in a file of its
 * own.
 */
#include "graph_observer.h"
#include "tensor/threads/lock.h"

atomic_int rgi_observed;

/* The list of observers. Observers are added at the front and never removed. Therefore a thread can
 * read the list while another thread adds to it. */
static _Atomic(rg_graph_observer *) all_observers = &rgi_profiler;

/* ---- putting observers in force ---------------------------------------------------- */

static int events_of(const rg_graph_observer *o) {
    int events = 0;
    if (o->begin_span)
        events |= RG_SEES_SPANS;
    if (o->records || o->may_save)
        events |= RG_SEES_RECORDING;
    if (o->applied)
        events |= RG_SEES_CALLS;
    if (o->made_gradient)
        events |= RG_SEES_GRADIENTS;
    if (o->may_add)
        events |= RG_SEES_COMMITS;
    if (o->may_replay)
        events |= RG_SEES_REPLAYS;
    return events;
}

/* Returns the first observer in force in the list from o on, or NULL if there is none. */
static inline rg_graph_observer *in_force_from(rg_graph_observer *o) {
    while (o && !rgi_is_in_force(o))
        o = o->next;
    return o;
}

static inline rg_graph_observer *first_in_force(void) {
    return in_force_from(atomic_load_explicit(&all_observers, memory_order_acquire));
}

/* Called after o was put in force or out of force. Adds o to the list if it isn't there yet, and
 * updates rgi_observed. If two threads put o in and out of force at once, the order of their calls
 * doesn't matter: each call reads the current value of o->in_force. */
static void update_events(rg_graph_observer *o) {
    rgi_lock(RG_LOCK_OBSERVERS);
    if (!o->listed) {
        o->listed = true;
        o->next = all_observers;
        atomic_store_explicit(&all_observers, o, memory_order_release);
    }
    int events = 0;
    for (o = first_in_force(); o; o = in_force_from(o->next))
        events |= events_of(o);
    atomic_store(&rgi_observed, events);
    rgi_unlock(RG_LOCK_OBSERVERS);
}

bool rgi_set_graph_observer(rg_graph_observer *o, bool on) {
    const bool before = atomic_exchange(&o->in_force, on) > 0;
    if (before != on)
        update_events(o);
    return before;
}

void rgi_count_graph_observer(rg_graph_observer *o, int by) {
    const int before = atomic_fetch_add(&o->in_force, by);
    if ((before > 0) != (before + by > 0))
        update_events(o);
}

/* ---- telling observers of events --------------------------------------------------- */

#define EACH_IN_FORCE(o)                     \
    rg_graph_observer *o = first_in_force(); \
    (o);                                     \
    (o) = in_force_from((o)->next)

/* Begins a span (a call or a backward step), whose notes are 0 at first. An observer that is put in
 * force during the span is told only of the end, and then reads these zeros. */
void rgi_begin_span(rg_span *span) {
    *span = (rg_span){ { 0 } };
    for (EACH_IN_FORCE(o))
        if (o->begin_span)
            o->begin_span(o, span);
}

void rgi_end_call(const rg_span *span, const rg_call *c) {
    for (rg_graph_observer *o = all_observers; o; o = o->next)
        if (o->end_call)
            o->end_call(o, span, c);
}

void rgi_end_step(const rg_span *span, const rg_step *s, uint32_t made) {
    for (rg_graph_observer *o = all_observers; o; o = o->next)
        if (o->end_step)
            o->end_step(o, span, s, made);
}

bool rgi_records(const rg_call *c) {
    for (EACH_IN_FORCE(o))
        if (o->records && !o->records(o, c))
            return false;
    return true;
}

bool rgi_may_save(const rg_call *c, uint32_t needs) {
    for (EACH_IN_FORCE(o))
        if (o->may_save && !o->may_save(o, c, needs))
            return false;
    return true;
}

bool rgi_applied(const rg_call *c, rg_node *n) {
    for (EACH_IN_FORCE(o))
        if (o->applied && !o->applied(o, c, n))
            return false;
    return true;
}

bool rgi_made_gradient(const rg_step *s, rg_tensor *g, int input) {
    for (EACH_IN_FORCE(o))
        if (o->made_gradient && !o->made_gradient(o, s, g, input))
            return false;
    return true;
}

bool rgi_may_add(rg_tensor *grad) {
    for (EACH_IN_FORCE(o))
        if (o->may_add && !o->may_add(o, grad))
            return false;
    return true;
}

bool rgi_may_replay(void) {
    for (EACH_IN_FORCE(o))
        if (o->may_replay && !o->may_replay(o))
            return false;
    return true;
}

/* ---- changes that recordings must notice ------------------------------------------- */

static atomic_uint changes;

uint32_t rgi_changes(void) { return atomic_load_explicit(&changes, memory_order_relaxed); }

void rgi_count_change(void) { atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed); }

/* ---- notes that observers keep with nodes ------------------------------------------ */

rg_note *rgi_note_of(const rg_node *n, const rg_note_class *cls) {
    rg_note *note = n->notes;
    while (note && note->cls != cls)
        note = note->next;
    return note;
}

bool rgi_notes_begin_step(rg_node *n) {
    for (rg_note *note = n->notes; note; note = note->next)
        if (note->cls->begin_step && !note->cls->begin_step(note, n))
            return false;
    return true;
}

void rgi_notes_end_step(rg_node *n) {
    for (rg_note *note = n->notes; note; note = note->next)
        if (note->cls->end_step)
            note->cls->end_step(note, n);
}

void rgi_notes_freed_saved(rg_node *n) {
    for (rg_note *note = n->notes; note; note = note->next)
        if (note->cls->freed_saved)
            note->cls->freed_saved(note, n);
}

void rgi_notes_lost_headers(rg_node *n) {
    for (rg_note *note = n->notes; note; note = note->next)
        if (note->cls->lost_headers)
            note->cls->lost_headers(note);
}

void rgi_notes_free(rg_node *n) {
    while (n->notes) {
        rg_note *note = n->notes;
        n->notes = note->next;
        note->cls->free(note);
    }
}
