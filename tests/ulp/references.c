/* references.c: what the functions should return (references.h). Functions that neither MPFR nor
 * the C library has are composed such that no two nearly equal numbers are subtracted. */
#include "references.h"

#include <math.h>

/* ---- in double ------------------------------------------------------------------------------- */

static double double_neg(double x) { return -x; }
static double double_sign(double x) { return x != x ? 0 : (x > 0) - (x < 0); }
static double double_frac(double x) { return x - trunc(x); }
static double double_rsqrt(double x) { return 1 / sqrt(x); }
static double double_reciprocal(double x) { return 1 / x; }
static double double_relu(double x) { return x < 0 ? 0 : x; }
static double double_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double double_silu(double x) { return x / (1 + exp(-x)); }
static double double_mish(double x) { return x * tanh(log1p(exp(x))); }
static double double_hardsigmoid(double x) {
    const double most = x + 3 > 6 ? 6 : x + 3;
    return (x + 3 < 0 ? 0 : most) / 6;
}
static double double_hardswish(double x) { return x * double_hardsigmoid(x); }
static double double_gelu(double x) { return x * erfc(-x * M_SQRT1_2) / 2; }
static double double_gelu_tanh(double x) {
    const double u = M_SQRT1_2 * M_2_SQRTPI * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
}

/* ---- by MPFR --------------------------------------------------------------------------------- */

static int exact_sign(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    return mpfr_set_si(y, mpfr_nan_p(x) ? 0 : mpfr_sgn(x), r);
}

/* For infinity, mpfr_frac returns 0, but x - trunc(x) is NaN. */
static int exact_frac(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    if (mpfr_inf_p(x)) {
        mpfr_set_nan(y);
        return 0;
    }
    return mpfr_frac(y, x, r);
}

static int exact_reciprocal(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    return mpfr_ui_div(y, 1, x, r);
}

/* For -0, mpfr_rec_sqrt returns infinity, but 1 / sqrt(-0) is -infinity. */
static int exact_rsqrt(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_sqrt(y, x, r);
    return mpfr_ui_div(y, 1, y, r);
}

static int exact_relu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    if (mpfr_nan_p(x) || mpfr_sgn(x) > 0)
        return mpfr_set(y, x, r);
    return mpfr_set_si(y, 0, r);
}

/* y = 1 + e^-x */
static int exact_below(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_neg(y, x, r);
    mpfr_exp(y, y, r);
    return mpfr_add_ui(y, y, 1, r);
}
static int exact_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    exact_below(y, x, r);
    return mpfr_ui_div(y, 1, y, r);
}
static int exact_silu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    exact_below(y, x, r);
    return mpfr_div(y, x, y, r);
}

static int exact_mish(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_exp(y, x, r);
    mpfr_log1p(y, y, r);
    mpfr_tanh(y, y, r);
    return mpfr_mul(y, x, y, r);
}

static int exact_hardsigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_add_ui(y, x, 3, r);
    if (mpfr_cmp_si(y, 0) < 0)
        mpfr_set_si(y, 0, r);
    if (mpfr_cmp_si(y, 6) > 0)
        mpfr_set_si(y, 6, r);
    return mpfr_div_ui(y, y, 6, r);
}
static int exact_hardswish(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    exact_hardsigmoid(y, x, r);
    return mpfr_mul(y, x, y, r);
}

/* y = x erfc(-x / sqrt 2) / 2 */
static int exact_gelu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_t root;
    mpfr_init2(root, BITS);
    mpfr_sqrt_ui(root, 2, r);
    mpfr_div(y, x, root, r);
    mpfr_neg(y, y, r);
    mpfr_erfc(y, y, r);
    mpfr_mul(y, y, x, r);
    mpfr_clear(root);
    return mpfr_div_ui(y, y, 2, r);
}

/* y = x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3) */
static int exact_gelu_tanh(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) {
    mpfr_t u, factor;
    mpfr_inits2(BITS, u, factor, (mpfr_ptr)NULL);
    mpfr_pow_ui(u, x, 3, r);
    mpfr_mul_ui(u, u, 44715, r);
    mpfr_div_ui(u, u, 1000000, r);
    mpfr_add(u, u, x, r);
    mpfr_const_pi(factor, r);
    mpfr_ui_div(factor, 8, factor, r);
    mpfr_sqrt(factor, factor, r);
    mpfr_mul(u, u, factor, r);
    exact_below(y, u, r);
    mpfr_clears(u, factor, (mpfr_ptr)NULL);
    return mpfr_div(y, x, y, r);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The rows of elementwise.def name the functions, each of which takes its place from this enum. */
#define UNARY(name, ...)            OP_##name,
#define ACTIVATION(name, ...)       OP_##name,
#define ACTIVATION_ALONE(name, ...) OP_##name,
enum {
#include "tensor/kernels/elementwise.def"
    OPS
};

/* Rows of functions that the C library and MPFR have under these names, and of others. */
#define OF_LIBC(name, in_libc, in_mpfr) \
    [OP_##name] = { #name, rg_##name, in_libc##f, in_libc, in_mpfr }
#define COMPOSED(name, in_mpfr) [OP_##name] = { #name, rg_##name, NULL, double_##name, in_mpfr }

const int n_functions = OPS;
const measured functions[OPS] = {
    COMPOSED(neg, mpfr_neg),
    OF_LIBC(abs, fabs, mpfr_abs),
    COMPOSED(sign, exact_sign),
    OF_LIBC(floor, floor, mpfr_rint_floor),
    OF_LIBC(ceil, ceil, mpfr_rint_ceil),
    OF_LIBC(round, rint, mpfr_rint_roundeven),
    OF_LIBC(trunc, trunc, mpfr_rint_trunc),
    COMPOSED(frac, exact_frac),
    OF_LIBC(exp, exp, mpfr_exp),
    OF_LIBC(exp2, exp2, mpfr_exp2),
    OF_LIBC(expm1, expm1, mpfr_expm1),
    OF_LIBC(log, log, mpfr_log),
    OF_LIBC(log1p, log1p, mpfr_log1p),
    OF_LIBC(log2, log2, mpfr_log2),
    OF_LIBC(log10, log10, mpfr_log10),
    OF_LIBC(sqrt, sqrt, mpfr_sqrt),
    COMPOSED(rsqrt, exact_rsqrt),
    COMPOSED(reciprocal, exact_reciprocal),
    OF_LIBC(sin, sin, mpfr_sin),
    OF_LIBC(cos, cos, mpfr_cos),
    OF_LIBC(tan, tan, mpfr_tan),
    OF_LIBC(sinh, sinh, mpfr_sinh),
    OF_LIBC(cosh, cosh, mpfr_cosh),
    OF_LIBC(asin, asin, mpfr_asin),
    OF_LIBC(acos, acos, mpfr_acos),
    OF_LIBC(atan, atan, mpfr_atan),
    OF_LIBC(erf, erf, mpfr_erf),
    OF_LIBC(erfc, erfc, mpfr_erfc),
    OF_LIBC(tanh, tanh, mpfr_tanh),
    COMPOSED(sigmoid, exact_sigmoid),
    COMPOSED(relu, exact_relu),
    COMPOSED(silu, exact_silu),
    COMPOSED(mish, exact_mish),
    COMPOSED(hardswish, exact_hardswish),
    COMPOSED(hardsigmoid, exact_hardsigmoid),
    COMPOSED(gelu, exact_gelu),
    COMPOSED(gelu_tanh, exact_gelu_tanh),
};
