/*
 * sort.c: sorts along one dim, and finds the first k elements of the sorted order (with top.c).
 */
#include "merge_sort.h"
#include "plans.h"
#include "tensor/storage.h"

#define K_LOOPS "loops/rank.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

k_ranks *k_ranks_of(rg_dtype dtype) {
    static k_ranks *const rank_loops[K_DTYPES] = K_BASE_ALL(rank);
    return K_BASE_LOOP_OF(rank_loops, dtype, "sort");
}

/* ---- sorting by key -------------------------------------------------------------------------- */

static bool sort_before(const k_ranked *a, const k_ranked *b, const void *context) {
    (void)context;
    return a->key < b->key;
}

/* Returns byte b of a key, where byte 0 is the least significant one. The sign bit is inverted, so
 * that unsigned bytes have the same order as signed keys. */
static inline int key_byte(int64_t key, int b) {
    return (uint64_t)(key ^ INT64_MIN) >> 8 * b & 255;
}

/* Copies the items to `to`, stably sorted by byte b of their keys. count[v] is the number of items
 * in which this byte is v. */
static void sort_by_byte(k_ranked *to, const k_ranked *q, int64_t n, int b,
                         const int64_t count[256]) {
    int64_t next[256];
    int64_t so_far = 0;
    for (int v = 0; v < 256; v++) {
        next[v] = so_far;
        so_far += count[v];
    }
    for (int64_t i = 0; i < n; i++)
        to[next[key_byte(q[i].key, b)]++] = q[i];
}

/* Sorts few items by merging, and many items by radix sort: by each byte of the key in turn,
 * beginning with the least significant one. Bytes that are equal in all keys are skipped. */
k_ranked *k_sort_ranked(k_ranked *q, k_ranked *aside, int64_t n) {
    enum { MANY = 512 };
    if (n < MANY)
        return k_merge_sort(q, aside, n, sort_before, NULL);
    int64_t count[8][256] = { { 0 } };
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 8; b++)
            count[b][key_byte(q[i].key, b)]++;
    for (int b = 0; b < 8; b++) {
        if (count[b][key_byte(q[0].key, b)] == n)
            continue;
        sort_by_byte(aside, q, n, b, count[b]);
        RG_SWAP(q, aside);
    }
    return q;
}

/* ---- the lines along a dim ------------------------------------------------------------------- */

#define K_LOOPS "loops/sort_lines.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

static bool sort_run(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim,
                     sort_context c) {
    c.n = x->ndim ? x->size[dim] : 1;
    c.k = x->ndim ? values->size[dim] : 1;
    c.bytes = rgi_sizeof(x->dtype);
    c.rank = k_ranks_of(x->dtype);
    if (!c.rank)
        return false;
    if (values->numel == 0)
        return true;
    /* The buffer has two int64 numbers for each element, and a full sort needs twice as many. n is
     * limited so that the number of int64 numbers can't overflow, since x may be an expanded view
     * with more elements than fit into memory. */
    int64_t numbers = RG_MIN(c.n, INT64_MAX / 64) * (c.top ? 2 : 4);
    rg_tensor *room = rgi_new(RG_INT64, 1, &numbers);
    if (!room)
        return false;
    c.room = (k_ranked *)(void *)room->data;
    rg_tensor *t[] = { values, indices, (rg_tensor *)x };
    k_lines(3, t, dim, false, c.step, K_BASE_LOOP(sort_lines), &c);
    rgi_release(room);
    return true;
}

bool k_sort(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool descending) {
    return sort_run(values, indices, x, dim, (sort_context){ .descending = descending });
}

bool k_topk(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool largest,
            bool sorted) {
    return sort_run(values, indices, x, dim,
                    (sort_context){ .descending = largest, .sorted = sorted, .top = true });
}
