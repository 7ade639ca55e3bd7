/*
 * plain.h: plain C in place of an instruction set, on all architectures other than x86-64, and on
 * x86-64 with -DRG_ONLY_PLAIN. On 64-bit ARM it is the set below NEON. sse2.h explains the headers
 * of instruction sets.
 */
#ifndef RG_SETS_PLAIN_H
/* Returns true: every processor can execute plain C. */
static inline bool k_has_plain(void) { return true; }
#endif

#define K_SET_SUFFIX plain
/* In the text of the loops (autograd/export/loops) these two stay names. */
#ifndef RG_LOOPS_AS_TEXT
#define K_VECTOR_BYTES 16
#define K_TILE_ROWS    4
#endif

#ifdef __clang__
#pragma clang attribute push
#else
#pragma GCC push_options
#endif

#ifndef RG_SETS_PLAIN_H
#define RG_SETS_PLAIN_H

/* Writes a line of 64 bytes. In plain C there is no way to write past the caches. */
K_INLINE void k_stream_line_plain(void *to, const void *from) { memcpy(to, from, 64); }

#include "in_c.h"

#endif
