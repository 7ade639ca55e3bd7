/*
 * unary.c: functions of one element, and the first derivatives of those that
 * networks are made of. Each is one line here; only gelu, its tanh form and their
 * slopes, which are looked up by pieces, have machinery of their own: the shares.
 */
#ifndef K_BITS
#include "loops.h"

/* A share s with s(-x) = 1 - s(x), and 0 far below: x s(x) are gelu and its tanh form, whose slopes
 * are such shares, too. What lies beyond |x| is one of 15 polynomials of u, |x| less the nearest
 * multiple of 1/2; from 7.25 on it is 0. Slopes, which are steeper, have one degree more. (An
 * exponential and a polynomial for it would be twice the multiplications.) */
enum { SHARE_DEGREE = 5, SHARE_PIECES = 15 };
typedef float share_pieces[SHARE_DEGREE + 2][SHARE_PIECES + 1];
static share_pieces share_gelu, share_gelu_grad, share_gelu_tanh, share_gelu_tanh_grad;

/* Step by step for four vectors, none of which waits for another. */
#define SHARE_LANES (K_BITS / 8)
#define SHARE_EACH  K_INDEPENDENT for (int l = 0; l < SHARE_LANES; l++)
#define SHARE_RISE  (2 * M_SQRT1_2 * M_2_SQRTPI) /* 2 sqrt(2 / pi) */

static double share_of_normal(double y) { return erfc(y * M_SQRT1_2) / 2; }
static double share_of_normal_slope(double y) {
    return share_of_normal(y) - y * exp(-y * y / 2) * SHARE_RISE / 4;
}
static double share_of_tanh(double y) {
    return 1 / (1 + exp(SHARE_RISE * (y + 0.044715 * y * y * y)));
}
static double share_of_tanh_slope(double y) {
    double s = share_of_tanh(y);
    return s - y * s * (1 - s) * SHARE_RISE * (1 + 3 * 0.044715 * y * y);
}

/* Through f at the zeros of a Chebyshev polynomial: by divided differences, then multiplied out. */
static void share_fit(share_pieces to, bool steep, double (*f)(double)) {
    const int n = SHARE_DEGREE + steep + 1;
    for (int piece = 0; piece < SHARE_PIECES; piece++) {
        double u[SHARE_DEGREE + 2], d[SHARE_DEGREE + 2], p[SHARE_DEGREE + 2] = { 0 };
        for (int k = 0; k < n; k++) {
            u[k] = cos(M_PI * (k + 0.5) / n) / 4;
            d[k] = f(piece / 2.0 + u[k]);
        }
        for (int i = 1; i < n; i++)
            for (int k = n - 1; k >= i; k--)
                d[k] = (d[k] - d[k - 1]) / (u[k] - u[k - i]);
        for (int k = n - 1; k >= 0; k--)
            for (int i = n - 1; i >= 0; i--)
                p[i] = (i ? p[i - 1] : d[k]) - u[k] * p[i];
        for (int i = 0; i < n; i++)
            to[i][piece] = (float)p[i];
    }
}

__attribute__((constructor)) static void share_fits(void) {
    share_fit(share_gelu, false, share_of_normal),
        share_fit(share_gelu_grad, true, share_of_normal_slope);
    share_fit(share_gelu_tanh, false, share_of_tanh),
        share_fit(share_gelu_tanh_grad, true, share_of_tanh_slope);
}

#define K_FILE "unary.c"
#include "sets.h"
#else

K_ALL(1, sign, x, (x > 0) - (x < 0), (x > 0) - (x < 0))
K_NUMBERS(1, neg, k_wrap_sub(0, x), -x)
K_NUMBERS(1, abs, x < 0 ? k_wrap_sub(0, x) : x, fabs(x))
K_NUMBERS(1, square, k_wrap_mul(x, x), x *x)
K_NUMBERS(1, floor, x, FLOOR(x))
K_NUMBERS(1, ceil, x, CEIL(x))
K_NUMBERS(1, round, x, RINT(x))
K_NUMBERS(1, trunc, x, TRUNC(x))
K_FLOATS(1, frac, x - TRUNC(x))
K_FLOATS(1, round_up, RINT(x *k[0]) / k[0])    /* decimals > 0: k[0] = 10^decimals */
K_FLOATS(1, round_down, RINT(x / k[0]) * k[0]) /* decimals < 0: k[0] = 10^-decimals */

#define SMOOTH(op)          K_FLOATS(1, op, K_OF(op, x))
#define SMOOTH_OF_FLOAT(op) K_FLOATS(1, op, K_FLOAT_OF(op, x))
SMOOTH(exp)
SMOOTH(exp2)
SMOOTH(expm1)
SMOOTH(log) SMOOTH(log1p) SMOOTH(log2) SMOOTH(log10) SMOOTH(sinh) SMOOTH(cosh) SMOOTH(tanh)
    SMOOTH_OF_FLOAT(asin) SMOOTH_OF_FLOAT(acos) SMOOTH_OF_FLOAT(atan) SMOOTH_OF_FLOAT(erf)
        SMOOTH_OF_FLOAT(erfc) K_FLOATS(1, sqrt, sqrt(x)) K_FLOATS(1, rsqrt, 1 / sqrt(x))
            K_FLOATS(1, reciprocal, 1 / x) K_LIGHT_FLOATS(1, cube, x *x *x)
                K_FLOATS(1, reciprocal_square, 1 / (x * x)) K_FLOATS(1, sigmoid, 1 / (1 + EXP(-x)))

                    K_TEST(1, isnan, false, x != x)
                        K_TEST(1, isinf, false, fabs(x) == (real)INFINITY)
                            K_TEST(1, isfinite, true, fabs(x) < (real)INFINITY)
                                K_TEST(1, logical_not, !x, x == 0)

/* ---- activations: f(x), and g f'(x) from g and x (b is x, or y where it says so) ---- */

#define GRADIENT(op, expression)       K_FLOATS(2, op##_grad, expression)
#define LIGHT_GRADIENT(op, expression) K_LIGHT_FLOATS(2, op##_grad, expression)

#define SIGMOID(x) (1 / (1 + EXP(-(x))))

    /* of y */
    LIGHT_GRADIENT(tanh, a *(1 - b * b)) LIGHT_GRADIENT(sigmoid, a *(1 - b) * b)
        K_NUMBERS(1, relu, x < 0 ? 0 : x, x < 0 ? 0 : x) LIGHT_GRADIENT(relu, b <= 0 ? 0 : a)

    /* of x */
    K_NUMBERS(1, hardtanh, x<k[0] ? k[0] : x> k[1] ? k[1] : x, x<k[0] ? k[0] : x> k[1] ? k[1] : x)
        LIGHT_GRADIENT(hardtanh, b <= k[0] || b >= k[1] ? 0 : a)
            K_LIGHT_FLOATS(1, leaky_relu, x > 0 ? x : x * k[0])
                LIGHT_GRADIENT(leaky_relu, b > 0 ? a : a * k[0])

    /* elu and its kind: k[0] above, k[1] below, k[2] inside the exponent */
    K_FLOATS(1, elu, x < 0 ? k[1] * EXPM1(x * k[2]) : x * k[0])
        GRADIENT(elu, b <= 0 ? a * k[1] * k[2] * EXP(b * k[2]) : a * k[0])

    /* y = a s(x) */
    K_SMOOTH void K_SET(share_line)(float *restrict y, const float *a, const float *x,
                                    const bool steep, const share_pieces c) {
    const float magic = 6291456.f; /* 3 * 2^21: adding it rounds to halves */
    float u[SHARE_LANES], p[SHARE_LANES], term[SHARE_LANES];
    int32_t at[SHARE_LANES];
    /* at most 7.5 */
    SHARE_EACH u[l] = k_from_bits(RG_MIN(k_bits(x[l]) & INT32_MAX, 0x40f00000));
    SHARE_EACH p[l] = u[l] + magic;
    SHARE_EACH at[l] = k_bits(p[l]);
    SHARE_EACH u[l] -= p[l] - magic;
    K_LOOK_UP(p, c[SHARE_DEGREE + steep], at);
    _Pragma("GCC unroll 8") for (int k = SHARE_DEGREE + steep - 1; k >= 0; k--) {
        K_LOOK_UP(term, c[k], at);
        SHARE_EACH p[l] = fmaf(p[l], u[l], term[l]);
    }
    SHARE_EACH p[l] = k_bits(x[l]) < 0 ? p[l] : 1 - p[l];
    /* of infinity, a slope is NaN, as torch's is */
    if (steep)
        SHARE_EACH p[l] += x[l] - x[l];
    SHARE_EACH y[l] = a[l] * p[l];
}

/* A line of an operand; one number, as a sum's gradient is, is spread out once. */
static inline const float *K_SET(share_operand)(const char *p, int64_t step, int64_t i, int m,
                                                float *room) {
    if (step == sizeof(float) && m == SHARE_LANES)
        return (const float *)p + i;
    for (int l = 0; l < m && (step || !i); l++)
        room[l] = *(const float *)(p + (i + l) * step);
    return room;
}

/* The first operand times the last one's share */
K_SMOOTH void K_SET(share_times)(char *const p[], const int64_t s[], int64_t n, const int last,
                                 const share_pieces c) {
    const bool dense = s[0] == sizeof(float) && s[1] == sizeof(float) && s[last] == sizeof(float);
    float y[SHARE_LANES], a[SHARE_LANES] = { 0 }, x[SHARE_LANES] = { 0 };
    int64_t i = 0;
    for (; dense && i + SHARE_LANES <= n; i += SHARE_LANES)
        K_SET(share_line)((float *)p[0] + i, (float *)p[1] + i, (float *)p[last] + i, last == 2, c);
    for (; i < n; i += SHARE_LANES) {
        const int m = (int)RG_MIN(n - i, SHARE_LANES);
        const bool whole = s[0] == sizeof(float) && m == SHARE_LANES;
        K_SET(share_line)
        (whole ? (float *)p[0] + i : y, K_SET(share_operand)(p[1], s[1], i, m, a),
         K_SET(share_operand)(p[last], s[last], i, m, x), last == 2, c);
        for (int l = 0; l < m && !whole; l++)
            *(float *)(p[0] + (i + l) * s[0]) = y[l];
    }
}
#define SHARE(n, op, f, a, x)                                                        \
    static void K_SET(op##_float)(char *const p[], const int64_t s[], int64_t count, \
                                  const void *context) {                             \
        (void)context, K_SET(share_times)(p, s, count, n, share_##op);               \
    }                                                                                \
    LOOP_##n(op##_double, double, double, a *(x < 0 ? f(-x) : 1 - f(x)))             \
        K_KERNEL(op, n, false, NULL, NULL, K_LOOPS(op##_float), K_LOOPS(op##_double))
SHARE(1, gelu, share_of_normal, x, x)
SHARE(2, gelu_grad, share_of_normal_slope, a, b)
SHARE(1, gelu_tanh, share_of_tanh, x, x)
SHARE(2, gelu_tanh_grad, share_of_tanh_slope, a, b)
K_FLOATS(1, silu, x / (1 + EXP(-x)))
GRADIENT(silu, a *SIGMOID(b) * (1 + b * (1 - SIGMOID(b))))
K_FLOATS(1, mish, x *TANH(LOG1P(EXP(x))))
GRADIENT(mish, a *(TANH(LOG1P(EXP(b)))
                   + b * SIGMOID(b) * (1 - TANH(LOG1P(EXP(b))) * TANH(LOG1P(EXP(b))))))
K_FLOATS(1, softplus, x *k[0] > k[1] ? x : LOG1P(EXP(x * k[0])) / k[0])
GRADIENT(softplus, b *k[0] > k[1] ? a : a * SIGMOID(b * k[0]))
K_FLOATS(1, hardswish, x *(x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : x + 3) / 6)
GRADIENT(hardswish, b <= -3 ? 0 : b < 3 ? a * (b / 3 + (real)0.5) : a)
K_FLOATS(1, hardsigmoid, x + 3 < 0 ? 0 : x + 3 > 6 ? 1 : (x + 3) / 6)
GRADIENT(hardsigmoid, b > -3 && b < 3 ? a * (real)(1 / 6.f) : 0)
K_FLOATS(1, logsigmoid, (x < 0 ? x : 0) - LOG1P(EXP(-fabs(x))))
GRADIENT(logsigmoid, a *SIGMOID(-b))
#endif
