/*
 * loops/rank.h: computes the keys by which elements of one type are sorted.
 */

/* For each of n elements, which are `step` bytes apart, writes the element's index i and its key to
 * q[i]. Keys have the order of the elements, or the inverse order if `descending`. */
static void K_NAME(rank)(k_ranked *q, const char *x, int64_t step, int64_t n, bool descending) {
    for (int64_t i = 0; i < n; i++) {
        const T element = *(const T *)(x + i * step);
#if K_IS_FLOAT
        q[i].key = k_rank((double)element, descending);
#else
        q[i].key = (int64_t)element ^ -(int64_t)descending;
#endif
        q[i].index = i;
    }
}
