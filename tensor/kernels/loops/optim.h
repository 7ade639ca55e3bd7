/*
 * loops/optim.h: one step of each optimizer for n elements of one type. at[0] is the parameter,
 * at[1] its gradient, and at[2] and the following ones are its state. kernels/optim.h explains the
 * fields of k_optimizer_numbers, and the loops for which at[] is something else. float32 numbers
 * are rounded at the same places as in torch.
 */

/* The numbers that most optimizers use, converted to this type. */
typedef struct {
    T sign, weight_decay, rate;
} K_NAME(optim_common);

K_INLINE K_NAME(optim_common) K_NAME(optim_common_of)(const k_optimizer_numbers *z) {
    return (K_NAME(optim_common)){ (T)z->sign, (T)z->weight_decay, (T)z->rate };
}

/* Returns the gradient (negated if the objective is maximized: `sign` is -1), plus weight_decay
 * times the parameter. */
K_INLINE T K_NAME(optim_gradient)(T gradient, T parameter, K_NAME(optim_common) common) {
    const T g = common.sign * gradient;
    return common.weight_decay != 0 ? fma(common.weight_decay, parameter, g) : g;
}

/* Returns mean + entering * (x - mean). If |entering| is 1/2 or more, the result is computed as x -
 * (1 - entering) * (x - mean), as in torch.lerp; the two formulas round differently. */
K_INLINE T K_NAME(optim_lerp)(T mean, T x, T entering) {
    return fabs(entering) < (T)0.5 ? fma(entering, x - mean, mean) : fma(entering - 1, x - mean, x);
}

/* Returns the next moving average of g^2: average * kept + g^2 * entering. */
K_INLINE T K_NAME(optim_square)(T average, T g, T kept, T entering) {
    return fma(entering * g, g, average * kept);
}

/* ---- SGD ----------------------------------------------------------------------- */

K_INLINE void K_NAME(sgd_plain)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        p[i] = fma(common.rate, g, p[i]);
    }
}

K_INLINE void K_NAME(sgd_with)(char *const at[], int64_t n, const k_optimizer_numbers *z,
                               const bool first, const bool nesterov) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict buffer = (T *)at[2];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T momentum = (T)z->sgd.momentum;
    const T entering = (T)z->sgd.entering;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        buffer[i] = first ? g : fma(entering, g, buffer[i] * momentum);
        p[i] = fma(common.rate, nesterov ? fma(momentum, buffer[i], g) : buffer[i], p[i]);
    }
}

static void K_NAME(sgd)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    if (!z->sgd.has_buffer)
        K_NAME(sgd_plain)(at, n, z);
    else if (z->sgd.first)
        K_NAME(sgd_with)(at, n, z, true, z->sgd.nesterov);
    else if (z->sgd.nesterov)
        K_NAME(sgd_with)(at, n, z, false, true);
    else
        K_NAME(sgd_with)(at, n, z, false, false);
}

/* ---- Adam ---------------------------------------------------------------------- */

K_INLINE void K_NAME(adam_with)(char *const at[], int64_t n, const k_optimizer_numbers *z,
                                const bool amsgrad) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    T *restrict square = (T *)at[3];
    T *restrict greatest = amsgrad ? (T *)at[4] : NULL;
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T mean_entering = (T)z->adam.mean_entering;
    const T eps = (T)z->adam.eps;
    const T square_kept = (T)z->adam.square_kept;
    const T square_entering = (T)z->adam.square_entering;
    const T correction = (T)z->adam.root_correction;
    const T shrink = (T)z->adam.shrink;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        mean[i] = K_NAME(optim_lerp)(mean[i], g, mean_entering);
        square[i] = K_NAME(optim_square)(square[i], g, square_kept, square_entering);
        if (amsgrad) /* A NaN becomes the greatest value, so that the NaN isn't lost. */
            greatest[i] = square[i] > greatest[i] || square[i] != square[i] ? square[i]
                                                                            : greatest[i];
        const T root = sqrt(amsgrad ? greatest[i] : square[i]) / correction + eps;
        p[i] = p[i] * shrink + common.rate * mean[i] / root;
    }
}

static void K_NAME(adam)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    if (z->adam.amsgrad)
        K_NAME(adam_with)(at, n, z, true);
    else
        K_NAME(adam_with)(at, n, z, false);
}

/* ---- RMSprop ------------------------------------------------------------------- */

K_INLINE void K_NAME(rmsprop_with)(char *const at[], int64_t n, const k_optimizer_numbers *z,
                                   const bool has_buffer, const bool centered) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict square = (T *)at[2];
    T *restrict buffer = has_buffer ? (T *)at[3] : NULL;
    const int mean_at = has_buffer ? 4 : 3;
    T *restrict mean = centered ? (T *)at[mean_at] : NULL;
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T kept = (T)z->rmsprop.square_kept;
    const T entering = (T)z->rmsprop.square_entering;
    const T momentum = (T)z->rmsprop.momentum;
    const T eps = (T)z->rmsprop.eps;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        square[i] = K_NAME(optim_square)(square[i], g, kept, entering);
        T variance = square[i];
        if (centered) {
            mean[i] = K_NAME(optim_lerp)(mean[i], g, entering);
            variance = fma(-mean[i], mean[i], variance);
        }
        if (has_buffer) {
            buffer[i] = buffer[i] * momentum + g / (sqrt(variance) + eps);
            p[i] = fma(common.rate, buffer[i], p[i]);
        } else {
            p[i] += common.rate * g / (sqrt(variance) + eps);
        }
    }
}

static void K_NAME(rmsprop)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    if (z->rmsprop.has_buffer && z->rmsprop.centered)
        K_NAME(rmsprop_with)(at, n, z, true, true);
    else if (z->rmsprop.has_buffer)
        K_NAME(rmsprop_with)(at, n, z, true, false);
    else if (z->rmsprop.centered)
        K_NAME(rmsprop_with)(at, n, z, false, true);
    else
        K_NAME(rmsprop_with)(at, n, z, false, false);
}

/* ---- Adagrad ------------------------------------------------------------------- */

static void K_NAME(adagrad)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict sum = (T *)at[2];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T eps = (T)z->adagrad.eps;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        sum[i] = fma(g, g, sum[i]);
        p[i] += common.rate * g / (sqrt(sum[i]) + eps);
    }
}

/* ---- Lion ---------------------------------------------------------------------- */

/* Returns the sign of x (-1, 0 or 1), or NaN if x is NaN. */
K_INLINE T K_NAME(optim_sign)(T x) {
    const T unless_above = x < 0 ? -1 : x;
    return x > 0 ? 1 : unless_above;
}

static void K_NAME(lion)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T update_kept = (T)z->lion.update_kept;
    const T update_entering = (T)z->lion.update_entering;
    const T mean_kept = (T)z->lion.mean_kept;
    const T mean_entering = (T)z->lion.mean_entering;
    for (int64_t i = 0; i < n; i++) {
        const T g = common.sign * gradient[i];
        const T update = update_kept * mean[i] + update_entering * g;
        mean[i] = mean_kept * mean[i] + mean_entering * g;
        p[i] += common.rate * (K_NAME(optim_sign)(update) + common.weight_decay * p[i]);
    }
}

/* ---- NAdam --------------------------------------------------------------------- */

static void K_NAME(nadam)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    T *restrict square = (T *)at[3];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T mean_entering = (T)z->nadam.mean_entering;
    const T square_kept = (T)z->nadam.square_kept;
    const T square_entering = (T)z->nadam.square_entering;
    const T correction = (T)z->nadam.square_correction;
    const T eps = (T)z->nadam.eps;
    const T gradient_rate = (T)z->nadam.gradient_rate;
    const T mean_rate = (T)z->nadam.mean_rate;
    const T shrink = (T)z->nadam.shrink;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        mean[i] = K_NAME(optim_lerp)(mean[i], g, mean_entering);
        square[i] = K_NAME(optim_square)(square[i], g, square_kept, square_entering);
        const T root = sqrt(square[i] / correction) + eps;
        p[i] = p[i] * shrink + gradient_rate * g / root + mean_rate * mean[i] / root;
    }
}

/* ---- RAdam --------------------------------------------------------------------- */

K_INLINE void K_NAME(radam_with)(char *const at[], int64_t n, const k_optimizer_numbers *z,
                                 const bool rectified) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    T *restrict square = (T *)at[3];
    const K_NAME(optim_common) common = K_NAME(optim_common_of)(z);
    const T mean_entering = (T)z->radam.mean_entering;
    const T mean_correction = (T)z->radam.mean_correction;
    const T square_kept = (T)z->radam.square_kept;
    const T square_entering = (T)z->radam.square_entering;
    const T correction = (T)z->radam.root_correction;
    const T rectification = (T)z->radam.rectification;
    const T eps = (T)z->radam.eps;
    const T shrink = (T)z->radam.shrink;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], common);
        mean[i] = K_NAME(optim_lerp)(mean[i], g, mean_entering);
        square[i] = K_NAME(optim_square)(square[i], g, square_kept, square_entering);
        T update = mean[i] / mean_correction * common.rate;
        if (rectified)
            update = update * (1 / (sqrt(square[i]) + eps) * correction) * rectification;
        p[i] = p[i] * shrink + update;
    }
}

static void K_NAME(radam)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    if (z->radam.rectified)
        K_NAME(radam_with)(at, n, z, true);
    else
        K_NAME(radam_with)(at, n, z, false);
}

/* ---- Muon ---------------------------------------------------------------------- */

/* Returns x rounded to bfloat16, the nearest number with 8 significant bits. If two such numbers
 * are equally near, returns the one whose last bit is 0. */
K_INLINE T K_NAME(bfloat16_of)(T x) {
    const union {
        float number;
        uint32_t bits;
    } from = { (float)x };
    const uint32_t rounded = from.bits + 0x7fff + (from.bits >> 16 & 1);
    const union {
        uint32_t bits;
        float number;
    } to = { rounded & 0xffff0000 };
    return x == x ? (T)to.number : x;
}

static void K_NAME(round_to_bfloat16)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict x = (T *)at[0];
    (void)z;
    for (int64_t i = 0; i < n; i++)
        x[i] = K_NAME(bfloat16_of)(x[i]);
}

/* y = alpha * y + beta * c, rounded to bfloat16. */
static void K_NAME(combine_to_bfloat16)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict y = (T *)at[0];
    T *restrict c = (T *)at[1];
    const T alpha = (T)z->combined.alpha;
    const T beta = (T)z->combined.beta;
    for (int64_t i = 0; i < n; i++)
        y[i] = K_NAME(bfloat16_of)(fma(beta, c[i], alpha * y[i]));
}

static void K_NAME(muon_update)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict update = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict buffer = (T *)at[2];
    const T entering = (T)z->muon.entering;
    const T momentum = (T)z->muon.momentum;
    const bool nesterov = z->muon.nesterov;
    for (int64_t i = 0; i < n; i++) {
        const T g = gradient[i];
        const T next = K_NAME(optim_lerp)(buffer[i], g, entering);
        update[i] = K_NAME(bfloat16_of)(nesterov ? K_NAME(optim_lerp)(g, next, momentum) : next);
    }
}

static void K_NAME(muon)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict buffer = (T *)at[2];
    T *restrict update = (T *)at[3];
    const T rate = (T)z->rate;
    const T entering = (T)z->muon.entering;
    const T shrink = (T)z->muon.shrink;
    for (int64_t i = 0; i < n; i++) {
        buffer[i] = K_NAME(optim_lerp)(buffer[i], gradient[i], entering);
        p[i] = fma(rate, update[i], p[i] * shrink);
    }
}

/* ---- averages of parameters ------------------------------------------------------------------ */

static void K_NAME(average_lerp)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict average = (T *)at[0];
    T *restrict x = (T *)at[1];
    const T entering = (T)z->averaged.entering;
    for (int64_t i = 0; i < n; i++)
        average[i] = K_NAME(optim_lerp)(average[i], x[i], entering);
}

static void K_NAME(average_mean)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict average = (T *)at[0];
    T *restrict x = (T *)at[1];
    const T count = (T)z->averaged.count;
    for (int64_t i = 0; i < n; i++)
        average[i] += (x[i] - average[i]) / count;
}
