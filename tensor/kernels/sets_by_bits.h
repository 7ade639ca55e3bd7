/*
 * sets_by_bits.h: includes K_FILE once for each instruction set that it is compiled for, by the
 * bits of its vectors: K_BITS is 256 (AVX2), 512 (AVX-512), and last 128, for any
 * processor. K_SET(f) is the name of f in the set; K_PAST(to, from) writes a line of 64
 * bytes past the caches; K_LOOK_UP(to, table, at) gives floats of a table of sixteen, by
 * the last four bits of each in the array at. In the last set K_ONCE(text) is text, and
 * from there on K_SETS(f) are the functions of all sets, of which k_set is the one to run.
 * (Clones made by attribute would be chosen before ThreadSanitizer is ready.)
 */
#define K_SET(f)                     RG_PASTE(f, RG_PASTE(_, K_BITS))
#define K_PAST(to, from)             RG_PASTE(K_PAST_, K_BITS)(to, from)
#define K_LOOK_UP(to, table, at)     RG_PASTE(K_LOOK_UP_, K_BITS)(to, table, at)
#define K_EVERY(array, n)            for (int l = 0; l < (int)(sizeof(array) / 4); l += (n))
#define K_LOOK_UP_128(to, table, at) K_EVERY(at, 1)(to)[l] = (table)[(at)[l] & 15]
#define K_ONCE(...)
#ifdef __x86_64__
#include <immintrin.h>
#define K_SETS(f) \
    { f##_128, f##_256, f##_512 }
#define K_QUARTER(to, from, k) \
    _mm_stream_ps((float *)(to) + (k), _mm_loadu_ps((const float *)(from) + (k)))
#define K_HALF(to, from, k) \
    _mm256_stream_ps((float *)(to) + (k), _mm256_loadu_ps((const float *)(from) + (k)))
#define K_PAST_128(to, from)                                                 \
    (K_QUARTER(to, from, 0), K_QUARTER(to, from, 4), K_QUARTER(to, from, 8), \
     K_QUARTER(to, from, 12))
#define K_PAST_256(to, from) (K_HALF(to, from, 0), K_HALF(to, from, 8))
#define K_PAST_512(to, from) _mm512_stream_ps((float *)(to), _mm512_loadu_ps((const float *)(from)))
#define K_LOOK_UP_256(to, table, at)                                                        \
    K_EVERY(at, 8) {                                                                        \
        __m256i i_ = _mm256_loadu_si256((const __m256i *)((at) + l));                       \
        __m256 low_ = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), i_);                 \
        __m256 high_ = _mm256_permutevar8x32_ps(_mm256_loadu_ps((table) + 8), i_);          \
        _mm256_storeu_ps(                                                                   \
            (to) + l,                                                                       \
            _mm256_blendv_ps(low_, high_, _mm256_castsi256_ps(_mm256_slli_epi32(i_, 28)))); \
    }
#define K_LOOK_UP_512(to, table, at) \
    K_EVERY(at, 16)                  \
    _mm512_storeu_ps((to) + l,       \
                     _mm512_permutexvar_ps(_mm512_loadu_si512((at) + l), _mm512_loadu_ps(table)))

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define K_BITS 256
#include K_FILE
#undef K_BITS

#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#endif
#define K_BITS 512
#include K_FILE
#undef K_BITS
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define K_SETS(f) \
    { f##_128 }
#define K_PAST_128(to, from) memcpy(to, from, 64)
#endif

#undef K_ONCE
#define K_ONCE(...) __VA_ARGS__
#define K_BITS      128
#include K_FILE
#undef K_BITS
#undef K_ONCE
#undef K_FILE
