/*
 * thread.h: the state that the library keeps for each thread of the program.
 *
 * The comment above each group of fields names the file to which the fields belong. All groups are
 * in one struct, so that one thread-local pointer leads to all of them. thread.c initialises and
 * destroys the struct. It calls memory.c and scope.c to do that for their fields, although these
 * files are built on thread.c; that is the only exception to the order in base.h.
 */
#pragma once

#include "base.h"
#include "tensor.h"

#include <stdatomic.h>

/* The classes of memory by its purpose. The bytes in use are counted separately for each class. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;

/* The first fields of a free block. `next` is the next block of the list. `keeps_state` is never
 * written, so that the state of a released tensor, which is at this place, stays readable. A batch
 * is a list of blocks that threads pass on as a whole. In the first block of a batch, `count` is
 * the number of blocks in the batch, and `batch` points to the next batch. */
typedef struct rg_free_block {
    struct rg_free_block *next;
    uint64_t keeps_state;
    struct rg_free_block *batch;
    uint32_t count;
} rg_free_block;

/* A list of `count` free blocks of one size class. It is full when it has `limit` blocks; if the
 * limit is 0, the list isn't used. `spare` is a second list of such blocks, a batch, or NULL if
 * there is none. */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;

/* Size classes. Small blocks: class 0 is for tensor headers, and each other class is for one
 * multiple of 64 bytes, up to 4096 bytes. Large blocks: there are four classes for each power of
 * two. */
enum {
    RG_SMALL_CLASSES = 65,
    RG_LARGE_CLASSES = 4 * 28,
    /* The number of released headers that aren't reused yet. With more, the headers in use would be
     * in the L1 cache less often. */
    RG_RESTING = 16,
    RG_RESTING_HANDLES = 16,
    RG_STACK_DEPTH = 32,
};

/* `all` is the number of a thread's failures. `read` is the value that `all` had when the program
 * last read the error. */
typedef struct rg_failure_count {
    int64_t all, read;
} rg_failure_count;

/* A failure: its code, which is RG_OK if there is none, and its message. `unread` is set until the
 * program reads the failure (error.h says how). `halts` is set if the failure halts training,
 * because the failed call should have changed gradients or weights. The other fields belong to
 * unread.c, except `count`. `told` is set if the failure was written to standard error.
 * `has_number` is set if, after the failure, a function has returned -1 or NaN because it failed.
 * `reached` has the names of functions that were called with NULL because of the failure. `stack`
 * has the `depth` return addresses of the calls in progress when the failure happened; it is filled
 * in only if REGARD_ERRORS asks for it. `times` is the number of failures with this message, and
 * `named_call` the value of rgi_named_calls at the first of these failures. `number` counts the
 * thread's failures up to this one, and `length` is the message's length without the place that
 * rgi_failed_inside appends. While the failure is set aside, `count` holds the value that the
 * thread's `failures` had when it was set aside. */
typedef struct rg_failure {
    rg_code code;
    bool unread, halts, told, has_number;
    int depth;
    unsigned named_call;
    int64_t times, number;
    size_t length;
    void *stack[RG_STACK_DEPTH];
    char reached[160];
    char message[1024];
    rg_failure_count count;
} rg_failure;

typedef struct rg_thread {
    bool ready;
    bool inference; /* Set if inference mode is on. */
    bool handling;  /* Set while the program's error handler runs. */
    /* observer.h: the thread's observer, or NULL if there is none. */
    struct rg_observer *observer;
    struct rg_rewind *rewind; /* random/rewind.h: the innermost rewind that has begun, or NULL. */
    const struct rg_autocaster *autocast; /* ops/autocast.h; NULL while autocast is off. */

    /* scope.c: the stack of tensors that scopes own. The stack has `depth` entries and room for
     * `room`. `scopes` is the number of open scopes, and marks[i] is the depth that the stack had
     * when scope i began. `blocks` is a linked list of memory that scopes own, the newest first. */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    struct rg_scope_block *blocks;

    /* memory.c: `small` and `large` are free lists, one for each size class. `resting` is a ring of
     * the headers that were released last, and `rests` counts all headers that were ever put there.
     * `taken` is the number of large blocks that the thread has allocated and not yet freed, or 0
     * if it has freed more, and `cached` the number of bytes in large free blocks. Small blocks are
     * cut from a chunk: its unused part begins at `fresh` and has fresh_bytes bytes. The next chunk
     * will have `chunk` bytes. */
    rg_free_list small[RG_SMALL_CLASSES];
    void *resting[RG_RESTING];
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t taken[RG_LARGE_CLASSES];
    int64_t cached;
    char *fresh;
    size_t fresh_bytes, chunk;
    int64_t fail_at; /* The number of requests until one fails, including that one; 0 if none is to
                      * fail. */

    /* load.c: the loading of a file that is in progress, or NULL if there is none. */
    struct rg_load *load;
    /* Called with each block that the thread allocates, unless it is NULL (rgi_watch_blocks). */
    void (*told)(void *block, size_t bytes);
    /* Nonzero while a request for memory may have to fail because of `fail_at` or of `load`, and
     * while `told` is called. While it is nonzero, each request calls rgi_alloc, which looks at all
     * three. */
    int64_t watched;

    /* memory.c: counters. Only this thread writes them, except that rg_memory_reset_peak resets the
     * peaks and watermarks of all threads. Other threads read them for statistics. `drift` is the
     * number of bytes that haven't been added to the common count yet; while it isn't above
     * `watermark`, the peak can't have risen. `next` and `link` make a linked list of the threads:
     * `link` points to the pointer that points to this thread. */
    _Atomic int64_t bytes[RG_MEM_OTHER + 1];
    _Atomic int64_t drift, watermark, peak, system_calls;
    struct rg_thread *next, **link;

    /* error.c: `failure` is the thread's failure. `failures` has the counts of all its failures,
     * except those that the library handled itself. `aside` is the number of failures that are set
     * aside (rgi_set_failure_aside). */
    rg_failure failure;
    rg_failure_count failures;
    int aside;

    /* unread.c: failures that happened while the thread's error was unread, and weren't its
     * consequences. `count` is their number, and `first` the message of the first one. */
    struct {
        int64_t count;
        char first[512];
    } later;

    /* memory.c: a ring of the handles that were released last, with their sizes. `handle_rests`
     * counts all handles that were ever put there. */
    struct {
        void *handle;
        size_t bytes;
    } resting_handles[RG_RESTING_HANDLES];
    uint32_t handle_rests;
} rg_thread;

/* The thread's state. Only the pointer is thread-local, not the struct: the initial-exec model
 * makes access fast, but gives very little thread-local memory to a library that is loaded late.
 * Until the thread first calls the library, the pointer leads to a state with empty lists, which
 * all such threads share. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)

/* The names that an error message may contain; each may be NULL. rgi_named_as is the name given by
 * RG_AS (see error.h). If it is NULL, the message has rgi_applying, the op that is being applied.
 * rgi_inside is the module that is being called, for messages of autograd's anomaly mode.
 * rgi_named_calls is the number of calls that RG_AS has named, so that two failures of one call can
 * be told from the failures of two calls. */
extern __thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_inside __attribute__((tls_model("initial-exec")));
extern __thread unsigned rgi_named_calls __attribute__((tls_model("initial-exec")));

/* Initialises the thread's state, and arranges that it is destroyed when the thread ends. A second
 * call changes nothing. Returns the state. */
rg_thread *rgi_thread_start(void);
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}
