/*
 * thread.h: what a thread owns, begins and ends with.
 *
 * The fields belong to the rooms that are named beside them; here they stand
 * together, so that one pointer leads to all of them. thread.c, which ends a
 * thread, calls the rooms above it to empty what is theirs: no room but this
 * one points upwards.
 */
#pragma once

#include "base.h"
#include "tensor.h"

#include <stdatomic.h>

/* Memory is counted by what it is for. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;

/* A free block holds these. Nobody writes over keeps_state, since the state of a
 * released tensor stays there. Batches are lists of `count` blocks; the first one of each leads to
 * the next batch. */
typedef struct rg_free_block {
    struct rg_free_block *next;
    uint64_t keeps_state;
    struct rg_free_block *batch;
    uint32_t count;
} rg_free_block;

/* The list has `count` blocks from `first` on, and one batch more in `spare`, or NULL there. It is
 * full with `limit` blocks; with a limit of 0 it is not in use. */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;

enum {
    RG_SMALL_CLASSES = 65,
    RG_LARGE_CLASSES = 4 * 28,
    RG_RESTING = 16, /* So many released headers rest; more wouldn't stay in L1. */
};

typedef struct rg_thread {
    bool ready;
    /* observer.h: nobody observes most threads, and then it is NULL. */
    struct rg_observer *observer;

    /* scope.c: the stack holds what scopes own, and a mark is the depth at which one began. Memory
     * that scopes own is a list, the last block first. */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    struct rg_scope_block *blocks;

    /* memory.c: free lists, the first of which is the tensor headers'; the headers that were
     * released last; and the chunk from which the next small block is cut, with the size of the
     * chunk after it. `rests` counts the headers that were put to rest, and `cached` is the bytes
     * of the large blocks. */
    rg_free_list small[RG_SMALL_CLASSES];
    void *resting[RG_RESTING];
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t cached;
    char *fresh;
    size_t fresh_bytes, chunk;
    int64_t fail_at; /* The request that is this many from now fails; 0 lets all pass. */

    /* Counts of memory.c: this thread alone writes them, and whoever asks for statistics reads
     * them. The drift is the bytes that the common count doesn't know of yet; where it is above the
     * watermark, the peak rises. Threads are a list by `next`, and `link` is the pointer that leads
     * to this one. */
    atomic_long bytes[RG_MEM_OTHER + 1];
    atomic_long drift, watermark, peak, system_calls;
    struct rg_thread *next, **link;

    /* error.c: the thread's last failure. */
    rg_code code;
    char message[1024];
} rg_thread;

/* A library that is loaded late gets very little of the static thread-local block: one pointer.
 * Until the thread's first call it points to a thread that is nobody's, whose lists are empty. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)

/* A failure is named after one of these, each of which may be NULL: the op that is being applied,
 * the function that said RG_AS (see error.h), the module that is being called. */
extern __thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_inside __attribute__((tls_model("initial-exec")));

/* Begins the thread, and arranges for its end. A second call changes nothing. */
rg_thread *rgi_thread_start(void);
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}
