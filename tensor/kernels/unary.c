/*
 * unary.c: functions of one element, and the first derivatives of those that
 * networks are made of. Each is one line here.
 */
#ifndef K_SET
#include "loops.h"
#define K_FILE "unary.c"
#include "sets.h"
#else

K_ALL(1, sign, x, (x > 0) - (x < 0), (x > 0) - (x < 0))
K_NUMBERS(1, neg, k_wrap_sub(0, x), -x)
K_NUMBERS(1, abs, x < 0 ? k_wrap_sub(0, x) : x, fabs(x))
K_NUMBERS(1, square, k_wrap_mul(x, x), x * x)
K_NUMBERS(1, floor, x, FLOOR(x))
K_NUMBERS(1, ceil, x, CEIL(x))
K_NUMBERS(1, round, x, RINT(x))
K_NUMBERS(1, trunc, x, TRUNC(x))
K_FLOATS(1, frac, x - TRUNC(x))
K_FLOATS(1, round_up, RINT(x * k[0]) / k[0])          /* decimals > 0: k[0] = 10^decimals */
K_FLOATS(1, round_down, RINT(x / k[0]) * k[0])        /* decimals < 0: k[0] = 10^-decimals */

#define LIBM(op) K_FLOATS(1, op, op(x))
LIBM(exp2) LIBM(log2) LIBM(log10) LIBM(sqrt) LIBM(sin) LIBM(cos) LIBM(tan)
LIBM(sinh) LIBM(cosh) LIBM(asin) LIBM(acos) LIBM(atan) LIBM(erfc)
K_FLOATS(1, exp, EXP(x))
K_FLOATS(1, expm1, EXPM1(x))
K_FLOATS(1, log, LOG(x))
K_FLOATS(1, log1p, LOG1P(x))
K_FLOATS(1, tanh, TANH(x))
K_FLOATS(1, erf, ERF(x))
K_FLOATS(1, rsqrt, 1 / sqrt(x))
K_FLOATS(1, reciprocal, 1 / x)
K_LIGHT_FLOATS(1, cube, x * x * x)
K_FLOATS(1, reciprocal_square, 1 / (x * x))
K_FLOATS(1, sigmoid, 1 / (1 + EXP(-x)))

K_TEST(1, isnan, false, x != x)
K_TEST(1, isinf, false, fabs(x) == (real)INFINITY)
K_TEST(1, isfinite, true, fabs(x) < (real)INFINITY)
K_TEST(1, logical_not, !x, x == 0)

/* ---- activations: f(x), and g f'(x) from g and x (b is x, or y where it says so) ---- */

#define GRADIENT(op, expression)       K_FLOATS(2, op##_grad, expression)
#define LIGHT_GRADIENT(op, expression) K_LIGHT_FLOATS(2, op##_grad, expression)

#define SQRT_HALF  ((real)0.70710678118654752440)
#define SQRT_2_PI  ((real)0.79788456080286535588)       /* sqrt(2 / pi) */
#define GELU_CUBE  ((real)0.044715)
#define HALF       ((real)0.5)

#define SIGMOID(x)   (1 / (1 + EXP(-(x))))
#define NORMAL(x)    _Generic((x), float: k_phif(x), default: HALF * (1 + erf((x) * SQRT_HALF)))
/* gelu's tanh form: x (1 + tanh(u)) / 2 = x sigmoid(2 u) */
#define GELU_TWICE(x) (2 * SQRT_2_PI * ((x) + GELU_CUBE * (x) * (x) * (x)))
#define GELU_SLOPE(x) (2 * SQRT_2_PI * (1 + 3 * GELU_CUBE * (x) * (x)))

/* of y */
LIGHT_GRADIENT(tanh, a * (1 - b * b))
LIGHT_GRADIENT(sigmoid, a * (1 - b) * b)
K_NUMBERS(1, relu, x < 0 ? 0 : x, x < 0 ? 0 : x)
LIGHT_GRADIENT(relu, b <= 0 ? 0 : a)

/* of x */
K_NUMBERS(1, hardtanh, x < k[0] ? k[0] : x > k[1] ? k[1] : x, x < k[0] ? k[0] : x > k[1] ? k[1] : x)
LIGHT_GRADIENT(hardtanh, b > k[0] && b < k[1] ? a : 0)
K_LIGHT_FLOATS(1, leaky_relu, x > 0 ? x : x * k[0])
LIGHT_GRADIENT(leaky_relu, b > 0 ? a : a * k[0])

/* elu and its kind: k[0] above, k[1] below, k[2] inside the exponent */
K_FLOATS(1, elu, x < 0 ? k[1] * EXPM1(x * k[2]) : x * k[0])
GRADIENT(elu, b <= 0 ? a * k[1] * k[2] * EXP(b * k[2]) : a * k[0])

K_FLOATS(1, gelu, x * NORMAL(x))
GRADIENT(gelu, a * (NORMAL(b) + b * EXP_BELOW(-HALF * b * b) * SQRT_2_PI * HALF))
K_FLOATS(1, gelu_tanh, x / (1 + EXP(-GELU_TWICE(x))))
GRADIENT(gelu_tanh, a * SIGMOID(GELU_TWICE(b)) * (1 + b * (1 - SIGMOID(GELU_TWICE(b))) * GELU_SLOPE(b)))
K_FLOATS(1, silu, x / (1 + EXP(-x)))
GRADIENT(silu, a * SIGMOID(b) * (1 + b * (1 - SIGMOID(b))))
K_FLOATS(1, mish, x * TANH(LOG1P(EXP(x))))
GRADIENT(mish, a * (TANH(LOG1P(EXP(b))) + b * SIGMOID(b) * (1 - TANH(LOG1P(EXP(b))) * TANH(LOG1P(EXP(b))))))
K_FLOATS(1, softplus, x * k[0] > k[1] ? x : LOG1P(EXP(x * k[0])) / k[0])
GRADIENT(softplus, b * k[0] > k[1] ? a : a * SIGMOID(b * k[0]))
K_FLOATS(1, hardswish, x * (x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : x + 3) / 6)
GRADIENT(hardswish, b <= -3 ? 0 : b < 3 ? a * (b / 3 + HALF) : a)
K_FLOATS(1, hardsigmoid, x + 3 < 0 ? 0 : x + 3 > 6 ? 1 : (x + 3) / 6)
GRADIENT(hardsigmoid, b > -3 && b < 3 ? a * (real)(1 / 6.f) : 0)
K_FLOATS(1, logsigmoid, (x < 0 ? x : 0) - LOG1P(EXP(-fabs(x))))
GRADIENT(logsigmoid, a * SIGMOID(-b))
#endif
