/*
 * tree_sum.h: sums an array over all ranks without blocking. The caller fills in an rg_tree_sum,
 * and calls rgi_tree_sum_advance repeatedly until the sum is done. Several sums may run at the same
 * time. Private.
 *
 * All elements are summed along one fixed binary tree, by recursive halving. If there are R = 2^k
 * ranks, a rank exchanges halves of the array with the adjacent rank at level 0, and keeps the sum
 * of one half. At level 1 it exchanges halves of that half with the rank whose number differs by 2.
 * After k levels it has the sum of one of 2^k parts of the array. Then the ranks make the same
 * exchanges in reverse, by which each rank gets the other parts. A rank sends 2 (R - 1) / R times
 * the array, which is the minimum, in 2 log2 R messages. If R isn't a power of two, the first 2^k
 * ranks do this, where 2^k is the largest power of two below R. Each other rank first sends its
 * array to one of these ranks, and at the end receives the sums.
 */
#pragma once

#include "group.h"

/* A hop of a sum: one exchange of messages between this rank and the rank `peer`. This rank sends
 * the n_out elements of its array that begin at index `out`. It receives values for the n_in
 * elements that begin at index `in`: they are added to these elements if `adds` is true, and
 * replace them otherwise. */
typedef struct rg_hop {
    int peer;
    int64_t out, n_out, in, n_in;
    bool adds;
} rg_hop;
/* rgi_hops returns the number of hops of a rank, and rgi_hop its i-th hop in the sum of an array of
 * n elements. */
int rgi_hops(int size, int rank);
rg_hop rgi_hop(int size, int rank, int64_t n, int i);
/* rgi_hops_send returns how many elements the rank sends in all hops together. rgi_hops_room
 * returns the largest number of elements that it receives in a hop that adds. */
int64_t rgi_hops_send(int size, int rank, int64_t n);
int64_t rgi_hops_room(int size, int rank, int64_t n);

/* A sum that is in progress. `data` is the array of n elements that is summed. `room` is memory for
 * rgi_hops_room elements: values that are to be added are received there. `hop` is the number of
 * hops that are done. If several sums are in progress on a channel, they must have different tags,
 * which are numbers from 0 on. */
typedef struct rg_tree_sum {
    rg_reduce_op op;
    rg_dtype dtype;
    void *data, *room;
    int64_t n;
    int64_t channel;
    int tag;
    int hop;
    bool busy; /* Set while a hop is in progress. */
    rg_exchange exchange;
} rg_tree_sum;
/* Makes progress with the sum, but doesn't wait. Returns whether the sum is done. */
bool rgi_tree_sum_advance(rg_tree_sum *r);

/* Sets to[i] to the sum, maximum or minimum (as `op` says) of left[i] and right[i], for n elements.
 * `to` can be the same array as left or right. */
void rgi_combine(rg_reduce_op op, rg_dtype dtype, void *to, const void *left, const void *right,
                 int64_t n);
