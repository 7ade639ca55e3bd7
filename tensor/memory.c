/*
 * memory.c: the one door to malloc. Blocks come from free lists of the thread,
 * one a size class, so that a training loop asks the system for nothing once
 * it is warm. Tensor headers have a list of their own and are never unmapped:
 * a released one stays readable, and so can be named when it is used again.
 *
 * With REGARD_POOL=0, and under AddressSanitizer, every block is malloc's and
 * free's own; so are they in a debug build, where headers aren't reused either.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    SMALL_MAX  = 4096,                 /* up to here a class holds 64 bytes more than the one before */
    HUGE_MIN   = 4 << 20,              /* from here a block is aligned to, and asks for, huge pages */
    SLAB       = 64                    /* headers that are made at once */
};
static const int64_t CACHE_MAX = (int64_t)1 << 30;      /* bytes that a thread's free lists hold on to */

__thread rg_thread rg_this __attribute__((tls_model("initial-exec")));

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static rg_thread      *threads;                         /* all that run */
static rg_thread       ended;                           /* the sums and headers of those that have ended */
static pthread_key_t   exit_key;
static pthread_once_t  exit_once = PTHREAD_ONCE_INIT;
static bool            bypass;

/* ---- threads ------------------------------------------------------------------ */

static void add_count(atomic_long *to, long n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n, memory_order_relaxed);
}

static long count_of(const atomic_long *c) { return atomic_load_explicit(c, memory_order_relaxed); }

static void fold_counts(rg_thread *to, const rg_thread *from)
{
    for (int i = 0; i <= RG_MEM_OTHER; i++) add_count(&to->bytes[i], count_of(&from->bytes[i]));
    add_count(&to->now, count_of(&from->now));
    add_count(&to->peak, count_of(&from->peak));
    add_count(&to->live, count_of(&from->live));
    add_count(&to->system_calls, count_of(&from->system_calls));
}

static void thread_end(void *unused)
{
    (void)unused;
    rg_thread *me = &rg_this;
    rg_scope_end_root();
    if (me->stack) rg_free(me->stack, me->room * sizeof *me->stack, RG_MEM_OTHER);
    if (me->marks) rg_free(me->marks, me->marks_room * sizeof *me->marks, RG_MEM_OTHER);
    me->stack = NULL, me->marks = NULL, me->room = me->marks_room = 0;
    rg_memory_trim();

    pthread_mutex_lock(&threads_lock);
    while (me->headers) {
        rg_free_block *b = me->headers;
        me->headers = b->next;
        b->next = ended.headers;
        ended.headers = b;
    }
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

static void first_thread(void)
{
    const char *pool = getenv("REGARD_POOL");
    bypass = pool && strcmp(pool, "0") == 0;
#if defined(__SANITIZE_ADDRESS__) || defined(RG_DEBUG)
    bypass = true;
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    bypass = true;
#endif
#endif
    pthread_key_create(&exit_key, thread_end);
}

void rg_thread_start(void)
{
    rg_thread *me = &rg_this;
    if (me->ready) return;
    pthread_once(&exit_once, first_thread);
    me->ready = true;
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
    add_count(&rg_this.system_calls, 1);
    if (posix_memalign(&p, align, bytes)) return NULL;
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

static void count_bytes(rg_class cls, long bytes)
{
    rg_thread *me = &rg_this;
    add_count(&me->bytes[cls], bytes);
    long now = count_of(&me->now) + bytes;
    atomic_store_explicit(&me->now, now, memory_order_relaxed);
    if (now > count_of(&me->peak)) atomic_store_explicit(&me->peak, now, memory_order_relaxed);
}

/* ---- headers ---------------------------------------------------------------------- */

static rg_free_block *headers_more(size_t size)
{
    pthread_mutex_lock(&threads_lock);
    rg_free_block *b = ended.headers;
    ended.headers = NULL;
    pthread_mutex_unlock(&threads_lock);
    if (b) return b;

    char *slab = system_alloc(SLAB * size);
    if (!slab) return NULL;
    for (int i = SLAB - 1; i >= 0; i--) {
        rg_free_block *h = (rg_free_block *)(slab + (size_t)i * size);
        h->next = b;
        b = h;
    }
    return b;
}

static void *header_alloc(size_t bytes)
{
    if (RG_UNLIKELY(bypass)) return system_alloc(bytes);
    if (RG_UNLIKELY(!rg_this.headers)) rg_this.headers = headers_more((bytes + 63) / 64 * 64);
    rg_free_block *b = rg_this.headers;
    if (b) rg_this.headers = b->next;
    return b;
}

static void header_free(void *block)
{
    rg_free_block *b = block, **list = &rg_this.headers;
    bool shared = RG_UNLIKELY(bypass);                  /* a graveyard: nothing takes from it */
    if (shared) pthread_mutex_lock(&threads_lock), list = &ended.headers;
    b->next = *list;
    *list = b;
    if (shared) pthread_mutex_unlock(&threads_lock);
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
            p = system_alloc(bypass ? (bytes + 63) / 64 * 64 : size);
            if (!p && me->cached) rg_memory_trim(), p = system_alloc(size);
        }
    }
    if (RG_UNLIKELY(!p)) return rg_fail(RG_OUT_OF_MEMORY, NULL, "out of memory: could not allocate %zu bytes", bytes);
    count_bytes(cls, (long)size);
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
        if (RG_UNLIKELY(bypass || me->cached + (int64_t)size > CACHE_MAX)) {
            free(block);
        } else {
            rg_free_block *b = block;
            b->next = me->free[c];
            me->free[c] = b;
            me->cached += (int64_t)size;
        }
    }
    count_bytes(cls, -(long)size);
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

static rg_thread all_counts(void)
{
    rg_thread sum = { 0 };
    rg_thread_start();
    pthread_mutex_lock(&threads_lock);
    fold_counts(&sum, &ended);
    for (rg_thread *t = threads; t; t = t->next) fold_counts(&sum, t);
    pthread_mutex_unlock(&threads_lock);
    return sum;
}

rg_memory rg_memory_stats(void)
{
    rg_thread sum = all_counts();
    return (rg_memory){
        .now = sum.now, .peak = sum.peak, .headers = sum.bytes[RG_MEM_HEADER],
        .storages = sum.bytes[RG_MEM_STORAGE], .nodes = sum.bytes[RG_MEM_NODE],
        .other = sum.bytes[RG_MEM_OTHER], .system_calls = sum.system_calls,
    };
}

int64_t rg_live_tensors(void)
{
    rg_thread sum = all_counts();
    return count_of(&sum.live);
}

void rg_memory_reset_peak(void)
{
    rg_thread_start();
    pthread_mutex_lock(&threads_lock);
    ended.peak = ended.now;
    for (rg_thread *t = threads; t; t = t->next) t->peak = count_of(&t->now);
    pthread_mutex_unlock(&threads_lock);
}

void rg_memory_fail_at(int64_t n) { rg_thread_start(); rg_this.fail_at = n; }
