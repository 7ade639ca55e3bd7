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

/* What memory is for: it is counted by these. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;

typedef struct rg_free_block {
    struct rg_free_block *next;
    uint64_t keeps_state;        /* A released tensor's state stays here: nobody writes to it. */
    struct rg_free_block *batch; /* the first of the next batch */
    uint32_t count;              /* the number of blocks in its batch */
} rg_free_block;

/* `count` blocks follow `first`; with a limit of 0 the list is not in use. */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;

enum {
    RG_SMALL_CLASSES = 65,
    RG_LARGE_CLASSES = 4 * 28,
    RG_RESTING = 16, /* see rgi_destroy: more of them wouldn't stay in L1 */
};

typedef struct rg_thread {
    bool ready;
    /* observer.h: somebody who looks on; usually NULL */
    struct rg_observer *observer;
    /* scope.c: what scopes own, and where each open scope begins */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    /* memory.c */
    rg_free_list small[RG_SMALL_CLASSES]; /* The first one is the tensor headers'. */
    rg_tensor *resting[RG_RESTING];       /* the headers that were released last */
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t cached;        /* bytes in the large ones */
    char *fresh;           /* The next small block is cut from here; */
    size_t fresh_bytes;    /* so much is left of it, */
    size_t chunk;          /* and so much is asked for next. */
    atomic_long watermark; /* the drift above which the peak rises */
    int64_t fail_at;
    /* Only this thread writes these; whoever asks for statistics reads them. */
    atomic_long bytes[RG_MEM_OTHER + 1];
    atomic_long drift, peak, system_calls;
    struct rg_thread *next, **link;
    /* error.c */
    rg_code code;
    char message[1024];
} rg_thread;

/* A library that is loaded late gets very little of the static thread-local block: one pointer.
 * Until the thread's first call it points to a thread that is nobody's, whose lists are empty. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)

/* Begins the thread, and arranges for its end. A second call changes nothing. */
rg_thread *rgi_thread_start(void);
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}
