/*
 * recording.h: what replay.c and recording.c share: a recording, the entries that it is
 * made of, and the tensors and memory that it holds. No other file includes this one.
 */
#pragma once

#include "autograd/graph_observer.h"
#include "tensor/observer.h"
#include "replay.h"

/* A list of pointers has n of them in v, and room for `room`. */
typedef struct rg_pointers {
    void **v;
    size_t n, room;
} rg_pointers;

/* A run calls redo(context). When the recording is freed, it calls drop(context), unless drop is
 * NULL, and frees the context's `bytes`. */
typedef struct rg_replay_entry {
    rg_redo *redo;
    void (*drop)(void *context);
    void *context;
    size_t bytes;
} rg_replay_entry;

/* The step has made a leaf's gradient (`made`), or has taken it away. */
typedef struct rg_replay_leaf {
    rg_node *leaf;
    bool made;
} rg_replay_leaf;

/* A step observer looks on while one step of a backward run makes tensors: see replay.c. `next` is
 * the place in the list of held tensors from which the giver takes the next one. */
typedef struct rg_step_observer {
    rg_graph_observer observer;
    rg_replay *replay;
    size_t next;
} rg_step_observer;

struct rg_replay {
    rg_handle handle;
    rg_graph_observer recorder;
    rg_step_observer collector, giver;
    /* The step went wrong, or was refused. */
    bool failed;
    /* Memory that is lent from now on must never have been lent before. */
    bool lends_only_new;
    rg_replay_entry *entries;
    size_t n_entries, entry_room;
    /* Entries work on these tensors. The recording has a reference for each time that one is
     * listed. */
    rg_pointers held;
    /* The lists below are gone once the step is recorded. */
    rg_replay_leaf *leaves;
    size_t n_leaves, leaf_room;
    /* The recording lends these storages, and has a reference to each. */
    rg_pointers lent;
    /* The living are held tensors in lent memory that somebody else may still have. */
    rg_pointers living;
    /* Tensors in these storages were made by the step, and no run makes them anew. */
    rg_pointers constants;
};

bool rgi_pointers_have(const rg_pointers *list, const void *it);
void rgi_pointers_free(rg_pointers *list);

/* Fails, and makes the recording fail, since `op` can't be part of a recorded step. */
bool rgi_recording_refuse(rg_replay *r, const char *op);
/* Adds an entry, and returns room for its context, or NULL if the recording has failed. */
void *rgi_recording_note(rg_replay *r, rg_redo *redo, void (*drop)(void *), size_t bytes);

/* Holds a tensor that an entry works on. NULL and RG_NONE are no tensors. */
void rgi_recording_hold(rg_replay *r, rg_tensor *t);
/* Gives t a storage that is lent to it. Requires that an entry writes to t in every run before any
 * other reads it, and to nothing else. */
bool rgi_recording_lend(rg_replay *r, rg_tensor *t, size_t bytes);
/* Notes that the step reads this gradient of a leaf, which is NULL if the leaf had none. */
void rgi_recording_reads(rg_replay *r, const rg_tensor *grad);
/* Looks for tensors that only the recording has any more, and takes their memory back. */
void rgi_recording_reap(rg_replay *r);
/* Notes that the step has made t with its values. Returns false, and the recording has failed,
 * where there is no memory. */
bool rgi_recording_adds_constant(rg_replay *r, const rg_tensor *t);
/* Returns whether t was made by the step, and no run makes it anew. */
bool rgi_recording_is_constant(const rg_replay *r, const rg_tensor *t);
/* Notes that every run writes to all of t, or refuses, if the step made t and has read it. */
bool rgi_recording_makes_anew(rg_replay *r, const rg_tensor *t, const char *op);
/* Ends the recording: memory stays with its tensors from now on, and those that were released to
 * all but the recording are alive again. */
void rgi_recording_settle(rg_replay *r);
