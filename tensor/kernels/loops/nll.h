/*
 * loops/nll.h: the negative log likelihood of classes, -weight[t] * x[t] for the target t, and its
 * gradient. For each target at most one element of the gradient isn't 0, so nothing here is
 * vectorised.
 */
static void K_NAME(nll)(const nll_work *work, int64_t begin, int64_t end) {
    const k_nll_targets *z = work->z;
    const int64_t inner = z->inner;
    const int64_t *target = (const int64_t *)z->target->data;
    T *y = (T *)work->y->data;
    for (int64_t r = begin; r < end; r++) {
        const T *slice = (const T *)work->x->data + r * z->classes * inner;
        for (int64_t k = 0; k < inner; k++) {
            const int64_t i = r * inner + k;
            y[i] = 0;
            if (target[i] != z->ignore)
                y[i] = (T)(-(double)slice[target[i] * inner + k] * nll_weight(z, i));
        }
    }
}

/* Writes the gradient of x to work->y, for rows begin to end - 1. A row is one item of the batch:
 * z->classes * z->inner elements of x. */
static void K_NAME(nll_backward)(const nll_work *work, int64_t begin, int64_t end) {
    const k_nll_targets *z = work->z;
    const int64_t inner = z->inner;
    const int64_t size = z->classes * inner;
    const int64_t *target = (const int64_t *)z->target->data;
    const T *g = (const T *)work->g->data;
    for (int64_t r = begin; r < end; r++) {
        T *slice = (T *)work->y->data + r * size;
        memset(slice, 0, (size_t)size * sizeof *slice);
        for (int64_t k = 0; k < inner; k++) {
            const int64_t i = r * inner + k;
            if (target[i] == z->ignore)
                continue;
            const double own = (double)g[work->g->ndim ? i : 0];
            slice[target[i] * inner + k] = (T)(-nll_weight(z, i) * own * work->scale);
        }
    }
}
