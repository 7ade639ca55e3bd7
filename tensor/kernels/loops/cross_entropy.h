/*
 * loops/cross_entropy.h: the negative log likelihood of the log_softmax of rows, which isn't
 * stored.
 */

/* y = weight[t] (lse - x[t]), where lse = max + ln sum_i e^(x_i - max) */
static void K_NAME(cross_entropy)(const nll_work *o, int64_t begin, int64_t end) {
    const k_nll_targets *z = o->z;
    const int64_t n = z->classes;
    const int64_t *target = (const int64_t *)z->target->data;
    T *y = (T *)o->y->data;
    double *lse = (double *)o->lse->data;
    for (int64_t r = begin; r < end; r++) {
        const T *x = (const T *)o->x->data + r * n;
        const T max = K_NAME(greatest)(x, n);
        const T total = K_TYPED(k_log)(K_NAME(sum_of_powers)(x, n, max));
        lse[r] = (double)max + (double)total;
        y[r] = 0;
        if (target[r] != z->ignore)
            y[r] = (T)(-(double)(x[target[r]] - max - total) * nll_weight(z, r));
    }
}

/* gx = e^(x - lse) times `all`, with lse in two parts, so that the difference is right where x is
 * large. */
K_INLINE void K_NAME(cross_entropy_gradient)(T *restrict gx, const T *restrict x, int64_t n,
                                             double lse, T all) {
    const T high = (T)lse;
    const T low = (T)(lse - (double)high);
    for (int64_t i = 0; i < n; i++)
        gx[i] = K_TYPED(k_exp_below)(x[i] - high - low) * all;
}

/* gx = e^(x - lse) (weight[t] g + g_lse), but for t's class, where it is less by weight[t] g. */
static void K_NAME(cross_entropy_backward)(const nll_work *o, int64_t begin, int64_t end) {
    const k_nll_targets *z = o->z;
    const int64_t n = z->classes;
    const int64_t *target = (const int64_t *)z->target->data;
    const T *g = (const T *)o->g->data;
    const double *lse = (const double *)o->lse->data;
    const double *g_lse = o->g_lse ? (const double *)o->g_lse->data : NULL;
    for (int64_t r = begin; r < end; r++) {
        const bool counts = target[r] != z->ignore;
        T *gx = (T *)o->y->data + r * n;
        double own = 0;
        if (counts)
            own = (double)g[o->g->ndim ? r : 0] * o->scale * nll_weight(z, r);
        K_NAME(cross_entropy_gradient)
        (gx, (const T *)o->x->data + r * n, n, lse[r], (T)(own + (g_lse ? g_lse[r] : 0)));
        if (counts)
            gx[target[r]] -= (T)own;
    }
}
