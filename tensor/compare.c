/*
 * compare.c: whether two tensors are equal, or close.
 */
#include "internal.h"

#include <tgmath.h>

/* Where p[1] and p[2] differ, *(bool *)p[0] becomes false. */
#define COMPARE(name, T, same)                                                             \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context) { \
        const double *tolerance = context;                                                 \
        T rtol = (T)tolerance[0], atol = (T)tolerance[1];                                  \
        const char *pa = p[1], *pb = p[2];                                                 \
        bool all = true;                                                                   \
        for (int64_t i = 0; i < n; i++, pa += s[1], pb += s[2]) {                          \
            T a = *(const T *)pa, b = *(const T *)pb;                                      \
            if (!(same))                                                                   \
                all = false;                                                               \
        }                                                                                  \
        (void)rtol, (void)atol;                                                            \
        if (!all)                                                                          \
            *(bool *)p[0] = false;                                                         \
    }
#define COMPARE_CLOSE a == b || (isfinite(a - b) && fabs(a - b) <= atol + fabs(rtol * b))
COMPARE(compare_bool, bool, a == b)
COMPARE(compare_int64, int64_t, a == b)
COMPARE(compare_float, float, COMPARE_CLOSE)
COMPARE(compare_double, double, COMPARE_CLOSE)

/* Both as dtype, over the shape that they broadcast to. */
static bool compare_all(const char *op, rg_tensor *a, rg_tensor *b, rg_dtype dtype, double rtol,
                        double atol) {
    if (!rgi_may_do_once(op))
        return false;
    static rg_loop *const compare[] = RG_BY_DTYPE(compare);
    bool all = true;
    rg_tensor answer = RG_NUMBER(RG_BOOL, &all); /* all strides 0 */
    if (!rgi_broadcast_shapes(op, a, b, &answer))
        return false;
    rgi_update_flags(&answer);
    rg_tensor *x = rgi_contiguous_copy(a, dtype), *y = rgi_contiguous_copy(b, dtype);
    if (x && y)
        rgi_each(3, (rg_tensor *[]){ &answer, x, y }, compare[dtype], (double[]){ rtol, atol });
    rgi_release(x);
    rgi_release(y);
    return x && y && all;
}

bool rg_equal(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "equal") || !rgi_check(b, "equal"))
        return false;
    return rgi_same_shape(a, b)
           && compare_all("equal", a, b, (rg_dtype)rg_promote_types(a->dtype, b->dtype), 0, 0);
}

bool rg_allclose(rg_tensor *a, rg_tensor *b, double rtol, double atol) {
    if (!rgi_check(a, "allclose") || !rgi_check(b, "allclose"))
        return false;
    RG_FAIL_IF(a->dtype != b->dtype, "allclose", "%s did not match %s", rgi_scalar_name(a->dtype),
               rgi_scalar_name(b->dtype));
    RG_FAIL_IF(!(rtol >= 0), "allclose", "rtol must be greater than or equal to zero, but got %g",
               rtol);
    RG_FAIL_IF(!(atol >= 0), "allclose", "atol must be greater than or equal to zero, but got %g",
               atol);
    rg_dtype dtype = a->dtype;
    if (dtype == RG_BOOL)
        dtype = RG_FLOAT32;
    else if (!rgi_is_float(dtype) && (rtol > 0 || atol > 0))
        dtype = RG_FLOAT64;
    return compare_all("allclose", a, b, dtype, rtol, atol);
}
