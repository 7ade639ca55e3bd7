/*
 * half_float.c: converts contiguous floats of 16 bits (half.h) and bytes to the types in which they
 * are computed, and back. half.c has the loops for other types and strides.
 */
#include "half_float.h"
#include "sets.h"

#ifdef K_ARM64
#include <arm_neon.h>
#endif

#define K_LOOPS "loops/half_float.h"
#define K_TYPES_NONE
#define K_NARROW
#include "sets.h"

/* Returns the set whose loops are called. While a thread traces, it is the first one: a trace notes
 * the loop of half.c that calls these. */
static int set_of_loops(void) {
    const int set = k_set_now();
    return set == K_TRACED ? 0 : set;
}

void k_floats_of_bfloat16(float *to, const k_bfloat16 *from, int64_t n) {
    static void (*const loops[K_COLUMNS])(float *, const k_bfloat16 *,
                                          int64_t) = K_BY_NARROW_SET(floats_of_bfloat16);
    loops[set_of_loops()](to, from, n);
}

void k_bfloat16_of_floats(k_bfloat16 *to, const float *from, int64_t n) {
    static void (*const loops[K_COLUMNS])(k_bfloat16 *, const float *,
                                          int64_t) = K_BY_NARROW_SET(bfloat16_of_floats);
    loops[set_of_loops()](to, from, n);
}

#ifdef K_ARM64
/* Returns what k_float_of_float16 returns for four elements. NEON's conversion differs from it for
 * NaN alone, of which NEON sets the first bit of the mantissa: the mantissa of x is put back. */
static inline float32x4_t floats_of_four(uint16x4_t x) {
    const float32x4_t y = vcvt_f32_f16(vreinterpret_f16_u16(x));
    const uint32x4_t bits = vreinterpretq_u32_f32(y);
    const uint32x4_t mantissa = vdupq_n_u32(0x7FE000);
    const uint32x4_t kept = vbslq_u32(mantissa, vshll_n_u16(x, 13), bits);
    return vreinterpretq_f32_u32(vbslq_u32(vceqq_f32(y, y), bits, kept));
}

/* Returns what k_float16_of_float returns for four elements. NEON's conversion differs from it for
 * NaN alone, of which NEON keeps bits of the mantissa: all but the first are cleared. */
static inline uint16x4_t four_of_floats(float32x4_t x) {
    const uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(x));
    const uint16x4_t is_number = vmovn_u32(vceqq_f32(x, x));
    return vand_u16(bits, vorr_u16(is_number, vdup_n_u16(0xFE00)));
}

void k_floats_of_float16(float *to, const k_float16 *from, int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(to + i, floats_of_four(vld1_u16(&from[i].bits)));
    for (; i < n; i++)
        to[i] = k_float_of_float16(from[i]);
}

void k_float16_of_floats(k_float16 *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(&to[i].bits, four_of_floats(vld1q_f32(from + i)));
    for (; i < n; i++)
        to[i] = k_float16_of_float(from[i]);
}
#else
void k_floats_of_float16(float *to, const k_float16 *from, int64_t n) {
    static void (*const loops[K_COLUMNS])(float *, const k_float16 *,
                                          int64_t) = K_BY_NARROW_SET(floats_of_float16);
    loops[set_of_loops()](to, from, n);
}

void k_float16_of_floats(k_float16 *to, const float *from, int64_t n) {
    static void (*const loops[K_COLUMNS])(k_float16 *, const float *,
                                          int64_t) = K_BY_NARROW_SET(float16_of_floats);
    loops[set_of_loops()](to, from, n);
}
#endif

void k_of_bytes_float(float *to, const uint8_t *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
}

void k_of_bytes_int64(int64_t *to, const uint8_t *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Converts as k_byte_of_double does: a float that int32_t can't hold is a multiple of 256, or more
 * than int64_t can hold. */
void k_bytes_of_float(uint8_t *to, const float *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const float x = from[i];
        const float held = x > -0x1p31f && x < 0x1p31f ? x : 0;
        to[i] = (uint8_t)(int32_t)held;
    }
}

void k_bytes_of_int64(uint8_t *to, const int64_t *from, int64_t n) {
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint8_t)from[i];
}
