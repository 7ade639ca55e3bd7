/*
 * loops/nll.h: the negative log likelihood of classes, -weight[t] * x[t] for the target t, and its
 * gradient. For each target at most one element of the gradient isn't 0, so nothing here is
 * vectorised.
 */

/* Returns the weight of the class that is target i, or 0 if that target is to be ignored. */
K_INLINE double K_NAME(nll_weight)(const k_nll_rows *z, int64_t i) {
    const int64_t class = z->target[i];
    if (class == z->ignore)
        return 0;
    return z->weight ? (double)*(const T *)(z->weight + class * z->weight_step) : 1;
}

/* Sets *z->total to the sum of the weights of targets begin to end - 1. */
static void K_NAME(nll_total)(const k_nll_rows *z, int64_t begin, int64_t end) {
    double total = 0;
    for (int64_t i = begin; i < end; i++)
        total += K_NAME(nll_weight)(z, i);
    *z->total = total;
}

/* Multiplies the single element of z->y by 1 / *z->total. */
static void K_NAME(nll_mean)(const k_nll_rows *z, int64_t begin, int64_t end) {
    T *y = (T *)z->y;
    (void)begin;
    (void)end;
    *y = (T)((double)*y * (1 / *z->total));
}

static void K_NAME(nll)(const k_nll_rows *z, int64_t begin, int64_t end) {
    const int64_t inner = z->inner;
    T *y = (T *)z->y;
    for (int64_t r = begin; r < end; r++) {
        const T *slice = (const T *)z->x + r * z->classes * inner;
        for (int64_t k = 0; k < inner; k++) {
            const int64_t i = r * inner + k;
            y[i] = 0;
            if (z->target[i] != z->ignore)
                y[i] = (T)(-(double)slice[z->target[i] * inner + k] * K_NAME(nll_weight)(z, i));
        }
    }
}

/* Writes the gradient of x to z->y, for rows begin to end - 1. A row is one item of the batch:
 * z->classes * z->inner elements of x. */
static void K_NAME(nll_backward)(const k_nll_rows *z, int64_t begin, int64_t end) {
    const int64_t inner = z->inner;
    const int64_t size = z->classes * inner;
    const int64_t *target = z->target;
    const T *g = (const T *)z->g;
    const double scale = z->total ? 1 / *z->total : 1;
    for (int64_t r = begin; r < end; r++) {
        T *slice = (T *)z->y + r * size;
        memset(slice, 0, (size_t)size * sizeof *slice);
        for (int64_t k = 0; k < inner; k++) {
            const int64_t i = r * inner + k;
            if (target[i] == z->ignore)
                continue;
            const double own = (double)g[z->own_g ? i : 0];
            slice[target[i] * inner + k] = (T)(-K_NAME(nll_weight)(z, i) * own * scale);
        }
    }
}
