/*
 * thread.h: the state of a thread of the program.
 *
 * Each group of fields belongs to the file that is named beside it. They are one struct, so that
 * one pointer leads to all of them. thread.c, which initialises and destroys the struct, calls
 * memory.c and scope.c for their fields, although those rooms are above this one; no other room
 * does so.
 */
#pragma once

#include "base.h"
#include "tensor.h"

#include <stdatomic.h>

/* The purposes of memory, which is counted separately for each. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;

/* The first fields of a free block. `next` is the next block of its list. Nothing is written to
 * keeps_state, so that the state of a released tensor stays readable. A batch is a list that
 * threads pass on as a whole: in its first block, `count` is the number of its blocks, and `batch`
 * is the next batch. */
typedef struct rg_free_block {
    struct rg_free_block *next;
    uint64_t keeps_state;
    struct rg_free_block *batch;
    uint32_t count;
} rg_free_block;

/* A list of `count` free blocks, of which `first` is the first. The list is full with `limit`
 * blocks; a limit of 0 means that it isn't used. `spare` is another batch of the same size class,
 * or NULL. */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;

/* Size classes. Class 0 of the small blocks is for tensor headers; the others, up to 4096 bytes,
 * have one for each multiple of 64 bytes. Large blocks have four classes for each power of two. */
enum {
    RG_SMALL_CLASSES = 65,
    RG_LARGE_CLASSES = 4 * 28,
    /* The number of released headers that aren't reused yet; more wouldn't stay in L1. */
    RG_RESTING = 16,
    RG_RESTING_HANDLES = 16,
    RG_STACK_DEPTH = 32,
};

/* A failure: its code, or RG_OK if there is none, and its line. A failure is unread until the
 * program looks at it (error.h says how). It halts training if it left gradients or weights
 * unchanged that should have changed. The other fields are unread.c's: whether the failure was
 * reported, the names of functions that were called with NULL because of it, and the `depth` return
 * addresses of the call that failed, which are recorded only on request. */
typedef struct rg_failure {
    rg_code code;
    bool unread, halts, told;
    int depth;
    void *stack[RG_STACK_DEPTH];
    char reached[160];
    char message[1024];
} rg_failure;

typedef struct rg_thread {
    bool ready;
    bool inference; /* Inference mode is on. */
    /* observer.h: the thread's observer, or NULL. */
    struct rg_observer *observer;

    /* scope.c: the stack of the `depth` tensors that scopes own, with a capacity of `room`.
     * `scopes` is the number of open scopes, and marks[i] is the depth at which the i-th began.
     * `blocks` is a list of memory that scopes own, the newest first. */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    struct rg_scope_block *blocks;

    /* memory.c: `small` and `large` are free lists, one for each size class. `resting` is a ring of
     * the headers that were released last, and `rests` counts all headers that were put there.
     * `cached` is the number of bytes in large free blocks. Small blocks are cut from a chunk,
     * whose unused part is fresh_bytes bytes at `fresh`; the next chunk will have `chunk` bytes. */
    rg_free_list small[RG_SMALL_CLASSES];
    void *resting[RG_RESTING];
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t cached;
    char *fresh;
    size_t fresh_bytes, chunk;
    int64_t fail_at; /* The number of requests up to the one that fails; 0 if none does. */

    /* load.c: the load in progress, or NULL. */
    struct rg_load *load;
    /* Other than 0 while a request may be refused, because of `fail_at` or of a load. Then each
     * request runs rgi_alloc, which checks both. */
    int64_t watched;

    /* memory.c: counters. Only this thread writes them (except that rg_memory_reset_peak resets the
     * peaks of all threads), and any thread reads them for statistics. `drift` is the number of
     * bytes not yet added to the common count; the peak can rise only if `drift` is above
     * `watermark`. `next` and `link` make a list of threads; `link` points to the pointer to this
     * one. */
    atomic_long bytes[RG_MEM_OTHER + 1];
    atomic_long drift, watermark, peak, system_calls;
    struct rg_thread *next, **link;

    /* error.c: the thread's failure, and the number of earlier failures that are set aside. */
    rg_failure failure;
    int aside;

    /* memory.c: a ring of the handles that were released last, with their sizes, and the number of
     * all handles that were put there. */
    struct {
        void *handle;
        size_t bytes;
    } resting_handles[RG_RESTING_HANDLES];
    uint32_t handle_rests;
} rg_thread;

/* The thread's state. Only pointers are thread-local: the initial-exec model is fast, but a library
 * that is loaded late gets very little thread-local memory. Until the thread's first call, the
 * pointer leads to a shared placeholder with empty lists. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)

/* The names in a failure: rgi_named_as, the function that said RG_AS (see error.h), or else
 * rgi_applying, the op that is being applied. rgi_inside is the module that is being called;
 * autograd's anomaly mode names it, too. Each may be NULL. */
extern __thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_inside __attribute__((tls_model("initial-exec")));

/* Initialises the thread's state, and arranges for its destruction when the thread ends. A second
 * call changes nothing. */
rg_thread *rgi_thread_start(void);
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}
