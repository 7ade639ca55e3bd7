/*
 * kv_cache.c: a cache of keys and values. Rows are appended to memory that has room for more. When
 * the room is used up, the rows that are still needed move to new memory.
 */
#include "kv_cache.h"

#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "tensor/base.h"
#include "tensor/error.h"
#include "tensor/observer.h"

/* Fails and returns false unless t is (batch, heads, n, size), with the dtype, batch, heads and
 * size of `before`, the memory that the cache has already, if it has some. */
static bool rows_given(rg_tensor *t, rg_tensor *before) {
    static const char op[] = "kv_cache_append";
    if (!rg_check_tensor(t, op))
        return false;
    RG_FAIL_IF(rg_ndim(t) != 4, op,
               "expected keys and values of (batch, heads, n, size), but got %s", rg_repr_shape(t));
    if (!before)
        return true;
    for (int d = 0; d < 4; d++)
        RG_FAIL_IF(d != 2 && rg_size(t, d) != rg_size(before, d), op,
                   "%s doesn't fit to the cache, whose memory is %s", rg_repr_shape(t),
                   rg_repr_shape(before));
    RG_FAIL_IF(rg_dtype_of(t) != rg_dtype_of(before), op, "the cache is of %s, and not of %s",
               rg_dtype_name(rg_dtype_of(before)), rg_dtype_name(rg_dtype_of(t)));
    return true;
}

/* Returns memory with room for `room` tokens, which begins with the `length` rows of `old` from row
 * `start` on. */
static rg_tensor *moved(rg_tensor *old, rg_tensor *like, int64_t room, int64_t start,
                        int64_t length) {
    rg_dims shape = rg_shape(like);
    shape.v[2] = room;
    rg_tensor *t = rg_zeros_dims(shape, rg_dtype_of(like));
    if (!old || !length)
        return t;
    return rg_copy_(rg_narrow(t, 2, 0, length), rg_narrow(old, 2, start, length)) ? t : NULL;
}

/* Takes a reference to the new memory, if it isn't the old memory, to which it drops the
 * reference. */
static void take_memory(rg_tensor *old, rg_tensor *memory) {
    if (memory == old)
        return;
    rg_keep(memory);
    if (old)
        rg_drop(old);
}

/* Fails and returns false if the cache can't take these keys and values. */
static bool append_given(const rg_kv_cache *c, rg_tensor *keys, rg_tensor *values) {
    static const char op[] = "kv_cache_append";
    if (!rgi_given(c, op, "a cache") || !rows_given(keys, c->keys)
        || !rows_given(values, c->values))
        return false;
    for (int d = 0; d < 3; d++)
        RG_FAIL_IF(rg_size(keys, d) != rg_size(values, d), op,
                   "keys of %s don't fit to values of %s", rg_repr_shape(keys),
                   rg_repr_shape(values));
    RG_FAIL_VALUE_IF(c->window < 0, op, "the window %lld is negative", (long long)c->window);
    return true;
}

rg_keys_values(rg_kv_cache_append)(rg_kv_cache *c, rg_tensor *keys, rg_tensor *values) {
    const rg_keys_values failed = { NULL, NULL };
    if (!rgi_may_do_once("kv_cache_append") || !append_given(c, keys, values))
        return failed;
    RG_AS("kv_cache_append");
    RG_SCOPE();
    RG_NO_GRAD();
    const int64_t n = rg_size(keys, 2);
    const int64_t old = c->window ? RG_MAX(c->length - (c->window - 1), 0) : 0;
    rg_kv_cache now = *c;
    now.start += old;
    now.length += n - old;
    now.position += n;
    if (!c->keys || now.start + now.length > rg_size(c->keys, 2)) {
        const int64_t room = 2 * now.length + 14;
        now.keys = moved(c->keys, keys, room, now.start, now.length - n);
        now.values = moved(c->values, values, room, now.start, now.length - n);
        now.start = 0;
    }
    const int64_t end = now.start + now.length;
    if (!rg_copy_(rg_narrow(now.keys, 2, end - n, n), keys)
        || !rg_copy_(rg_narrow(now.values, 2, end - n, n), values))
        return failed;
    const rg_keys_values all = { rg_narrow(now.keys, 2, now.start, now.length),
                                 rg_narrow(now.values, 2, now.start, now.length) };
    if (!all.keys || !all.values)
        return failed;
    take_memory(c->keys, now.keys);
    take_memory(c->values, now.values);
    *c = now;
    return (rg_keys_values){ rg_escape(all.keys), rg_escape(all.values) };
}

bool(rg_kv_cache_rewind)(rg_kv_cache *c, int64_t position) {
    static const char op[] = "kv_cache_rewind";
    if (!rgi_given(c, op, "a cache") || !rgi_may_do_once(op))
        return false;
    RG_FAIL_VALUE_IF(position < 0 || position > c->position, op,
                     "the position %lld is not from 0 to %lld", (long long)position,
                     (long long)c->position);
    const int64_t kept = RG_MAX(c->length - (c->position - position), 0);
    const int64_t needed = c->window ? RG_MIN(position, c->window - 1) : position;
    RG_FAIL_VALUE_IF(
        kept < needed, op,
        "the token at position %lld attends to %lld tokens, of which the cache has %lld",
        (long long)position, (long long)needed, (long long)kept);
    c->position = position;
    c->length = kept;
    return true;
}

void rg_kv_cache_free(rg_kv_cache *c) {
    if (!c || !c->keys)
        return;
    rg_drop(c->keys);
    rg_drop(c->values);
    *c = (rg_kv_cache){ .window = c->window };
}
