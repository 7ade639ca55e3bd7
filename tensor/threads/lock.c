/*
 * lock.c: the locks of the library, and what becomes of them in a child of fork.
 */
#include "lock.h"

#include "tensor/system/system.h"

static pthread_mutex_t locks[RG_LOCKS] = { [0 ... RG_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER };

/* A linked list of the locks that belong to objects. RG_LOCK_GENERATORS guards the list. */
static rg_own_lock *own_locks;

void rgi_lock(rg_lock lock) { pthread_mutex_lock(&locks[lock]); }

void rgi_unlock(rg_lock lock) { pthread_mutex_unlock(&locks[lock]); }

void rgi_own_lock_begin(rg_own_lock *lock) {
    pthread_mutex_init(&lock->mutex, NULL);
    rgi_lock(RG_LOCK_GENERATORS);
    lock->next = own_locks;
    lock->link = &own_locks;
    if (own_locks)
        own_locks->link = &lock->next;
    own_locks = lock;
    rgi_unlock(RG_LOCK_GENERATORS);
}

void rgi_own_lock_end(rg_own_lock *lock) {
    rgi_lock(RG_LOCK_GENERATORS);
    *lock->link = lock->next;
    if (lock->next)
        lock->next->link = lock->link;
    rgi_unlock(RG_LOCK_GENERATORS);
    pthread_mutex_destroy(&lock->mutex);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static void lock_all(void) {
    for (int i = 0; i < RG_LOCKS; i++) {
        rgi_lock(i);
        if (i == RG_LOCK_GENERATORS)
            for (rg_own_lock *own = own_locks; own; own = own->next)
                pthread_mutex_lock(&own->mutex);
    }
}

/* Unlocks all locks after a fork, in the parent and in the child: in both of them, the thread that
 * called fork holds the locks. */
static void unlock_all(void) {
    for (rg_own_lock *own = own_locks; own; own = own->next)
        pthread_mutex_unlock(&own->mutex);
    for (int i = RG_LOCKS - 1; i >= 0; i--)
        rgi_unlock(i);
}

/* Registers the handlers for fork. The mutex of the pool of workers (workers.c) must be locked
 * after the locks of this file, because a thread that holds a generator's lock may wait for the
 * pool. Before a fork the system calls the handlers in the reverse order of their registration.
 * Therefore workers.c registers its handlers before this file does. */
__attribute__((constructor(102))) static void expect_forks(void) {
    rgi_expect_fork(lock_all, unlock_all, unlock_all);
}
