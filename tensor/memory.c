/*
 * memory.c: the one door to malloc. Blocks come from free lists of the thread,
 * one a size class, so that a training loop asks the system for nothing once
 * it is warm. Small blocks are cut from large chunks, whose pages cost little,
 * and never go back; a thread that has too many hands them on. Tensor headers
 * have a list of their own: a released one stays readable, and so can be named
 * when it is used again.
 *
 * With REGARD_POOL=0, under the sanitizers, under valgrind and in a debug build
 * (RG_DEBUG) every block is malloc's and free's own, and no header is reused.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    SMALL_MAX  = 4096,                 /* up to here a class holds 64 bytes more than the one before */
    HUGE_MIN   = 4 << 20,              /* from here a block is aligned to, and asks for, huge pages */
    CHUNK_MIN  = 64 << 10,             /* chunks grow from here .. */
    CHUNK_MAX  = HUGE_MIN,             /* .. to here */
    SLAB       = 64,                   /* headers that are made at once */
};

static rg_thread nobody, fallback;                      /* fallback: of a thread for which there was no memory */
__thread rg_thread *rg_me __attribute__((tls_model("initial-exec"))) = &nobody;

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static rg_thread      *threads;                         /* all that run */
static rg_thread       ended;                           /* the counts of those that have ended */
static const int64_t CACHE_MAX = (int64_t)1 << 30;      /* bytes of large blocks that a thread holds on to */
static rg_free_header *batches;                         /* of headers that no thread holds */
static rg_free_block  *small_batches[RG_SMALL_CLASSES]; /* and of small blocks */
static atomic_long     flushed;                         /* bytes now, but for each thread's drift */
static pthread_key_t   exit_key;
static pthread_once_t  exit_once = PTHREAD_ONCE_INIT;
static bool            bypass;

/* ---- threads ------------------------------------------------------------------ */

static long count_of(const atomic_long *c) { return atomic_load_explicit(c, memory_order_relaxed); }

static void raise_peak(rg_thread *t, long total)
{
    if (total > count_of(&t->peak)) atomic_store_explicit(&t->peak, total, memory_order_relaxed);
}

static void fold_counts(rg_thread *to, const rg_thread *from)
{
    for (int i = 0; i <= RG_MEM_OTHER; i++) rg_count_to(&to->bytes[i], count_of(&from->bytes[i]));
    rg_count_to(&to->live, count_of(&from->live));
    rg_count_to(&to->system_calls, count_of(&from->system_calls));
    raise_peak(to, count_of(&from->peak));
}

static void hand_over(rg_free_header *first, int count);
static void hand_over_small(int c);
static void cut_up_rest(void);

static void thread_end(void *unused)
{
    (void)unused;
    rg_thread *me = &rg_this;
    rg_scope_end_root();
    if (me->stack) rg_free(me->stack, me->room * sizeof *me->stack, RG_MEM_OTHER);
    if (me->marks) rg_free(me->marks, me->marks_room * sizeof *me->marks, RG_MEM_OTHER);
    me->stack = NULL, me->marks = NULL, me->room = me->marks_room = 0;
    rg_memory_trim();

    cut_up_rest();
    for (int c = 1; c < RG_SMALL_CLASSES; c++) hand_over_small(c);
    hand_over(me->headers, me->header_count);
    hand_over(me->spare_headers, RG_HEADER_BATCH);
    atomic_fetch_add_explicit(&flushed, count_of(&me->drift), memory_order_relaxed);

    pthread_mutex_lock(&threads_lock);
    fold_counts(&ended, me);
    *me->link = me->next;
    if (me->next) me->next->link = me->link;
    pthread_mutex_unlock(&threads_lock);
    rg_me = &nobody;
    if (me != &fallback) free(me);
}

__attribute__((destructor)) static void main_thread_end(void)
{
    if (rg_this.ready) thread_end(NULL);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(RG_DEBUG)
#define ALWAYS_BYPASSED true
#elif defined(__has_feature)
#define ALWAYS_BYPASSED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) \
                         || __has_feature(memory_sanitizer))
#else
#define ALWAYS_BYPASSED false
#endif

static void first_thread(void)
{
    const char *pool = getenv("REGARD_POOL"), *preload = getenv("LD_PRELOAD");
    bypass = ALWAYS_BYPASSED || (pool ? strcmp(pool, "0") == 0
                                      : preload && strstr(preload, "vgpreload"));      /* valgrind's own library */
    pthread_key_create(&exit_key, thread_end);
}

rg_thread *rg_thread_start(void)
{
    if (rg_me->ready) return rg_me;
    pthread_once(&exit_once, first_thread);
    rg_thread *me = calloc(1, sizeof *me);
    if (!me) me = &fallback;
    rg_me = me;
    me->ready = true;
    me->pooled = !bypass;
    me->chunk = CHUNK_MIN;
    pthread_setspecific(exit_key, me);
    pthread_mutex_lock(&threads_lock);
    me->next = threads;
    me->link = &threads;
    if (threads) threads->link = &me->next;
    threads = me;
    pthread_mutex_unlock(&threads_lock);
    return me;
}

bool rg_pool_bypassed(void) { rg_thread_start(); return bypass; }

/* ---- the system ------------------------------------------------------------------ */

static void *system_alloc(size_t bytes)
{
    void *p = NULL;
    size_t align = bytes >= HUGE_MIN && !bypass ? (size_t)2 << 20 : 64;
    rg_count_to(&rg_this.system_calls, 1);
    if (posix_memalign(&p, align, bytes)) {
        if (!rg_this.cached) return NULL;
        rg_memory_trim();
        if (posix_memalign(&p, align, bytes)) return NULL;
    }
    if (align > 64) madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

/* Classes are 64 bytes apart up to SMALL_MAX, then four to each doubling. */
static int class_of(size_t bytes, size_t *rounded)
{
    if (bytes <= SMALL_MAX) {
        int c = (int)((bytes + 63) / 64);
        *rounded = (size_t)c * 64;
        return c;
    }
    int log = 63 - __builtin_clzl(bytes - 1);           /* 2^log <= bytes-1 < 2^(log+1) */
    size_t quarter = (size_t)1 << (log - 2);
    size_t steps = (bytes - ((size_t)1 << log) + quarter - 1) / quarter;   /* 1..4 */
    *rounded = ((size_t)1 << log) + steps * quarter;
    return RG_SMALL_CLASSES + (log - 12) * 4 + (int)steps - 1;
}

/* Blocks may be freed by another thread than their maker, so the peak needs a
 * common count; a thread adds its own to it in large steps. */
void rg_drifted(rg_thread *me)
{
    long drift = count_of(&me->drift);
    raise_peak(me, count_of(&flushed) + drift);
    if (drift > RG_DRIFT_MAX || drift < -RG_DRIFT_MAX) {
        atomic_fetch_add_explicit(&flushed, drift, memory_order_relaxed);
        atomic_store_explicit(&me->drift, 0, memory_order_relaxed);
    }
    long watermark = count_of(&me->peak) - count_of(&flushed);
    atomic_store_explicit(&me->watermark, RG_MIN(watermark, RG_DRIFT_MAX), memory_order_relaxed);
}

/* ---- small blocks -------------------------------------------------------------------- */

static void hand_over_small(int c)
{
    rg_thread *me = &rg_this;
    rg_free_block *first = me->free[c];
    if (!first) return;
    pthread_mutex_lock(&threads_lock);
    first->batch = small_batches[c];
    small_batches[c] = first;
    pthread_mutex_unlock(&threads_lock);
    me->free[c] = NULL;
    me->count[c] = 0;
}

static rg_free_block *take_batch(int c)
{
    if (!__atomic_load_n(&small_batches[c], __ATOMIC_RELAXED)) return NULL;
    pthread_mutex_lock(&threads_lock);
    rg_free_block *first = small_batches[c];
    if (first) small_batches[c] = first->batch;
    pthread_mutex_unlock(&threads_lock);
    return first;
}

/* What is left of a chunk becomes free blocks. */
static void cut_up_rest(void)
{
    rg_thread *me = &rg_this;
    while (me->fresh_bytes) {
        size_t bytes = RG_MIN(me->fresh_bytes, SMALL_MAX);
        rg_free_block *b = (rg_free_block *)me->fresh;
        b->next = me->free[bytes / 64];
        me->free[bytes / 64] = b;
        me->count[bytes / 64]++;
        me->fresh += bytes;
        me->fresh_bytes -= bytes;
    }
}

/* bytes: a multiple of 64, far smaller than a chunk */
static void *cut(size_t bytes)
{
    rg_thread *me = &rg_this;
    if (RG_UNLIKELY(me->fresh_bytes < bytes)) {
        char *chunk = system_alloc(me->chunk);
        if (!chunk) return system_alloc(bytes);
        cut_up_rest();
        me->fresh = chunk;
        me->fresh_bytes = me->chunk;
        if (me->chunk < CHUNK_MAX) me->chunk *= 2;
    }
    void *p = me->fresh;
    me->fresh += bytes;
    me->fresh_bytes -= bytes;
    return p;
}

static void *small_alloc(int c)
{
    rg_thread *me = &rg_this;
    if (!me->free[c] && (me->free[c] = take_batch(c)))
        for (rg_free_block *b = me->free[c]; b; b = b->next) me->count[c]++;
    rg_free_block *b = me->free[c];
    if (!b) return cut((size_t)c * 64);
    me->free[c] = b->next;
    me->count[c]--;
    return b;
}

/* ---- headers ----------------------------------------------------------------------
 * A thread that releases what others made hands its free headers on, a batch at
 * a time; between its own list and the common one it holds one spare batch. */

static void hand_over(rg_free_header *first, int count)
{
    if (!first) return;
    first->count = count;
    pthread_mutex_lock(&threads_lock);
    first->batch = batches;
    batches = first;
    pthread_mutex_unlock(&threads_lock);
}

static void headers_more(size_t size)
{
    rg_thread *me = &rg_this;
    rg_free_header *h = me->spare_headers;
    if (h) {
        me->spare_headers = NULL;
        h->count = RG_HEADER_BATCH;
    } else {
        pthread_mutex_lock(&threads_lock);
        h = batches;
        if (h) batches = h->batch;
        pthread_mutex_unlock(&threads_lock);
    }
    if (!h) {
        char *slab = cut(SLAB * size);
        if (!slab) return;
        for (int i = SLAB - 1; i >= 0; i--) {
            rg_free_header *next = h;
            h = (rg_free_header *)(slab + (size_t)i * size);
            h->next = next;
        }
        h->count = SLAB;
    }
    me->headers = h;
    me->header_count = h->count;
}

static void *header_alloc(size_t bytes)
{
    rg_thread *me = &rg_this;
    if (RG_UNLIKELY(bypass)) return system_alloc(bytes);
    if (RG_UNLIKELY(!me->headers)) headers_more((bytes + 63) / 64 * 64);
    rg_free_header *h = me->headers;
    if (!h) return NULL;
    me->headers = h->next;
    me->header_count--;
    return h;
}

static void header_free(rg_free_header *h)
{
    rg_thread *me = &rg_this;
    if (RG_UNLIKELY(me->header_count == RG_HEADER_BATCH)) {
        hand_over(me->spare_headers, RG_HEADER_BATCH);
        me->spare_headers = me->headers;
        me->headers = NULL;
        me->header_count = 0;
    }
    h->next = me->headers;
    me->headers = h;
    me->header_count++;
}

/* ---- blocks ----------------------------------------------------------------------- */

void *rg_alloc(size_t bytes, rg_class cls)
{
    rg_thread *me = rg_thread_get();
    void *p = NULL;
    size_t size = bytes;
    if (RG_UNLIKELY(me->fail_at && --me->fail_at == 0)) {
        /* as if the system had refused */
    } else if (cls == RG_MEM_HEADER) {
        p = header_alloc(bytes);
    } else if (bytes < (size_t)1 << 39) {
        int c = class_of(bytes ? bytes : 1, &size);
        if (RG_UNLIKELY(bypass)) {
            p = system_alloc(bytes);
        } else if (c < RG_SMALL_CLASSES) {
            p = small_alloc(c);
        } else if (me->free[c]) {
            p = me->free[c];
            me->free[c] = me->free[c]->next;
            me->cached -= (int64_t)size;
        } else {
            p = system_alloc(size);
        }
    }
    if (RG_UNLIKELY(!p)) return rg_fail(RG_OUT_OF_MEMORY, NULL, "out of memory: could not allocate %zu bytes", bytes);
    rg_count_bytes(me, cls, (long)size);
    return p;
}

void rg_free(void *block, size_t bytes, rg_class cls)
{
    rg_thread *me = rg_thread_get();
    if (!block) return;
    size_t size = bytes;
    if (cls == RG_MEM_HEADER) {
        header_free(block);
    } else {
        int c = class_of(bytes ? bytes : 1, &size);
        bool small = c < RG_SMALL_CLASSES;
        if (RG_UNLIKELY(bypass || (!small && me->cached + (int64_t)size > CACHE_MAX))) {
            free(block);
        } else {
            if (small && me->count[c]++ * (uint32_t)c >= RG_SMALL_BATCH) hand_over_small(c), me->count[c] = 1;
            rg_free_block *b = block;
            b->next = me->free[c];
            me->free[c] = b;
            if (!small) me->cached += (int64_t)size;
        }
    }
    rg_count_bytes(me, cls, -(long)size);
}

bool rg_grow(void **block, size_t *capacity, size_t want, size_t item)
{
    if (want <= *capacity) return true;
    size_t room = RG_MAX(want, *capacity * 2);
    room = RG_MAX(room, 64);
    void *p = rg_alloc(room * item, RG_MEM_OTHER);
    if (!p) return false;
    if (*block) {
        memcpy(p, *block, *capacity * item);
        rg_free(*block, *capacity * item, RG_MEM_OTHER);
    }
    *block = p;
    *capacity = room;
    return true;
}

void rg_memory_trim(void)
{
    rg_thread *me = rg_thread_get();
    for (int c = RG_SMALL_CLASSES; c < RG_POOL_CLASSES; c++)
        while (me->free[c]) {
            rg_free_block *b = me->free[c];
            me->free[c] = b->next;
            free(b);
        }
    me->cached = 0;
}

/* ---- statistics --------------------------------------------------------------------- */

static rg_memory memory_counts(int64_t *live)
{
    rg_thread sum = { 0 };
    rg_thread_start();
    pthread_mutex_lock(&threads_lock);
    fold_counts(&sum, &ended);
    for (rg_thread *t = threads; t; t = t->next) fold_counts(&sum, t);
    pthread_mutex_unlock(&threads_lock);
    rg_memory m = {
        .headers = count_of(&sum.bytes[RG_MEM_HEADER]), .storages = count_of(&sum.bytes[RG_MEM_STORAGE]),
        .nodes = count_of(&sum.bytes[RG_MEM_NODE]), .other = count_of(&sum.bytes[RG_MEM_OTHER]),
        .system_calls = count_of(&sum.system_calls),
    };
    m.now = m.headers + m.storages + m.nodes + m.other;
    m.peak = RG_MAX(m.now, count_of(&sum.peak));
    *live = count_of(&sum.live);
    return m;
}

rg_memory rg_memory_stats(void)
{
    int64_t live;
    return memory_counts(&live);
}

int64_t rg_live_tensors(void)
{
    int64_t live;
    memory_counts(&live);
    return live;
}

void rg_memory_reset_peak(void)
{
    rg_thread_start();
    pthread_mutex_lock(&threads_lock);
    ended.peak = 0;
    for (rg_thread *t = threads; t; t = t->next) {
        atomic_store_explicit(&t->peak, 0, memory_order_relaxed);
        atomic_store_explicit(&t->watermark, LONG_MIN, memory_order_relaxed);
    }
    pthread_mutex_unlock(&threads_lock);
}

void rg_memory_fail_at(int64_t n) { rg_thread_get()->fail_at = n; }
