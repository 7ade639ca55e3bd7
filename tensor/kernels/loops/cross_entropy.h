/*
 * loops/cross_entropy.h: cross entropy of rows, and its gradient. Cross entropy is the negative log
 * likelihood of log_softmax(x), computed without storing log_softmax(x). The gradient needs lse =
 * max + ln sum_i e^(x_i - max) of each row. The row's shift is two numbers whose sum is lse.
 */

/* Returns the weight of the class that is target i, which isn't to be ignored. */
K_INLINE double K_NAME(cross_entropy_weight)(const k_nll_rows *z, int64_t i) {
    return z->weight ? (double)*(const T *)(z->weight + z->target[i] * z->weight_step) : 1;
}

/* Stores the two numbers of a row's shift: lse rounded to T, and the rounding error. If |max| is
 * 1024 or more, even a double would lose digits of log_total in max + log_total. In that case, and
 * if max is NaN, stores max and log_total instead. */
K_INLINE void K_NAME(store_shift)(T *shift, T max, T log_total) {
    if (!(fabs((double)max) < 1024)) {
        shift[0] = max;
        shift[1] = log_total;
        return;
    }
    const double lse = (double)max + (double)log_total;
    shift[0] = (T)lse;
    shift[1] = (T)(lse - (double)shift[0]);
}

/* For each row, y = -weight[t] * (x[t] - max - log_total), where t is the row's target, and
 * log_total = ln sum_i e^(x_i - max). If t is to be ignored, y = 0. Also stores the row's shift.
 * The maximum of the next row is computed before this row's logarithm, so that the processor can
 * begin with the next row's powers while it still computes the logarithm. */
static void K_NAME(cross_entropy)(const k_nll_rows *z, int64_t begin, int64_t end) {
    const int64_t n = z->classes;
    const int64_t *target = z->target;
    T *y = (T *)z->y;
    T *shift = (T *)z->shifts;
    const T *x = (const T *)z->x + begin * n;
    T max = begin < end ? K_NAME(greatest)(x, n) : 0;
    for (int64_t r = begin; r < end; r++, x += n) {
        const T total = K_NAME(sum_of_powers)(x, n, max);
        const T next_max = r + 1 < end ? K_NAME(greatest)(x + n, n) : 0;
        const T log_total = K_TYPED(k_log)(total);
        K_NAME(store_shift)(shift + 2 * r, max, log_total);
        y[r] = 0;
        if (target[r] != z->ignore)
            y[r] =
                (T)(-(double)(x[target[r]] - max - log_total) * K_NAME(cross_entropy_weight)(z, r));
        max = next_max;
    }
}

/* gx = e^(x - lse) * own, for the n elements of a row, where the two numbers of `shift` add up to
 * lse. cross_entropy_backward explains `own`. */
K_INLINE void K_NAME(cross_entropy_gradient)(T *restrict gx, const T *restrict x, int64_t n,
                                             const T *shift, T own) {
    const T first = shift[0];
    const T second = shift[1];
    for (int64_t i = 0; i < n; i++)
        gx[i] = K_TYPED(k_exp_below)(x[i] - first - second) * own;
}

/* gx[i] = (e^(x[i] - lse) - (i == t)) * own, where t is the row's target. own =
 * weight[t] * g / *z->total, or 0 if t is to be ignored. */
static void K_NAME(cross_entropy_backward)(const k_nll_rows *z, int64_t begin, int64_t end) {
    const int64_t n = z->classes;
    const int64_t *target = z->target;
    const T *g = (const T *)z->g;
    const T *shift = (const T *)z->shifts;
    const double scale = z->total ? 1 / *z->total : 1;
    for (int64_t r = begin; r < end; r++) {
        const bool counts = target[r] != z->ignore;
        const T *x = (const T *)z->x + r * n;
        T *gx = (T *)z->y + r * n;
        double own = 0;
        if (counts)
            own = (double)g[z->own_g ? r : 0] * scale * K_NAME(cross_entropy_weight)(z, r);
        K_NAME(cross_entropy_gradient)(gx, x, n, shift + 2 * r, (T)own);
        if (counts)
            gx[target[r]] -= (T)own;
    }
}
