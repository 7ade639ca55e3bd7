/*
 * loops/index_join.h: for one element type, combines each element of a row with the element that an
 * index selects: adds or multiplies the two, or takes their maximum or minimum. The selected
 * element is changed in place. Integers wrap around on overflow. For bools, a sum is "or" and a
 * product is "and". The maximum or minimum is NaN if either element is NaN.
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

K_INLINE void K_NAME(index_multiply_one)(T *row, T *at) {
#if K_IS_BOOL
    *at &= *row;
#elif K_IS_FLOAT
    *at *= *row;
#else
    *at = (T)((uint64_t)*at * (uint64_t)*row);
#endif
}

K_INLINE void K_NAME(index_max_one)(T *row, T *at) {
    const bool kept = *at > *row || K_TYPED(k_is_nan)(*at);
    *at = kept ? *at : *row;
}

K_INLINE void K_NAME(index_min_one)(T *row, T *at) {
    const bool kept = *at < *row || K_TYPED(k_is_nan)(*at);
    *at = kept ? *at : *row;
}

static void K_NAME(index_add)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_add_one));
}

static void K_NAME(index_multiply)(char *const p[], const int64_t s[], int64_t n,
                                   const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_multiply_one));
}

static void K_NAME(index_max)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_max_one));
}

static void K_NAME(index_min)(char *const p[], const int64_t s[], int64_t n, const void *step) {
    K_NAME(index_each)(p, s, n, *(const int64_t *)step, K_NAME(index_min_one));
}
