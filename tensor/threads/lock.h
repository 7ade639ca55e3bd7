/*
 * lock.h: the locks of the library. A child of fork has none of its parent's other threads, which
 * may have held locks; so a thread that forks takes all locks first. All locks are made here,
 * except those of workers.c, which handles forks itself.
 */
#pragma once

#include "tensor/base.h"

#include <pthread.h>

/* The locks that always exist, in the order in which a thread may take one while it has another. */
typedef enum rg_lock {
    RG_LOCK_GRADIENTS,  /* The gradients of leaves, while a run commits them. */
    RG_LOCK_GENERATORS, /* The list of generators. A generator's own lock comes after it. */
    RG_LOCK_FUNCTIONS,  /* The list of ops that the program defines. */
    RG_LOCK_OBSERVERS,  /* The list of observers of the graph. */
    RG_LOCK_PROFILE,    /* The profiler's table and its file. */
    RG_LOCK_VIEWS,      /* The histories of views, while they are renewed. */
    RG_LOCK_MAPS,       /* The seed that all of stb_ds's tables share. */
    RG_LOCK_MEMORY,     /* The list of threads, and the free blocks that belong to no thread. */
    RG_LOCKS
} rg_lock;

void rgi_lock(rg_lock lock);
void rgi_unlock(rg_lock lock);

/* A lock of one object, of which there may be any number. It is in a list from rgi_own_lock_begin
 * to rgi_own_lock_end. */
typedef struct rg_own_lock {
    pthread_mutex_t mutex;
    struct rg_own_lock *next, **link;
} rg_own_lock;

void rgi_own_lock_begin(rg_own_lock *lock);
void rgi_own_lock_end(rg_own_lock *lock);
