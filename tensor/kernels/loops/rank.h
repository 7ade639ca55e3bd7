/*
 * loops/rank.h: computes the keys by which elements of one type are sorted.
 */

/* Writes to q[i] the index i and the key of element i, for n elements that lie `step` bytes apart.
 * Keys ascend with the elements, or descend if `descending`. */
static void K_NAME(rank)(k_ranked *q, const char *x, int64_t step, int64_t n, bool descending) {
    for (int64_t i = 0; i < n; i++) {
        const T element = *(const T *)(x + i * step);
#if K_IS_FLOAT
        q[i].key = k_rank(element, descending);
#else
        q[i].key = (int64_t)element ^ -(int64_t)descending;
#endif
        q[i].index = i;
    }
}
