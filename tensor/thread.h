/*
 * thread.h: what a thread owns, begins and ends with.
 *
 * The fields belong to the rooms that are named beside them; here they stand
 * together, so that one pointer leads to all of them. thread.c, which begins and
 * ends a thread, calls memory.c and scope.c for what is theirs, although they
 * stand on this room; no other room does such a thing.
 */
#pragma once

#include "base.h"
#include "tensor.h"

#include <stdatomic.h>

/* Memory is counted by what it is for. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;

/* A free block begins with these fields. `next` leads to the next block of its list. Nothing is
 * ever written to keeps_state, since the state of a released tensor stays there. A list that
 * threads hand on as a whole is a batch: its first block says how many blocks it has (`count`), and
 * leads to the next batch (`batch`). */
typedef struct rg_free_block {
    struct rg_free_block *next;
    uint64_t keeps_state;
    struct rg_free_block *batch;
    uint32_t count;
} rg_free_block;

/* The list has `count` blocks, of which `first` is the first; `spare` is one batch more, or NULL.
 * The list is full when it has `limit` blocks; with a limit of 0 it is not in use. */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;

/* Tensor headers are class 0 of the small blocks; the others, of up to 4096 bytes, have a class for
 * each multiple of 64. Large blocks have four classes for each doubling. */
enum {
    RG_SMALL_CLASSES = 65,
    RG_LARGE_CLASSES = 4 * 28,
    RG_RESTING = 16, /* The number of released headers that rest; more wouldn't stay in L1. */
    RG_RESTING_HANDLES = 16,
    RG_STACK_DEPTH = 32,
};

/* A failure: its code, which is RG_OK where there is none, and its line. A failure is unread until
 * somebody has looked at it (error.h says who). It halts training where it left gradients or
 * weights as they were before. unread.c fills in the rest: whether the failure was told, the names
 * of the functions that NULL reached because of it, and the `depth` return addresses of the call
 * that failed, which are there only if they are asked for. */
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
    /* observer.h: nobody observes most threads, and then it is NULL. */
    struct rg_observer *observer;

    /* scope.c: the stack holds the `depth` tensors that scopes own, and has room for `room`.
     * `scopes` scopes are open, and marks[i] is the depth at which the i-th of them began. Memory
     * that scopes own is a list, the last block first. */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    struct rg_scope_block *blocks;

    /* memory.c: `small` and `large` are free lists, one for each class. `resting` holds the headers
     * that were released last, and `rests` counts those that were ever put there. `cached` is the
     * bytes of the large free blocks. Small blocks are cut from a chunk, which goes on at `fresh`
     * and has fresh_bytes left; the chunk after it will have `chunk` bytes. */
    rg_free_list small[RG_SMALL_CLASSES];
    void *resting[RG_RESTING];
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t cached;
    char *fresh;
    size_t fresh_bytes, chunk;
    int64_t fail_at; /* The request that is this many from now fails; 0 lets all pass. */

    /* load.c: the load that is under way, or NULL. */
    struct rg_load *load;
    /* Not 0 while a request may be refused, because of `fail_at` or of a load: then each request
     * takes the long way. */
    int64_t watched;

    /* Counts of memory.c: this thread alone writes them (but rg_memory_reset_peak resets the peaks
     * of all), and whoever asks for statistics reads them. The drift is the bytes that the common
     * count doesn't know of yet; only where it is above the watermark can the peak rise. Threads
     * are a list by `next`, and `link` is the pointer that leads to this one. */
    atomic_long bytes[RG_MEM_OTHER + 1];
    atomic_long drift, watermark, peak, system_calls;
    struct rg_thread *next, **link;

    /* error.c: the failure that stands, and how many earlier ones are set aside. */
    rg_failure failure;
    int aside;

    /* memory.c: the handles that were released last, with their bytes, and the number of those that
     * were ever put there. */
    struct {
        void *handle;
        size_t bytes;
    } resting_handles[RG_RESTING_HANDLES];
    uint32_t handle_rests;
} rg_thread;

/* The initial-exec model is quick, but gives a library that is loaded late very little room:
 * hence only pointers are thread-local. Until the thread's first call, this one points to a shared
 * placeholder, whose lists are empty. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)

/* A failure is named after the function that said RG_AS (see error.h), or else after the op that is
 * being applied; autograd's anomaly mode also names the module inside whose call the thread is.
 * Each of the three may be NULL. */
extern __thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_inside __attribute__((tls_model("initial-exec")));

/* Begins the thread, and arranges for its end. A second call changes nothing. */
rg_thread *rgi_thread_start(void);
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}
