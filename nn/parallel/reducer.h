/*
 * reducer.h: the reducer, which sums the gradients of a model's parameters over the shards of a
 * batch (see distributed.h) and over the ranks. It corresponds to the Reducer of torch's
 * DistributedDataParallel, which sums over ranks only. reducer.c receives the gradients during
 * backward runs, and buckets.c sends the sums. Private.
 */
#pragma once

#include "distributed.h"
#include "tree_sum.h"

/* A parameter whose gradient is summed, or a buffer whose value is summed (see buffers.c). A buffer
 * has no hooks. */
typedef struct rg_reducer_entry {
    struct rg_reducer *of;
    rg_tensor *leaf;
    bool is_buffer;
    int64_t n;         /* The number of elements of the parameter or buffer. */
    int bucket;        /* The index of the bucket that holds this entry. */
    int64_t at;        /* The index of this entry's first element in the bucket. */
    int place;         /* The index of this entry among the bucket's entries. */
    int hook, after;   /* The ids of the parameter's hooks. */
    bool arrived;      /* Set once the current backward run has added this entry to the sums. */
    bool used;         /* Set if a backward run of this batch has computed this entry's gradient. */
    rg_tensor *before; /* The parameter's .grad before the batch, or NULL if it had none. */
    int64_t version;   /* The parameter's version when the batch began. */
    bool late;         /* Set if a gradient has arrived that belongs to no shard, but is added to a
                        * .grad of the batch. */
} rg_reducer_entry;

/* The parts that the program has taken by rg_distributed_part. `marks` are fingerprints of the
 * tensors of which the batch's first shard on this rank has taken parts; RG_PARTS of them are kept.
 * `first` is the number of that shard's parts, and `n` the number of the current shard's. */
enum { RG_PARTS = 16 };
typedef struct rg_parts {
    uint64_t marks[RG_PARTS];
    int first, n;
    bool since_forward; /* Set if a part was taken since the shard's forward. */
} rg_parts;

/* A bucket of n elements: the gradients of its entries, followed by one mark for each entry. A mark
 * is 1 if this rank has computed the entry's gradient, otherwise 0. So the sum of an entry's marks
 * over all ranks is the number of ranks that have computed the gradient. The mark of a buffer is
 * always 1. `sums` has room for several arrays of n elements (rg_reducer's `levels`). Each array is
 * a sum over a subtree of this rank's shards, and waits until the subtree beside it is complete. In
 * the end the first array is the sum over all shards of this rank. This sum is sent. `room` is the
 * memory for elements that are received. */
typedef struct rg_bucket {
    rg_dtype dtype;
    /* The number of the bucket's entries, and the number of those whose gradients haven't arrived
     * yet in this backward run. */
    int n_entries, missing;
    int64_t n;
    rg_tensor *sums, *room;
    rg_tree_sum sum;
    double began; /* The profiler's time when sending began. */
    bool done;
} rg_bucket;

/* A buffer, a copy of its value before the batch, and its version at that time. */
typedef struct rg_buffer {
    rg_tensor *now, *before;
    int64_t version;
} rg_buffer;

typedef struct rg_reducer {
    rg_distributed *distributed;
    /* The channel of the sums of this reducer. Two reducers may send at the same time, if one
     * backward run reaches both. */
    int64_t channel;
    rg_tensor *holder, *order_holder, *bucket_holder;
    rg_reducer_entry *v;
    int n, n_parameters; /* The number of entries; the first n_parameters of them are parameters. */
    rg_reducer_entry **order; /* The entries in the order in which their gradients are expected. */
    int arrived;              /* The number of gradients that have arrived in this backward run. */
    /* Set once `order` is the order in which gradients have arrived in a backward run. Before that,
     * `order` is a guess. */
    bool settled;
    rg_buffer *buffers; /* All buffers; after the first forward, those that this forward changed. */
    rg_tensor *buffers_holder;
    int n_buffers;
    bool buffers_known;
    rg_bucket *buckets;
    int n_buckets, launched;
    size_t cap; /* The largest size in bytes of a bucket's gradients, unless the bucket has only one
                 * entry. */
    int levels; /* The number of arrays in a bucket's `sums`. */
    int turn;   /* The index of the current shard among this rank's shards. */
    int depth;  /* The number of sums over subtrees that wait until they can be added. */
    /* Set when the shard's forward has run: gradients that arrive from then on are the shard's. */
    bool armed;
    /* Set while a backward run is in progress. If the run fails, `open` stays set, and no other run
     * can follow. */
    bool open;
    bool summed; /* Set once a batch has ended. */
    rg_parts parts;
    uint64_t stream; /* The seed from which the random streams of this batch's shards are made. */
    int calls;       /* The number of forwards that this shard has run. */
    bool drawn;
} rg_reducer;

/* Returns how many sums of the tree over n shards become complete when shard i is added: the sums
 * whose last shard is shard i. The shard itself isn't counted as a sum. */
int rgi_sums_completed(int i, int n);
/* Returns the address of element i in the bucket's array of this level. */
char *rgi_bucket_sum(const rg_bucket *b, int level, int64_t i);

/* ---- functions of reducer.c: the entries ------------------------------------------------ */

/* Makes an entry for each parameter of the module that requires grad, and registers its hooks. The
 * gradients of a bucket have at most `cap` bytes, unless it has only one. Returns false on failure.
 * In either case the caller frees everything later, by rgi_reducer_end. */
bool rgi_reducer_begin(rg_reducer *s, int64_t cap);
void rgi_reducer_end(rg_reducer *s);
/* Adds an entry for a buffer. The array of entries has room for all buffers of the module. */
void rgi_reducer_add_buffer(rg_reducer *s, rg_tensor *buffer);

/* ---- functions of buffers.c: the buffers ----------------------------------------------- */

bool rgi_buffers_list(rg_reducer *s, rg_named_list all);
void rgi_buffers_end(rg_reducer *s);
/* rgi_buffers_before_forward must be called before each forward of a shard, and
 * rgi_buffers_after_forward after it. Both return false on failure. */
bool rgi_buffers_before_forward(rg_reducer *s);
/* Calls the module, and gives the buffers back the values that they had before the call. */
rg_tensor *rgi_buffers_stay(rg_reducer *s, rg_module *module, rg_list in);
bool rgi_buffers_after_forward(rg_reducer *s);

/* ---- functions of buckets.c: the buckets ----------------------------------------------- */

/* Distributes the entries over buckets, in the order in which their gradients are expected, and
 * allocates the buckets' memory. Returns false on failure. */
bool rgi_buckets_make(rg_reducer *s);
void rgi_buckets_drop(rg_reducer *s);
/* Prepares the buckets for the last backward run of a batch: no gradient has arrived yet. */
void rgi_buckets_expect(rg_reducer *s);
/* Begins to send the next buckets, up to the first one that still lacks a gradient, and makes
 * progress with the buckets that are being sent. Doesn't wait. Returns whether all buckets are
 * summed over all ranks. */
bool rgi_buckets_advance(rg_reducer *s);
