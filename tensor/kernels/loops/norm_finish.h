/*
 * loops/norm_finish.h: elementwise functions that turn sums of powers into norms.
 */

/* Each of these functions changes n elements of y in place. `number` is a parameter, and `other`
 * the elements of another tensor. */

/* y = sqrt y */
static void K_NAME(norm_root)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)number;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = sqrt(v[i]);
}

/* y = y^number */
static void K_NAME(norm_power)(void *y, int64_t n, double number, const void *other) {
    T *v = y;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        v[i] = pow(v[i], (T)number);
}
