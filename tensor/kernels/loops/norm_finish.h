/*
 * loops/norm_finish.h: the elementwise loop that turns sums of powers into norms.
 */

/* y = y^number, for n elements. Other finish_loops (kernels/reduce.h) read `other`; this one
 * doesn't. */
static void K_NAME(norm_power)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = pow(v[i], (T)number);
}
