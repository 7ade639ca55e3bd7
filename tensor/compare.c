/*
 * compare.c: compares two tensors: rg_equal and rg_allclose.
 */
#include "dtype.h"
#include "error.h"
#include "kernels/copy.h"
#include "shape.h"
#include "storage.h"
#include "text/digits.h"
#include "observer.h"
#include "walk.h"

#include <tgmath.h>

typedef struct compare_limits {
    double rtol, atol;
} compare_limits;

#define K_LOOPS "loops/close.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "kernels/sets.h"

/* Broadcasts a and b to each other, converts them to the dtype, and returns whether all their
 * elements are close (loops/close.h) within the limits. Returns false on failure. */
static bool compare_all(const char *op, rg_tensor *a, rg_tensor *b, rg_dtype dtype,
                        compare_limits limits) {
    static rg_loop *const loops[K_DTYPES] = K_BASE_ALL(close);
    dtype = rgi_widened(dtype);
    if (!rgi_may_do_once(op))
        return false;
    bool all = true;
    /* The loop writes its answer into this tensor. The tensor gets the broadcast shape with strides
     * of 0, so that all its elements share the memory of the bool `all`. */
    rg_tensor answer = RG_NUMBER(RG_BOOL, &all);
    if (!rgi_broadcast_shapes(op, a, b, &answer))
        return false;
    rgi_update_flags(&answer);
    rg_tensor *x = rgi_contiguous_copy(a, dtype);
    rg_tensor *y = rgi_contiguous_copy(b, dtype);
    if (x && y)
        rgi_each(3, (rg_tensor *[]){ &answer, x, y }, loops[dtype], &limits);
    rgi_release(x);
    rgi_release(y);
    return x && y && all;
}

bool(rg_equal)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "equal") || !rgi_check(b, "equal"))
        return false;
    rg_dtype dtype = (rg_dtype)rg_promote_types((rg_dtype)a->dtype, (rg_dtype)b->dtype);
    return rgi_same_shape(a, b) && compare_all("equal", a, b, dtype, (compare_limits){ 0, 0 });
}

bool(rg_allclose)(rg_tensor *a, rg_tensor *b, double rtol, double atol) {
    if (!rgi_check(a, "allclose") || !rgi_check(b, "allclose"))
        return false;
    RG_FAIL_IF(a->dtype != b->dtype, "allclose", "%s did not match %s", rgi_scalar_name(a->dtype),
               rgi_scalar_name(b->dtype));
    RG_FAIL_IF(!(rtol >= 0), "allclose", "rtol must be greater than or equal to zero, but got %s",
               rgi_number(rtol));
    RG_FAIL_IF(!(atol >= 0), "allclose", "atol must be greater than or equal to zero, but got %s",
               rgi_number(atol));
    rg_dtype dtype = a->dtype;
    if (rgi_is_bool(dtype))
        dtype = RG_FLOAT32;
    else if (rgi_is_integer(dtype) && (rtol > 0 || atol > 0))
        dtype = RG_FLOAT64;
    return compare_all("allclose", a, b, dtype, (compare_limits){ rtol, atol });
}
