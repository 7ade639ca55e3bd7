/*
 * exchange.h: a matrix of sixteen registers of AVX-512 with sixteen lanes, transposed.
 */
#if defined(__x86_64__) && !defined(RG_EXCHANGE_H)
#define RG_EXCHANGE_H

#include <immintrin.h>

typedef int32_t k_lanes __attribute__((vector_size(64), aligned(4), may_alias));

/* Exchanges bit h of the registers' numbers with bit h of the lanes'. */
static inline __attribute__((always_inline, target("avx512f"))) void k_exchange(k_lanes v[16],
                                                                                const int h) {
    const k_lanes lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    /* from 16 on: the other's */
    const k_lanes low = lane + (((lane & h) != 0) & (16 - h)), high = low + h;
    for (int i = 0; i < 16; i++) {
        if (i & h)
            continue;
        __m512i x = (__m512i)v[i], y = (__m512i)v[i + h];
        v[i] = (k_lanes)_mm512_permutex2var_epi32(x, (__m512i)low, y);
        v[i + h] = (k_lanes)_mm512_permutex2var_epi32(x, (__m512i)high, y);
    }
}

#define k_transpose(v) (k_exchange(v, 8), k_exchange(v, 4), k_exchange(v, 2), k_exchange(v, 1))

#endif
