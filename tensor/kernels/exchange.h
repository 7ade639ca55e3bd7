/*
 * exchange.h: transposes a 16 x 16 matrix of 32-bit elements that is held in sixteen AVX-512
 * registers, an 8 x 8 matrix in eight AVX2 registers, or a 4 x 4 matrix in four NEON registers.
 */
#pragma once

#include "sets.h"

#ifdef K_X86
#include <immintrin.h>
#include <stdint.h>

typedef int32_t k_lanes __attribute__((vector_size(64), aligned(4), may_alias));

#define K_EXCHANGE_INLINE static inline __attribute__((always_inline, target("avx512f")))

/* Exchanges one bit of each element's register number with the same bit of its lane number, and
 * moves the element to the register and the lane with the resulting numbers. h is the value of the
 * bit: 1, 2, 4 or 8. */
K_EXCHANGE_INLINE void k_exchange(k_lanes v[16], const int h) {
    const k_lanes lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    /* Indices of permutex2var from 16 on select lanes of the second register. */
    const k_lanes low = lane + (((lane & h) != 0) & (16 - h));
    const k_lanes high = low + h;
    for (int i = 0; i < 16; i++) {
        if (i & h)
            continue;
        __m512i x = (__m512i)v[i];
        __m512i y = (__m512i)v[i + h];
        v[i] = (k_lanes)_mm512_permutex2var_epi32(x, (__m512i)low, y);
        v[i + h] = (k_lanes)_mm512_permutex2var_epi32(x, (__m512i)high, y);
    }
}

/* Transposes the matrix: lane j of register i becomes lane i of register j. */
K_EXCHANGE_INLINE void k_transpose(k_lanes v[16]) {
    k_exchange(v, 8);
    k_exchange(v, 4);
    k_exchange(v, 2);
    k_exchange(v, 1);
}

typedef int32_t k_half_lanes __attribute__((vector_size(32), aligned(4), may_alias));

/* Transposes a matrix of 8 x 8. First the quarters are exchanged, then each quarter is transposed
 * in the same way, as AVX2 has it: within halves of registers. */
static inline __attribute__((always_inline, target("avx2"))) void
k_transpose_half(k_half_lanes v[8]) {
    __m256i x[8], y[8];
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2x128_si256((__m256i)v[i], (__m256i)v[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256((__m256i)v[i], (__m256i)v[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i += 4) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
        y[i + 2] = _mm256_unpacklo_epi32(x[i + 2], x[i + 3]);
        y[i + 3] = _mm256_unpackhi_epi32(x[i + 2], x[i + 3]);
    }
    for (int i = 0; i < 8; i += 4) {
        v[i] = (k_half_lanes)_mm256_unpacklo_epi64(y[i], y[i + 2]);
        v[i + 1] = (k_half_lanes)_mm256_unpackhi_epi64(y[i], y[i + 2]);
        v[i + 2] = (k_half_lanes)_mm256_unpacklo_epi64(y[i + 1], y[i + 3]);
        v[i + 3] = (k_half_lanes)_mm256_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
}

#endif

#ifdef K_ARM64
#include <arm_neon.h>
#include <stdint.h>

typedef int32_t k_quarter_lanes __attribute__((vector_size(16), aligned(4), may_alias));

/* Transposes a matrix of 4 x 4. First each block of 2 x 2 is transposed, then the blocks are
 * exchanged as elements of 64 bits. */
static inline __attribute__((always_inline)) void k_transpose_quarter(k_quarter_lanes v[4]) {
    for (int i = 0; i < 4; i += 2) {
        const int32x4_t x = (int32x4_t)v[i], y = (int32x4_t)v[i + 1];
        v[i] = (k_quarter_lanes)vtrn1q_s32(x, y);
        v[i + 1] = (k_quarter_lanes)vtrn2q_s32(x, y);
    }
    for (int i = 0; i < 2; i++) {
        const int64x2_t x = (int64x2_t)v[i], y = (int64x2_t)v[i + 2];
        v[i] = (k_quarter_lanes)vtrn1q_s64(x, y);
        v[i + 2] = (k_quarter_lanes)vtrn2q_s64(x, y);
    }
}

#endif
