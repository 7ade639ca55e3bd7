/*
 * test_kv_cache.c: a cache of keys and values has the tokens that were appended, and forgets those
 * that its window leaves behind.
 */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "nn/layers/kv_cache.h"

#include <string.h>

enum { TOKENS = 200 };
static rg_tensor *k, *v;

static void draw(void) {
    rg_manual_seed(1);
    k = rg_randn(2, 3, TOKENS, 4);
    v = rg_randn(2, 3, TOKENS, 5);
}

/* Appends n tokens from those of k and v, and compares what the cache then has. */
static void append(rg_kv_cache *c, int64_t n) {
    RG_SCOPE();
    const int64_t at = c->position, window = c->window ? c->window : TOKENS;
    const int64_t first = at + 1 - window < 0 ? 0 : at + 1 - window;
    const rg_keys_values all = rg_kv_cache_append(c, rg_narrow(k, 2, at, n),
                                                  rg_narrow(v, 2, at, n));
    ck_ok(all.keys);
    ck_assert(rg_equal(all.keys, rg_narrow(k, 2, first, at + n - first)));
    ck_assert(rg_equal(all.values, rg_narrow(v, 2, first, at + n - first)));
    ck_assert(c->position == at + n && c->length == at + n - first);
}

START_TEST(test_append) {
    draw();
    for (int64_t window = 0; window < 40; window += 3) {
        rg_kv_cache c = { .window = window };
        append(&c, 7);
        for (int i = 0; i < 100; i++)
            append(&c, 1);
        append(&c, 0);
        append(&c, 40);
        append(&c, 1);
        rg_kv_cache_free(&c);
        ck_assert(c.position == 0 && c.length == 0 && !c.keys && c.window == window);
        append(&c, 2);
        rg_kv_cache_free(&c);
    }
    rg_kv_cache_free(NULL);
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

START_TEST(test_rewind) {
    draw();
    rg_kv_cache c = { 0 };
    append(&c, 50);
    ck_ok(rg_kv_cache_rewind(&c, 20));
    append(&c, 9);
    ck_ok(rg_kv_cache_rewind(&c, 29) && c.position == 29);
    ck_fails(rg_kv_cache_rewind(&c, 30), RG_VALUE_ERROR,
             "kv_cache_rewind: the position 30 is not from 0 to 29");
    ck_fails(rg_kv_cache_rewind(&c, -1), RG_VALUE_ERROR, "the position -1 is not from 0 to 29");
    ck_ok(rg_kv_cache_rewind(&c, 0));
    append(&c, 3);
    rg_kv_cache_free(&c);
    c.window = 8;
    append(&c, 20);
    ck_ok(rg_kv_cache_rewind(&c, 12));
    append(&c, 1);
    ck_fails(rg_kv_cache_rewind(&c, 11), RG_VALUE_ERROR,
             "the token at position 11 attends to 7 tokens, of which the cache has 6");
    append(&c, 1);
    rg_kv_cache_free(&c);
}
END_TEST

/* Attention with the cache computes what attention over the whole sequence computes. No gradient
 * reaches keys in the cache. */
START_TEST(test_attention) {
    draw();
    rg_tensor *q = rg_randn(2, 3, TOKENS, 4);
    rg_requires_grad_(k, true);
    rg_tensor *whole = rg_scaled_dot_product_attention(q, k, v, .is_causal = true);
    rg_kv_cache c = { 0 };
    for (int64_t i = 0; i < TOKENS; i++) {
        const rg_keys_values all = rg_kv_cache_append(&c, rg_narrow(k, 2, i, 1),
                                                      rg_narrow(v, 2, i, 1));
        rg_tensor *y = rg_scaled_dot_product_attention(rg_narrow(q, 2, i, 1), all.keys, all.values);
        ck_assert(rg_allclose(y, rg_narrow(whole, 2, i, 1), 1e-5, 1e-6));
        ck_assert(!rg_requires_grad(y));
    }
    rg_kv_cache_free(&c);
}
END_TEST

START_TEST(test_refused) {
    draw();
    rg_kv_cache c = { 0 };
    append(&c, 3);
    const rg_kv_cache before = c;
#define REFUSES(a, b, sentence) \
    ck_fails(rg_kv_cache_append(&c, a, b).keys, RG_RUNTIME_ERROR, sentence)
    REFUSES(rg_zeros(3, 4), v, "expected keys and values of (batch, heads, n, size), but got");
    REFUSES(rg_zeros(2, 3, 1, 5), rg_zeros(2, 3, 1, 5), "doesn't fit to the cache");
    REFUSES(rg_zeros(1, 3, 1, 4), rg_zeros(1, 3, 1, 5), "doesn't fit to the cache");
    REFUSES(rg_zeros(2, 3, 1, 4), rg_zeros(2, 3, 2, 5), "kv_cache_append: keys of torch.Size");
    REFUSES(rg_double(rg_zeros(2, 3, 1, 4)), rg_zeros(2, 3, 1, 5),
            "the cache is of torch.float32, and not of torch.float64");
    ck_assert(memcmp(&c, &before, sizeof c) == 0);
    rg_kv_cache_free(&c);
    c.window = -1;
    ck_fails(rg_kv_cache_append(&c, k, v).keys, RG_VALUE_ERROR, "the window -1 is negative");
}
END_TEST

static void append_to(void *cache) { rg_kv_cache_append(cache, k, v); }
static void rewind_to_begin(void *cache) { rg_kv_cache_rewind(cache, 0); }

/* A run would neither append nor rewind, so a recorded step can't do it. */
START_TEST(test_recorded) {
    rg_kv_cache c = { 0 };
    k = rg_ones(1, 1, 2, 1);
    v = rg_ones(1, 1, 2, 1);
    ck_ok(rg_kv_cache_append(&c, k, v).keys);
    ck_fails(rg_record(append_to, &c), RG_NOT_IMPLEMENTED, "kv_cache_append: can't be part of a");
    ck_fails(rg_record(rewind_to_begin, &c), RG_NOT_IMPLEMENTED, "kv_cache_rewind: can't be part");
    ck_assert_int_eq(c.position, 2);
    rg_kv_cache_free(&c);
}
END_TEST

static bool use(void) {
    rg_kv_cache c = { .window = 20 };
    bool ok = true;
    for (int64_t i = 0; i < 5 && ok; i++) {
        const int64_t position = c.position, length = c.length;
        ok = rg_kv_cache_append(&c, k, v).values;
        ck_assert(ok || (c.position == position && c.length == length));
    }
    rg_kv_cache_free(&c);
    return ok;
}

START_TEST(test_denied) {
    k = rg_ones(1, 1, 9, 1);
    v = rg_ones(1, 1, 9, 1);
    ck_assert_int_gt(deny_in_turn(use, NULL), 10);
}
END_TEST

RG_TESTS(kv_cache, test_append, test_rewind, test_attention, test_recorded, test_refused,
         test_denied)
