/*
 * shares.h: what the ranks share of a model: the gradients of its parameters, where they lie while
 * they are summed, and how far that is. shares.c has what happens in a backward run, buckets.c what
 * is sent. Private.
 */
#pragma once

#include "distributed.h"
#include "tree_sum.h"

/* A parameter that takes part. */
typedef struct rg_share {
    struct rg_shares *of;
    rg_tensor *leaf;
    int64_t n;         /* It has so many elements, */
    int bucket;        /* which lie in this bucket, */
    int64_t at;        /* from this one on, */
    int place;         /* as those of this place among the bucket's shares. */
    int hook, after;   /* Its hooks have these ids. */
    bool arrived;      /* The run that is under way has made its gradient. */
    bool used;         /* So has some run of this batch. */
    rg_tensor *before; /* The .grad that it had before the batch, or NULL. */
} rg_share;

/* A bucket has n elements: those of its shares, and behind them a number for each share, which says
 * how many ranks have used it. There is room for the sums of several parts of the tree, one behind
 * the other: the first of them is what is sent. */
typedef struct rg_bucket {
    rg_dtype dtype;
    int n_shares, missing; /* So many of its gradients haven't arrived. */
    int64_t n;
    rg_tensor *sums, *room;
    rg_tree_sum sum;
    bool done;
} rg_bucket;

typedef struct rg_shares {
    rg_distributed *distributed;
    rg_tensor *holder, *order_holder, *bucket_holder;
    rg_share *v;
    int n;
    rg_share **order; /* Gradients are expected to arrive in this order. */
    int arrived;      /* So many have, in the run that is under way. */
    bool settled;     /* The order is one that was seen. */
    rg_bucket *buckets;
    int n_buckets, launched;
    size_t cap;      /* A bucket has at most so many bytes, or one share. */
    int levels;      /* Its sums are of so many parts of the tree at once. */
    int turn;        /* This of the rank's shards is next. */
    int depth;       /* So many parts of the tree are summed up and wait. */
    bool armed;      /* A forward was run for the shard. */
    bool open;       /* A backward run is under way. */
    uint64_t stream; /* The batch's streams of random numbers begin with it, */
    int calls;       /* and so many forwards of the shard have one already. */
    bool drawn;
} rg_shares;

/* Returns how many sums of the tree over n shards the i-th of them completes. */
int rgi_sums_completed(int i, int n);
/* Returns where an element of a bucket's sum of a level lies. */
char *rgi_bucket_sum(const rg_bucket *b, int level, int64_t i);

/* ---- shares.c -------------------------------------------------------------------------- */

/* Makes the shares of the module's parameters, and hooks to follow their gradients. Returns false
 * on failure; rgi_shares_end may follow then, too. */
bool rgi_shares_begin(rg_shares *s, double bucket_cap_mb);
void rgi_shares_end(rg_shares *s);

/* ---- buckets.c ------------------------------------------------------------------------- */

/* Puts the shares into buckets, in their order. */
bool rgi_buckets_make(rg_shares *s);
void rgi_buckets_drop(rg_shares *s);
/* A batch's last run begins: all gradients are missing. */
void rgi_buckets_expect(rg_shares *s);
/* Sends what is complete, in the buckets' order, and lets what is on its way go on. Returns whether
 * all is done. */
bool rgi_buckets_advance(rg_shares *s);
