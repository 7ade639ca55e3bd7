/*
 * smooth.h: functions of numbers without branches or calls, so that loops over them
 * vectorise: within 2 units in the last place of the true value, of doubles 3, and
 * exact at 0, infinities and NaN. What doubles don't have here is libm's. The
 * polynomials are fits to the functions, least in their largest error.
 */
#ifndef RG_KERNELS_SMOOTH_H
#define RG_KERNELS_SMOOTH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

static inline int32_t k_bits(float x) {
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline float k_from_bits(int32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}
static inline int64_t k_bits_wide(double x) {
    int64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}
static inline double k_from_bits_wide(int64_t i) {
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* Inside the loop's own instruction set, where fmaf is an instruction. */
#define K_SMOOTH static inline __attribute__((always_inline))

/* An integer that rises as x does, and back: the greatest of integers is found in lanes. */
static inline int32_t k_float_order(float x) {
    int32_t i = k_bits(x);
    return i ^ (i >> 31 & INT32_MAX);
}
static inline float k_float_unorder(int32_t i) { return k_from_bits(i ^ (i >> 31 & INT32_MAX)); }
static inline double k_double_order(double x) { return x; }

/* Both are computed: left out by a branch, one may be computed from anything, such as what makes it
 * slow. */
static inline float k_either(bool first, float a, float b) {
    int32_t mask = -(int32_t)first;
    return k_from_bits((k_bits(a) & mask) | (k_bits(b) & ~mask));
}

/* Not constants, which compilers would carry through the exponential of what they limit. Doubles'
 * are eight times these. */
extern const float k_exp_least, k_exp_most, k_exp_flush;

/* a b + c: one step of floats; two of doubles, since not every processor has the one, and libm's is
 * slow. */
K_SMOOTH float k_stepf(float a, float b, float c) { return fmaf(a, b, c); }
K_SMOOTH double k_step_wide(double a, double b, double c) { return a * b + c; }

/* p of e^r = 1 + r + r^2 p, where |r| <= ln(2) / 2 */
K_SMOOTH float k_exp_fitf(float r) {
    float p = fmaf(fmaf(fmaf(0.00139504854f, r, 0.00836888796f), r, 0.0416662059f), r,
                   0.166665189f);
    return fmaf(p, r, 0.50000001f);
}
K_SMOOTH double k_exp_fit_wide(double r) {
    double p = (2.5117608023696224e-08 * r + 2.7630852131899112e-07) * r + 2.7557217206965039e-06;
    p = ((p * r + 2.4801491271883697e-05) * r + 0.00019841269916207459) * r + 0.0013888888945563181;
    p = ((p * r + 0.0083333333333078536) * r + 0.041666666666521891) * r + 0.16666666666666699;
    return p * r + 0.50000000000000122;
}

/* p of ln(1 + r) = r - p, where sqrt(1/2) <= 1 + r < sqrt(2); of doubles by ln(1 + r) = 2 artanh(r
 * / (2 + r)) */
K_SMOOTH float k_log_fitf(float r) {
    float z = r * r,
          p = fmaf(fmaf(fmaf(0.0891787622f, r, -0.14350314f), r, 0.148770027f), r, -0.165656216f);
    p = fmaf(fmaf(fmaf(p, r, 0.199653937f), r, -0.250017473f), r, 0.333338582f);
    return fmaf(z, 0.5f, -(r * z) * p);
}
K_SMOOTH double k_log_fit_wide(double r) {
    double s = r / (2 + r), z = s * s, half = r * r / 2;
    double p = (0.14756578913869997 * z + 0.15318225196988539) * z + 0.1818338963089671;
    p = ((p * z + 0.22222202216444256) * z + 0.28571428703229262) * z + 0.39999999999614155;
    return half - s * (half + z * (p * z + 0.66666666666666985));
}

#define BITS(x)      _Generic((x), float : k_bits, default : k_bits_wide)(x)
#define FROM_BITS(i) _Generic((i), int32_t : k_from_bits, default : k_from_bits_wide)(i)

/* Of a type with so many bits after the point, whose exponents' bias is 2 HALF - 1, `times`
 * float's; ln 2 and log10 2 in two parts, of which the first times an exponent is exact. */
#define K_LN2   0.693147180559945309417L
#define K_LG2   0.301029995663981195214L
#define K_LOG2E 1.44269504088896340736L
#define K_EXPONENTIALS(T, f, INT, UINT, POINT, HALF, times, LN2, LG2)                              \
    /* e^x, or 2^x if two, is 2^n e^r: gives p, and puts n + bias into the exponent of *power. */  \
    K_SMOOTH T k_exp_parts##f(T x, const bool two, int bias, T *r, UINT *power) {                  \
        const T magic = (T)((UINT)3 << (POINT - 1)) + (T)bias; /* adding it rounds to integers */  \
        T shifted = k_step##f(x, two ? (T)1 : (T)M_LOG2E, magic), n = shifted - magic;             \
        *power = (UINT)BITS(shifted) << POINT;                                                     \
        *r = two ? (x - n) * (T)M_LN2 : k_step##f(n, -(T)(K_LN2 - LN2), k_step##f(n, -(T)LN2, x)); \
        return k_exp_fit##f(*r);                                                                   \
    }                                                                                              \
    /* 2^n in two factors, of which one is 2^HALF or its inverse; halved: half of it. */           \
    K_SMOOTH T k_exp_whole##f(T x, const bool two, const bool halved) {                            \
        const T unit = two ? (T)M_LOG2E : 1, least = k_exp_least * times * unit;                   \
        const T most = (k_exp_most + halved) * times * unit;                                       \
        T t = x > most ? most : x, r;                                                              \
        t = t < least ? least : t; /* where the first factor is 0 */                               \
        UINT power, lift = t < 0 ? (UINT)(2 * HALF) << POINT : 0;                                  \
        T p = k_exp_parts##f(t, two, HALF - 1, &r, &power),                                        \
          e = k_step##f(k_step##f(p, r, (T)1), r, (T)1);                                           \
        const UINT second = (UINT)(3 * HALF - 1 - halved) << POINT;                                \
        return e * FROM_BITS((INT)(power + lift)) * FROM_BITS((INT)(second - lift));               \
    }                                                                                              \
    K_SMOOTH T k_exp##f(T x) { return k_exp_whole##f(x, false, false); }                           \
    K_SMOOTH T k_exp2##f(T x) { return k_exp_whole##f(x, true, false); }                           \
                                                                                                   \
    /* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), in halves, so that the greatest power doesn't          \
     * overflow. */                                                                                \
    K_SMOOTH T k_expm1##f(T x) {                                                                   \
        T most = k_exp_most * (times == 1 ? 1 : (T)7.977), t = x > most ? most : x, r;             \
        t = t < -40 ? -40 : t;                                                                     \
        UINT power;                                                                                \
        T p = k_exp_parts##f(t, false, 2 * HALF - 2, &r, &power), half = FROM_BITS((INT)power);    \
        return copysign(2 * k_step##f(half, k_step##f(r * r, p, r), half - (T)0.5), x);            \
    }                                                                                              \
    K_SMOOTH T k_cosh##f(T x) {                                                                    \
        T h = k_exp_whole##f(fabs(x), false, true);                                                \
        return h + (T)0.25 / h;                                                                    \
    }                                                                                              \
    /* x = 2^n (1 + r) with sqrt(1/2) <= 1 + r < sqrt(2); 2's logarithm and e's in two parts each. \
     */                                                                                            \
    K_SMOOTH T k_log_inner##f(T x, const T high, const long double of_two,                         \
                              const long double of_e) {                                            \
        const T least = FROM_BITS((INT)1 << POINT),                                                \
                whole = FROM_BITS((INT)(POINT + 2 * HALF - 1) << POINT);                           \
        const INT root = BITS((T)M_SQRT1_2);                                                       \
        T unit = (T)of_e,                                                                          \
          scaled = x < least ? x * (T)((UINT)1 << POINT) : x; /* subnormal numbers, too */         \
        UINT bits = (UINT)BITS(scaled) + (UINT)(BITS((T)1) - root);                                \
        T n = FROM_BITS((INT)(bits >> POINT) | BITS(whole)) - (whole + 2 * HALF - 1)               \
              - (x < least ? POINT : 0);                                                           \
        T r = FROM_BITS((INT)(bits & (((UINT)1 << POINT) - 1)) + root) - 1, p = k_log_fit##f(r);   \
        p = of_e == 1 ? r - p : k_step##f(r, unit, k_step##f(r, (T)(of_e - unit), -p * unit));     \
        return k_step##f(n, high, k_step##f(n, (T)(of_two - high), p));                            \
    }                                                                                              \
    K_SMOOTH T k_log_outer##f(T x, T p) {                                                          \
        p = x == (T)INFINITY ? x : p;                                                              \
        p = x == 0 ? -(T)INFINITY : p;                                                             \
        return x >= 0 ? p : (T)NAN;                                                                \
    }                                                                                              \
    K_SMOOTH T k_log##f(T x) { return k_log_outer##f(x, k_log_inner##f(x, (T)LN2, K_LN2, 1)); }    \
    K_SMOOTH T k_log2##f(T x) { return k_log_outer##f(x, k_log_inner##f(x, 1, 1, K_LOG2E)); }      \
    K_SMOOTH T k_log10##f(T x) {                                                                   \
        return k_log_outer##f(x, k_log_inner##f(x, (T)LG2, K_LG2, K_LG2 / K_LN2));                 \
    }                                                                                              \
    /* ln(1 + x): what 1 + x rounds off is put back. */                                            \
    K_SMOOTH T k_log1p##f(T x) {                                                                   \
        T u = 1 + x, y = k_log##f(u), lost = x - (u - 1);                                          \
        y = ((u > 0) & (u < (T)INFINITY)) ? y + lost / u : y;                                      \
        return fabs(x) < (T)(times == 1 ? 1e-4 : 1e-9) ? x - (T)0.5 * x * x : y;                   \
    }
K_EXPONENTIALS(float, f, int32_t, uint32_t, 23, 64, 1, 0.693359375, 0.301025390625)
K_EXPONENTIALS(double, _wide, int64_t, uint64_t, 52, 512, 8, 0x1.62e42feep-1, 0x1.34413509f78p-2)

/* For x below 88; 0 where e^x < 2^-126. */
K_SMOOTH float k_exp_belowf(float x) {
    uint32_t power;
    float r, p = k_exp_partsf(x < k_exp_flush ? k_exp_flush : x, false, 127, &r, &power);
    return fmaf(fmaf(p, r, 1), r, 1) * k_from_bits((int32_t)power);
}

K_SMOOTH float k_tanhf(float x) {
    float z = x * x;
    float p = fmaf(
        fmaf(fmaf(fmaf(-0.00571099807f, z, 0.0206454189f), z, -0.0537419955f), z, 0.133314744f), z,
        -0.333332833f);
    float large = 1 - 2 / (k_expf(2 * fabsf(x)) + 1);
    return copysignf(k_either(fabsf(x) < 0.625f, fmaf(x * z, p, x), large), x);
}

K_SMOOTH float k_erff(float x) {
    float a = fabsf(x), z = x * x, t = a > 4 ? 4 : a;
    float p = fmaf(fmaf(fmaf(7.82397128e-05f, z, -0.000800279217f), z, 0.00518767656f), z,
                   -0.0268535717f);
    float ln = fmaf(fmaf(fmaf(-2.16868385e-05f, t, 0.000441336195f), t, -0.0042045607f), t,
                    0.0252082527f);
    p = fmaf(fmaf(fmaf(p, z, 0.112835819f), z, -0.376126258f), z, 0.12837917f);
    ln = fmaf(fmaf(fmaf(fmaf(ln, t, -0.108418569f), t, -0.633219902f), t, -1.12957842f), t,
              0.000188038802f);
    return k_either(a < 1, fmaf(x, p, x), copysignf(1 - k_expf(ln), x));
}

/* Below 1 by x + x z p(z), of doubles by u = e^x - 1: sinh = u - u^2 / (2 u + 2) */
K_SMOOTH float k_sinhf(float x) {
    float a = fabsf(x), h = k_exp_wholef(a, false, true), z = x * x;
    float p = fmaf(fmaf(fmaf(2.78392599e-06f, z, 0.000198426351f), z, 0.00833331142f), z,
                   0.166666672f);
    return a < 1 ? fmaf(x * z, p, x) : copysignf(h - 0.25f / h, x);
}
K_SMOOTH double k_sinh_wide(double x) {
    double a = fabs(x), h = k_exp_whole_wide(a, false, true), u = k_expm1_wide(a);
    return copysign(a < 1 ? u - u * u / (2 * u + 2) : h - 0.25 / h, x);
}
K_SMOOTH double k_tanh_wide(double x) {
    double a = fabs(x), u = k_expm1_wide(a > 20 ? 40 : 2 * a);
    return copysign(u / (u + 2), x);
}

/* To integers: below `whole`, where floats have fractions, adding it drops them. */
#define K_ROUNDING(T, whole)                    \
    static inline T k_##T##_rint(T x) {         \
        T a = fabs(x), r = (a + whole) - whole; \
        return a < whole ? copysign(r, x) : x;  \
    }                                           \
    static inline T k_##T##_floor(T x) {        \
        T r = k_##T##_rint(x);                  \
        return copysign(r > x ? r - 1 : r, x);  \
    }                                           \
    static inline T k_##T##_ceil(T x) {         \
        T r = k_##T##_rint(x);                  \
        return copysign(r < x ? r + 1 : r, x);  \
    }                                           \
    static inline T k_##T##_trunc(T x) {        \
        T a = fabs(x), r = k_##T##_rint(a);     \
        return copysign(r > a ? r - 1 : r, x);  \
    }
K_ROUNDING(float, 0x1p23f)
K_ROUNDING(double, 0x1p52)

/* e^-x^2 by way of double, and a polynomial of 1 / (a + 3) */
K_SMOOTH float k_erfcf(float x) {
    double a = fabs((double)x), t = 1 / (a + 3);
    double p = (3383.9658382154457 * t - 5932.1359795712233) * t + 3669.6840655078336;
    p = ((p * t - 1041.1012548253768) * t + 318.20021029142504) * t - 5.5313401546446546;
    p = ((p * t + 16.28496361460725) * t + 4.5599452916105312) * t + 1.7023283276118919;
    p = ((p * t + 0.5639624524200052) * t + 2.2042952057796753e-06) * k_exp_wide(-a * a);
    return (float)(x < 0 ? 2 - p : p);
}

/* a^b by way of double, which holds all powers that float does as normal numbers; of a negative
 * number to an integer's power: the sign of an odd one. (Without choices that compilers see: loops
 * whose b is always the same would branch.) */
K_SMOOTH float k_powf(float a, float b) {
    const int32_t i = (int32_t)k_either(fabsf(b) < 0x1p24f, b, 0);
    const int32_t odd = (int32_t)((uint32_t)(i & -((float)i == b)) << 31);
    const float fraction = k_either(!(fabsf(b) >= 0x1p24f) & ((float)i != b), NAN, 0);
    const float none = k_either(b == 0, 1, NAN),
                of_zero = k_either(b < 0, INFINITY, k_either(b > 0, 0, none));
    const float of_infinity = k_either(b > 0, INFINITY, k_either(b < 0, 0, none));
    double y = b * k_log_inner_wide(fabsf(a), 1, 1, K_LOG2E), t = y > 1000 ? 1000 : y, r;
    uint64_t power;
    double p = k_exp_parts_wide(t < -1000 ? -1000 : t, true, 1023, &r, &power),
           e = r * r * p + r + 1;
    float v = (float)(e * k_from_bits_wide((int64_t)power));
    v = k_either(a == 0, of_zero, k_either(fabsf(a) == INFINITY, of_infinity, v));
    v = k_either(a != a, none, k_either(fabsf(a) == 1, 1, v));
    v = k_either((a < 0) & (a > -INFINITY), v + fraction, v);
    return k_from_bits(k_bits(v) ^ (k_bits(a) & odd));
}

/* By x + x z p(z) up to 1/2, and beyond by asin a = pi / 2 - 2 asin(sqrt((1 - a) / 2)) */
K_SMOOTH float k_arcf(float x, const bool cosine) {
    const float quarter = 1.57079637f, rest = -4.37113883e-08f; /* pi / 2 */
    float a = fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : a;
    float p = fmaf(fmaf(fmaf(0.0378521606f, z, 0.0142160207f), z, 0.0318614282f), z, 0.044511281f);
    p = fmaf(fmaf(p, z, 0.0750052854f), z, 0.166666597f);
    float y = fmaf(s * z, p, s), beyond = quarter - 2 * s - fmaf(2 * s * z, p, -rest);
    if (!cosine)
        return copysignf(a > 0.5f ? beyond : y, x);
    y = a > 0.5f ? 2 * y : copysignf(y, x) - rest;
    return a <= 0.5f ? quarter - y : x < 0 ? 2 * quarter - (y - 2 * rest) : y;
}
K_SMOOTH float k_asinf(float x) { return k_arcf(x, false); }
K_SMOOTH float k_acosf(float x) { return k_arcf(x, true); }

/* By t + t z p(z) of the lesser over the greater of both */
K_SMOOTH float k_atan2f(float y, float x) {
    float a = fabsf(y), b = fabsf(x), high = a > b ? a : b, low = a > b ? b : a;
    float t = low == high ? (high == 0 ? 0 : 1) : low / high, z = t * t;
    float p = fmaf(fmaf(fmaf(0.00291811419f, z, -0.0163620207f), z, 0.0432098284f), z,
                   -0.0755272806f);
    p = fmaf(fmaf(fmaf(fmaf(p, z, 0.106665954f), z, -0.142113045f), z, 0.199938178f), z,
             -0.333331555f);
    t = fmaf(t * z, p, t);
    t = a > b ? 1.57079637f - (t + 4.37113883e-08f) : t;
    t = k_bits(x) < 0 ? 3.14159274f - (t + 8.74227766e-08f) : t;
    return copysignf(t, y);
}
K_SMOOTH float k_atanf(float x) { return k_atan2f(x, 1); }

#define ORDER(x)   _Generic((x), float : k_float_order, default : k_double_order)(x)
#define UNORDER(x) _Generic((x), int32_t : k_float_unorder, default : k_double_order)(x)
/* The function of a number's own type, where both have one here, or of a loop's, where only float
 * has. */
#define K_OF(op, x)         _Generic((x), float : k_##op##f, default : k_##op##_wide)(x)
#define K_FLOAT_OF(op, ...) _Generic((real)0, float : k_##op##f, default : (op))(__VA_ARGS__)
#define EXP(x)              K_OF(exp, x)
#define EXP_BELOW(x)        _Generic((x), float : k_exp_belowf, default : k_exp_wide)(x)
#define EXPM1(x)            K_OF(expm1, x)
#define LOG(x)              K_OF(log, x)
#define LOG1P(x)            K_OF(log1p, x)
#define TANH(x)             K_OF(tanh, x)
#define RINT(x)             _Generic((x), float : k_float_rint, default : k_double_rint)(x)
#define FLOOR(x)            _Generic((x), float : k_float_floor, default : k_double_floor)(x)
#define CEIL(x)             _Generic((x), float : k_float_ceil, default : k_double_ceil)(x)
#define TRUNC(x)            _Generic((x), float : k_float_trunc, default : k_double_trunc)(x)

#endif
