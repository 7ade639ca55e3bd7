/*
 * loops/counts_reach.h: compares numbers of elements with a number.
 */

/* Sets y[i] to whether the number at other[i] is `number` or greater, for n elements. */
static void K_IN_SET(counts_reach)(void *y, int64_t n, double number, const void *other) {
    const int64_t *count = other;
    for (int64_t i = 0; i < n; i++)
        ((bool *)y)[i] = count[i] >= (int64_t)number;
}
