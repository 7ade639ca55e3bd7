/*
 * layers.h: Linear, Embedding, the norms, PReLU, and layers without parameters. Attention and
 * positions are in attention.h and positions.h, losses in losses.h.
 *
 *     rg_linear_module *layer = rg_nn_linear(4, 2, .bias = false);
 *     rg_tensor *y = rg_call(layer, x);
 */
#pragma once

#include "module.h"

RG_PUBLIC_BEGIN

/* ---- Linear: y = x weight^T + bias --------------------------------------------- */
typedef struct rg_linear_module {
    rg_module base;
    rg_tensor *weight, *bias;
    int64_t in_features, out_features;
} rg_linear_module;
typedef struct RG_OPTIONS rg_linear_options {
    RG_BY_NAME;
    bool bias RG_DEFAULT(true);
} rg_linear_options;
rg_linear_module *rg_nn_linear_with(int64_t in_features, int64_t out_features, rg_linear_options o);
#define rg_nn_linear(in_features, out_features, ...) \
    rg_nn_linear_with(in_features, out_features,     \
                      RG_KEYWORDS(rg_linear_options, (.bias = true), __VA_ARGS__))

/* ---- Embedding: a table whose rows are looked up ------------------------------- */
typedef struct rg_embedding_module {
    rg_module base;
    rg_tensor *weight;
    /* padding_idx is INT64_MIN if no row is for padding. */
    int64_t num_embeddings, embedding_dim, padding_idx;
    /* Rows may be any length where max_norm is 0. */
    double max_norm, norm_type;
    bool scale_grad_by_freq;
} rg_embedding_module;
rg_embedding_module *rg_nn_embedding_with(int64_t num_embeddings, int64_t embedding_dim,
                                          rg_embedding_options o);
#define rg_nn_embedding(num_embeddings, embedding_dim, ...) \
    rg_nn_embedding_with(num_embeddings, embedding_dim, RG_EMBEDDING_(__VA_ARGS__))

/* ---- LayerNorm, RMSNorm, GroupNorm ------------------------------------------------
 * LayerNorm and RMSNorm normalise over the last dim, which has n elements; with _dims, over the
 * last dims, which have this shape. GroupNorm normalises over groups of channels. */
typedef struct RG_OPTIONS rg_norm_options {
    RG_BY_NAME;
    /* -1 stands for 1e-5, and in RMSNorm for the dtype's own epsilon. */
    double eps RG_DEFAULT(-1);
    /* In GroupNorm this is what torch calls affine. */
    bool elementwise_affine RG_DEFAULT(true);
    bool bias RG_DEFAULT(true);
} rg_norm_options;
typedef struct rg_norm_module {
    rg_module base;
    rg_tensor *weight, *bias;
    /* GroupNorm keeps (groups, channels) here. */
    rg_dims shape;
    rg_norm_options o;
} rg_norm_module;
rg_norm_module *rg_nn_layer_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_rms_norm_with(rg_dims shape, rg_norm_options o);
rg_norm_module *rg_nn_group_norm_with(int64_t groups, int64_t channels, rg_norm_options o);
#define RG_NORM_(...) \
    RG_KEYWORDS(rg_norm_options, (.eps = -1, .elementwise_affine = true, .bias = true), __VA_ARGS__)
#define rg_nn_layer_norm_dims(shape, ...) rg_nn_layer_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm_dims(shape, ...)   rg_nn_rms_norm_with(shape, RG_NORM_(__VA_ARGS__))
#define rg_nn_layer_norm(n, ...)          rg_nn_layer_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_rms_norm(n, ...)            rg_nn_rms_norm_with(RG_DIMS(n), RG_NORM_(__VA_ARGS__))
#define rg_nn_group_norm(groups, channels, ...) \
    rg_nn_group_norm_with(groups, channels, RG_NORM_(__VA_ARGS__))

/* ---- PReLU: x > 0 ? x : weight x --------------------------------------------------
 * The weight has one slope, or one for each channel. */
typedef struct rg_prelu_module {
    rg_module base;
    rg_tensor *weight;
    int64_t num_parameters;
} rg_prelu_module;
typedef struct RG_OPTIONS rg_prelu_options {
    RG_BY_NAME;
    int64_t num_parameters RG_DEFAULT(1);
    double init RG_DEFAULT(0.25); /* The slopes begin with it. */
} rg_prelu_options;
rg_prelu_module *rg_nn_prelu_with(rg_prelu_options o);
#define rg_nn_prelu(...) \
    rg_nn_prelu_with(    \
        RG_KEYWORDS(rg_prelu_options, (.num_parameters = 1, .init = 0.25), __VA_ARGS__))

/* ---- layers without parameters: rg_nn_x is a module that computes rg_x --------- */
typedef struct rg_plain_module {
    rg_module base;
    /* These are the constructor's arguments, in order. */
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

RG_PUBLIC_END
