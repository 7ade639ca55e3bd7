/*
 * observer.h: observers. The library tells a thread's observer what the thread does with tensors,
 * so that a layer above tensor/ can record the operations. Most threads have no observer. In these,
 * each function here costs no more than reading a pointer.
 */
#pragma once

#include "thread.h"

/* An operation that an observer can repeat by calling redo(context); redo returns false if it
 * fails. `bytes` is the size of the context. An observer that keeps the operation copies the
 * context. Before it frees the copy, it calls drop(copy), unless `drop` is NULL. `state` and `fits`
 * can be NULL, too. state(context, i, &bytes) returns block number i of the memory that redo uses
 * besides its tensor, or NULL. fits(context) fails and returns false if redo can't repeat it. */
typedef bool rg_redo(void *context);
typedef struct rg_operation {
    rg_redo *redo;
    void (*drop)(void *context);
    const void *context;
    size_t bytes;
    void *(*state)(void *context, size_t i, size_t *bytes);
    bool (*fits)(void *context);
} rg_operation;

/* An observer. Functions that are NULL aren't called. If `make`, `allocate`, `may_do_once` or
 * `copied` returns false or NULL, the observer has refused what it was told, and has failed with an
 * error. If `did` returns false, the observer just doesn't keep the operation. */
typedef struct rg_observer rg_observer;
struct rg_observer {
    /* Makes the tensor that rgi_new returns, in place of rgi_new's own code. */
    rg_tensor *(*make)(rg_observer *o, rg_dtype dtype, int ndim, const int64_t *size);
    /* Allocates a storage of `bytes` bytes for t, which is an op's output. */
    bool (*allocate)(rg_observer *o, rg_tensor *t, size_t bytes);
    /* Reports that a scope has ended or a tensor was dropped. This may have released tensors. */
    void (*released)(rg_observer *o);
    /* Returns whether the function `op` is allowed to do something that a replay can't repeat, such
     * as reading a value from a tensor. `instead` is advice for the error message, or "". */
    bool (*may_do_once)(rg_observer *o, const char *op, const char *instead);
    /* Reports that all elements of `to` were overwritten with the elements of `from`, or with zeros
     * if `from` is NULL. */
    bool (*copied)(rg_observer *o, rg_tensor *to, rg_tensor *from, const char *op);
    /* Reports an operation that works on no tensor but t, and that overwrites all elements of t if
     * it writes to t. If t is NULL, the operation may read any tensor, but writes to none that was
     * made under this observer. Returns true if the observer keeps the operation's context. */
    bool (*did)(rg_observer *o, rg_tensor *t, const char *op, const rg_operation *operation);
};

/* Makes o the thread's observer; NULL means no observer. Returns the previous observer. */
static inline rg_observer *rgi_set_observer(rg_observer *o) {
    rg_observer *before = rgi_this.observer;
    rgi_this.observer = o;
    return before;
}

/* Return whether the function `op` is allowed to do something that a replay can't repeat. Without
 * an observer, this is always allowed. rgi_may_read_once is for functions that read values from the
 * program's memory or from a file; its error message has advice for that case. */
static inline bool rgi_may_do_once_or(const char *op, const char *instead) {
    rg_observer *o = rgi_this.observer;
    return RG_LIKELY(!o) || !o->may_do_once || o->may_do_once(o, op, instead);
}
static inline bool rgi_may_do_once(const char *op) { return rgi_may_do_once_or(op, ""); }
static inline bool rgi_may_read_once(const char *op) {
    return rgi_may_do_once_or(op, "; read the values before a run, and copy them into a tensor that"
                                  " was made before the step was recorded (rg_copy_)");
}

/* Calls rgi_may_do_once_or for a function that is about to read the number in a 0-d tensor. */
static inline bool rgi_may_read_number(const char *op) {
    return rgi_may_do_once_or(op, ", since it reads the number in a tensor");
}

static inline void rgi_observe_release(void) {
    rg_observer *o = rgi_this.observer;
    if (RG_UNLIKELY(o != NULL) && o->released)
        o->released(o);
}

/* Reports a copy to the observer, if there is one. Returns false if the observer has refused the
 * copy, with an error. */
static inline bool rgi_observe_copy(rg_tensor *to, rg_tensor *from, const char *op) {
    rg_observer *o = rgi_this.observer;
    return RG_LIKELY(!o) || !o->copied || o->copied(o, to, from, op);
}

/* Reports an operation to the observer, if there is one. Returns whether the observer keeps the
 * operation's context. */
static inline bool rgi_observe_operation(rg_tensor *t, const char *op,
                                         const rg_operation *operation) {
    rg_observer *o = rgi_this.observer;
    return RG_UNLIKELY(o != NULL) && o->did && o->did(o, t, op, operation);
}
