/*
 * memory.h: the one door to malloc. Every block is aligned to 64 bytes, and
 * whoever frees one says how large it was and of which class.
 */
#pragma once

#include "thread.h"

/* Returns a block, or NULL with RG_OUT_OF_MEMORY as the error; in a load that takes too much, with
 * load.h's. */
void *rgi_alloc(size_t bytes, rg_class cls);
/* Gives a block back; does nothing for NULL. */
void rgi_free(void *block, size_t bytes, rg_class cls);
/* Marks a handle as released, and gives its block of RG_MEM_OTHER back. The thread's
 * RG_RESTING_HANDLES last ones rest before their memory is used again, so that a use of one is
 * noticed. */
void rgi_free_handle(rg_handle *h, size_t bytes);
/* These two do the same as the first two for blocks that are asked for all the time: the usual case
 * is inlined. To free NULL isn't allowed here. */
static inline void *rgi_alloc_fast(size_t bytes, rg_class cls);
static inline void rgi_free_fast(void *block, size_t bytes, rg_class cls);
/* Sees to it that a block of RG_MEM_OTHER has room for `want` items, each of `item` bytes. Where it
 * hasn't, the block moves to one of twice the capacity or more. Returns false where there is no
 * memory, and leaves the block as it was. */
bool rgi_grow(void **block, size_t *capacity, size_t want, size_t item);
/* Returns memory that the innermost scope owns, aligned to 64 bytes, or NULL where there is none.
 * There may be no bytes. */
void *rgi_scope_alloc(size_t bytes);
/* Returns whether every block is malloc's own; memory.c says when. */
bool rgi_pool_bypassed(void);
/* Tests set this before a program's first request: blocks are full of nonsense then, and each one
 * that is freed after something was written behind its end is counted. */
extern bool rgi_memory_guarded;
extern atomic_long rgi_memory_spoilt;

/* Begin and end a thread's free lists and counts. Only thread.c calls them. */
void rgi_memory_begin_thread(rg_thread *me);
void rgi_memory_end_thread(rg_thread *me);

/* ---- counting ------------------------------------------------------------------ */

enum {
    RG_DRIFT_MAX = 256 << 10,  /* A thread's greatest distance from the common count. */
    RG_SMALL_BATCH = 16 << 14, /* The most that a list of small blocks holds, by 64 bytes. */
    RG_HEADER_BATCH = 512,     /* The most headers that their list holds. */
};

/* Adds n to a count to which only its own thread writes, so that no locked instruction is
 * needed. */
static inline void rgi_count_to(atomic_long *count, long n) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Raises the thread's peak, if it has to, and adds the drift to the common count where it has left
 * its bounds. */
void rgi_drifted(rg_thread *me);

/* Counts bytes of a class that were taken, if `more`, or given back. `others` are bytes of other
 * classes, which the caller has counted in their class already. */
static inline __attribute__((always_inline)) void rgi_count_bytes(rg_thread *me, rg_class cls,
                                                                  bool more, long bytes,
                                                                  long others) {
    long drift = atomic_load_explicit(&me->drift, memory_order_relaxed)
                 + (more ? bytes + others : -bytes - others);
    rgi_count_to(&me->bytes[cls], more ? bytes : -bytes);
    atomic_store_explicit(&me->drift, drift, memory_order_relaxed);
    if (RG_UNLIKELY(more ? drift > atomic_load_explicit(&me->watermark, memory_order_relaxed)
                         : drift < -RG_DRIFT_MAX))
        rgi_drifted(me);
}

/* ---- the lists of small blocks, uncounted --------------------------------------- */

/* Returns the number of the list to which a block belongs. For no bytes, or for many, it is past
 * the last list. */
static inline size_t rgi_small_class(size_t bytes, rg_class cls) {
    return cls == RG_MEM_HEADER ? 0 : (bytes - 1) / 64 + 1;
}

/* Takes a list's first block. Requires that there is one. */
static inline void *rgi_take(rg_thread *me, size_t c) {
    rg_free_block *b = me->small[c].first;
    me->small[c].first = b->next;
    me->small[c].count--;
    return b;
}

/* Returns whether c is a list that has room for another block. */
static inline bool rgi_has_room(const rg_thread *me, size_t c) {
    return c < RG_SMALL_CLASSES && me->small[c].count < me->small[c].limit;
}

static inline void rgi_put_back(rg_thread *me, void *block, size_t c) {
    rg_free_block *b = block;
    b->next = me->small[c].first;
    me->small[c].first = b;
    me->small[c].count++;
}

/* Lets a released header rest, so that a use after the end of its scope meets a header that is
 * marked as dead. Returns the header that has rested longest, or NULL. */
static inline void *rgi_put_to_rest(rg_thread *me, void *header) {
    void **place = &me->resting[me->rests++ % RG_RESTING];
    void *rested = *place;
    *place = header;
    return rested;
}

/* ---- the short way ---------------------------------------------------------------- */

static inline void *rgi_alloc_fast(size_t bytes, rg_class cls) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, cls);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first || me->watched))
        return rgi_alloc(bytes, cls);
    void *b = rgi_take(me, c);
    rgi_count_bytes(me, cls, true, (long)(bytes + 63) / 64 * 64, 0);
    return b;
}

static inline void rgi_free_fast(void *block, size_t bytes, rg_class cls) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, cls);
    if (RG_UNLIKELY(cls == RG_MEM_HEADER || !rgi_has_room(me, c))) {
        rgi_free(block, bytes, cls);
        return;
    }
    rgi_put_back(me, block, c);
    rgi_count_bytes(me, cls, false, (long)((bytes + 63) / 64 * 64), 0);
}

/* ---- a header and a storage at once ------------------------------------------------ */

/* Returns the header that rgi_take_both would take, or NULL where none is at hand or requests
 * are watched. What lies in it behind an rg_free_block may be written to. */
static inline void *rgi_header_at_hand(void) {
    const rg_thread *me = &rgi_this;
    return RG_UNLIKELY(me->watched) ? NULL : me->small[0].first;
}

/* Takes the header at hand, and a storage of `bytes` bytes, which is returned. Where no such
 * storage is at hand, returns NULL and takes nothing. */
static inline void *rgi_take_both(size_t header_bytes, size_t bytes) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, RG_MEM_STORAGE);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first))
        return NULL;
    rgi_take(me, 0);
    void *storage = rgi_take(me, c);
    rgi_count_to(&me->bytes[RG_MEM_HEADER], (long)header_bytes);
    rgi_count_bytes(me, RG_MEM_STORAGE, true, (long)c * 64, (long)header_bytes);
    return storage;
}

/* Serves rgi_free_both where a list has no room. */
void rgi_free_both_slowly(void *header, size_t header_bytes, void *storage, size_t bytes);

/* Frees a header and, if there is one, a storage. The last thing that it does is a call, so that
 * its caller has no registers to save. */
static inline void rgi_free_both(void *header, size_t header_bytes, void *storage, size_t bytes) {
    rg_thread *me = &rgi_this;
    size_t c = storage ? rgi_small_class(bytes, RG_MEM_STORAGE) : 0;
    if (RG_UNLIKELY(!rgi_has_room(me, 0) || !rgi_has_room(me, c))) {
        rgi_free_both_slowly(header, header_bytes, storage, bytes);
        return;
    }
    header = rgi_put_to_rest(me, header);
    if (RG_LIKELY(header))
        rgi_put_back(me, header, 0);
    if (storage)
        rgi_put_back(me, storage, c);
    rgi_count_to(&me->bytes[RG_MEM_STORAGE], -(long)c * 64);
    rgi_count_bytes(me, RG_MEM_HEADER, false, (long)header_bytes, (long)c * 64);
}
