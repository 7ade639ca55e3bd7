/*
 * loops/random_draw.h: fills n elements of one type, which are `step` bytes apart, with random
 * numbers of a generator's stream. The numbers, and the order in which they are drawn, are torch's.
 * `a` and `b` are the parameters of the distribution.
 */

#if K_IS_FLOAT

/* Fills with numbers that are uniform in [a, b). Numbers that don't follow each other in memory are
 * drawn into a chunk first. */
static void K_NAME(random_uniform)(k_random_stream *s, char *to, int64_t step, int64_t n, double a,
                                   double b) {
    T chunk[K_RANDOM_CHUNK];
    for (int64_t from = 0; from < n; from += K_RANDOM_CHUNK) {
        const int m = (int)RG_MIN(n - from, K_RANDOM_CHUNK);
        char *at = to + from * step;
        T *y = step == (int64_t)sizeof(T) ? (T *)(void *)at : chunk;
        K_NAME(random_unit)(s, y, m);
        if (a != 0 || b != 1)
            K_RANDOM_STRETCH(y, m, a, b);
        for (int i = 0; i < m && y == chunk; i++)
            *(T *)(void *)(at + i * step) = chunk[i];
    }
}

/* Draws n normal numbers with mean a and standard deviation b; n is a multiple of sixteen, and at
 * most K_RANDOM_CHUNK. */
K_INLINE void K_NAME(random_sixteens)(k_random_stream *s, T *y, int n, double a, double b) {
    K_NAME(random_unit)(s, y, n);
    K_RANDOM_NORMALS(y, n);
    if (a != 0 || b != 1)
        K_RANDOM_SCALE(y, n, b, a);
}

/* Fills at least sixteen contiguous elements with normal numbers, in blocks of sixteen. If n isn't
 * a multiple of sixteen, does the same as torch: draws words for the last n % 16 elements and
 * discards them, and then draws the last sixteen elements again. */
static void K_NAME(random_blocks)(k_random_stream *s, char *to, int64_t step, int64_t n, double a,
                                  double b) {
    T *y = (T *)(void *)to;
    const int rest = (int)(n % 16);
    (void)step;
    for (int64_t from = 0; from < n - rest; from += K_RANDOM_CHUNK)
        K_NAME(random_sixteens)(s, y + from, (int)RG_MIN(n - rest - from, K_RANDOM_CHUNK), a, b);
    if (rest) {
        uint32_t unused[32];
        K_IN_SET(random_words)(s, unused, rest * (int)(sizeof(T) / sizeof *unused));
        K_NAME(random_sixteens)(s, y + n - 16, 16, a, b);
    }
}

/* Fills with normal numbers, in pairs, which are computed as doubles. */
static void K_NAME(random_pairs)(k_random_stream *s, char *to, int64_t step, int64_t n, double a,
                                 double b) {
    for (int64_t i = 0; i < n; i++) {
        const double z = K_IN_SET(random_normal)(s);
        *(T *)(void *)(to + i * step) = (T)fma(z, b, a);
    }
}

#endif

/* Fills with 1 with probability a, else 0: with u < a for a uniform u in [0, 1). */
static void K_NAME(random_bernoulli)(k_random_stream *s, char *to, int64_t step, int64_t n,
                                     double a, double b) {
    double u[K_RANDOM_CHUNK];
    (void)b;
    for (int64_t from = 0; from < n; from += K_RANDOM_CHUNK) {
        const int m = (int)RG_MIN(n - from, K_RANDOM_CHUNK);
        K_IN_SET(random_unit_double)(s, u, m);
        for (int i = 0; i < m; i++)
            *(T *)(void *)(to + (from + i) * step) = (T)(u[i] < a);
    }
}
