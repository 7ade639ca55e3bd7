/*
 * as_dtype.c: torch's functions with dtype=, for reductions, running sums and softmax. Each of
 * them, such as rg_sum_as, converts x to the dtype, and then calls the function without _as, such
 * as rg_sum. The gradient is converted back to x's dtype.
 */
#include "autograd/checks.h"

/* ---- sums and products --------------------------------------------------------- */

/* Returns y converted to the dtype. y is a sum, product or running sum of x, which was converted to
 * the dtype before. Therefore y has the dtype already, unless the dtype is bool, whose sums are
 * integers. Fails if x requires grad and the dtype can't have a gradient. */
static rg_tensor *summed_as(const char *op, rg_tensor *x, rg_tensor *y, rg_dtype dtype) {
    if (!y)
        return NULL;
    return rgi_want_tracked(op, x, dtype) ? rg_to(y, dtype) : NULL;
}

rg_tensor *(rg_sum_as)(rg_tensor *x, rg_dtype dtype) {
    return RG_COMPOSITE("sum", summed_as("sum", x, rg_sum(rg_to(x, dtype)), dtype));
}

rg_tensor *(rg_sum_dim_as)(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("sum",
                        summed_as("sum", x, rg_sum_dim(rg_to(x, dtype), dim, keepdim), dtype));
}

rg_tensor *(rg_sum_dims_as)(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("sum",
                        summed_as("sum", x, rg_sum_dims(rg_to(x, dtype), dims, keepdim), dtype));
}

/* Returns x converted to the dtype. If the dtype has no NaN, NaNs in x are replaced by 0 before the
 * conversion. */
static rg_tensor *without_nan(rg_tensor *x, rg_dtype dtype) {
    if (rg_is_floating_point(x) && !rgi_is_float(dtype))
        x = rg_masked_fill(x, rg_isnan(x), 0);
    return rg_to(x, dtype);
}

rg_tensor *(rg_nansum_as)(rg_tensor *x, rg_dtype dtype) {
    return RG_COMPOSITE("nansum", summed_as("nansum", x, rg_nansum(without_nan(x, dtype)), dtype));
}

rg_tensor *(rg_nansum_dim_as)(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE(
        "nansum",
        summed_as("nansum", x, rg_nansum_dim(without_nan(x, dtype), dim, keepdim), dtype));
}

rg_tensor *(rg_nansum_dims_as)(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE(
        "nansum",
        summed_as("nansum", x, rg_nansum_dims(without_nan(x, dtype), dims, keepdim), dtype));
}

rg_tensor *(rg_prod_as)(rg_tensor *x, rg_dtype dtype) {
    return RG_COMPOSITE("prod", summed_as("prod", x, rg_prod(rg_to(x, dtype)), dtype));
}

rg_tensor *(rg_prod_dim_as)(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("prod",
                        summed_as("prod", x, rg_prod_dim(rg_to(x, dtype), dim, keepdim), dtype));
}

/* Returns x converted to the dtype. Fails if the dtype is bool, since no kernel computes running
 * sums of bools. As in torch, bool is allowed if x has no dims or no elements. */
static rg_tensor *running_as(const char *op, rg_tensor *x, int dim, rg_dtype dtype) {
    int wrapped;
    if (!rgi_check(x, op) || !rgi_wrap_dim(op, dim, x->ndim, &wrapped))
        return NULL;
    const bool computes = !rgi_is_bool(dtype) || !x->ndim || !x->numel;
    return rgi_want_dtype(op, computes, dtype) ? rg_to(x, dtype) : NULL;
}

rg_tensor *(rg_cumsum_as)(rg_tensor *x, int dim, rg_dtype dtype) {
    RG_AS("cumsum");
    RG_SCOPE();
    rg_tensor *y = rg_cumsum(running_as("cumsum", x, dim, dtype), dim);
    return rg_escape(summed_as("cumsum", x, y, dtype));
}

rg_tensor *(rg_cumprod_as)(rg_tensor *x, int dim, rg_dtype dtype) {
    RG_AS("cumprod");
    RG_SCOPE();
    rg_tensor *y = rg_cumprod(running_as("cumprod", x, dim, dtype), dim);
    return rg_escape(summed_as("cumprod", x, y, dtype));
}

/* ---- means: only of floating-point dtypes ------------------------------------ */

static rg_tensor *mean_as_dtype(rg_tensor *x, rg_dtype dtype) {
    if (!rgi_check(x, "mean") || !rgi_check_dtype("mean", (int)dtype))
        return NULL;
    RG_FAIL_IF(!rgi_is_float(dtype), "mean",
               "mean(): could not infer output dtype. Optional dtype must be either a floating "
               "point or complex dtype. Got: %s",
               rgi_scalar_name(dtype));
    return rg_to(x, dtype);
}

rg_tensor *(rg_mean_as)(rg_tensor *x, rg_dtype dtype) {
    return RG_COMPOSITE("mean", rg_mean(mean_as_dtype(x, dtype)));
}

rg_tensor *(rg_mean_dim_as)(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("mean", rg_mean_dim(mean_as_dtype(x, dtype), dim, keepdim));
}

rg_tensor *(rg_mean_dims_as)(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("mean", rg_mean_dims(mean_as_dtype(x, dtype), dims, keepdim));
}

/* ---- norms: they convert only to a floating-point dtype that keeps all digits of x ---- */

static rg_tensor *norm_as_dtype(rg_tensor *x, rg_dtype dtype) {
    if (!rgi_check(x, "norm") || !rgi_check_dtype("norm", (int)dtype))
        return NULL;
    if (!rgi_is_float(x->dtype))
        return x; /* The norm function, which gets x next, reports this error. */
    RG_FAIL_IF(!rgi_is_float(dtype), "norm",
               "linalg.vector_norm: dtype should be floating point or complex, but got %s",
               rgi_scalar_name(dtype));
    RG_FAIL_IF(rg_promote_types(x->dtype, dtype) != dtype, "norm",
               "linalg.vector_norm: the dtype of the input (%s) should be convertible without "
               "narrowing to the specified dtype (%s)",
               rgi_scalar_name(x->dtype), rgi_scalar_name(dtype));
    return rg_to(x, dtype);
}

rg_tensor *(rg_norm_as)(rg_tensor *x, rg_dtype dtype) {
    return RG_COMPOSITE("norm", rg_norm(norm_as_dtype(x, dtype)));
}

rg_tensor *(rg_norm_p_as)(rg_tensor *x, double p, rg_dtype dtype) {
    return RG_COMPOSITE("norm", rg_norm_p(norm_as_dtype(x, dtype), p));
}

rg_tensor *(rg_norm_dim_as)(rg_tensor *x, double p, int dim, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("norm", rg_norm_dim(norm_as_dtype(x, dtype), p, dim, keepdim));
}

rg_tensor *(rg_norm_dims_as)(rg_tensor *x, double p, rg_dims dims, bool keepdim, rg_dtype dtype) {
    return RG_COMPOSITE("norm", rg_norm_dims(norm_as_dtype(x, dtype), p, dims, keepdim));
}

/* ---- softmax, softmin and log_softmax; rg_softmax and rg_log_softmax refuse integers ---- */

rg_tensor *(rg_softmax_as)(rg_tensor *x, int dim, rg_dtype dtype) {
    return RG_COMPOSITE("softmax", rg_softmax(rg_to(x, dtype), dim));
}

rg_tensor *(rg_log_softmax_as)(rg_tensor *x, int dim, rg_dtype dtype) {
    return RG_COMPOSITE("log_softmax", rg_log_softmax(rg_to(x, dtype), dim));
}

rg_tensor *(rg_softmin_as)(rg_tensor *x, int dim, rg_dtype dtype) {
    return RG_COMPOSITE("softmin", rg_softmax(rg_to(rg_neg(x), dtype), dim));
}
