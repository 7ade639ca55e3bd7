/*
 * loops/rank.h: reads elements of one type as keys by which they are ranked.
 */

/* Gives each of n elements, `step` bytes apart, a key that grows with the element, or falls if
 * descending, and notes its place. */
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
