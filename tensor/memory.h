/*
 * memory.h: allocation of memory. All files of the library allocate and free memory by these
 * functions; only memory.c asks the system for blocks. (Two exceptions: thread.c allocates a
 * thread's state itself, and rgi_real_path returns a string that the C library has allocated.)
 * Every block is aligned to 64 bytes. Whoever frees a block passes its size and class.
 */
#pragma once

#include "thread.h"

/* Returns a block of `bytes` bytes. Fails and returns NULL with RG_OUT_OF_MEMORY if memory runs
 * out, or with RG_IO_ERROR if a file is being loaded and the load would exceed its limit (see
 * load.h). */
void *rgi_alloc(size_t bytes, rg_class cls);
/* Frees a block; does nothing for NULL. */
void rgi_free(void *block, size_t bytes, rg_class cls);
/* Marks a handle as released, and frees its block, which has class RG_MEM_OTHER. The blocks of the
 * last RG_RESTING_HANDLES handles that a thread released aren't reused yet, unless they are large.
 * So a function notices if it is given one of these handles. */
void rgi_free_handle(rg_handle *h, size_t bytes);
/* rgi_alloc_fast and rgi_free_fast do the same as rgi_alloc and rgi_free, but their most common
 * case is inlined. They are for blocks that are allocated and freed all the time. rgi_free_fast
 * requires that the block isn't NULL. */
static inline void *rgi_alloc_fast(size_t bytes, rg_class cls);
static inline void rgi_free_fast(void *block, size_t bytes, rg_class cls);
/* Makes room for `want` items of `item` bytes each in *block, a block of class RG_MEM_OTHER that
 * has room for *capacity items. If *capacity is less than `want`, moves the items to a new block
 * with at least twice the capacity. If memory runs out, returns false and changes nothing. */
bool rgi_grow(void **block, size_t *capacity, size_t want, size_t item);
/* From now on, `told` is called with each block that the thread allocates. NULL ends this. */
void rgi_watch_blocks(void (*told)(void *block, size_t bytes));
/* Returns a block of `bytes` bytes, aligned to 64 bytes, that the innermost scope owns. `bytes` may
 * be 0. Returns NULL if memory runs out. */
void *rgi_scope_alloc(size_t bytes);
/* Returns whether every block comes from malloc directly; the head of memory.c says when. */
bool rgi_pool_bypassed(void);
/* For tests. If rgi_memory_guarded is set before a program's first allocation, new blocks are
 * filled with nonsense. If something was written beyond the end of a block, rgi_memory_spoilt goes
 * up by 1 when the block is freed. */
extern bool rgi_memory_guarded;
extern atomic_long rgi_memory_spoilt;

/* Initialise and destroy the free lists and counters of a thread. Only thread.c calls them. */
void rgi_memory_begin_thread(rg_thread *me);
void rgi_memory_end_thread(rg_thread *me);
/* Calls f with each running thread's state. No thread begins or ends meanwhile. */
void rgi_each_thread(void (*f)(rg_thread *t));

/* ---- counting bytes ------------------------------------------------------------ */

enum {
    /* The greatest drift (see rgi_drifted). A larger one is added to the common count. */
    RG_DRIFT_MAX = 256 << 10,
    RG_SMALL_BATCH = 16 << 14, /* The greatest number of blocks in the list of size class 1. A list
                                * of class c, whose blocks are c times as large, has at most
                                * RG_SMALL_BATCH / c blocks. */
    RG_HEADER_BATCH = 512,     /* The greatest number of headers in the free list. */
};

/* Adds n to a counter. Only the thread that owns the counter writes it, so no locked instruction is
 * needed. */
static inline void rgi_count_to(_Atomic int64_t *count, int64_t n) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Updates the thread's statistics when its drift is above the watermark (thread.h) or below
 * -RG_DRIFT_MAX. The drift is the number of bytes that the thread has counted but not yet added to
 * the common count. Raises the peak to the common count plus the drift, if that sum is higher. If
 * |drift| > RG_DRIFT_MAX, adds the drift to the common count. Sets the next watermark. */
void rgi_drifted(rg_thread *me);

/* Counts `bytes` bytes of class `cls` as allocated if `more` is true, or else as freed. `others` is
 * the number of bytes of other classes that are allocated or freed at the same time. The caller has
 * counted these bytes in their classes; this function counts them in the drift. */
RG_INLINED void rgi_count_bytes(rg_thread *me, rg_class cls, bool more, int64_t bytes,
                                int64_t others) {
    int64_t drift = atomic_load_explicit(&me->drift, memory_order_relaxed)
                    + (more ? bytes + others : -bytes - others);
    rgi_count_to(&me->bytes[cls], more ? bytes : -bytes);
    atomic_store_explicit(&me->drift, drift, memory_order_relaxed);
    if (RG_UNLIKELY(more ? drift > atomic_load_explicit(&me->watermark, memory_order_relaxed)
                         : drift < -RG_DRIFT_MAX))
        rgi_drifted(me);
}

/* ---- the lists of small blocks; these functions count no bytes ------------------------ */

/* Returns the size class of a small block; 0 is for headers. If `bytes` is 0 or too large for a
 * small block, the result is greater than the last class's number. */
static inline size_t rgi_small_class(size_t bytes, rg_class cls) {
    return cls == RG_MEM_HEADER ? 0 : (bytes - 1) / 64 + 1;
}

/* Removes the first block from the list of size class c, and returns it. Requires that the list
 * isn't empty. */
static inline void *rgi_take(rg_thread *me, size_t c) {
    rg_free_block *b = me->small[c].first;
    me->small[c].first = b->next;
    me->small[c].count--;
    return b;
}

/* Returns whether c is a small size class whose list isn't full. */
static inline bool rgi_has_room(const rg_thread *me, size_t c) {
    return c < RG_SMALL_CLASSES && me->small[c].count < me->small[c].limit;
}

static inline void rgi_put_back(rg_thread *me, void *block, size_t c) {
    rg_free_block *b = block;
    b->next = me->small[c].first;
    me->small[c].first = b;
    me->small[c].count++;
}

/* Puts a released header into the ring of headers that aren't reused yet. If the program uses the
 * tensor after its release, the header there is still marked as released, so the use is noticed. If
 * the ring is full, removes and returns its oldest header; otherwise returns NULL. */
static inline void *rgi_put_to_rest(rg_thread *me, void *header) {
    void **place = &me->resting[me->rests++ % RG_RESTING];
    void *rested = *place;
    *place = header;
    return rested;
}

/* ---- the most common case inline ------------------------------------------------------------- */

static inline void *rgi_alloc_fast(size_t bytes, rg_class cls) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, cls);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first || me->watched))
        return rgi_alloc(bytes, cls);
    void *b = rgi_take(me, c);
    rgi_count_bytes(me, cls, true, (int64_t)(bytes + 63) / 64 * 64, 0);
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
    rgi_count_bytes(me, cls, false, (int64_t)((bytes + 63) / 64 * 64), 0);
}

/* ---- a header and a storage at once ------------------------------------------------ */

/* Returns the header that rgi_take_both would take next, and leaves it in the list. Returns NULL if
 * the list is empty, or if allocations are watched (by a test or by the loading of a file). The
 * caller may write to the header, except to its first bytes, which are an rg_free_block. */
static inline void *rgi_header_at_hand(void) {
    const rg_thread *me = &rgi_this;
    return RG_UNLIKELY(me->watched) ? NULL : me->small[0].first;
}

/* Removes the header that rgi_header_at_hand returned and a storage of `bytes` bytes from their
 * lists, and returns the storage. If there is no free storage of this size, removes nothing and
 * returns NULL. */
static inline void *rgi_take_both(size_t header_bytes, size_t bytes) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, RG_MEM_STORAGE);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first))
        return NULL;
    rgi_take(me, 0);
    void *storage = rgi_take(me, c);
    rgi_count_to(&me->bytes[RG_MEM_HEADER], (int64_t)header_bytes);
    rgi_count_bytes(me, RG_MEM_STORAGE, true, (int64_t)c * 64, (int64_t)header_bytes);
    return storage;
}

/* Does the work of rgi_free_both if the thread's list for the header or the storage is full. */
void rgi_free_both_slowly(void *header, size_t header_bytes, void *storage, size_t bytes);

/* Frees a header and, unless `storage` is NULL, a storage. Calls another function only as its last
 * act, so that the compiler needn't save registers around the call. */
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
    rgi_count_to(&me->bytes[RG_MEM_STORAGE], -(int64_t)c * 64);
    rgi_count_bytes(me, RG_MEM_HEADER, false, (int64_t)header_bytes, (int64_t)c * 64);
}
