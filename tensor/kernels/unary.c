/*
 * unary.c: functions of one element, and the first derivatives of those that
 * networks are made of. Each is one line here.
 */
#include "loops.h"

#define K_1(op, ...)                                                                            \
    void k_##op(rg_tensor *y, rg_tensor *const in[], const double *numbers)                     \
    {                                                                                           \
        static rg_loop *const by_dtype[] = { __VA_ARGS__ };                                     \
        rg_each(2, (rg_tensor *[]){ y, in[0] }, by_dtype[in[0]->dtype], numbers);               \
    }

/* Of floats only; of numbers; of numbers and bool; with a bool as the answer. */
#define FLOATS_1(op, on_float)                                                                  \
    LOOP_1(op##_float, float, float, on_float)                                                  \
    LOOP_1(op##_double, double, double, on_float)                                               \
    K_1(op, NULL, NULL, op##_float, op##_double)

#define NUMBERS_1(op, on_int, on_float)                                                         \
    LOOP_1(op##_int64, int64_t, int64_t, on_int)                                                \
    LOOP_1(op##_float, float, float, on_float)                                                  \
    LOOP_1(op##_double, double, double, on_float)                                               \
    K_1(op, NULL, op##_int64, op##_float, op##_double)

#define TEST_1(op, on_int, on_float)                                                            \
    LOOP_1(op##_bool, bool, bool, on_int)                                                       \
    LOOP_1(op##_int64, int64_t, bool, on_int)                                                   \
    LOOP_1(op##_float, float, bool, on_float)                                                   \
    LOOP_1(op##_double, double, bool, on_float)                                                 \
    K_1(op, op##_bool, op##_int64, op##_float, op##_double)

LOOP_1(sign_bool, bool, bool, x)
LOOP_1(sign_int64, int64_t, int64_t, (x > 0) - (x < 0))
LOOP_1(sign_float, float, float, (x > 0) - (x < 0))
LOOP_1(sign_double, double, double, (x > 0) - (x < 0))
K_1(sign, sign_bool, sign_int64, sign_float, sign_double)

NUMBERS_1(neg, k_wrap_sub(0, x), -x)
NUMBERS_1(abs, x < 0 ? k_wrap_sub(0, x) : x, fabs(x))
NUMBERS_1(square, k_wrap_mul(x, x), x * x)
NUMBERS_1(floor, x, FLOOR(x))
NUMBERS_1(ceil, x, CEIL(x))
NUMBERS_1(round, x, RINT(x))
NUMBERS_1(trunc, x, TRUNC(x))
FLOATS_1(frac, x - TRUNC(x))
FLOATS_1(round_up, RINT(x * k[0]) / k[0])          /* decimals > 0: k[0] = 10^decimals */
FLOATS_1(round_down, RINT(x / k[0]) * k[0])        /* decimals < 0: k[0] = 10^-decimals */

FLOATS_1(exp, EXP(x))
FLOATS_1(exp2, exp2(x))
FLOATS_1(expm1, expm1(x))
FLOATS_1(log, LOG(x))
FLOATS_1(log1p, log1p(x))
FLOATS_1(log2, log2(x))
FLOATS_1(log10, log10(x))
FLOATS_1(sqrt, sqrt(x))
FLOATS_1(rsqrt, 1 / sqrt(x))
FLOATS_1(reciprocal, 1 / x)
FLOATS_1(cube, x * x * x)
FLOATS_1(reciprocal_square, 1 / (x * x))
FLOATS_1(sin, sin(x))
FLOATS_1(cos, cos(x))
FLOATS_1(tan, tan(x))
FLOATS_1(sinh, sinh(x))
FLOATS_1(cosh, cosh(x))
FLOATS_1(tanh, TANH(x))
FLOATS_1(asin, asin(x))
FLOATS_1(acos, acos(x))
FLOATS_1(atan, atan(x))
FLOATS_1(erf, ERF(x))
FLOATS_1(erfc, erfc(x))
FLOATS_1(sigmoid, 1 / (1 + EXP(-x)))

TEST_1(isnan, false, x != x)
TEST_1(isinf, false, fabs(x) == (real)INFINITY)
TEST_1(isfinite, true, fabs(x) < (real)INFINITY)
TEST_1(logical_not, !x, x == 0)

/* ---- activations: f(x), and g f'(x) from g and x (b is x, or y where it says so) ---- */

#define GRADIENT(op, expression)                                                                \
    LOOP_2(op##_grad_float, float, float, expression)                                           \
    LOOP_2(op##_grad_double, double, double, expression)                                        \
    void k_##op##_grad(rg_tensor *gx, rg_tensor *const in[], const double *numbers)             \
    {                                                                                           \
        rg_each(3, (rg_tensor *[]){ gx, in[0], in[1] },                                         \
                gx->dtype == RG_FLOAT32 ? op##_grad_float : op##_grad_double, numbers);         \
    }

#define SQRT_HALF  ((real)0.70710678118654752440)
#define SQRT_2_PI  ((real)0.79788456080286535588)       /* sqrt(2 / pi) */
#define GELU_CUBE  ((real)0.044715)
#define HALF       ((real)0.5)

#define SIGMOID(x)   (1 / (1 + EXP(-(x))))
#define GELU_TANH(x) TANH(SQRT_2_PI * ((x) + GELU_CUBE * (x) * (x) * (x)))

/* of y */
GRADIENT(tanh, a * (1 - b * b))
GRADIENT(sigmoid, a * (1 - b) * b)
NUMBERS_1(relu, x < 0 ? 0 : x, x < 0 ? 0 : x)
GRADIENT(relu, b <= 0 ? 0 : a)

/* of x */
NUMBERS_1(hardtanh, x < k[0] ? k[0] : x > k[1] ? k[1] : x, x < k[0] ? k[0] : x > k[1] ? k[1] : x)
GRADIENT(hardtanh, b > k[0] && b < k[1] ? a : 0)
FLOATS_1(leaky_relu, x > 0 ? x : x * k[0])
GRADIENT(leaky_relu, b > 0 ? a : a * k[0])

/* elu and its kind: k[0] above, k[1] below, k[2] inside the exponent */
FLOATS_1(elu, x < 0 ? k[1] * expm1(x * k[2]) : x * k[0])
GRADIENT(elu, b <= 0 ? a * k[1] * k[2] * EXP(b * k[2]) : a * k[0])

FLOATS_1(gelu, x * HALF * (1 + ERF(x * SQRT_HALF)))
GRADIENT(gelu, a * (HALF * (1 + ERF(b * SQRT_HALF)) + b * EXP(-HALF * b * b) * SQRT_2_PI * HALF))
FLOATS_1(gelu_tanh, HALF * x * (1 + GELU_TANH(x)))
GRADIENT(gelu_tanh, a * HALF * (1 + GELU_TANH(b)
         + b * (1 - GELU_TANH(b) * GELU_TANH(b)) * SQRT_2_PI * (1 + 3 * GELU_CUBE * b * b)))
FLOATS_1(silu, x / (1 + EXP(-x)))
GRADIENT(silu, a * SIGMOID(b) * (1 + b * (1 - SIGMOID(b))))
FLOATS_1(mish, x * TANH(LOG1P(EXP(x))))
GRADIENT(mish, a * (TANH(LOG1P(EXP(b))) + b * SIGMOID(b) * (1 - TANH(LOG1P(EXP(b))) * TANH(LOG1P(EXP(b))))))
FLOATS_1(softplus, x * k[0] > k[1] ? x : LOG1P(EXP(x * k[0])) / k[0])
GRADIENT(softplus, b * k[0] > k[1] ? a : a * SIGMOID(b * k[0]))
FLOATS_1(hardswish, x * fmin(fmax(x + 3, (real)0), (real)6) / 6)
GRADIENT(hardswish, b <= -3 ? 0 : b < 3 ? a * (b / 3 + HALF) : a)
FLOATS_1(hardsigmoid, x + 3 < 0 ? 0 : x + 3 > 6 ? 1 : (x + 3) / 6)
GRADIENT(hardsigmoid, b > -3 && b < 3 ? a * (real)(1 / 6.f) : 0)
FLOATS_1(logsigmoid, (x < 0 ? x : 0) - LOG1P(EXP(-fabs(x))))
GRADIENT(logsigmoid, a * SIGMOID(-b))
