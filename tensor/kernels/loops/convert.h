/*
 * loops/convert.h: converts elements of type S to type T.
 */

/* Returns x as a T. If T is an integer type, a float that is NaN or out of range becomes the least
 * integer. Torch does the same on x86, whose instruction returns this value. */
K_INLINE T K_NAME(convert_one)(S x) {
#if K_FROM_FLOAT && !K_IS_FLOAT && !K_IS_BOOL
    const double v = (double)x;
    return v >= (double)K_LEAST && v < -(double)K_LEAST ? (T)v : K_LEAST;
#else
    return (T)x;
#endif
}

static void K_NAME(convert)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    char *to = p[0];
    const char *from = p[1];
    (void)context;
    if (s[0] == sizeof(T) && s[1] == sizeof(S) && __builtin_types_compatible_p(T, S)) {
        memmove(to, from, (size_t)n * sizeof(T));
    } else if (s[0] == sizeof(T) && s[1] == sizeof(S)) {
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) {
            ((T *)to)[i] = K_NAME(convert_one)(((const S *)from)[i]);
        }
    } else if (s[0] == sizeof(T) && s[1] == 0) {
        const S first = *(const S *)from;
        for (int64_t i = 0; i < n; i++)
            ((T *)to)[i] = K_NAME(convert_one)(first);
    } else {
        _Pragma("GCC unroll 4") for (; n > 0; n--) {
            *(T *)to = K_NAME(convert_one)(*(const S *)from);
            to += s[0];
            from += s[1];
        }
    }
}
