/*
 * loops/optim.h: one step of each optimizer over n elements of one type. at[0] is the parameter,
 * at[1] its gradient, at[2] .. its state; optim.h says what each number is. float32 rounds where
 * torch does.
 */

/* Returns the gradient, times its sign, with the weight decay added. */
K_INLINE T K_NAME(optim_gradient)(T gradient, T parameter, T sign, T weight_decay) {
    const T g = sign * gradient;
    return weight_decay != 0 ? fma(weight_decay, parameter, g) : g;
}

/* Returns mean + entering (x - mean), computed from the nearer end, as torch.lerp does. */
K_INLINE T K_NAME(optim_lerp)(T mean, T x, T entering) {
    return fabs(entering) < (T)0.5 ? fma(entering, x - mean, mean) : fma(entering - 1, x - mean, x);
}

/* ---- SGD ----------------------------------------------------------------------- */

K_INLINE void K_NAME(sgd_plain)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], sign, weight_decay);
        p[i] = fma(rate, g, p[i]);
    }
}

K_INLINE void K_NAME(sgd_momentum)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict buffer = (T *)at[2];
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    const T momentum = (T)z->sgd.momentum;
    const T entering = (T)z->sgd.entering;
    const bool first = z->sgd.first;
    const bool nesterov = z->sgd.nesterov;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], sign, weight_decay);
        buffer[i] = first ? g : fma(entering, g, buffer[i] * momentum);
        p[i] = fma(rate, nesterov ? fma(momentum, buffer[i], g) : buffer[i], p[i]);
    }
}

static void K_NAME(sgd)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    if (z->sgd.has_buffer)
        K_NAME(sgd_momentum)(at, n, z);
    else
        K_NAME(sgd_plain)(at, n, z);
}

/* ---- Adam ---------------------------------------------------------------------- */

K_INLINE void K_NAME(adam_with)(char *const at[], int64_t n, const k_optimizer_numbers *z,
                                const bool amsgrad) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    T *restrict square = (T *)at[3];
    T *restrict greatest = amsgrad ? (T *)at[4] : NULL;
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    const T mean_entering = (T)z->adam.mean_entering;
    const T eps = (T)z->adam.eps;
    const T square_kept = (T)z->adam.square_kept;
    const T square_entering = (T)z->adam.square_entering;
    const T correction = (T)z->adam.root_correction;
    const T shrink = (T)z->adam.shrink;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], sign, weight_decay);
        mean[i] = K_NAME(optim_lerp)(mean[i], g, mean_entering);
        square[i] = fma(square_entering * g, g, square[i] * square_kept);
        if (amsgrad) /* A NaN is greater than all numbers. */
            greatest[i] = square[i] > greatest[i] || square[i] != square[i] ? square[i]
                                                                            : greatest[i];
        const T root = sqrt(amsgrad ? greatest[i] : square[i]) / correction + eps;
        p[i] = p[i] * shrink + rate * mean[i] / root;
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
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    const T kept = (T)z->rmsprop.square_kept;
    const T entering = (T)z->rmsprop.square_entering;
    const T momentum = (T)z->rmsprop.momentum;
    const T eps = (T)z->rmsprop.eps;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], sign, weight_decay);
        square[i] = fma(entering * g, g, square[i] * kept);
        T variance = square[i];
        if (centered) {
            mean[i] = K_NAME(optim_lerp)(mean[i], g, entering);
            variance = fma(-mean[i], mean[i], variance);
        }
        if (has_buffer) {
            buffer[i] = buffer[i] * momentum + g / (sqrt(variance) + eps);
            p[i] = fma(rate, buffer[i], p[i]);
        } else {
            p[i] += rate * g / (sqrt(variance) + eps);
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
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    const T eps = (T)z->adagrad.eps;
    for (int64_t i = 0; i < n; i++) {
        const T g = K_NAME(optim_gradient)(gradient[i], p[i], sign, weight_decay);
        sum[i] = fma(g, g, sum[i]);
        p[i] += rate * g / (sqrt(sum[i]) + eps);
    }
}

/* ---- Lion ---------------------------------------------------------------------- */

/* Returns -1, 0 or 1, or NaN. */
K_INLINE T K_NAME(optim_sign)(T x) {
    const T unless_above = x < 0 ? -1 : x;
    return x > 0 ? 1 : unless_above;
}

static void K_NAME(lion)(char *const at[], int64_t n, const k_optimizer_numbers *z) {
    T *restrict p = (T *)at[0];
    T *restrict gradient = (T *)at[1];
    T *restrict mean = (T *)at[2];
    const T sign = (T)z->sign;
    const T weight_decay = (T)z->weight_decay;
    const T rate = (T)z->rate;
    const T update_kept = (T)z->lion.update_kept;
    const T update_entering = (T)z->lion.update_entering;
    const T mean_kept = (T)z->lion.mean_kept;
    const T mean_entering = (T)z->lion.mean_entering;
    for (int64_t i = 0; i < n; i++) {
        const T g = sign * gradient[i];
        const T update = update_kept * mean[i] + update_entering * g;
        mean[i] = mean_kept * mean[i] + mean_entering * g;
        p[i] += rate * (K_NAME(optim_sign)(update) + weight_decay * p[i]);
    }
}
