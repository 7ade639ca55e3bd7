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

/* On a hop a rank sends some of its array to a peer, and receives some, which is added or takes
 * the place of what was there. */
typedef struct rg_hop {
    int peer;
    int64_t out, n_out, in, n_in;
    bool adds;
} rg_hop;
/* Returns how many hops a rank makes, and the i-th of them, for an array of n elements. */
int rgi_hops(int size, int rank);
rg_hop rgi_hop(int size, int rank, int64_t n, int i);
/* Returns how many elements the rank sends in all, and the most that it receives to add. */
int64_t rgi_hops_send(int size, int rank, int64_t n);
int64_t rgi_hops_room(int size, int rank, int64_t n);

/* The memory at `data` has n elements, that at `room` as many as rgi_hops_room says. Sums
 * that are under way together have tags of their own, from 0. */
typedef struct rg_tree_sum {
    rg_reduce_op op;
    rg_dtype dtype;
    void *data, *room;
    int64_t n;
    int tag;
    int hop;
    bool busy; /* The hop is under way. */
    rg_exchange exchange;
} rg_tree_sum;
/* Goes on as far as can be. Returns whether all is done. */
bool rgi_tree_sum_advance(rg_tree_sum *r);

/* Puts into `to` what op makes of n elements of each; `to` may be one of the two. */
void rgi_combine(rg_reduce_op op, rg_dtype dtype, void *to, const void *left, const void *right,
                 int64_t n);
