/*
 * ternary.c: functions of three elements.
 */
#include "loops.h"

static void each_of_three(rg_tensor *y, rg_tensor *const in[], rg_loop *loop, const double *numbers)
{
    rg_each(4, (rg_tensor *[]){ y, in[0], in[1], in[2] }, loop, numbers);
}

/* ---- choosing -------------------------------------------------------------------- */

/* A mask of ones or zeros: what is chosen is no branch, which a random condition would make slow. */
#define WHERE(name, T) LOOP_3(name, bool, T, T, (b & -(T)a) | (c & ~-(T)a))
WHERE(where_1, uint8_t)
WHERE(where_4, uint32_t)
WHERE(where_8, uint64_t)

void k_where(rg_tensor *y, rg_tensor *const in[])
{
    size_t bytes = rg_sizeof(y->dtype);
    each_of_three(y, in, bytes == 1 ? where_1 : bytes == 4 ? where_4 : where_8, NULL);
}

/* min(max(a, b), c); NaN if any is */
#define CLAMP(T) LOOP_3(clamp_##T, T, T, T, a != a ? a : b != b ? b : c != c ? c : (a < b ? b : a) > c ? c : a < b ? b : a)
CLAMP(bool)
CLAMP(int64_t)
CLAMP(float)
CLAMP(double)

void k_clamp(rg_tensor *y, rg_tensor *const in[])
{
    static rg_loop *const by_dtype[] = { clamp_bool, clamp_int64_t, clamp_float, clamp_double };
    each_of_three(y, in, by_dtype[y->dtype], NULL);
}

/* ---- combining ----------------------------------------------------------------------- */

/* From the nearer end, so that weight 1 gives b exactly. */
#define LERP(T) LOOP_3(lerp_##T, T, T, T, fabs(c) < (T)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c))
LERP(float)
LERP(double)

void k_lerp(rg_tensor *y, rg_tensor *const in[])
{
    each_of_three(y, in, y->dtype == RG_FLOAT32 ? lerp_float : lerp_double, NULL);
}

LOOP_3(addcmul_int64, int64_t, int64_t, int64_t, k_wrap_add(a, k_wrap_mul(k[0], k_wrap_mul(b, c))))
LOOP_3(addcmul_float, float, float, float, a + k[0] * b * c)
LOOP_3(addcmul_double, double, double, double, a + k[0] * b * c)
LOOP_3(addcdiv_float, float, float, float, a + k[0] * b / c)
LOOP_3(addcdiv_double, double, double, double, a + k[0] * b / c)

void k_addcmul(rg_tensor *y, rg_tensor *const in[], double value)
{
    rg_loop *loop = y->dtype == RG_FLOAT32 ? addcmul_float : y->dtype == RG_FLOAT64 ? addcmul_double : addcmul_int64;
    each_of_three(y, in, loop, (double[3]){ value });
}

void k_addcdiv(rg_tensor *y, rg_tensor *const in[], double value)
{
    each_of_three(y, in, y->dtype == RG_FLOAT32 ? addcdiv_float : addcdiv_double, (double[3]){ value });
}
