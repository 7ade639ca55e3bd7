/*
 * reducer.h: what the ranks entry of a model: the gradients of its parameters, where they lie while
 * they are summed, and how far that is. reducer.c has what happens in a backward run, buckets.c
 * what is sent. Private.
 */
#pragma once

#include "distributed.h"
#include "tree_sum.h"

/* A parameter that takes part, or a buffer that does (buffers.c): then it has no hooks, and what is
 * summed is its value. */
typedef struct rg_reducer_entry {
    struct rg_reducer *of;
    rg_tensor *leaf;
    bool is_buffer;
    int64_t n;         /* The number of its elements, */
    int bucket;        /* which lie in this bucket, */
    int64_t at;        /* from this one on, */
    int place;         /* as those of this place among the bucket's shares. */
    int hook, after;   /* Its hooks have these ids. */
    bool arrived;      /* The run that is under way has made its gradient. */
    bool used;         /* Some run of this batch has used it. */
    rg_tensor *before; /* The .grad that it had before the batch, or NULL. */
} rg_reducer_entry;

/* A bucket has n elements: those of its shares, and behind them a number for each entry, which says
 * how many ranks have used it. There is room for the sums of several parts of the tree, one behind
 * the other: the first of them is what is sent. */
typedef struct rg_bucket {
    rg_dtype dtype;
    int n_entries, missing; /* The number of its gradients that haven't arrived. */
    int64_t n;
    rg_tensor *sums, *room;
    rg_tree_sum sum;
    double began; /* It left at this time of the profiler's. */
    bool done;
} rg_bucket;

/* A buffer as it is now, and as it was before the batch, with its version then. */
typedef struct rg_buffer {
    rg_tensor *now, *before;
    int64_t version;
} rg_buffer;

typedef struct rg_reducer {
    rg_distributed *distributed;
    rg_tensor *holder, *order_holder, *bucket_holder;
    rg_reducer_entry *v;
    int n;
    rg_reducer_entry **order; /* Gradients are expected to arrive in this order. */
    int arrived;              /* The number that have, in the run that is under way. */
    bool settled;             /* The order is one that was seen. */
    rg_buffer *buffers;       /* At first all, and then those that a forward changes. */
    rg_tensor *buffers_holder;
    int n_buffers;
    bool buffers_known;
    rg_bucket *buckets;
    int n_buckets, launched;
    size_t cap;      /* The most bytes of a bucket, unless it has one entry. */
    int levels;      /* The parts of the tree that its sums are of at once. */
    int turn;        /* This of the rank's shards is next. */
    int depth;       /* The parts of the tree that are summed up and wait. */
    bool armed;      /* A forward was run for the shard. */
    bool open;       /* A backward run is under way, or no run can follow one that failed. */
    uint64_t stream; /* The batch's streams of random numbers begin with it, */
    int calls;       /* and the forwards of the shard that have one already. */
    bool drawn;
} rg_reducer;

/* Returns how many sums of the tree over n shards the i-th of them completes. */
int rgi_sums_completed(int i, int n);
/* Returns where an element of a bucket's sum of a level lies. */
char *rgi_bucket_sum(const rg_bucket *b, int level, int64_t i);

/* ---- reducer.c -------------------------------------------------------------------------- */

/* Makes the shares of the module's parameters, and hooks to follow their gradients. Returns false
 * on failure; rgi_reducer_end may follow then, too. */
bool rgi_reducer_begin(rg_reducer *s, double bucket_cap_mb);
void rgi_reducer_end(rg_reducer *s);
/* Lets a buffer take part. There is room for all that the module has. */
void rgi_reducer_add_buffer(rg_reducer *s, rg_tensor *buffer);

/* ---- buffers.c ------------------------------------------------------------------------- */

bool rgi_buffers_list(rg_reducer *s, rg_named_list all);
void rgi_buffers_end(rg_reducer *s);
/* These two stand around the forward of a shard. */
bool rgi_buffers_before_forward(rg_reducer *s);
bool rgi_buffers_after_forward(rg_reducer *s);

/* ---- buckets.c ------------------------------------------------------------------------- */

/* Puts the shares into buckets, in their order. */
bool rgi_buckets_make(rg_reducer *s);
void rgi_buckets_drop(rg_reducer *s);
/* A batch's last run begins: all gradients are missing. */
void rgi_buckets_expect(rg_reducer *s);
/* Sends what is complete, in the buckets' order, and lets what is on its way go on. Returns whether
 * all is done. */
bool rgi_buckets_advance(rg_reducer *s);
