/* test_memory.c: the pool reuses blocks, counts them, refuses absurd requests, and takes back the
 * blocks of a thread that ends. */
#include "tests/sanitized.h"
#include "tests/test.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Allocates blocks of many sizes, and makes tensors, some of which have names or are kept. */
static void work(void) {
    RG_SCOPE();
    for (int64_t n = 1; n < 100000; n *= 3) {
        rg_tensor *t = rg_set_name(rg_zeros(n), "name");
        rg_drop(rg_keep(rg_ones_like(t)));
        rg_allclose(t, rg_full_like(t, 1.5), 1, 1);
        RG_FOR (int i = 0; i < 3; i++)
            rg_escape(rg_arange(n));
    }
}

START_TEST(test_nothing_is_asked_for_twice) {
    if (rgi_pool_bypassed())
        return;
    for (int i = 0; i < 3; i++)
        work();
    int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < 100; i++)
        work();
    ck_assert_int_eq(rg_memory_stats().system_calls, before);
    rg_memory_trim();
    work();
    ck_assert_int_gt(rg_memory_stats().system_calls, before);
}
END_TEST

START_TEST(test_statistics) {
    rg_zeros(1); /* After this, the scope has memory for its stack. */
    rg_memory a = rg_memory_stats();
    int64_t live = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *t = rg_zeros(1000);
        rg_memory b = rg_memory_stats();
        ck_assert_int_eq(rg_live_tensors(), live + 1);
        /* The pool counts multiples of 64 bytes. */
        ck_assert_int_eq(b.headers - a.headers, (sizeof(rg_tensor) + 63) / 64 * 64);
        /* The data take 4000 bytes, and the storage's header 64. */
        ck_assert_int_eq(b.storages - a.storages, 4096);
        ck_assert_int_eq(b.nodes - a.nodes, 0);
        rg_set_name(t, "x");
        rg_memory c = rg_memory_stats();
        ck_assert_int_eq(c.other - b.other, 64);
        ck_assert_int_eq(c.now, c.headers + c.storages + c.nodes + c.other);
        void *node = rgi_alloc(100, RG_MEM_NODE);
        rg_memory e = rg_memory_stats();
        ck_assert(e.nodes - c.nodes == 128 && e.now - c.now == 128);
        ck_assert_int_eq(e.now, e.headers + e.storages + e.nodes + e.other);
        rgi_free(node, 100, RG_MEM_NODE);
        ck_assert_int_ge(c.peak, c.now);
    }
    rg_memory d = rg_memory_stats();
    ck_assert_int_eq(d.storages, a.storages);
    ck_assert_int_eq(d.headers, a.headers);
    ck_assert_int_eq(rg_live_tensors(), live);
}
END_TEST

START_TEST(test_peak) {
    rg_memory_reset_peak();
    rg_memory a = rg_memory_stats();
    ck_assert_int_eq(a.peak, a.now);
    rg_drop(rg_zeros(1 << 20));
    rg_drop(rg_zeros(1 << 10));
    rg_memory b = rg_memory_stats();
    ck_assert_int_ge(b.peak, a.now + (4 << 20));
    ck_assert_int_lt(b.peak, a.now + (6 << 20));
    rg_memory_reset_peak();
    ck_assert_int_lt(rg_memory_stats().peak, a.now + (1 << 20));
}
END_TEST

START_TEST(test_blocks_are_aligned_and_apart) {
    char *block[400];
    size_t size[400];
    for (int round = 0; round < 2; round++) { /* The second round reuses blocks. */
        for (int i = 0; i < 400; i++) {
            size[i] = i < 200 ? (size_t)i * 25 : (size_t)1 << (i - 200) / 10;
            block[i] = rgi_alloc(size[i], (rg_class)(1 + i % 3));
            ck_assert(block[i] && (uintptr_t)block[i] % 64 == 0);
            memset(block[i], i, size[i]);
        }
        for (int i = 0; i < 400; i++) {
            size_t changed = 0;
            for (size_t k = 0; k < size[i]; k++)
                changed += block[i][k] != (char)i;
            ck_assert_uint_eq(changed, 0);
            rgi_free(block[i], size[i], (rg_class)(1 + i % 3));
        }
    }
    rgi_free(NULL, 10, RG_MEM_OTHER);
}
END_TEST

/* Returns the size of the block for a request: a multiple of 64 up to 4 KB, and above that the next
 * of four sizes between two powers of two. */
static size_t size_for(size_t bytes) {
    if (bytes <= 4096)
        return RG_MAX(bytes + 63, 64) / 64 * 64;
    for (size_t power = 4096;; power *= 2)
        for (size_t quarters = 5; quarters <= 8; quarters++)
            if (bytes <= power / 4 * quarters)
                return power / 4 * quarters;
}

START_TEST(test_sizes_of_blocks) {
    for (size_t power = 64; power < (size_t)1 << 24; power *= 2)
        for (int k = 0; k < 12; k++) {
            const size_t near = power + power / 4 * (size_t)(k / 3) + (size_t)(k % 3) - 1;
            const size_t bytes = power == 64 && k == 0 ? 0 : near;
            const int64_t before = rg_memory_stats().other;
            void *block = rgi_alloc(bytes, RG_MEM_OTHER);
            ck_assert_ptr_nonnull(block);
            ck_each((size_t)(rg_memory_stats().other - before) == size_for(bytes), "%zu", bytes);
            rgi_free(block, bytes, RG_MEM_OTHER);
        }
    rg_memory_trim();
    for (int c = 0; c < RG_LARGE_CLASSES; c++)
        ck_assert_ptr_null(rgi_this.large[c]);
}
END_TEST

/* The peak is exact, whether blocks are allocated and freed by rgi_alloc_fast and rgi_free_fast, or
 * by rgi_alloc and rgi_free. */
START_TEST(test_peak_of_both_ways) {
    for (int way = 0; way < 4; way++) {
        rgi_free_fast(rgi_alloc(64, RG_MEM_OTHER), 64, RG_MEM_OTHER);
        rg_memory_reset_peak();
        const int64_t before = rg_memory_stats().now;
        for (int i = 0; i < 3000; i++) {
            void *block = way & 1 ? rgi_alloc_fast(64, RG_MEM_OTHER) : rgi_alloc(64, RG_MEM_OTHER);
            if (way & 2)
                rgi_free_fast(block, 64, RG_MEM_OTHER);
            else
                rgi_free(block, 64, RG_MEM_OTHER);
        }
        ck_assert_int_eq(rg_memory_stats().peak, before + 64);
        void *block = rgi_alloc(1 << 20, RG_MEM_OTHER);
        ck_assert_int_eq(rg_memory_stats().peak, before + (1 << 20));
        rgi_free(block, 1 << 20, RG_MEM_OTHER);
    }
}
END_TEST

/* A block of 2 MB or more begins at the begin of a huge page. Smaller blocks begin anywhere. */
START_TEST(test_huge_pages) {
    enum { SMALL = 128 << 10, LARGE = 2 << 20 };
    void *small[64];
    int aligned = 0;
    if (rgi_pool_bypassed())
        return;
    rg_memory_trim();
    for (int i = 0; i < 64; i++) {
        small[i] = rgi_alloc(SMALL, RG_MEM_OTHER);
        aligned += (uintptr_t)small[i] % LARGE == 0;
    }
    for (int i = 0; i < 64; i++)
        rgi_free(small[i], SMALL, RG_MEM_OTHER);
    ck_assert_int_lt(aligned, 64);
    for (int i = 0; i < 3; i++) {
        void *huge = rgi_alloc(LARGE << i, RG_MEM_OTHER);
        ck_assert_uint_eq((uintptr_t)huge % LARGE, 0);
        rgi_free(huge, LARGE << i, RG_MEM_OTHER);
    }
    rg_memory_trim();
}
END_TEST

START_TEST(test_absurd_requests) {
    rg_memory before = rg_memory_stats();
    for (size_t bytes = (size_t)1 << 39; bytes; bytes *= 2) {
        ck_assert_ptr_null(rgi_alloc(bytes, RG_MEM_OTHER));
        ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
    }
    /* The system isn't asked for blocks of this size. */
    ck_assert_int_eq(rg_memory_stats().system_calls, before.system_calls);
    ck_assert_ptr_null(rgi_alloc(SIZE_MAX, RG_MEM_STORAGE));
    ck_assert_str_eq(rg_error(), "out of memory: could not allocate 18446744073709551615 bytes");
    ck_assert_int_eq(rg_memory_stats().now, before.now);
}
END_TEST

/* rgi_alloc_fast and rgi_alloc are one allocator: a block from one may be freed by the other's
 * function. */
START_TEST(test_short_way) {
    static const size_t size[] = { 0, 1, 63, 64, 65, 4095, 4096, 4097, 100000 };
    rg_memory before = rg_memory_stats();
    for (int round = 0; round < 16; round++)
        for (int i = 0; i < RG_COUNT(size); i++) {
            void *p = round & 1 ? rgi_alloc_fast(size[i], RG_MEM_NODE)
                                : rgi_alloc(size[i], RG_MEM_NODE);
            ck_assert_int_gt(rg_memory_stats().nodes, before.nodes);
            memset(p, round, size[i]);
            if (round & 2)
                rgi_free_fast(p, size[i], RG_MEM_NODE);
            else
                rgi_free(p, size[i], RG_MEM_NODE);
            ck_assert_int_eq(rg_memory_stats().nodes, before.nodes);
        }
    for (size_t bytes = SIZE_MAX; bytes > SIZE_MAX - 200; bytes--)
        ck_assert_ptr_null(rgi_alloc_fast(bytes, RG_MEM_NODE));
    /* The fast function must not change fail_at, by which tests deny requests. */
    ck_assert_int_eq(rgi_this.fail_at, 0);
}
END_TEST

START_TEST(test_grow) {
    int *list = NULL;
    size_t room = 0;
    for (size_t n = 1; n <= 1000; n++) {
        ck_assert(rgi_grow((void **)&list, &room, n, sizeof *list));
        list[n - 1] = (int)n;
    }
    int *was = list;
    size_t had = room;
    ck_assert(!rgi_grow((void **)&list, &room, SIZE_MAX / 2, sizeof *list));
    ck_assert(!rgi_grow((void **)&list, &room, SIZE_MAX, 1));
    rg_memory_fail_at(1);
    ck_assert(!rgi_grow((void **)&list, &room, room + 1, sizeof *list));
    rg_memory_fail_at(1);
    ck_assert(rgi_grow((void **)&list, &room, room, sizeof *list)); /* This needs no memory. */
    rg_memory_fail_at(0);
    ck_assert(list == was && room == had);
    for (int n = 1; n <= 1000; n++)
        ck_assert_int_eq(list[n - 1], n);
    rgi_free(list, room * sizeof *list, RG_MEM_OTHER);
}
END_TEST

static rg_tensor *make_all(rg_tensor *x) {
    RG_SCOPE();
    rg_tensor *t = rg_full_like(rg_zeros_like(rg_ones_like(rg_empty_like(x))), 2);
    t = rg_scalar(
        rg_full(RG_DIMS(), rg_arange_step(0, 3.5, 5) && t ? rg_scalar_dtype(2, RG_INT64) : NULL));
    rg_tensor *l[] = {
        rg_linspace(0, 1, 4, RG_FLOAT32), rg_logspace(0, 1, 4, 10, RG_FLOAT64), rg_eye(2, 3),
        rg_from(((int[]){ 1, 2 }), 2),    rg_set_name(rg_arange(4), "four"),    t
    };
    for (int i = 0; i < RG_COUNT(l); i++)
        if (!l[i])
            return NULL;
    return rg_error_code() == RG_OK ? rg_escape(t) : NULL;
}

/* Denies the first request, then the second, and so on. Each time the call must fail and leave
 * nothing behind. */
START_TEST(test_each_request_fails) {
    rg_tensor *x = rg_ones(3, 4);
    work();
    int64_t live = rg_live_tensors(), now = rg_memory_stats().now, failures = 0;
    for (int64_t n = 1;; n++, failures++) {
        RG_SCOPE();
        rg_error_clear();
        rg_memory_fail_at(n);
        bool done = make_all(x);
        rg_memory_fail_at(0);
        if (done)
            break;
        ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
        ck_assert_int_eq(rg_live_tensors(), live);
        ck_assert_int_eq(rg_memory_stats().now, now);
        ck_assert_msg(n < 1000, "it never succeeds");
    }
    ck_assert_int_gt(failures, 25);
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(rg_memory_stats().now, now);
}
END_TEST

static void *leaves_much_behind(void *unused) {
    rg_scope_begin();
    for (int i = 0; i < 1000; i++)
        rg_set_name(rg_zeros(i), "left");
    rg_scope_begin();
    rg_ones(1 << 21);
    return unused;
}

START_TEST(test_thread_exit) {
    work();
    rg_memory before = rg_memory_stats();
    int64_t live = rg_live_tensors(), calls = 0;
    for (int round = 0; round < 5; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, leaves_much_behind, NULL);
        pthread_join(thread, NULL);
        rg_memory after = rg_memory_stats();
        ck_assert_int_eq(rg_live_tensors(), live);
        ck_assert_int_eq(after.now, before.now);
        if (round == 0)
            calls = after.system_calls - before.system_calls;
    }
    if (rgi_pool_bypassed())
        return;
    int64_t rest = rg_memory_stats().system_calls - before.system_calls - calls;
    ck_assert_int_gt(calls, 3);
    /* Small blocks and headers of ended threads are used again, so only large blocks are new. */
    ck_assert_int_le(rest, 4 * 3);
}
END_TEST

/* Returns the bytes of the process's address space, or 0 if the system doesn't tell. */
static size_t address_space(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *keep_64_megabytes(void *unused) {
    void *block = rgi_alloc((size_t)64 << 20, RG_MEM_OTHER);
    rgi_free(block, (size_t)64 << 20, RG_MEM_OTHER);
    return unused;
}

/* When a thread ends, the large free blocks that it kept go back to the system. */
START_TEST(test_large_blocks_end_with_their_thread) {
    pthread_t thread;
    const size_t before = address_space();
    if (rgi_pool_bypassed())
        return;
    for (int i = 0; i < 16; i++) {
        pthread_create(&thread, NULL, keep_64_megabytes, NULL);
        pthread_join(thread, NULL);
    }
    ck_assert(address_space() <= before + ((size_t)512 << 20));
}
END_TEST

/* A thread that reports that it has begun, and ends when it is told to. */
typedef struct {
    pthread_t thread;
    pthread_barrier_t begun, ending;
} waiting_thread;

static void *wait_to_end(void *waiting) {
    waiting_thread *w = waiting;
    rg_drop(rg_zeros(10));
    pthread_barrier_wait(&w->begun);
    pthread_barrier_wait(&w->ending);
    return NULL;
}

/* Threads may end in any order. The counts of each are added once. */
START_TEST(test_orders_of_ending) {
    static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    work();
    const rg_memory before = rg_memory_stats();
    for (int k = 0; k < RG_COUNT(orders); k++) {
        waiting_thread w[3];
        int64_t calls = 0;
        for (int i = 0; i < 3; i++) {
            pthread_barrier_init(&w[i].begun, NULL, 2);
            pthread_barrier_init(&w[i].ending, NULL, 2);
            pthread_create(&w[i].thread, NULL, wait_to_end, &w[i]);
            pthread_barrier_wait(&w[i].begun);
        }
        calls = rg_memory_stats().system_calls;
        for (int i = 0; i < 3; i++) {
            waiting_thread *next = &w[orders[k][i]];
            pthread_barrier_wait(&next->ending);
            pthread_join(next->thread, NULL);
            pthread_barrier_destroy(&next->begun);
            pthread_barrier_destroy(&next->ending);
            ck_assert_int_eq(rg_memory_stats().system_calls, calls);
        }
        const rg_memory now = rg_memory_stats();
        ck_assert_int_eq(now.other, before.other);
        ck_assert_int_eq(now.storages, before.storages);
        ck_assert_int_eq(now.now, before.now);
    }
}
END_TEST

static rg_tensor *made[3000];
static void *make_for_others(void *size) {
    for (int i = 0; i < 3000; i++)
        made[i] = rg_keep(rg_zeros(*(int64_t *)size));
    return NULL;
}

/* One thread makes tensors, and another releases them. The free headers come back to the first
 * thread, and the peak is right. */
START_TEST(test_made_here_released_there) {
    int64_t size = 100, calls = 0;
    rg_memory_reset_peak();
    rg_memory before = rg_memory_stats();
    for (int round = 0; round < 30; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, make_for_others, &size);
        pthread_join(thread, NULL);
        for (int i = 0; i < 3000; i++)
            rg_drop(made[i]);
        if (round == 2)
            calls = rg_memory_stats().system_calls;
    }
    rg_memory after = rg_memory_stats();
    /* The main thread's stack of results may have grown. */
    ck_assert_int_le(after.now, before.now + 65536);
    ck_assert_int_lt(after.peak,
                     before.now + 3000 * (512 + (int64_t)sizeof(rg_tensor)) + (1 << 20));
    if (rgi_pool_bypassed())
        return;
    /* Storages were requested from the system, but no headers. */
    ck_assert_int_le(after.system_calls - calls, 27 * 3000 + 27 * 20);
}
END_TEST

static rg_tensor *shared;
static void *alias_for_others(void *unused) {
    for (int i = 0; i < 3000; i++)
        made[i] = rg_keep(rgi_own(rgi_alias(shared)));
    for (int i = 0; i < 20; i++)
        rg_drop(rgi_own(rgi_alias(shared)));
    return unused;
}

/* Asserts that a list of free blocks has the length that it counts, and is within its limit. */
static void check_list(size_t c) {
    const rg_free_list *list = &rgi_this.small[c];
    size_t n = 0;
    for (const rg_free_block *b = list->first; b; b = b->next)
        n++;
    ck_assert_uint_eq(n, list->count);
    ck_assert(n <= list->limit);
}

/* More headers than a list holds are allocated and freed. Some are freed by another thread than the
 * one that allocated them. A block from rgi_alloc is allocated and freed in between. No block gets
 * lost. */
START_TEST(test_no_block_gets_lost) {
    int64_t calls = 0;
    if (rgi_pool_bypassed())
        return;
    shared = rg_keep(rg_ones(10));
    for (int round = 0; round < 60; round++) {
        RG_SCOPE();
        pthread_t thread;
        for (int i = 0; i < 3000; i++) {
            rgi_own(rgi_alias(shared));
            if (i % 50 == 0)
                check_list(0);
        }
        for (int i = 0; i < 2000; i++)
            rgi_free(rgi_alloc(64, RG_MEM_OTHER), 64, RG_MEM_OTHER);
        pthread_create(&thread, NULL, alias_for_others, NULL);
        pthread_join(thread, NULL);
        for (int i = 0; i < 3000; i++) {
            rg_drop(made[i]);
            ck_each(rgi_this.small[0].count <= rgi_this.small[0].limit, "the list is too long");
        }
        check_list(0);
        check_list(1);
        if (round == 20)
            calls = rg_memory_stats().system_calls;
    }
    ck_assert_int_eq(rg_memory_stats().system_calls, calls);
    rg_drop(shared);
}
END_TEST

static void *release_20_headers(void *unused) {
    for (int i = 0; i < 20; i++)
        rg_drop(rgi_own(rgi_alias(shared)));
    return unused;
}

/* When a thread ends, the free headers that it keeps aren't lost. */
START_TEST(test_no_header_gets_lost) {
    int64_t calls = 0;
    if (rgi_pool_bypassed() || rg_slow())
        return;
    shared = rg_keep(rg_ones(10));
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, release_20_headers, NULL);
        pthread_join(thread, NULL);
        if (i == 10)
            calls = rg_memory_stats().system_calls;
    }
    ck_assert_int_eq(rg_memory_stats().system_calls, calls);
    rg_drop(shared);
}
END_TEST

/* Allocates and frees n blocks. Returns the number of requests to the system. */
static int64_t calls_for(int n, size_t bytes) {
    void *block[200];
    const int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < n; i++)
        block[i] = rgi_alloc(bytes, RG_MEM_OTHER);
    for (int i = 0; i < n; i++)
        rgi_free(block[i], bytes, RG_MEM_OTHER);
    return rg_memory_stats().system_calls - before;
}

static void *ask_for_much(void *calls) {
    *(int64_t *)calls = calls_for(200, 256);
    return NULL;
}

static void *ask_for_the_rest(void *calls) {
    *(int64_t *)calls = calls_for(3, 4096);
    return NULL;
}

/* Leaves 9 KB of the thread's first chunk, which are too few for 64 headers, so a second chunk is
 * taken. Of the five blocks of 4 KB at the end, two come from those 9 KB, and three are free
 * blocks that the previous thread left. */
static void *ask_for_two_chunks(void *calls) {
    void *block[48];
    const int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < 48; i++) {
        if (i == 14)
            rg_drop(rgi_own(rgi_alias(shared)));
        block[i] = rgi_alloc(i < 43 ? 4032 : 4096, RG_MEM_OTHER);
    }
    *(int64_t *)calls = rg_memory_stats().system_calls - before;
    for (int i = 0; i < 48; i++)
        rgi_free(block[i], i < 43 ? 4032 : 4096, RG_MEM_OTHER);
    return NULL;
}

static void *ask_for_20_megabytes(void *calls) {
    static void *block[5120];
    const int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < 5120; i++)
        block[i] = rgi_alloc(4096, RG_MEM_OTHER);
    *(int64_t *)calls = rg_memory_stats().system_calls - before;
    ck_assert_int_le((int64_t)rgi_this.chunk, 4 << 20);
    for (int i = 0; i < 5120; i++)
        rgi_free(block[i], 4096, RG_MEM_OTHER);
    return NULL;
}

static int64_t calls_of_thread(void *(*f)(void *)) {
    int64_t calls = -1;
    pthread_t thread;
    pthread_create(&thread, NULL, f, &calls);
    pthread_join(thread, NULL);
    return calls;
}

/* A thread's first chunk has 64 KB. Each further chunk has twice the size of the chunk before it,
 * up to 4 MB. The rest of a chunk is cut into blocks, also when the thread ends. */
START_TEST(test_chunks) {
    if (rgi_pool_bypassed())
        return;
    for (uint32_t c = 1; c < RG_SMALL_CLASSES; c++)
        ck_assert_uint_eq(rgi_this.small[c].limit, RG_SMALL_BATCH / c);
    ck_assert_uint_eq(rgi_this.small[0].limit, RG_HEADER_BATCH);
    shared = rg_keep(rg_ones(10));
    ck_assert_int_le(calls_of_thread(ask_for_much), 1);
    ck_assert_int_eq(calls_of_thread(ask_for_the_rest), 0);
    ck_assert_int_le(calls_of_thread(ask_for_two_chunks), 2);
    ck_assert_int_le(calls_of_thread(ask_for_20_megabytes), 11);
    rg_drop(shared);
}
END_TEST

static void *take_16_megabytes(void *unused) {
    rg_drop(rg_zeros((4 << 20) - 16)); /* The storage's header takes 64 bytes. */
    return unused;
}

/* The peak is the largest sum over all threads at one time. It includes threads that have ended
 * since. */
START_TEST(test_peak_of_threads) {
    pthread_t thread;
    rg_drop(rg_zeros(1)); /* After this, the scope has memory for its stack. */
    rg_memory_reset_peak();
    rg_memory a = rg_memory_stats();
    for (int held = 0; held < 2; held++) {
        rg_tensor *t = held ? rg_zeros((4 << 20) - 16) : NULL;
        pthread_create(&thread, NULL, take_16_megabytes, NULL);
        pthread_join(thread, NULL);
        rg_drop(t);
        rg_memory b = rg_memory_stats();
        ck_assert_int_eq(b.now, a.now);
        ck_assert_int_ge(b.peak, a.now + ((held + 1) << 24));
        ck_assert_int_lt(b.peak, a.now + ((held + 1) << 24) + (2 << 20));
    }
    rg_memory_reset_peak();
    ck_assert_int_lt(rg_memory_stats().peak, a.now + (1 << 20));
}
END_TEST

/* ---- the system's limits ------------------------------------------------------------- */

static struct rlimit unlimited;

/* Lets the process allocate at most `more` further bytes. Returns false if such a limit isn't
 * possible. */
static bool limit_memory(size_t more) {
    const size_t now = address_space();
    if (!now || rgi_pool_bypassed() || rg_slow() || getrlimit(RLIMIT_AS, &unlimited) != 0)
        return false;
    struct rlimit limit = unlimited;
    limit.rlim_cur = now + more;
    return setrlimit(RLIMIT_AS, &limit) == 0;
}

static void unlimit_memory(void) { ck_assert_int_eq(setrlimit(RLIMIT_AS, &unlimited), 0); }

/* Allocates three blocks of half a gigabyte, writes nothing to them, and frees them. Returns the
 * number of requests to the system, or -1 if it had no room. */
static int64_t take_large_blocks(void) {
    void *block[3];
    bool all = true;
    const size_t bytes = (size_t)512 << 20;
    const int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < 3; i++) {
        block[i] = rgi_alloc(bytes, RG_MEM_OTHER);
        all = all && block[i];
    }
    for (int i = 0; i < 3; i++)
        if (block[i])
            rgi_free(block[i], bytes, RG_MEM_OTHER);
    rg_error_clear();
    return all ? rg_memory_stats().system_calls - before : -1;
}

/* A thread keeps up to a gigabyte of large free blocks. Further ones go back to the system at
 * once. */
START_TEST(test_large_blocks_kept) {
    const size_t before = address_space();
    if (rgi_pool_bypassed())
        return;
    rg_memory_trim();
    const int64_t first = take_large_blocks();
    if (first < 0)
        return;
    ck_assert_int_eq(first, 3);
    ck_assert_int_eq(rgi_this.cached, (int64_t)1 << 30);
    ck_assert_int_eq(take_large_blocks(), 1);
    ck_assert_int_eq(rgi_this.cached, (int64_t)1 << 30);
    ck_assert_int_eq(take_large_blocks(), 1);
    rg_memory_trim();
    ck_assert_int_eq(rgi_this.cached, 0);
    ck_assert(address_space() <= before + ((size_t)256 << 20));
}
END_TEST

/* Blocks that others have allocated are kept by a thread only in place of its own. */
enum { PASSED = 20, BLOCK = 1 << 20 };
static rg_tensor *passed[PASSED];

/* Returns a tensor that takes a block of BLOCK bytes. */
static rg_tensor *kept_block(void) {
    RG_SCOPE();
    return rg_keep(rg_zeros(BLOCK / 4 - 16));
}

static void *release_what_is_passed(void *own) {
    rg_tensor *mine[PASSED];
    for (int i = 0; i < *(int *)own; i++)
        mine[i] = kept_block();
    for (int i = 0; i < PASSED; i++)
        rg_drop(passed[i]);
    ck_assert_int_eq(rgi_this.cached / BLOCK, *(int *)own);
    for (int i = 0; i < *(int *)own; i++)
        rg_drop(mine[i]);
    ck_assert_int_eq(rgi_this.cached / BLOCK, *(int *)own);
    /* From now on, the thread keeps its own blocks. */
    for (int i = 0; i < PASSED; i++)
        mine[i] = kept_block();
    for (int i = 0; i < PASSED; i++)
        rg_drop(mine[i]);
    ck_assert_int_eq(rgi_this.cached / BLOCK, PASSED);
    return NULL;
}

START_TEST(test_a_thread_that_only_releases) {
    if (rgi_pool_bypassed())
        return;
    for (int own = 0; own <= 4; own += 4) {
        pthread_t thread;
        for (int i = 0; i < PASSED; i++)
            passed[i] = kept_block();
        ck_assert(!pthread_create(&thread, NULL, release_what_is_passed, &own));
        pthread_join(thread, NULL);
    }
}
END_TEST

/* If the system has no memory, the free blocks that the thread keeps go back to it, and the request
 * is made again. */
START_TEST(test_what_is_kept_makes_room) {
    const size_t kept = (size_t)256 << 20, wanted = (size_t)200 << 20;
    rgi_free(rgi_alloc(kept, RG_MEM_OTHER), kept, RG_MEM_OTHER);
    if (!limit_memory((size_t)64 << 20))
        return;
    void *block = rgi_alloc(wanted, RG_MEM_OTHER);
    unlimit_memory();
    ck_ok(block);
    rgi_free(block, wanted, RG_MEM_OTHER);
    rg_memory_trim();
}
END_TEST

/* Allocates small blocks until three requests have failed. A failed request must leave the pool as
 * it was. Returns the blocks as a list. */
static void *take_all_small_blocks(void) {
    void *list = NULL;
    for (int failures = 0; failures < 3;) {
        void **block = rgi_alloc(4096, RG_MEM_OTHER);
        if (!block) {
            ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
            failures++;
            continue;
        }
        memset(block, 0, 4096);
        *block = list;
        list = block;
    }
    return list;
}

/* Begins scopes until there is no memory for one more. The failed call must change nothing. */
static void begin_all_scopes(void) {
    size_t was = SIZE_MAX;
    rg_error_clear();
    while (rgi_this.scopes != was) {
        was = rgi_this.scopes;
        rg_scope_begin();
        ck_each(was < 100000000, "there is no end of scopes");
    }
    ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
    ck_assert_uint_eq(rg_scope_begin(), was);
    rg_scope_end(was);
    RG_FOR (int i = 0; i < 3; i++)
        ck_assert_uint_eq(rgi_this.scopes, was);
    ck_assert_uint_eq(rgi_this.scopes, was);
}

START_TEST(test_no_small_block_is_left) {
    void *heap[8], *last;
    const int64_t now = rg_memory_stats().now;
    const size_t mark = rg_scope_begin();
    /* malloc keeps a part of these blocks when they are freed. The parts are too small for a
     * chunk. */
    for (int i = 0; i < 8; i++)
        heap[i] = malloc(100000);
    last = malloc(10);
    for (int i = 0; i < 8; i++)
        free(heap[i]);
    if (limit_memory(0)) {
        void *list = take_all_small_blocks();
        begin_all_scopes();
        unlimit_memory();
        for (void *next; list; list = next) {
            next = *(void **)list;
            rgi_free(list, 4096, RG_MEM_OTHER);
        }
    }
    free(last);
    rg_scope_end(mark);
    rg_error_clear();
    ck_assert_int_le(rg_memory_stats().now, now + (1 << 20));
}
END_TEST

/* Takes all memory that malloc has, and returns it as a list. */
static void *take_all_of_malloc(void) {
    void *list = NULL;
    for (size_t bytes = (size_t)1 << 20; bytes >= 16; bytes /= 2)
        for (void **block = malloc(bytes); block; block = malloc(bytes)) {
            *block = list;
            list = block;
        }
    return list;
}

/* Notes the thread's error before and after its first call, for which there is no memory. */
static void *begin_without_memory(void *said) {
    void *list = take_all_of_malloc();
    rgi_thread_start();
    sprintf(said, "'%s', ", rg_error());
    rg_zeros(1 << 20);
    strcat(said, rg_error());
    for (void *next; list; list = next) {
        next = *(void **)list;
        free(list);
    }
    return NULL;
}

/* A thread that has no memory for its state still reports errors, and ends without leaving memory
 * behind. A second thread does the same. */
START_TEST(test_no_thread_can_begin) {
    const int64_t now = rg_memory_stats().now;
    for (int round = 0; round < 2; round++) {
        char said[200] = "";
        pthread_t thread;
        if (!limit_memory((size_t)64 << 20))
            return;
        pthread_create(&thread, NULL, begin_without_memory, said);
        pthread_join(thread, NULL);
        unlimit_memory();
        const char *must = "'', zeros: out of memory: could not allocate ";
        ck_assert_msg(strncmp(said, must, strlen(must)) == 0, "%s", said);
    }
    ck_assert_int_eq(rg_memory_stats().now, now);
}
END_TEST

static void *hammer(void *seed) {
    for (int i = 0; i < 2000; i++) {
        RG_SCOPE();
        rg_tensor *t = rgi_lend(shared), *u = rg_full_like(t, (int)(intptr_t)seed);
        if (i % 3)
            rg_drop(u);
        rg_drop(rg_keep(t));
        rg_keep(shared);
        rg_drop(shared);
        rg_zeros(i % 50, 7);
    }
    return NULL;
}
static void *watch(void *unused) {
    for (int i = 0; i < 300; i++) {
        ck_assert_int_ge(rg_live_tensors(), 0);
        ck_assert_int_ge(rg_memory_stats().system_calls, 0);
        rg_memory_reset_peak();
    }
    return unused;
}

START_TEST(test_threads_share) {
    pthread_t thread[4], watcher;
    shared = rg_keep(rg_ones(10));
    int64_t live = rg_live_tensors();
    pthread_create(&watcher, NULL, watch, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, hammer, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    pthread_join(watcher, NULL);
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(atomic_load(&shared->refs), 1);
    rg_drop(shared);
    ck_assert_int_eq(rg_live_tensors(), live - 1);
}
END_TEST

START_TEST(test_pool_can_be_bypassed) {
    const char *fork = getenv("CK_FORK");
    if (fork && strcmp(fork, "no") == 0)
        return; /* In one process with other tests, the library has decided on the pool already. */
    setenv("REGARD_POOL", "0", 1);
    ck_assert(rgi_pool_bypassed());
    rg_zeros(5);
    int64_t before = rg_memory_stats().system_calls;
    rg_drop(rg_zeros(5));
    rg_drop(rg_zeros(5));
    ck_assert_int_eq(rg_memory_stats().system_calls, before + 4);
    work();
    /* The header of a released tensor stays readable, whatever is allocated later. */
    rg_tensor *released = rg_keep(rg_zeros(5));
    rg_drop(released);
    for (int i = 0; i < 1000; i++)
        rgi_own(rgi_alias(rg_zeros(5)));
    ck_fails(rg_numel(released) >= 0, RG_RELEASED, "numel: ");
}
END_TEST

/* Returns whether the pool is bypassed in a process with this value of LD_PRELOAD. */
static bool bypassed_beside(const char *preloaded) {
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        unsetenv("REGARD_POOL");
        setenv("LD_PRELOAD", preloaded, 1);
        _exit(rgi_pool_bypassed());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The pool is bypassed if LD_PRELOAD has a library of valgrind's, and not for other libraries. A
 * build with a sanitizer, or with RG_DEBUG, always bypasses the pool. */
START_TEST(test_pool_beside_others) {
    const char *fork = getenv("CK_FORK");
    if ((fork && strcmp(fork, "no") == 0) || rg_emulated())
        return;
#if ASAN || TSAN || defined(RG_DEBUG)
    const bool always = true;
#else
    const bool always = false;
#endif
    ck_assert(bypassed_beside("") == always);
    ck_assert(bypassed_beside("/usr/lib/libjemalloc.so.2") == always);
    ck_assert(bypassed_beside("/usr/libexec/valgrind/vgpreload_core-amd64-linux.so"));
}
END_TEST

RG_TESTS_UNGUARDED(memory, test_nothing_is_asked_for_twice, test_statistics, test_peak,
                   test_blocks_are_aligned_and_apart, test_sizes_of_blocks, test_peak_of_both_ways,
                   test_huge_pages, test_absurd_requests, test_short_way, test_grow,
                   test_each_request_fails, test_thread_exit,
                   test_large_blocks_end_with_their_thread, test_orders_of_ending,
                   test_made_here_released_there, test_no_block_gets_lost, test_no_header_gets_lost,
                   test_chunks, test_peak_of_threads, test_large_blocks_kept,
                   test_a_thread_that_only_releases, test_what_is_kept_makes_room,
                   test_no_small_block_is_left, test_no_thread_can_begin, test_threads_share,
                   test_pool_can_be_bypassed, test_pool_beside_others)
