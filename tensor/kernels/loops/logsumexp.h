/*
 * loops/logsumexp.h: what logsumexp does with the greatest elements and with the sums.
 */

/* Each of these functions changes n elements of y, by a number or by the elements of another
 * tensor. */

/* y = y, but 0 where y is infinite */
static void K_NAME(logsumexp_finite)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)number;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = isinf(v[i]) ? 0 : v[i];
}

/* y = ln y + other */
static void K_NAME(logsumexp_log)(void *y, int64_t n, double number, const void *other) {
    const T *more = other;
    T *v = y;
    (void)number;
    for (int64_t i = 0; i < n; i++)
        v[i] = log(v[i]) + more[i];
}
