/*
 * transformer.h: attention, positions, and the models made of them.
 */
#pragma once

#include "nn.h"

RG_PUBLIC_BEGIN

/* ---- attention.c -------------------------------------------------------------------
 * The notebook's: softmax(q k^T / sqrt(d_out_kq)) v with q = x w_query and so on. */
typedef struct rg_self_attention {
    rg_module base;
    rg_tensor *w_query, *w_key, *w_value;
    int64_t d_out_kq;
} rg_self_attention;
rg_self_attention *rg_nn_self_attention(int64_t d_in, int64_t d_out_kq, int64_t d_out_v);
/* the softmax alone */
rg_tensor *rg_self_attention_weights(rg_self_attention *m, rg_tensor *x);

/* torch.nn.MultiheadAttention. rg_call(m, query, key, value) is the output alone, rg_call(m, x)
 * that of x with itself. */
typedef struct rg_multihead_attention_options {
    double dropout RG_DEFAULT(0);
    bool bias RG_DEFAULT(true), add_bias_kv RG_DEFAULT(false), add_zero_attn RG_DEFAULT(false);
    int64_t kdim RG_DEFAULT(0), vdim RG_DEFAULT(0); /* 0: embed_dim */
    bool batch_first RG_DEFAULT(false);             /* (N, L, E) in place of (L, N, E) */
} rg_multihead_attention_options;
typedef struct rg_multihead_attention {
    rg_module base;
    rg_tensor *in_proj_weight, *q_proj_weight, *k_proj_weight, *v_proj_weight, *in_proj_bias,
        *bias_k, *bias_v;
    rg_linear_module *out_proj;
    int64_t embed_dim, num_heads;
    rg_multihead_attention_options o;
} rg_multihead_attention;
rg_multihead_attention *rg_nn_multihead_attention_with(int64_t embed_dim, int64_t num_heads,
                                                       rg_multihead_attention_options o);
#define rg_nn_multihead_attention(embed_dim, num_heads, ...) \
    rg_nn_multihead_attention_with(                          \
        embed_dim, num_heads,                                \
        RG_KEYWORDS(rg_multihead_attention_options, (.bias = true), __VA_ARGS__))

typedef struct rg_multihead_options {
    /* (N, S); bool: true is left out; or floats to be added */
    rg_tensor *key_padding_mask RG_DEFAULT(RG_NONE);
    bool need_weights RG_DEFAULT(true);
    /* (L, S) or (N num_heads, L, S), likewise */
    rg_tensor *attn_mask RG_DEFAULT(RG_NONE);
    bool average_attn_weights RG_DEFAULT(true);
    /* a hint that attn_mask, which must be given, is */
    bool is_causal RG_DEFAULT(false);
} rg_multihead_options;
/* RG_NONE: not asked for; NULL, NULL: failed */
typedef struct rg_attended {
    rg_tensor *output, *weights;
} rg_attended;
rg_attended rg_multihead_attention_forward_with(rg_multihead_attention *m, rg_tensor *query,
                                                rg_tensor *key, rg_tensor *value,
                                                rg_multihead_options o);
#define RG_MULTIHEAD_(...)                                                                \
    RG_KEYWORDS(rg_multihead_options,                                                     \
                (.key_padding_mask = RG_NONE, .need_weights = true, .attn_mask = RG_NONE, \
                 .average_attn_weights = true),                                           \
                __VA_ARGS__)
#define rg_multihead_attention_forward(m, query, key, value, ...) \
    rg_multihead_attention_forward_with(m, query, key, value, RG_MULTIHEAD_(__VA_ARGS__))
rg_tensor *rg_generate_square_subsequent_mask(int64_t n); /* -inf above the diagonal, else 0 */

/* ---- position.c: modules for x of (..., length, dim) --------------------------------
 * Learned and sinusoidal positions are added to x; rotary ones turn it: with halves
 * x = (a, b), (a cos - b sin, b cos + a sin), as Hugging Face's LLaMA has it. Angles are
 * position / base^(2i/dim). */
typedef struct rg_positions {
    rg_module base;
    rg_tensor *weight, *cos, *sin;
} rg_positions;
/* drawn as Embedding's weight */
rg_positions *rg_nn_learned_positions(int64_t max_len, int64_t dim);
/* sin and cos in turn */
rg_positions *rg_nn_sinusoidal_positions(int64_t max_len, int64_t dim);
rg_positions *rg_nn_rotary_positions(int64_t max_len, int64_t dim, double base);
/* rg_call: from 0 */
rg_tensor *rg_positions_forward(rg_positions *m, rg_tensor *x, int64_t start);

/* ---- transformer.c: torch.nn.TransformerEncoderLayer ----------------------------- */
typedef struct rg_transformer_options {
    int64_t dim_feedforward RG_DEFAULT(2048);
    double dropout RG_DEFAULT(0.1);
    /* or rg_gelu, or another */
    rg_tensor *(*activation)(rg_tensor *x)RG_DEFAULT(rg_relu);
    double layer_norm_eps RG_DEFAULT(1e-5);
    bool batch_first RG_DEFAULT(false), norm_first RG_DEFAULT(false), bias RG_DEFAULT(true);
    /* norm_first: x + f(norm(x)) in place of norm(x + f(x)) */
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
/* A transformer's block is such a layer: pre-norm with .norm_first = true, else post-norm; causal
 * by its .src_mask. */
typedef rg_transformer_encoder_layer rg_transformer_block;
#define rg_nn_transformer_block      rg_nn_transformer_encoder_layer
#define rg_transformer_block_forward rg_transformer_encoder_layer_forward
typedef struct rg_src_options {
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

/* ---- gpt.c: GPT of nanoGPT's shape, names and first weights -------------------------
 * rg_call(m, idx) gives the logits after the last of idx (batch, length), as nanoGPT does. */
typedef struct rg_gpt_options {
    /* block_size: the longest sequence */
    int64_t block_size RG_DEFAULT(1024), vocab_size RG_DEFAULT(50304);
    int64_t n_layer RG_DEFAULT(12), n_head RG_DEFAULT(12), n_embd RG_DEFAULT(768);
    double dropout RG_DEFAULT(0);
    bool bias RG_DEFAULT(true);
} rg_gpt_options;
typedef struct rg_gpt {
    rg_module base;
    struct rg_gpt_transformer *transformer; /* wte, wpe, drop, h, ln_f */
    rg_linear_module *lm_head;              /* its weight is wte's */
    rg_gpt_options config;
} rg_gpt;
rg_gpt *rg_nn_gpt_with(rg_gpt_options o);
#define rg_nn_gpt(...)                                                                  \
    rg_nn_gpt_with(RG_KEYWORDS(rg_gpt_options,                                          \
                               (.block_size = 1024, .vocab_size = 50304, .n_layer = 12, \
                                .n_head = 12, .n_embd = 768, .bias = true),             \
                               __VA_ARGS__))
typedef struct rg_logits_loss {
    rg_tensor *logits, *loss;
} rg_logits_loss; /* NULL, NULL: failed */
/* With targets (-1: not counted) the logits of all positions and the mean cross-entropy; else
 * (RG_NONE) the last logits. */
rg_logits_loss rg_gpt_forward(rg_gpt *m, rg_tensor *idx, rg_tensor *targets);

/* Keys and values of what was read, so that it isn't read again: rg_gpt_cached gives the logits
 * after idx, which begins at this position; positions below it are in the cache. No gradients. */
rg_tensor *rg_gpt_cache(rg_gpt *m, int64_t batch);
rg_tensor *rg_gpt_cached(rg_gpt *m, rg_tensor *idx, rg_tensor *cache, int64_t position);

typedef struct rg_generate_options {
    double temperature RG_DEFAULT(1);
    int64_t top_k RG_DEFAULT(0);           /* 0: of all tokens */
    rg_generator *generator RG_DEFAULT(0); /* NULL: the default one */
} rg_generate_options;
rg_tensor *rg_gpt_generate_with(rg_gpt *m, rg_tensor *idx, int64_t max_new_tokens,
                                rg_generate_options o);
#define rg_gpt_generate(m, idx, max_new_tokens, ...)                          \
    rg_gpt_generate_with(m, idx, max_new_tokens,                              \
                         RG_KEYWORDS(rg_generate_options, (.temperature = 1), \
                                     __VA_ARGS__)) /* idx and what follows it */

RG_PUBLIC_END
