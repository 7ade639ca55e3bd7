/*
 * observer.h: observers, by which a layer above is told what a thread does with tensors, so that it
 * can record the steps. Most threads have no observer; then each function here only reads a
 * pointer.
 */
#pragma once

#include "thread.h"

/* An operation that redo(context) repeats; redo returns false if it fails. The context has `bytes`
 * bytes. An observer that keeps the operation copies the context, and calls drop(copy), unless
 * `drop` is NULL, before it frees the copy. */
typedef bool rg_redo(void *context);
typedef struct rg_operation {
    rg_redo *redo;
    void (*drop)(void *context);
    const void *context;
    size_t bytes;
} rg_operation;

/* An observer. Functions that are NULL aren't called. If one returns false or NULL, the observer
 * has refused with an error; `did` is an exception. */
typedef struct rg_observer rg_observer;
struct rg_observer {
    /* Makes the tensor that rgi_new returns. */
    rg_tensor *(*make)(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size);
    /* Allocates a storage of `bytes` bytes for t, an op's output. */
    bool (*allocate)(rg_observer *o, rg_tensor *t, size_t bytes);
    /* Reports that a scope has ended or a tensor was dropped, so that references may have gone. */
    void (*released)(rg_observer *o);
    /* Returns whether the function `op` may do what can't be repeated, such as reading a value. */
    bool (*may_do_once)(rg_observer *o, const char *op);
    /* Reports that all of `to` was written, with the values of `from`, or with zeros if `from` is
     * NULL. */
    bool (*copied)(rg_observer *o, rg_tensor *to, rg_tensor *from, const char *op);
    /* Reports that the operation writes all of t, or nothing if t is NULL. Returns true if the
     * observer keeps the operation's context. */
    bool (*did)(rg_observer *o, rg_tensor *t, const char *op, const rg_operation *operation);
};

/* Sets the thread's observer, or none if o is NULL. Returns the previous one. */
static inline rg_observer *rgi_set_observer(rg_observer *o) {
    rg_observer *before = rgi_this.observer;
    rgi_this.observer = o;
    return before;
}

/* Returns whether the function `op` may do what can't be repeated. */
static inline bool rgi_may_do_once(const char *op) {
    rg_observer *o = rgi_this.observer;
    return RG_LIKELY(!o) || !o->may_do_once || o->may_do_once(o, op);
}

static inline void rgi_observe_release(void) {
    rg_observer *o = rgi_this.observer;
    if (RG_UNLIKELY(o != NULL) && o->released)
        o->released(o);
}

/* Reports a copy to the observer. Returns false if it refuses. */
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
