/*
 * half.h: the two floats of 16 bits, and their conversion to float and back. Both have a sign bit
 * first. A bfloat16 has the upper 16 bits of a float: 8 bits of exponent and 7 of mantissa. A
 * float16 has 5 bits of exponent and 10 of mantissa. Loops and single elements are converted by
 * these functions, so they give the same bits. So are numbers that become bytes.
 */
#pragma once

#include <stdint.h>
#include <string.h>

typedef struct k_bfloat16 {
    uint16_t bits;
} k_bfloat16;
typedef struct k_float16 {
    uint16_t bits;
} k_float16;

static inline __attribute__((always_inline)) float k_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline __attribute__((always_inline)) uint32_t k_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline __attribute__((always_inline)) float k_float_of_bfloat16(k_bfloat16 x) {
    return k_float_of_bits((uint32_t)x.bits << 16);
}

/* Returns the bfloat16 nearest to x; of two that are equally near, the one whose last bit is 0. A
 * number above the greatest bfloat16 by at least half a step becomes infinite. */
static inline __attribute__((always_inline)) k_bfloat16 k_bfloat16_of_float(float x) {
    const uint32_t bits = k_bits_of_float(x);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return (k_bfloat16){ (uint16_t)(x != x ? 0x7FC0 : rounded) };
}

/* Returns the value of a float16. The exponent is 112 more in a float, and that of infinity and NaN
 * another 112. Below 2^-14 the bits count steps of 2^-24; they become the last bits of a number
 * between 0.5 and 1, from which 0.5 is subtracted. */
static inline __attribute__((always_inline)) float k_float_of_float16(k_float16 x) {
    const uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
    const uint32_t rest = x.bits & 0x7FFF;
    const uint32_t more = rest < 0x7C00 ? 112u << 23 : 224u << 23;
    const float small = k_float_of_bits(rest | 126u << 23) - 0.5f;
    return k_float_of_bits(sign | (rest < 0x400 ? k_bits_of_float(small) : (rest << 13) + more));
}

/* Returns the float16 nearest to x; of two that are equally near, the one whose last bit is 0. A
 * number above the greatest float16 by at least half a step becomes infinite. The sum with a power
 * of two, 2^13 times as large as x or at least 0.5, rounds x to the bits that a float16 keeps. The
 * two products let a number that is too large become infinite. */
static inline __attribute__((always_inline)) k_float16 k_float16_of_float(float x) {
    const uint32_t bits = k_bits_of_float(x);
    const uint32_t twice = bits + bits;
    const uint32_t sign = bits & 0x80000000;
    const uint32_t exponent = twice & 0xFF000000;
    const uint32_t bias = exponent < 0x71000000 ? 0x71000000 : exponent;
    const float size = k_float_of_bits(bits & 0x7FFFFFFF) * 0x1p+112f * 0x1p-110f;
    const uint32_t sum = k_bits_of_float(k_float_of_bits((bias >> 1) + 0x07800000) + size);
    const uint32_t rounded = (sum >> 13 & 0x7C00) + (sum & 0x0FFF);
    return (k_float16){ (uint16_t)(sign >> 16 | (x != x ? 0x7E00 : rounded)) };
}

/* Returns x as a byte: the last 8 bits of the int64_t to which x is truncated, or 0 if x is NaN or
 * out of the range of int64_t. */
static inline __attribute__((always_inline)) uint8_t k_byte_of_double(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (uint8_t)(int64_t)x : 0;
}
