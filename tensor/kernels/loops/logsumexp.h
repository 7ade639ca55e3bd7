/*
 * loops/logsumexp.h: two elementwise loops of k_logsumexp, compiled for each element type (see
 * sets.h): logsumexp_finite replaces infinite maxima by 0, and logsumexp_log computes the result
 * from the sums of exponentials and the maxima.
 */

/* The two functions are finish_loops (kernels/reduce.h): they change n elements of y in place.
 * Neither of them uses the parameter `number`. */

/* y = isinf(y) ? 0 : y. Other finish_loops read `other`; this one doesn't. */
static void K_NAME(logsumexp_finite)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)number;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = isinf(v[i]) ? 0 : v[i];
}

/* y = ln(y) + other, where `other` has the maxima. */
static void K_NAME(logsumexp_log)(void *y, int64_t n, double number, const void *other) {
    const T *more = other;
    T *v = y;
    (void)number;
    for (int64_t i = 0; i < n; i++)
        v[i] = log(v[i]) + more[i];
}
