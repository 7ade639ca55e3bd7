/*
 * half_float.c: converts contiguous floats of 16 bits (half.h) to float and back. half.c has the
 * loops for other types and strides.
 */
#include "half_float.h"
#include "sets.h"

void k_floats_of_bfloat16(float *to, const k_bfloat16 *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float_of_bfloat16(from[i]);
}

void k_floats_of_float16(float *to, const k_float16 *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float_of_float16(from[i]);
}

void k_bfloat16_of_floats(k_bfloat16 *to, const float *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_bfloat16_of_float(from[i]);
}

void k_float16_of_floats(k_float16 *to, const float *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float16_of_float(from[i]);
}
