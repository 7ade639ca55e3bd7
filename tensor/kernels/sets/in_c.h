/*
 * in_c.h: the operations that sets.h lists, in plain C, for vectors of any width. The header of a
 * set includes this file if the set has no fused multiply-add.
 */

/* to[i] = table[at[i] % 16] for n floats; n must be a multiple of 16. */
K_INLINE void K_IN_SET(k_look_up)(float *to, int n, const float *table, const int32_t *at) {
    for (int i = 0; i < n; i++)
        to[i] = table[at[i] & 15];
}

/* sum += a * b for one vector, rounded twice: after the product and after the sum. */
K_INLINE void K_IN_SET(k_multiply_add_float)(void *sum, const void *a, const void *b) {
    typedef float vector __attribute__((vector_size(K_VECTOR_BYTES), aligned(4), may_alias));
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
K_INLINE void K_IN_SET(k_multiply_add_double)(void *sum, const void *a, const void *b) {
    typedef double vector __attribute__((vector_size(K_VECTOR_BYTES), aligned(8), may_alias));
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
/* sum += a * b for 32 bytes, rounded twice as well. */
K_INLINE void K_IN_SET(k_multiply_add_narrow_float)(void *sum, const void *a, const void *b) {
    typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
K_INLINE void K_IN_SET(k_multiply_add_narrow_double)(void *sum, const void *a, const void *b) {
    typedef double vector __attribute__((vector_size(32), aligned(8), may_alias));
    *(vector *)sum += *(const vector *)a * *(const vector *)b;
}
