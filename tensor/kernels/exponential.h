/*
 * exponential.h: exponentials, logarithms and rounding for one floating type T, without branches or
 * calls, so that compilers can vectorize loops over them. smooth.h includes this file for float and
 * for double. Requires T and the following macros, and undefines them at the end:
 *
 *     K_TYPED(f)       the function's name for the type: f_float
 *     INT, UINT        the signed and unsigned integers of T's size
 *     POINT            the number of mantissa bits that T stores
 *     HALF             a power of two, such that the bias of T's exponents is 2 * HALF - 1
 *     TIMES            k_exp_least * TIMES and k_exp_most * TIMES limit the exponential's argument
 *     TIMES_EXPM1      k_exp_most * TIMES_EXPM1 is the upper limit of expm1's argument
 *     LN2_HIGH         ln 2, rounded to few bits, so that its product with an exponent is exact
 *     LN2_LOW          ln 2 - LN2_HIGH
 *     LOG10_2_HIGH     log10 2, rounded to few bits
 *     LOG10_2_LOW      log10 2 - LOG10_2_HIGH
 *     LOG2_E_LOW       log2 e - (T)M_LOG2E
 *     LOG10_E_LOW      log10 e - (T)M_LOG10E
 *     LOG1P_LEAST      for |x| less than this, ln(1 + x) is x - x^2 / 2 to the last bit
 */

/* Splits e^x into 2^n * e^r with |r| <= ln(2) / 2 (or, if `two`, splits 2^x in the same way).
 * Stores r in *r. Stores in *power the bits of a T whose exponent field is n plus the argument
 * `bias`. Returns p, for which e^r = 1 + r + r^2 * p. */
K_INLINE T K_TYPED(k_exp_parts)(T x, const bool two, int bias, T *r, UINT *power) {
    /* Adding this large number to a smaller one rounds the smaller one to an integer. */
    const T magic = (T)((UINT)3 << (POINT - 1)) + (T)bias;
    const T shifted = K_TYPED(k_step)(x, two ? (T)1 : (T)M_LOG2E, magic);
    const T n = shifted - magic;
    *power = (UINT)K_TYPED(k_bits)(shifted) << POINT;
    if (two)
        *r = (x - n) * (T)M_LN2;
    else
        *r = K_TYPED(k_step)(n, -(T)LN2_LOW, K_TYPED(k_step)(n, -(T)LN2_HIGH, x));
    return K_TYPED(k_exp_fit)(*r);
}

/* Returns e^x (2^x if `two`), or half of this power if `halved`. e^x is 2^n * e^r (see
 * k_exp_parts). The power 2^n is split into two factors, by which e^r is multiplied in turn, so
 * that no factor overflows or becomes 0 too early. One factor is 2^HALF if x >= 0, and 2^-HALF
 * otherwise; if `halved`, it is half of this number. */
K_INLINE T K_TYPED(k_exp_whole)(T x, const bool two, const bool halved) {
    const T unit = two ? (T)M_LOG2E : 1;
    const T least = (T)(k_exp_least * TIMES) * unit;
    const T most = (T)((k_exp_most + halved) * TIMES) * unit;
    T t = x > most ? most : x;
    /* At the lower limit, power + lift is 0. A T with these bits is 0, so the factor is 0, and the
     * result as well. */
    t = t < least ? least : t;
    const UINT lift = t < 0 ? (UINT)(2 * HALF) << POINT : 0;
    T r;
    UINT power;
    const T p = K_TYPED(k_exp_parts)(t, two, HALF - 1, &r, &power);
    const T e = K_TYPED(k_step)(K_TYPED(k_step)(p, r, (T)1), r, (T)1);
    const UINT second = (UINT)(3 * HALF - 1 - halved) << POINT;
    return e * K_TYPED(k_from_bits)((INT)(power + lift))
           * K_TYPED(k_from_bits)((INT)(second - lift));
}

K_INLINE T K_TYPED(k_exp)(T x) { return K_TYPED(k_exp_whole)(x, false, false); }

K_INLINE T K_TYPED(k_exp2)(T x) { return K_TYPED(k_exp_whole)(x, true, false); }

/* Returns e^x - 1 = 2^n * (e^r - 1) + (2^n - 1), where e^x is 2^n * e^r (see k_exp_parts). Half of
 * the result is computed and then doubled, because 2^n overflows for the largest n. */
K_INLINE T K_TYPED(k_expm1)(T x) {
    const T most = (T)k_exp_most * TIMES_EXPM1;
    T t = x > most ? most : x;
    t = t < -40 ? -40 : t;
    T r;
    UINT power;
    const T p = K_TYPED(k_exp_parts)(t, false, 2 * HALF - 2, &r, &power);
    const T half = K_TYPED(k_from_bits)((INT)power);
    return copysign(2 * K_TYPED(k_step)(half, K_TYPED(k_step)(r * r, p, r), half - (T)0.5), x);
}

K_INLINE T K_TYPED(k_cosh)(T x) {
    const T half = K_TYPED(k_exp_whole)(fabs(x), false, true);
    return half + (T)0.25 / half;
}

/* Returns the logarithm of x = 2^n * (1 + r), for a finite x > 0, with sqrt(1/2) <= 1 + r <
 * sqrt(2). The logarithm of 2 to the wanted base is high + low, and that of e is unit + rest, where
 * `low` and `rest` are small. */
K_INLINE T K_TYPED(k_log_inner)(T x, const T high, const T low, const T unit, const T rest) {
    const T least = K_TYPED(k_from_bits)((INT)1 << POINT);
    const T whole = K_TYPED(k_from_bits)((INT)(POINT + 2 * HALF - 1) << POINT);
    const INT root = K_TYPED(k_bits)((T)M_SQRT1_2);
    /* `scaled` isn't subnormal, even if x is. */
    const T scaled = x < least ? x * (T)((UINT)1 << POINT) : x;
    const UINT bits = (UINT)K_TYPED(k_bits)(scaled) + (UINT)(K_TYPED(k_bits)((T)1) - root);
    const T n = K_TYPED(k_from_bits)((INT)(bits >> POINT) | K_TYPED(k_bits)(whole))
                - (whole + 2 * HALF - 1) - (x < least ? POINT : 0);
    const T r = K_TYPED(k_from_bits)((INT)(bits & (((UINT)1 << POINT) - 1)) + root) - 1;
    T p = K_TYPED(k_log_fit)(r);
    if (unit == 1)
        p = r - p;
    else
        p = K_TYPED(k_step)(r, unit, K_TYPED(k_step)(r, rest, -p * unit));
    return K_TYPED(k_step)(n, high, K_TYPED(k_step)(n, low, p));
}

/* Returns the logarithm of any x. p is the result of k_log_inner for x. That result is right only
 * for a finite x > 0. */
K_INLINE T K_TYPED(k_log_outer)(T x, T p) {
    p = x == (T)INFINITY ? x : p;
    p = x == 0 ? -(T)INFINITY : p;
    return x >= 0 ? p : (T)NAN;
}

K_INLINE T K_TYPED(k_log)(T x) {
    return K_TYPED(k_log_outer)(x, K_TYPED(k_log_inner)(x, (T)LN2_HIGH, (T)LN2_LOW, 1, 0));
}

K_INLINE T K_TYPED(k_log2)(T x) {
    return K_TYPED(k_log_outer)(x, K_TYPED(k_log_inner)(x, 1, 0, (T)M_LOG2E, (T)LOG2_E_LOW));
}

K_INLINE T K_TYPED(k_log10)(T x) {
    return K_TYPED(k_log_outer)(
        x, K_TYPED(k_log_inner)(x, (T)LOG10_2_HIGH, (T)LOG10_2_LOW, (T)M_LOG10E, (T)LOG10_E_LOW));
}

/* Returns ln(1 + x). u is 1 + x, rounded. `lost`, its rounding error, is added back as lost / u.
 * For |x| below LOG1P_LEAST, the result is x - x^2 / 2. */
K_INLINE T K_TYPED(k_log1p)(T x) {
    const T u = 1 + x;
    const T lost = x - (u - 1);
    T y = K_TYPED(k_log)(u);
    y = ((u > 0) & (u < (T)INFINITY)) ? y + lost / u : y;
    return fabs(x) < (T)LOG1P_LEAST ? x - (T)0.5 * x * x : y;
}

/* ---- rounding to integers. A T of at least 2^POINT has no fraction, so that adding 2^POINT to a
 *      smaller number rounds it to the nearest integer. ---------------------------------------- */

static inline T K_TYPED(k_rint)(T x) {
    const T whole = (T)((UINT)1 << POINT);
    const T a = fabs(x);
    const T r = (a + whole) - whole;
    return a < whole ? copysign(r, x) : x;
}

static inline T K_TYPED(k_floor)(T x) {
    const T r = K_TYPED(k_rint)(x);
    return copysign(r > x ? r - 1 : r, x);
}

static inline T K_TYPED(k_ceil)(T x) {
    const T r = K_TYPED(k_rint)(x);
    return copysign(r < x ? r + 1 : r, x);
}

static inline T K_TYPED(k_trunc)(T x) {
    const T a = fabs(x);
    const T r = K_TYPED(k_rint)(a);
    return copysign(r > a ? r - 1 : r, x);
}

#undef T
#undef K_TYPED
#undef INT
#undef UINT
#undef POINT
#undef HALF
#undef TIMES
#undef TIMES_EXPM1
#undef LN2_HIGH
#undef LN2_LOW
#undef LOG10_2_HIGH
#undef LOG10_2_LOW
#undef LOG2_E_LOW
#undef LOG10_E_LOW
#undef LOG1P_LEAST
