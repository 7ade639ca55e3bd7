/* test_memory.c: the pool reuses blocks, counts them, refuses what is absurd, and gives back what
 * an ended thread had. */
#include "tests/test.h"
#include "tensor/memory.h"
#include "tensor/scope.h"

#include <pthread.h>

/* Makes blocks of many sizes, and named and kept tensors, too. */
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
    rg_zeros(1); /* The scope has its stack now. */
    rg_memory a = rg_memory_stats();
    int64_t live = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *t = rg_zeros(1000);
        rg_memory b = rg_memory_stats();
        ck_assert_int_eq(rg_live_tensors(), live + 1);
        /* The pool counts pieces of 64 bytes. */
        ck_assert_int_eq(b.headers - a.headers, (sizeof(rg_tensor) + 63) / 64 * 64);
        /* The data take 4000 bytes, and the storage's header 64. */
        ck_assert_int_eq(b.storages - a.storages, 4096);
        ck_assert_int_eq(b.nodes - a.nodes, 0);
        rg_set_name(t, "x");
        rg_memory c = rg_memory_stats();
        ck_assert_int_eq(c.other - b.other, 64);
        ck_assert_int_eq(c.now, c.headers + c.storages + c.nodes + c.other);
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

START_TEST(test_absurd_requests) {
    rg_memory before = rg_memory_stats();
    for (size_t bytes = (size_t)1 << 45; bytes; bytes *= 2) {
        ck_assert_ptr_null(rgi_alloc(bytes, RG_MEM_OTHER));
        ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
    }
    ck_assert_ptr_null(rgi_alloc(SIZE_MAX, RG_MEM_STORAGE));
    ck_assert_str_eq(rg_error(), "out of memory: could not allocate 18446744073709551615 bytes");
    ck_assert_int_eq(rg_memory_stats().now, before.now);
}
END_TEST

/* The short way and the long way are one allocator: a block may come by one and go by the other. */
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

/* The first request fails, then the second, and so on, and each time the call fails cleanly. */
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
    /* Small blocks and headers were handed on, so that only large ones are new. */
    ck_assert_int_le(rest, 4 * 3);
}
END_TEST

static rg_tensor *made[3000];
static void *make_for_others(void *size) {
    for (int i = 0; i < 3000; i++)
        made[i] = rg_keep(rg_zeros(*(int64_t *)size));
    return NULL;
}

/* One thread makes tensors, and another releases them: the free headers find their way back, and
 * the peak is true. */
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
    /* The main thread's own stack may have grown. */
    ck_assert_int_le(after.now, before.now + 65536);
    ck_assert_int_lt(after.peak,
                     before.now + 3000 * (512 + (int64_t)sizeof(rg_tensor)) + (1 << 20));
    if (rgi_pool_bypassed())
        return;
    /* Storages were asked for, and no headers. */
    ck_assert_int_le(after.system_calls - calls, 27 * 3000 + 27 * 20);
}
END_TEST

static rg_tensor *shared;
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
        return; /* The library has started already. */
    setenv("REGARD_POOL", "0", 1);
    ck_assert(rgi_pool_bypassed());
    rg_zeros(5);
    int64_t before = rg_memory_stats().system_calls;
    rg_drop(rg_zeros(5));
    rg_drop(rg_zeros(5));
    ck_assert_int_eq(rg_memory_stats().system_calls, before + 4);
    work();
}
END_TEST

RG_TESTS_UNGUARDED(memory, test_nothing_is_asked_for_twice, test_statistics, test_peak,
                   test_blocks_are_aligned_and_apart, test_absurd_requests, test_short_way,
                   test_grow, test_each_request_fails, test_thread_exit,
                   test_made_here_released_there, test_threads_share, test_pool_can_be_bypassed)
