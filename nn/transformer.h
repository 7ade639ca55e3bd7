/*
 * transformer.h: torch.nn.TransformerEncoderLayer, the block of which transformers are made.
 *
 * A causal block is such a layer with .src_mask; .norm_first = true makes it pre-norm.
 */
#pragma once

#include "attention.h"

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_transformer_options {
    RG_BY_NAME;
    int64_t dim_feedforward RG_DEFAULT(2048);
    double dropout RG_DEFAULT(0.1);
    /* This may be rg_relu, rg_gelu, or another function, which must not be left by longjmp. */
    rg_tensor *(*activation)(rg_tensor *x)RG_DEFAULT(rg_relu);
    double layer_norm_eps RG_DEFAULT(1e-5);
    bool batch_first RG_DEFAULT(false);
    /* If true, the layer computes x + f(norm(x)) in place of norm(x + f(x)). */
    bool norm_first RG_DEFAULT(false);
    bool bias RG_DEFAULT(true);
} rg_transformer_options;
typedef struct rg_transformer_encoder_layer {
    rg_module base;
    rg_multihead_attention *self_attn;
    rg_linear_module *linear1, *linear2;
    rg_plain_module *dropout, *dropout1, *dropout2;
    rg_norm_module *norm1, *norm2;
    rg_transformer_options o;
} rg_transformer_encoder_layer;
rg_transformer_encoder_layer *rg_nn_transformer_encoder_layer_with(int64_t d_model, int64_t nhead,
                                                                   rg_transformer_options o);
#define rg_nn_transformer_encoder_layer(d_model, nhead, ...)                         \
    rg_nn_transformer_encoder_layer_with(                                            \
        d_model, nhead,                                                              \
        RG_KEYWORDS(rg_transformer_options,                                          \
                    (.dim_feedforward = 2048, .dropout = 0.1, .activation = rg_relu, \
                     .layer_norm_eps = 1e-5, .bias = true),                          \
                    __VA_ARGS__))

/* These are the keywords of the layer's forward, too. */
typedef struct RG_OPTIONS rg_src_options {
    RG_BY_NAME;
    rg_tensor *src_mask RG_DEFAULT(RG_NONE);
    rg_tensor *src_key_padding_mask RG_DEFAULT(RG_NONE);
    bool is_causal RG_DEFAULT(false);
} rg_src_options;
rg_tensor *rg_transformer_encoder_layer_forward_with(rg_transformer_encoder_layer *m,
                                                     rg_tensor *src, rg_src_options o);
#define rg_transformer_encoder_layer_forward(m, src, ...)                                   \
    rg_transformer_encoder_layer_forward_with(                                              \
        m, src,                                                                             \
        RG_KEYWORDS(rg_src_options, (.src_mask = RG_NONE, .src_key_padding_mask = RG_NONE), \
                    __VA_ARGS__))

/* The layer has these names, too. */
typedef rg_transformer_encoder_layer rg_transformer_block;
#define rg_nn_transformer_block      rg_nn_transformer_encoder_layer
#define rg_transformer_block_forward rg_transformer_encoder_layer_forward

RG_PUBLIC_END
