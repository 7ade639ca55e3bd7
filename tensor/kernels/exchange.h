/*
 * exchange.h: transposes a 16 x 16 matrix of 32-bit elements that is held in sixteen AVX-512
 * registers.
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

#endif
