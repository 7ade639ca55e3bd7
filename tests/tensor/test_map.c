/* test_map.c: a map gives for each name and each address the number that was put last. If there is
 * no memory for a key, the map becomes empty. */
#include "tests/test.h"
#include "tensor/base.h"
#include "tensor/map.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { KEYS = 300 };
static char places[KEYS];

static const char *name_of(int i) {
    static char name[32];
    snprintf(name, sizeof name, "the name %d", i);
    return name;
}

/* Puts n names and n addresses, in turn. Returns false at the first failure. */
static bool put_keys(rg_map *m, int n, int64_t first) {
    for (int i = 0; i < n; i++)
        if (!rgi_map_put_name(m, name_of(i), first + i)
            || !rgi_map_put_address(m, &places[i], first + 2 * i))
            return false;
    return true;
}

static void check_keys(const rg_map *m, int n, int64_t first) {
    ck_assert_uint_eq(rgi_map_names(m), n);
    ck_assert_uint_eq(rgi_map_addresses(m), n);
    for (int i = 0; i < KEYS; i++) {
        ck_assert_int_eq(rgi_map_name(m, name_of(i)), i < n ? first + i : -1);
        ck_assert_int_eq(rgi_map_address(m, &places[i]), i < n ? first + 2 * i : -1);
        if (i < n)
            ck_assert_str_eq(rgi_map_name_at(m, (size_t)i), name_of(i));
    }
}

START_TEST(test_keys) {
    rg_map m = { 0 };
    check_keys(&m, 0, 0);
    for (int n = 1; n <= KEYS; n *= 6) {
        ck_assert(put_keys(&m, n, 0));
        check_keys(&m, n, 0);
    }
    /* A second number for a key replaces the first. */
    ck_assert(put_keys(&m, KEYS, 1000));
    check_keys(&m, KEYS, 1000);
    rgi_map_free(&m);
    check_keys(&m, 0, 0);
}
END_TEST

static rg_map in_handler;

/* The error handler of a program may use a map, too. */
static void handle(rg_code code, const char *message) {
    (void)message;
    ck_assert_int_eq(code, RG_OUT_OF_MEMORY);
    ck_assert(put_keys(&in_handler, 20, 7));
}

/* Denies each request in turn, until there is memory for all keys. */
START_TEST(test_no_memory) {
    const int64_t before = rg_memory_stats().other;
    rg_map m = { 0 };
    int denied = 0;
    rg_on_error(handle);
    for (bool done = false; !done; denied++) {
        rg_memory_fail_at(denied + 1);
        done = put_keys(&m, KEYS, 0);
        rg_memory_fail_at(0);
        check_keys(&m, done ? KEYS : 0, 0);
        ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
        rg_error_clear();
        if (done)
            break;
        check_keys(&in_handler, 20, 7);
        rgi_map_free(&in_handler);
        ck_assert_int_eq(rg_memory_stats().other, before);
        /* After a failure the map works like a new one. */
        ck_assert(put_keys(&m, 10, 3));
        check_keys(&m, 10, 3);
        rgi_map_free(&m);
    }
    rg_on_error(NULL);
    ck_assert_int_gt(denied, 10);
    rgi_map_free(&m);
    ck_assert_int_eq(rg_memory_stats().other, before);
}
END_TEST

RG_TESTS(map, test_keys, test_no_memory)
