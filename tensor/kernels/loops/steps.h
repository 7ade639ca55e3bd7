/*
 * loops/steps.h: the loops that count an optimizer's steps, and that compute the numbers of a step
 * which depend on this count. They call no function of libm, whose results differ between systems.
 * kernels/optim.h explains k_optimizer_count and k_optimizer_numbers.
 */

/* ---- powers of a number ---------------------------------------------------------------------- */

/* The number high + low, where `low` is small beside `high`. */
typedef struct {
    double high, low;
} K_IN_SET(step_pair);

/* Returns a * b - product, where `product` is a * b rounded. A double has room for this error. */
K_INLINE double K_IN_SET(step_lost)(double a, double b, double product) {
#if defined(K_SET_IS_AVX2) || defined(K_SET_IS_NEON)
    return fma(a, b, -product);
#else
    /* Veltkamp's splitting: a factor times 2^27 + 1 gives its upper half. Each half has at most 26
     * bits, so that the products of halves are exact. */
    const double many_a = 0x1.0000002p27 * a;
    const double many_b = 0x1.0000002p27 * b;
    const double high_a = many_a - (many_a - a);
    const double high_b = many_b - (many_b - b);
    const double low_a = a - high_a;
    const double low_b = b - high_b;
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b;
#endif
}

/* Returns a * b with more than 70 bits. */
K_INLINE K_IN_SET(step_pair) K_IN_SET(step_product)(K_IN_SET(step_pair) a, K_IN_SET(step_pair) b) {
    const double product = a.high * b.high;
    const double lost = K_IN_SET(step_lost)(a.high, b.high, product);
    const double rest = (a.high * b.low + a.low * b.high) + a.low * b.low;
    return (K_IN_SET(step_pair)){ product, lost + rest };
}

/* Returns base^n for a whole number n. If n is negative, returns 1. For a base from 0 to 1 the
 * result is the double next to the power, unless the power lies almost in the middle between two
 * doubles. */
static double K_IN_SET(step_power)(double base, double n) {
    const double most = 0x1p53;
    const double bounded = n < most ? n : most;
    K_IN_SET(step_pair) power = { 1, 0 };
    K_IN_SET(step_pair) square = { base, 0 };
    for (int64_t left = bounded > 0 ? (int64_t)bounded : 0; left; left >>= 1) {
        if (left & 1)
            power = K_IN_SET(step_product)(power, square);
        square = K_IN_SET(step_product)(square, square);
    }
    return power.high + power.low;
}

/* Returns 1 - beta^step, the divisor that corrects the bias of a running mean that began as 0.
 * |beta|^step is at most e^(step * (|beta| - 1)). If this is below e^-38, the result is 1 after
 * rounding, and the power needn't be computed. */
static double K_IN_SET(step_correction)(double beta, double step) {
    return step * (1 - fabs(beta)) > 38 ? 1 : 1 - K_IN_SET(step_power)(beta, step);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void K_IN_SET(step_count)(k_optimizer_count *count, double beta1, double decay,
                                 bool in_float) {
    (void)beta1;
    (void)decay;
    (void)in_float;
    count->step += 1;
}

/* Returns the momentum that NAdam uses at this step: beta1 * (1 - 0.96^(step * decay) / 2). */
static double K_IN_SET(nadam_momentum)(double beta1, double decay, double step) {
    const double log_of_base = -0x1.4e69ed6d80eb3p-5; /* ln 0.96 */
    return beta1 * (1 - 0.5 * k_exp_double(step * decay * log_of_base));
}

/* Counts a step, and multiplies count->product by the momentum of this step. If in_float is true,
 * the product is rounded to float, since torch keeps it in a tensor of float32. */
static void K_IN_SET(nadam_count)(k_optimizer_count *count, double beta1, double decay,
                                  bool in_float) {
    count->step += 1;
    const double before = count->step == 1 ? 1 : count->product;
    const double momentum = K_IN_SET(nadam_momentum)(beta1, decay, count->step);
    if (in_float)
        count->product = (double)(float)((double)(float)before * (double)(float)momentum);
    else
        count->product = before * momentum;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Copies the numbers that don't depend on the count, if z hasn't got them already. */
K_INLINE void K_IN_SET(step_given)(k_optimizer_numbers *z, const k_optimizer_numbers *given) {
    if (z != given)
        *z = *given;
}

/* RMSprop's count is only saved: none of its numbers depends on it. */
static void K_IN_SET(rmsprop_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                      const k_optimizer_numbers *given) {
    (void)count;
    K_IN_SET(step_given)(z, given);
}

static void K_IN_SET(sgd_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                  const k_optimizer_numbers *given) {
    K_IN_SET(step_given)(z, given);
    z->sgd.first = count->step == 1;
}

static void K_IN_SET(adam_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                   const k_optimizer_numbers *given) {
    K_IN_SET(step_given)(z, given);
    z->rate = given->rate / K_IN_SET(step_correction)(given->beta1, count->step);
    z->adam.root_correction = sqrt(K_IN_SET(step_correction)(given->beta2, count->step));
}

static void K_IN_SET(adagrad_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                      const k_optimizer_numbers *given) {
    K_IN_SET(step_given)(z, given);
    z->rate = given->rate / (1 + (count->step - 1) * given->decay);
}

static void K_IN_SET(nadam_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                    const k_optimizer_numbers *given) {
    const double beta1 = given->beta1;
    const double decay = given->decay;
    const double now = K_IN_SET(nadam_momentum)(beta1, decay, count->step);
    const double next = K_IN_SET(nadam_momentum)(beta1, decay, count->step + 1);
    K_IN_SET(step_given)(z, given);
    z->nadam.square_correction = K_IN_SET(step_correction)(given->beta2, count->step);
    z->nadam.gradient_rate = given->rate * (1 - now) / (1 - count->product);
    z->nadam.mean_rate = given->rate * next / (1 - count->product * next);
}

/* In the first steps RAdam's estimate of the variance is too uncertain; then `rectified` is false,
 * and the step isn't divided by the root of the estimate. */
static void K_IN_SET(radam_numbers)(k_optimizer_numbers *z, const k_optimizer_count *count,
                                    const k_optimizer_numbers *given) {
    const double last = 2 / (1 - given->beta2) - 1;
    const double kept = K_IN_SET(step_power)(given->beta2, count->step);
    const double length = last - 2 * count->step * kept / (1 - kept);
    K_IN_SET(step_given)(z, given);
    z->radam.mean_correction = K_IN_SET(step_correction)(given->beta1, count->step);
    z->radam.root_correction = sqrt(1 - kept);
    z->radam.rectified = length > 5;
    if (length > 5)
        z->radam.rectification =
            sqrt((length - 4) * (length - 2) * last / ((last - 4) * (last - 2) * length));
}
