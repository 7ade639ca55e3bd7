/*
 * dtype.c: the four element types: names, promotion, one element in and out.
 */
#include "internal.h"

#include <float.h>
#include <math.h>

static const struct {
    const char *name, *scalar, *in_c;
} dtypes[] = {
    [RG_BOOL] = { "torch.bool", "Bool", "bool" },
    [RG_INT64] = { "torch.int64", "Long", "long int" },
    [RG_FLOAT32] = { "torch.float32", "Float", "float" },
    [RG_FLOAT64] = { "torch.float64", "Double", "double" },
};

static _Atomic rg_dtype default_dtype = RG_FLOAT32;

static bool is_dtype(int d) { return d >= RG_BOOL && d <= RG_FLOAT64; }

bool rgi_check_dtype(const char *op, int dtype) {
    return is_dtype(dtype)
           || rgi_fail(RG_TYPE_ERROR, op, "argument 'dtype' must be an rg_dtype, not %d", dtype);
}

const char *rg_dtype_name(rg_dtype d) { return is_dtype(d) ? dtypes[d].name : "torch.?"; }
const char *rgi_scalar_name(rg_dtype d) { return is_dtype(d) ? dtypes[d].scalar : "?"; }
const char *rgi_c_name(rg_dtype d) { return is_dtype(d) ? dtypes[d].in_c : "?"; }

rg_dtype rg_default_dtype(void) { return default_dtype; }

bool rg_set_default_dtype(rg_dtype dtype) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, dtype != RG_FLOAT32 && dtype != RG_FLOAT64, "set_default_dtype",
                  "only floating-point types are supported as the default type");
    default_dtype = dtype;
    return true;
}

int rg_promote_types(rg_dtype a, rg_dtype b) {
    return !is_dtype(a) || !is_dtype(b) ? -1 : (int)RG_MAX(a, b);
}

/* torch's rule: tensors with dims decide; a 0-d tensor, and after it a wrapped
 * number, has a say only by being of a higher kind (bool < int < float) than
 * those before it. A wrapped float among integers gives the default dtype. */
rg_dtype rgi_promote(int n, rg_tensor *const t[]) {
    static const int kind[] = { [RG_BOOL] = 0, [RG_INT64] = 1, [RG_FLOAT32] = 2, [RG_FLOAT64] = 2 };
    int best[3] = { -1, -1, -1 }; /* with dims, 0-d, wrapped */
    /* the usual case */
    if (n == 2 && t[1]->flags & RG_WEAK && !(t[0]->flags & RG_WEAK) && rgi_is_float(t[0]->dtype))
        return t[0]->dtype;
    for (int i = 0; i < n; i++) {
        int rank = t[i]->flags & RG_WEAK ? 2 : t[i]->ndim == 0;
        int d = rank == 2 && rgi_is_float(t[i]->dtype) ? default_dtype : t[i]->dtype;
        if (d > best[rank])
            best[rank] = d;
    }
    int result = -1;
    for (int rank = 0; rank < 3; rank++)
        if (best[rank] >= 0 && (result < 0 || kind[best[rank]] > kind[result]))
            result = best[rank];
    return (rg_dtype)result;
}

int rg_result_type(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "result_type") || !rgi_check(b, "result_type"))
        return -1;
    return rgi_promote(2, (rg_tensor *[]){ a, b });
}

/* ---- one element ------------------------------------------------------------- */

double rgi_load_f64(const void *p, rg_dtype d) {
    switch (d) {
    case RG_BOOL: return *(const bool *)p;
    case RG_INT64: return (double)*(const int64_t *)p;
    case RG_FLOAT32: return *(const float *)p;
    default: return *(const double *)p;
    }
}

static void convert(void *to, rg_dtype to_dtype, const void *from, rg_dtype dtype) {
    rgi_copy_loop(to_dtype, dtype)((char *[]){ to, (char *)from }, (int64_t[]){ 0, 0 }, 1, NULL);
}

int64_t rgi_load_i64(const void *p, rg_dtype d) {
    int64_t v;
    if (d == RG_INT64)
        return *(const int64_t *)p; /* the usual case */
    convert(&v, RG_INT64, p, d);
    return v;
}

void rgi_store_f64(void *p, rg_dtype d, double v) { convert(p, d, &v, RG_FLOAT64); }
void rgi_store_i64(void *p, rg_dtype d, int64_t v) { convert(p, d, &v, RG_INT64); }

bool rgi_number_fits(const char *op, double v, rg_dtype dtype) {
    bool fits = dtype == RG_INT64 ? v >= -0x1p63 && v < 0x1p63
                                  : dtype != RG_FLOAT32 || !(fabs(v) > FLT_MAX) || isinf(v);
    return fits
           || rgi_fail(RG_RUNTIME_ERROR, op,
                       "value cannot be converted to type %s without overflow",
                       dtype == RG_INT64 ? "int64_t" : "float");
}
