/*
 * loops/distance.h: distances between rows of two matrices, and their gradients, compiled for each
 * element type (see sets.h). A distance is accumulated in DISTANCE_LANES lanes (partial results),
 * whatever the instruction set is, so that all instruction sets give the same bits.
 */
K_SUMS_IN_T;

#if K_IS_FLOAT

/* ---- functions that add the difference d = |a_i - b_i| of two elements to the accumulator ---- */

typedef T K_NAME(distance_step)(T total, T d, T p);

K_INLINE T K_NAME(distance_count)(T total, T d, T p) {
    (void)p;
    return total + (d > 0 ? 1 : d);
}

K_INLINE T K_NAME(distance_sum)(T total, T d, T p) {
    (void)p;
    return total + d;
}

K_INLINE T K_NAME(distance_square)(T total, T d, T p) {
    (void)p;
    return total + d * d;
}

K_INLINE T K_NAME(distance_power)(T total, T d, T p) { return total + K_TYPED(k_pow)(d, p); }

/* Returns the maximum of `total` and d. If d is NaN, it is ignored, as in torch. */
K_INLINE T K_NAME(distance_most)(T total, T d, T p) {
    (void)p;
    return d > total ? d : total;
}

/* Accumulates the differences of two rows of n elements, and returns the result. `step` combines a
 * lane with a difference; `join` combines a lane with another lane. */
K_INLINE T K_NAME(distance_fold)(const T *a, const T *b, int64_t n, T p,
                                 K_NAME(distance_step) * step, K_NAME(distance_step) * join) {
    T lane[DISTANCE_LANES] = { 0 };
    int64_t i = 0;
    for (; i + DISTANCE_LANES <= n; i += DISTANCE_LANES)
        for (int k = 0; k < DISTANCE_LANES; k++)
            lane[k] = step(lane[k], fabs(a[i + k] - b[i + k]), p);
    for (int k = 0; i < n; i++, k++)
        lane[k] = step(lane[k], fabs(a[i] - b[i]), p);
    for (int k = 1; k < DISTANCE_LANES; k++)
        lane[0] = join(lane[0], lane[k], p);
    return lane[0];
}

static T K_NAME(distance_of_rows)(const T *a, const T *b, int64_t n, T p) {
    if (p == 0)
        return K_NAME(distance_fold)(a, b, n, p, K_NAME(distance_count), K_NAME(distance_sum));
    if (p == 1)
        return K_NAME(distance_fold)(a, b, n, p, K_NAME(distance_sum), K_NAME(distance_sum));
    if (p == 2)
        return sqrt(
            K_NAME(distance_fold)(a, b, n, p, K_NAME(distance_square), K_NAME(distance_sum)));
    if (isinf(p))
        return K_NAME(distance_fold)(a, b, n, p, K_NAME(distance_most), K_NAME(distance_most));
    return pow(K_NAME(distance_fold)(a, b, n, p, K_NAME(distance_power), K_NAME(distance_sum)),
               1 / p);
}

/* Computes the distances from rows begin to end - 1 of a to each row of b. */
static void K_NAME(distance_rows)(void *context, int64_t begin, int64_t end, int worker) {
    const distance_context *c = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const T *a = (const T *)c->a + i * c->n;
        const T *b = (const T *)c->b + i / c->rows * c->others * c->n;
        T *y = (T *)c->y + i * c->others;
        for (int64_t j = 0; j < c->others; j++)
            y[j] = K_NAME(distance_of_rows)(a, b + j * c->n, c->n, (T)c->p);
    }
}

/* ---- gradients of a_i, where d = a_i - b_i, y is the distance, and g the gradient of y ------- */

typedef T K_NAME(distance_slope)(T d, T g, T y, T p);

K_INLINE T K_NAME(distance_sign)(T d) {
    const T sign = (T)((d > 0) - (d < 0));
    return d != d ? d : sign;
}

K_INLINE T K_NAME(distance_slope_sum)(T d, T g, T y, T p) {
    (void)y;
    (void)p;
    return g * K_NAME(distance_sign)(d);
}

K_INLINE T K_NAME(distance_slope_square)(T d, T g, T y, T p) {
    (void)p;
    return y == 0 ? 0 : g * d / y;
}

K_INLINE T K_NAME(distance_slope_most)(T d, T g, T y, T p) {
    (void)p;
    return g * K_NAME(distance_sign)(d) * (fabs(d) == y);
}

K_INLINE T K_NAME(distance_slope_power)(T d, T g, T y, T p) {
    if (y == 0 || (d == 0 && p < 1))
        return 0;
    const T power = p < 2 ? K_NAME(distance_sign)(d) * K_TYPED(k_pow)(fabs(d), p - 1)
                          : d * K_TYPED(k_pow)(fabs(d), p - 2);
    return power * g / K_TYPED(k_pow)(y, p - 1);
}

/* Computes the gradient of one row of `a`: a sum over all rows of `b`. For row j of `b`, the
 * distance is y[j * step], and its gradient is g[j * step]. */
K_INLINE void K_NAME(distance_slopes)(T *to, const T *a, const T *b, const T *g, const T *y,
                                      int64_t step, const distance_context *c,
                                      K_NAME(distance_slope) * slope) {
    const T p = (T)c->p;
    for (int64_t k = 0; k < c->n; k++)
        to[k] = 0;
    for (int64_t j = 0; j < c->others; j++)
        for (int64_t k = 0; k < c->n; k++)
            to[k] += slope(a[k] - b[j * c->n + k], g[j * step], y[j * step], p);
}

/* Computes the gradients of rows begin to end - 1 of a. If c->turned, g and y are transposed: they
 * have one row for each row of b. */
static void K_NAME(distance_grad_rows)(void *context, int64_t begin, int64_t end, int worker) {
    const distance_context *c = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / c->rows;
        const int64_t row = i % c->rows;
        const int64_t first = batch * c->rows * c->others + (c->turned ? row : row * c->others);
        const int64_t step = c->turned ? c->rows : 1;
        const T *a = (const T *)c->a + i * c->n;
        const T *b = (const T *)c->b + batch * c->others * c->n;
        const T *g = (const T *)c->g + first;
        const T *y = (const T *)c->y + first;
        T *to = (T *)c->to + i * c->n;
        if (c->p == 1)
            K_NAME(distance_slopes)(to, a, b, g, y, step, c, K_NAME(distance_slope_sum));
        else if (c->p == 2)
            K_NAME(distance_slopes)(to, a, b, g, y, step, c, K_NAME(distance_slope_square));
        else if (isinf((double)c->p))
            K_NAME(distance_slopes)(to, a, b, g, y, step, c, K_NAME(distance_slope_most));
        else
            K_NAME(distance_slopes)(to, a, b, g, y, step, c, K_NAME(distance_slope_power));
    }
}

#endif
