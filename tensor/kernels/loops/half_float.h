/*
 * loops/half_float.h: converts contiguous floats of 16 bits (tensor/kernels/half.h) to float, and
 * back. half_float.c calls the loops of the current set. Conversions of single elements are in
 * half.h, and those of other types and strides in loops/half.h.
 */

static void K_IN_SET(floats_of_bfloat16)(float *to, const k_bfloat16 *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float_of_bfloat16(from[i]);
}

static void K_IN_SET(bfloat16_of_floats)(k_bfloat16 *to, const float *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_bfloat16_of_float(from[i]);
}

/* On 64-bit ARM, half_float.c has functions of its own for float16. */
#ifndef K_ARM64
static void K_IN_SET(floats_of_float16)(float *to, const k_float16 *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float_of_float16(from[i]);
}

static void K_IN_SET(float16_of_floats)(k_float16 *to, const float *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = k_float16_of_float(from[i]);
}
#endif
