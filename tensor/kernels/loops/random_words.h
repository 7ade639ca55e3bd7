/*
 * loops/random_words.h: the random words of mt19937, floats in [0, 1) from words, and pairs of
 * normal numbers from pairs of uniform numbers.
 */

static inline uint32_t K_IN_SET(random_twisted)(uint32_t a, uint32_t b) {
    const uint32_t joined = (a & 0x80000000u) | (b & 0x7fffffffu);
    return joined >> 1 ^ (-(b & 1u) & 0x9908b0dfu);
}

/* Replaces the K_RANDOM_WORDS words of the state by the next block of words. */
static void K_IN_SET(random_twist)(uint32_t *s) {
    enum { WORDS = K_RANDOM_WORDS, SHIFT = 397 };
    int i = 0;
    for (; i < WORDS - SHIFT; i++)
        s[i] = s[i + SHIFT] ^ K_IN_SET(random_twisted)(s[i], s[i + 1]);
    for (; i < WORDS - 1; i++)
        s[i] = s[i + SHIFT - WORDS] ^ K_IN_SET(random_twisted)(s[i], s[i + 1]);
    s[i] = s[i + SHIFT - WORDS] ^ K_IN_SET(random_twisted)(s[i], s[0]);
}

static void K_IN_SET(random_temper)(const uint32_t *from, uint32_t *to, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t y = from[i];
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c5680u;
        y ^= y << 15 & 0xefc60000u;
        to[i] = y ^ y >> 18;
    }
}

/* Writes floats in [0, 1): a float is the low 24 bits of a word, divided by 2^24. */
static void K_IN_SET(random_floats)(const uint32_t *words, float *to, int n) {
    for (int i = 0; i < n; i++)
        to[i] = (float)(int32_t)(words[i] & 0xffffff) * 0x1p-24f;
}

/* ---- the transform of Box and Muller ------------------------------------------------------------
 * u and v in [0, 1) become sqrt(-2 ln(1 - u)) * cos(2 pi v) and sqrt(-2 ln(1 - u)) * sin(2 pi v).
 * The polynomials for floats are fitted so that the largest error is minimal: at most 1e-8. */

/* Returns ln(x) for a float in (0, 1]. x is m * 2^e with sqrt(1/2) <= m < sqrt(2); e * ln(2) is
 * added in two parts, for accuracy. */
K_INLINE float K_IN_SET(random_ln)(float x) {
    int32_t bits = k_bits_float(x);
    const int32_t e = (bits - 0x3f3504f3) >> 23;
    bits -= e * (1 << 23);
    const float f = k_from_bits_float(bits) - 1;
    float p = -0.12384348f + f * (0.11872976f + f * (-0.11789808f + f * 0.06915368f));
    p = -0.24999987f + f * (0.20002227f + f * (-0.16669251f + f * (0.14218658f + f * p)));
    const float rest = f * f * ((0.3333331f + f * p) * f - 0.5f) + (float)e * 0x1.7f7d1cp-20f;
    return f + rest + (float)e * 0x1.62e4p-1f;
}

K_INLINE void K_IN_SET(random_pair_float)(float *u, float *v) {
    const float radius = sqrtf(-2 * K_IN_SET(random_ln)(1 - *u));
    const float theta = 0x1.921fb6p+2f * *v;
    const int32_t quadrant = (int32_t)(theta * 0x1.45f306p-1f + 0.5f);
    const float r = theta - (float)quadrant * 0x1.921fap+0f - (float)quadrant * 0x1.54442ep-20f;
    const float r2 = r * r;
    const float s = r + r * r2 * (-0x1.555546p-3f + r2 * (0x1.11076p-7f - r2 * 0x1.994e86p-13f));
    const float c = 1 - 0.5f * r2
                    + r2 * r2 * (0x1.55554ap-5f + r2 * (-0x1.6c0c8cp-10f + r2 * 0x1.9a023p-16f));
    /* In odd quadrants sine and cosine are exchanged. */
    const int32_t change = (k_bits_float(s) ^ k_bits_float(c)) & -(quadrant & 1);
    const int32_t cosine = k_bits_float(c) ^ change;
    const int32_t sine = k_bits_float(s) ^ change;
    const uint32_t cosine_sign = (uint32_t)(quadrant + 1) << 30 & 0x80000000u;
    const uint32_t sine_sign = (uint32_t)quadrant << 30 & 0x80000000u;
    *u = radius * k_from_bits_float(cosine ^ (int32_t)cosine_sign);
    *v = radius * k_from_bits_float(sine ^ (int32_t)sine_sign);
}

K_INLINE void K_IN_SET(random_pair_double)(double *u, double *v) {
    const double radius = sqrt(-2 * log(1 - *u));
    const double theta = 2 * M_PI * *v;
    *u = radius * cos(theta);
    *v = radius * sin(theta);
}
