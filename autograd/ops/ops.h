/*
 * ops.h: the manual of functions on tensors. Most functions take one line, with a formula. The file
 * lists every function that has a derivative, and related functions that have none, such as
 * comparisons, argmax and searchsorted.
 *
 *   element by element    one tensor, two that broadcast, three
 *   reductions            sums and means, extremes, norms, any and all; running sums along a dim
 *   products              matmul and its relatives, einsum
 *   shapes                views first, then copies
 *   indexing              Python's x[...], gather and scatter, sorting
 *   neural                softmax, norms, attention, dropout
 *   losses                mse_loss, cross_entropy and others
 *   in place              functions whose name ends in _
 *
 * Arithmetic and comparisons take a number in place of a tensor: rg_div(x, 8.0), rg_sub(1, p). The
 * macros that convert the number are in ops_macros.h. A dim may be negative: -1 is the last dim.
 * RG_NONE stands for an argument that is left out. A function that fails returns NULL, and
 * rg_error() says why. If the function returns a struct, the tensors in the struct are then NULL.
 *
 * The results have the same order of dims in memory as torch's results. Elementwise functions,
 * copies and the functions whose names end in _like keep the memory order of their input, without
 * gaps: the result of rg_sin(rg_T(x)) is transposed, so rg_view can't flatten it. rg_contiguous
 * returns the elements in row-major order. A leaf's gradient has the leaf's memory order. There are
 * four exceptions. Where torch has special rules (convolutions, pooling, batch_norm, group_norm,
 * rms_norm, pad, cat, stack and roll of images with channels last, indexing by tensors, nonzero,
 * kron, quantile, unique_dim), results here are contiguous. einsum may choose another memory order
 * where it multiplies by elements, and binary_cross_entropy_with_logits has its input's, where
 * torch has its target's. A result of operands of different dtypes may have another memory order if
 * one of them is expanded. A gradient that rg_grad returns may have another memory order than in
 * torch.
 *
 * This file is long because it lists every function, so that a reader looks in one place.
 */
#pragma once

#include "../../tensor/tensor.h"

#include <limits.h>
#include <math.h>

RG_PUBLIC_BEGIN

/* Each line is a row of the manual, with the formula in a column of its own. */
/* clang-format off */

/* ---- one tensor, element by element -------------------------------------------- */

rg_tensor *rg_neg(rg_tensor *x);                                /* -x */
rg_tensor *rg_abs(rg_tensor *x);                                /* |x| */
rg_tensor *rg_sign(rg_tensor *x);                               /* -1, 0 or 1 */
rg_tensor *rg_exp(rg_tensor *x);                                /* e^x */
rg_tensor *rg_exp2(rg_tensor *x);                               /* 2^x */
rg_tensor *rg_expm1(rg_tensor *x);                              /* e^x - 1 */
rg_tensor *rg_log(rg_tensor *x);                                /* ln x */
rg_tensor *rg_log1p(rg_tensor *x);                              /* ln(1 + x) */
rg_tensor *rg_log2(rg_tensor *x);                               /* ln x / ln 2 */
rg_tensor *rg_log10(rg_tensor *x);                              /* ln x / ln 10 */
rg_tensor *rg_sqrt(rg_tensor *x);                               /* x^(1/2) */
rg_tensor *rg_rsqrt(rg_tensor *x);                              /* x^(-1/2) */
rg_tensor *rg_square(rg_tensor *x);                             /* x^2 */
rg_tensor *rg_reciprocal(rg_tensor *x);                         /* 1 / x */
rg_tensor *rg_sin(rg_tensor *x);                                /* sin x */
rg_tensor *rg_cos(rg_tensor *x);                                /* cos x */
rg_tensor *rg_tan(rg_tensor *x);                                /* sin x / cos x */
rg_tensor *rg_sinh(rg_tensor *x);                               /* (e^x - e^-x) / 2 */
rg_tensor *rg_cosh(rg_tensor *x);                               /* (e^x + e^-x) / 2 */
rg_tensor *rg_tanh(rg_tensor *x);                               /* sinh x / cosh x */
rg_tensor *rg_asin(rg_tensor *x);                               /* y with sin y = x */
rg_tensor *rg_acos(rg_tensor *x);                               /* y with cos y = x */
rg_tensor *rg_atan(rg_tensor *x);                               /* y with tan y = x */
rg_tensor *rg_sigmoid(rg_tensor *x);                            /* 1 / (1 + e^-x) */
rg_tensor *rg_erf(rg_tensor *x);                                /* 2/sqrt(pi) integral_0^x e^-t^2 */
rg_tensor *rg_erfc(rg_tensor *x);                               /* 1 - erf x */
rg_tensor *rg_relu(rg_tensor *x);                               /* max(x, 0) */
rg_tensor *rg_relu6(rg_tensor *x);                              /* min(max(x, 0), 6) */
rg_tensor *rg_leaky_relu(rg_tensor *x, double negative_slope);  /* x > 0 ? x : slope x */
/* x > 0 ? x : weight x, where the weight has one element, or one for each channel (dim 1) */
rg_tensor *rg_prelu(rg_tensor *x, rg_tensor *weight);
rg_tensor *rg_elu(rg_tensor *x, double alpha);                  /* x > 0 ? x : alpha (e^x - 1) */
/* x > 0 ? x : alpha (e^(x / alpha) - 1) */
rg_tensor *rg_celu(rg_tensor *x, double alpha);
/* scale (x > 0 ? x : alpha (e^x - 1)), with scale = 1.0507.. and alpha = 1.6732.. */
rg_tensor *rg_selu(rg_tensor *x);
rg_tensor *rg_gelu(rg_tensor *x);                               /* x (1 + erf(x / sqrt 2)) / 2 */
/* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */
rg_tensor *rg_gelu_tanh(rg_tensor *x);
rg_tensor *rg_silu(rg_tensor *x);                               /* x sigmoid(x) */
rg_tensor *rg_mish(rg_tensor *x);                               /* x tanh(softplus(x)) */
/* ln(1 + e^(beta x)) / beta, but x where beta x > threshold */
rg_tensor *rg_softplus(rg_tensor *x, double beta, double threshold);
rg_tensor *rg_softsign(rg_tensor *x);                           /* x / (1 + |x|) */
rg_tensor *rg_hardtanh(rg_tensor *x, double min, double max);   /* min(max(x, min), max) */
rg_tensor *rg_hardswish(rg_tensor *x);                          /* x relu6(x + 3) / 6 */
rg_tensor *rg_hardsigmoid(rg_tensor *x);                        /* relu6(x + 3) / 6 */
rg_tensor *rg_logsigmoid(rg_tensor *x);                         /* ln sigmoid(x) */
rg_tensor *rg_hardshrink(rg_tensor *x, double lambd);           /* -lambd <= x <= lambd ? 0 : x */
/* x moved towards 0 by lambd, or 0 if |x| <= lambd */
rg_tensor *rg_softshrink(rg_tensor *x, double lambd);
rg_tensor *rg_tanhshrink(rg_tensor *x);                         /* x - tanh(x) */
/* x <= threshold ? value : x */
rg_tensor *rg_threshold(rg_tensor *x, double threshold, double value);
rg_tensor *rg_floor(rg_tensor *x);                              /* the largest integer <= x */
rg_tensor *rg_ceil(rg_tensor *x);                               /* the smallest integer >= x */
/* the nearest integer; of two integers that are equally near, the even one */
rg_tensor *rg_round(rg_tensor *x);
/* x rounded to a multiple of 10^-decimals */
rg_tensor *rg_round_decimals(rg_tensor *x, int decimals);
rg_tensor *rg_trunc(rg_tensor *x);                              /* x without its fraction */
rg_tensor *rg_frac(rg_tensor *x);                               /* x - trunc(x) */
rg_tensor *rg_isnan(rg_tensor *x);                              /* is x NaN? */
rg_tensor *rg_isinf(rg_tensor *x);                              /* is x infinite? */
rg_tensor *rg_isfinite(rg_tensor *x);                           /* is x neither NaN nor infinite? */
rg_tensor *rg_logical_not(rg_tensor *x);                        /* is x 0? */

/* rg_nan_to_num(x, .nan = 0) returns x with the number `nan` in place of each NaN, posinf in place
 * of infinity, and neginf in place of -infinity. If posinf is left out, it is the largest number of
 * x's dtype; if neginf is left out, it is the lowest. */
typedef struct RG_OPTIONS rg_nan_to_num_options {
    RG_BY_NAME;
    double nan    RG_DEFAULT(0);
    double posinf RG_DEFAULT(NAN);
    double neginf RG_DEFAULT(NAN);
} rg_nan_to_num_options;
rg_tensor *rg_nan_to_num_with(rg_tensor *x, rg_nan_to_num_options o);

/* ---- two tensors, element by element; they broadcast ---------------------------- */

rg_tensor *rg_add(rg_tensor *a, rg_tensor *b);                  /* a + b */
rg_tensor *rg_sub(rg_tensor *a, rg_tensor *b);                  /* a - b */
rg_tensor *rg_mul(rg_tensor *a, rg_tensor *b);                  /* a b */
rg_tensor *rg_div(rg_tensor *a, rg_tensor *b);                  /* a / b */
/* In the next two functions, the argument alpha must be a number. */
rg_tensor *rg_add_alpha(rg_tensor *a, rg_tensor *b, rg_tensor *alpha); /* a + alpha b */
rg_tensor *rg_sub_alpha(rg_tensor *a, rg_tensor *b, rg_tensor *alpha); /* a - alpha b */
rg_tensor *rg_div_floor(rg_tensor *a, rg_tensor *b);            /* floor(a / b) */
rg_tensor *rg_div_trunc(rg_tensor *a, rg_tensor *b);            /* trunc(a / b) */
rg_tensor *rg_floor_divide(rg_tensor *a, rg_tensor *b);         /* floor(a / b), no derivative */
rg_tensor *rg_remainder(rg_tensor *a, rg_tensor *b);            /* a - b floor(a / b) */
rg_tensor *rg_fmod(rg_tensor *a, rg_tensor *b);                 /* a - b trunc(a / b) */
rg_tensor *rg_pow(rg_tensor *a, rg_tensor *b);                  /* a^b */
rg_tensor *rg_atan2(rg_tensor *a, rg_tensor *b);                /* the angle of the point (b, a) */
rg_tensor *rg_xlogy(rg_tensor *a, rg_tensor *b);                /* a ln b; 0 where a is 0 */
rg_tensor *rg_logaddexp(rg_tensor *a, rg_tensor *b);            /* ln(e^a + e^b) */
rg_tensor *rg_logaddexp2(rg_tensor *a, rg_tensor *b);           /* log2(2^a + 2^b) */
rg_tensor *rg_maximum(rg_tensor *a, rg_tensor *b);              /* the larger; NaN if one is NaN */
rg_tensor *rg_minimum(rg_tensor *a, rg_tensor *b);              /* the smaller; NaN if one is NaN */
rg_tensor *rg_fmax(rg_tensor *a, rg_tensor *b);                 /* the larger; NaN if both are */
rg_tensor *rg_fmin(rg_tensor *a, rg_tensor *b);                 /* the smaller; NaN if both are */
rg_tensor *rg_eq(rg_tensor *a, rg_tensor *b);                   /* a == b */
rg_tensor *rg_ne(rg_tensor *a, rg_tensor *b);                   /* a != b */
rg_tensor *rg_lt(rg_tensor *a, rg_tensor *b);                   /* a < b */
rg_tensor *rg_le(rg_tensor *a, rg_tensor *b);                   /* a <= b */
rg_tensor *rg_gt(rg_tensor *a, rg_tensor *b);                   /* a > b */
rg_tensor *rg_ge(rg_tensor *a, rg_tensor *b);                   /* a >= b */
rg_tensor *rg_logical_and(rg_tensor *a, rg_tensor *b);          /* a and b */
rg_tensor *rg_logical_or(rg_tensor *a, rg_tensor *b);           /* a or b */
rg_tensor *rg_logical_xor(rg_tensor *a, rg_tensor *b);          /* a or b, not both */

/* ---- three tensors, element by element ------------------------------------------ */

rg_tensor *rg_where(rg_tensor *condition, rg_tensor *a, rg_tensor *b); /* condition ? a : b */
rg_tensor *rg_masked_fill(rg_tensor *x, rg_tensor *mask, rg_tensor *value); /* mask ? value : x */
/* min(max(x, min), max); one of the bounds may be RG_NONE. */
rg_tensor *rg_clamp(rg_tensor *x, rg_tensor *min, rg_tensor *max);
rg_tensor *rg_clamp_min(rg_tensor *x, rg_tensor *min);          /* max(x, min) */
rg_tensor *rg_clamp_max(rg_tensor *x, rg_tensor *max);          /* min(x, max) */
rg_tensor *rg_lerp(rg_tensor *a, rg_tensor *b, rg_tensor *weight); /* a + weight (b - a) */
rg_tensor *rg_addcmul(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value); /* x + value a b */
rg_tensor *rg_addcdiv(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value); /* x + value a / b */

/* ---- reductions -------------------------------------------------------------------
 * A function reduces all elements, one dim (_dim), or several dims (_dims), such as RG_DIMS(0, 2).
 * With keepdim the reduced dims stay, with size 1. An empty list of dims means all dims, with two
 * exceptions, as in torch. In rg_any_dims and rg_all_dims an empty list means no dim.
 * rg_logsumexp_dims without keepdim fails for an empty list, unless x has no dims or no
 * elements. */

/* A pair of results. On failure both fields are NULL. */
typedef struct rg_values_indices {
    rg_tensor *values, *indices;
} rg_values_indices;

rg_tensor *rg_sum(rg_tensor *x);                                /* sum(x) */
rg_tensor *rg_sum_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_sum_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_nansum(rg_tensor *x);                             /* sum(x) with NaN counted as 0 */
rg_tensor *rg_nansum_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_nansum_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_mean(rg_tensor *x);                               /* sum(x) / n */
rg_tensor *rg_mean_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_mean_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_prod(rg_tensor *x); /* the product of all x; floats are multiplied in float64 */
rg_tensor *rg_prod_dim(rg_tensor *x, int dim, bool keepdim);
/* amax and amin are max(x) and min(x). If several elements are equal to the extreme, each gets an
 * equal part of the gradient. */
rg_tensor *rg_amax(rg_tensor *x);
rg_tensor *rg_amax_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_amax_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_amin(rg_tensor *x);
rg_tensor *rg_amin_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_amin_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_max(rg_tensor *x);                                /* max(x) */
rg_values_indices rg_max_dim(rg_tensor *x, int dim, bool keepdim); /* max(x) and its index */
rg_tensor *rg_min(rg_tensor *x);                                /* min(x) */
rg_values_indices rg_min_dim(rg_tensor *x, int dim, bool keepdim); /* min(x) and its index */
/* the middle one of the sorted elements; of two in the middle, the smaller one */
rg_tensor *rg_median(rg_tensor *x);
rg_values_indices rg_median_dim(rg_tensor *x, int dim, bool keepdim);
/* the k-th smallest element, counted from 1, and its index */
rg_values_indices rg_kthvalue(rg_tensor *x, int64_t k, int dim, bool keepdim);
/* rg_quantile(x, 0.9, .dim = 1) returns the value below which a fraction q of the elements lie. It
 * returns such a value for each row along dim or, if no dim is given, for the flattened x. q is a
 * number, or a 1-d tensor of numbers; the size of that tensor becomes the first dim of the result.
 * If the quantile falls between two elements, `interpolation` says how it is computed from them:
 * "linear", "lower", "higher", "midpoint" or "nearest". */
typedef struct RG_OPTIONS rg_quantile_options {
    RG_BY_NAME;
    int64_t dim               RG_DEFAULT(INT_MIN);
    rg_flag keepdim              RG_DEFAULT(false);
    const char *interpolation RG_DEFAULT("linear");
} rg_quantile_options;
rg_tensor *rg_quantile_with(rg_tensor *x, rg_tensor *q, rg_quantile_options o);
rg_tensor *rg_argmax(rg_tensor *x);                             /* index of max(x) in flattened x */
rg_tensor *rg_argmax_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_argmin(rg_tensor *x);                             /* index of min(x) in flattened x */
rg_tensor *rg_argmin_dim(rg_tensor *x, int dim, bool keepdim);
/* var is sum((x - mean)^2) / max(0, n - correction), where n is the number of elements that are
 * reduced to one. std is the square root of var. rg_var and rg_std, which reduce all elements, use
 * a correction of 1. */
rg_tensor *rg_var(rg_tensor *x);
rg_tensor *rg_var_dim(rg_tensor *x, int dim, double correction, bool keepdim);
rg_tensor *rg_var_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim);
rg_tensor *rg_std(rg_tensor *x);
rg_tensor *rg_std_dim(rg_tensor *x, int dim, double correction, bool keepdim);
rg_tensor *rg_std_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim);
rg_tensor *rg_norm(rg_tensor *x);                               /* sum(x^2)^(1/2) */
/* sum(|x|^p)^(1/p); for p = 0 the number of x != 0, for inf max |x|, for -inf min |x| */
rg_tensor *rg_norm_p(rg_tensor *x, double p);
rg_tensor *rg_norm_dim(rg_tensor *x, double p, int dim, bool keepdim);
rg_tensor *rg_norm_dims(rg_tensor *x, double p, rg_dims dims, bool keepdim);
rg_tensor *rg_logsumexp(rg_tensor *x, int dim, bool keepdim);   /* ln sum(e^x) */
rg_tensor *rg_logsumexp_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_cumsum(rg_tensor *x, int dim);                    /* y_k = x_0 + .. + x_k */
/* y_k = x_0 * .. * x_k; floats are multiplied in float64 */
rg_tensor *rg_cumprod(rg_tensor *x, int dim);
rg_tensor *rg_logcumsumexp(rg_tensor *x, int dim);              /* y_k = ln(e^x_0 + .. + e^x_k) */
rg_tensor *rg_any(rg_tensor *x);                                /* is any x nonzero? */
rg_tensor *rg_any_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_any_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_all(rg_tensor *x);                                /* is every x nonzero? */
rg_tensor *rg_all_dim(rg_tensor *x, int dim, bool keepdim);
rg_tensor *rg_all_dims(rg_tensor *x, rg_dims dims, bool keepdim);
rg_tensor *rg_count_nonzero(rg_tensor *x);                      /* the number of x != 0 */
rg_tensor *rg_count_nonzero_dim(rg_tensor *x, int dim);
rg_tensor *rg_count_nonzero_dims(rg_tensor *x, rg_dims dims);

/* ---- reductions as another dtype --------------------------------------------------
 * These are torch's functions with dtype=. They convert x to the dtype, and then do the same as the
 * functions whose names lack _as. The gradient has x's dtype; it is computed in the other dtype and
 * converted once. (torch converts the gradient of cumsum and of cumprod first.) rg_softmax_as is
 * listed beside rg_softmax. */

rg_tensor *rg_sum_as(rg_tensor *x, rg_dtype dtype);
rg_tensor *rg_sum_dim_as(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype);
rg_tensor *rg_sum_dims_as(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype);
rg_tensor *rg_nansum_as(rg_tensor *x, rg_dtype dtype);
rg_tensor *rg_nansum_dim_as(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype);
rg_tensor *rg_nansum_dims_as(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype);
rg_tensor *rg_mean_as(rg_tensor *x, rg_dtype dtype);
rg_tensor *rg_mean_dim_as(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype);
rg_tensor *rg_mean_dims_as(rg_tensor *x, rg_dims dims, bool keepdim, rg_dtype dtype);
rg_tensor *rg_prod_as(rg_tensor *x, rg_dtype dtype);
rg_tensor *rg_prod_dim_as(rg_tensor *x, int dim, bool keepdim, rg_dtype dtype);
rg_tensor *rg_norm_as(rg_tensor *x, rg_dtype dtype);
rg_tensor *rg_norm_p_as(rg_tensor *x, double p, rg_dtype dtype);
rg_tensor *rg_norm_dim_as(rg_tensor *x, double p, int dim, bool keepdim, rg_dtype dtype);
rg_tensor *rg_norm_dims_as(rg_tensor *x, double p, rg_dims dims, bool keepdim, rg_dtype dtype);
rg_tensor *rg_cumsum_as(rg_tensor *x, int dim, rg_dtype dtype);
rg_tensor *rg_cumprod_as(rg_tensor *x, int dim, rg_dtype dtype);

/* ---- products ------------------------------------------------------------------ */

rg_tensor *rg_matmul(rg_tensor *a, rg_tensor *b);               /* a @ b, with any number of dims */
rg_tensor *rg_dot(rg_tensor *a, rg_tensor *b);                  /* (n) (n) -> () */
rg_tensor *rg_mv(rg_tensor *a, rg_tensor *b);                   /* (n,k) (k) -> (n) */
rg_tensor *rg_mm(rg_tensor *a, rg_tensor *b);                   /* (n,k) (k,m) -> (n,m) */
rg_tensor *rg_bmm(rg_tensor *a, rg_tensor *b);                  /* (b,n,k) (b,k,m) -> (b,n,m) */
rg_tensor *rg_outer(rg_tensor *a, rg_tensor *b);                /* (n) (m) -> (n,m) */
/* y[i * m + j] = a[i] b[j] along each dim, where m is b's size along that dim. A dim in which
 * neither a nor b has size 1 counts twice; fails if this makes more than 8 dims. */
rg_tensor *rg_kron(rg_tensor *a, rg_tensor *b);
/* rg_cdist(a, b, .p = 1) returns the distance sum_k(|a_ik - b_jk|^p)^(1/p) between each row i of a
 * and each row j of b. a and b are matrices, or batches of matrices that broadcast. If p is 2 and a
 * or b has more than 25 rows, the distances are computed from a matrix product, which is less exact
 * for rows that are close to each other. The compute_mode "use_mm_for_euclid_dist" chooses the
 * matrix product for any number of rows, and "donot_use_mm_for_euclid_dist" never chooses it. */
typedef struct RG_OPTIONS rg_cdist_options {
    RG_BY_NAME;
    double p                 RG_DEFAULT(2);
    const char *compute_mode RG_DEFAULT("use_mm_for_euclid_dist_if_necessary");
} rg_cdist_options;
rg_tensor *rg_cdist_with(rg_tensor *a, rg_tensor *b, rg_cdist_options o);
/* y[i, j] = sum over k of a[i, k] b[j, k], where i and j may stand for several dims, or for none */
rg_tensor *rg_inner(rg_tensor *a, rg_tensor *b);
/* rg_tensordot returns the sum of products over the last n dims of `a` and the first n dims of `b`.
 * rg_tensordot_dims sums over the dims of `a` that in_a lists and the dims of `b` that in_b
 * lists. */
rg_tensor *rg_tensordot(rg_tensor *a, rg_tensor *b, int n);
rg_tensor *rg_tensordot_dims(rg_tensor *a, rg_tensor *b, rg_dims in_a, rg_dims in_b);
/* beta c + alpha (a @ b); rg_addmm takes matrices, and rg_baddbmm batches of matrices */
rg_tensor *rg_addmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha);
rg_tensor *rg_baddbmm(rg_tensor *c, rg_tensor *a, rg_tensor *b, double beta, double alpha);
/* x weight^T + bias; bias may be RG_NONE. */
rg_tensor *rg_linear(rg_tensor *x, rg_tensor *weight, rg_tensor *bias);

/* ---- lists of tensors -------------------------------------------------------------
 * A program writes a list as RG_LIST(a, b, c). In C the list lives until the end of the block in
 * which it is written. In C++ the innermost RG_SCOPE owns the list's array, so that the list lives
 * until this scope ends. If the n tensors are already in an array v, the program writes
 * rg_list_of(n, v). (The literal (rg_list){ n, v } can't be passed to a macro: the preprocessor
 * would take its comma for one between two arguments.) A list that a function returns has n tensors
 * in v, and the innermost RG_SCOPE owns both the array and the tensors. If the function failed, n
 * is -1 and the first 64 elements of v are NULL. */

/* rg_einsum("ij,jk->ik", a, b) returns sum over j of a_ij b_jk. Each letter is the label of a
 * dim. */
rg_tensor *rg_einsum_list(const char *equation, rg_list operands);

/* ---- shapes: views ----------------------------------------------------------------
 * In a shape, one size may be -1: that size is computed from the number of elements and the other
 * sizes. In rg_expand, -1 keeps the size of x along that dim. */

rg_tensor *rg_view_dims(rg_tensor *x, rg_dims shape);           /* rg_view(x, 2, -1) */
rg_tensor *rg_view_as(rg_tensor *x, rg_tensor *other);
/* rg_reshape(x, 2, -1): a view, or a copy if x's strides allow no view */
rg_tensor *rg_reshape_dims(rg_tensor *x, rg_dims shape);
rg_tensor *rg_reshape_as(rg_tensor *x, rg_tensor *other);
rg_tensor *rg_flatten(rg_tensor *x, int start_dim, int end_dim); /* joins a range of dims */
rg_tensor *rg_unflatten(rg_tensor *x, int dim, rg_dims sizes);  /* cuts one dim into several */
rg_tensor *rg_transpose(rg_tensor *x, int dim0, int dim1);      /* exchanges two dims */
rg_tensor *rg_T(rg_tensor *x);                                  /* x.T: all dims in reverse order */
rg_tensor *rg_t(rg_tensor *x);                                  /* x.t(): a matrix transposed */
/* x.mT: the last two dims exchanged */
rg_tensor *rg_mT(rg_tensor *x);
rg_tensor *rg_permute_dims(rg_tensor *x, rg_dims dims);         /* rg_permute(x, 1, 0) */
rg_tensor *rg_movedim(rg_tensor *x, int source, int destination);
rg_tensor *rg_movedim_dims(rg_tensor *x, rg_dims source, rg_dims destination);
rg_tensor *rg_squeeze(rg_tensor *x);                            /* drops dims of size 1 */
rg_tensor *rg_squeeze_dim(rg_tensor *x, int dim);
rg_tensor *rg_squeeze_dims(rg_tensor *x, rg_dims dims);
rg_tensor *rg_unsqueeze(rg_tensor *x, int dim);                 /* adds a dim of size 1 */
rg_tensor *rg_expand_dims(rg_tensor *x, rg_dims shape);         /* rg_expand(x, 4, -1) */
rg_tensor *rg_expand_as(rg_tensor *x, rg_tensor *other);
/* x[start:start + length] along dim */
rg_tensor *rg_narrow(rg_tensor *x, int dim, int64_t start, int64_t length);
rg_tensor *rg_select(rg_tensor *x, int dim, int64_t index);     /* x[index] along dim */
/* x[start:end:step] along dim */
rg_tensor *rg_slice(rg_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
/* a diagonal: the elements whose index is i along dim1 and i + offset along dim2, for all i. The
 * view has the diagonal as its last dim, in place of dim1 and dim2. */
rg_tensor *rg_diagonal(rg_tensor *x, int64_t offset, int dim1, int dim2);
/* y[.., w, .., i] = x[.., w * step + i, ..]: windows of `size` elements along dim. Each window
 * begins `step` elements after the previous one. */
rg_tensor *rg_unfold(rg_tensor *x, int dim, int64_t size, int64_t step);
rg_list    rg_split(rg_tensor *x, int64_t size, int dim);       /* the last part may be smaller */
rg_list    rg_split_sizes(rg_tensor *x, int n, const int64_t *sizes, int dim);
rg_list    rg_chunk(rg_tensor *x, int64_t chunks, int dim);     /* at most `chunks` parts */
rg_list    rg_unbind(rg_tensor *x, int dim);                    /* x[0], x[1], .. */

/* ---- shapes: copies ------------------------------------------------------------ */

rg_tensor *rg_cat(rg_list tensors, int dim);                    /* one after the other along dim */
rg_tensor *rg_stack(rg_list tensors, int dim);                  /* side by side along a new dim */
rg_tensor *rg_hstack(rg_list tensors);                          /* cat on dim 1; vectors on dim 0 */
rg_tensor *rg_vstack(rg_list tensors);                          /* cat on dim 0; vectors are rows */
rg_tensor *rg_repeat_dims(rg_tensor *x, rg_dims repeats);       /* rg_repeat(x, 2, 3) */
rg_tensor *rg_tile_dims(rg_tensor *x, rg_dims repeats);         /* rg_tile(x, 2, 3) */
rg_tensor *rg_flip_dims(rg_tensor *x, rg_dims dims);            /* rg_flip(x, 0) */
rg_tensor *rg_roll(rg_tensor *x, int64_t shift, int dim);       /* y_(i + shift) = x_i */
/* If dims is empty, the flattened x is rolled. */
rg_tensor *rg_roll_dims(rg_tensor *x, rg_dims shifts, rg_dims dims);
rg_tensor *rg_tril(rg_tensor *x, int64_t diagonal);             /* x, but 0 above a diagonal */
rg_tensor *rg_triu(rg_tensor *x, int64_t diagonal);             /* x, but 0 below a diagonal */
/* for a vector x, the matrix with x on its diagonal; for a matrix x, its diagonal */
rg_tensor *rg_diag(rg_tensor *x, int64_t diagonal);
rg_tensor *rg_trace(rg_tensor *x);                              /* sum x_ii */
/* zeros, with x's last dim along a diagonal of the result's dims dim1 and dim2 */
rg_tensor *rg_diag_embed(rg_tensor *x, int64_t offset, int dim1, int dim2);

/* rg_repeat_interleave(x, 2, .dim = 0) returns x with each slice along dim repeated. If no dim is
 * given, each element of the flattened x is repeated. `repeats` is a number, or a tensor with a
 * number for each slice. A caller who knows the result's size along dim may pass it as output_size;
 * the call fails if the result has another size. */
typedef struct RG_OPTIONS rg_repeat_interleave_options {
    RG_BY_NAME;
    int64_t dim         RG_DEFAULT(INT_MIN);
    int64_t output_size RG_DEFAULT(-1);
} rg_repeat_interleave_options;
rg_tensor *rg_repeat_interleave_with(rg_tensor *x, rg_tensor *repeats,
                                     rg_repeat_interleave_options o);

/* rg_meshgrid(RG_LIST(a, b)) returns each vector expanded to the grid that all the vectors span.
 * The first vector varies along dim 0 of the grid, and the second along dim 1. With .indexing =
 * "xy" the first varies along dim 1, and the second along dim 0. */
typedef struct RG_OPTIONS rg_meshgrid_options {
    RG_BY_NAME;
    const char *indexing RG_DEFAULT("ij");
} rg_meshgrid_options;
rg_list    rg_meshgrid_with(rg_list tensors, rg_meshgrid_options o);

typedef enum rg_pad_mode { RG_CONSTANT, RG_REFLECT, RG_REPLICATE, RG_CIRCULAR } rg_pad_mode;
/* rg_pad(x, left, right, top, bottom) adds zeros before and after the elements of the last two
 * dims: each pair of numbers is for one dim, beginning with the last dim. A negative number removes
 * elements. rg_pad_with also takes a mode; `value` is the number that RG_CONSTANT gives to the new
 * elements. */
rg_tensor *rg_pad_with(rg_tensor *x, rg_dims padding, rg_pad_mode mode, double value);
rg_tensor *rg_contiguous(rg_tensor *x);                         /* x if contiguous, else a copy */
rg_tensor *rg_clone(rg_tensor *x);
rg_tensor *rg_to(rg_tensor *x, rg_dtype dtype);                 /* rg_float(x), rg_double(x), .. */

/* ---- Python's index syntax --------------------------------------------------------
 * x[1:3, None, -1] is rg_index(x, "1:3, None, -1"), x[i] is rg_index(x, i), x[:, mask] is
 * rg_index(x, ":", mask), and x[i] = value is rg_set_item_(x, value, i). Each item is a number, a
 * bool, a tensor (int64 or a bool mask), RG_SLICE(start, end) or RG_SLICE(start, end, step), or a
 * string of one or more items in Python's syntax. A call takes at most 16 items, of which a string
 * counts as one. After each string is replaced by the items in it, there may be at most 32. A list
 * of lists, such as "[[0], [1]]", is one index tensor. torch 2.13 still reads such a list as a
 * tuple of items, and warns that a later version will read it as one tensor. */

typedef enum rg_index_kind {
    RG_INDEX_TEXT, RG_INDEX_NUMBER, RG_INDEX_SLICE, RG_INDEX_TENSOR, RG_INDEX_BOOL
} rg_index_kind;

/* One item. `kind` says which of the other fields are in use. RG_INDEX_NUMBER keeps its number in
 * `start`, and RG_INDEX_BOOL keeps 0 or 1 there. */
typedef struct rg_item_index {
    rg_index_kind kind;
    const char *text;
    rg_tensor *tensor;
    int64_t start, end, step;
} rg_item_index;

rg_tensor *rg_index_items(rg_tensor *x, int n, const rg_item_index *items);
rg_tensor *rg_set_items_(rg_tensor *x, rg_tensor *value, int n, const rg_item_index *items);
rg_item_index rg_index_text(const char *text);
rg_item_index rg_index_number(int64_t number);
rg_item_index rg_index_unsigned(uint64_t number);
rg_item_index rg_index_tensor(rg_tensor *t);
rg_item_index rg_index_bool(bool b);
rg_item_index rg_index_slice(int64_t start, int64_t end, int64_t step);

/* ---- indexing ------------------------------------------------------------------ */

/* The results of rg_unique_full and rg_unique_dim. All fields are NULL if the function failed. */
typedef struct rg_unique_result {
    rg_tensor *values, *inverse, *counts;
} rg_unique_result;

/* along dim 0: y[i][j] = x[index[i][j]][j] */
rg_tensor *rg_gather(rg_tensor *x, int dim, rg_tensor *index);
/* along dim 0: y = x, then y[index[i][j]][j] = source[i][j]; source may also be a number */
rg_tensor *rg_scatter(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
/* along dim 0: y = x, then y[index[i][j]][j] += source[i][j] */
rg_tensor *rg_scatter_add(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
/* along dim 0: y[i] = x[index[i]] */
rg_tensor *rg_index_select(rg_tensor *x, int dim, rg_tensor *index);
/* along dim 0: y = x, then y[index[i]] += alpha source[i] */
rg_tensor *rg_index_add(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source, double alpha);
/* along dim 0: y = x, then y[index[i]] = value, where value is a number or a 0-d tensor */
rg_tensor *rg_index_fill(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *value);
/* along dim 0: y = x, then y[index[i]] = source[i] */
rg_tensor *rg_index_copy(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
/* rg_scatter_reduce(x, dim, index, source, "amax") returns y, which is x except for the elements
 * that index names. Along dim 0, y[k][j] is the "sum", "prod", "mean", "amax" or "amin" of x[k][j]
 * and of all source[i][j] for which index[i][j] is k. With .include_self = false, x[k][j] is left
 * out of the reduction. */
typedef struct RG_OPTIONS rg_scatter_reduce_options {
    RG_BY_NAME;
    rg_flag include_self RG_DEFAULT(true);
} rg_scatter_reduce_options;
rg_tensor *rg_scatter_reduce_with(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                                  const char *reduce, rg_scatter_reduce_options o);
/* the elements of the flattened x at the indices */
rg_tensor *rg_take(rg_tensor *x, rg_tensor *index);
/* rg_gather of x and index, which are first broadcast along all dims but dim */
rg_tensor *rg_take_along_dim(rg_tensor *x, rg_tensor *index, int dim);
rg_tensor *rg_masked_select(rg_tensor *x, rg_tensor *mask);     /* x[mask] */
/* a row for each element of x that isn't 0, with the element's indices */
rg_tensor *rg_nonzero(rg_tensor *x);
/* the k largest elements along dim, or the k smallest if `largest` is false; and their indices. If
 * `sorted` is true, the largest (or smallest) comes first. */
rg_values_indices rg_topk(rg_tensor *x, int64_t k, int dim, bool largest, bool sorted);
/* x sorted along dim, and the index that each element had in x. Equal elements keep their order. */
rg_values_indices rg_sort(rg_tensor *x, int dim, bool descending);
rg_tensor *rg_argsort(rg_tensor *x, int dim, bool descending);  /* the indices of rg_sort */
rg_tensor *rg_unique(rg_tensor *x);                             /* distinct values, sorted */
/* the distinct values; for each element of x, the index of its value; how often each value
 * occurs */
rg_unique_result rg_unique_full(rg_tensor *x);
/* the same three tensors for the distinct slices along dim */
rg_unique_result rg_unique_dim(rg_tensor *x, int dim);
/* rg_searchsorted and rg_bucketize return, for each value, the index at which the value would be
 * inserted into a sorted row. The value is inserted after elements that equal it if `right` is
 * true, otherwise before them. rg_bucketize takes the values as its first argument. */
rg_tensor *rg_searchsorted(rg_tensor *sorted, rg_tensor *values, bool right);
/* rg_searchsorted(x, values, right, .sorter = rg_argsort(x, -1, false)) takes rows that aren't
 * sorted. `sorter` holds the indices that sort each row. */
typedef struct RG_OPTIONS rg_searchsorted_options {
    RG_BY_NAME;
    rg_tensor *sorter RG_DEFAULT(RG_NONE);
} rg_searchsorted_options;
rg_tensor *rg_searchsorted_with(rg_tensor *sorted, rg_tensor *values, bool right,
                                rg_searchsorted_options o);
rg_tensor *rg_bucketize(rg_tensor *values, rg_tensor *boundaries, bool right);
/* rg_bincount(x, .weights = w) returns, for each of the integers 0, 1, .., the number of times that
 * it occurs in the vector x. If weights are given, each of these numbers is replaced by a sum: the
 * weights of the elements that equal the integer. The result has at least minlength elements. */
typedef struct RG_OPTIONS rg_bincount_options {
    RG_BY_NAME;
    rg_tensor *weights RG_DEFAULT(RG_NONE);
    int64_t minlength  RG_DEFAULT(0);
} rg_bincount_options;
rg_tensor *rg_bincount_with(rg_tensor *x, rg_bincount_options o);
/* y[..][c] is 1 where c is index[..], else 0. A `classes` of -1 means max(index) + 1. */
rg_tensor *rg_one_hot(rg_tensor *index, int64_t classes);

/* rg_embedding(index, weight, .padding_idx = 0) returns weight[index]: a row of the table `weight`
 * for each index. The row at padding_idx gets no gradient. If max_norm isn't 0, each row that is
 * looked up and has a larger norm than max_norm is first scaled down to this norm, in the table
 * itself. norm_type is the order of the norm. With scale_grad_by_freq, a row's gradient is divided
 * by the number of times that the row occurs in index. */
typedef struct RG_OPTIONS rg_embedding_options {
    RG_BY_NAME;
    int64_t padding_idx     RG_DEFAULT(INT64_MIN);
    double max_norm         RG_DEFAULT(0);
    double norm_type        RG_DEFAULT(2);
    rg_flag scale_grad_by_freq RG_DEFAULT(false);
} rg_embedding_options;
rg_tensor *rg_embedding_with(rg_tensor *index, rg_tensor *weight, rg_embedding_options o);

/* ---- convolutions --------------------------------------------------------------- */

/* rg_conv2d(x, weight, bias, .stride = 2, .padding = 1) returns the convolution of x with weight,
 * plus bias. x is (batch, in, h, w) or (in, h, w), weight is (out, in / groups, kernel h, kernel
 * w), and bias is (out) or RG_NONE. rg_conv1d does the same over a single dim. */
typedef struct RG_OPTIONS rg_conv_options {
    RG_BY_NAME;
    int64_t stride    RG_DEFAULT(1);
    int64_t padding   RG_DEFAULT(0); /* zeros added at each end; RG_SAME keeps the size */
    /* the distance between neighbouring elements of the kernel, in elements of x */
    int64_t dilation  RG_DEFAULT(1);
    int64_t groups    RG_DEFAULT(1); /* the number of groups of channels */
    /* The plural fields have a number for each dim, such as .strides = RG_DIMS(2, 1). A field and
     * its plural can't both be given. */
    rg_dims strides   RG_DEFAULT({});
    rg_dims paddings  RG_DEFAULT({});
    rg_dims dilations RG_DEFAULT({});
} rg_conv_options;
/* Values of `padding` that mean torch's padding="same" and padding="valid". */
#define RG_SAME  INT64_MAX
#define RG_VALID (INT64_MAX - 1)
rg_tensor *rg_conv1d_with(rg_tensor *x, rg_tensor *weight, rg_tensor *bias, rg_conv_options o);
rg_tensor *rg_conv2d_with(rg_tensor *x, rg_tensor *weight, rg_tensor *bias, rg_conv_options o);

/* ---- pooling: rg_max_pool2d(x, 2), rg_avg_pool2d(x, RG_DIMS(3, 2), .stride = 1) ----
 * Windows slide over the last dim of x (pool1d), or over the last two dims (pool2d). x is (batch,
 * channels, h, w) or (channels, h, w); in pool1d, x lacks the last of these dims. A program calls
 * these functions without _with, and writes options by name. The argument `kernel` is the size of a
 * window: a number or RG_DIMS. */

#define RG_KERNEL   INT64_MIN /* A stride of RG_KERNEL is the kernel's size. */
#define RG_WINDOW   INT64_MIN /* A divisor of RG_WINDOW is the window's size (torch's None). */
#define RG_AS_IT_IS INT64_MIN /* An adaptive size of RG_AS_IT_IS is x's size (torch's None). */
typedef struct RG_OPTIONS rg_max_pool_options {
    RG_BY_NAME;
    int64_t stride    RG_DEFAULT(RG_KERNEL);
    /* the number of elements added at each end; they count as lower than all elements of x */
    int64_t padding   RG_DEFAULT(0);
    int64_t dilation  RG_DEFAULT(1);
    rg_flag ceil_mode    RG_DEFAULT(false); /* a last window may reach beyond the end */
    /* The plural fields have a number for each dim, as in rg_conv_options. */
    rg_dims strides   RG_DEFAULT({});
    rg_dims paddings  RG_DEFAULT({});
    rg_dims dilations RG_DEFAULT({});
} rg_max_pool_options;
rg_tensor *rg_max_pool1d_with(rg_tensor *x, rg_dims kernel, rg_max_pool_options o);
rg_tensor *rg_max_pool2d_with(rg_tensor *x, rg_dims kernel, rg_max_pool_options o);
/* Each index is the position of the maximum in its channel's plane, whose elements are numbered row
 * by row. All functions of max-pooling fail if a window contains no element of x, since it then has
 * no maximum. With dilation this can happen: a window may step from the padding before x to the
 * padding behind x. */
rg_values_indices rg_max_pool1d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o);
rg_values_indices rg_max_pool2d_with_indices_with(rg_tensor *x, rg_dims kernel,
                                                  rg_max_pool_options o);
typedef struct RG_OPTIONS rg_avg_pool_options {
    RG_BY_NAME;
    int64_t stride           RG_DEFAULT(RG_KERNEL);
    int64_t padding          RG_DEFAULT(0);
    rg_flag ceil_mode           RG_DEFAULT(false);
    rg_flag count_include_pad   RG_DEFAULT(true);
    /* the number by which each window's sum is divided */
    int64_t divisor_override RG_DEFAULT(RG_WINDOW);
    rg_dims strides          RG_DEFAULT({});
    rg_dims paddings         RG_DEFAULT({});
} rg_avg_pool_options;
rg_tensor *rg_avg_pool1d_with(rg_tensor *x, rg_dims kernel, rg_avg_pool_options o);
rg_tensor *rg_avg_pool2d_with(rg_tensor *x, rg_dims kernel, rg_avg_pool_options o);
/* Adaptive pooling returns a result of the given size. Along a dim of n elements, window i (0 <= i
 * < size) begins at element floor(i n / size) and ends before element ceil((i + 1) n / size). */
rg_tensor *rg_adaptive_avg_pool1d(rg_tensor *x, int64_t size);
rg_tensor *rg_adaptive_avg_pool2d_with(rg_tensor *x, rg_dims size);
rg_tensor *rg_adaptive_max_pool1d(rg_tensor *x, int64_t size);
rg_tensor *rg_adaptive_max_pool2d_with(rg_tensor *x, rg_dims size);
rg_values_indices rg_adaptive_max_pool1d_with_indices(rg_tensor *x, int64_t size);
rg_values_indices rg_adaptive_max_pool2d_with_indices_with(rg_tensor *x, rg_dims size);

/* ---- functions for neural networks --------------------------------------------- */

rg_tensor *rg_softmax(rg_tensor *x, int dim);                   /* e^x / sum(e^x) */
rg_tensor *rg_softmin(rg_tensor *x, int dim);                   /* e^-x / sum(e^-x) */
rg_tensor *rg_log_softmax(rg_tensor *x, int dim);               /* x - ln sum(e^x) */
/* The functions named _as convert x to the dtype first. The gradient has x's dtype. */
rg_tensor *rg_softmax_as(rg_tensor *x, int dim, rg_dtype dtype);
rg_tensor *rg_softmin_as(rg_tensor *x, int dim, rg_dtype dtype);
rg_tensor *rg_log_softmax_as(rg_tensor *x, int dim, rg_dtype dtype);
/* the first half of x along dim, times sigmoid(the second half) */
rg_tensor *rg_glu(rg_tensor *x, int dim);
/* Rotary positions: turns each pair (a, b) of elements of x into (a cos - b sin, b cos + a sin). x
 * is (.., length, dim). If `interleaved` is true, a pair is two neighbours, elements 2i and 2i + 1
 * of the last dim, as in GPT-J; otherwise it is elements i and i + dim / 2, as in Llama. cos and
 * sin have the cosines and sines of the pairs' angles: they are (length, dim / 2), or can be
 * expanded to the shape of x with half of its last dim. rg_rotary_frequencies
 * (nn/layers/positions.h) computes the angle by which one position turns each pair. */
rg_tensor *rg_rotary_embedding(rg_tensor *x, rg_tensor *cos, rg_tensor *sin, bool interleaved);
/* (x - mean) / sqrt(var + eps) * weight + bias. mean and var are over the last dims of x, whose
 * sizes must be normalized_shape. weight and bias may be RG_NONE. They have x's dtype or, in this
 * function and in the next two, may be float32 beside an x of 16 bits. */
rg_tensor *rg_layer_norm(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight, rg_tensor *bias,
                         double eps);
/* (x - mean) / sqrt(var + eps) * weight + bias; mean and var are those of one group of channels in
 * one element of the batch */
rg_tensor *rg_group_norm(rg_tensor *x, int64_t groups, rg_tensor *weight, rg_tensor *bias,
                         double eps);
/* rg_batch_norm(x, running_mean, running_var, .weight = w, .training = true) returns (x - mean) /
 * sqrt(var + eps) * weight + bias for each channel of x (batch, channels, ..). Without .training,
 * running_mean and running_var are used as mean and var. In training, mean and var are the mean and
 * variance of the batch. Then running_mean and running_var are updated, unless both are RG_NONE:
 * each becomes (1 - momentum) times itself plus momentum times the batch's value. For running_var,
 * this value is the variance with a correction of 1. */
typedef struct RG_OPTIONS rg_batch_norm_options {
    RG_BY_NAME;
    rg_tensor *weight RG_DEFAULT(RG_NONE);
    rg_tensor *bias   RG_DEFAULT(RG_NONE);
    rg_flag training     RG_DEFAULT(false);
    double momentum   RG_DEFAULT(0.1);
    double eps        RG_DEFAULT(1e-5);
} rg_batch_norm_options;
rg_tensor *rg_batch_norm_with(rg_tensor *x, rg_tensor *running_mean, rg_tensor *running_var,
                              rg_batch_norm_options o);
/* If the eps of rg_rms_norm is RG_OWN_EPS, the epsilon of x's dtype takes its place. RG_OWN_EPS is
 * torch's default, None. */
#define RG_OWN_EPS (-__builtin_inf())
/* x / sqrt(mean(x^2) + eps) * weight; the mean is over the last dims of x, whose sizes must be
 * normalized_shape */
rg_tensor *rg_rms_norm(rg_tensor *x, rg_dims normalized_shape, rg_tensor *weight, double eps);
rg_tensor *rg_normalize(rg_tensor *x, double p, int dim, double eps); /* x / max(norm(x), eps) */
/* sum(a b) / (max(norm(a), eps) max(norm(b), eps)) */
rg_tensor *rg_cosine_similarity(rg_tensor *a, rg_tensor *b, int dim, double eps);
/* norm_p(a - b + eps) along the last dim */
rg_tensor *rg_pairwise_distance(rg_tensor *a, rg_tensor *b, double p, double eps, bool keepdim);
/* rg_dropout(x, p, training) returns x times a random mask. An element of the mask is 0 with
 * probability p, and otherwise 1 / (1 - p). If training is false, returns x. */
rg_tensor *rg_dropout_with(rg_tensor *x, double p, bool training, rg_generator *g);
/* rg_bernoulli(p) returns a tensor of ones and zeros, where an element is 1 with the probability in
 * p. The gradient of p is 0. */
rg_tensor *rg_bernoulli_with(rg_tensor *p, rg_generator *g);

/* rg_scaled_dot_product_attention(q, k, v, .is_causal = true) returns softmax(scale q k^T + mask)
 * v. A mask of floats is added as in this formula. A bool mask is true where a query may attend to
 * a key. A scale of 0 means 1 / sqrt(size of q's last dim). With enable_gqa, k and v may have fewer
 * heads than q: each head of k and v is then used by several heads of q. */
typedef struct RG_OPTIONS rg_attention_options {
    RG_BY_NAME;
    rg_tensor *attn_mask RG_DEFAULT(RG_NONE);
    double dropout_p     RG_DEFAULT(0);
    rg_flag is_causal       RG_DEFAULT(false);
    double scale         RG_DEFAULT(0);
    rg_flag enable_gqa      RG_DEFAULT(false);
} rg_attention_options;
rg_tensor *rg_scaled_dot_product_attention_with(rg_tensor *q, rg_tensor *k, rg_tensor *v,
                                                rg_attention_options o);
/* rg_joint_attention returns the attention of q, k and v, which lie side by side in the last dim of
 * qkv, as one linear layer computes them. qkv is (batch, n, 3 * heads * size), and the result is
 * (batch, n, heads * size). torch has no such function. */
rg_tensor *rg_joint_attention(rg_tensor *qkv, int64_t heads, bool is_causal);

/* ---- recurrent layers, in one direction ------------------------------------------
 * Each function takes gates of shape (steps, batch, size of the gates): the result of rg_linear(x,
 * weight_ih, bias_ih) for all time steps. From these it computes the hidden state h of one time
 * step after the other, beginning with the last time step if `reverse`. rg_nn_lstm, rg_nn_gru and
 * rg_nn_rnn in nn/layers/recurrent.h call these functions. torch has no such functions. */

/* h and c of all time steps, each (steps, batch, hidden). Both are NULL on failure. */
typedef struct rg_hidden_cells {
    rg_tensor *h, *c;
} rg_hidden_cells;
/* i, f, g, o are the quarters of gates + h weight_hh^T. A time step replaces c by c' = sigmoid(f) c
 * + sigmoid(i) tanh(g), and h by h' = sigmoid(o) tanh(c'). h_0 has as many columns as weight_hh.
 * This number must be the hidden size, unless there is only one time step. (rg_nn_lstm's
 * proj_size needs the exception.) */
rg_hidden_cells rg_lstm_scan(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *h_0, rg_tensor *c_0,
                             bool reverse);
/* r, z, n are the thirds of the gates, and a, b, q the thirds of h weight_hh^T + bias_hh. A time
 * step replaces h by h' = (1 - u) tanh(n + sigmoid(r + a) q) + u h, where u = sigmoid(z + b).
 * bias_hh may be RG_NONE. */
rg_tensor *rg_gru_scan(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *bias_hh, rg_tensor *h_0,
                       bool reverse);
/* A time step replaces h by h' = tanh(gates + h weight_hh^T), or with relu in place of tanh if
 * `relu` is set. */
rg_tensor *rg_rnn_scan(rg_tensor *gates, rg_tensor *weight_hh, rg_tensor *h_0, bool relu,
                       bool reverse);

/* ---- losses: rg_mse_loss(x, t), rg_cross_entropy(x, t, .label_smoothing = 0.1) ----
 * A program calls these functions without _with, and writes options by name. */

/* RG_MEAN and RG_SUM return the mean or the sum of the losses that the function's formula gives. In
 * two cases the mean is a weighted one. The mean of nll_loss, and of cross_entropy with class
 * indices, is the sum divided by the sum of the targets' weights. The mean of mse_loss and l1_loss
 * with a weight is the sum divided by the sum of the weights. RG_EACH, torch's "none", returns all
 * the losses. RG_BATCHMEAN is the sum divided by the size of x's first dim, and only kl_div takes
 * it. Where the comment beside an option names losses, only these losses use the option. */
typedef enum rg_reduction { RG_MEAN, RG_SUM, RG_EACH, RG_BATCHMEAN } rg_reduction;
typedef struct RG_OPTIONS rg_loss_options {
    RG_BY_NAME;
    /* how the losses of the elements are reduced */
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    rg_tensor *weight      RG_DEFAULT(RG_NONE); /* a weight for each class or element */
    rg_tensor *pos_weight  RG_DEFAULT(RG_NONE); /* binary_cross_entropy_with_logits */
    int64_t ignore_index   RG_DEFAULT(-100);    /* nll, cross_entropy */
    double label_smoothing RG_DEFAULT(0);       /* cross_entropy */
    double beta            RG_DEFAULT(1);       /* smooth_l1 */
    double delta           RG_DEFAULT(1);       /* huber */
    rg_flag log_target        RG_DEFAULT(false);   /* kl_div */
} rg_loss_options;

/* (x - t)^2 */
rg_tensor *rg_mse_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
/* |x - t| */
rg_tensor *rg_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
/* with d = x - t, |d| < beta ? d^2 / (2 beta) : |d| - beta / 2 */
rg_tensor *rg_smooth_l1_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
/* with d = x - t, |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2) */
rg_tensor *rg_huber_loss_with(rg_tensor *x, rg_tensor *target, rg_loss_options o);
/* -weight[t] log_p[t] */
rg_tensor *rg_nll_loss_with(rg_tensor *log_p, rg_tensor *target, rg_loss_options o);
/* nll_loss of log_softmax(logits), for a target of class indices; -sum(t log_softmax(logits)) for a
 * target of probabilities */
rg_tensor *rg_cross_entropy_with(rg_tensor *logits, rg_tensor *target, rg_loss_options o);
/* -weight (t ln p + (1 - t) ln(1 - p)) */
rg_tensor *rg_binary_cross_entropy_with(rg_tensor *p, rg_tensor *target, rg_loss_options o);
/* binary_cross_entropy of sigmoid(logits) */
rg_tensor *rg_binary_cross_entropy_with_logits_with(rg_tensor *logits, rg_tensor *target,
                                                    rg_loss_options o);
/* t (ln t - log_p), or e^t (t - log_p) for a target of logarithms */
rg_tensor *rg_kl_div_with(rg_tensor *log_p, rg_tensor *target, rg_loss_options o);

/* The losses below have structs of options of their own. In the first two, the target t is 1 or -1.
 * In cosine_embedding, t is 1 where a and b should be alike. In margin_ranking, t is 1 where a
 * should be larger than b. */
typedef struct RG_OPTIONS rg_margin_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    double margin          RG_DEFAULT(0);
} rg_margin_options;
/* t == 1 ? 1 - c : t == -1 ? max(c - margin, 0) : 0, where c is the cosine of the angle between a
 * and b */
rg_tensor *rg_cosine_embedding_loss_with(rg_tensor *a, rg_tensor *b, rg_tensor *target,
                                         rg_margin_options o);
/* max(-t (a - b) + margin, 0) */
rg_tensor *rg_margin_ranking_loss_with(rg_tensor *a, rg_tensor *b, rg_tensor *target,
                                       rg_margin_options o);
typedef struct RG_OPTIONS rg_hinge_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    double margin          RG_DEFAULT(1);
} rg_hinge_options;
/* t == 1 ? x : max(margin - x, 0), where x is a distance and t is 1 or -1 */
rg_tensor *rg_hinge_embedding_loss_with(rg_tensor *x, rg_tensor *target, rg_hinge_options o);
typedef struct RG_OPTIONS rg_triplet_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    double margin          RG_DEFAULT(1);
    double p               RG_DEFAULT(2);     /* p of rg_pairwise_distance */
    double eps             RG_DEFAULT(1e-6);  /* eps of rg_pairwise_distance */
    /* uses d(positive, negative) in place of d(anchor, negative) if it is smaller */
    rg_flag swap              RG_DEFAULT(false);
} rg_triplet_options;
/* max(margin + d(anchor, positive) - d(anchor, negative), 0), where d is rg_pairwise_distance */
rg_tensor *rg_triplet_margin_loss_with(rg_tensor *anchor, rg_tensor *positive, rg_tensor *negative,
                                       rg_triplet_options o);
typedef struct RG_OPTIONS rg_gaussian_nll_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    rg_flag full              RG_DEFAULT(false); /* adds ln(2 pi) / 2 */
    double eps             RG_DEFAULT(1e-6);  /* a smaller variance counts as eps */
} rg_gaussian_nll_options;
/* (ln var + (x - t)^2 / var) / 2. var may be a number; a tensor var may lack x's last dim, or have
 * size 1 along one dim. */
rg_tensor *rg_gaussian_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_tensor *var,
                                     rg_gaussian_nll_options o);
typedef struct RG_OPTIONS rg_poisson_nll_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduction) reduction RG_DEFAULT(RG_MEAN);
    rg_flag log_input         RG_DEFAULT(true);  /* x is a logarithm */
    rg_flag full              RG_DEFAULT(false); /* adds Stirling's formula for ln t! where t > 1 */
    double eps             RG_DEFAULT(1e-8);  /* added to x in ln(x + eps) */
} rg_poisson_nll_options;
/* e^x - t x; or, without log_input, x - t ln(x + eps) */
rg_tensor *rg_poisson_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_poisson_nll_options o);

/* ---- in place: the first argument is changed and returned ----------------------
 * A write to a tensor with several elements at one address, such as the result of rg_expand or
 * rg_unfold, fails. torch allows some such writes, although their result can depend on the order in
 * which the elements are written. Here only rg_fill_ and rg_zero_ allow them, if the write isn't
 * recorded in a graph. */

/* x = source, broadcast to x's shape */
rg_tensor *rg_copy_(rg_tensor *x, rg_tensor *source);
rg_tensor *rg_fill_(rg_tensor *x, rg_tensor *value);
rg_tensor *rg_zero_(rg_tensor *x);
rg_tensor *rg_neg_(rg_tensor *x);
rg_tensor *rg_abs_(rg_tensor *x);
rg_tensor *rg_exp_(rg_tensor *x);
rg_tensor *rg_exp2_(rg_tensor *x);
rg_tensor *rg_expm1_(rg_tensor *x);
rg_tensor *rg_log_(rg_tensor *x);
rg_tensor *rg_log1p_(rg_tensor *x);
rg_tensor *rg_log2_(rg_tensor *x);
rg_tensor *rg_log10_(rg_tensor *x);
rg_tensor *rg_sqrt_(rg_tensor *x);
rg_tensor *rg_rsqrt_(rg_tensor *x);
rg_tensor *rg_square_(rg_tensor *x);
rg_tensor *rg_reciprocal_(rg_tensor *x);
rg_tensor *rg_sin_(rg_tensor *x);
rg_tensor *rg_cos_(rg_tensor *x);
rg_tensor *rg_tan_(rg_tensor *x);
rg_tensor *rg_sinh_(rg_tensor *x);
rg_tensor *rg_cosh_(rg_tensor *x);
rg_tensor *rg_tanh_(rg_tensor *x);
rg_tensor *rg_asin_(rg_tensor *x);
rg_tensor *rg_acos_(rg_tensor *x);
rg_tensor *rg_atan_(rg_tensor *x);
rg_tensor *rg_sigmoid_(rg_tensor *x);
rg_tensor *rg_erf_(rg_tensor *x);
rg_tensor *rg_erfc_(rg_tensor *x);
rg_tensor *rg_relu_(rg_tensor *x);
rg_tensor *rg_relu6_(rg_tensor *x);
rg_tensor *rg_leaky_relu_(rg_tensor *x, double negative_slope);
rg_tensor *rg_elu_(rg_tensor *x, double alpha);
rg_tensor *rg_celu_(rg_tensor *x, double alpha);
rg_tensor *rg_selu_(rg_tensor *x);
rg_tensor *rg_silu_(rg_tensor *x);
rg_tensor *rg_mish_(rg_tensor *x);
rg_tensor *rg_hardtanh_(rg_tensor *x, double min, double max);
rg_tensor *rg_threshold_(rg_tensor *x, double threshold, double value);
rg_tensor *rg_hardswish_(rg_tensor *x);
rg_tensor *rg_hardsigmoid_(rg_tensor *x);
rg_tensor *rg_floor_(rg_tensor *x);
rg_tensor *rg_ceil_(rg_tensor *x);
rg_tensor *rg_round_(rg_tensor *x);
rg_tensor *rg_trunc_(rg_tensor *x);
rg_tensor *rg_frac_(rg_tensor *x);
rg_tensor *rg_sign_(rg_tensor *x);
rg_tensor *rg_logical_not_(rg_tensor *x);
rg_tensor *rg_nan_to_num_with_(rg_tensor *x, rg_nan_to_num_options o); /* rg_nan_to_num_(x) */
rg_tensor *rg_add_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_sub_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_mul_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_div_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_floor_divide_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_remainder_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_fmod_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_pow_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_atan2_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_xlogy_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_eq_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_ne_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_lt_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_le_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_gt_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_ge_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_logical_and_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_logical_or_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_logical_xor_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_clamp_min_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_clamp_max_(rg_tensor *x, rg_tensor *b);
rg_tensor *rg_add_alpha_(rg_tensor *x, rg_tensor *b, rg_tensor *alpha);
rg_tensor *rg_clamp_(rg_tensor *x, rg_tensor *min, rg_tensor *max);
rg_tensor *rg_lerp_(rg_tensor *x, rg_tensor *b, rg_tensor *weight);
rg_tensor *rg_addcmul_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);
rg_tensor *rg_addcdiv_(rg_tensor *x, rg_tensor *a, rg_tensor *b, double value);
rg_tensor *rg_masked_fill_(rg_tensor *x, rg_tensor *mask, rg_tensor *value);
rg_tensor *rg_scatter_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_scatter_add_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_index_fill_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *value);
rg_tensor *rg_index_copy_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source);
rg_tensor *rg_scatter_reduce_with_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source,
                                   const char *reduce, rg_scatter_reduce_options o);
rg_tensor *rg_index_add_(rg_tensor *x, int dim, rg_tensor *index, rg_tensor *source, double alpha);

/* clang-format on */

RG_PUBLIC_END

#include "ops_macros.h"
