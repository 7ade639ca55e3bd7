/*
 * avx512.h: the instruction set AVX-512, with the extensions that every server processor with
 * AVX-512 has; its vectors have 64 bytes. sse2.h explains the headers of instruction sets.
 */
#ifndef RG_SETS_AVX512_H
/* Returns whether this processor has the instruction set. */
static inline bool k_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

#define K_SET_SUFFIX    avx512
#define K_SET_IS_AVX512 1
#define K_VECTOR_BYTES  64
#define K_TILE_ROWS     8

#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#endif

#ifndef RG_SETS_AVX512_H
#define RG_SETS_AVX512_H

/* Writes a line of 64 bytes past the caches. The address `to` must be a multiple of 64. */
K_INLINE void k_stream_line_avx512(void *to, const void *from) {
    _mm512_stream_ps(to, _mm512_loadu_ps(from));
}

/* to[i] = table[at[i] % 16] for n floats; n must be a multiple of 16. */
K_INLINE void k_look_up_avx512(float *to, int n, const float *table, const int32_t *at) {
    K_IN_REGISTERS for (int i = 0; i < n; i += 16) {
        __m512i index = _mm512_loadu_si512(at + i);
        _mm512_storeu_ps(to + i, _mm512_permutexvar_ps(index, _mm512_loadu_ps(table)));
    }
}

/* sum += a * b for one vector, rounded once. */
K_INLINE void k_multiply_add_float_avx512(void *sum, const void *a, const void *b) {
    _mm512_storeu_ps(sum,
                     _mm512_fmadd_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(b), _mm512_loadu_ps(sum)));
}
K_INLINE void k_multiply_add_double_avx512(void *sum, const void *a, const void *b) {
    _mm512_storeu_pd(sum,
                     _mm512_fmadd_pd(_mm512_loadu_pd(a), _mm512_loadu_pd(b), _mm512_loadu_pd(sum)));
}
/* sum += a * b for 32 bytes, half a vector, rounded once as well. */
K_INLINE void k_multiply_add_narrow_float_avx512(void *sum, const void *a, const void *b) {
    _mm256_storeu_ps(sum,
                     _mm256_fmadd_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b), _mm256_loadu_ps(sum)));
}
K_INLINE void k_multiply_add_narrow_double_avx512(void *sum, const void *a, const void *b) {
    _mm256_storeu_pd(sum,
                     _mm256_fmadd_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b), _mm256_loadu_pd(sum)));
}

#endif
