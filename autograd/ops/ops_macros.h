/*
 * ops_macros.h: macros with which the functions of ops.h are called as in Python: with numbers
 * where a tensor is expected, variadic shapes, options by name, arguments that are evaluated from
 * left to right, and items in brackets. ops.h includes this file, and explains the functions.
 *
 * This file is long because the preprocessor has no loop: each function has a row of its own.
 */
#pragma once

#include "ops.h"

#ifdef __cplusplus
#include <initializer_list>
#endif
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- lists and variadic shapes ------------------------------------------------- */

static inline rg_list rg_list_of(int n, rg_tensor *const v[]) {
    rg_list list = { n, v };
    return list;
}

#ifndef __cplusplus
#define RG_LIST(...)                                                                              \
    (__extension__(rg_list){ (int)(sizeof((rg_tensor *[]){ __VA_ARGS__ }) / sizeof(rg_tensor *)), \
                             (rg_tensor *[]){ __VA_ARGS__ } })
#define RG_ARGUMENTS_(...) RG_LIST(__VA_ARGS__)
#endif

#define rg_einsum(equation, ...)   rg_einsum_list(equation, RG_ARGUMENTS_(__VA_ARGS__))
#define rg_view(x, ...)            rg_view_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_reshape(x, ...)         rg_reshape_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_permute(x, ...)         rg_permute_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_expand(x, ...)          rg_expand_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_repeat(x, ...)          rg_repeat_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_tile(x, ...)            rg_tile_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_flip(x, ...)            rg_flip_dims(x, RG_DIMS(__VA_ARGS__))
#define rg_pad(x, ...)             rg_pad_with(x, RG_DIMS(__VA_ARGS__), RG_CONSTANT, 0)
#define rg_float(x)                rg_to(x, RG_FLOAT32)
#define rg_double(x)               rg_to(x, RG_FLOAT64)
#define rg_long(x)                 rg_to(x, RG_INT64)
#define rg_byte(x)                 rg_to(x, RG_UINT8)
#define rg_bool(x)                 rg_to(x, RG_BOOL)
#define rg_dropout(x, p, training) rg_dropout_with(x, p, training, rg_default_generator())
#define rg_bernoulli(p)            rg_bernoulli_with(p, rg_default_generator())

/* ---- arguments from left to right: see tensor/arguments/arguments.h ------------------ */

#define rg_matmul(a, b)    RG_IN_ORDER_2(rg_matmul, __COUNTER__, a, b)
#define rg_mm(a, b)        RG_IN_ORDER_2(rg_mm, __COUNTER__, a, b)
#define rg_mv(a, b)        RG_IN_ORDER_2(rg_mv, __COUNTER__, a, b)
#define rg_bmm(a, b)       RG_IN_ORDER_2(rg_bmm, __COUNTER__, a, b)
#define rg_dot(a, b)       RG_IN_ORDER_2(rg_dot, __COUNTER__, a, b)
#define rg_outer(a, b)     RG_IN_ORDER_2(rg_outer, __COUNTER__, a, b)
#define rg_kron(a, b)      RG_IN_ORDER_2(rg_kron, __COUNTER__, a, b)
#define rg_inner(a, b)     RG_IN_ORDER_2(rg_inner, __COUNTER__, a, b)
#define rg_linear(x, w, b) RG_IN_ORDER_3(rg_linear, __COUNTER__, x, w, b)

/* ---- options by name ----------------------------------------------------------- */

#define RG_EMBEDDING_(...) \
    RG_KEYWORDS(rg_embedding_options, (.padding_idx = INT64_MIN, .norm_type = 2), __VA_ARGS__)
#define rg_embedding(index, weight, ...) \
    RG_IN_ORDER_2(rg_embedding_with, __COUNTER__, index, weight, RG_EMBEDDING_(__VA_ARGS__))
#define RG_NAN_TO_NUM_(...) \
    RG_KEYWORDS(rg_nan_to_num_options, (.posinf = NAN, .neginf = NAN), __VA_ARGS__)
#define rg_nan_to_num(x, ...)  rg_nan_to_num_with(x, RG_NAN_TO_NUM_(__VA_ARGS__))
#define rg_nan_to_num_(x, ...) rg_nan_to_num_with_(x, RG_NAN_TO_NUM_(__VA_ARGS__))
#define RG_SCATTER_REDUCE_(...) \
    RG_KEYWORDS(rg_scatter_reduce_options, (.include_self = true), __VA_ARGS__)
#define rg_scatter_reduce(x, dim, index, source, reduce, ...)                                 \
    RG_AROUND_3((rg_scatter_reduce_with), __COUNTER__, x, RG_INT(dim), index, source, reduce, \
                RG_SCATTER_REDUCE_(__VA_ARGS__))
#define rg_scatter_reduce_(x, dim, index, source, reduce, ...)                                 \
    RG_AROUND_3((rg_scatter_reduce_with_), __COUNTER__, x, RG_INT(dim), index, source, reduce, \
                RG_SCATTER_REDUCE_(__VA_ARGS__))
#define rg_quantile(x, q, ...)                                                                  \
    RG_IN_ORDER_2(rg_quantile_with, __COUNTER__, x, RG_WRAP(q),                                 \
                  RG_KEYWORDS(rg_quantile_options, (.dim = INT_MIN, .interpolation = "linear"), \
                              __VA_ARGS__))
#define rg_bincount(x, ...) \
    rg_bincount_with(x, RG_KEYWORDS(rg_bincount_options, (.weights = RG_NONE), __VA_ARGS__))
#define rg_searchsorted(sorted, value, right, ...)                                             \
    RG_IN_ORDER_2((rg_searchsorted_with), __COUNTER__, sorted, RG_WRAP(value), RG_FLAG(right), \
                  RG_KEYWORDS(rg_searchsorted_options, (.sorter = RG_NONE), __VA_ARGS__))
#define rg_cdist(a, b, ...)                                                                    \
    RG_IN_ORDER_2(rg_cdist_with, __COUNTER__, a, b,                                            \
                  RG_KEYWORDS(rg_cdist_options,                                                \
                              (.p = 2, .compute_mode = "use_mm_for_euclid_dist_if_necessary"), \
                              __VA_ARGS__))
#define rg_repeat_interleave(x, repeats, ...)                                                    \
    RG_IN_ORDER_2(rg_repeat_interleave_with, __COUNTER__, x, RG_WRAP(repeats),                   \
                  RG_KEYWORDS(rg_repeat_interleave_options, (.dim = INT_MIN, .output_size = -1), \
                              __VA_ARGS__))
#define rg_meshgrid(tensors, ...) \
    rg_meshgrid_with(tensors, RG_KEYWORDS(rg_meshgrid_options, (.indexing = "ij"), __VA_ARGS__))
#define rg_scaled_dot_product_attention(q, k, v, ...)                         \
    RG_IN_ORDER_3(rg_scaled_dot_product_attention_with, __COUNTER__, q, k, v, \
                  RG_KEYWORDS(rg_attention_options, (.attn_mask = RG_NONE), __VA_ARGS__))

#define RG_CONV_(...) \
    RG_KEYWORDS(rg_conv_options, (.stride = 1, .dilation = 1, .groups = 1), __VA_ARGS__)
#define rg_conv1d(x, w, b, ...) \
    RG_IN_ORDER_3(rg_conv1d_with, __COUNTER__, x, w, b, RG_CONV_(__VA_ARGS__))
#define rg_conv2d(x, w, b, ...) \
    RG_IN_ORDER_3(rg_conv2d_with, __COUNTER__, x, w, b, RG_CONV_(__VA_ARGS__))

/* RG_SIZES_ converts its argument, a number or RG_DIMS, to an rg_dims. In C++ it calls rg_sizes_of,
 * which has an overload for each of these two types. */
static inline rg_dims rg_sizes_of_dims(rg_dims d) { return d; }
static inline rg_dims rg_sizes_of_number(int64_t n) {
    rg_dims d = { 1, { n } };
    return d;
}
#ifdef __cplusplus
#define RG_SIZES_(k) rg_sizes_of(k)
#else
/* clang-format off */
#define RG_SIZES_(k)                                                         \
    ((void)RG_REQUIRE_OF_(RG_IS_SIZES_(k), RG_WHOLE_SIZES_),                 \
     _Generic((k), rg_dims: rg_sizes_of_dims, default: rg_sizes_of_number)(k))
/* clang-format on */
#define RG_IS_SIZES_(k) \
    (_Generic((k), rg_dims : 1, default : 0) || RG_BY_TYPE_(k, 0, 0, 1, 0, 1, 1, 0))
#endif

#define RG_MAX_POOL_(...) \
    RG_KEYWORDS(rg_max_pool_options, (.stride = RG_KERNEL, .dilation = 1), __VA_ARGS__)
#define RG_AVG_POOL_(...)                                                                        \
    RG_KEYWORDS(rg_avg_pool_options,                                                             \
                (.stride = RG_KERNEL, .count_include_pad = true, .divisor_override = RG_WINDOW), \
                __VA_ARGS__)
#define rg_max_pool1d(x, kernel, ...) \
    rg_max_pool1d_with(x, RG_SIZES_(kernel), RG_MAX_POOL_(__VA_ARGS__))
#define rg_max_pool2d(x, kernel, ...) \
    rg_max_pool2d_with(x, RG_SIZES_(kernel), RG_MAX_POOL_(__VA_ARGS__))
#define rg_max_pool1d_with_indices(x, kernel, ...) \
    rg_max_pool1d_with_indices_with(x, RG_SIZES_(kernel), RG_MAX_POOL_(__VA_ARGS__))
#define rg_max_pool2d_with_indices(x, kernel, ...) \
    rg_max_pool2d_with_indices_with(x, RG_SIZES_(kernel), RG_MAX_POOL_(__VA_ARGS__))
#define rg_avg_pool1d(x, kernel, ...) \
    rg_avg_pool1d_with(x, RG_SIZES_(kernel), RG_AVG_POOL_(__VA_ARGS__))
#define rg_avg_pool2d(x, kernel, ...) \
    rg_avg_pool2d_with(x, RG_SIZES_(kernel), RG_AVG_POOL_(__VA_ARGS__))
#define rg_adaptive_avg_pool2d(x, size) rg_adaptive_avg_pool2d_with(x, RG_SIZES_(size))
#define rg_adaptive_max_pool2d(x, size) rg_adaptive_max_pool2d_with(x, RG_SIZES_(size))
#define rg_adaptive_max_pool2d_with_indices(x, size) \
    rg_adaptive_max_pool2d_with_indices_with(x, RG_SIZES_(size))

#define rg_batch_norm(x, mean, var, ...)                                                          \
    RG_IN_ORDER_3(rg_batch_norm_with, __COUNTER__, x, mean, var,                                  \
                  RG_KEYWORDS(rg_batch_norm_options,                                              \
                              (.weight = RG_NONE, .bias = RG_NONE, .momentum = 0.1, .eps = 1e-5), \
                              __VA_ARGS__))

#define RG_LOSS_OPTIONS_(...)                                                                    \
    RG_KEYWORDS(                                                                                 \
        rg_loss_options,                                                                         \
        (.weight = RG_NONE, .pos_weight = RG_NONE, .ignore_index = -100, .beta = 1, .delta = 1), \
        __VA_ARGS__)
#define RG_LOSS_(f, x, t, ...) RG_IN_ORDER_2(f, __COUNTER__, x, t, RG_LOSS_OPTIONS_(__VA_ARGS__))

#define rg_mse_loss(x, t, ...)             RG_LOSS_(rg_mse_loss_with, x, t, __VA_ARGS__)
#define rg_l1_loss(x, t, ...)              RG_LOSS_(rg_l1_loss_with, x, t, __VA_ARGS__)
#define rg_smooth_l1_loss(x, t, ...)       RG_LOSS_(rg_smooth_l1_loss_with, x, t, __VA_ARGS__)
#define rg_huber_loss(x, t, ...)           RG_LOSS_(rg_huber_loss_with, x, t, __VA_ARGS__)
#define rg_nll_loss(x, t, ...)             RG_LOSS_(rg_nll_loss_with, x, t, __VA_ARGS__)
#define rg_cross_entropy(x, t, ...)        RG_LOSS_(rg_cross_entropy_with, x, t, __VA_ARGS__)
#define rg_binary_cross_entropy(x, t, ...) RG_LOSS_(rg_binary_cross_entropy_with, x, t, __VA_ARGS__)
#define rg_binary_cross_entropy_with_logits(x, t, ...) \
    RG_LOSS_(rg_binary_cross_entropy_with_logits_with, x, t, __VA_ARGS__)
#define rg_kl_div(x, t, ...) RG_LOSS_(rg_kl_div_with, x, t, __VA_ARGS__)

#define RG_MARGIN_(...) RG_KEYWORDS(rg_margin_options, (.margin = 0), __VA_ARGS__)
#define RG_HINGE_(...)  RG_KEYWORDS(rg_hinge_options, (.margin = 1), __VA_ARGS__)
#define RG_TRIPLET_(...) \
    RG_KEYWORDS(rg_triplet_options, (.margin = 1, .p = 2, .eps = 1e-6), __VA_ARGS__)
#define RG_GAUSSIAN_NLL_(...) RG_KEYWORDS(rg_gaussian_nll_options, (.eps = 1e-6), __VA_ARGS__)
#define RG_POISSON_NLL_(...) \
    RG_KEYWORDS(rg_poisson_nll_options, (.log_input = true, .eps = 1e-8), __VA_ARGS__)

#define rg_cosine_embedding_loss(a, b, t, ...) \
    RG_IN_ORDER_3(rg_cosine_embedding_loss_with, __COUNTER__, a, b, t, RG_MARGIN_(__VA_ARGS__))
#define rg_margin_ranking_loss(a, b, t, ...) \
    RG_IN_ORDER_3(rg_margin_ranking_loss_with, __COUNTER__, a, b, t, RG_MARGIN_(__VA_ARGS__))
#define rg_hinge_embedding_loss(x, t, ...) \
    RG_IN_ORDER_2(rg_hinge_embedding_loss_with, __COUNTER__, x, t, RG_HINGE_(__VA_ARGS__))
#define rg_triplet_margin_loss(a, p, n, ...) \
    RG_IN_ORDER_3(rg_triplet_margin_loss_with, __COUNTER__, a, p, n, RG_TRIPLET_(__VA_ARGS__))
#define rg_gaussian_nll_loss(x, t, var, ...)                                  \
    RG_IN_ORDER_3(rg_gaussian_nll_loss_with, __COUNTER__, x, t, RG_WRAP(var), \
                  RG_GAUSSIAN_NLL_(__VA_ARGS__))
#define rg_poisson_nll_loss(x, t, ...) \
    RG_IN_ORDER_2(rg_poisson_nll_loss_with, __COUNTER__, x, t, RG_POISSON_NLL_(__VA_ARGS__))

/* ---- numbers where a tensor is expected ---------------------------------------- */
#define rg_add(a, b)            RG_T2(rg_add, a, b)
#define rg_sub(a, b)            RG_T2(rg_sub, a, b)
#define rg_mul(a, b)            RG_T2(rg_mul, a, b)
#define rg_div(a, b)            RG_T2(rg_div, a, b)
#define rg_add_alpha(a, b, c)   RG_T3(rg_add_alpha, a, b, c)
#define rg_sub_alpha(a, b, c)   RG_T3(rg_sub_alpha, a, b, c)
#define rg_div_floor(a, b)      RG_T2(rg_div_floor, a, b)
#define rg_div_trunc(a, b)      RG_T2(rg_div_trunc, a, b)
#define rg_floor_divide(a, b)   RG_T2(rg_floor_divide, a, b)
#define rg_remainder(a, b)      RG_T2(rg_remainder, a, b)
#define rg_fmod(a, b)           RG_T2(rg_fmod, a, b)
#define rg_pow(a, b)            RG_T2(rg_pow, a, b)
#define rg_atan2(a, b)          RG_T2(rg_atan2, a, b)
#define rg_xlogy(a, b)          RG_T2(rg_xlogy, a, b)
#define rg_logaddexp(a, b)      RG_T2(rg_logaddexp, a, b)
#define rg_logaddexp2(a, b)     RG_T2(rg_logaddexp2, a, b)
#define rg_maximum(a, b)        RG_T2(rg_maximum, a, b)
#define rg_minimum(a, b)        RG_T2(rg_minimum, a, b)
#define rg_fmax(a, b)           RG_T2(rg_fmax, a, b)
#define rg_fmin(a, b)           RG_T2(rg_fmin, a, b)
#define rg_eq(a, b)             RG_T2(rg_eq, a, b)
#define rg_ne(a, b)             RG_T2(rg_ne, a, b)
#define rg_lt(a, b)             RG_T2(rg_lt, a, b)
#define rg_le(a, b)             RG_T2(rg_le, a, b)
#define rg_gt(a, b)             RG_T2(rg_gt, a, b)
#define rg_ge(a, b)             RG_T2(rg_ge, a, b)
#define rg_logical_and(a, b)    RG_T2(rg_logical_and, a, b)
#define rg_logical_or(a, b)     RG_T2(rg_logical_or, a, b)
#define rg_logical_xor(a, b)    RG_T2(rg_logical_xor, a, b)
#define rg_where(c, a, b)       RG_T3(rg_where, c, a, b)
#define rg_masked_fill(x, m, v) RG_T3(rg_masked_fill, x, m, v)
#define rg_clamp(x, a, b)       RG_T3(rg_clamp, x, a, b)
#define rg_clamp_min(x, a)      RG_T2(rg_clamp_min, x, a)
#define rg_clamp_max(x, a)      RG_T2(rg_clamp_max, x, a)
#define rg_lerp(a, b, w)        RG_T3(rg_lerp, a, b, w)
#define rg_scatter(x, dim, index, source) \
    RG_AROUND_3(rg_scatter, __COUNTER__, x, RG_INT(dim), index, RG_WRAP(source))
#define rg_index_fill(x, dim, index, v) \
    RG_AROUND_3(rg_index_fill, __COUNTER__, x, RG_INT(dim), index, RG_WRAP(v))
#define rg_bucketize(value, bounds, right) \
    RG_IN_ORDER_2(rg_bucketize, __COUNTER__, RG_WRAP(value), bounds, RG_FLAG(right))
#define rg_copy_(x, s)           RG_T2(rg_copy_, x, s)
#define rg_fill_(x, v)           RG_T2(rg_fill_, x, v)
#define rg_add_(x, b)            RG_T2(rg_add_, x, b)
#define rg_sub_(x, b)            RG_T2(rg_sub_, x, b)
#define rg_mul_(x, b)            RG_T2(rg_mul_, x, b)
#define rg_div_(x, b)            RG_T2(rg_div_, x, b)
#define rg_floor_divide_(x, b)   RG_T2(rg_floor_divide_, x, b)
#define rg_remainder_(x, b)      RG_T2(rg_remainder_, x, b)
#define rg_fmod_(x, b)           RG_T2(rg_fmod_, x, b)
#define rg_pow_(x, b)            RG_T2(rg_pow_, x, b)
#define rg_atan2_(x, b)          RG_T2(rg_atan2_, x, b)
#define rg_xlogy_(x, b)          RG_T2(rg_xlogy_, x, b)
#define rg_eq_(x, b)             RG_T2(rg_eq_, x, b)
#define rg_ne_(x, b)             RG_T2(rg_ne_, x, b)
#define rg_lt_(x, b)             RG_T2(rg_lt_, x, b)
#define rg_le_(x, b)             RG_T2(rg_le_, x, b)
#define rg_gt_(x, b)             RG_T2(rg_gt_, x, b)
#define rg_ge_(x, b)             RG_T2(rg_ge_, x, b)
#define rg_clamp_min_(x, b)      RG_T2(rg_clamp_min_, x, b)
#define rg_clamp_max_(x, b)      RG_T2(rg_clamp_max_, x, b)
#define rg_add_alpha_(x, b, c)   RG_T3(rg_add_alpha_, x, b, c)
#define rg_clamp_(x, a, b)       RG_T3(rg_clamp_, x, a, b)
#define rg_lerp_(x, b, w)        RG_T3(rg_lerp_, x, b, w)
#define rg_masked_fill_(x, m, v) RG_T3(rg_masked_fill_, x, m, v)
#define rg_scatter_(x, dim, index, source) \
    RG_AROUND_3(rg_scatter_, __COUNTER__, x, RG_INT(dim), index, RG_WRAP(source))
#define rg_index_fill_(x, dim, index, value) \
    RG_AROUND_3(rg_index_fill_, __COUNTER__, x, RG_INT(dim), index, RG_WRAP(value))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_leaky_relu(x, negative_slope)  rg_leaky_relu(x, RG_REAL(negative_slope))
#define rg_prelu(x, weight)               RG_IN_ORDER_2(rg_prelu, __COUNTER__, x, weight)
#define rg_elu(x, alpha)                  rg_elu(x, RG_REAL(alpha))
#define rg_celu(x, alpha)                 rg_celu(x, RG_REAL(alpha))
#define rg_softplus(x, beta, threshold)   rg_softplus(x, RG_REAL(beta), RG_REAL(threshold))
#define rg_hardtanh(x, min, max)          rg_hardtanh(x, RG_REAL(min), RG_REAL(max))
#define rg_hardshrink(x, lambd)           rg_hardshrink(x, RG_REAL(lambd))
#define rg_softshrink(x, lambd)           rg_softshrink(x, RG_REAL(lambd))
#define rg_threshold(x, threshold, value) rg_threshold(x, RG_REAL(threshold), RG_REAL(value))
#define rg_round_decimals(x, decimals)    rg_round_decimals(x, RG_INT(decimals))
#define rg_addcmul(x, a, b, value) RG_IN_ORDER_3(rg_addcmul, __COUNTER__, x, a, b, RG_REAL(value))
#define rg_addcdiv(x, a, b, value) RG_IN_ORDER_3(rg_addcdiv, __COUNTER__, x, a, b, RG_REAL(value))
#define rg_sum_dim(x, dim, keepdim)       rg_sum_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_sum_dims(x, ...)               rg_sum_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_nansum_dim(x, dim, keepdim)    rg_nansum_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_nansum_dims(x, ...) rg_nansum_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_mean_dim(x, dim, keepdim)      rg_mean_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_mean_dims(x, ...) rg_mean_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_prod_dim(x, dim, keepdim)      rg_prod_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_amax_dim(x, dim, keepdim)      rg_amax_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_amax_dims(x, ...) rg_amax_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_amin_dim(x, dim, keepdim)      rg_amin_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_amin_dims(x, ...) rg_amin_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_max_dim(x, dim, keepdim)       rg_max_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_min_dim(x, dim, keepdim)       rg_min_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_median_dim(x, dim, keepdim)    rg_median_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_kthvalue(x, k, dim, keepdim)   rg_kthvalue(x, RG_WHOLE(k), RG_INT(dim), RG_FLAG(keepdim))
#define rg_argmax_dim(x, dim, keepdim)    rg_argmax_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_argmin_dim(x, dim, keepdim)    rg_argmin_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_var_dim(x, dim, correction, keepdim) \
    rg_var_dim(x, RG_INT(dim), RG_REAL(correction), RG_FLAG(keepdim))
#define rg_var_dims(x, ...) rg_var_dims(x, RG_CHECKED_3(RG_ANY, RG_REAL, RG_FLAG, __VA_ARGS__))
#define rg_std_dim(x, dim, correction, keepdim) \
    rg_std_dim(x, RG_INT(dim), RG_REAL(correction), RG_FLAG(keepdim))
#define rg_std_dims(x, ...) rg_std_dims(x, RG_CHECKED_3(RG_ANY, RG_REAL, RG_FLAG, __VA_ARGS__))
#define rg_norm_p(x, p)                 rg_norm_p(x, RG_REAL(p))
#define rg_norm_dim(x, p, dim, keepdim) rg_norm_dim(x, RG_REAL(p), RG_INT(dim), RG_FLAG(keepdim))
#define rg_norm_dims(x, p, ...) \
    rg_norm_dims(x, RG_REAL(p), RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_logsumexp(x, dim, keepdim) rg_logsumexp(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_logsumexp_dims(x, ...) rg_logsumexp_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_cumsum(x, dim)             rg_cumsum(x, RG_INT(dim))
#define rg_cumprod(x, dim)            rg_cumprod(x, RG_INT(dim))
#define rg_logcumsumexp(x, dim)       rg_logcumsumexp(x, RG_INT(dim))
#define rg_any_dim(x, dim, keepdim)   rg_any_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_any_dims(x, ...)           rg_any_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_all_dim(x, dim, keepdim)   rg_all_dim(x, RG_INT(dim), RG_FLAG(keepdim))
#define rg_all_dims(x, ...)           rg_all_dims(x, RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_count_nonzero_dim(x, dim)  rg_count_nonzero_dim(x, RG_INT(dim))
#define rg_sum_as(x, dtype)           rg_sum_as(x, RG_A_DTYPE(dtype))
#define rg_sum_dim_as(x, dim, keepdim, dtype) \
    rg_sum_dim_as(x, RG_INT(dim), RG_FLAG(keepdim), RG_A_DTYPE(dtype))
#define rg_sum_dims_as(x, ...) \
    rg_sum_dims_as(x, RG_CHECKED_3(RG_ANY, RG_FLAG, RG_A_DTYPE, __VA_ARGS__))
#define rg_nansum_as(x, dtype) rg_nansum_as(x, RG_A_DTYPE(dtype))
#define rg_nansum_dim_as(x, dim, keepdim, dtype) \
    rg_nansum_dim_as(x, RG_INT(dim), RG_FLAG(keepdim), RG_A_DTYPE(dtype))
#define rg_nansum_dims_as(x, ...) \
    rg_nansum_dims_as(x, RG_CHECKED_3(RG_ANY, RG_FLAG, RG_A_DTYPE, __VA_ARGS__))
#define rg_mean_as(x, dtype) rg_mean_as(x, RG_A_DTYPE(dtype))
#define rg_mean_dim_as(x, dim, keepdim, dtype) \
    rg_mean_dim_as(x, RG_INT(dim), RG_FLAG(keepdim), RG_A_DTYPE(dtype))
#define rg_mean_dims_as(x, ...) \
    rg_mean_dims_as(x, RG_CHECKED_3(RG_ANY, RG_FLAG, RG_A_DTYPE, __VA_ARGS__))
#define rg_prod_as(x, dtype) rg_prod_as(x, RG_A_DTYPE(dtype))
#define rg_prod_dim_as(x, dim, keepdim, dtype) \
    rg_prod_dim_as(x, RG_INT(dim), RG_FLAG(keepdim), RG_A_DTYPE(dtype))
#define rg_norm_as(x, dtype)      rg_norm_as(x, RG_A_DTYPE(dtype))
#define rg_norm_p_as(x, p, dtype) rg_norm_p_as(x, RG_REAL(p), RG_A_DTYPE(dtype))
#define rg_norm_dim_as(x, p, dim, keepdim, dtype) \
    rg_norm_dim_as(x, RG_REAL(p), RG_INT(dim), RG_FLAG(keepdim), RG_A_DTYPE(dtype))
#define rg_norm_dims_as(x, p, ...) \
    rg_norm_dims_as(x, RG_REAL(p), RG_CHECKED_3(RG_ANY, RG_FLAG, RG_A_DTYPE, __VA_ARGS__))
#define rg_cumsum_as(x, dim, dtype)  rg_cumsum_as(x, RG_INT(dim), RG_A_DTYPE(dtype))
#define rg_cumprod_as(x, dim, dtype) rg_cumprod_as(x, RG_INT(dim), RG_A_DTYPE(dtype))
#define rg_tensordot(a, b, n)        RG_IN_ORDER_2(rg_tensordot, __COUNTER__, a, b, RG_INT(n))
#define rg_tensordot_dims(a, b, ...) \
    RG_IN_ORDER_2(rg_tensordot_dims, __COUNTER__, a, b, __VA_ARGS__)
#define rg_addmm(c, a, b, beta, alpha) \
    RG_IN_ORDER_3(rg_addmm, __COUNTER__, c, a, b, RG_REAL(beta), RG_REAL(alpha))
#define rg_baddbmm(c, a, b, beta, alpha) \
    RG_IN_ORDER_3(rg_baddbmm, __COUNTER__, c, a, b, RG_REAL(beta), RG_REAL(alpha))
#define rg_view_as(x, other)               RG_IN_ORDER_2(rg_view_as, __COUNTER__, x, other)
#define rg_reshape_as(x, other)            RG_IN_ORDER_2(rg_reshape_as, __COUNTER__, x, other)
#define rg_flatten(x, start_dim, end_dim)  rg_flatten(x, RG_INT(start_dim), RG_INT(end_dim))
#define rg_unflatten(x, dim, ...)          rg_unflatten(x, RG_INT(dim), __VA_ARGS__)
#define rg_transpose(x, dim0, dim1)        rg_transpose(x, RG_INT(dim0), RG_INT(dim1))
#define rg_movedim(x, source, destination) rg_movedim(x, RG_INT(source), RG_INT(destination))
#define rg_squeeze_dim(x, dim)             rg_squeeze_dim(x, RG_INT(dim))
#define rg_unsqueeze(x, dim)               rg_unsqueeze(x, RG_INT(dim))
#define rg_expand_as(x, other)             RG_IN_ORDER_2(rg_expand_as, __COUNTER__, x, other)
#define rg_narrow(x, dim, start, length) \
    rg_narrow(x, RG_INT(dim), RG_WHOLE(start), RG_WHOLE(length))
#define rg_select(x, dim, index) rg_select(x, RG_INT(dim), RG_WHOLE(index))
#define rg_slice(x, dim, start, end, step) \
    rg_slice(x, RG_INT(dim), RG_WHOLE(start), RG_WHOLE(end), RG_WHOLE(step))
#define rg_diagonal(x, offset, dim1, dim2) \
    rg_diagonal(x, RG_WHOLE(offset), RG_INT(dim1), RG_INT(dim2))
#define rg_unfold(x, dim, size, step) rg_unfold(x, RG_INT(dim), RG_WHOLE(size), RG_WHOLE(step))
#define rg_split(x, size, dim)        rg_split(x, RG_WHOLE(size), RG_INT(dim))
#define rg_split_sizes(x, n, ...) \
    rg_split_sizes(x, RG_INT(n), RG_CHECKED_2(RG_ANY, RG_INT, __VA_ARGS__))
#define rg_chunk(x, chunks, dim) rg_chunk(x, RG_WHOLE(chunks), RG_INT(dim))
#define rg_unbind(x, dim)        rg_unbind(x, RG_INT(dim))
#define rg_cat(...)              rg_cat(RG_CHECKED_2(RG_ANY, RG_INT, __VA_ARGS__))
#define rg_stack(...)            rg_stack(RG_CHECKED_2(RG_ANY, RG_INT, __VA_ARGS__))
#define rg_roll(x, shift, dim)   rg_roll(x, RG_WHOLE(shift), RG_INT(dim))
#define rg_tril(x, diagonal)     rg_tril(x, RG_WHOLE(diagonal))
#define rg_triu(x, diagonal)     rg_triu(x, RG_WHOLE(diagonal))
#define rg_diag(x, diagonal)     rg_diag(x, RG_WHOLE(diagonal))
#define rg_diag_embed(x, offset, dim1, dim2) \
    rg_diag_embed(x, RG_WHOLE(offset), RG_INT(dim1), RG_INT(dim2))
#define rg_pad_with(x, ...)       rg_pad_with(x, RG_CHECKED_3(RG_ANY, RG_ANY, RG_REAL, __VA_ARGS__))
#define rg_to(x, dtype)           rg_to(x, RG_A_DTYPE(dtype))
#define rg_index_items(x, n, ...) rg_index_items(x, RG_INT(n), __VA_ARGS__)
#define rg_set_items_(x, value, n, ...) \
    RG_IN_ORDER_2(rg_set_items_, __COUNTER__, x, value, RG_INT(n), __VA_ARGS__)
#define rg_index_number(number)   rg_index_number(RG_WHOLE(number))
#define rg_index_unsigned(number) rg_index_unsigned(RG_WHOLE(number))
#define rg_index_bool(b)          rg_index_bool(RG_FLAG(b))
#define rg_index_slice(start, end, step) \
    rg_index_slice(RG_WHOLE(start), RG_WHOLE(end), RG_WHOLE(step))
#define rg_layer_norm(x, shape, weight, bias, eps, ...) \
    RG_PASTE(RG_LAYER_NORM_, __VA_OPT__(SPLIT_))         \
    (x, shape, weight, bias, eps __VA_OPT__(, ) __VA_ARGS__)
#define RG_LAYER_NORM_(x, shape, weight, bias, eps) \
    RG_AROUND_3(rg_layer_norm, __COUNTER__, x, shape, weight, bias, RG_REAL(eps))
#define RG_LAYER_NORM_SPLIT_(...) (rg_layer_norm)(__VA_ARGS__)
#define rg_rms_norm(x, shape, weight, eps, ...) \
    RG_PASTE(RG_RMS_NORM_, __VA_OPT__(SPLIT_))   \
    (x, shape, weight, eps __VA_OPT__(, ) __VA_ARGS__)
#define RG_RMS_NORM_(x, shape, weight, eps) \
    RG_AROUND_2(rg_rms_norm, __COUNTER__, x, shape, weight, RG_REAL(eps))
#define RG_RMS_NORM_SPLIT_(...)   (rg_rms_norm)(__VA_ARGS__)
#define rg_gather(x, dim, index) RG_AROUND_2(rg_gather, __COUNTER__, x, RG_INT(dim), index)
#define rg_scatter_add(x, dim, index, source) \
    RG_AROUND_3(rg_scatter_add, __COUNTER__, x, RG_INT(dim), index, source)
#define rg_index_select(x, dim, index) \
    RG_AROUND_2(rg_index_select, __COUNTER__, x, RG_INT(dim), index)
#define rg_index_add(x, dim, index, source, alpha) \
    RG_AROUND_3(rg_index_add, __COUNTER__, x, RG_INT(dim), index, source, RG_REAL(alpha))
#define rg_index_copy(x, dim, index, source) \
    RG_AROUND_3(rg_index_copy, __COUNTER__, x, RG_INT(dim), index, source)
#define rg_scatter_reduce_with(x, dim, ...) rg_scatter_reduce_with(x, RG_INT(dim), __VA_ARGS__)
#define rg_take(x, index)                   RG_IN_ORDER_2(rg_take, __COUNTER__, x, index)
#define rg_take_along_dim(x, index, dim) \
    RG_IN_ORDER_2(rg_take_along_dim, __COUNTER__, x, index, RG_INT(dim))
#define rg_masked_select(x, mask) RG_IN_ORDER_2(rg_masked_select, __COUNTER__, x, mask)
#define rg_topk(x, k, dim, largest, sorted) \
    rg_topk(x, RG_WHOLE(k), RG_INT(dim), RG_FLAG(largest), RG_FLAG(sorted))
#define rg_sort(x, dim, descending)     rg_sort(x, RG_INT(dim), RG_FLAG(descending))
#define rg_argsort(x, dim, descending)  rg_argsort(x, RG_INT(dim), RG_FLAG(descending))
#define rg_unique_dim(x, dim)           rg_unique_dim(x, RG_INT(dim))
#define rg_one_hot(index, classes)      rg_one_hot(index, RG_WHOLE(classes))
#define rg_adaptive_avg_pool1d(x, size) rg_adaptive_avg_pool1d(x, RG_WHOLE(size))
#define rg_adaptive_max_pool1d(x, size) rg_adaptive_max_pool1d(x, RG_WHOLE(size))
#define rg_adaptive_max_pool1d_with_indices(x, size) \
    rg_adaptive_max_pool1d_with_indices(x, RG_WHOLE(size))
#define rg_searchsorted_with(sorted, values, right, ...) \
    rg_searchsorted_with(sorted, values, RG_FLAG(right), __VA_ARGS__)
#define rg_softmax(x, dim)               rg_softmax(x, RG_INT(dim))
#define rg_softmin(x, dim)               rg_softmin(x, RG_INT(dim))
#define rg_log_softmax(x, dim)           rg_log_softmax(x, RG_INT(dim))
#define rg_softmax_as(x, dim, dtype)     rg_softmax_as(x, RG_INT(dim), RG_A_DTYPE(dtype))
#define rg_softmin_as(x, dim, dtype)     rg_softmin_as(x, RG_INT(dim), RG_A_DTYPE(dtype))
#define rg_log_softmax_as(x, dim, dtype) rg_log_softmax_as(x, RG_INT(dim), RG_A_DTYPE(dtype))
#define rg_glu(x, dim)                   rg_glu(x, RG_INT(dim))
#define rg_rotary_embedding(x, cos, sin, interleaved) \
    RG_IN_ORDER_3(rg_rotary_embedding, __COUNTER__, x, cos, sin, RG_FLAG(interleaved))
#define rg_group_norm(x, groups, weight, bias, eps) \
    RG_AROUND_3(rg_group_norm, __COUNTER__, x, RG_WHOLE(groups), weight, bias, RG_REAL(eps))
#define rg_normalize(x, p, dim, eps) rg_normalize(x, RG_REAL(p), RG_INT(dim), RG_REAL(eps))
#define rg_cosine_similarity(a, b, dim, eps) \
    RG_IN_ORDER_2(rg_cosine_similarity, __COUNTER__, a, b, RG_INT(dim), RG_REAL(eps))
#define rg_pairwise_distance(a, b, p, eps, keepdim)                                  \
    RG_IN_ORDER_2(rg_pairwise_distance, __COUNTER__, a, b, RG_REAL(p), RG_REAL(eps), \
                  RG_FLAG(keepdim))
#define rg_dropout_with(x, p, training, g) rg_dropout_with(x, RG_REAL(p), RG_FLAG(training), g)
#define rg_joint_attention(qkv, heads, is_causal) \
    rg_joint_attention(qkv, RG_WHOLE(heads), RG_FLAG(is_causal))
#define rg_lstm_scan(gates, weight_hh, h_0, c_0, reverse) \
    RG_IN_ORDER_4(rg_lstm_scan, __COUNTER__, gates, weight_hh, h_0, c_0, RG_FLAG(reverse))
#define rg_gru_scan(gates, weight_hh, bias_hh, h_0, reverse) \
    RG_IN_ORDER_4(rg_gru_scan, __COUNTER__, gates, weight_hh, bias_hh, h_0, RG_FLAG(reverse))
#define rg_rnn_scan(gates, weight_hh, h_0, relu, reverse) \
    RG_IN_ORDER_3(rg_rnn_scan, __COUNTER__, gates, weight_hh, h_0, RG_FLAG(relu), RG_FLAG(reverse))
#define rg_leaky_relu_(x, negative_slope)  rg_leaky_relu_(x, RG_REAL(negative_slope))
#define rg_elu_(x, alpha)                  rg_elu_(x, RG_REAL(alpha))
#define rg_celu_(x, alpha)                 rg_celu_(x, RG_REAL(alpha))
#define rg_hardtanh_(x, min, max)          rg_hardtanh_(x, RG_REAL(min), RG_REAL(max))
#define rg_threshold_(x, threshold, value) rg_threshold_(x, RG_REAL(threshold), RG_REAL(value))
#define rg_logical_and_(x, b)              RG_IN_ORDER_2(rg_logical_and_, __COUNTER__, x, b)
#define rg_logical_or_(x, b)               RG_IN_ORDER_2(rg_logical_or_, __COUNTER__, x, b)
#define rg_logical_xor_(x, b)              RG_IN_ORDER_2(rg_logical_xor_, __COUNTER__, x, b)
#define rg_addcmul_(x, a, b, value) RG_IN_ORDER_3(rg_addcmul_, __COUNTER__, x, a, b, RG_REAL(value))
#define rg_addcdiv_(x, a, b, value) RG_IN_ORDER_3(rg_addcdiv_, __COUNTER__, x, a, b, RG_REAL(value))
#define rg_scatter_add_(x, dim, index, source) \
    RG_AROUND_3(rg_scatter_add_, __COUNTER__, x, RG_INT(dim), index, source)
#define rg_index_copy_(x, dim, index, source) \
    RG_AROUND_3(rg_index_copy_, __COUNTER__, x, RG_INT(dim), index, source)

#define rg_scatter_reduce_with_(x, dim, ...) rg_scatter_reduce_with_(x, RG_INT(dim), __VA_ARGS__)

#define rg_index_add_(x, dim, index, source, alpha) \
    RG_AROUND_3(rg_index_add_, __COUNTER__, x, RG_INT(dim), index, source, RG_REAL(alpha))

/* ---- items in brackets: rg_index(x, items...), rg_set_item_(x, value, items...) ----
 * The arguments are evaluated once each, from left to right. Each item becomes an rg_item_index. */

/* A slice of two numbers has step 1. The compiler refuses a slice of one number and a slice of
 * four, since rg_index_slice takes three. */
#define RG_SLICE(...)                                                                        \
    RG_SLICE_(__VA_ARGS__, RG_SLICE_ALL_, RG_SLICE_ALL_, RG_SLICE_ALL_, RG_SLICE_START_END_, \
              RG_SLICE_ALL_, )                                                               \
    (__VA_ARGS__)
#define RG_SLICE_(a, b, c, d, e, slice, ...) slice
#define RG_SLICE_START_END_(start, end)      rg_index_slice(start, end, 1)
#define RG_SLICE_ALL_(...)                   rg_index_slice(__VA_ARGS__)

static inline rg_item_index rg_index_item(rg_item_index i) { return i; }

/* RG_ITEM_(v) converts a value to an rg_item_index, according to the value's type. */
#define RG_ITEM_TYPES_ \
    "an item in brackets is a whole number, a tensor, a text, a bool or an RG_SLICE"
#define RG_ITEMS_MISSING_ "the items in brackets are missing: x[:] is rg_index(x, \":\")"
#ifndef __cplusplus
/* clang-format off */
#define RG_ITEM_BY_TYPE_(v, item, tensor, text, yes_no, whole, large, other)   \
    _Generic((v),                                                              \
        rg_item_index: item, const char *: text, char *: text,                 \
        default: RG_BY_TYPE_(v, tensor, tensor, yes_no, other, whole, large, other))
#define RG_ITEM_(v)                                                                           \
    ((void)RG_REQUIRE_OF_(RG_ITEM_BY_TYPE_(v, 1, 1, 1, 1, 1, 1, 0), RG_ITEM_TYPES_),          \
     RG_ITEM_BY_TYPE_(v, rg_index_item, rg_index_tensor, rg_index_text, rg_index_bool,        \
                      rg_index_number, rg_index_unsigned, rg_index_number)(v))
/* clang-format on */

/* RG_ITEMS_ declares an array, and expands to one RG_ITEM for each argument. RG_ITEM stores the
 * argument in the array. The preprocessor has no loop, so this is done by repeated expansion.
 * RG_ITEMS_OF writes the first item, and then the name RG_ITEMS_NEXT with the remaining arguments;
 * RG_NOTHING keeps this name from being expanded at once. RG_16_TIMES scans its argument again and
 * again, and each scan replaces one RG_ITEMS_NEXT by RG_ITEMS_OF. The number n makes the names of
 * the variables unique. */
#define RG_ITEM_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define RG_ITEM_COUNT(...) \
    RG_ITEM_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define RG_ITEM(n, item)                        \
    {                                           \
        __auto_type rg_v##n = (item);           \
        rg_i##n[rg_c##n++] = RG_ITEM_(rg_v##n); \
    }
#define RG_ITEMS_OF(n, item, ...) \
    RG_ITEM(n, item) __VA_OPT__(RG_ITEMS_NEXT RG_NOTHING()(n, __VA_ARGS__))
#define RG_ITEMS_NEXT() RG_ITEMS_OF
#define RG_NOTHING
#define RG_16_TIMES(...) RG_4_TIMES(RG_4_TIMES(RG_4_TIMES(RG_4_TIMES(__VA_ARGS__))))
#define RG_4_TIMES(...)  RG_ONCE(RG_ONCE(RG_ONCE(RG_ONCE(__VA_ARGS__))))
#define RG_ONCE(...)     __VA_ARGS__
#define RG_ITEMS_(n, count, ...)  \
    rg_item_index rg_i##n[count]; \
    int rg_c##n = 0;              \
    RG_16_TIMES(RG_ITEMS_OF(n, __VA_ARGS__))

#define RG_REQUIRE_ITEMS_(...) _Static_assert(0 __VA_OPT__(+1), RG_ITEMS_MISSING_)

#define rg_index(x, ...)     RG_INDEX_(__COUNTER__, x, __VA_ARGS__)
#define RG_INDEX_(n, x, ...) RG_INDEX__(n, x, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_INDEX__(n, x, count, ...)               \
    __extension__({                                \
        RG_REQUIRE_ITEMS_(__VA_ARGS__);            \
        rg_tensor *rg_x##n = (x);                  \
        RG_ITEMS_(n, count, __VA_ARGS__)           \
        rg_index_items(rg_x##n, rg_c##n, rg_i##n); \
    })
#define rg_set_item_(x, value, ...) RG_SET_ITEM_(__COUNTER__, x, value, __VA_ARGS__)
#define RG_SET_ITEM_(n, x, value, ...) \
    RG_SET_ITEM__(n, x, value, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_SET_ITEM__(n, x, value, count, ...)                      \
    __extension__({                                                 \
        RG_REQUIRE_ITEMS_(__VA_ARGS__);                             \
        rg_tensor *rg_x##n = (x);                                   \
        __auto_type rg_a##n = (value);                              \
        RG_ITEMS_(n, count, __VA_ARGS__)                            \
        rg_set_items_(rg_x##n, RG_WRAP(rg_a##n), rg_c##n, rg_i##n); \
    })
#endif

RG_PUBLIC_END

#ifdef __cplusplus
static inline rg_list rg_list_of(std::initializer_list<rg_tensor *> l) {
    return rg_list_in_scope<rg_list>(l);
}
#define RG_LIST(...) rg_list_of({ __VA_ARGS__ })
/* Makes the list for a single call. The list's array lives until the end of the full expression
 * that contains the call. */
static inline rg_list rg_arguments(std::initializer_list<rg_tensor *> l) {
    return rg_list{ (int)l.size(), l.begin() };
}
#define RG_ARGUMENTS_(...) rg_arguments({ __VA_ARGS__ })

static inline rg_dims rg_sizes_of(rg_dims d) { return d; }
static inline rg_dims rg_sizes_of(rg_one_size n) { return rg_sizes_of_number(n.v); }

static inline rg_item_index rg_index_item(rg_tensor *t) { return rg_index_tensor(t); }
static inline rg_item_index rg_index_item(decltype(nullptr)) { return rg_index_tensor(nullptr); }
static inline rg_item_index rg_index_item(const char *text) { return rg_index_text(text); }
static inline rg_item_index rg_index_item(char *text) { return rg_index_text(text); }
static inline rg_item_index rg_index_item(bool b) { return rg_index_bool(b); }
static inline rg_item_index rg_index_item(unsigned long i) { return rg_index_unsigned(i); }
static inline rg_item_index rg_index_item(unsigned long long i) { return rg_index_unsigned(i); }
template <typename T> static inline rg_item_index rg_index_item(T i) {
    static_assert(std::is_integral<T>::value || std::is_enum<T>::value, RG_ITEM_TYPES_);
    return rg_index_number((int64_t)i);
}

/* The arguments of a braced initializer are evaluated from left to right: x, the value and the
 * items. */
struct rg_indexed {
    enum { MOST = 16 };
    rg_tensor *x, *value;
    int n;
    rg_item_index items[MOST];
    template <typename... I>
    rg_indexed(rg_tensor *of, rg_tensor *by, I... item)
        : x(of), value(by), n(sizeof...(I)), items{ rg_index_item(item)... } {
        static_assert(sizeof...(I) > 0, RG_ITEMS_MISSING_);
    }
    rg_tensor *get() const { return rg_index_items(x, n, items); }
    rg_tensor *set() const { return rg_set_items_(x, value, n, items); }
};
#define rg_index(x, ...)            (rg_indexed{ (x), nullptr, __VA_ARGS__ }.get())
#define rg_set_item_(x, value, ...) (rg_indexed{ (x), RG_WRAP(value), __VA_ARGS__ }.set())
#endif
