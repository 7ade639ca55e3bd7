/*
 * observer.h: how a layer above is told what a thread does with tensors, so that it can
 * record the steps. Usually a thread has no observer, and then each call here is one look
 * at a pointer.
 */
#pragma once

#include "thread.h"

/* An operation that redo(context) repeats; redo returns false if it fails. An observer that keeps
 * the operation copies the context, which has `bytes` bytes. Before it frees the copy, it calls
 * drop(copy), unless `drop` is NULL. */
typedef bool rg_redo(void *context);
typedef struct rg_operation {
    rg_redo *redo;
    void (*drop)(void *context);
    const void *context;
    size_t bytes;
} rg_operation;

/* A function that is NULL isn't called. Where one returns false, or NULL, the observer has refused,
 * and its error stands; `did` is the exception. */
typedef struct rg_observer rg_observer;
struct rg_observer {
    /* Makes the tensor that rgi_new is asked for. */
    rg_tensor *(*make)(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size);
    /* Gives t, which is an op's output, a storage of `bytes` bytes. */
    bool (*allocate)(rg_observer *o, rg_tensor *t, size_t bytes);
    /* A scope has ended, or a tensor was dropped, and others may have let go of tensors. */
    void (*released)(rg_observer *o);
    /* The function `op` asks whether it may do what can't be done again: look at a value, say. */
    bool (*may_do_once)(rg_observer *o, const char *op);
    /* All of `to` was written to with the values of `from`, or with zeros where that is NULL. */
    bool (*copied)(rg_observer *o, rg_tensor *to, rg_tensor *from, const char *op);
    /* The operation has written, or will write, to all of t, unless t is NULL. Returns true if the
     * observer keeps the operation's context. */
    bool (*did)(rg_observer *o, rg_tensor *t, const char *op, const rg_operation *operation);
};

/* Makes o, or nobody if it is NULL, the thread's observer, and returns who it was. */
static inline rg_observer *rgi_set_observer(rg_observer *o) {
    rg_observer *before = rgi_this.observer;
    rgi_this.observer = o;
    return before;
}

/* Returns whether the function `op` may do what can't be done again. */
static inline bool rgi_may_do_once(const char *op) {
    rg_observer *o = rgi_this.observer;
    return RG_LIKELY(!o) || !o->may_do_once || o->may_do_once(o, op);
}

static inline void rgi_observe_release(void) {
    rg_observer *o = rgi_this.observer;
    if (RG_UNLIKELY(o != NULL) && o->released)
        o->released(o);
}

/* Tells the observer of a copy. Returns false where it refuses. */
static inline bool rgi_observe_copy(rg_tensor *to, rg_tensor *from, const char *op) {
    rg_observer *o = rgi_this.observer;
    return RG_LIKELY(!o) || !o->copied || o->copied(o, to, from, op);
}

/* Returns whether an observer keeps the operation's context. */
static inline bool rgi_observe_operation(rg_tensor *t, const char *op,
                                         const rg_operation *operation) {
    rg_observer *o = rgi_this.observer;
    return RG_UNLIKELY(o != NULL) && o->did && o->did(o, t, op, operation);
}
