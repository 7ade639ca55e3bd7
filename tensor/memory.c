/*
 * memory.c: the one door to malloc. Blocks come from free lists of the thread,
 * one a size class, so that a training loop asks the system for nothing once
 * it is warm. Tensor headers have a list of their own and are never unmapped:
 * a released one stays readable, and so can be named when it is used again.
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
    SLAB       = 64,                   /* headers that are made at once */
};

__thread rg_thread rg_this __attribute__((tls_model("initial-exec")));

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static rg_thread      *threads;                         /* all that run */
static rg_thread       ended;                           /* the counts of those that have ended */
static rg_free_header *batches;                         /* of headers that no thread holds */
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

static void thread_end(void *unused)
{
    (void)unused;
    rg_thread *me = &rg_this;
    rg_scope_end_root();
    if (me->stack) rg_free(me->stack, me->room * sizeof *me->stack, RG_MEM_OTHER);
    if (me->marks) rg_free(me->marks, me->marks_room * sizeof *me->marks, RG_MEM_OTHER);
    me->stack = NULL, me->marks = NULL, me->room = me->marks_room = 0;
    rg_memory_trim();

    hand_over(me->headers, me->header_count);
    hand_over(me->spare_headers, RG_HEADER_BATCH);
    atomic_fetch_add_explicit(&flushed, count_of(&me->drift), memory_order_relaxed);

    pthread_mutex_lock(&threads_lock);
    fold_counts(&ended, me);
    *me->link = me->next;
    if (me->next) me->next->link = me->link;
    pthread_mutex_unlock(&threads_lock);
    memset(me, 0, sizeof *me);
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

void rg_thread_start(void)
{
    rg_thread *me = &rg_this;
    if (me->ready) return;
    pthread_once(&exit_once, first_thread);
    me->ready = true;
    me->pooled = !bypass;
    pthread_setspecific(exit_key, me);
    pthread_mutex_lock(&threads_lock);
    me->next = threads;
    me->link = &threads;
    if (threads) threads->link = &me->next;
    threads = me;
    pthread_mutex_unlock(&threads_lock);
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
        char *slab = system_alloc(SLAB * size);
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
    rg_thread *me = &rg_this;
    if (RG_UNLIKELY(!me->ready)) rg_thread_start();
    void *p = NULL;
    size_t size = bytes;
    if (RG_UNLIKELY(me->fail_at && --me->fail_at == 0)) {
        /* as if the system had refused */
    } else if (cls == RG_MEM_HEADER) {
        p = header_alloc(bytes);
    } else if (bytes < (size_t)1 << 39) {
        int c = class_of(bytes ? bytes : 1, &size);
        if (RG_LIKELY(me->free[c] != NULL)) {
            p = me->free[c];
            me->free[c] = me->free[c]->next;
            me->cached -= (int64_t)size;
        } else {
            p = system_alloc(bypass ? bytes : size);
        }
    }
    if (RG_UNLIKELY(!p)) return rg_fail(RG_OUT_OF_MEMORY, NULL, "out of memory: could not allocate %zu bytes", bytes);
    rg_count_bytes(me, cls, (long)size);
    return p;
}

void rg_free(void *block, size_t bytes, rg_class cls)
{
    rg_thread *me = &rg_this;
    if (!block) return;
    if (RG_UNLIKELY(!me->ready)) rg_thread_start();
    size_t size = bytes;
    if (cls == RG_MEM_HEADER) {
        header_free(block);
    } else {
        int c = class_of(bytes ? bytes : 1, &size);
        if (RG_UNLIKELY(bypass || me->cached + (int64_t)size > RG_CACHE_MAX)) {
            free(block);
        } else {
            rg_free_block *b = block;
            b->next = me->free[c];
            me->free[c] = b;
            me->cached += (int64_t)size;
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
    rg_thread *me = &rg_this;
    for (int c = 0; c < RG_POOL_CLASSES; c++)
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

void rg_memory_fail_at(int64_t n) { rg_thread_start(); rg_this.fail_at = n; }
