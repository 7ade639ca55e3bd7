/*
 * top.c: finds the k items with the smallest keys. If several items have equal keys, the algorithm
 * decides which of these items are found. To find the same items as torch.topk, this file follows
 * exactly the algorithms of the C++ library that torch uses: a heap of k items if k is small;
 * otherwise quickselect with the median of three, followed by quicksort. (Whole lines are sorted by
 * sort.c.)
 */
#include "kernels.h"

/* ---- a heap, with the greatest key on top ---------------------------------------------------- */

/* Puts v into a heap that has a hole at index i: moves the hole down to a leaf, along the greater
 * child each time, and then moves v up from there to its place. */
static void top_sift(k_ranked *q, int64_t n, int64_t i, k_ranked v) {
    const int64_t top = i;
    for (int64_t child = 2 * i + 2; child <= n; child = 2 * i + 2) {
        if (child == n || q[child].key < q[child - 1].key)
            child--;
        q[i] = q[child];
        i = child;
    }
    while (i > top && q[(i - 1) / 2].key < v.key) {
        q[i] = q[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q[i] = v;
}

/* Swaps the top of a heap of n items with the item at *place, and restores the heap. */
static void top_exchange(k_ranked *q, int64_t n, k_ranked *place) {
    const k_ranked v = *place;
    *place = q[0];
    top_sift(q, n, 0, v);
}

/* Makes q[0] .. q[k - 1] a heap of the k smallest of n items. */
static void top_heap(k_ranked *q, int64_t n, int64_t k) {
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        top_sift(q, k, i, q[i]);
    for (int64_t i = k; i < n; i++)
        if (q[i].key < q[0].key)
            top_exchange(q, k, &q[i]);
}

static void top_sort_heap(k_ranked *q, int64_t n) {
    for (int64_t last = n - 1; last > 0; last--)
        top_exchange(q, last, &q[last]);
}

/* ---- quickselect and quicksort ----------------------------------------------------------- */

static void top_insertion_sort(k_ranked *q, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const k_ranked v = q[i];
        int64_t at = i;
        for (; at > 0 && v.key < q[at - 1].key; at--)
            q[at] = q[at - 1];
        q[at] = v;
    }
}

/* Returns which of the three items has the median key. */
static k_ranked *top_median(k_ranked *a, k_ranked *b, k_ranked *c) {
    if (a->key < b->key) {
        if (b->key < c->key)
            return b;
        return a->key < c->key ? c : a;
    }
    if (a->key < c->key)
        return a;
    return b->key < c->key ? c : b;
}

/* Partitions the items around the median of the second, the middle and the last item. Returns the
 * index of the first item of the upper part. */
static int64_t top_partition(k_ranked *q, int64_t n) {
    k_ranked *median = top_median(q + 1, q + n / 2, q + n - 1);
    RG_SWAP(*q, *median);
    int64_t j = n;
    for (int64_t i = 1;; i++) {
        while (q[i].key < q[0].key)
            i++;
        do
            j--;
        while (q[0].key < q[j].key);
        if (i >= j)
            return i;
        RG_SWAP(q[i], q[j]);
    }
}

/* Returns after how many partitions of n items a heap is used instead, so that the time doesn't
 * grow with n^2 in the worst case. */
static int top_depth(int64_t n) { return 2 * (63 - __builtin_clzll((uint64_t)n)); }

/* Moves the k-th smallest item to its place in sorted order, and the smaller items before it. */
static void top_select(k_ranked *q, int64_t n, int64_t k) {
    for (int depth = top_depth(n); n > 3; depth--) {
        if (depth == 0) {
            top_heap(q, n, k);
            RG_SWAP(q[0], q[k - 1]);
            return;
        }
        const int64_t cut = top_partition(q, n);
        if (cut < k) {
            q += cut;
            n -= cut;
            k -= cut;
        } else {
            n = cut;
        }
    }
    top_insertion_sort(q, n);
}

/* Sorts n items, except that ranges of up to sixteen items are left unsorted; an insertion sort by
 * the caller finishes them. */
static void top_quicksort(k_ranked *q, int64_t n, int depth) {
    for (; n > 16; depth--) {
        if (depth == 0) {
            top_heap(q, n, n);
            top_sort_heap(q, n);
            return;
        }
        const int64_t cut = top_partition(q, n);
        top_quicksort(q + cut, n - cut, depth - 1);
        n = cut;
    }
}

void k_top(k_ranked *q, int64_t n, int64_t k, bool sorted) {
    if (k <= 0)
        return;
    if (k <= n / 64) {
        top_heap(q, n, k);
        top_sort_heap(q, k);
        return;
    }
    top_select(q, n, k);
    if (!sorted || k < 2)
        return;
    top_quicksort(q, k - 1, top_depth(k - 1));
    top_insertion_sort(q, k - 1);
}
