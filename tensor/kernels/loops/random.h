/*
 * loops/random.h: turns uniform random numbers of one type into numbers of other distributions:
 * uniform on other intervals, normal, and truncated normal.
 */

/* y = y * scale + shift, rounded once. */
static void K_NAME(random_scale)(void *numbers, int n, double scale_given, double shift_given) {
    T *y = numbers;
    const T scale = (T)scale_given;
    const T shift = (T)shift_given;
    for (int i = 0; i < n; i++)
        y[i] = fma(y[i], scale, shift);
}

/* y = y * (high - low) + low, rounded once. If a result is `high` because of rounding, it becomes
 * `low`, since the interval doesn't include `high`. */
static void K_NAME(random_stretch)(void *numbers, int n, double low_given, double high_given) {
    T *y = numbers;
    const T low = (T)low_given;
    const T high = (T)high_given;
    K_NAME(random_scale)(y, n, (double)(high - low), (double)low);
    for (int i = 0; i < n; i++)
        y[i] = y[i] == high ? low : y[i];
}

/* Turns uniform numbers in [0, 1) into normal ones, in blocks of sixteen; n must be a multiple of
 * sixteen. In a block, element i and element i + 8 are a pair, which random_pair transforms
 * together. */
static void K_NAME(random_normals)(void *numbers, int n) {
    T *y = numbers;
    for (int block = 0; block < n; block += 16)
        for (int i = block; i < block + 8; i++)
            K_NAME(random_pair)(y + i, y + i + 8);
}

/* For each element that is still pending, writes its candidate to `accepted`, and clears `pending`
 * if the candidate is accepted. Returns whether any element is still pending after that. A
 * candidate from the normal distribution is accepted if it is in the interval. A uniform candidate
 * is accepted if its element of `uniforms` is small enough (see k_truncation). Each operation is
 * rounded in the tensor's dtype, as in torch. */
static bool K_NAME(random_truncate)(const k_truncation *r, int64_t n, void *accepted,
                                    const void *candidates, const void *uniforms, bool *pending) {
    T *x = accepted;
    const T *candidate = candidates;
    const T *u = uniforms;
    const T mean = (T)r->mean;
    const T std = (T)r->std;
    const T low = (T)r->low;
    const T high = (T)r->high;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        if (!pending[i])
            continue;
        const T v = candidate[i];
        const T z = (v - mean) / std;
        x[i] = v;
        if (r->normal)
            pending[i] = v < low || v > high;
        else
            pending[i] = log(u[i]) > z * z * (T)-0.5 - (T)r->log_peak;
        any |= pending[i];
    }
    return any;
}
