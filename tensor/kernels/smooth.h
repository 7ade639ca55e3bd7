/*
 * smooth.h: functions of one float without branches or calls, so that loops over
 * them vectorise: within 2 units in the last place of the true value (float32), and
 * exact at 0, infinities and NaN. Doubles go to libm, except for rounding. The
 * polynomials are fits to the functions, least in their largest error.
 */
#ifndef RG_KERNELS_SMOOTH_H
#define RG_KERNELS_SMOOTH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t k_bits(float x)     { int32_t i; memcpy(&i, &x, sizeof i); return i; }
static inline float k_from_bits(int32_t i) { float x; memcpy(&x, &i, sizeof x); return x; }

/* 2^n, also of what a NaN made of n */
static inline float k_power_of_2(int32_t n) { return k_from_bits((int32_t)((uint32_t)(n + 127) << 23)); }

/* x = n ln 2 + r with |r| <= ln(2) / 2; e^r by a polynomial; 2^n in two factors, either of which fits. */
static inline float k_expf(float x) {
    const float magic = 12582912;                       /* 3 * 2^22: adding it rounds to integers */
    float t = x > 89 ? 89 : x;
    t = t < -104 ? -104 : t;
    float shifted = t * 1.44269504f + magic, n = shifted - magic;
    float r = t - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 0.50000001f + r * (0.166665189f + r * (0.0416662059f + r * (0.00836888796f + r * 0.00139504854f)));
    int32_t i = k_bits(shifted) - k_bits(magic), half = i >> 1;
    return (1 + (r + r * r * p)) * k_power_of_2(half) * k_power_of_2(i - half);
}

/* x = 2^n (1 + r) with sqrt(1/2) <= 1 + r < sqrt(2) */
static inline float k_logf(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608 : x;       /* subnormal numbers, too */
    int32_t bits = (int32_t)((uint32_t)k_bits(scaled) - 0x3f3504f3u), n = bits >> 23;
    float r = k_from_bits((bits & 0x7fffff) + 0x3f3504f3) - 1, e = (float)n - (x < 1.17549435e-38f ? 23 : 0);
    float p = 0.333338582f + r * (-0.250017473f + r * (0.199653937f + r * (-0.165656216f + r * (0.148770027f
              + r * (-0.14350314f + r * 0.0891787622f)))));
    float y = (r - (0.5f * r * r - r * r * r * p)) - e * 2.12194440e-4f + e * 0.693359375f;
    y = x == INFINITY ? x : y;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

static inline float k_tanhf(float x) {
    float z = x * x;
    float small = x + x * z * (-0.333332833f + z * (0.133314744f + z * (-0.0537419955f + z * (0.0206454189f
                  - z * 0.00571099807f))));
    float large = 1 - 2 / (k_expf(2 * fabsf(x)) + 1);
    return copysignf(fabsf(x) < 0.625f ? small : large, x);
}

static inline float k_erff(float x) {
    float a = fabsf(x), z = x * x, t = a > 4 ? 4 : a;
    float small = x * (1.12837917f + z * (-0.376126258f + z * (0.112835819f + z * (-0.0268535717f + z * (0.00518767656f
                  + z * (-0.000800279217f + z * 7.82397128e-05f))))));
    float ln = 0.000188038802f + t * (-1.12957842f + t * (-0.633219902f + t * (-0.108418569f + t * (0.0252082527f
               + t * (-0.0042045607f + t * (0.000441336195f - t * 2.16868385e-05f))))));
    return a < 1 ? small : copysignf(1 - k_expf(ln), x);
}

/* ln(1 + x): what 1 + x rounds off is put back. */
static inline float k_log1pf(float x) {
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

#define EXP(x)   _Generic((x), float: k_expf, default: (exp))(x)
#define LOG(x)   _Generic((x), float: k_logf, default: (log))(x)
#define LOG1P(x) _Generic((x), float: k_log1pf, default: (log1p))(x)
#define TANH(x)  _Generic((x), float: k_tanhf, default: (tanh))(x)
#define ERF(x)   _Generic((x), float: k_erff, default: (erf))(x)
#define RINT(x)  _Generic((x), float: k_float_rint, default: k_double_rint)(x)
#define FLOOR(x) _Generic((x), float: k_float_floor, default: k_double_floor)(x)
#define CEIL(x)  _Generic((x), float: k_float_ceil, default: k_double_ceil)(x)
#define TRUNC(x) _Generic((x), float: k_float_trunc, default: k_double_trunc)(x)

#endif
