/*
 * loops/moments.h: two loops for means and variances, compiled for each element type (see sets.h).
 * moments_divide divides sums by a number, and `spread` sums the squares of the distances from a
 * mean.
 */

/* moments_divide is a finish_loop (kernels/reduce.h): it changes n elements of y in place. */

/* y = y / number. Other finish_loops read `other`; this one doesn't. */
static void K_NAME(moments_divide)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = v[i] / (T)number;
}

/* lane[k] += (x[i] - mean)^2 for i = k, k + 8, k + 16, and so on below n, which must be a multiple
 * of 8. There are eight sums so that the loop vectorises; the caller adds them up. */
static void K_NAME(spread_beside)(const T *x, int64_t n, double mean, double lane[8]) {
    for (int64_t i = 0; i < n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += ((double)x[i + k] - mean) * ((double)x[i + k] - mean);
}

/* m2 += (x - mean)^2 for n elements. p[0] is x, p[1] is m2, and p[2] is the mean. If s[1] is 0, all
 * squares are added to one element of m2. In that case s[2] is 0 as well, since m2 and the mean
 * have the same shape. */
static void K_NAME(spread)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const T *restrict x = (const T *)p[0];
    double *restrict m2 = (double *)p[1];
    const double *restrict mean = (const double *)p[2];
    double lane[8] = { 0 };
    int64_t i = 0;
    (void)context;
    if (s[0] == sizeof(T) && s[1] == sizeof(double)) {
        for (; i < n; i++)
            m2[i] += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);
        return;
    }
    if (s[0] == sizeof(T) && s[1] == 0) {
        i = n / 8 * 8;
        K_NAME(spread_beside)(x, i, *mean, lane);
    }
    for (; i < n; i++) {
        double v = (double)*(const T *)(p[0] + i * s[0]) - *(const double *)(p[2] + i * s[2]);
        *(double *)(p[1] + i * s[1]) += v * v;
    }
    for (int k = 0; k < 8 && s[1] == 0; k++)
        *m2 += lane[k];
}
