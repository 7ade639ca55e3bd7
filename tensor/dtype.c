/*
 * dtype.c: the names of element types, promotion, and whether a number fits. The table of element
 * types is in dtype.h; kernels/element.c loads and stores one element.
 */
#include "dtype.h"
#include "structs.h"

static const struct dtype_names {
    const char *torch, *scalar, *cpp, *type;
} dtype_names[] = {
#define NAMES(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, with) \
    [RG_##NAME] = { "torch." torch, scalar, cpp, #type },
#define HALF_NAMES(NAME, suffix, type, kind, rank, limit, torch, scalar, cpp, with) \
    [RG_##NAME] = { "torch." torch, scalar, cpp, cpp },
    RG_LOOP_DTYPES(NAMES, ) RG_BYTE_DTYPES(NAMES, ) RG_HALF_DTYPES(HALF_NAMES, )
};

static _Atomic rg_dtype default_dtype = RG_FLOAT32;

static bool is_dtype(int d) { return d >= 0 && d < RG_DTYPE_COUNT; }

bool rgi_check_dtype(const char *op, int dtype) {
    return is_dtype(dtype)
           || rgi_fail(RG_TYPE_ERROR, op, "argument 'dtype' must be an rg_dtype, not %d", dtype);
}

const char *(rg_dtype_name)(rg_dtype d) { return is_dtype(d) ? dtype_names[d].torch : "torch.?"; }
const char *rgi_scalar_name(rg_dtype d) { return dtype_names[d].scalar; }
const char *rgi_c_name(rg_dtype d) { return dtype_names[d].cpp; }

rg_dtype rg_default_dtype(void) { return default_dtype; }

bool(rg_set_default_dtype)(rg_dtype dtype) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !is_dtype(dtype) || !rgi_is_float(dtype), "set_default_dtype",
                  "only floating-point types are supported as the default type");
    default_dtype = dtype;
    return true;
}

rg_dtype rgi_usual_dtype(rg_kind kind) {
    switch (kind) {
    case RG_BOOLEAN: return RG_BOOL;
    case RG_INTEGER: return RG_INT64;
    case RG_FLOATING: break;
    }
    return default_dtype;
}

/* ---- type promotion --------------------------------------------------------------- */

static int rank_of(rg_dtype d) {
#define RANK(NAME, suffix, type, kind, rank, ...) [RG_##NAME] = rank,
    static const uint8_t ranks[] = { RG_DTYPES(RANK, ) };
    return ranks[d];
}

RG_HOT int(rg_promote_types)(rg_dtype a, rg_dtype b) {
    if (!rgi_check_dtype("promote_types", a) || !rgi_check_dtype("promote_types", b))
        return rgi_failed_count();
    if (RG_UNLIKELY(rgi_is_half(a) && rgi_is_half(b) && a != b))
        return RG_FLOAT32;
    return rank_of(a) > rank_of(b) ? a : b;
}

/* Returns the dtype of a result, by torch's rules. There are three groups of operands: tensors with
 * dims, 0-d tensors, and plain numbers. Tensors with dims decide first. 0-d tensors change the
 * result only if their kind (bool, integer, float) is higher than the kind of the tensors with
 * dims. Plain numbers change it only if their kind is higher than the kinds of both other groups. A
 * plain float counts as the default dtype. */
RG_HOT rg_dtype rgi_promote(int n, rg_tensor *const t[]) {
    enum { WITH_DIMS, ZERO_D, WRAPPED, GROUPS };
    int best[GROUPS] = { -1, -1, -1 };
    /* A shortcut for the most common case: a float tensor and a plain number. */
    if (n == 2 && t[1]->flags & RG_WEAK && !(t[0]->flags & RG_WEAK) && rgi_is_float(t[0]->dtype))
        return t[0]->dtype;
    for (int i = 0; i < n; i++) {
        bool weak = t[i]->flags & RG_WEAK;
        int group = WRAPPED;
        if (!weak)
            group = t[i]->ndim ? WITH_DIMS : ZERO_D;
        rg_dtype d = weak && rgi_is_float(t[i]->dtype) ? default_dtype : t[i]->dtype;
        best[group] = best[group] < 0 ? d : rg_promote_types(d, (rg_dtype)best[group]);
    }
    int result = -1;
    for (int group = 0; group < GROUPS; group++) {
        int d = best[group];
        if (d >= 0 && (result < 0 || rgi_kind((rg_dtype)d) > rgi_kind((rg_dtype)result)))
            result = d;
    }
    return (rg_dtype)result;
}

int(rg_result_type)(rg_tensor *a, rg_tensor *b) {
    if (!rgi_check(a, "result_type") || !rgi_check(b, "result_type"))
        return rgi_failed_count();
    return rgi_promote(2, (rg_tensor *[]){ a, b });
}

/* ---- numbers that fit -------------------------------------------------------------- */

static bool want_fit(const char *op, bool fits, rg_dtype dtype) {
    return fits
           || rgi_fail(RG_RUNTIME_ERROR, op,
                       "value cannot be converted to type %s without overflow",
                       dtype_names[dtype].type);
}

bool rgi_number_fits(const char *op, double v, rg_dtype dtype) {
    const double limit = rgi_limit(dtype);
    bool fits = !(fabs(v) > limit) || isinf(v);
    if (rgi_is_byte(dtype))
        fits = v >= 0 && v <= limit - 1;
    else if (rgi_is_integer(dtype))
        fits = v >= -limit && v < limit;
    return want_fit(op, fits, dtype);
}

bool rgi_whole_fits(const char *op, int64_t v, rg_dtype dtype) {
    const int64_t size = rgi_is_byte(dtype) && v < 0 && v > INT64_MIN ? -v : v;
    const bool fits = rgi_is_integer(dtype) ? size == rgi_nearest_integer(size, dtype)
                                            : fabs((double)v) <= rgi_limit(dtype);
    return want_fit(op, fits, dtype);
}

bool rgi_lacks_dtype(const char *op, rg_dtype dtype) {
    rgi_fail(RG_NOT_IMPLEMENTED, op, "not implemented for '%s'", rgi_scalar_name(dtype));
    return false;
}
