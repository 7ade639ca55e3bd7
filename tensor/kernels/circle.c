/*
 * circle.c: sine, cosine and tangent. Up to 2^17 they are short and vectorise, within 1.6
 * units in the last place of the true value; beyond, at infinities and NaN they are libm's.
 */
#ifndef K_BITS
#include "loops.h"

#define CIRCLE_MOST 0x1p17f /* from here on pi / 2 in three parts would be too coarse */
/* so many are looked through at once, and stay in the first cache */
enum { CIRCLE_BLOCK = 1024 };

/* sin(x + quarter pi / 2), with Cody and Waite: x = n pi / 2 + r with |r| <= pi / 4; n counts
 * quarters, too. Of an odd number of them it is cos(r), and from two on negative. (The parts of pi
 * / 2 are all less than what they stand for: so -0 stays.) */
K_SMOOTH float circle_at(float x, uint32_t quarter) {
    const float magic = 12582912.f; /* 3 * 2^22: adding it rounds to integers */
    float shifted = fmaf(x, 0.636619772f, magic), n = shifted - magic;
    float r = fmaf(n, -0x1.846988p-48f, fmaf(n, -0x1.4442dp-24f, fmaf(n, -0x1.921fb4p+0f, x)));
    float z = r * r, s = fmaf(fmaf(-0x1.994388p-13f, z, 0x1.11073ap-7f), z, -0x1.555546p-3f);
    float c = fmaf(fmaf(0x1.99eb4ap-16f, z, -0x1.6c0c32p-10f), z, 0x1.55554ap-5f);
    s = copysignf(fmaf(r * z, s, r), r);
    c = fmaf(z * z, c, fmaf(z, -0.5f, 1));
    quarter += (uint32_t)k_bits(shifted);
    return k_from_bits(k_bits(k_either(quarter & 1, c, s))
                       ^ (int32_t)(quarter << 30 & 0x80000000u));
}

/* By way of double: of an odd number of quarters it is -1 / tan(r). */
K_SMOOTH float circle_tan(float x) {
    const double magic = 6755399441055744; /* 3 * 2^51 */
    double shifted = (double)x * M_2_PI + magic, n = shifted - magic;
    double r = (double)x - n * 0x1.921fb544p+0 - n * 0x1.0b4611a626331p-34, z = r * r;
    double t = ((0.00437405147 * z + 9.59557074e-05) * z + 0.0108288424) * z + 0.021285845;
    t = r + r * z * (((t * z + 0.0540589467) * z + 0.133326754) * z + 0.333333492);
    return (float)(BITS(shifted) & 1 ? -1 / t : t);
}

/* What has no far element is taken at once. An element's bits depend on no other. */
#define CIRCLE(op, near_by)                                                                    \
    LOOP_1(op##_near, float, float, near_by)                                                   \
    LOOP_1(op##_any, float, float, fabsf(x) < CIRCLE_MOST ? near_by : op##f(x))                \
    LOOP_1(op##_double, double, double, op(x))                                                 \
    static void K_SET(op##_float)(char *const p[], const int64_t s[], int64_t n,               \
                                  const void *context) {                                       \
        for (int64_t i = 0, m; i < n; i += m) {                                                \
            char *const q[] = { p[0] + i * s[0], p[1] + i * s[1] };                            \
            m = RG_MIN(n - i, CIRCLE_BLOCK);                                                   \
            (K_SET(circle_near)(q[1], s[1], m) ? K_SET(op##_near) : K_SET(op##_any))(q, s, m,  \
                                                                                     context); \
        }                                                                                      \
    }                                                                                          \
    K_KERNEL(op, 1, false, NULL, NULL, K_LOOPS(op##_float), K_LOOPS(op##_double))

#define K_FILE "circle.c"
#include "sets.h"
#else

static bool K_SET(circle_near)(const char *p, int64_t step, int64_t n) {
    const float *x = (const float *)p;
    int32_t far = 0;
    if (step == sizeof *x)
        for (int64_t i = 0; i < n; i++)
            far |= !(fabsf(x[i]) < CIRCLE_MOST);
    else
        for (int64_t i = 0; i < n; i++)
            far |= !(fabsf(*(const float *)(p + i * step)) < CIRCLE_MOST);
    return !far;
}
CIRCLE(sin, circle_at(x, 0))
CIRCLE(cos, circle_at(x, 1))
CIRCLE(tan, circle_tan(x))
#endif
