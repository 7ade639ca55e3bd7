/*
 * loops/half_float.h: converts contiguous floats of 16 bits (tensor/kernels/half.h) to float, and
 * back.
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

/* half_float.c converts to and from float16 with NEON's own instructions. */
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
