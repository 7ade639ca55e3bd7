/*
 * loops/cross_entropy.h: cross entropy of rows, and its gradient. Cross entropy is the negative log
 * likelihood of log_softmax(x), computed without storing log_softmax(x).
 */

/* For each row, y = weight[t] * (lse - x[t]), where t is the row's target, and lse = max + ln sum_i
 * e^(x_i - max). If t is to be ignored, y = 0. Stores lse as well. */
static void K_NAME(cross_entropy)(const nll_work *work, int64_t begin, int64_t end) {
    const k_nll_targets *z = work->z;
    const int64_t n = z->classes;
    const int64_t *target = (const int64_t *)z->target->data;
    T *y = (T *)work->y->data;
    double *lse = (double *)work->lse->data;
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)work->x->data + r * n;
        const T max = K_NAME(greatest)(x, n);
        const T total = K_TYPED(k_log)(K_NAME(sum_of_powers)(x, n, max));
        lse[r] = (double)max + (double)total;
        y[r] = 0;
        if (target[r] != z->ignore)
            y[r] = (T)(-(double)(x[target[r]] - max - total) * nll_weight(z, r));
    }
}

/* gx = e^(x - lse) * all, for the n elements of a row; `all` is own + g_lse (see below). lse, a
 * double, is subtracted in two parts of type T, so that the difference is accurate for large x. */
K_INLINE void K_NAME(cross_entropy_gradient)(T *restrict gx, const T *restrict x, int64_t n,
                                             double lse, T all) {
    const T high = (T)lse;
    const T low = (T)(lse - (double)high);
    for (int64_t i = 0; i < n; i++)
        gx[i] = K_TYPED(k_exp_below)(x[i] - high - low) * all;
}

/* gx[i] = e^(x[i] - lse) * (own + g_lse) - (i == t ? own : 0), where t is the row's target. own =
 * weight[t] * g * work->scale, or 0 if t is to be ignored. */
static void K_NAME(cross_entropy_backward)(const nll_work *work, int64_t begin, int64_t end) {
    const k_nll_targets *z = work->z;
    const int64_t n = z->classes;
    const int64_t *target = (const int64_t *)z->target->data;
    const T *g = (const T *)work->g->data;
    const double *lse = (const double *)work->lse->data;
    const double *g_lse = work->g_lse ? (const double *)work->g_lse->data : NULL;
    for (int64_t r = begin; r < end; r++) {
        const bool counts = target[r] != z->ignore;
        T *gx = (T *)work->y->data + r * n;
        double own = 0;
        if (counts)
            own = (double)g[work->g->ndim ? r : 0] * work->scale * nll_weight(z, r);
        const T *x = (const T *)work->x->data + r * n;
        const T all = (T)(own + (g_lse ? g_lse[r] : 0));
        K_NAME(cross_entropy_gradient)(gx, x, n, lse[r], all);
        if (counts)
            gx[target[r]] -= (T)own;
    }
}
