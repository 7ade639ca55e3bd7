/*
 * loops/circle.h: sine, cosine and tangent, compiled for each floating type and instruction set
 * (see sets.h). special.h includes this file. For floats whose absolute value is below CIRCLE_MOST,
 * the functions are short polynomials. Their loops vectorise, and the results are within 1.6 units
 * in the last place of the true values. For larger floats, infinities, NaN and all doubles, the
 * functions call libm.
 */
#if K_SIZE == 4

/* Returns sin(x + quarter * pi / 2), by the reduction of Cody and Waite: x = n * pi / 2 + r with
 * |r| <= pi / 4. If the number of quarters, n + quarter, is odd, cos(r) takes the place of sin(r).
 * If that number is 2 or 3 modulo 4, the result is negated. pi / 2 is split into three parts, which
 * are rounded down so that all of them are positive. With a negative part, sin(-0) would be 0, not
 * -0. */
K_INLINE float K_NAME(circle_at)(float x, uint32_t quarter) {
    const float magic = 12582912.f; /* Adding 3 * 2^22 rounds a float to an integer. */
    const float shifted = fmaf(x, 0.636619772f, magic);
    const float n = shifted - magic;
    float r = fmaf(n, -0x1.921fb4p+0f, x);
    r = fmaf(n, -0x1.4442dp-24f, r);
    r = fmaf(n, -0x1.846988p-48f, r);
    const float z = r * r;
    float s = fmaf(fmaf(-0x1.994388p-13f, z, 0x1.11073ap-7f), z, -0x1.555546p-3f);
    float c = fmaf(fmaf(0x1.99eb4ap-16f, z, -0x1.6c0c32p-10f), z, 0x1.55554ap-5f);
    s = copysignf(fmaf(r * z, s, r), r);
    c = fmaf(z * z, c, fmaf(z, -0.5f, 1));
    quarter += (uint32_t)k_bits_float(shifted);
    const int32_t sign = (int32_t)(quarter << 30 & 0x80000000u);
    return k_from_bits_float(k_bits_float(k_either(quarter & 1, c, s)) ^ sign);
}

K_INLINE float K_NAME(sin_near)(float x, const float *k) {
    (void)k;
    return K_NAME(circle_at)(x, 0);
}

K_INLINE float K_NAME(cos_near)(float x, const float *k) {
    (void)k;
    return K_NAME(circle_at)(x, 1);
}

/* Returns tan(x). The reduction is that of circle_at, but computed in double. If n is odd, the
 * result is -1 / tan(r). */
K_INLINE float K_NAME(tan_near)(float x, const float *k) {
    (void)k;
    const double magic = 6755399441055744; /* Adding 3 * 2^51 rounds a double to an integer. */
    const double shifted = (double)x * M_2_PI + magic;
    const double n = shifted - magic;
    const double r = (double)x - n * 0x1.921fb544p+0 - n * 0x1.0b4611a626331p-34;
    const double z = r * r;
    double t = ((0.00437405147 * z + 9.59557074e-05) * z + 0.0108288424) * z + 0.021285845;
    t = r + r * z * (((t * z + 0.0540589467) * z + 0.133326754) * z + 0.333333492);
    return (float)(k_bits_double(shifted) & 1 ? -1 / t : t);
}

K_INLINE float K_NAME(sin_any)(float x, const float *k) {
    return fabsf(x) < CIRCLE_MOST ? K_NAME(sin_near)(x, k) : sinf(x);
}

K_INLINE float K_NAME(cos_any)(float x, const float *k) {
    return fabsf(x) < CIRCLE_MOST ? K_NAME(cos_near)(x, k) : cosf(x);
}

K_INLINE float K_NAME(tan_any)(float x, const float *k) {
    return fabsf(x) < CIRCLE_MOST ? K_NAME(tan_near)(x, k) : tanf(x);
}

/* Returns whether the absolute values of all n elements are below CIRCLE_MOST. If an element is
 * NaN, the result is false. */
static bool K_NAME(circle_near)(const float *x, int64_t n) {
    int32_t far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !(fabsf(x[i]) < CIRCLE_MOST);
    return !far;
}

/* Computes n elements, in blocks of CIRCLE_BLOCK. A block is computed by `near` if circle_near is
 * true for the block, otherwise by `any`. Both functions give the same bits for an element whose
 * absolute value is below CIRCLE_MOST. So a result doesn't depend on the other elements of its
 * block. `heavy` is the loop that calls this function; if x or y isn't contiguous, k_run_beside
 * calls that loop again with contiguous copies. */
K_INLINE void K_NAME(circle_blocks)(char *const p[], const int64_t s[], int64_t n, rg_loop *heavy,
                                    K_MAP(_map_1_function) * near, K_MAP(_map_1_function) * any) {
    if (s[0] != sizeof(float) || s[1] != sizeof(float)) {
        k_run_beside(heavy, 2, (const int[]){ sizeof(float), sizeof(float) }, p, s, n, NULL);
        return;
    }
    for (int64_t i = 0; i < n; i += CIRCLE_BLOCK) {
        float *y = (float *)p[0] + i;
        const float *x = (const float *)p[1] + i;
        const int64_t m = RG_MIN(n - i, CIRCLE_BLOCK);
        if (K_NAME(circle_near)(x, m)) {
            K_INDEPENDENT
            for (int64_t j = 0; j < m; j++)
                y[j] = near(x[j], NULL);
        } else {
            K_INDEPENDENT
            for (int64_t j = 0; j < m; j++)
                y[j] = any(x[j], NULL);
        }
    }
}

K_LOOP_HEAD(sin) {
    (void)context;
    K_NAME(circle_blocks)(p, s, n, K_NAME(sin_loop), K_NAME(sin_near), K_NAME(sin_any));
}
K_LOOP_HEAD(cos) {
    (void)context;
    K_NAME(circle_blocks)(p, s, n, K_NAME(cos_loop), K_NAME(cos_near), K_NAME(cos_any));
}
K_LOOP_HEAD(tan) {
    (void)context;
    K_NAME(circle_blocks)(p, s, n, K_NAME(tan_loop), K_NAME(tan_near), K_NAME(tan_any));
}

#else

K_INLINE T K_NAME(sin)(T x) { return sin(x); }

K_INLINE T K_NAME(cos)(T x) { return cos(x); }

K_INLINE T K_NAME(tan)(T x) { return tan(x); }

K_HEAVY_1(sin)
K_HEAVY_1(cos)
K_HEAVY_1(tan)

#endif
