/*
 * binary.c: functions of two elements: arithmetic, comparisons, the logical.
 */
#include "loops.h"

#define K_2(op, ...)                                                                            \
    void k_##op(rg_tensor *y, rg_tensor *const in[])                                            \
    {                                                                                           \
        static rg_loop *const by_dtype[] = { __VA_ARGS__ };                                     \
        rg_each(3, (rg_tensor *[]){ y, in[0], in[1] }, by_dtype[in[0]->dtype], NULL);           \
    }

#define FLOATS_2(op, on_float)                                                                  \
    LOOP_2(op##_float, float, float, on_float)                                                  \
    LOOP_2(op##_double, double, double, on_float)                                               \
    K_2(op, NULL, NULL, op##_float, op##_double)

#define ALL_2(op, on_bool, on_int, on_float)                                                    \
    LOOP_2(op##_bool, bool, bool, on_bool)                                                      \
    LOOP_2(op##_int64, int64_t, int64_t, on_int)                                                \
    LOOP_2(op##_float, float, float, on_float)                                                  \
    LOOP_2(op##_double, double, double, on_float)                                               \
    K_2(op, op##_bool, op##_int64, op##_float, op##_double)

#define TEST_2(op, expression)                                                                  \
    LOOP_2(op##_bool, bool, bool, expression)                                                   \
    LOOP_2(op##_int64, int64_t, bool, expression)                                               \
    LOOP_2(op##_float, float, bool, expression)                                                 \
    LOOP_2(op##_double, double, bool, expression)                                               \
    K_2(op, op##_bool, op##_int64, op##_float, op##_double)

/* Python's // and %: towards minus infinity, and with b's sign. The quotient of
 * floats is corrected so that it agrees with the remainder, which is exact. */
#define FLOOR_DIVIDE(T)                                                                         \
    static inline T floor_divide_##T##s(T a, T b)                                               \
    {                                                                                           \
        if (b == 0) return a / b;                                                               \
        T rest = fmod(a, b), q = (a - rest) / b;                                                \
        if (rest != 0 && (b < 0) != (rest < 0)) q -= 1;                                         \
        if (q == 0) return copysign((T)0, a / b);                                               \
        T down = floor(q);                                                                      \
        return q - down > (T)0.5 ? down + 1 : down;                                             \
    }                                                                                           \
    static inline T remainder_##T##s(T a, T b)                                                  \
    {                                                                                           \
        T rest = fmod(a, b);                                                                    \
        return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;                            \
    }
FLOOR_DIVIDE(float)
FLOOR_DIVIDE(double)
#define FLOATS_OF(f, a, b) (sizeof(real) == 4 ? (real)f##_floats((float)(a), (float)(b)) : (real)f##_doubles(a, b))

/* Of integers, b not 0. INT64_MIN / -1 wraps around. */
static inline int64_t trunc_divide_ints(int64_t a, int64_t b) { return b == -1 ? k_wrap_sub(0, a) : a / b; }
static inline int64_t fmod_ints(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static inline int64_t remainder_ints(int64_t a, int64_t b)
{
    int64_t rest = fmod_ints(a, b);
    return rest && (b < 0) != (rest < 0) ? rest + b : rest;
}
static inline int64_t floor_divide_ints(int64_t a, int64_t b)
{
    int64_t rest = fmod_ints(a, b);
    return trunc_divide_ints(a, b) - (rest && (b < 0) != (rest < 0));
}

static inline int64_t pow_ints(int64_t a, int64_t b)
{
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    int64_t y = 1;
    for (; b; b >>= 1, a = k_wrap_mul(a, a))
        if (b & 1) y = k_wrap_mul(y, a);
    return y;
}

ALL_2(add, a | b, k_wrap_add(a, b), a + b)
ALL_2(sub, a ^ b, k_wrap_sub(a, b), a - b)
ALL_2(mul, a & b, k_wrap_mul(a, b), a * b)
FLOATS_2(div, a / b)
ALL_2(div_floor, a, floor_divide_ints(a, b), FLOATS_OF(floor_divide, a, b))
ALL_2(div_trunc, a, trunc_divide_ints(a, b), TRUNC(a / b))
ALL_2(remainder, false, remainder_ints(a, b), FLOATS_OF(remainder, a, b))
ALL_2(fmod, false, fmod_ints(a, b), fmod(a, b))
ALL_2(pow, a || !b, pow_ints(a, b), pow(a, b))
FLOATS_2(atan2, atan2(a, b))
ALL_2(maximum, a | b, a > b ? a : b, a > b || a != a ? a : b)
ALL_2(minimum, a & b, a < b ? a : b, a < b || a != a ? a : b)
ALL_2(fmax, a | b, a > b ? a : b, a > b || b != b ? a : b)
ALL_2(fmin, a & b, a < b ? a : b, a < b || b != b ? a : b)

TEST_2(eq, a == b)
TEST_2(ne, a != b)
TEST_2(lt, a < b)
TEST_2(le, a <= b)
TEST_2(gt, a > b)
TEST_2(ge, a >= b)
TEST_2(logical_and, a && b)
TEST_2(logical_or, a || b)
TEST_2(logical_xor, !a != !b)

/* a + alpha b, in one pass */
LOOP_2(add_alpha_bool, bool, bool, a | (k[0] & b))
LOOP_2(add_alpha_int64, int64_t, int64_t, k_wrap_add(a, k_wrap_mul(*(const int64_t *)context, b)))
LOOP_2(add_alpha_float, float, float, a + k[0] * b)
LOOP_2(add_alpha_double, double, double, a + k[0] * b)

void k_add_alpha(rg_tensor *y, rg_tensor *const in[], double alpha, int64_t integer)
{
    static rg_loop *const by_dtype[] = { add_alpha_bool, add_alpha_int64, add_alpha_float, add_alpha_double };
    double numbers[3] = { alpha };
    if (y->dtype == RG_INT64) memcpy(numbers, &integer, sizeof integer);
    rg_each(3, (rg_tensor *[]){ y, in[0], in[1] }, by_dtype[y->dtype], numbers);
}

static void any_zero(char *const p[], const int64_t s[], int64_t n, const void *context)
{
    for (int64_t i = 0; i < n; i++)
        if (*(const int64_t *)(p[0] + i * s[0]) == 0) *(bool *)context = true;
}

bool k_has_zero(const rg_tensor *integers)
{
    bool found = false;
    rg_each(1, (rg_tensor *[]){ (rg_tensor *)integers }, any_zero, &found);
    return found;
}
