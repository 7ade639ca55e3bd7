/*
 * loops/nan.h: the question whether a number is NaN, for loops of floats and of integers alike.
 */

/* Returns whether x is NaN, which an integer never is. */
K_INLINE bool K_NAME(is_nan)(T x) {
#if K_IS_FLOAT
    return x != x;
#else
    (void)x;
    return false;
#endif
}
