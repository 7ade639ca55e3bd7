/*
 * smooth.h: mathematical functions of one or two numbers without branches or calls, so that
 * compilers can vectorise loops over them. A result is within 2 units in the last place of the true
 * value for floats, and within 3 for doubles; it is exact at 0, infinities and NaN. Some functions
 * are written for floats only, and call libm for doubles. The coefficients of the polynomials are
 * chosen so that the largest error is as small as possible.
 *
 * The functions are inlined into a loop and compiled for the loop's instruction set; fmaf is one
 * instruction if the set has it. A function's name ends with its type, so that loops write
 * K_TYPED(k_exp)(x).
 */
#ifndef RG_KERNELS_SMOOTH_H
#define RG_KERNELS_SMOOTH_H

#include "sets.h"

#include <tgmath.h>

/* ---- the bits of a number -------------------------------------------------------------------- */

static inline int32_t k_bits_float(float x) {
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline float k_from_bits_float(int32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}
static inline int64_t k_bits_double(double x) {
    int64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline double k_from_bits_double(int64_t i) {
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* k_order turns x into a number that is greater for a greater x, and k_unorder turns the number
 * back into x. A float becomes an integer, because maxima of integers vectorise. In this order -0
 * is below 0, a NaN whose sign bit is clear is above all other values, and a NaN whose sign bit is
 * set is below all other values. A double stays as it is. */
typedef int32_t k_ordered_float;
typedef double k_ordered_double;
static inline k_ordered_float k_order_float(float x) {
    int32_t i = k_bits_float(x);
    return i ^ (i >> 31 & INT32_MAX);
}
static inline float k_unorder_float(k_ordered_float i) {
    return k_from_bits_float(i ^ (i >> 31 & INT32_MAX));
}
static inline k_ordered_double k_order_double(double x) { return x; }
static inline double k_unorder_double(k_ordered_double x) { return x; }

/* Returns `first ? a : b`, computed by bit operations after both a and b have been computed. With
 * an ordinary choice, compilers might branch around the operand that isn't needed. Or they might
 * compute an operand only in the lanes that need it, with arbitrary numbers in the other lanes. If
 * those numbers are subnormal, for example, the computation is slow. */
static inline float k_either(bool first, float a, float b) {
    int32_t mask = -(int32_t)first;
    return k_from_bits_float((k_bits_float(a) & mask) | (k_bits_float(b) & ~mask));
}

/* ---- exponentials, logarithms, rounding ------------------------------------------------------ */

/* e^x is computed for x limited to [k_exp_least, k_exp_most] for floats, and to eight times these
 * limits for doubles. k_exp_below_float limits x to at least k_exp_flush. The limits are variables,
 * although they never change. If they were constants, compilers would compute the exponential of a
 * limit at compile time, and would branch between that constant and the computation for all other
 * numbers. */
extern const float k_exp_least, k_exp_most, k_exp_flush;

/* Returns a * b + c. Floats are rounded once. Doubles are rounded twice, because not every
 * processor has the instruction that rounds once, and libm's function for it is slow. */
K_INLINE float k_step_float(float a, float b, float c) { return fmaf(a, b, c); }
K_INLINE double k_step_double(double a, double b, double c) { return a * b + c; }

/* Return p for which e^r = 1 + r + r^2 * p, where |r| <= ln(2) / 2. */
K_INLINE float k_exp_fit_float(float r) {
    float p = fmaf(fmaf(0.00139504854f, r, 0.00836888796f), r, 0.0416662059f);
    p = fmaf(p, r, 0.166665189f);
    return fmaf(p, r, 0.50000001f);
}
K_INLINE double k_exp_fit_double(double r) {
    double p = (2.5117608023696224e-08 * r + 2.7630852131899112e-07) * r + 2.7557217206965039e-06;
    p = ((p * r + 2.4801491271883697e-05) * r + 0.00019841269916207459) * r + 0.0013888888945563181;
    p = ((p * r + 0.0083333333333078536) * r + 0.041666666666521891) * r + 0.16666666666666699;
    return p * r + 0.50000000000000122;
}

/* Return p for which ln(1 + r) = r - p, where sqrt(1/2) <= 1 + r < sqrt(2). For doubles, p is
 * computed by ln(1 + r) = 2 * artanh(r / (2 + r)). */
K_INLINE float k_log_fit_float(float r) {
    const float z = r * r;
    float p = fmaf(fmaf(0.0891787622f, r, -0.14350314f), r, 0.148770027f);
    p = fmaf(p, r, -0.165656216f);
    p = fmaf(fmaf(fmaf(p, r, 0.199653937f), r, -0.250017473f), r, 0.333338582f);
    return fmaf(z, 0.5f, -(r * z) * p);
}
K_INLINE double k_log_fit_double(double r) {
    const double s = r / (2 + r);
    const double z = s * s;
    const double half = r * r / 2;
    double p = (0.14756578913869997 * z + 0.15318225196988539) * z + 0.1818338963089671;
    p = ((p * z + 0.22222202216444256) * z + 0.28571428703229262) * z + 0.39999999999614155;
    return half - s * (half + z * (p * z + 0.66666666666666985));
}

#define T            float
#define K_TYPED(f)   f##_float
#define INT          int32_t
#define UINT         uint32_t
#define POINT        23
#define HALF         64
#define TIMES        1
#define TIMES_EXPM1  1
#define LN2_HIGH     0.693359375
#define LN2_LOW      -0.000212194442f
#define LOG10_2_HIGH 0.301025390625
#define LOG10_2_LOW  4.60503907e-06f
#define LOG2_E_LOW   1.92596303e-08f
#define LOG10_E_LOW  -1.010305e-08f
#define LOG1P_LEAST  1e-4
#include "exponential.h"

#define T            double
#define K_TYPED(f)   f##_double
#define INT          int64_t
#define UINT         uint64_t
#define POINT        52
#define HALF         512
#define TIMES        8
#define TIMES_EXPM1  7.977
#define LN2_HIGH     0x1.62e42feep-1
#define LN2_LOW      0x1.a39ef358p-33
#define LOG10_2_HIGH 0x1.34413509f78p-2
#define LOG10_2_LOW  0x1.fef32p-46
#define LOG2_E_LOW   0x1.78p-56
#define LOG10_E_LOW  0x1.96p-57
#define LOG1P_LEAST  1e-9
#include "exponential.h"

/* Return e^x. Requires x < 88 for floats. If e^x < 2^-126.5, the float result is 0, so that most
 * subnormal results are avoided. For doubles, calls k_exp_double. */
K_INLINE float k_exp_below_float(float x) {
    uint32_t power;
    float r;
    float p = k_exp_parts_float(x < k_exp_flush ? k_exp_flush : x, false, 127, &r, &power);
    return fmaf(fmaf(p, r, 1), r, 1) * k_from_bits_float((int32_t)power);
}
K_INLINE double k_exp_below_double(double x) { return k_exp_double(x); }

/* ---- hyperbolic functions -------------------------------------------------------------------- */

K_INLINE float k_tanh_float(float x) {
    const float z = x * x;
    float p = fmaf(fmaf(-0.00571099807f, z, 0.0206454189f), z, -0.0537419955f);
    p = fmaf(fmaf(p, z, 0.133314744f), z, -0.333332833f);
    const float large = 1 - 2 / (k_exp_float(2 * fabsf(x)) + 1);
    return copysignf(k_either(fabsf(x) < 0.625f, fmaf(x * z, p, x), large), x);
}
K_INLINE double k_tanh_double(double x) {
    const double a = fabs(x);
    const double u = k_expm1_double(a > 20 ? 40 : 2 * a);
    return copysign(u / (u + 2), x);
}

/* For |x| < 1, floats use sinh(x) = x + x * z * p(z), where z = x^2 and p is a polynomial. Doubles
 * use sinh(|x|) = u - u^2 / (2 * u + 2), where u = e^|x| - 1. For other x, both use sinh(|x|) =
 * (e^|x| - e^-|x|) / 2. The result gets the sign of x. */
K_INLINE float k_sinh_float(float x) {
    const float a = fabsf(x);
    const float half = k_exp_whole_float(a, false, true);
    const float z = x * x;
    float p = fmaf(fmaf(2.78392599e-06f, z, 0.000198426351f), z, 0.00833331142f);
    p = fmaf(p, z, 0.166666672f);
    return a < 1 ? fmaf(x * z, p, x) : copysignf(half - 0.25f / half, x);
}
K_INLINE double k_sinh_double(double x) {
    const double a = fabs(x);
    const double half = k_exp_whole_double(a, false, true);
    const double u = k_expm1_double(a);
    return copysign(a < 1 ? u - u * u / (2 * u + 2) : half - 0.25 / half, x);
}

/* ---- the error function ---------------------------------------------------------------------- */

/* For |x| < 1, erf(x) is a polynomial. Otherwise erf(|x|) is 1 - e^q, where q is a polynomial in
 * |x|. In q, |x| is limited to 4, from where on erf is 1 in float. */
K_INLINE float k_erf_float(float x) {
    const float a = fabsf(x);
    const float z = x * x;
    const float t = a > 4 ? 4 : a;
    float p = fmaf(fmaf(7.82397128e-05f, z, -0.000800279217f), z, 0.00518767656f);
    p = fmaf(p, z, -0.0268535717f);
    float ln = fmaf(fmaf(-2.16868385e-05f, t, 0.000441336195f), t, -0.0042045607f);
    ln = fmaf(ln, t, 0.0252082527f);
    p = fmaf(fmaf(fmaf(p, z, 0.112835819f), z, -0.376126258f), z, 0.12837917f);
    ln = fmaf(fmaf(ln, t, -0.108418569f), t, -0.633219902f);
    ln = fmaf(fmaf(ln, t, -1.12957842f), t, 0.000188038802f);
    return k_either(a < 1, fmaf(x, p, x), copysignf(1 - k_exp_float(ln), x));
}
K_INLINE double k_erf_double(double x) { return erf(x); }

/* erfc(|x|) = e^(-x^2) * p(t) with t = 1 / (|x| + 3), where p is a polynomial. If x is negative,
 * erfc(x) = 2 - erfc(|x|). All of this is computed in double. */
K_INLINE float k_erfc_float(float x) {
    const double a = fabs((double)x);
    const double t = 1 / (a + 3);
    double p = (3383.9658382154457 * t - 5932.1359795712233) * t + 3669.6840655078336;
    p = ((p * t - 1041.1012548253768) * t + 318.20021029142504) * t - 5.5313401546446546;
    p = ((p * t + 16.28496361460725) * t + 4.5599452916105312) * t + 1.7023283276118919;
    p = ((p * t + 0.5639624524200052) * t + 2.2042952057796753e-06) * k_exp_double(-a * a);
    return (float)(x < 0 ? 2 - p : p);
}
K_INLINE double k_erfc_double(double x) { return erfc(x); }

/* ---- powers ---------------------------------------------------------------------------------- */

/* Returns a^b for floats, computed in double as 2^(b * log2|a|). The exponent b * log2|a| is
 * limited to [-1000, 1000], so that no subnormal double arises. If a is negative, the result is
 * negative for odd b. It is NaN if b isn't an integer and a isn't -infinity. (k_either is needed,
 * because compilers would make a branch of an ordinary choice if b is the same for the whole
 * loop.) */
K_INLINE float k_pow_float(float a, float b) {
    const int32_t i = (int32_t)k_either(fabsf(b) < 0x1p24f, b, 0);
    const int32_t odd = (int32_t)((uint32_t)(i & -((float)i == b)) << 31);
    const float fraction = k_either(!(fabsf(b) >= 0x1p24f) & ((float)i != b), NAN, 0);
    const float none = k_either(b == 0, 1, NAN);
    const float of_zero = k_either(b < 0, INFINITY, k_either(b > 0, 0, none));
    const float of_infinity = k_either(b > 0, INFINITY, k_either(b < 0, 0, none));
    const double y = (double)b * k_log_inner_double((double)fabsf(a), 1, 0, M_LOG2E, 0x1.78p-56);
    const double t = y > 1000 ? 1000 : y;
    double r;
    uint64_t power;
    const double p = k_exp_parts_double(t < -1000 ? -1000 : t, true, 1023, &r, &power);
    const double e = r * r * p + r + 1;
    float v = (float)(e * k_from_bits_double((int64_t)power));
    v = k_either(a == 0, of_zero, k_either(fabsf(a) == INFINITY, of_infinity, v));
    v = k_either(a != a, none, k_either(fabsf(a) == 1, 1, v));
    v = k_either((a < 0) & (a > -INFINITY), v + fraction, v);
    return k_from_bits_float(k_bits_float(v) ^ (k_bits_float(a) & odd));
}
K_INLINE double k_pow_double(double a, double b) { return pow(a, b); }

/* ---- inverse trigonometric functions --------------------------------------------------------- */

/* Returns asin(x), or acos(x) if `cosine`. For |x| <= 1/2, asin(x) = x + x * z * p(z) with z = x^2,
 * where p is a polynomial. For x > 1/2, asin(x) = pi / 2 - 2 * asin(sqrt((1 - x) / 2)). asin(-x) is
 * -asin(x), and acos(x) is pi / 2 - asin(x). */
K_INLINE float k_arc_float(float x, const bool cosine) {
    const float quarter = 1.57079637f; /* pi / 2 = quarter + rest */
    const float rest = -4.37113883e-08f;
    const float a = fabsf(x);
    const float z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
    const float s = a > 0.5f ? sqrtf(z) : a;
    float p = fmaf(fmaf(0.0378521606f, z, 0.0142160207f), z, 0.0318614282f);
    p = fmaf(p, z, 0.044511281f);
    p = fmaf(fmaf(p, z, 0.0750052854f), z, 0.166666597f);
    const float within = fmaf(s * z, p, s);
    const float beyond = quarter - 2 * s - fmaf(2 * s * z, p, -rest);
    if (!cosine)
        return copysignf(a > 0.5f ? beyond : within, x);
    const float y = a > 0.5f ? 2 * within : copysignf(within, x) - rest;
    if (a <= 0.5f)
        return quarter - y;
    return x < 0 ? 2 * quarter - (y - 2 * rest) : y;
}
K_INLINE float k_asin_float(float x) { return k_arc_float(x, false); }
K_INLINE float k_acos_float(float x) { return k_arc_float(x, true); }
K_INLINE double k_asin_double(double x) { return asin(x); }
K_INLINE double k_acos_double(double x) { return acos(x); }

/* Returns the angle of the point (x, y). Let t be the lesser of |x| and |y|, divided by the greater
 * one. The arctangent of t is t + t * z * p(z) with z = t^2, where p is a polynomial. The angle of
 * the point is computed from the arctangent by reflections. */
K_INLINE float k_atan2_float(float y, float x) {
    const float a = fabsf(y);
    const float b = fabsf(x);
    const float high = a > b ? a : b;
    const float low = a > b ? b : a;
    const float of_equal = high == 0 ? 0 : 1;
    float t = low == high ? of_equal : low / high;
    const float z = t * t;
    float p = fmaf(fmaf(0.00291811419f, z, -0.0163620207f), z, 0.0432098284f);
    p = fmaf(p, z, -0.0755272806f);
    p = fmaf(fmaf(p, z, 0.106665954f), z, -0.142113045f);
    p = fmaf(fmaf(p, z, 0.199938178f), z, -0.333331555f);
    t = fmaf(t * z, p, t);
    t = a > b ? 1.57079637f - (t + 4.37113883e-08f) : t;
    t = k_bits_float(x) < 0 ? 3.14159274f - (t + 8.74227766e-08f) : t;
    return copysignf(t, y);
}
K_INLINE double k_atan2_double(double y, double x) { return atan2(y, x); }
K_INLINE float k_atan_float(float x) { return k_atan2_float(x, 1); }
K_INLINE double k_atan_double(double x) { return atan(x); }

#endif
