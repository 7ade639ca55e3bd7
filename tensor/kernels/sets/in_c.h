/*
 * in_c.h: the operations that sets.h lists, for vectors of any width. The header of a set includes
 * this file if the set may lack a fused multiply-add.
 */

/* to[i] = table[at[i] % 16] for n floats; n must be a multiple of 16. */
K_INLINE void K_IN_SET(k_look_up)(float *to, int n, const float *table, const int32_t *at) {
    for (int i = 0; i < n; i++)
        to[i] = table[at[i] & 15];
}

/* sum[i] += a[i] * b[i] for n floats, a multiple of 4, rounded once.
 *
 * Without an instruction for it, the sum is computed in double, in which the product is exact. A
 * sum that isn't exact is rounded to the neighbour whose last bit is 1; rounding it to float then
 * gives the same as rounding the exact sum. */
#if defined __FP_FAST_FMAF || defined __FMA__ || defined __aarch64__ || defined __ARM_FEATURE_FMA
K_INLINE void K_IN_SET(k_multiply_add_floats)(float *sum, const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        sum[i] = __builtin_fmaf(a[i], b[i], sum[i]);
}
#elif defined K_X86
/* Returns a * b + c for the first two floats, rounded once. */
K_INLINE __m128 K_IN_SET(k_fused_two)(__m128 a, __m128 b, __m128 c_float) {
    const __m128d zero = { 0 }, c = _mm_cvtps_pd(c_float);
    const __m128d product = _mm_cvtps_pd(a) * _mm_cvtps_pd(b);
    const __m128d all = product + c, added = all - product;
    const __m128d lost = (product - (all - added)) + (c - added);
    /* `nearer` is -1 where the exact sum is nearer to 0 than the rounded one. `change` is 1 where
     * the sum isn't exact and its last bit is 0. */
    const __m128d negative = _mm_cmplt_pd(lost, zero), positive = _mm_cmplt_pd(zero, lost);
    const __m128i nearer = _mm_castpd_si128(_mm_xor_pd(negative, _mm_cmplt_pd(all, zero)));
    const __m128i inexact = _mm_castpd_si128(_mm_or_pd(negative, positive));
    const __m128i bits = _mm_castpd_si128(all), one = _mm_set1_epi64x(1);
    const __m128i change = _mm_and_si128(_mm_andnot_si128(bits, one), inexact);
    const __m128i moved = _mm_sub_epi64(_mm_xor_si128(change, nearer), nearer);
    return _mm_cvtpd_ps(_mm_castsi128_pd(_mm_add_epi64(bits, moved)));
}
K_CALLED void K_IN_SET(k_multiply_add_floats)(float *sum, const float *a, const float *b, int n) {
    for (int i = 0; i < n; i += 4) {
        const __m128 x = _mm_loadu_ps(a + i), y = _mm_loadu_ps(b + i), z = _mm_loadu_ps(sum + i);
        const __m128 low = K_IN_SET(k_fused_two)(x, y, z);
        const __m128 high = K_IN_SET(k_fused_two)(_mm_movehl_ps(x, x), _mm_movehl_ps(y, y),
                                                  _mm_movehl_ps(z, z));
        _mm_storeu_ps(sum + i, _mm_movelh_ps(low, high));
    }
}
#else
K_CALLED void K_IN_SET(k_multiply_add_floats)(float *sum, const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++) {
        const double product = (double)a[i] * b[i], all = product + sum[i];
        const double added = all - product;
        const double lost = (product - (all - added)) + (sum[i] - added);
        double odd;
        uint64_t bits;
        memcpy(&bits, &all, sizeof bits);
        if ((lost > 0 || lost < 0) && !(bits & 1))
            bits += (lost > 0) == (all > 0) ? 1 : (uint64_t)-1;
        memcpy(&odd, &bits, sizeof odd);
        sum[i] = (float)odd;
    }
}
#endif
/* libm's function rounds once, with an instruction if the processor has one. */
K_CALLED void K_IN_SET(k_multiply_add_doubles)(double *sum, const double *a, const double *b,
                                               int n) {
    for (int i = 0; i < n; i++)
        sum[i] = __builtin_fma(a[i], b[i], sum[i]);
}

/* sum += a * b for one vector, and for 32 bytes, rounded once. */
K_INLINE void K_IN_SET(k_multiply_add_float)(void *sum, const void *a, const void *b) {
    K_IN_SET(k_multiply_add_floats)(sum, a, b, K_VECTOR_BYTES / sizeof(float));
}
K_INLINE void K_IN_SET(k_multiply_add_double)(void *sum, const void *a, const void *b) {
    K_IN_SET(k_multiply_add_doubles)(sum, a, b, K_VECTOR_BYTES / sizeof(double));
}
K_INLINE void K_IN_SET(k_multiply_add_narrow_float)(void *sum, const void *a, const void *b) {
    K_IN_SET(k_multiply_add_floats)(sum, a, b, 32 / sizeof(float));
}
K_INLINE void K_IN_SET(k_multiply_add_narrow_double)(void *sum, const void *a, const void *b) {
    K_IN_SET(k_multiply_add_doubles)(sum, a, b, 32 / sizeof(double));
}
