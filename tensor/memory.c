/*
 * memory.c: memory of the library. Each thread has a free list for each size class, from which it
 * takes its blocks, so that a training loop asks the system for no memory after its first
 * iterations. Small blocks are cut from large chunks, which are on huge pages if possible, and are
 * never returned to the system. A thread that has too many free small blocks passes some on to
 * other threads. Headers of tensors have a free list of their own. A released header is marked as
 * released and isn't reused soon, so that a later use of the tensor is noticed. For the same
 * reason, the memory of the handles that a thread released last isn't reused at once.
 *
 * With REGARD_POOL=0, under the sanitizers, under valgrind and in a debug build (RG_DEBUG), malloc
 * and free are called for every block, and no header is reused. Tests can turn guards on
 * (rgi_memory_guarded): then a new block is filled with nonsense, and when a block is freed, the
 * bytes beyond its end are checked for changes.
 *
 * This file is long because all of its parts share the lists and their counters.
 */
#include "memory.h"

#include "load.h"
#include "system/system.h"
#include "threads/lock.h"
#include "messages/warning.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Sizes in bytes; HEADERS_AT_ONCE is a number of headers. */
enum {
    SMALL_MAX = 4096,     /* The size of the largest small block. The classes are 64 bytes apart. */
    CHUNK_MIN = 64 << 10, /* The size of a thread's first chunk. */
    CHUNK_MAX = 4 << 20,  /* Each chunk is twice as large as the one before, up to this size. */
    HEADERS_AT_ONCE = 64, /* The number of headers that are cut from a chunk at once. */
};

/* The greatest number of bytes that a thread keeps in large free blocks. */
static const int64_t CACHE_MAX = (int64_t)1 << 30;

/* `bypass` is set if malloc is called for every block. `threads` is the list of running threads,
 * `ended` has the sums of the counters of threads that have ended, and `batches` has free blocks
 * that belong to no thread; RG_LOCK_MEMORY guards these three. `flushed` is the common count of the
 * bytes in use. Each thread also has a `drift`: the bytes that it has counted but not yet added to
 * `flushed`. */
static bool bypass;
bool rgi_memory_guarded;
atomic_long rgi_memory_spoilt;
static rg_thread *threads;
static rg_thread ended;
static _Atomic int64_t flushed;
static rg_free_block *batches[RG_SMALL_CLASSES];

/* ---- counting -------------------------------------------------------------------- */

static int64_t count_of(const _Atomic int64_t *c) {
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void raise_peak(rg_thread *t, int64_t total) {
    if (total > count_of(&t->peak))
        atomic_store_explicit(&t->peak, total, memory_order_relaxed);
}

static void fold_counts(rg_thread *to, const rg_thread *from) {
    for (int i = 0; i <= RG_MEM_OTHER; i++)
        rgi_count_to(&to->bytes[i], count_of(&from->bytes[i]));
    rgi_count_to(&to->system_calls, count_of(&from->system_calls));
    raise_peak(to, count_of(&from->peak));
}

/* The peak needs a count that all threads share, since a block may be freed by another thread than
 * the one that allocated it. But adding to `flushed` for each block would take a locked
 * instruction. So a thread counts in its own `drift`, and adds the drift to `flushed` only when the
 * drift's absolute value exceeds RG_DRIFT_MAX. */
void rgi_drifted(rg_thread *me) {
    int64_t drift = count_of(&me->drift);
    raise_peak(me, count_of(&flushed) + drift);
    if (drift > RG_DRIFT_MAX || drift < -RG_DRIFT_MAX) {
        atomic_fetch_add_explicit(&flushed, drift, memory_order_relaxed);
        atomic_store_explicit(&me->drift, 0, memory_order_relaxed);
    }
    int64_t watermark = count_of(&me->peak) - count_of(&flushed);
    atomic_store_explicit(&me->watermark, RG_MIN(watermark, RG_DRIFT_MAX), memory_order_relaxed);
}

/* ---- memory from the system ------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(RG_DEBUG)
#define ALWAYS_BYPASSED true
#elif defined(__has_feature)
#define ALWAYS_BYPASSED                                                  \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) \
     || __has_feature(memory_sanitizer))
#else
#define ALWAYS_BYPASSED false
#endif

/* Set if REGARD_POOL has an unknown value. The thread that gives the warning clears the flag. */
static atomic_bool pool_unknown;

static void choose_bypass(void) {
    const char *pool = getenv("REGARD_POOL");
    const char *preload = getenv("LD_PRELOAD");
    bool valgrind = preload && strstr(preload, "vgpreload");
    bypass = ALWAYS_BYPASSED || (pool ? strcmp(pool, "0") == 0 : valgrind);
    atomic_init(&pool_unknown, pool && *pool && strcmp(pool, "0") && strcmp(pool, "1"));
}

/* Warns if REGARD_POOL has an unknown value. Requires that the thread's state is initialised, since
 * the program's handler of warnings may call the library. */
static void warn_of_unknown_pool(void) {
    const char *taken = bypass ? "each block is malloc's own" : "free blocks are kept";
    if (atomic_load(&pool_unknown) && atomic_exchange(&pool_unknown, false))
        rgi_warn_of_variable("REGARD_POOL", getenv("REGARD_POOL"), "0 or 1", taken);
}

bool rgi_pool_bypassed(void) {
    rgi_thread_start();
    return bypass;
}

static void *system_alloc(size_t bytes) {
    const size_t alignment = bytes >= RG_HUGE_PAGE && !bypass ? RG_HUGE_PAGE : 64;
    rgi_count_to(&rgi_this.system_calls, 1);
    void *p = rgi_system_alloc(alignment, bytes);
    if (p || !rgi_this.cached)
        return p;
    rg_memory_trim();
    return rgi_system_alloc(alignment, bytes);
}

/* Returns the size class of a block, and sets *rounded to the size of the blocks in that class.
 * Class 0 is for headers. The other classes are 64 bytes apart up to SMALL_MAX; above that there
 * are four classes for each power of two. */
static size_t class_of(size_t bytes, rg_class cls, size_t *rounded) {
    if (bytes <= SMALL_MAX) {
        size_t c = bytes ? (bytes + 63) / 64 : 1;
        *rounded = c * 64;
        return cls == RG_MEM_HEADER ? 0 : c;
    }
    int log = 63 - __builtin_clzll(bytes - 1); /* 2^log <= bytes - 1 < 2^(log + 1) */
    size_t quarter = (size_t)1 << (log - 2);
    size_t steps = (bytes - ((size_t)1 << log) + quarter - 1) / quarter; /* 1 <= steps <= 4 */
    *rounded = ((size_t)1 << log) + steps * quarter;
    return RG_SMALL_CLASSES + (size_t)(log - 12) * 4 + steps - 1;
}

/* ---- small blocks and headers -------------------------------------------------------------------
 * A thread may free more blocks of a size than it allocates, for example because other threads
 * allocated them. It passes the surplus on to the common list, a batch at a time. One spare batch
 * of each size class stays with the thread. */

static void hand_over(size_t c, rg_free_block *first) {
    if (!first)
        return;
    rgi_lock(RG_LOCK_MEMORY);
    first->batch = batches[c];
    batches[c] = first;
    rgi_unlock(RG_LOCK_MEMORY);
}

/* Makes the thread's list the new spare batch, and moves the old spare batch to the common list. */
static void retire(rg_free_list *list, size_t c) {
    hand_over(c, list->spare);
    list->spare = list->first;
    if (list->spare)
        list->spare->count = list->count;
    list->first = NULL;
    list->count = 0;
}

/* Removes and returns a batch of free blocks: the spare batch or, if there is none, one from the
 * common list. Returns NULL if there is no batch in either place. */
static rg_free_block *take_batch(rg_free_list *list, size_t c) {
    rg_free_block *first = list->spare;
    list->spare = NULL;
    if (first || !__atomic_load_n(&batches[c], __ATOMIC_RELAXED))
        return first;
    rgi_lock(RG_LOCK_MEMORY);
    first = batches[c];
    if (first)
        batches[c] = first->batch;
    rgi_unlock(RG_LOCK_MEMORY);
    return first;
}

/* Cuts the rest of the chunk into free blocks. If blocks are guarded, the rest stays unused. */
static void cut_up_rest(rg_thread *me) {
    while (me->fresh_bytes && !rgi_memory_guarded) {
        size_t bytes = RG_MIN(me->fresh_bytes, SMALL_MAX);
        rgi_put_back(me, me->fresh, bytes / 64);
        me->fresh += bytes;
        me->fresh_bytes -= bytes;
    }
}

/* Cuts a block of `bytes` bytes from the thread's chunk, or from a new chunk if the rest is too
 * small. If there is no memory for a chunk, allocates only the block. Requires that `bytes` is a
 * multiple of 64 and far smaller than a chunk. Returns NULL if memory runs out. */
static void *cut_from_chunk(rg_thread *me, size_t bytes) {
    if (RG_UNLIKELY(me->fresh_bytes < bytes)) {
        char *chunk = system_alloc(me->chunk);
        if (!chunk)
            return system_alloc(bytes);
        cut_up_rest(me);
        me->fresh = chunk;
        me->fresh_bytes = me->chunk;
        if (me->chunk < CHUNK_MAX)
            me->chunk *= 2;
    }
    void *p = me->fresh;
    me->fresh += bytes;
    me->fresh_bytes -= bytes;
    return p;
}

/* Allocate and free small blocks if blocks are guarded. In that case all free blocks are in the
 * spare batch. The inline functions of memory.h don't look into the spare batch. So they call
 * rgi_alloc and rgi_free, which write and check the guards. */
static void *take_aside(rg_thread *me, size_t c, size_t size) {
    rg_free_block **spare = &me->small[c].spare, *block = *spare;
    if (!block)
        return cut_from_chunk(me, size);
    *spare = block->next;
    return block;
}

static void put_aside(rg_thread *me, void *block, size_t c) {
    rg_free_block **spare = &me->small[c].spare, *b = block;
    b->next = *spare;
    *spare = b;
}

static void *small_alloc(rg_thread *me, size_t c, size_t size) {
    rg_free_list *list = &me->small[c];
    if (RG_UNLIKELY(rgi_memory_guarded))
        return take_aside(me, c, size);
    if (!list->first) {
        list->first = take_batch(list, c);
        list->count = list->first ? list->first->count : 0;
    }
    if (!list->first) {
        int n = c ? 1 : HEADERS_AT_ONCE;
        char *slab = cut_from_chunk(me, (size_t)n * size);
        if (!slab)
            return NULL;
        while (n-- > 0)
            rgi_put_back(me, slab + (size_t)n * size, c);
    }
    return rgi_take(me, c);
}

static void small_free(rg_thread *me, void *block, size_t c) {
    if (RG_UNLIKELY(rgi_memory_guarded)) {
        put_aside(me, block, c);
        return;
    }
    if (me->small[c].count >= me->small[c].limit)
        retire(&me->small[c], c);
    rgi_put_back(me, block, c);
}

/* ---- large blocks ------------------------------------------------------------------ */

static void *large_alloc(rg_thread *me, size_t c, size_t size) {
    rg_free_block **list = &me->large[c - RG_SMALL_CLASSES];
    rg_free_block *block = *list;
    me->taken[c - RG_SMALL_CLASSES]++;
    if (!block)
        return system_alloc(size);
    *list = block->next;
    me->cached -= (int64_t)size;
    return block;
}

/* A thread that frees what others allocate doesn't keep it: it keeps what it has taken. */
static void large_free(rg_thread *me, void *block, size_t c, size_t size) {
    rg_free_block **list = &me->large[c - RG_SMALL_CLASSES];
    int64_t *taken = &me->taken[c - RG_SMALL_CLASSES];
    rg_free_block *b = block;
    const bool keeps = *taken > 0 && me->cached + (int64_t)size <= CACHE_MAX;
    *taken -= *taken > 0;
    if (!keeps) {
        rgi_system_free(block);
        return;
    }
    b->next = *list;
    *list = b;
    me->cached += (int64_t)size;
}

void rg_memory_trim(void) {
    rg_thread *me = rgi_thread_get();
    for (int c = 0; c < RG_LARGE_CLASSES; c++)
        while (me->large[c]) {
            rg_free_block *b = me->large[c];
            me->large[c] = b->next;
            rgi_system_free(b);
        }
    me->cached = 0;
}

/* ---- guard bytes behind blocks ----------------------------------------------------- */

enum { NONSENSE = 0xA5 };

/* Checks the guard bytes, which follow the first `bytes` bytes of the block. `size` is the size of
 * the block's size class. If a guard byte was overwritten, adds 1 to rgi_memory_spoilt. */
static void look_behind(const void *block, size_t bytes, size_t size) {
    const unsigned char *behind = (const unsigned char *)block + bytes;
    const size_t n = size - bytes;
    if (n && (behind[0] != NONSENSE || memcmp(behind, behind + 1, n - 1)))
        atomic_fetch_add(&rgi_memory_spoilt, 1);
}

/* ---- requests and releases ------------------------------------------------------------------- */

/* The size in bytes of the largest handle that the ring of released handles keeps. Larger ones are
 * freed at once. */
enum { HANDLE_RESTS_MAX = 16 << 10 };

/* Requests of this size or more fail without asking the system. */
static const size_t ABSURD_BYTES = (size_t)1 << 39;

/* If a test wants a request for memory to fail (rg_memory_fail_at), counts this request. Returns
 * whether this request must fail. */
static bool fails_now(rg_thread *me) {
    if (!me->fail_at)
        return false;
    me->fail_at--;
    me->watched = me->fail_at || me->load || me->told;
    return me->fail_at == 0;
}

/* Fails with RG_OUT_OF_MEMORY, and returns NULL. */
static void *refuse_bytes(size_t bytes) {
    return rgi_fail(RG_OUT_OF_MEMORY, NULL, "out of memory: could not allocate %zu bytes", bytes);
}

/* Returns a free block of size class c, or a new one. Returns NULL if memory runs out. */
static void *find_block(rg_thread *me, size_t bytes, size_t c, size_t size) {
    if (RG_UNLIKELY(bypass))
        return system_alloc(bytes);
    return c < RG_SMALL_CLASSES ? small_alloc(me, c, size) : large_alloc(me, c, size);
}

void *rgi_alloc(size_t bytes, rg_class cls) {
    rg_thread *me = rgi_thread_get();
    const bool absurd = bytes >= ABSURD_BYTES;
    size_t size = bytes, c = absurd ? 0 : class_of(bytes, cls, &size);
    if (RG_UNLIKELY(me->watched)) {
        if (fails_now(me))
            return refuse_bytes(bytes);
        if (me->load && !rgi_load_may_take(me, size))
            return NULL;
    }
    void *block = absurd ? NULL : find_block(me, bytes, c, size);
    if (RG_UNLIKELY(!block))
        return refuse_bytes(bytes);
    if (RG_UNLIKELY(rgi_memory_guarded))
        memset(block, NONSENSE, bypass ? bytes : size);
    rgi_count_bytes(me, cls, true, (int64_t)size, 0);
    if (RG_UNLIKELY(me->told != NULL))
        me->told(block, bytes);
    return block;
}

void rgi_watch_blocks(void (*told)(void *block, size_t bytes)) {
    rg_thread *me = rgi_thread_get();
    me->told = told;
    me->watched = me->fail_at || me->load || told;
}

static void header_free(rg_thread *me, void *header) {
    void *rested = rgi_put_to_rest(me, header);
    if (rested)
        small_free(me, rested, 0);
}

void rgi_free(void *block, size_t bytes, rg_class cls) {
    rg_thread *me = rgi_thread_get();
    size_t size;
    if (!block)
        return;
    size_t c = class_of(bytes, cls, &size);
    bool is_header = cls == RG_MEM_HEADER;
    if (RG_UNLIKELY(rgi_memory_guarded && !is_header))
        look_behind(block, bytes, bypass ? bytes : size);
    /* Where the pool is bypassed, a list keeps all released headers, so that they stay readable. */
    if (RG_UNLIKELY(bypass && is_header))
        put_aside(me, block, 0);
    else if (RG_UNLIKELY(bypass))
        rgi_system_free(block);
    else if (c >= RG_SMALL_CLASSES)
        large_free(me, block, c, size);
    else if (is_header)
        header_free(me, block);
    else
        small_free(me, block, c);
    rgi_count_bytes(me, cls, false, (int64_t)size, 0);
}

/* Frees the handle in slot i of the ring of released handles, if there is one. */
static void end_rest(rg_thread *me, uint32_t i) {
    void *block = me->resting_handles[i].handle;
    size_t size, c = class_of(me->resting_handles[i].bytes, RG_MEM_OTHER, &size);
    if (block && c < RG_SMALL_CLASSES)
        small_free(me, block, c);
    else if (block)
        large_free(me, block, c, size);
    me->resting_handles[i].handle = NULL;
}

void rgi_free_handle(rg_handle *h, size_t bytes) {
    rg_thread *me = rgi_thread_get();
    h->released = true;
    if (bypass || bytes > HANDLE_RESTS_MAX) {
        rgi_free(h, bytes, RG_MEM_OTHER);
        return;
    }
    size_t size;
    class_of(bytes, RG_MEM_OTHER, &size);
    if (rgi_memory_guarded)
        look_behind(h, bytes, size);
    const uint32_t i = me->handle_rests++ % RG_RESTING_HANDLES;
    end_rest(me, i);
    me->resting_handles[i].handle = h;
    me->resting_handles[i].bytes = bytes;
    rgi_count_bytes(me, RG_MEM_OTHER, false, (int64_t)size, 0);
}

void rgi_free_both_slowly(void *header, size_t header_bytes, void *storage, size_t bytes) {
    rgi_free(storage, bytes, RG_MEM_STORAGE);
    rgi_free(header, header_bytes, RG_MEM_HEADER);
}

bool rgi_grow(void **block, size_t *capacity, size_t want, size_t item) {
    if (want <= *capacity)
        return true;
    size_t room = RG_MAX(want, *capacity * 2);
    room = RG_MAX(room, 64);
    void *p = rgi_alloc(room * item, RG_MEM_OTHER);
    if (!p)
        return false;
    if (*block) {
        memcpy(p, *block, *capacity * item);
        rgi_free(*block, *capacity * item, RG_MEM_OTHER);
    }
    *block = p;
    *capacity = room;
    return true;
}

/* ---- a thread's lists and counters ----------------------------------------------------------- */

void rgi_memory_begin_thread(rg_thread *me) {
    static bool chosen;
    rgi_lock(RG_LOCK_MEMORY);
    if (!chosen)
        choose_bypass();
    chosen = true;
    me->chunk = CHUNK_MIN;
    for (uint32_t c = 0; c < RG_SMALL_CLASSES && !bypass && !rgi_memory_guarded; c++)
        me->small[c].limit = c ? RG_SMALL_BATCH / c : RG_HEADER_BATCH;
    me->next = threads;
    me->link = &threads;
    if (threads)
        threads->link = &me->next;
    threads = me;
    rgi_unlock(RG_LOCK_MEMORY);
    warn_of_unknown_pool();
}

void rgi_memory_end_thread(rg_thread *me) {
    for (uint32_t i = 0; i < RG_RESTING_HANDLES; i++)
        end_rest(me, i);
    rg_memory_trim();
    cut_up_rest(me);
    for (int i = 0; i < RG_RESTING; i++)
        if (me->resting[i])
            rgi_put_back(me, me->resting[i], 0);
    for (size_t c = 0; c < RG_SMALL_CLASSES; c++) {
        retire(&me->small[c], c);
        hand_over(c, me->small[c].spare);
    }
    atomic_fetch_add_explicit(&flushed, count_of(&me->drift), memory_order_relaxed);

    rgi_lock(RG_LOCK_MEMORY);
    fold_counts(&ended, me);
    *me->link = me->next;
    if (me->next)
        me->next->link = me->link;
    rgi_unlock(RG_LOCK_MEMORY);
}

/* ---- statistics ------------------------------------------------------------------ */

void rgi_each_thread(void (*f)(rg_thread *t)) {
    rgi_lock(RG_LOCK_MEMORY);
    for (rg_thread *t = threads; t; t = t->next)
        f(t);
    rgi_unlock(RG_LOCK_MEMORY);
}

rg_memory rg_memory_stats(void) {
    rg_thread sum = { 0 };
    rgi_lock(RG_LOCK_MEMORY);
    fold_counts(&sum, &ended);
    for (rg_thread *t = threads; t; t = t->next)
        fold_counts(&sum, t);
    rgi_unlock(RG_LOCK_MEMORY);
    rg_memory m = {
        .headers = count_of(&sum.bytes[RG_MEM_HEADER]),
        .storages = count_of(&sum.bytes[RG_MEM_STORAGE]),
        .nodes = count_of(&sum.bytes[RG_MEM_NODE]),
        .other = count_of(&sum.bytes[RG_MEM_OTHER]),
        .system_calls = count_of(&sum.system_calls),
    };
    m.now = m.headers + m.storages + m.nodes + m.other;
    m.peak = RG_MAX(m.now, count_of(&sum.peak));
    return m;
}

void rg_memory_reset_peak(void) {
    rgi_lock(RG_LOCK_MEMORY);
    ended.peak = 0;
    for (rg_thread *t = threads; t; t = t->next) {
        atomic_store_explicit(&t->peak, 0, memory_order_relaxed);
        atomic_store_explicit(&t->watermark, INT64_MIN, memory_order_relaxed);
    }
    rgi_unlock(RG_LOCK_MEMORY);
}

void(rg_memory_fail_at)(int64_t n) {
    rg_thread *me = rgi_thread_get();
    me->fail_at = n;
    me->watched = n || me->load || me->told;
}
