/*
 * loops/norm_finish.h: what makes norms of sums of powers, element by element.
 */

/* Each of these functions changes n elements of y, by a number or by the elements of another
 * tensor. */

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
