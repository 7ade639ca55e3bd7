/*
 * ops_macros.h: what lets ops.h be called as Python is: numbers where a tensor is expected,
 * variadic shapes, options by name, arguments from left to right, and items in brackets. ops.h
 * includes it; the functions are explained there.
 */
#pragma once

#include "ops.h"

#ifdef __cplusplus
#include <initializer_list>
#endif

RG_PUBLIC_BEGIN

/* ---- lists and variadic shapes ------------------------------------------------- */

static inline rg_list rg_list_of(int n, rg_tensor *const v[]) {
    rg_list list = { n, v };
    return list;
}

#ifndef __cplusplus
#define RG_LIST(...)                                                                 \
    ((rg_list){ (int)(sizeof((rg_tensor *[]){ __VA_ARGS__ }) / sizeof(rg_tensor *)), \
                (rg_tensor *[]){ __VA_ARGS__ } })
#endif

#define rg_einsum(equation, ...)   rg_einsum_list(equation, RG_LIST(__VA_ARGS__))
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
#define rg_bool(x)                 rg_to(x, RG_BOOL)
#define rg_dropout(x, p, training) rg_dropout_with(x, p, training, rg_default_generator())

/* ---- arguments from left to right -------------------------------------------------
 * C leaves it open in which order arguments are evaluated. These macros fix it, so that
 * rg_matmul(rg_rand(6, 3), rg_randn(3, 2)) draws as Python would. The number n makes the names
 * unique. */

#define RG_IN_ORDER_2(f, n, a, b, ...)    RG_IN_ORDER_2_(f, n, a, b, ##__VA_ARGS__)
#define RG_IN_ORDER_3(f, n, a, b, c, ...) RG_IN_ORDER_3_(f, n, a, b, c, ##__VA_ARGS__)
#define RG_IN_ORDER_2_(f, n, a, b, ...)     \
    __extension__({                         \
        rg_tensor *rg_a##n = (a);           \
        rg_tensor *rg_b##n = (b);           \
        f(rg_a##n, rg_b##n, ##__VA_ARGS__); \
    })
#define RG_IN_ORDER_3_(f, n, a, b, c, ...)           \
    __extension__({                                  \
        rg_tensor *rg_a##n = (a);                    \
        rg_tensor *rg_b##n = (b);                    \
        rg_tensor *rg_c##n = (c);                    \
        f(rg_a##n, rg_b##n, rg_c##n, ##__VA_ARGS__); \
    })

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
    rg_embedding_with(index, weight, RG_EMBEDDING_(__VA_ARGS__))
#define RG_NAN_TO_NUM_(...) \
    RG_KEYWORDS(rg_nan_to_num_options, (.posinf = NAN, .neginf = NAN), __VA_ARGS__)
#define rg_nan_to_num(x, ...)  rg_nan_to_num_with(x, RG_NAN_TO_NUM_(__VA_ARGS__))
#define rg_nan_to_num_(x, ...) rg_nan_to_num_with_(x, RG_NAN_TO_NUM_(__VA_ARGS__))
#define RG_SCATTER_REDUCE_(...) \
    RG_KEYWORDS(rg_scatter_reduce_options, (.include_self = true), __VA_ARGS__)
#define rg_scatter_reduce(x, dim, index, source, reduce, ...) \
    rg_scatter_reduce_with(x, dim, index, source, reduce, RG_SCATTER_REDUCE_(__VA_ARGS__))
#define rg_scatter_reduce_(x, dim, index, source, reduce, ...) \
    rg_scatter_reduce_with_(x, dim, index, source, reduce, RG_SCATTER_REDUCE_(__VA_ARGS__))
#define rg_quantile(x, q, ...)                                                                     \
    rg_quantile_with(x, RG_WRAP(q),                                                                \
                     RG_KEYWORDS(rg_quantile_options, (.dim = INT_MIN, .interpolation = "linear"), \
                                 __VA_ARGS__))
#define rg_bincount(x, ...) \
    rg_bincount_with(x, RG_KEYWORDS(rg_bincount_options, (.weights = RG_NONE), __VA_ARGS__))
#define rg_searchsorted(sorted, value, right, ...)      \
    rg_searchsorted_with(sorted, RG_WRAP(value), right, \
                         RG_KEYWORDS(rg_searchsorted_options, (.sorter = RG_NONE), __VA_ARGS__))
#define rg_cdist(a, b, ...)                                                                    \
    RG_IN_ORDER_2(rg_cdist_with, __COUNTER__, a, b,                                            \
                  RG_KEYWORDS(rg_cdist_options,                                                \
                              (.p = 2, .compute_mode = "use_mm_for_euclid_dist_if_necessary"), \
                              __VA_ARGS__))
#define rg_repeat_interleave(x, repeats, ...)                           \
    rg_repeat_interleave_with(x, RG_WRAP(repeats),                      \
                              RG_KEYWORDS(rg_repeat_interleave_options, \
                                          (.dim = INT_MIN, .output_size = -1), __VA_ARGS__))
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

/* RG_SIZES_ takes a number or RG_DIMS, in C++ by overloads. */
static inline rg_dims rg_sizes_of_dims(rg_dims d) { return d; }
static inline rg_dims rg_sizes_of_number(int64_t n) {
    rg_dims d = { 1, { n } };
    return d;
}
#ifdef __cplusplus
#define RG_SIZES_(k) rg_sizes_of(k)
#else
#define RG_SIZES_(k) _Generic((k), rg_dims : rg_sizes_of_dims, default : rg_sizes_of_number)(k)
#endif

#define RG_MAX_POOL_(...) \
    RG_KEYWORDS(rg_max_pool_options, (.stride = RG_KERNEL, .dilation = 1), __VA_ARGS__)
#define RG_AVG_POOL_(...) \
    RG_KEYWORDS(rg_avg_pool_options, (.stride = RG_KERNEL, .count_include_pad = true), __VA_ARGS__)
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
#define rg_add(a, b)                         RG_T2(rg_add, a, b)
#define rg_sub(a, b)                         RG_T2(rg_sub, a, b)
#define rg_mul(a, b)                         RG_T2(rg_mul, a, b)
#define rg_div(a, b)                         RG_T2(rg_div, a, b)
#define rg_add_alpha(a, b, c)                RG_T3(rg_add_alpha, a, b, c)
#define rg_sub_alpha(a, b, c)                RG_T3(rg_sub_alpha, a, b, c)
#define rg_div_floor(a, b)                   RG_T2(rg_div_floor, a, b)
#define rg_div_trunc(a, b)                   RG_T2(rg_div_trunc, a, b)
#define rg_floor_divide(a, b)                RG_T2(rg_floor_divide, a, b)
#define rg_remainder(a, b)                   RG_T2(rg_remainder, a, b)
#define rg_fmod(a, b)                        RG_T2(rg_fmod, a, b)
#define rg_pow(a, b)                         RG_T2(rg_pow, a, b)
#define rg_atan2(a, b)                       RG_T2(rg_atan2, a, b)
#define rg_xlogy(a, b)                       RG_T2(rg_xlogy, a, b)
#define rg_logaddexp(a, b)                   RG_T2(rg_logaddexp, a, b)
#define rg_logaddexp2(a, b)                  RG_T2(rg_logaddexp2, a, b)
#define rg_maximum(a, b)                     RG_T2(rg_maximum, a, b)
#define rg_minimum(a, b)                     RG_T2(rg_minimum, a, b)
#define rg_fmax(a, b)                        RG_T2(rg_fmax, a, b)
#define rg_fmin(a, b)                        RG_T2(rg_fmin, a, b)
#define rg_eq(a, b)                          RG_T2(rg_eq, a, b)
#define rg_ne(a, b)                          RG_T2(rg_ne, a, b)
#define rg_lt(a, b)                          RG_T2(rg_lt, a, b)
#define rg_le(a, b)                          RG_T2(rg_le, a, b)
#define rg_gt(a, b)                          RG_T2(rg_gt, a, b)
#define rg_ge(a, b)                          RG_T2(rg_ge, a, b)
#define rg_logical_and(a, b)                 RG_T2(rg_logical_and, a, b)
#define rg_logical_or(a, b)                  RG_T2(rg_logical_or, a, b)
#define rg_logical_xor(a, b)                 RG_T2(rg_logical_xor, a, b)
#define rg_where(c, a, b)                    RG_T3(rg_where, c, a, b)
#define rg_masked_fill(x, m, v)              RG_T3(rg_masked_fill, x, m, v)
#define rg_clamp(x, a, b)                    RG_T3(rg_clamp, x, a, b)
#define rg_clamp_min(x, a)                   RG_T2(rg_clamp_min, x, a)
#define rg_clamp_max(x, a)                   RG_T2(rg_clamp_max, x, a)
#define rg_lerp(a, b, w)                     RG_T3(rg_lerp, a, b, w)
#define rg_scatter(x, dim, index, source)    (rg_scatter)(x, dim, index, RG_WRAP(source))
#define rg_index_fill(x, dim, index, value)  (rg_index_fill)(x, dim, index, RG_WRAP(value))
#define rg_bucketize(value, bounds, right)   (rg_bucketize)(RG_WRAP(value), bounds, right)
#define rg_copy_(x, s)                       RG_T2(rg_copy_, x, s)
#define rg_fill_(x, v)                       RG_T2(rg_fill_, x, v)
#define rg_add_(x, b)                        RG_T2(rg_add_, x, b)
#define rg_sub_(x, b)                        RG_T2(rg_sub_, x, b)
#define rg_mul_(x, b)                        RG_T2(rg_mul_, x, b)
#define rg_div_(x, b)                        RG_T2(rg_div_, x, b)
#define rg_floor_divide_(x, b)               RG_T2(rg_floor_divide_, x, b)
#define rg_remainder_(x, b)                  RG_T2(rg_remainder_, x, b)
#define rg_fmod_(x, b)                       RG_T2(rg_fmod_, x, b)
#define rg_pow_(x, b)                        RG_T2(rg_pow_, x, b)
#define rg_atan2_(x, b)                      RG_T2(rg_atan2_, x, b)
#define rg_xlogy_(x, b)                      RG_T2(rg_xlogy_, x, b)
#define rg_eq_(x, b)                         RG_T2(rg_eq_, x, b)
#define rg_ne_(x, b)                         RG_T2(rg_ne_, x, b)
#define rg_lt_(x, b)                         RG_T2(rg_lt_, x, b)
#define rg_le_(x, b)                         RG_T2(rg_le_, x, b)
#define rg_gt_(x, b)                         RG_T2(rg_gt_, x, b)
#define rg_ge_(x, b)                         RG_T2(rg_ge_, x, b)
#define rg_clamp_min_(x, b)                  RG_T2(rg_clamp_min_, x, b)
#define rg_clamp_max_(x, b)                  RG_T2(rg_clamp_max_, x, b)
#define rg_add_alpha_(x, b, c)               RG_T3(rg_add_alpha_, x, b, c)
#define rg_clamp_(x, a, b)                   RG_T3(rg_clamp_, x, a, b)
#define rg_lerp_(x, b, w)                    RG_T3(rg_lerp_, x, b, w)
#define rg_masked_fill_(x, m, v)             RG_T3(rg_masked_fill_, x, m, v)
#define rg_scatter_(x, dim, index, source)   (rg_scatter_)(x, dim, index, RG_WRAP(source))
#define rg_index_fill_(x, dim, index, value) (rg_index_fill_)(x, dim, index, RG_WRAP(value))

/* ---- items in brackets: rg_index(x, items...), rg_set_item_(x, value, items...) ----
 * Each argument is evaluated once, in order, and becomes an rg_item_index. */

#define RG_SLICE(...)                    RG_SLICE_(__VA_ARGS__, 1, 0)
#define RG_SLICE_(start, end, step, ...) rg_index_slice(start, end, step)

static inline rg_item_index rg_index_item(rg_item_index i) { return i; }

/* RG_ITEM_(v) makes an item of a value by its type, in C++ by overloads below. */
#ifdef __cplusplus
#define RG_ITEM_(v) rg_index_item(v)
#else
/* clang-format off */
#define RG_ITEM_(v)                                                                              \
    _Generic((v),                                                                                \
        rg_item_index: rg_index_item, rg_tensor *: rg_index_tensor, void *: rg_index_tensor,     \
        const char *: rg_index_text, char *: rg_index_text, _Bool: rg_index_bool,                \
        int: rg_index_number, unsigned: rg_index_number, long: rg_index_number,                  \
        unsigned long: rg_index_unsigned, long long: rg_index_number,                            \
        unsigned long long: rg_index_unsigned, short: rg_index_number,                           \
        unsigned short: rg_index_number, signed char: rg_index_number,                           \
        unsigned char: rg_index_number)(v)
/* clang-format on */
#endif

/* RG_ITEMS_ declares the array rg_i and writes RG_ITEM for each argument, which the preprocessor
 * has no loop for. RG_ITEMS_OF writes the first item, and then the name RG_ITEMS_NEXT, which
 * RG_NOTHING keeps from being expanded at once. RG_16_TIMES scans its argument again and again, and
 * each scan expands one more of these to RG_ITEMS_OF with the arguments that are left. */
#define RG_ITEM_COUNT(...) \
    RG_ITEM_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define RG_ITEM_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define RG_ITEM(n, item)                        \
    {                                           \
        RG_AUTO rg_v##n = (item);               \
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

#define rg_index(x, ...)     RG_INDEX_(__COUNTER__, x, __VA_ARGS__)
#define RG_INDEX_(n, x, ...) RG_INDEX__(n, x, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_INDEX__(n, x, count, ...)               \
    __extension__({                                \
        RG_AUTO rg_x##n = (x);                     \
        RG_ITEMS_(n, count, __VA_ARGS__)           \
        rg_index_items(rg_x##n, rg_c##n, rg_i##n); \
    })
#define rg_set_item_(x, value, ...) RG_SET_ITEM_(__COUNTER__, x, value, __VA_ARGS__)
#define RG_SET_ITEM_(n, x, value, ...) \
    RG_SET_ITEM__(n, x, value, RG_ITEM_COUNT(__VA_ARGS__), __VA_ARGS__)
#define RG_SET_ITEM__(n, x, value, count, ...)                      \
    __extension__({                                                 \
        RG_AUTO rg_x##n = (x);                                      \
        RG_AUTO rg_a##n = (value);                                  \
        RG_ITEMS_(n, count, __VA_ARGS__)                            \
        rg_set_items_(rg_x##n, RG_WRAP(rg_a##n), rg_c##n, rg_i##n); \
    })

RG_PUBLIC_END

#ifdef __cplusplus
static inline rg_list rg_list_of(std::initializer_list<rg_tensor *> l) {
    return rg_list{ (int)l.size(), l.begin() };
}
#define RG_LIST(...) rg_list_of({ __VA_ARGS__ })

static inline rg_dims rg_sizes_of(rg_dims d) { return d; }
static inline rg_dims rg_sizes_of(int64_t n) { return rg_sizes_of_number(n); }

static inline rg_item_index rg_index_item(rg_tensor *t) { return rg_index_tensor(t); }
static inline rg_item_index rg_index_item(decltype(nullptr)) { return rg_index_tensor(nullptr); }
static inline rg_item_index rg_index_item(const char *text) { return rg_index_text(text); }
static inline rg_item_index rg_index_item(bool b) { return rg_index_bool(b); }
static inline rg_item_index rg_index_item(int i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(long i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned long i) { return rg_index_unsigned(i); }
static inline rg_item_index rg_index_item(long long i) { return rg_index_number(i); }
static inline rg_item_index rg_index_item(unsigned long long i) { return rg_index_unsigned(i); }
#endif
