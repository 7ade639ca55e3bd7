/*
 * sets.h: includes K_FILE once for each instruction set that it is compiled for.
 * K_SET(f) is the name of f in the set, whose vectors have K_BITS; K_WIDE is AVX-512;
 * K_PAST(to, from) writes a line of 64 bytes past the caches. The last set, K_LAST, is
 * for any processor: there K_ONCE(text) is text, and from there on K_SETS(f) are the
 * functions of all sets, of which k_set is the one to run. (Clones made by attribute
 * would be chosen before ThreadSanitizer is ready.)
 */
#define K_ONCE(...)
#ifdef __x86_64__
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define K_SET(f) RG_PASTE(f, _avx2)
#define K_BITS 256
#define K_PAST_AT(to, from, k) _mm256_stream_ps((float *)(to) + (k), _mm256_loadu_ps((const float *)(from) + (k)))
#define K_PAST(to, from) (K_PAST_AT(to, from, 0), K_PAST_AT(to, from, 8))
#include K_FILE
#undef K_SET
#undef K_BITS
#undef K_PAST_AT
#undef K_PAST

#define K_WIDE
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#endif
#define K_SET(f) RG_PASTE(f, _avx512)
#define K_BITS 512
#define K_PAST(to, from) _mm512_stream_ps((float *)(to), _mm512_loadu_ps((const float *)(from)))
#include K_FILE
#undef K_SET
#undef K_BITS
#undef K_PAST
#undef K_WIDE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#define K_SETS(f) { f##_plain, f##_avx2, f##_avx512 }
#define K_PAST_AT(to, from, k) _mm_stream_ps((float *)(to) + (k), _mm_loadu_ps((const float *)(from) + (k)))
#define K_PAST(to, from) (K_PAST_AT(to, from, 0), K_PAST_AT(to, from, 4), K_PAST_AT(to, from, 8), K_PAST_AT(to, from, 12))
#else
#define K_SETS(f) { f##_plain }
#define K_PAST(to, from) memcpy(to, from, 64)
#endif

#undef K_ONCE
#define K_ONCE(...) __VA_ARGS__
#define K_LAST
#define K_SET(f) RG_PASTE(f, _plain)
#define K_BITS 128
#include K_FILE
#undef K_SET
#undef K_BITS
#undef K_PAST_AT
#undef K_PAST
#undef K_LAST
#undef K_ONCE
#undef K_FILE
