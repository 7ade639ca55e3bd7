/*
 * loops/norm_finish.h: the elementwise function that turns sums of powers into norms.
 */

/* y = y^number, for n elements. `other`, which some functions of its type take, isn't used. */
static void K_NAME(norm_power)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = pow(v[i], (T)number);
}
