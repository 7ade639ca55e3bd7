/*
 * recording.h: a recording, its entries, and the tensors and memory that it holds. Only
 * replay.c and recording.c include this file.
 */
#pragma once

#include "autograd/graph_observer.h"
#include "tensor/observer.h"
#include "replay.h"

/* A list of n pointers in an array with room for `room` of them. */
typedef struct rg_pointers {
    void **v;
    size_t n, room;
} rg_pointers;

/* One operation of the step. Each run calls redo(context). When the recording is freed, it calls
 * drop(context), unless drop is NULL, and frees the context, which has `bytes` bytes. */
typedef struct rg_replay_entry {
    rg_redo *redo;
    void (*drop)(void *context);
    void *context;
    size_t bytes;
} rg_replay_entry;

/* A leaf whose gradient the step has set (`made`) or taken away. */
typedef struct rg_replay_leaf {
    rg_node *leaf;
    bool made;
} rg_replay_leaf;

/* The observer of one step of a backward run that makes tensors (see replay.c). `next` is the
 * index, in the list of held tensors, of the tensor that the source returns next. */
typedef struct rg_step_observer {
    rg_graph_observer observer;
    rg_replay *replay;
    size_t next;
} rg_step_observer;

struct rg_replay {
    rg_handle handle;
    rg_graph_observer recorder;
    rg_step_observer collector, source;
    /* The step failed, or an operation of it was refused. */
    bool failed;
    /* Outputs get new storages only, not free ones of the pool. */
    bool only_new_memory;
    rg_replay_entry *entries;
    size_t n_entries, entry_room;
    /* The tensors that entries work on. The recording holds one reference per list element. */
    rg_pointers held;
    /* The lists below are freed once the step is recorded. */
    rg_replay_leaf *leaves;
    size_t n_leaves, leaf_room;
    /* The storages that outputs get their memory from. The recording holds a reference to each. */
    rg_pointers pool;
    /* Held tensors with memory from the pool that the program may still use. */
    rg_pointers live;
    /* The storages of constants: tensors that the step made and no run makes again. */
    rg_pointers constants;
};

bool rgi_pointers_have(const rg_pointers *list, const void *it);
void rgi_pointers_free(rg_pointers *list);

/* Fails, and marks the recording as failed, since `op` can't be part of a recorded step. */
bool rgi_recording_refuse(rg_replay *r, const char *op);
/* Adds an entry, and returns its context, to be filled in, or NULL if the recording has failed. */
void *rgi_recording_note(rg_replay *r, rg_redo *redo, void (*drop)(void *), size_t bytes);

/* Holds a tensor that an entry works on, unless it is NULL or RG_NONE. */
void rgi_recording_hold(rg_replay *r, rg_tensor *t);
/* Gives t a storage from the pool. Requires that in every run an entry writes to t before another
 * entry reads it, and that this entry writes to nothing else. */
bool rgi_recording_allocate(rg_replay *r, rg_tensor *t, size_t bytes);
/* Tells the recording that the step reads a leaf's gradient, which is NULL if the leaf has none. */
void rgi_recording_reads(rg_replay *r, const rg_tensor *grad);
/* Finds the tensors that only the recording still holds, and returns their storages to the pool. */
void rgi_recording_reap(rg_replay *r);
/* Makes t a constant of the recording. Returns false, and marks the recording as failed, if memory
 * runs out. */
bool rgi_recording_adds_constant(rg_replay *r, const rg_tensor *t);
/* Returns whether t is a constant: the step made it, and no run makes it again. */
bool rgi_recording_is_constant(const rg_replay *r, const rg_tensor *t);
/* Tells the recording that every run writes to all of t, so that t is no constant any more. Refuses
 * if t was a constant and an entry has read it. */
bool rgi_recording_makes_anew(rg_replay *r, const rg_tensor *t, const char *op);
/* Ends the recording. From now on its storages belong to its tensors, and tensors that were marked
 * as released are alive again. */
void rgi_recording_settle(rg_replay *r);
