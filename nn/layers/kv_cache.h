/*
 * kv_cache.h: keeps the keys and values of earlier tokens, so that each token runs through a layer
 * of attention only once. A layer has a cache of its own.
 *
 *     rg_kv_cache cache = { .window = 0 };
 *     rg_keys_values all = rg_kv_cache_append(&cache, k, v);
 *     rg_tensor *y = rg_scaled_dot_product_attention(q, all.keys, all.values);
 *     rg_kv_cache_free(&cache);
 */
#pragma once

#include "../../tensor/tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* A cache whose fields are all 0 is empty. The program may set `window` before the first append,
 * and reads the other fields only. */
typedef struct rg_kv_cache {
    /* The number of tokens that a token attends to, itself among them. Older ones are forgotten. 0
     * means that all are kept. */
    int64_t window;
    /* The position of the token that is appended next. The cache has the `length` tokens before
     * it. */
    int64_t position, length;
    /* The memory of the keys and values, (batch, heads, room, size). The oldest of the `length`
     * tokens is in row `start`. */
    int64_t start;
    rg_tensor *keys, *values;
} rg_kv_cache;

/* On failure both are NULL. */
typedef struct rg_keys_values {
    rg_tensor *keys, *values;
} rg_keys_values;
/* Appends the keys and values of n tokens, (batch, heads, n, size). The size of values may be
 * another than that of keys. Returns those of all tokens to which these n attend, as views of the
 * cache's memory: (batch, heads, length, size). No gradients reach the cache. A recorded step can't
 * append. If the call fails, the cache is as it was. */
rg_keys_values rg_kv_cache_append(rg_kv_cache *c, rg_tensor *keys, rg_tensor *values);
/* Forgets the tokens from this position on, which can't be above that of the next token. Fails and
 * returns false if the window has left tokens behind to which the token at this position attends.
 */
bool rg_kv_cache_rewind(rg_kv_cache *c, int64_t position);
/* Releases the memory, and empties the cache, which may be used again. */
void rg_kv_cache_free(rg_kv_cache *c);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_kv_cache_append(c, keys, values) \
    RG_BEHIND_2(rg_kv_cache_append, __COUNTER__, c, keys, values)
#define rg_kv_cache_rewind(c, position) rg_kv_cache_rewind(c, RG_WHOLE(position))

RG_PUBLIC_END
