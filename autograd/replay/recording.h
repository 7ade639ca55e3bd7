/*
 * recording.h: a recording, its entries, and the tensors and memory that it holds. Only the files
 * of this folder include it.
 */
#pragma once

#include "autograd/frozen.h"
#include "autograd/graph_observer.h"
#include "autograd/hooks.h"
#include "tensor/observer.h"
#include "plan.h"
#include "replay.h"

/* A list of n pointers. The array v has room for `room` of them. */
typedef struct rg_pointers {
    void **v;
    size_t n, room;
} rg_pointers;

/* One operation of the recorded step, by the function `op`. Each repetition calls redo(context).
 * When the recording is freed, drop(context) is called unless drop is NULL. Then the context, which
 * has `bytes` bytes, is freed. `state` and `fits` are those of rg_operation. */
typedef struct rg_replay_entry {
    const char *op;
    rg_redo *redo;
    void *(*state)(void *context, size_t i, size_t *bytes);
    bool (*fits)(void *context);
    void (*drop)(void *context);
    void *context;
    size_t bytes;
} rg_replay_entry;

/* A leaf whose gradient the step has changed. `made` is true if the step's last change has set the
 * gradient. If that change has removed the gradient, `made` is false, and `removal` is the index of
 * the removal's entry. */
typedef struct rg_replay_leaf {
    rg_node *leaf;
    bool made;
    size_t removal;
} rg_replay_leaf;

/* A tensor whose gradient the step has read, without having made or removed it before. `grad` is
 * that gradient, or NULL if there was none. Entries may work on `grad`, so it must be t's gradient
 * at the beginning of each repetition. The recording holds references to t and `grad`. */
typedef struct rg_replay_read {
    rg_tensor *t, *grad;
} rg_replay_read;

/* A tensor whose requires_grad the step has changed. `before` is its requires_grad at the beginning
 * of the step. `made` is true if the step itself has made the tensor, or may have made it. */
typedef struct rg_replay_change {
    rg_tensor *t;
    bool before, made;
} rg_replay_change;

/* An observer of the tensors that a backward step allocates. A recording has two: the collector
 * lists these tensors while the step is recorded, and the source returns them again in a repetition
 * (see replay.c). `next` is the index, in the list of held tensors, of the tensor that the source
 * returns next. */
typedef struct rg_step_observer {
    rg_graph_observer observer;
    rg_replay *replay;
    size_t next;
} rg_step_observer;

/* The state of a held tensor when the step was recorded: its storage, its dtype, and its node if it
 * was a leaf that required grad. `tracked` is set if it had a history, and `computed` if each
 * repetition writes to the tensor before it reads it. */
typedef struct rg_replay_data {
    const rg_storage *storage;
    bool computed, tracked;
    rg_dtype dtype;
    const rg_node *leaf;
} rg_replay_data;

struct rg_replay {
    rg_handle handle;
    rg_graph_observer recorder;
    rg_step_observer collector, source;
    /* True if the step failed, one of its operations was refused, or memory ran out. */
    bool failed;
    /* Set while the recorded step is being repeated. */
    atomic_bool running;
    /* True if outputs from now on keep storages of their own, in which no other output lies. */
    bool only_own_memory;
    /* The memory of the outputs. */
    rg_plan plan;
    /* The bytes of the constants that the recording holds. */
    size_t constant_bytes;
    rg_replay_entry *entries;
    size_t n_entries, entry_room;
    /* The tensors that entries work on. The recording holds one reference for each element of the
     * list. */
    rg_pointers held;
    /* `data` has an element for each held tensor. `changes` is the value that rgi_changes() had
     * when the held tensors were last known to fit these elements. */
    rg_replay_data *data;
    uint32_t changes;
    /* The strides that the held tensors had when the step was recorded: those of held[0], then
     * those of held[1], and so on. */
    int64_t *strides;
    size_t n_strides;
    rg_replay_read *reads;
    size_t n_reads, read_room;
    /* Tensors whose gradients an operation, such as an optimizer's step, reads in each repetition,
     * before the step changes them. The recording holds a reference to each. */
    rg_pointers read_again;
    /* The numbers of hooks (rg_hook_count) of the modules that the step has called. The recording
     * holds a reference to each. */
    rg_pointers called;
    /* The held tensors that have a storage of the plan and may still be in use by the program. */
    rg_pointers live;
    /* The lists from here on are freed once the step is recorded. */
    rg_replay_leaf *leaves;
    size_t n_leaves, leaf_room;
    /* The number of entries up to and including that of the last operation that reads gradients
     * again in each repetition. */
    size_t up_to_operation;
    rg_replay_change *changed;
    size_t n_changed, changed_room;
    /* The storages of constants: tensors that the step made and that no repetition makes again. */
    rg_pointers constants;
    /* If the step was compiled, `entries` are those of the compiled step, except while it is being
     * lowered, and `original` are those that were recorded. uncompile(r) makes the latter the
     * entries again, and frees the compiled step. */
    rg_replay_entry *original, *replacing;
    size_t n_original, n_replacing;
    void *compiled;
    size_t compiled_bytes;
    void (*uncompile)(rg_replay *r);
};

/* Returns the recording of which this recorder is a field. */
static inline rg_replay *rgi_recording_of(void *recorder) {
    return (rg_replay *)(void *)((char *)recorder - offsetof(rg_replay, recorder));
}

/* Adds a pointer to the list. If memory runs out, returns false and marks the recording as
 * failed. */
bool rgi_pointers_add(rg_replay *r, rg_pointers *list, void *it);
bool rgi_pointers_have(const rg_pointers *list, const void *it);
/* Removes the pointer from the list, if it is in it. */
void rgi_pointers_remove(rg_pointers *list, const void *it);
void rgi_pointers_free(rg_pointers *list);

/* Returns whether none of the n tensors has elements of 16 bits, which no recorded step may have.
 * If one has, fails, and marks the recording as failed. t[i] may be NULL. */
bool rgi_recording_takes(rg_replay *r, const char *op, int n, rg_tensor *const t[]);
/* Fails, and marks the recording as failed, because `op` can't be part of a recorded step. The
 * error message ends with the advice `instead`, which may be "". */
bool rgi_recording_refuse(rg_replay *r, const char *op, const char *instead);
/* Does the same for an operation that writes to a constant. */
bool rgi_recording_refuse_constant(rg_replay *r, const char *op);
/* Adds an entry. Returns the entry's context, which the caller fills in. Returns NULL if the
 * recording has failed. If memory runs out, the recording fails. */
void *rgi_recording_note(rg_replay *r, const char *op, rg_redo *redo, void (*drop)(void *),
                         size_t bytes);

/* Takes a reference to t, a tensor on which an entry works. Does nothing if t is NULL or RG_NONE.
 * Requires that all tensors of an entry are held and allocated before the entry is added, or that
 * all are held and allocated after it, before the next entry is added. Then two tensors of one
 * entry don't share memory. */
void rgi_recording_hold(rg_replay *r, rg_tensor *t);
/* Holds t, if t was made before the step, because the step has made an alias of it. If t is given
 * other data between two runs (rg_set_data), the alias still has the old data, and a run must fail.
 */
void rgi_recording_aliases(rg_replay *r, rg_tensor *t);
/* Tells the recording that this entry may also work on tensors that aren't held for it. */
void rgi_recording_may_use_all(rg_replay *r);
/* Gives t a new storage, which joins the plan. Returns false if memory ran out. Requires that in
 * every repetition an entry writes to t before any entry reads t, and that this entry writes to
 * nothing but outputs of its operation. */
bool rgi_recording_allocate(rg_replay *r, rg_tensor *t, size_t bytes);
/* Tells the recording that the step reads a gradient of a leaf or another tensor. `grad` is NULL if
 * the tensor has none. */
void rgi_recording_reads(rg_replay *r, const rg_tensor *grad);
/* Marks as released the tensors with storages of the plan that only the recording still holds, and
 * frees the storages that no other tensor uses. */
void rgi_recording_reap(rg_replay *r);
/* Makes t a constant of the recording. If memory runs out, returns false and marks the recording as
 * failed. */
bool rgi_recording_adds_constant(rg_replay *r, const rg_tensor *t);
/* Returns whether t is a constant: the step made t, and no repetition makes it again. */
bool rgi_recording_is_constant(const rg_replay *r, const rg_tensor *t);
/* Tells the recording that in every repetition an entry writes to all of t. If t was a constant, it
 * no longer is one, and its storage joins the plan. Fails if an entry has read the constant. */
bool rgi_recording_makes_anew(rg_replay *r, const rg_tensor *t, const char *op);
/* Returns whether the step has made the leaf's tensor. In each repetition such a leaf begins
 * without a gradient. */
bool rgi_recording_made_leaf(const rg_replay *r, const rg_node *leaf);
/* Notes that the step is about to change whether t requires grad. */
void rgi_recording_changes(rg_replay *r, rg_tensor *t);
/* Notes that the step calls the module with this list of hooks. */
void rgi_recording_calls(rg_replay *r, rg_hook_list *hooks);
/* Fails if the step has changed requires_grad of a tensor that it didn't make, and hasn't changed
 * it back. Another call of such a step would do something else. */
bool rgi_recording_leaves_as_found(const rg_replay *r);
/* Ends the recording. Carries out the plan of its memory. From now on its storages belong to its
 * tensors, and tensors that were marked as released are alive again. */
void rgi_recording_settle(rg_replay *r);
/* rgi_recording_counts_writes is called before a repetition. It counts a write to each output that
 * the program may hold, so that backward fails for a graph that has saved the output's old value.
 * rgi_recording_renews_views is called after the repetition. It marks the views among these outputs
 * as up to date, so that they keep their histories. This is right because the repetition has
 * computed the views anew with their bases. */
void rgi_recording_counts_writes(const rg_replay *r);
void rgi_recording_renews_views(const rg_replay *r);
/* Returns t's node if t is a leaf that requires grad, and else NULL. */
const rg_node *rgi_tensor_leaf(const rg_tensor *t);
/* Checks whether the recorded step can still be repeated: rg_set_data or rg_requires_grad_ may have
 * been called since it was recorded. Fails, and returns false, if a held tensor has another dtype
 * or other strides now, or if its requires_grad was changed. Also fails if a held tensor has
 * another storage now, in two cases. In the first, other held tensors, such as its views and the
 * values saved for backward, still use the old storage. In the second, it shares the new storage
 * with a result that each run computes. And it fails if a module that the step has called is gone,
 * or if an operation can't be repeated any more. */
bool rgi_recording_is_current(const rg_replay *r);
/* Returns whether each run computes the elements of this storage. */
bool rgi_recording_computes(const rg_replay *r, const rg_storage *s);
/* Checks the same as rgi_recording_is_current, and also fails if a repetition would have to call a
 * hook. On success, sets r->changes, so that the check needn't be done again before the next
 * change. */
bool rgi_recording_fits(rg_replay *r);
/* Returns the bytes that rg_replay_bytes returns. */
size_t rgi_recording_bytes(const rg_replay *r);
/* Frees the recording, and releases the tensors that it holds. */
void rgi_recording_free(rg_replay *r);

/* ---- gradients of leaves (leaf_entries.c) ------------------------------------------------- */

/* The recorder's functions `gradient` and `read_gradient`: rg_graph_observer says when they are
 * called. */
rg_tensor *rgi_recorder_gradient(rg_graph_observer *o, rg_node *leaf, rg_tensor *g);
void rgi_recorder_read_gradient(rg_graph_observer *o, rg_tensor *t, rg_tensor *grad, bool again);
/* A run adds to the gradient of a leaf that still has the gradient of an earlier run. Removes such
 * gradients from the list `live`, which is for outputs that each run computes anew. */
void rgi_recording_leaves_out_sums(rg_replay *r);
/* Fails unless each tensor in r->reads has the same gradient as before the step was recorded: the
 * same tensor, or none if it had none. */
bool rgi_recording_finds_gradients(const rg_replay *r);
/* Checks the gradients that the program has set since the step was recorded, and to which the step
 * adds. Fails if such a gradient shares memory with a tensor that the recording holds. Also fails
 * if the step reads the sum, and the program also uses the gradient elsewhere. In both cases a
 * repetition would write the sum to other memory than a call of the step. Also fails if an
 * operation works on a gradient or a parameter that shares memory with a result of the step. */
bool rgi_recording_suits_gradients(const rg_replay *r);

/* Fails and returns false if the step adds to a gradient, and the program has set another one or
 * removed it since. A repetition would then compute something else than the next one. */
bool rgi_recording_knows_gradients(const rg_replay *r, const char *op);
/* Returns the gradients of the leaves whose gradients the entries change, an element for each
 * entry, and takes references to them. Returns NULL if memory ran out.
 * rgi_recording_puts_gradients_back makes them the leaves' gradients again, and frees the list. */
rg_tensor **rgi_recording_takes_gradients(const rg_replay *r);
void rgi_recording_puts_gradients_back(const rg_replay *r, rg_tensor **grads);

/* The operands of an entry of which a run does nothing but compute outputs from inputs. For a
 * backward step, `in` are the saved values, and `out` the gradients of the op's outputs.
 * If `check` isn't NULL, check(context) must be called first: it fails if values of the inputs
 * aren't valid. If checks_itself is true, the computation itself may fail for such values. */
typedef struct rg_computation {
    rg_redo *check;
    bool checks_itself;
    rg_tensor *const *in, *const *out;
    int n_in, n_out;
    /* The tensors that a backward step makes, and the one to which it adds, or NULL. */
    rg_tensor *const *made;
    size_t n_made;
    rg_tensor *buffer;
} rg_computation;
/* Sets *to, and returns whether the entry is such a computation. */
bool rgi_entry_computes(const rg_replay_entry *e, rg_computation *to);

/* ---- recordings that no longer fit (replay.c) --------------------------------------------- */

/* Fails if rg_replay_run would fail before it has changed anything. */
bool rgi_replay_may_repeat(rg_replay *r);
/* Repeats the step, as rg_replay_run does after it has checked its argument. *now is the index of
 * the entry that is being repeated. */
bool rgi_replay_repeat(rg_replay *r, size_t *now);
/* Returns whether rg_replay_run would fail because gradients, data or requires_grad have changed
 * since the step was recorded. Recording the step again then helps. Sets no error. */
bool rgi_replay_is_outdated(rg_replay *r);
