/*
 * plain.h: what a processor of any other architecture does, in C alone. sse2.h says what a set's
 * header holds.
 */
#ifndef RG_SETS_PLAIN_H
/* Returns whether this processor has the set. */
static inline bool k_has_plain(void) { return true; }
#endif

#define K_SET_SUFFIX   plain
#define K_SET_IS_PLAIN 1
#define K_VECTOR_BYTES 16

#ifdef __clang__
#pragma clang attribute push
#else
#pragma GCC push_options
#endif

#ifndef RG_SETS_PLAIN_H
#define RG_SETS_PLAIN_H

/* Writes the line of 64 bytes at `to`. */
K_INLINE void k_stream_line_plain(void *to, const void *from) { memcpy(to, from, 64); }

/* to[i] = table[at[i] % 16] for n floats, a multiple of 16. */
K_INLINE void k_look_up_plain(float *to, int n, const float *table, const int32_t *at) {
    for (int i = 0; i < n; i++)
        to[i] = table[at[i] & 15];
}

typedef float k_vector_float_plain __attribute__((vector_size(16), aligned(4), may_alias));
typedef double k_vector_double_plain __attribute__((vector_size(16), aligned(8), may_alias));
typedef float k_narrow_float_plain __attribute__((vector_size(32), aligned(4), may_alias));
typedef double k_narrow_double_plain __attribute__((vector_size(32), aligned(8), may_alias));

/* sum += a b of one vector, rounded twice. */
K_INLINE void k_multiply_add_float_plain(void *sum, const void *a, const void *b) {
    typedef k_vector_float_plain vector;
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
K_INLINE void k_multiply_add_double_plain(void *sum, const void *a, const void *b) {
    typedef k_vector_double_plain vector;
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
/* sum += a b of 32 bytes, rounded in the same way. */
K_INLINE void k_multiply_add_narrow_float_plain(void *sum, const void *a, const void *b) {
    typedef k_narrow_float_plain vector;
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
K_INLINE void k_multiply_add_narrow_double_plain(void *sum, const void *a, const void *b) {
    typedef k_narrow_double_plain vector;
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}

#endif
