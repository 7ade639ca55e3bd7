/*
 * avx2.h: the instruction set AVX2 with fused multiply-add; its vectors have 32 bytes. sse2.h
 * explains the headers of instruction sets.
 */
#ifndef RG_SETS_AVX2_H
/* Returns whether this processor has the instruction set. */
static inline bool k_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#define K_SET_SUFFIX   avx2
#define K_SET_IS_AVX2  1
#define K_VECTOR_BYTES 32
#define K_TILE_ROWS    6

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#ifndef RG_SETS_AVX2_H
#define RG_SETS_AVX2_H

/* Writes a line of 64 bytes past the caches. The address `to` must be a multiple of 64. */
K_INLINE void k_stream_line_avx2(void *to, const void *from) {
    for (int k = 0; k < 16; k += 8)
        _mm256_stream_ps((float *)to + k, _mm256_loadu_ps((const float *)from + k));
}

/* to[i] = table[at[i] % 16] for n floats; n must be a multiple of 16. One instruction looks up
 * eight floats in half of the table, by three bits of each index; the fourth bit of the index
 * selects the half. */
K_INLINE void k_look_up_avx2(float *to, int n, const float *table, const int32_t *at) {
    K_IN_REGISTERS for (int i = 0; i < n; i += 8) {
        __m256i index = _mm256_loadu_si256((const __m256i *)(at + i));
        __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
        __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
        __m256 fourth_bit = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
        _mm256_storeu_ps(to + i, _mm256_blendv_ps(low, high, fourth_bit));
    }
}

/* sum += a * b for one vector, rounded once. */
K_INLINE void k_multiply_add_float_avx2(void *sum, const void *a, const void *b) {
    _mm256_storeu_ps(sum,
                     _mm256_fmadd_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b), _mm256_loadu_ps(sum)));
}
K_INLINE void k_multiply_add_double_avx2(void *sum, const void *a, const void *b) {
    _mm256_storeu_pd(sum,
                     _mm256_fmadd_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b), _mm256_loadu_pd(sum)));
}
/* sum += a * b for 32 bytes, which is one vector in this set. */
K_INLINE void k_multiply_add_narrow_float_avx2(void *sum, const void *a, const void *b) {
    k_multiply_add_float_avx2(sum, a, b);
}
K_INLINE void k_multiply_add_narrow_double_avx2(void *sum, const void *a, const void *b) {
    k_multiply_add_double_avx2(sum, a, b);
}

#endif
