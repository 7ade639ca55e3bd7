/*
 * reducer.h: the reducer sums the gradients of a model's parameters over shards and ranks, as the
 * Reducer of torch's DistributedDataParallel. reducer.c follows backward runs, buckets.c sends the
 * sums. Private.
 */
#pragma once

#include "distributed.h"
#include "tree_sum.h"

/* An entry is a parameter whose gradient is summed, or a buffer whose value is summed (buffers.c)
 * and which has no hooks. */
typedef struct rg_reducer_entry {
    struct rg_reducer *of;
    rg_tensor *leaf;
    bool is_buffer;
    int64_t n;         /* The number of elements. */
    int bucket;        /* The index of the entry's bucket. */
    int64_t at;        /* The first element's index there. */
    int place;         /* The entry's index in the bucket. */
    int hook, after;   /* The ids of its hooks. */
    bool arrived;      /* The current run has made its gradient. */
    bool used;         /* A run of this batch has used it. */
    rg_tensor *before; /* The .grad before the batch, or NULL. */
} rg_reducer_entry;

/* A bucket of n elements: the gradients of its entries, followed by a mark for each entry, which
 * counts the ranks that used it. `sums` holds up to `levels` arrays of n elements, the sums of
 * several subtrees of shards; the first one becomes the sum of all, which is sent. */
typedef struct rg_bucket {
    rg_dtype dtype;
    int n_entries, missing; /* The number of gradients that haven't arrived. */
    int64_t n;
    rg_tensor *sums, *room;
    rg_tree_sum sum;
    double began; /* The profiler's time at its sending. */
    bool done;
} rg_bucket;

/* A buffer, its value before the batch, and its version then. */
typedef struct rg_buffer {
    rg_tensor *now, *before;
    int64_t version;
} rg_buffer;

typedef struct rg_reducer {
    rg_distributed *distributed;
    rg_tensor *holder, *order_holder, *bucket_holder;
    rg_reducer_entry *v;
    int n;
    rg_reducer_entry **order; /* The expected order of gradients. */
    int arrived;              /* The number of gradients that arrived in this run. */
    bool settled;             /* The order was observed in a run. */
    rg_buffer *buffers;       /* All buffers first, later those that a forward changes. */
    rg_tensor *buffers_holder;
    int n_buffers;
    bool buffers_known;
    rg_bucket *buckets;
    int n_buckets, launched;
    size_t cap;      /* The maximum bytes of a bucket of several entries. */
    int levels;      /* The number of sums in a bucket at once. */
    int turn;        /* The index of the rank's next shard. */
    int depth;       /* The number of sums that wait for their sibling. */
    bool armed;      /* The shard's forward has run. */
    bool open;       /* A run hasn't ended, or has failed, so that no other can follow. */
    uint64_t stream; /* The seed of the batch's random streams. */
    int calls;       /* The number of the shard's forwards. */
    bool drawn;
} rg_reducer;

/* Returns the number of sums in the tree over n shards that shard i completes. */
int rgi_sums_completed(int i, int n);
/* Returns the address of element i of a bucket's sum at a level. */
char *rgi_bucket_sum(const rg_bucket *b, int level, int64_t i);

/* ---- reducer.c -------------------------------------------------------------------------- */

/* Makes the entries of the module's parameters and their hooks. Returns false on failure, after
 * which rgi_reducer_end may be called, too. */
bool rgi_reducer_begin(rg_reducer *s, double bucket_cap_mb);
void rgi_reducer_end(rg_reducer *s);
/* Adds an entry for a buffer. There is room for all of the module's buffers. */
void rgi_reducer_add_buffer(rg_reducer *s, rg_tensor *buffer);

/* ---- buffers.c ------------------------------------------------------------------------- */

bool rgi_buffers_list(rg_reducer *s, rg_named_list all);
void rgi_buffers_end(rg_reducer *s);
/* Called before and after the forward of a shard. */
bool rgi_buffers_before_forward(rg_reducer *s);
bool rgi_buffers_after_forward(rg_reducer *s);

/* ---- buckets.c ------------------------------------------------------------------------- */

/* Puts the entries into buckets, in their order. */
bool rgi_buckets_make(rg_reducer *s);
void rgi_buckets_drop(rg_reducer *s);
/* Begins a batch's last run: all gradients are missing. */
void rgi_buckets_expect(rg_reducer *s);
/* Sends complete buckets in their order, and advances those on their way. Returns whether all are
 * done. */
bool rgi_buckets_advance(rg_reducer *s);
