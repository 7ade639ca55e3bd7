/*
 * merge_sort.h: a stable merge sort of ranked items (k_ranked: the index of an element, and its
 * key), by a comparison that the caller passes.
 */
#pragma once

#include "kernels.h"

/* Returns whether item a must come before item b in the sorted order. */
typedef bool k_before(const k_ranked *a, const k_ranked *b, const void *context);

/* Inserts item i into the items from `start` to i - 1, which are sorted. If item i precedes all
 * these items, one memmove moves them. */
static inline __attribute__((always_inline)) void merge_sort_insert(k_ranked *q, int64_t start,
                                                                    int64_t i, k_before *before,
                                                                    const void *context) {
    const k_ranked item = q[i];
    int64_t j = i;
    if (before(&item, &q[start], context)) {
        memmove(q + start + 1, q + start, (size_t)(i - start) * sizeof *q);
        j = start;
    } else {
        for (; before(&item, &q[j - 1], context); j--)
            q[j] = q[j - 1];
    }
    q[j] = item;
}

/* Merges two sorted ranges of q, [start, middle) and [middle, end), into the range [start, end) of
 * `to`. The order of equal items is preserved. */
static inline __attribute__((always_inline)) void merge_sort_merge(k_ranked *to, const k_ranked *q,
                                                                   int64_t start, int64_t middle,
                                                                   int64_t end, k_before *before,
                                                                   const void *context) {
    int64_t a = start;
    int64_t b = middle;
    for (int64_t k = start; k < end; k++) {
        bool first = a < middle && (b == end || !before(&q[b], &q[a], context));
        to[k] = first ? q[a++] : q[b++];
    }
}

/* Sorts n items. First sorts ranges of RUN items by insertion; then merges two neighbouring ranges
 * at a time, until one range is left. `aside` is scratch memory for n items. Returns where the
 * sorted items are: q or aside. */
static inline __attribute__((always_inline)) k_ranked *k_merge_sort(k_ranked *q, k_ranked *aside,
                                                                    int64_t n, k_before *before,
                                                                    const void *context) {
    enum { RUN = 16 };
    for (int64_t start = 0; start < n; start += RUN)
        for (int64_t i = start + 1; i < RG_MIN(start + RUN, n); i++)
            merge_sort_insert(q, start, i, before, context);
    for (int64_t width = RUN; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            int64_t middle = RG_MIN(start + width, n);
            int64_t end = RG_MIN(start + 2 * width, n);
            merge_sort_merge(aside, q, start, middle, end, before, context);
        }
        RG_SWAP(q, aside);
    }
    return q;
}
