/*
 * tree_sum.h: one array summed over all ranks, while others are on their way and the program goes
 * on: a sum is begun, and then asked again and again until it is done. Private.
 *
 * The sums go up one fixed binary tree: neighbours first, then pairs of neighbours. With 2^k ranks
 * each of 2^k parts of the array goes up that tree to another rank, by halves: to its neighbour a
 * rank gives one half of what it has, and takes the other half of the neighbour's; to the one two
 * ranks further a half of that half, and so on. Then the sums go the same way back. So a rank sends
 * 2 (R - 1) / R times the array, the least that there is, in 2 log2 R messages. Of R ranks that
 * aren't 2^k, those behind the first 2^k hand theirs to one of these, and get the sums from it.
 */
#pragma once

#include "group.h"

/* A hop: a rank sends a part of its array to a peer, and receives a part, which is added to its own
 * or replaces it. */
typedef struct rg_hop {
    int peer;
    int64_t out, n_out, in, n_in;
    bool adds;
} rg_hop;
/* Returns the number of a rank's hops, and the i-th of them, for an array of n elements. */
int rgi_hops(int size, int rank);
rg_hop rgi_hop(int size, int rank, int64_t n, int i);
/* Returns the number of elements that the rank sends in total, and the maximum that it receives to
 * add. */
int64_t rgi_hops_send(int size, int rank, int64_t n);
int64_t rgi_hops_room(int size, int rank, int64_t n);

/* A running sum. `data` has n elements, and `room` has rgi_hops_room elements. Sums that run at the
 * same time have different tags, from 0. */
typedef struct rg_tree_sum {
    rg_reduce_op op;
    rg_dtype dtype;
    void *data, *room;
    int64_t n;
    int tag;
    int hop;
    bool busy; /* A hop hasn't completed. */
    rg_exchange exchange;
} rg_tree_sum;
/* Advances without waiting. Returns whether the sum is done. */
bool rgi_tree_sum_advance(rg_tree_sum *r);

/* Writes the op's results for n pairs of elements to `to`, which may be one of the operands. */
void rgi_combine(rg_reduce_op op, rg_dtype dtype, void *to, const void *left, const void *right,
                 int64_t n);
