/* test_scope.c: a scope owns results. The use of a tensor after its scope is an error that names
 * the scope as the cause. */
#include "tests/test.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"
#include "tensor/thread.h"

#include <pthread.h>

static rg_tensor *three(void) { return rgi_own(rgi_new(RG_FLOAT32, 1, (int64_t[]){ 3 })); }

static rg_tensor *escaping(void) {
    RG_SCOPE();
    three();
    return rg_escape(three());
}

START_TEST(test_scope_ends) {
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        three();
        three();
        ck_assert_int_eq(rg_live_tensors(), before + 2);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_escape) {
    int64_t before = rg_live_tensors();
    RG_SCOPE();
    rg_tensor *t = escaping();
    ck_assert_int_eq(rg_numel(t), 3);
    ck_assert_int_eq(rg_live_tensors(), before + 1);
    rg_drop(t);
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_for_releases_each_iteration) {
    int64_t before = rg_live_tensors();
    RG_FOR (int i = 0; i < 10; i++) {
        three();
        if (i == 3)
            continue;
        if (i == 5)
            break;
        ck_assert_int_eq(rg_live_tensors(), before + 1);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_keep_and_drop) {
    int64_t before = rg_live_tensors();
    rg_tensor *t;
    {
        RG_SCOPE();
        t = rg_keep(three());
    }
    ck_assert_int_eq(rg_numel(t), 3);
    rg_drop(t);
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_use_after_scope_is_named) {
    rg_tensor *t;
    {
        RG_SCOPE();
        t = three();
    }
    ck_assert_int_eq(rg_numel(t), -1);
    ck_assert_int_eq(rg_error_code(), RG_RELEASED);
    ck_assert_str_eq(rg_error(), "numel: tensor released with its scope; rg_escape it to the scope "
                                 "outside, or rg_keep it, before");
}
END_TEST

START_TEST(test_nesting) {
    int64_t before = rg_live_tensors();
    RG_SCOPE();
    rg_tensor *outer = three();
    {
        RG_SCOPE();
        three();
        {
            RG_SCOPE();
            three();
            ck_assert_int_eq(rg_live_tensors(), before + 3);
        }
        ck_assert_int_eq(rg_live_tensors(), before + 2);
    }
    ck_assert_int_eq(rg_live_tensors(), before + 1);
    ck_assert_int_eq(rg_numel(outer), 3);
}
END_TEST

static void end_scope_again(size_t mark) {
    rg_scope_end(mark);
    ck_assert_int_eq(rg_error_code(), RG_RUNTIME_ERROR);
    ck_assert(strstr(rg_error(), "scope_end: no scope has the mark"));
    rg_error_clear();
}

/* The end of a scope ends the scopes inside it. Ending an inner scope again is an error without
 * effect. It isn't an error if RG_SCOPE began the inner scope. */
START_TEST(test_out_of_order) {
    int64_t before = rg_live_tensors();
    size_t a = rg_scope_begin();
    three();
    size_t b = rg_scope_begin();
    three();
    size_t c = rg_scope_begin();
    three();
    rg_scope_end(b);
    ck_assert_int_eq(rg_live_tensors(), before + 1);
    end_scope_again(c);
    end_scope_again(b);
    rg_tensor *t = three();
    end_scope_again(c);
    ck_assert_int_eq(rg_numel(t), 3);
    rg_scope_end(a);
    end_scope_again(a);
    end_scope_again(12345);
    {
        a = rg_scope_begin();
        RG_SCOPE();
        three();
        rg_scope_end(a);
    }
    ck_assert_str_eq(rg_error(), "");
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

static rg_tensor *deep(int levels) {
    RG_SCOPE();
    for (int i = 0; i < levels % 4; i++)
        three();
    rg_tensor *t = rg_escape(levels ? deep(levels - 1) : three());
    for (int i = 0; i < levels % 3; i++)
        three();
    return t;
}

START_TEST(test_escape_many_levels) {
    int64_t before = rg_live_tensors();
    RG_SCOPE();
    rg_tensor *one = deep(100), *two = deep(7);
    ck_assert_int_eq(rg_live_tensors(), before + 2);
    ck_assert(rg_numel(one) == 3 && rg_numel(two) == 3);
}
END_TEST

START_TEST(test_escape_what_is_outside) {
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *outer = three(), *kept = rg_keep(three());
        {
            RG_SCOPE();
            three();
            ck_assert_ptr_eq(rg_escape(outer), outer);
            ck_assert_ptr_eq(rg_escape(outer), outer);
            ck_assert_ptr_eq(rg_escape(kept), kept);
            ck_assert_ptr_eq(rg_escape(RG_NONE), RG_NONE);
            ck_assert_ptr_null(rg_escape(NULL));
        }
        ck_assert_int_eq(rg_live_tensors(), before + 2);
        rg_drop(kept);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
    rg_tensor *root = three(); /* No scope is outside the root. */
    ck_assert_ptr_eq(rg_escape(root), root);
    rg_drop(root);
}
END_TEST

/* Escaping a tensor twice has no further effect: the outer scope still releases it. */
START_TEST(test_escape_twice) {
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        {
            RG_SCOPE();
            rg_tensor *a = three(), *b = three();
            rg_escape(rg_escape(b));
            rg_escape(a);
        }
        ck_assert_int_eq(rg_live_tensors(), before + 2);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_keep_twice) {
    int64_t before = rg_live_tensors();
    rg_tensor *t;
    {
        RG_SCOPE();
        t = rg_keep(rg_keep(three()));
    }
    rg_drop(t);
    ck_assert_int_eq(rg_numel(t), 3);
    rg_drop(t);
    ck_assert_int_eq(rg_live_tensors(), before);
    ck_assert_str_eq(rg_error(), "");
}
END_TEST

START_TEST(test_drop_errors) {
    RG_SCOPE();
    rg_drop(NULL);
    rg_drop(RG_NONE);
    ck_assert_str_eq(rg_error(), "");
    rg_tensor *t = rgi_new(RG_FLOAT32, 0, NULL); /* No scope owns this tensor. */
    rg_drop(t);
    ck_assert_str_eq(rg_error(),
                     "drop: the tensor is neither kept nor owned by a scope of this thread");
    rgi_release(t);
    rg_error_clear();
    t = three();
    rg_drop(t);
    ck_assert_str_eq(rg_error(), "");
    rg_drop(t);
    ck_assert_int_eq(rg_error_code(), RG_RELEASED);
    ck_assert_str_eq(rg_error(), "drop: tensor released by rg_drop");
    rg_error_clear();
    ck_fails(rg_keep(RG_NONE), RG_TYPE_ERROR, "keep: expected a tensor but got RG_NONE");
}
END_TEST

/* Two references to one tensor are two entries in the scope's list. */
START_TEST(test_lending) {
    RG_SCOPE();
    rg_tensor *t = three();
    {
        RG_SCOPE();
        ck_assert_ptr_eq(rgi_lend(t), t);
        ck_assert_ptr_eq(rgi_lend(t), t);
        rg_drop(t);
    }
    ck_assert_int_eq(rg_numel(t), 3);
    {
        RG_SCOPE();
        rgi_lend(t);
        three();
        rgi_lend(t);
        for (int i = 0; i < 2; i++)
            rg_drop(t);
        ck_assert_str_eq(rg_error(), "");
        ck_assert_int_eq(atomic_load(&t->refs), 1);
    }
    ck_assert_int_eq(atomic_load(&t->refs), 1);
    ck_assert_ptr_null(rgi_lend(NULL));
    int refs = atomic_load(&RG_NONE->refs);
    ck_assert_ptr_eq(rgi_lend(RG_NONE), RG_NONE);
    ck_assert_int_eq(atomic_load(&RG_NONE->refs), refs);
}
END_TEST

/* A tensor may escape after the first tensor of its scope was dropped. */
START_TEST(test_escape_where_the_first_was_dropped) {
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        {
            RG_SCOPE();
            rg_tensor *first = three(), *second = three();
            three();
            rg_drop(first);
            ck_assert_ptr_eq(rg_escape(second), second);
        }
        ck_assert_int_eq(rg_live_tensors(), before + 1);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

/* If the body of a loop ends the loop's scope, or a scope around it, the loop goes on in the next
 * outer scope. */
START_TEST(test_a_loop_whose_scope_has_ended) {
    int64_t before = rg_live_tensors();
    for (int levels = 1; levels < 4; levels++) {
        size_t mark = rg_scope_begin();
        for (int i = 1; i < levels; i++)
            mark = rg_scope_begin();
        three();
        RG_FOR (int i = 0; i < 3; i++) {
            if (i == 0)
                rg_scope_end(levels == 1 ? rgi_this.scopes - 1 : mark);
            three();
        }
        ck_assert_uint_eq(rgi_this.scopes, levels == 1 ? mark + 1 : mark);
        /* The outer scope owns the tensors that the body made. */
        ck_assert_int_eq(rg_live_tensors(), before + (levels == 1 ? 4 : 3));
        three();
        rgi_scope_end_thread(rgi_me);
        ck_assert_int_eq(rg_live_tensors(), before);
    }
}
END_TEST

/* The requests of rg_scope_begin for its own list don't count for rg_memory_fail_at. */
START_TEST(test_denials_wait_for_others) {
    size_t mark = rg_scope_begin();
    rg_memory_fail_at(1);
    for (int i = 0; i < 10000; i++)
        rg_scope_begin();
    ck_assert_uint_eq(rgi_this.scopes, mark + 10001);
    ck_fails(rgi_scope_alloc(1), RG_OUT_OF_MEMORY, "out of memory");
    ck_assert_ptr_nonnull(rgi_scope_alloc(1));
    rg_scope_end(mark);
}
END_TEST

/* After all scopes of a thread have ended, it may begin new ones. */
START_TEST(test_all_scopes_end) {
    int64_t before = rg_live_tensors();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            rg_scope_begin();
            three();
        }
        rgi_scope_end_thread(rgi_me);
        ck_assert_uint_eq(rgi_this.scopes, 0);
        ck_assert_int_eq(rg_live_tensors(), before);
    }
}
END_TEST

static int return_from_a_loop(void) {
    RG_FOR (int i = 0; i < 10; i++) {
        three();
        RG_FOR (int j = 0; j < 10; j++) {
            three();
            if (j == 2)
                break;
            if (i == 3)
                return i;
        }
    }
    return -1;
}

START_TEST(test_return_from_a_loop) {
    int64_t before = rg_live_tensors();
    size_t scopes = rgi_this.scopes;
    ck_assert_int_eq(return_from_a_loop(), 3);
    ck_assert_int_eq(rg_live_tensors(), before);
    ck_assert_uint_eq(rgi_this.scopes, scopes);
}
END_TEST

START_TEST(test_deep_stacks) {
    int64_t before = rg_live_tensors();
    static rg_tensor *kept[200];
    size_t mark = rg_scope_begin();
    for (int i = 0; i < 200000; i++) {
        rg_scope_begin();
        three();
        if (i % 1000 == 0)
            kept[i / 1000] = rg_keep(three());
    }
    ck_assert_int_eq(rg_live_tensors(), before + 200000 + 200);
    ck_assert_uint_eq(rgi_this.scopes, mark + 200001);
    rg_scope_end(mark);
    ck_assert_int_eq(rg_live_tensors(), before + 200);
    for (int i = 0; i < 200; i++)
        rg_drop(kept[i]);
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

/* A scope that a loop's body leaves open ends with the round. */
START_TEST(test_open_scope_in_a_loop) {
    const size_t scopes = rgi_this.scopes;
    RG_FOR (int i = 0; i < 10; i++) {
        ck_assert_uint_eq(rgi_this.scopes, scopes + 1);
        rg_scope_begin();
        three();
    }
    ck_assert_uint_eq(rgi_this.scopes, scopes);
}
END_TEST

static void *keep_and_drop(void *depth) {
    for (int i = 0; i < 3; i++)
        rg_drop(rg_zeros(3));
    rg_drop(rg_keep(rg_zeros(3)));
    *(size_t *)depth = rgi_this.depth;
    return NULL;
}

/* If no scope is open, dropped tensors leave no entry in the thread's list, either. */
START_TEST(test_root_stack_is_empty_again) {
    pthread_t thread;
    size_t depth = SIZE_MAX;
    pthread_create(&thread, NULL, keep_and_drop, &depth);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(depth, 0);
}
END_TEST

START_TEST(test_stack_does_not_grow) {
    three();
    size_t depth = rgi_this.depth;
    for (int i = 0; i < 1000; i++) {
        rg_tensor *a = three(), *b = rg_keep(three()), *c = three();
        rg_drop(a);
        rg_drop(c);
        rg_drop(b);
    }
    ck_assert_uint_eq(rgi_this.depth, depth);
}
END_TEST

/* If headers are never reused, using a released tensor fails, however many tensors are made in
 * between. */
START_TEST(test_misuse_is_named_with_certainty) {
    if (!rgi_pool_bypassed())
        return;
    rg_tensor *t[100];
    {
        RG_SCOPE();
        for (int i = 0; i < 100; i++)
            t[i] = three();
    }
    RG_SCOPE();
    for (int i = 0; i < 1000; i++)
        three();
    for (int i = 0; i < 100; i++)
        ck_fails(rg_zeros_like(t[i]), RG_RELEASED,
                 "zeros_like: tensor released with its scope; rg_escape it to the scope outside");
}
END_TEST

static int64_t other(void) { return rg_memory_stats().other; }

START_TEST(test_strings) {
    rg_scope_end(rg_scope_begin()); /* After this, the list of scopes has its memory. */
    int64_t before = other();
    {
        RG_SCOPE();
        strcpy(rgi_scope_alloc(6), "hello");
        ck_assert_int_gt(other(), before);
    }
    ck_assert_int_eq(other(), before);
}
END_TEST

/* A released header isn't reused at once, so using the tensor fails, although other tensors are
 * made. */
START_TEST(test_use_after_scope_is_named_though_others_are_made) {
    rg_tensor *t;
    rg_error_clear();
    {
        RG_SCOPE();
        t = three();
    }
    for (int i = 0; i < 20; i++)
        three();
    ck_assert_int_eq(rg_numel(t), -1);
    ck_assert_int_eq(rg_error_code(), RG_RELEASED);
}
END_TEST

/* Memory from rgi_scope_alloc lives until the end of the scope in which it was requested, even if
 * scopes inside are left open. */
START_TEST(test_memory_of_scopes) {
    rg_scope_end(rg_scope_begin());
    int64_t before = other();
    size_t outer = rg_scope_begin();
    char *hello = rgi_scope_alloc(100);
    ck_assert_uint_eq((uintptr_t)hello % 64, 0);
    strcpy(hello, "hello");
    int64_t with_one = other();
    size_t inner = rg_scope_begin();
    rgi_scope_alloc(1000);
    rg_scope_begin();
    ck_assert_uint_eq((uintptr_t)rgi_scope_alloc(100000) % 64, 0);
    rg_scope_end(inner);
    ck_assert_int_eq(other(), with_one);
    RG_FOR (int i = 0; i < 10; i++) {
        rgi_scope_alloc(500);
        ck_assert_int_le(other(), with_one + 1000);
    }
    ck_assert_int_eq(other(), with_one);
    ck_assert_str_eq(hello, "hello");
    ck_fails(rgi_scope_alloc(SIZE_MAX), RG_OUT_OF_MEMORY, "out of memory");
    ck_assert_str_eq(rg_scope_copy("copied", 7), "copied");
    ck_assert(rg_scope_copy(NULL, 0) != NULL);
    ck_fails(rg_scope_copy(NULL, 1), RG_TYPE_ERROR, "scope_copy: expected memory but got NULL");
    ck_fails(rg_scope_copy("", SIZE_MAX), RG_OUT_OF_MEMORY, "out of memory");
    rg_scope_end(outer);
    ck_assert_int_eq(other(), before);
}
END_TEST

static void *leave_memory(void *unused) {
    rgi_scope_alloc(100);
    rg_scope_begin();
    rgi_scope_alloc(100000);
    return unused;
}

START_TEST(test_memory_of_a_thread) {
    pthread_t thread;
    int64_t before = other();
    pthread_create(&thread, NULL, leave_memory, NULL);
    pthread_join(thread, NULL);
    ck_assert_int_eq(other(), before);
}
END_TEST

static pthread_key_t late;
static int64_t live_late;
static void call_late(void *unused) {
    (void)unused;
    three();
    live_late = rg_live_tensors();
}

static void *end_late(void *unused) {
    pthread_setspecific(late, &late);
    three();
    return unused;
}

/* Functions that run at a thread's end, after the library's own, may still call the library. The
 * thread's state is then made and released once more. */
START_TEST(test_calls_at_the_end_of_a_thread) {
    pthread_t thread;
    rgi_thread_start();
    const int64_t live = rg_live_tensors(), bytes = rg_memory_stats().now;
    pthread_key_create(&late, call_late);
    pthread_create(&thread, NULL, end_late, NULL);
    pthread_join(thread, NULL);
    pthread_key_delete(late);
    ck_assert_int_gt(live_late, live);
    ck_assert_int_eq(rg_live_tensors(), live);
    ck_assert_int_eq(rg_memory_stats().now, bytes);
}
END_TEST

/* ---- what released a tensor ------------------------------------------------------- */

static void *make_in_thread(void *unused) {
    (void)unused;
    return rg_ones(2);
}

START_TEST(test_what_released_it) {
    rg_tensor *x;
    {
        RG_SCOPE();
        x = rg_ones(2);
    }
    ck_fails(rg_ones_like(x), RG_RELEASED,
             "ones_like: tensor released with its scope; rg_escape it to the scope outside");
    x = rg_ones(2);
    rg_drop(x);
    ck_fails(rg_ones_like(x), RG_RELEASED, "ones_like: tensor released by rg_drop");
    x = rg_keep(rg_ones(2));
    rg_drop(x);
    ck_fails(rg_ones_like(x), RG_RELEASED, "ones_like: tensor released by rg_drop");
    pthread_t thread;
    pthread_create(&thread, NULL, make_in_thread, NULL);
    pthread_join(thread, (void **)&x);
    ck_fails(rg_ones_like(x), RG_RELEASED, "ones_like: tensor released at the end of the thread");
}
END_TEST

RG_TESTS_UNGUARDED(scope, test_what_released_it,
         test_use_after_scope_is_named_though_others_are_made, test_scope_ends,
                   test_escape, test_for_releases_each_iteration, test_keep_and_drop,
                   test_use_after_scope_is_named, test_nesting, test_out_of_order,
                   test_escape_many_levels, test_escape_what_is_outside, test_escape_twice,
                   test_escape_where_the_first_was_dropped, test_a_loop_whose_scope_has_ended,
                   test_denials_wait_for_others, test_all_scopes_end, test_keep_twice,
                   test_drop_errors, test_lending, test_return_from_a_loop, test_deep_stacks,
                   test_open_scope_in_a_loop, test_root_stack_is_empty_again,
                   test_stack_does_not_grow, test_misuse_is_named_with_certainty, test_strings,
                   test_memory_of_scopes, test_memory_of_a_thread,
                   test_calls_at_the_end_of_a_thread)
