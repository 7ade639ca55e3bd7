/*
 * lock.h: the locks of the library. In a child of fork only the thread that called fork exists. If
 * another thread held a lock at the time of the fork, no thread of the child would ever unlock it.
 * Therefore the thread that calls fork first locks all locks, and unlocks them afterwards in the
 * parent and in the child. All locks are made here, except those of workers.c, which handles forks
 * itself.
 */
#pragma once

#include "tensor/base.h"

#include <pthread.h>

/* The locks that always exist. A thread that holds one of them may lock only those that are listed
 * after it. */
typedef enum rg_lock {
    RG_LOCK_GRADIENTS,  /* The gradients of leaves, while a backward run commits them. */
    RG_LOCK_GENERATORS, /* The list of the generators' locks. The lock of a generator may be locked
                         * after this one. */
    RG_LOCK_FUNCTIONS,  /* The list of ops that the program has defined. */
    RG_LOCK_OBSERVERS,  /* The list of observers of the graph. */
    RG_LOCK_PROFILE,    /* The profiler's table and its file. */
    RG_LOCK_VIEWS,      /* The histories of views, while they are renewed. */
    RG_LOCK_MODULES,    /* The list of modules, and their lists of entries. */
    RG_LOCK_TABLES,     /* The tables of crc32.c, which its first call computes. */
    RG_LOCK_MAPS,       /* The seed that all hash tables of stb_ds share. */
    RG_LOCK_MEMORY,     /* The list of threads, and the free blocks that belong to no thread. */
    RG_LOCKS
} rg_lock;

void rgi_lock(rg_lock lock);
void rgi_unlock(rg_lock lock);

/* A lock that belongs to one object, such as a generator; each such object has one. After
 * rgi_own_lock_begin and until rgi_own_lock_end the lock is in a list. The thread that calls fork
 * locks all locks of that list. */
typedef struct rg_own_lock {
    pthread_mutex_t mutex;
    struct rg_own_lock *next, **link;
} rg_own_lock;

void rgi_own_lock_begin(rg_own_lock *lock);
void rgi_own_lock_end(rg_own_lock *lock);
