/*
 * sse2.h: the first set of x86, which every 64-bit processor has: vectors of 16 bytes and no
 * multiply-add. sets.h includes a set's header before the functions of the set.
 *
 * A set's header defines the set's name and the width of its vectors, has the compiler use the
 * set's instructions up to sets/end.h, and defines the set's operations; in_c.h has those that need
 * no instruction of the set. The operations take pointers, since sets pass vectors as parameters in
 * different ways; after inlining, all values stay in registers.
 */
#ifndef RG_SETS_SSE2_H
/* Returns whether this processor has the set. */
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

/* Writes the line of 64 bytes at `to`, a multiple of 64, past the caches. */
K_INLINE void k_stream_line_sse2(void *to, const void *from) {
    for (int k = 0; k < 16; k += 4)
        _mm_stream_ps((float *)to + k, _mm_loadu_ps((const float *)from + k));
}

#include "in_c.h"

#endif
