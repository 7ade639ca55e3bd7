/*
 * loops/nan.h: a test for NaN that floats and integers share.
 */

/* Returns whether x is NaN; an integer never is. */
K_INLINE bool K_NAME(is_nan)(T x) {
#if K_IS_FLOAT
    return x != x;
#else
    (void)x;
    return false;
#endif
}
