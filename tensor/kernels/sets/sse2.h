/*
 * sse2.h: SSE2, the instruction set that every x86-64 processor has. Its vectors have 16 bytes, and
 * it lacks fused multiply-add, which in_c.h computes by other instructions. sets.h includes the
 * header of a set before the functions of that set.
 *
 * The header of a set does three things. It defines the set's name and the width of its vectors. It
 * lets the compiler use the set's instructions, up to sets/end.h. It defines the set's operations;
 * operations that need no special instruction are in in_c.h. The operations take pointers, because
 * each set passes vectors as parameters in its own way; after inlining, all values stay in
 * registers.
 */
#ifndef RG_SETS_SSE2_H
/* Returns true: every x86-64 processor has SSE2. */
static inline bool k_has_sse2(void) { return true; }
#endif

#define K_SET_SUFFIX   sse2
#define K_VECTOR_BYTES 16
#define K_TILE_ROWS    4

#ifdef __clang__
#pragma clang attribute push
#else
#pragma GCC push_options
#endif

#ifndef RG_SETS_SSE2_H
#define RG_SETS_SSE2_H

/* Writes a line of 64 bytes past the caches. The address `to` must be a multiple of 64. */
K_INLINE void k_stream_line_sse2(void *to, const void *from) {
    for (int k = 0; k < 16; k += 4)
        _mm_stream_ps((float *)to + k, _mm_loadu_ps((const float *)from + k));
}

#include "in_c.h"

#endif
