/*
 * loops/index_add.h: elements of one type are added to places that indices
 * name. Integers wrap around, and a sum of bools is "or".
 */
#include "index_each.h"

K_INLINE void K_NAME(index_add_one)(T *row, T *at) {
#if K_IS_BOOL
    *at |= *row;
#elif K_IS_FLOAT
    *at += *row;
#else
    *at = (T)((uint64_t)*at + (uint64_t)*row);
#endif
}

static void K_NAME(index_add)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_add_one));
}
