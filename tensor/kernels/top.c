/*
 * top.c: the first k of n by rank. Of equal ranks torch shows whichever its C++ library's
 * selection leaves in front, so the steps here are that library's: a heap of k where k is
 * small, else quickselect with the median of three, and then quicksort.
 */
#include "kernels.h"

/* Fills the hole at i: down to a leaf by the later child, then up to where v belongs. */
static void top_sift(k_ranked *q, int64_t n, int64_t i, k_ranked v) {
    int64_t top = i, child;
    for (; (child = 2 * i + 2) <= n; i = child) {
        if (child == n || q[child].key < q[child - 1].key)
            child--;
        q[i] = q[child];
    }
    for (int64_t parent; i > top && q[parent = (i - 1) / 2].key < v.key; i = parent)
        q[i] = q[parent];
    q[i] = v;
}

/* The top of a heap of n goes to *place, and what was there into the heap. */
static void top_exchange(k_ranked *q, int64_t n, k_ranked *place) {
    k_ranked v = *place;
    *place = q[0];
    top_sift(q, n, 0, v);
}

/* The k first of n, as a heap with the last of them on top. */
static void top_heap(k_ranked *q, int64_t n, int64_t k) {
    for (int64_t i = k / 2; i-- > 0;)
        top_sift(q, k, i, q[i]);
    for (int64_t i = k; i < n; i++)
        if (q[i].key < q[0].key)
            top_exchange(q, k, &q[i]);
}

static void top_sort_heap(k_ranked *q, int64_t n) {
    while (n-- > 1)
        top_exchange(q, n, &q[n]);
}

static void top_insertion_sort(k_ranked *q, int64_t n) {
    for (int64_t i = 1, at; i < n; i++) {
        k_ranked v = q[i];
        for (at = i; at > 0 && v.key < q[at - 1].key; at--)
            q[at] = q[at - 1];
        q[at] = v;
    }
}

/* Around the median of the second, the middle and the last; the first of the upper part. */
static int64_t top_partition(k_ranked *q, int64_t n) {
    k_ranked *a = q + 1, *b = q + n / 2, *c = q + n - 1;
    bool ab = a->key < b->key, bc = b->key < c->key, ac = a->key < c->key;
    k_ranked *median = ab ? (bc ? b : ac ? c : a) : (ac ? a : bc ? c : b);
    RG_SWAP(*q, *median);
    for (int64_t i = 1, j = n;; i++) {
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

static int top_depth(int64_t n) { return 2 * (63 - __builtin_clzll((uint64_t)n)); }

/* The k-th to its place, smaller ones before it. */
static void top_select(k_ranked *q, int64_t n, int64_t k) {
    for (int depth = top_depth(n); n > 3; depth--) {
        if (depth == 0) {
            top_heap(q, n, k);
            RG_SWAP(q[0], q[k - 1]);
            return;
        }
        int64_t cut = top_partition(q, n);
        if (cut < k)
            q += cut, n -= cut, k -= cut;
        else
            n = cut;
    }
    top_insertion_sort(q, n);
}

/* All but the last steps of quicksort; runs of up to sixteen stay as they are. */
static void top_quicksort(k_ranked *q, int64_t n, int depth) {
    for (; n > 16; depth--) {
        if (depth == 0)
            return top_heap(q, n, n), top_sort_heap(q, n);
        int64_t cut = top_partition(q, n);
        top_quicksort(q + cut, n - cut, depth - 1);
        n = cut;
    }
}

void k_top(k_ranked *q, int64_t n, int64_t k, bool sorted) {
    if (k <= 0)
        return;
    if (k <= n / 64)
        return top_heap(q, n, k), top_sort_heap(q, k);
    top_select(q, n, k);
    if (!sorted || k < 2)
        return;
    top_quicksort(q, k - 1, top_depth(k - 1));
    top_insertion_sort(q, k - 1);
}
