/*
 * buckets.c: collects gradients in buckets, and sums the buckets over the ranks. All ranks send the
 * buckets in the same order, so that the messages of two ranks belong to the same bucket.
 */
#include "reducer.h"

#include <limits.h>
#include <string.h>

char *rgi_bucket_sum(const rg_bucket *b, int level, int64_t i) {
    return (char *)rg_data(b->sums) + (size_t)(level * b->n + i) * rgi_element_size(b->dtype);
}

/* ---- dividing the entries into buckets ------------------------------------------------- */

/* Adds the entry to the last bucket if that has the entry's dtype and room for the entry, otherwise
 * to a new bucket. */
static void add_to_buckets(rg_reducer *s, rg_reducer_entry *entry) {
    const rg_dtype dtype = (rg_dtype)rg_dtype_of(entry->leaf);
    const int64_t most = (int64_t)(s->cap / rgi_element_size(dtype));
    rg_bucket *b = s->n_buckets ? &s->buckets[s->n_buckets - 1] : NULL;
    if (!b || b->dtype != dtype || b->n + entry->n > most) {
        b = &s->buckets[s->n_buckets++];
        *b = (rg_bucket){ .dtype = dtype };
    }
    entry->bucket = (int)(b - s->buckets);
    entry->place = b->n_entries++;
    entry->at = b->n;
    b->n += entry->n;
}

/* Allocates the memory of a bucket. Behind the gradients the bucket has one more element for each
 * entry, the entry's mark (see write_marks). Returns false on failure. */
static bool bucket_begin(const rg_reducer *s, rg_bucket *b) {
    RG_SCOPE();
    b->n += b->n_entries;
    if (b->n > INT_MAX)
        return rg_fail(RG_VALUE_ERROR, "distributed",
                       "a gradient of %lld elements is too large for a message", (long long)b->n);
    const int64_t room = rgi_hops_room(rg_world_size(), rg_rank(), b->n);
    b->sums = rg_keep(rg_empty_dims(RG_DIMS(s->levels * b->n), b->dtype));
    b->room = b->sums ? rg_keep(rg_empty_dims(RG_DIMS(room), b->dtype)) : NULL;
    return b->room;
}

bool rgi_buckets_make(rg_reducer *s) {
    s->buckets = rgi_room(&s->bucket_holder, (size_t)s->n * sizeof *s->buckets);
    for (int i = 0; s->buckets && i < s->n; i++)
        add_to_buckets(s, s->order[i]);
    bool ok = s->buckets;
    for (int i = 0; ok && i < s->n_buckets; i++)
        ok = bucket_begin(s, &s->buckets[i]);
    return ok;
}

void rgi_buckets_drop(rg_reducer *s) {
    for (int i = 0; i < s->n_buckets; i++) {
        rgi_room_drop(&s->buckets[i].sums);
        rgi_room_drop(&s->buckets[i].room);
    }
    s->n_buckets = 0;
    rgi_room_drop(&s->bucket_holder);
}

/* ---- sending the buckets --------------------------------------------------------------- */

void rgi_buckets_expect(rg_reducer *s) {
    s->launched = 0;
    for (int i = 0; i < s->n_buckets; i++) {
        s->buckets[i].missing = s->buckets[i].n_entries;
        s->buckets[i].done = false;
    }
}

/* Sets the mark of each of the bucket's entries to 1 or 0. It is 1 if a backward run of this batch
 * on this rank has computed the entry's gradient, or if the entry is a buffer. */
static void write_marks(const rg_reducer *s, const rg_bucket *b) {
    for (int i = 0; i < s->n; i++) {
        const rg_reducer_entry *entry = &s->v[i];
        if (&s->buckets[entry->bucket] != b)
            continue;
        char *mark = rgi_bucket_sum(b, 0, b->n - b->n_entries + entry->place);
        switch (b->dtype) {
        case RG_FLOAT32: *(float *)mark = entry->used; break;
        case RG_FLOAT64: *(double *)mark = entry->used; break;
        case RG_BOOL:
        case RG_INT64:
        case RG_BFLOAT16:
        case RG_FLOAT16:
        case RG_UINT8:
        case RG_NO_DTYPE: break; /* Such entries have no gradient, or are refused. */
        }
    }
}

/* Returns the number of bytes that this rank sends to sum the bucket. */
static int64_t bytes_to_send(const rg_bucket *b) {
    return rgi_hops_send(rg_world_size(), rg_rank(), b->n) * (int64_t)rgi_element_size(b->dtype);
}

static void launch(rg_reducer *s) {
    rg_bucket *b = &s->buckets[s->launched];
    write_marks(s, b);
    b->began = rg_profile_begin();
    b->sum = (rg_tree_sum){ .op = RG_REDUCE_SUM,
                            .dtype = b->dtype,
                            .data = rgi_bucket_sum(b, 0, 0),
                            .room = rg_data(b->room),
                            .n = b->n,
                            .channel = s->channel,
                            .tag = s->launched++ };
    s->distributed->bytes_sent += bytes_to_send(b);
}

/* Makes progress with the sum of a bucket over all ranks, unless that sum is done. */
static void advance(rg_bucket *b) {
    if (b->done)
        return;
    b->done = rgi_tree_sum_advance(&b->sum);
    if (b->done)
        rg_profile_end("all_reduce", b->began, (double)bytes_to_send(b));
}

bool rgi_buckets_advance(rg_reducer *s) {
    while (s->launched < s->n_buckets && !s->buckets[s->launched].missing)
        launch(s);
    bool all = s->launched == s->n_buckets;
    for (int i = 0; i < s->launched; i++) {
        advance(&s->buckets[i]);
        all = all && s->buckets[i].done;
    }
    return all;
}
