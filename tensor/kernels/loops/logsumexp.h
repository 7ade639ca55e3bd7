/*
 * loops/logsumexp.h: elementwise functions of logsumexp: one changes the maxima, and one the sums.
 */

/* Each of these functions changes n elements of y in place. `number` is a parameter, and `other`
 * the elements of another tensor. */

/* y = isinf(y) ? 0 : y */
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
