/*
 * layers.h: Linear, Embedding, the norms, PReLU, convolutions, pooling, and layers without
 * parameters. The modules of attention, of positions and of losses are in attention.h, positions.h
 * and losses.h.
 *
 *     rg_linear_module *layer = rg_nn_linear(4, 2, .bias = false);
 *     rg_tensor *y = rg_call(layer, x);
 *
 * The sizes and options that a layer's forward relies on are const fields, which are set when the
 * layer is made. A program may change the other fields, such as a Dropout's probability: each call
 * checks them.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- Linear: y = x weight^T + bias --------------------------------------------- */
typedef struct rg_linear_module {
    rg_module base;
    rg_tensor *weight, *bias;
    const int64_t in_features, out_features;
} rg_linear_module;
typedef struct RG_OPTIONS rg_linear_options {
    RG_BY_NAME;
    rg_flag bias RG_DEFAULT(true);
} rg_linear_options;
rg_linear_module *rg_nn_linear_with(int64_t in_features, int64_t out_features, rg_linear_options o);
#define rg_nn_linear(in_features, out_features, ...) \
    rg_nn_linear_with(in_features, out_features,     \
                      RG_KEYWORDS(rg_linear_options, (.bias = true), __VA_ARGS__))

/* ---- Embedding: a table whose rows are looked up ------------------------------- */
typedef struct rg_embedding_module {
    rg_module base;
    rg_tensor *weight;
    /* padding_idx is INT64_MIN if no row of the table is for padding. */
    const int64_t num_embeddings, embedding_dim, padding_idx;
    /* If max_norm is 0, the norm of a row isn't limited. */
    double max_norm, norm_type;
    bool scale_grad_by_freq;
} rg_embedding_module;
rg_embedding_module *rg_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim,
                                          rg_embedding_options o);
#define rg_nn_embedding(num_embeddings, embedding_dim, ...) \
    rg_nn_embedding_with(num_embeddings, embedding_dim, RG_EMBEDDING_(__VA_ARGS__))

/* ---- LayerNorm, RMSNorm, GroupNorm ------------------------------------------------
 * rg_nn_layer_norm(n) and rg_nn_rms_norm(n) normalise over the last dim, which has n elements.
 * Their _dims variants normalise over several last dims, whose sizes are the argument `shape`.
 * GroupNorm normalises over groups of channels. */
typedef struct RG_OPTIONS rg_norm_options {
    RG_BY_NAME;
    /* RG_OWN_EPS means the default: 1e-5, but in RMSNorm the epsilon of x's dtype. */
    double eps RG_DEFAULT(RG_OWN_EPS);
    /* Named `affine` in torch's GroupNorm. */
    rg_flag elementwise_affine RG_DEFAULT(true);
    rg_flag bias RG_DEFAULT(true);
} rg_norm_options;
typedef struct rg_norm_module {
    rg_module base;
    rg_tensor *weight, *bias;
    /* The sizes of the dims that are normalised. GroupNorm stores (groups, channels) instead. */
    const rg_dims shape;
    rg_norm_options o;
} rg_norm_module;
rg_norm_module *rg_nn_layer_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_rms_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_group_norm_with(int64_t groups, int64_t channels, rg_norm_options o);
#define RG_NORM_(...)                                                                           \
    RG_KEYWORDS(rg_norm_options, (.eps = RG_OWN_EPS, .elementwise_affine = true, .bias = true), \
                __VA_ARGS__)
#define rg_nn_layer_norm_dims(shape, ...) rg_nn_layer_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm_dims(shape, ...)   rg_nn_rms_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_layer_norm(n, ...)          rg_nn_layer_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm(n, ...)            rg_nn_rms_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_group_norm(groups, channels, ...) \
    rg_nn_group_norm_with(groups, channels, RG_NORM_(__VA_ARGS__))

/* ---- PReLU: x > 0 ? x : weight x --------------------------------------------------
 * The weight holds one slope for all channels, or one for each channel. */
typedef struct rg_prelu_module {
    rg_module base;
    rg_tensor *weight;
    const int64_t num_parameters;
} rg_prelu_module;
typedef struct RG_OPTIONS rg_prelu_options {
    RG_BY_NAME;
    int64_t num_parameters RG_DEFAULT(1);
    double init RG_DEFAULT(0.25); /* The initial value of the slopes. */
} rg_prelu_options;
rg_prelu_module *rg_nn_prelu_with(rg_prelu_options o);
#define rg_nn_prelu(...) \
    rg_nn_prelu_with(    \
        RG_KEYWORDS(rg_prelu_options, (.num_parameters = 1, .init = 0.25), __VA_ARGS__))

/* ---- Conv1d, Conv2d: rg_nn_conv2d(3, 8, 5, .stride = 2, .padding = 1) --------------
 * The kernel is a number or, in Conv2d, a list such as RG_DIMS(5, 3). The options are those of
 * rg_conv2d; bias and padding_mode are added. */
typedef struct rg_conv_module {
    rg_module base;
    rg_tensor *weight, *bias;
    const int64_t in_channels, out_channels, groups;
    /* One element for each spatial dim: one in Conv1d, two in Conv2d. */
    const rg_dims kernel_size, stride, padding, dilation;
    const int dims;
    /* "same", "valid", or NULL if the padding is given as numbers. */
    const char *const padding_text;
    const rg_pad_mode padding_mode;
} rg_conv_module;
typedef struct RG_OPTIONS rg_conv_module_options {
    RG_BY_NAME;
    int64_t stride RG_DEFAULT(1);
    int64_t padding RG_DEFAULT(0);
    int64_t dilation RG_DEFAULT(1);
    int64_t groups RG_DEFAULT(1);
    rg_dims strides RG_DEFAULT({});
    rg_dims paddings RG_DEFAULT({});
    rg_dims dilations RG_DEFAULT({});
    rg_flag bias RG_DEFAULT(true);
    RG_ONE_OF(rg_pad_mode) padding_mode RG_DEFAULT(RG_CONSTANT); /* "zeros" in torch. */
} rg_conv_module_options;
rg_conv_module *rg_nn_conv1d_with(int64_t in_channels, int64_t out_channels, rg_dims kernel_size,
                                  rg_conv_module_options o);
rg_conv_module *rg_nn_conv2d_with(int64_t in_channels, int64_t out_channels, rg_dims kernel_size,
                                  rg_conv_module_options o);
#define RG_CONV_MODULE_(...)                                                                     \
    RG_KEYWORDS(rg_conv_module_options, (.stride = 1, .dilation = 1, .groups = 1, .bias = true), \
                __VA_ARGS__)
#define rg_nn_conv1d(in_channels, out_channels, kernel_size, ...)        \
    rg_nn_conv1d_with(in_channels, out_channels, RG_SIZES_(kernel_size), \
                      RG_CONV_MODULE_(__VA_ARGS__))
#define rg_nn_conv2d(in_channels, out_channels, kernel_size, ...)        \
    rg_nn_conv2d_with(in_channels, out_channels, RG_SIZES_(kernel_size), \
                      RG_CONV_MODULE_(__VA_ARGS__))

/* ---- pooling: rg_nn_max_pool2d(2), rg_nn_avg_pool2d(RG_DIMS(3, 2), .stride = 1) ----
 * The options are those of rg_max_pool2d and rg_avg_pool2d. If a max pooling module is called with
 * keywords, it stores in k.indices the indices that torch returns with return_indices=True:
 *
 *     rg_pool_keywords k = { 0 };
 *     rg_tensor *y = rg_call_keywords(pool, &k, x);
 */
typedef struct rg_pool_keywords {
    rg_tensor *indices;
} rg_pool_keywords;
typedef struct rg_max_pool_module {
    rg_module base;
    const int dims;
    const rg_dims kernel_size;
    const rg_max_pool_options o;
} rg_max_pool_module;
typedef struct rg_avg_pool_module {
    rg_module base;
    const int dims;
    const rg_dims kernel_size;
    const rg_avg_pool_options o;
} rg_avg_pool_module;
typedef struct rg_adaptive_pool_module {
    rg_module base;
    const int dims;
    const rg_dims output_size;
} rg_adaptive_pool_module;
rg_max_pool_module *rg_nn_max_pool1d_with(rg_dims kernel_size, rg_max_pool_options o);
rg_max_pool_module *rg_nn_max_pool2d_with(rg_dims kernel_size, rg_max_pool_options o);
rg_avg_pool_module *rg_nn_avg_pool1d_with(rg_dims kernel_size, rg_avg_pool_options o);
rg_avg_pool_module *rg_nn_avg_pool2d_with(rg_dims kernel_size, rg_avg_pool_options o);
#define rg_nn_max_pool1d(kernel_size, ...) \
    rg_nn_max_pool1d_with(RG_SIZES_(kernel_size), RG_MAX_POOL_(__VA_ARGS__))
#define rg_nn_max_pool2d(kernel_size, ...) \
    rg_nn_max_pool2d_with(RG_SIZES_(kernel_size), RG_MAX_POOL_(__VA_ARGS__))
#define rg_nn_avg_pool1d(kernel_size, ...) \
    rg_nn_avg_pool1d_with(RG_SIZES_(kernel_size), RG_AVG_POOL_(__VA_ARGS__))
#define rg_nn_avg_pool2d(kernel_size, ...) \
    rg_nn_avg_pool2d_with(RG_SIZES_(kernel_size), RG_AVG_POOL_(__VA_ARGS__))
rg_adaptive_pool_module *rg_nn_adaptive_avg_pool1d(int64_t output_size);
rg_adaptive_pool_module *rg_nn_adaptive_max_pool1d(int64_t output_size);
rg_adaptive_pool_module *rg_nn_adaptive_avg_pool2d_with(rg_dims output_size);
rg_adaptive_pool_module *rg_nn_adaptive_max_pool2d_with(rg_dims output_size);
#define rg_nn_adaptive_avg_pool2d(size) rg_nn_adaptive_avg_pool2d_with(RG_SIZES_(size))
#define rg_nn_adaptive_max_pool2d(size) rg_nn_adaptive_max_pool2d_with(RG_SIZES_(size))

/* ---- BatchNorm1d, BatchNorm2d ---------------------------------------------------- */
typedef struct RG_OPTIONS rg_batch_norm_module_options {
    RG_BY_NAME;
    double eps RG_DEFAULT(1e-5);
    /* NAN means torch's momentum=None: the running statistics are the averages over all batches. */
    double momentum RG_DEFAULT(0.1);
    rg_flag affine RG_DEFAULT(true);
    rg_flag bias RG_DEFAULT(true);
    rg_flag track_running_stats RG_DEFAULT(true);
} rg_batch_norm_module_options;
typedef struct rg_batch_norm_module {
    rg_module base;
    rg_tensor *weight, *bias, *running_mean, *running_var, *num_batches_tracked;
    const int64_t num_features;
    const int dims;
    rg_batch_norm_module_options o;
} rg_batch_norm_module;
rg_batch_norm_module *rg_nn_batch_norm1d_with(int64_t num_features, rg_batch_norm_module_options o);
rg_batch_norm_module *rg_nn_batch_norm2d_with(int64_t num_features, rg_batch_norm_module_options o);
#define RG_BATCH_NORM_(...)                                                                        \
    RG_KEYWORDS(                                                                                   \
        rg_batch_norm_module_options,                                                              \
        (.eps = 1e-5, .momentum = 0.1, .affine = true, .bias = true, .track_running_stats = true), \
        __VA_ARGS__)
#define rg_nn_batch_norm1d(num_features, ...) \
    rg_nn_batch_norm1d_with(num_features, RG_BATCH_NORM_(__VA_ARGS__))
#define rg_nn_batch_norm2d(num_features, ...) \
    rg_nn_batch_norm2d_with(num_features, RG_BATCH_NORM_(__VA_ARGS__))

/* ---- layers without parameters: rg_nn_relu is a module that computes rg_relu, .. --------- */
typedef struct rg_plain_module {
    rg_module base;
    /* The arguments of the module's constructor, in their order. A field without an argument is
     * 0. */
    double a, b;
} rg_plain_module;
rg_plain_module *rg_nn_identity(void);
rg_plain_module *rg_nn_relu(void);
rg_plain_module *rg_nn_relu6(void);
rg_plain_module *rg_nn_gelu(void);
rg_plain_module *rg_nn_gelu_tanh(void);
rg_plain_module *rg_nn_silu(void);
rg_plain_module *rg_nn_mish(void);
rg_plain_module *rg_nn_selu(void);
rg_plain_module *rg_nn_tanh(void);
rg_plain_module *rg_nn_sigmoid(void);
rg_plain_module *rg_nn_logsigmoid(void);
rg_plain_module *rg_nn_softsign(void);
rg_plain_module *rg_nn_tanhshrink(void);
rg_plain_module *rg_nn_hardswish(void);
rg_plain_module *rg_nn_hardsigmoid(void);
rg_plain_module *rg_nn_leaky_relu(double negative_slope);
rg_plain_module *rg_nn_elu(double alpha);
rg_plain_module *rg_nn_celu(double alpha);
rg_plain_module *rg_nn_softplus(double beta, double threshold);
rg_plain_module *rg_nn_hardtanh(double min_val, double max_val);
rg_plain_module *rg_nn_hardshrink(double lambd);
rg_plain_module *rg_nn_softshrink(double lambd);
rg_plain_module *rg_nn_threshold(double threshold, double value);
rg_plain_module *rg_nn_softmax(int dim);
rg_plain_module *rg_nn_softmin(int dim);
rg_plain_module *rg_nn_log_softmax(int dim);
rg_plain_module *rg_nn_glu(int dim);
rg_plain_module *rg_nn_dropout(double p);
rg_plain_module *rg_nn_flatten(int start_dim, int end_dim);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_linear_with(in_features, out_features, ...) \
    rg_nn_linear_with(RG_WHOLE(in_features), RG_WHOLE(out_features), __VA_ARGS__)
#define rg_nn_embedding_with(num_embeddings, embedding_dim, ...) \
    rg_nn_embedding_with(RG_WHOLE(num_embeddings), RG_WHOLE(embedding_dim), __VA_ARGS__)
#define rg_nn_group_norm_with(groups, channels, ...) \
    rg_nn_group_norm_with(RG_WHOLE(groups), RG_WHOLE(channels), __VA_ARGS__)
#define rg_nn_conv1d_with(in_channels, out_channels, ...) \
    rg_nn_conv1d_with(RG_WHOLE(in_channels), RG_WHOLE(out_channels), __VA_ARGS__)
#define rg_nn_conv2d_with(in_channels, out_channels, ...) \
    rg_nn_conv2d_with(RG_WHOLE(in_channels), RG_WHOLE(out_channels), __VA_ARGS__)
#define rg_nn_adaptive_avg_pool1d(output_size) rg_nn_adaptive_avg_pool1d(RG_WHOLE(output_size))
#define rg_nn_adaptive_max_pool1d(output_size) rg_nn_adaptive_max_pool1d(RG_WHOLE(output_size))
#define rg_nn_batch_norm1d_with(num_features, ...) \
    rg_nn_batch_norm1d_with(RG_WHOLE(num_features), __VA_ARGS__)
#define rg_nn_batch_norm2d_with(num_features, ...) \
    rg_nn_batch_norm2d_with(RG_WHOLE(num_features), __VA_ARGS__)
#define rg_nn_leaky_relu(negative_slope)  rg_nn_leaky_relu(RG_REAL(negative_slope))
#define rg_nn_elu(alpha)                  rg_nn_elu(RG_REAL(alpha))
#define rg_nn_celu(alpha)                 rg_nn_celu(RG_REAL(alpha))
#define rg_nn_softplus(beta, threshold)   rg_nn_softplus(RG_REAL(beta), RG_REAL(threshold))
#define rg_nn_hardtanh(min_val, max_val)  rg_nn_hardtanh(RG_REAL(min_val), RG_REAL(max_val))
#define rg_nn_hardshrink(lambd)           rg_nn_hardshrink(RG_REAL(lambd))
#define rg_nn_softshrink(lambd)           rg_nn_softshrink(RG_REAL(lambd))
#define rg_nn_threshold(threshold, value) rg_nn_threshold(RG_REAL(threshold), RG_REAL(value))
#define rg_nn_softmax(dim)                rg_nn_softmax(RG_INT(dim))
#define rg_nn_softmin(dim)                rg_nn_softmin(RG_INT(dim))
#define rg_nn_log_softmax(dim)            rg_nn_log_softmax(RG_INT(dim))
#define rg_nn_glu(dim)                    rg_nn_glu(RG_INT(dim))
#define rg_nn_dropout(p)                  rg_nn_dropout(RG_REAL(p))
#define rg_nn_flatten(start_dim, end_dim) rg_nn_flatten(RG_INT(start_dim), RG_INT(end_dim))

RG_PUBLIC_END
