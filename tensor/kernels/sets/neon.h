/*
 * neon.h: NEON, the vector instructions of 64-bit ARM, which every such processor has, with fused
 * multiply-add. Its vectors have 16 bytes, and there are 32 registers. sse2.h explains the headers
 * of instruction sets.
 */
#ifndef RG_SETS_NEON_H
/* Returns true: every 64-bit ARM processor for which the compiler may use NEON has it. */
static inline bool k_has_neon(void) { return true; }
#endif

#define K_SET_SUFFIX   neon
#define K_SET_IS_NEON  1
#define K_VECTOR_BYTES 16
#define K_TILE_ROWS    8

#ifdef __clang__
#pragma clang attribute push
#else
#pragma GCC push_options
#endif

#ifndef RG_SETS_NEON_H
#define RG_SETS_NEON_H

/* Writes a line of 64 bytes. NEON has no instruction that surely writes past the caches. */
K_INLINE void k_stream_line_neon(void *to, const void *from) { memcpy(to, from, 64); }

/* to[i] = table[at[i] % 16] for n floats; n must be a multiple of 4. The table fills four
 * registers, from which one instruction looks up sixteen bytes. Number j of the table has the bytes
 * 4 * j to 4 * j + 3. */
K_INLINE void k_look_up_neon(float *to, int n, const float *table, const int32_t *at) {
    const uint8x16x4_t bytes = vld1q_u8_x4((const uint8_t *)table);
    K_IN_REGISTERS for (int i = 0; i < n; i += 4) {
        const uint32x4_t number = vandq_u32(vld1q_u32((const uint32_t *)(at + i)), vdupq_n_u32(15));
        const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100), number, 0x04040404);
        const uint8x16_t found = vqtbl4q_u8(bytes, vreinterpretq_u8_u32(places));
        vst1q_f32(to + i, vreinterpretq_f32_u8(found));
    }
}

/* sum += a * b for one vector, rounded once. */
K_INLINE void k_multiply_add_float_neon(void *sum, const void *a, const void *b) {
    vst1q_f32(sum, vfmaq_f32(vld1q_f32(sum), vld1q_f32(a), vld1q_f32(b)));
}
K_INLINE void k_multiply_add_double_neon(void *sum, const void *a, const void *b) {
    vst1q_f64(sum, vfmaq_f64(vld1q_f64(sum), vld1q_f64(a), vld1q_f64(b)));
}
/* sum += a * b for 32 bytes, which are two vectors. Each sum is rounded once. */
K_INLINE void k_multiply_add_narrow_float_neon(void *sum, const void *a, const void *b) {
    for (int i = 0; i < 8; i += 4)
        k_multiply_add_float_neon((float *)sum + i, (const float *)a + i, (const float *)b + i);
}
K_INLINE void k_multiply_add_narrow_double_neon(void *sum, const void *a, const void *b) {
    for (int i = 0; i < 4; i += 2)
        k_multiply_add_double_neon((double *)sum + i, (const double *)a + i, (const double *)b + i);
}

#endif
