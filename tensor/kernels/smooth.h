/*
 * smooth.h: functions of one float without branches or calls, so that loops over
 * them vectorise: within 2 units in the last place of the true value (float32), and
 * exact at 0, infinities and NaN. Doubles go to libm, except for rounding. The
 * polynomials are fits to the functions, least in their largest error.
 */
#ifndef RG_KERNELS_SMOOTH_H
#define RG_KERNELS_SMOOTH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline int32_t k_bits(float x)     { int32_t i; memcpy(&i, &x, sizeof i); return i; }
static inline float k_from_bits(int32_t i) { float x; memcpy(&x, &i, sizeof x); return x; }

/* Inside the loop's own instruction set, where fmaf is an instruction. */
#define K_SMOOTH static inline __attribute__((always_inline))

/* An integer that rises as x does, and back: the greatest of integers is found in lanes. */
static inline int32_t k_float_order(float x)     { int32_t i = k_bits(x); return i ^ (i >> 31 & INT32_MAX); }
static inline float k_float_unorder(int32_t i)   { return k_from_bits(i ^ (i >> 31 & INT32_MAX)); }
static inline double k_double_order(double x)    { return x; }

/* Both are computed: left out by a branch, one may be computed from anything, such as what makes it slow. */
static inline float k_either(bool first, float a, float b) {
    int32_t mask = -(int32_t)first;
    return k_from_bits((k_bits(a) & mask) | (k_bits(b) & ~mask));
}

/* Not constants, which compilers would carry through the exponential of what they limit. */
extern const float k_exp_least, k_exp_most, k_exp_flush;

/* e^x = 2^n e^r and e^r = 1 + r + r^2 p, with |r| <= ln(2) / 2: gives p, a polynomial of r, and puts n + bias into the exponent
 * of *power. */
K_SMOOTH float k_exp_parts(float x, int bias, float *r, uint32_t *power) {
    const float magic = 12582912.f + (float)bias;       /* 3 * 2^22: adding it rounds to integers */
    float shifted = fmaf(x, 1.44269504f, magic), n = shifted - magic;
    *power = (uint32_t)k_bits(shifted) << 23;
    *r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x));
    return fmaf(fmaf(fmaf(fmaf(0.00139504854f, *r, 0.00836888796f), *r, 0.0416662059f), *r, 0.166665189f), *r, 0.50000001f);
}

/* 2^n in two factors, of which one is 2^64 or 2^-64. */
K_SMOOTH float k_expf(float x) {
    float t = x > k_exp_most ? k_exp_most : x;
    t = t < k_exp_least ? k_exp_least : t;              /* where the first factor is 0 */
    uint32_t power, lift = (uint32_t)(k_bits(t) >> 31) & (128u << 23);
    float r, p = k_exp_parts(t, 127 - 64, &r, &power), e = fmaf(fmaf(p, r, 1), r, 1);
    return e * k_from_bits((int32_t)(power + lift)) * k_from_bits((int32_t)((191u << 23) - lift));
}

/* For x below 88; 0 where e^x < 2^-126. */
K_SMOOTH float k_exp_belowf(float x) {
    uint32_t power;
    float r, p = k_exp_parts(x < k_exp_flush ? k_exp_flush : x, 127, &r, &power);
    return fmaf(fmaf(p, r, 1), r, 1) * k_from_bits((int32_t)power);
}

/* x = 2^n (1 + r) with sqrt(1/2) <= 1 + r < sqrt(2) */
K_SMOOTH float k_logf(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608 : x;       /* subnormal numbers, too */
    int32_t bits = (int32_t)((uint32_t)k_bits(scaled) - 0x3f3504f3u), n = bits >> 23;
    float r = k_from_bits((bits & 0x7fffff) + 0x3f3504f3) - 1, e = (float)n - (x < 1.17549435e-38f ? 23 : 0), z = r * r;
    float p = fmaf(fmaf(fmaf(0.0891787622f, r, -0.14350314f), r, 0.148770027f), r, -0.165656216f);
    p = fmaf(fmaf(fmaf(p, r, 0.199653937f), r, -0.250017473f), r, 0.333338582f);
    float y = fmaf(e, 0.693359375f, fmaf(e, -2.12194440e-4f, r - fmaf(z, 0.5f, -(r * z) * p)));
    y = x == INFINITY ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

K_SMOOTH float k_tanhf(float x) {
    float z = x * x;
    float p = fmaf(fmaf(fmaf(fmaf(-0.00571099807f, z, 0.0206454189f), z, -0.0537419955f), z, 0.133314744f), z, -0.333332833f);
    float large = 1 - 2 / (k_expf(2 * fabsf(x)) + 1);
    return copysignf(k_either(fabsf(x) < 0.625f, fmaf(x * z, p, x), large), x);
}

K_SMOOTH float k_erff(float x) {
    float a = fabsf(x), z = x * x, t = a > 4 ? 4 : a;
    float p = fmaf(fmaf(fmaf(7.82397128e-05f, z, -0.000800279217f), z, 0.00518767656f), z, -0.0268535717f);
    float ln = fmaf(fmaf(fmaf(-2.16868385e-05f, t, 0.000441336195f), t, -0.0042045607f), t, 0.0252082527f);
    p = fmaf(fmaf(fmaf(p, z, 0.112835819f), z, -0.376126258f), z, 0.12837917f);
    ln = fmaf(fmaf(fmaf(fmaf(ln, t, -0.108418569f), t, -0.633219902f), t, -1.12957842f), t, 0.000188038802f);
    return k_either(a < 1, fmaf(x, p, x), copysignf(1 - k_expf(ln), x));
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), in halves, so that 2^128 doesn't overflow. */
K_SMOOTH float k_expm1f(float x) {
    float t = x > k_exp_most ? k_exp_most : x;
    t = t < -20 ? -20 : t;
    uint32_t power;
    float r, p = k_exp_parts(t, 126, &r, &power), half = k_from_bits((int32_t)power);
    return copysignf(2 * fmaf(half, fmaf(r * r, p, r), half - 0.5f), x);
}

/* ln(1 + x): what 1 + x rounds off is put back. */
K_SMOOTH float k_log1pf(float x) {
    float u = 1 + x, y = k_logf(u), lost = x - (u - 1);
    y = ((u > 0) & (u < INFINITY)) ? y + lost / u : y;
    return fabsf(x) < 1e-4f ? x - 0.5f * x * x : y;
}

/* To integers: below `whole`, where floats have fractions, adding it drops them. */
#define K_ROUNDING(T, whole)                                                                             \
    static inline T k_##T##_rint(T x) {                                                                  \
        T a = fabs(x), r = (a + whole) - whole;                                                          \
        return a < whole ? copysign(r, x) : x;                                                           \
    }                                                                                                    \
    static inline T k_##T##_floor(T x) { T r = k_##T##_rint(x); return copysign(r > x ? r - 1 : r, x); } \
    static inline T k_##T##_ceil(T x)  { T r = k_##T##_rint(x); return copysign(r < x ? r + 1 : r, x); } \
    static inline T k_##T##_trunc(T x) { T a = fabs(x), r = k_##T##_rint(a); return copysign(r > a ? r - 1 : r, x); }

#define ORDER(x)   _Generic((x), float: k_float_order, default: k_double_order)(x)
#define UNORDER(x) _Generic((x), int32_t: k_float_unorder, default: k_double_order)(x)
#define EXP(x)   _Generic((x), float: k_expf, default: (exp))(x)
#define EXP_BELOW(x) _Generic((x), float: k_exp_belowf, default: (exp))(x)
#define EXPM1(x) _Generic((x), float: k_expm1f, default: (expm1))(x)
#define LOG(x)   _Generic((x), float: k_logf, default: (log))(x)
#define LOG1P(x) _Generic((x), float: k_log1pf, default: (log1p))(x)
#define TANH(x)  _Generic((x), float: k_tanhf, default: (tanh))(x)
#define ERF(x)   _Generic((x), float: k_erff, default: (erf))(x)
#define RINT(x)  _Generic((x), float: k_float_rint, default: k_double_rint)(x)
#define FLOOR(x) _Generic((x), float: k_float_floor, default: k_double_floor)(x)
#define CEIL(x)  _Generic((x), float: k_float_ceil, default: k_double_ceil)(x)
#define TRUNC(x) _Generic((x), float: k_float_trunc, default: k_double_trunc)(x)

#endif
