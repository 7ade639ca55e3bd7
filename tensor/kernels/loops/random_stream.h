/*
 * loops/random_stream.h: the words of a generator's stream, and numbers in [0, 1) from them.
 */

static void K_IN_SET(random_words)(k_random_stream *s, uint32_t *to, int n) {
    while (n > 0) {
        if (s->left == 1) {
            K_RANDOM_TWIST(s->word);
            s->left = K_RANDOM_WORDS + 1;
            s->next = 0;
        }
        const int m = RG_MIN(n, s->left - 1);
        K_RANDOM_TEMPER(s->word + s->next, to, m);
        s->left -= m;
        s->next += m;
        to += m;
        n -= m;
    }
}

/* Draws n floats, at most K_RANDOM_CHUNK. A float is the low 24 bits of a word, divided by 2^24. */
static void K_IN_SET(random_unit_float)(k_random_stream *s, float *to, int n) {
    uint32_t words[K_RANDOM_CHUNK];
    K_IN_SET(random_words)(s, words, n);
    K_RANDOM_FLOATS(words, to, n);
}

/* Draws n doubles, at most K_RANDOM_CHUNK. A double is the low 53 bits of a pair of words, divided
 * by 2^53; the first word is the high half. */
static void K_IN_SET(random_unit_double)(k_random_stream *s, double *to, int n) {
    uint32_t words[2 * K_RANDOM_CHUNK];
    K_IN_SET(random_words)(s, words, 2 * n);
    for (int i = 0; i < n; i++) {
        const uint64_t pair = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
        to[i] = (double)(int64_t)(pair & 0x1fffffffffffff) * 0x1p-53;
    }
}

/* Draws a normal number. Numbers are drawn in pairs, and the second one is kept for the next
 * draw. */
static double K_IN_SET(random_normal)(k_random_stream *s) {
    double z = s->normal;
    if (!s->has_normal) {
        double u[2];
        K_IN_SET(random_unit_double)(s, u, 2);
        const double radius = sqrt(-2 * log1p(-u[1]));
        const double theta = 2 * M_PI * u[0];
        z = radius * cos(theta);
        s->normal = radius * sin(theta);
    }
    s->has_normal = !s->has_normal;
    return z;
}
