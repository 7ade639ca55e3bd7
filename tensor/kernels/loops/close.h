/*
 * loops/close.h: compares elements of one type: whether floats are close, and whether other
 * elements are equal. tensor/compare.c includes this file.
 */

/* Sets *(bool *)p[0] to false if any element `a` of p[1] isn't close to the element `b` of p[2] at
 * the same index; otherwise leaves the bool unchanged. Floats are close if they are equal, or if
 * their difference is finite and |a - b| <= atol + |rtol * b|. Other elements must be equal. */
static void K_NAME(close)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const compare_limits *limits = context;
    bool all = true;
    (void)limits;
    for (int64_t i = 0; i < n; i++) {
        const T a = *(const T *)(p[1] + i * s[1]);
        const T b = *(const T *)(p[2] + i * s[2]);
#if K_IS_FLOAT
        const T limit = (T)limits->atol + fabs((T)limits->rtol * b);
        all &= a == b || (isfinite(a - b) && fabs(a - b) <= limit);
#else
        all &= a == b;
#endif
    }
    if (!all)
        *(bool *)p[0] = false;
}
