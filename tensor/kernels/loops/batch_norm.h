/*
 * loops/batch_norm.h: batch norm of a block of channels, compiled for each element type (see
 * sets.h). Contiguous elements are summed in sixteen lanes (partial sums) of type T, however wide
 * the vectors of the instruction set are. The lanes are then added in double. So all instruction
 * sets give the same bits.
 */
K_SUMS_IN_T;

#define NUMBERS(t) ((T *)(void *)(t))

/* Returns the sum of (x - shift) * g over n elements, or the sum of (x - shift)^2 if g is NULL. */
K_INLINE double K_NAME(batch_row)(const T *x, const T *g, T shift, int64_t n) {
    T lane[BATCH_LANES] = { 0 };
    int64_t i = 0;
    for (; i + BATCH_LANES <= n; i += BATCH_LANES)
        for (int l = 0; l < BATCH_LANES; l++)
            lane[l] += (x[i + l] - shift) * (g ? g[i + l] : x[i + l] - shift);
    double sum = 0;
    for (; i < n; i++)
        sum += (double)((x[i] - shift) * (g ? g[i] : x[i] - shift));
    for (int l = 0; l < BATCH_LANES; l++)
        sum += (double)lane[l];
    return sum;
}

/* Returns the sum of n elements of x. */
K_INLINE double K_NAME(batch_sum)(const T *x, int64_t n) {
    T lane[BATCH_LANES] = { 0 };
    int64_t i = 0;
    for (; i + BATCH_LANES <= n; i += BATCH_LANES)
        for (int l = 0; l < BATCH_LANES; l++)
            lane[l] += x[i + l];
    double sum = 0;
    for (; i < n; i++)
        sum += (double)x[i];
    for (int l = 0; l < BATCH_LANES; l++)
        sum += (double)lane[l];
    return sum;
}

/* For each c < n, sets sums[c] to the sum of all elements of x in channel first + c, over the whole
 * batch. */
static void K_NAME(batch_sums)(const k_batch_norm *z, double *sums, const T *x, int64_t first,
                               int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sums[c] = 0;
    for (int64_t image = 0; image < z->batch; image++)
        for (int64_t c = 0; c < n; c++)
            sums[c] += K_NAME(batch_sum)(x + (image * z->channels + first + c) * z->per, z->per);
}

/* For each c < n, sets sums[c] to the sum of (x - shift[c]) * g over all elements in channel first
 * + c of the whole batch. If g is NULL, the sum is that of (x - shift[c])^2. */
static void K_NAME(batch_products)(const k_batch_norm *z, double *sums, const T *x, const T *g,
                                   const T *shift, int64_t first, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        sums[c] = 0;
    for (int64_t image = 0; image < z->batch; image++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t at = (image * z->channels + first + c) * z->per;
            sums[c] += g ? K_NAME(batch_row)(x + at, g + at, shift[c], z->per)
                         : K_NAME(batch_row)(x + at, NULL, shift[c], z->per);
        }
}

/* y = (x - mean[c]) * scale[c] + shift[c] in channel first + c, for each c < n. The mean is
 * subtracted first: far from 0, that rounds nothing, and x * scale would. */
static void K_NAME(batch_scale)(const k_batch_norm *z, T *y, const T *x, const T *mean,
                                const T *scale, const T *shift, int64_t first, int64_t n) {
    for (int64_t image = 0; image < z->batch; image++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t at = (image * z->channels + first + c) * z->per;
            const T middle = mean[c];
            const T factor = scale[c];
            const T more = shift[c];
            K_INDEPENDENT
            for (int64_t i = 0; i < z->per; i++)
                y[at + i] = (x[at + i] - middle) * factor + more;
        }
}

static void K_NAME(batch_forward_part)(const batch_work *w, int64_t first, int64_t n) {
    const k_batch_norm *z = w->z;
    const double count = (double)(z->batch * z->per);
    const T *x = NUMBERS(w->x);
    /* rounded[c] is the mean of the batch, rounded to T, minus the exact mean. */
    double sums[BATCH_CHANNELS], rounded[BATCH_CHANNELS];
    /* The initialiser avoids a warning of GCC, which doesn't see that n is at least 1. */
    T mean[BATCH_CHANNELS] = { 0 };
    T scale[BATCH_CHANNELS], shift[BATCH_CHANNELS];
    if (z->training) {
        K_NAME(batch_sums)(z, sums, x, first, n);
        for (int64_t c = 0; c < n; c++)
            NUMBERS(w->mean_made)[first + c] = (T)(sums[c] / count);
    }
    for (int64_t c = 0; c < n; c++) {
        mean[c] = NUMBERS(w->mean)[first + c];
        rounded[c] = z->training ? (double)mean[c] - sums[c] / count : 0;
    }
    if (z->training) {
        K_NAME(batch_products)(z, sums, x, NULL, mean, first, n);
        for (int64_t c = 0; c < n; c++)
            NUMBERS(w->var_made)[first + c] = (T)(sums[c] / count);
    }
    for (int64_t c = 0; c < n; c++) {
        const double rstd = 1 / sqrt((double)NUMBERS(w->var)[first + c] + z->eps);
        scale[c] = (T)rstd * (w->weight ? NUMBERS(w->weight)[first + c] : 1);
        const double bias = w->bias ? (double)NUMBERS(w->bias)[first + c] : 0;
        shift[c] = (T)(bias + rounded[c] * (double)scale[c]);
    }
    K_NAME(batch_scale)(z, NUMBERS(w->y), x, mean, scale, shift, first, n);
}

static void K_NAME(batch_forward)(void *context, int64_t begin, int64_t end, int worker) {
    const batch_work *w = context;
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * BATCH_CHANNELS;
        K_NAME(batch_forward_part)(w, first, RG_MIN(BATCH_CHANNELS, w->z->channels - first));
    }
}

/* Computes the gradients for the n channels that begin at channel `first`. For each channel, let m
 * be the mean in w->mean, v the variance in w->var, rstd = 1 / sqrt(v + eps), and scale = rstd *
 * weight. The gradients of weight and bias are sum(g * (x - m)) * rstd and sum(g), where the sums
 * are over the channel in the whole batch. In training, gx = (g - level - along * (x - m)) * scale,
 * where `level` is the mean of g, and `along` is rstd^2 times the mean of g * (x - m). Otherwise gx
 * = g * scale. A gradient whose pointer is NULL isn't computed. */
static void K_NAME(batch_backward_part)(const batch_work *w, int64_t first, int64_t n) {
    const k_batch_norm *z = w->z;
    const double count = (double)(z->batch * z->per);
    const T *x = NUMBERS(w->x);
    const T *g = NUMBERS(w->g);
    T *gx = NUMBERS(w->y);
    const T *mean = NUMBERS(w->mean) + first;
    double sums[BATCH_CHANNELS], dots[BATCH_CHANNELS];
    K_NAME(batch_sums)(z, sums, g, first, n);
    K_NAME(batch_products)(z, dots, x, g, mean, first, n);
    for (int64_t c = 0; c < n; c++) {
        const double rstd = 1 / sqrt((double)NUMBERS(w->var)[first + c] + z->eps);
        if (w->gweight)
            NUMBERS(w->gweight)[first + c] = count > 0 ? (T)(dots[c] * rstd) : 0;
        if (w->gbias)
            NUMBERS(w->gbias)[first + c] = (T)sums[c];
        if (!gx)
            continue;
        const T scale = (T)rstd * (w->weight ? NUMBERS(w->weight)[first + c] : 1);
        const T along = z->training ? (T)(dots[c] * rstd * rstd / count) : 0;
        const T level = z->training ? (T)(sums[c] / count) : 0;
        const T middle = mean[c];
        for (int64_t image = 0; image < z->batch; image++) {
            const int64_t at = (image * z->channels + first + c) * z->per;
            const int64_t trained = at + (z->training ? z->per : 0);
            K_INDEPENDENT
            for (int64_t i = at; i < trained; i++)
                gx[i] = (g[i] - level - (x[i] - middle) * along) * scale;
            K_INDEPENDENT
            for (int64_t i = trained; i < at + z->per; i++)
                gx[i] = g[i] * scale;
        }
    }
}

static void K_NAME(batch_backward)(void *context, int64_t begin, int64_t end, int worker) {
    const batch_work *w = context;
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * BATCH_CHANNELS;
        K_NAME(batch_backward_part)(w, first, RG_MIN(BATCH_CHANNELS, w->z->channels - first));
    }
}

#undef NUMBERS
