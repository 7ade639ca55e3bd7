/*
 * binary.c: functions of two elements: arithmetic, comparisons, the logical.
 */
#ifndef K_BITS
#include "loops.h"

/* Python's // and %: towards minus infinity, and with b's sign. The quotient of
 * floats is corrected so that it agrees with the remainder, which is exact. */
#define FLOOR_DIVIDE(T)                                              \
    static inline T floor_divide_##T##s(T a, T b) {                  \
        if (b == 0)                                                  \
            return a / b;                                            \
        T rest = fmod(a, b), q = (a - rest) / b;                     \
        if (rest != 0 && (b < 0) != (rest < 0))                      \
            q -= 1;                                                  \
        if (q == 0)                                                  \
            return copysign((T)0, a / b);                            \
        T down = floor(q);                                           \
        return q - down > (T)0.5 ? down + 1 : down;                  \
    }                                                                \
    static inline T remainder_##T##s(T a, T b) {                     \
        T rest = fmod(a, b);                                         \
        return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest; \
    }
FLOOR_DIVIDE(float)
FLOOR_DIVIDE(double)
#define FLOATS_OF(f, a, b) \
    (sizeof(real) == 4 ? (real)f##_floats((float)(a), (float)(b)) : (real)f##_doubles(a, b))

/* Of integers, b not 0. INT64_MIN / -1 wraps around. */
static inline int64_t trunc_divide_ints(int64_t a, int64_t b) {
    return b == -1 ? k_wrap_sub(0, a) : a / b;
}
static inline int64_t fmod_ints(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static inline int64_t remainder_ints(int64_t a, int64_t b) {
    int64_t rest = fmod_ints(a, b);
    return rest && (b < 0) != (rest < 0) ? rest + b : rest;
}
static inline int64_t floor_divide_ints(int64_t a, int64_t b) {
    int64_t rest = fmod_ints(a, b);
    return trunc_divide_ints(a, b) - (rest && (b < 0) != (rest < 0));
}

static inline int64_t pow_ints(int64_t a, int64_t b) {
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    int64_t y = 1;
    for (; b; b >>= 1, a = k_wrap_mul(a, a))
        if (b & 1)
            y = k_wrap_mul(y, a);
    return y;
}

#define K_FILE "binary.c"
#include "sets.h"

static void any_zero(char *const p[], const int64_t s[], int64_t n, const void *context) {
    for (int64_t i = 0; i < n; i++)
        if (*(const int64_t *)(p[0] + i * s[0]) == 0)
            *(bool *)context = true;
}

bool k_has_zero(const rg_tensor *integers) {
    bool found = false;
    rgi_each(1, (rg_tensor *[]){ (rg_tensor *)integers }, any_zero, &found);
    return found;
}

#else
K_ALL(2, add, a | b, k_wrap_add(a, b), a + b)
K_ALL(2, sub, a ^ b, k_wrap_sub(a, b), a - b)
K_ALL(2, mul, a &b, k_wrap_mul(a, b), a *b)
K_LIGHT_FLOATS(2, div, a / b)
K_ALL(2, div_floor, a, floor_divide_ints(a, b), FLOATS_OF(floor_divide, a, b))
K_ALL(2, div_trunc, a, trunc_divide_ints(a, b), TRUNC(a / b))
K_ALL(2, remainder, false, remainder_ints(a, b), FLOATS_OF(remainder, a, b))
K_ALL(2, fmod, false, fmod_ints(a, b), fmod(a, b))
K_ALL(2, pow, a || !b, pow_ints(a, b), K_FLOAT_OF(pow, a, b))
K_FLOATS(2, atan2, K_FLOAT_OF(atan2, a, b))
K_ALL(2, maximum, a | b, a > b ? a : b, a > b || a != a ? a : b)
K_ALL(2, minimum, a &b, a < b ? a : b, a < b || a != a ? a : b)
K_ALL(2, fmax, a | b, a > b ? a : b, a > b || b != b ? a : b)
K_ALL(2, fmin, a &b, a < b ? a : b, a < b || b != b ? a : b)

#define COMPARE(op, expression) K_TEST(2, op, expression, expression)
COMPARE(eq, a == b)
COMPARE(ne, a != b)
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(ge, a >= b)
COMPARE(logical_and, a &&b)
COMPARE(logical_or, a || b)
COMPARE(logical_xor, !a != !b)

/* a + alpha b, in one pass; for integers, the bits of the first number are those of alpha as one */
LOOP_2(add_alpha_bool, bool, bool, a | (k[0] & b))
K_NUMBER_LOOPS(2, add_alpha, k_wrap_add(a, k_wrap_mul(*(const int64_t *)context, b)), a + k[0] * b)
K_ALL_KERNEL(add_alpha, 2)
#endif
