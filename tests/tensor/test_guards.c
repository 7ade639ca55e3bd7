/* test_guards.c: guarded blocks of memory begin filled with 0xa5. Writing behind the end of a block
 * is noticed when the block is freed. */
#include "tests/test.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/structs.h"

/* Writes zeros to the bytes from `from` up to `to` of a block of this size. Returns the number of
 * blocks whose guard was found overwritten. */
static long spoilt_by(size_t bytes, size_t from, size_t to) {
    char *block = rgi_alloc(bytes, RG_MEM_OTHER);
    ck_assert_ptr_nonnull(block);
    memset(block + from, 0, to - from);
    rgi_free(block, bytes, RG_MEM_OTHER);
    return atomic_exchange(&rgi_memory_spoilt, 0);
}

START_TEST(test_behind_the_end) {
    if (rgi_pool_bypassed())
        return; /* Blocks from malloc have no guard. */
    /* The blocks have 64, 1024 and 5120 bytes. For requests of 64 and 1024 there is no byte left
     * for a guard. */
    static const size_t full[] = { 64, 1024 }, others[] = { 1, 60, 63, 1000, 5000 };
    for (int i = 0; i < RG_COUNT(full); i++)
        ck_assert_int_eq(spoilt_by(full[i], 0, full[i]), 0);
    for (int i = 0; i < RG_COUNT(others); i++) {
        const size_t n = others[i], end = n < 64 ? 64 : n + 24;
        ck_assert_int_eq(spoilt_by(n, 0, n), 0);
        ck_assert_int_eq(spoilt_by(n, n, end), 1);
        ck_assert_int_eq(spoilt_by(n, n, n + 1), 1);
        ck_assert_int_eq(spoilt_by(n, end - 1, end), 1);
    }
    ck_assert_int_eq(spoilt_by(5000, 5000, 5120), 1);
}
END_TEST

/* A write behind the end of a block from rgi_alloc_fast is noticed as well. */
START_TEST(test_short_way) {
    if (rgi_pool_bypassed())
        return;
    for (int round = 0; round < 3; round++) {
        char *block = rgi_alloc_fast(60, RG_MEM_OTHER);
        ck_assert_ptr_nonnull(block);
        ck_assert_int_eq((unsigned char)block[0], 0xa5);
        block[60] = 0;
        rgi_free_fast(block, 60, RG_MEM_OTHER);
        ck_assert_int_eq(atomic_exchange(&rgi_memory_spoilt, 0), 1);
    }
}
END_TEST

/* A block that was freed is used again. */
START_TEST(test_blocks_come_back) {
    if (rgi_pool_bypassed())
        return;
    spoilt_by(4096, 0, 4096);
    const int64_t before = rg_memory_stats().system_calls;
    for (int i = 0; i < 10000; i++)
        ck_assert_int_eq(spoilt_by(4096, 0, 1), 0);
    ck_assert_int_eq(rg_memory_stats().system_calls, before);
}
END_TEST

static bool all_bytes_are(const rg_tensor *t, size_t n, int value) {
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += (unsigned char)t->data[i] == value;
    return same == n;
}

/* rg_empty writes nothing, however large the tensor is, except that bools are 0, since C requires 0
 * or 1. */
START_TEST(test_empty_is_left_alone) {
    RG_SCOPE();
    rg_tensor *small = rg_empty(100), *large = rg_empty_dims(RG_DIMS(1000, 10), RG_FLOAT64);
    ck_assert(all_bytes_are(small, 400, 0xa5));
    ck_assert(all_bytes_are(large, 80000, 0xa5));
    ck_assert(all_bytes_are(rg_empty_like(small), 400, 0xa5));
    ck_assert(all_bytes_are(rg_zeros_like(large), 80000, 0));
    ck_assert(all_bytes_are(rg_empty_dims(RG_DIMS(99), RG_BOOL), 99, 0));
}
END_TEST

RG_TESTS(guards, test_behind_the_end, test_short_way, test_blocks_come_back,
         test_empty_is_left_alone)
