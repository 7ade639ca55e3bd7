/*
 * loops/index_move.h: copies elements of one size between a row and the elements that indices
 * select.
 */
#include "index_each.h"

K_INLINE void K_NAME(index_read)(T *row, T *at) { *row = *at; }

K_INLINE void K_NAME(index_write)(T *row, T *at) { *at = *row; }

static void K_NAME(index_get)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_read));
}

static void K_NAME(index_put)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_write));
}
