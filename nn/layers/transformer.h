/*
 * transformer.h: torch.nn.Transformer and its parts: TransformerEncoder, TransformerDecoder, and
 * their layers.
 *
 *     rg_transformer *m = rg_nn_transformer(.d_model = 64, .nhead = 4, .batch_first = true);
 *     rg_tensor *causal = rg_generate_square_subsequent_mask(rg_size(tgt, 1));
 *     rg_tensor *y = rg_transformer_forward(m, src, tgt, .tgt_mask = causal,
 *                                           .src_key_padding_mask = padding,
 *                                           .memory_key_padding_mask = padding);
 *
 * Masks have the shapes and meanings of those in rg_multihead_options. A flag such as is_causal or
 * tgt_is_causal says that the mask is causal, so that a faster kernel may be used. The mask must be
 * given all the same.
 */
#pragma once

#include "attention.h"
#include "../containers.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- TransformerEncoderLayer ------------------------------------------------------
 * With a causal .src_mask the layer is a decoder-only block. It is pre-norm if .norm_first = true.
 * A row whose keys are all masked, which torch's fast path for inference fills with NaN, has the
 * values that torch computes when gradients are recorded. */
typedef struct RG_OPTIONS rg_transformer_options {
    RG_BY_NAME;
    int64_t dim_feedforward RG_DEFAULT(2048);
    double dropout RG_DEFAULT(0.1);
    /* The activation function: rg_relu, rg_gelu, or another. It must not be left by longjmp. */
    rg_tensor *(*activation)(rg_tensor *x)RG_DEFAULT(rg_relu);
    double layer_norm_eps RG_DEFAULT(1e-5);
    rg_flag batch_first RG_DEFAULT(false);
    /* If true, the layer computes x + f(norm(x)), otherwise norm(x + f(x)), where f is attention or
     * the feedforward network. */
    rg_flag norm_first RG_DEFAULT(false);
    rg_flag bias RG_DEFAULT(true);
} rg_transformer_options;
typedef struct rg_transformer_encoder_layer {
    rg_module base;
    rg_multihead_attention *self_attn;
    rg_linear_module *linear1, *linear2;
    rg_plain_module *dropout, *dropout1, *dropout2;
    rg_norm_module *norm1, *norm2;
    const rg_transformer_options o;
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

/* The options of rg_transformer_encoder_layer_forward. The same struct holds the layer's keywords
 * in rg_call_keywords. */
typedef struct RG_OPTIONS rg_src_options {
    RG_BY_NAME;
    rg_tensor *src_mask RG_DEFAULT(RG_NONE);
    rg_tensor *src_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_flag is_causal RG_DEFAULT(false);
} rg_src_options;
rg_tensor *rg_transformer_encoder_layer_forward_with(rg_transformer_encoder_layer *m,
                                                     rg_tensor *src, rg_src_options o);
#define rg_transformer_encoder_layer_forward(m, src, ...)                                   \
    rg_transformer_encoder_layer_forward_with(                                              \
        m, src,                                                                             \
        RG_KEYWORDS(rg_src_options, (.src_mask = RG_NONE, .src_key_padding_mask = RG_NONE), \
                    __VA_ARGS__))

/* ---- TransformerEncoder: num_layers copies of a layer, and a norm --------------------
 * The constructor makes num_layers deep copies of the layer and frees the layer. The encoder owns
 * the norm. The layer's class can be one that the program defines. It must accept the keywords that
 * the encoder passes to each layer, an rg_src_options (src_mask, src_key_padding_mask, is_causal).
 */
typedef struct RG_OPTIONS rg_encoder_options {
    RG_BY_NAME;
    void *norm RG_DEFAULT(RG_NONE);
    /* If true, the output at padded positions is set to 0 before the norm whenever torch would take
     * its fast path for nested tensors. torch does so if all of the following is true. No gradients
     * are recorded. The first layer is a TransformerEncoderLayer in eval mode, with batch_first =
     * true, norm_first = false and a bias. Its activation is relu or gelu, and its attention a
     * MultiheadAttention with an even number of heads. src is batched. Only src_key_padding_mask is
     * given, not mask. All padding is at the ends of rows. */
    rg_flag enable_nested_tensor RG_DEFAULT(true);
} rg_encoder_options;
typedef struct rg_transformer_encoder {
    rg_module base;
    rg_module_list *layers;
    rg_module *norm; /* NULL if the encoder has no norm. */
    const int64_t num_layers;
    bool enable_nested_tensor;
} rg_transformer_encoder;
rg_transformer_encoder *rg_nn_transformer_encoder_with(void *layer, int64_t num_layers,
                                                       rg_encoder_options o);
#define rg_nn_transformer_encoder(layer, num_layers, ...)                                       \
    rg_nn_transformer_encoder_with(layer, num_layers,                                           \
                                   RG_KEYWORDS(rg_encoder_options,                              \
                                               (.norm = RG_NONE, .enable_nested_tensor = true), \
                                               __VA_ARGS__))

/* The options of rg_transformer_encoder_forward. The same struct holds the encoder's keywords in
 * rg_call_keywords. */
typedef struct RG_OPTIONS rg_mask_options {
    RG_BY_NAME;
    rg_tensor *mask RG_DEFAULT(RG_NONE);
    rg_tensor *src_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_flag is_causal RG_DEFAULT(false);
} rg_mask_options;
rg_tensor *rg_transformer_encoder_forward_with(rg_transformer_encoder *m, rg_tensor *src,
                                               rg_mask_options o);
#define rg_transformer_encoder_forward(m, src, ...)                                      \
    rg_transformer_encoder_forward_with(                                                 \
        m, src,                                                                          \
        RG_KEYWORDS(rg_mask_options, (.mask = RG_NONE, .src_key_padding_mask = RG_NONE), \
                    __VA_ARGS__))

/* ---- TransformerDecoderLayer ------------------------------------------------------- */
typedef struct rg_transformer_decoder_layer {
    rg_module base;
    rg_multihead_attention *self_attn, *multihead_attn;
    rg_linear_module *linear1, *linear2;
    rg_plain_module *dropout, *dropout1, *dropout2, *dropout3;
    rg_norm_module *norm1, *norm2, *norm3;
    const rg_transformer_options o;
} rg_transformer_decoder_layer;
rg_transformer_decoder_layer *rg_nn_transformer_decoder_layer_with(int64_t d_model, int64_t nhead,
                                                                   rg_transformer_options o);
#define rg_nn_transformer_decoder_layer(d_model, nhead, ...)                         \
    rg_nn_transformer_decoder_layer_with(                                            \
        d_model, nhead,                                                              \
        RG_KEYWORDS(rg_transformer_options,                                          \
                    (.dim_feedforward = 2048, .dropout = 0.1, .activation = rg_relu, \
                     .layer_norm_eps = 1e-5, .bias = true),                          \
                    __VA_ARGS__))

/* The cache of a decoder that generates one position after the other. `memory` holds the keys and
 * values that each layer has computed from the encoder's output. `tgt` holds each layer's keys and
 * values for the positions of tgt that were given until now. Both tensors are (layers, 2, batch,
 * heads, positions, head size). The scope in which the cache was made owns them. In the cache of a
 * single layer the first dim is missing. */
typedef struct rg_decoder_cache {
    rg_tensor *tgt, *memory;
    int64_t length; /* The number of positions of tgt that are in the cache. */
} rg_decoder_cache;

/* The options of the forward of a decoder and of a decoder layer. In rg_call_keywords the same
 * struct holds the keywords of both. */
typedef struct RG_OPTIONS rg_tgt_options {
    RG_BY_NAME;
    rg_tensor *tgt_mask RG_DEFAULT(RG_NONE);
    rg_tensor *memory_mask RG_DEFAULT(RG_NONE);
    rg_tensor *tgt_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_tensor *memory_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_flag tgt_is_causal RG_DEFAULT(false);
    rg_flag memory_is_causal RG_DEFAULT(false);
    /* If a cache is given, tgt holds only the positions that follow those in the cache. The call
     * writes the keys and values of tgt's positions to the cache. A decoder then adds the number of
     * these positions to cache->length; after a call of a single layer, the program must add it.
     * Each position attends to itself and to earlier positions, so tgt_mask isn't needed. A decoder
     * computes no gradients in such a call. */
    rg_decoder_cache *cache RG_DEFAULT(NULL);
} rg_tgt_options;
#define RG_TGT_(...)                                                                           \
    RG_KEYWORDS(rg_tgt_options,                                                                \
                (.tgt_mask = RG_NONE, .memory_mask = RG_NONE, .tgt_key_padding_mask = RG_NONE, \
                 .memory_key_padding_mask = RG_NONE),                                          \
                __VA_ARGS__)
rg_tensor *rg_transformer_decoder_layer_forward_with(rg_transformer_decoder_layer *m,
                                                     rg_tensor *tgt, rg_tensor *memory,
                                                     rg_tgt_options o);
static inline rg_tensor *
rgi_transformer_decoder_layer_forward(rg_transformer_decoder_layer *m, rg_tensors_in_order t,
                                      rg_tgt_options o) {
    return rg_transformer_decoder_layer_forward_with(m, t.a, t.b, o);
}
#define rg_transformer_decoder_layer_forward(m, tgt, memory, ...)               \
    rgi_transformer_decoder_layer_forward(m, RG_PAIR(__COUNTER__, tgt, memory), \
                                          RG_TGT_(__VA_ARGS__))

/* ---- TransformerDecoder: num_layers copies of a layer, and a norm --------------------
 * The constructor makes num_layers deep copies of the layer and frees the layer. The decoder owns
 * the norm. */
typedef struct RG_OPTIONS rg_decoder_options {
    RG_BY_NAME;
    void *norm RG_DEFAULT(RG_NONE);
} rg_decoder_options;
typedef struct rg_transformer_decoder {
    rg_module base;
    rg_module_list *layers;
    rg_module *norm; /* NULL if the decoder has no norm. */
    const int64_t num_layers;
} rg_transformer_decoder;
rg_transformer_decoder *rg_nn_transformer_decoder_with(void *layer, int64_t num_layers,
                                                       rg_decoder_options o);
#define rg_nn_transformer_decoder(layer, num_layers, ...) \
    rg_nn_transformer_decoder_with(                       \
        layer, num_layers, RG_KEYWORDS(rg_decoder_options, (.norm = RG_NONE), __VA_ARGS__))
rg_tensor *rg_transformer_decoder_forward_with(rg_transformer_decoder *m, rg_tensor *tgt,
                                               rg_tensor *memory, rg_tgt_options o);
static inline rg_tensor *
rgi_transformer_decoder_forward(rg_transformer_decoder *m, rg_tensors_in_order t,
                                rg_tgt_options o) {
    return rg_transformer_decoder_forward_with(m, t.a, t.b, o);
}
#define rg_transformer_decoder_forward(m, tgt, memory, ...) \
    rgi_transformer_decoder_forward(m, RG_PAIR(__COUNTER__, tgt, memory), RG_TGT_(__VA_ARGS__))
/* Returns a cache that holds the memory, and has room for `positions` positions of tgt:
 *
 *     rg_decoder_cache cache = rg_transformer_decoder_cache(decoder, memory, 100);
 *     for (..)
 *         y = rg_transformer_decoder_forward(decoder, next, memory, .cache = &cache);
 *
 * The forward takes the memory's keys and values from the cache. It checks that its argument
 * `memory` has the shape of the memory in the cache, but doesn't read its elements. So another
 * memory needs another cache. Fails unless each layer of the decoder is an
 * rg_transformer_decoder_layer. On failure both tensors are NULL. */
rg_decoder_cache rg_transformer_decoder_cache(rg_transformer_decoder *m, rg_tensor *memory,
                                              int64_t positions);

/* ---- Transformer: an encoder that reads src, a decoder that writes tgt --------------- */
typedef struct RG_OPTIONS rg_nn_transformer_options {
    RG_BY_NAME;
    int64_t d_model RG_DEFAULT(512);
    int64_t nhead RG_DEFAULT(8);
    int64_t num_encoder_layers RG_DEFAULT(6);
    int64_t num_decoder_layers RG_DEFAULT(6);
    int64_t dim_feedforward RG_DEFAULT(2048);
    double dropout RG_DEFAULT(0.1);
    rg_tensor *(*activation)(rg_tensor *x)RG_DEFAULT(rg_relu);
    /* Modules that replace the encoder and the decoder, or RG_NONE. The transformer owns these
     * modules. It calls custom_encoder with rg_mask_options as its keywords, and custom_decoder
     * with rg_tgt_options. */
    void *custom_encoder RG_DEFAULT(RG_NONE);
    void *custom_decoder RG_DEFAULT(RG_NONE);
    double layer_norm_eps RG_DEFAULT(1e-5);
    rg_flag batch_first RG_DEFAULT(false);
    rg_flag norm_first RG_DEFAULT(false);
    rg_flag bias RG_DEFAULT(true);
} rg_nn_transformer_options;
typedef struct rg_transformer {
    rg_module base;
    rg_transformer_encoder *encoder;
    rg_transformer_decoder *decoder;
    const int64_t d_model, nhead;
    const bool batch_first;
} rg_transformer;
rg_transformer *rg_nn_transformer_with(rg_nn_transformer_options o);
#define rg_nn_transformer(...)                                                                     \
    rg_nn_transformer_with(                                                                        \
        RG_KEYWORDS(rg_nn_transformer_options,                                                     \
                    (.d_model = 512, .nhead = 8, .num_encoder_layers = 6, .num_decoder_layers = 6, \
                     .dim_feedforward = 2048, .dropout = 0.1, .activation = rg_relu,               \
                     .custom_encoder = RG_NONE, .custom_decoder = RG_NONE, .layer_norm_eps = 1e-5, \
                     .bias = true),                                                                \
                    __VA_ARGS__))

/* The options of rg_transformer_forward. The same struct holds the transformer's keywords in
 * rg_call_keywords. */
typedef struct RG_OPTIONS rg_src_tgt_options {
    RG_BY_NAME;
    rg_tensor *src_mask RG_DEFAULT(RG_NONE);
    rg_tensor *tgt_mask RG_DEFAULT(RG_NONE);
    rg_tensor *memory_mask RG_DEFAULT(RG_NONE);
    rg_tensor *src_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_tensor *tgt_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_tensor *memory_key_padding_mask RG_DEFAULT(RG_NONE);
    rg_flag src_is_causal RG_DEFAULT(false);
    rg_flag tgt_is_causal RG_DEFAULT(false);
    rg_flag memory_is_causal RG_DEFAULT(false);
} rg_src_tgt_options;
rg_tensor *rg_transformer_forward_with(rg_transformer *m, rg_tensor *src, rg_tensor *tgt,
                                       rg_src_tgt_options o);
#define rg_transformer_forward(m, src, tgt, ...)                                               \
    RG_BEHIND_2(rg_transformer_forward_with, __COUNTER__, m, src, tgt,                         \
                RG_KEYWORDS(rg_src_tgt_options,                                                \
                            (.src_mask = RG_NONE, .tgt_mask = RG_NONE, .memory_mask = RG_NONE, \
                             .src_key_padding_mask = RG_NONE, .tgt_key_padding_mask = RG_NONE, \
                             .memory_key_padding_mask = RG_NONE),                              \
                            __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_transformer_encoder_layer_with(d_model, nhead, ...) \
    rg_nn_transformer_encoder_layer_with(RG_WHOLE(d_model), RG_WHOLE(nhead), __VA_ARGS__)
#define rg_nn_transformer_encoder_with(layer, num_layers, ...) \
    rg_nn_transformer_encoder_with(RG_A_MODULE_(layer), RG_WHOLE(num_layers), __VA_ARGS__)
#define rg_nn_transformer_decoder_layer_with(d_model, nhead, ...) \
    rg_nn_transformer_decoder_layer_with(RG_WHOLE(d_model), RG_WHOLE(nhead), __VA_ARGS__)
#define rg_nn_transformer_decoder_with(layer, num_layers, ...) \
    rg_nn_transformer_decoder_with(RG_A_MODULE_(layer), RG_WHOLE(num_layers), __VA_ARGS__)
#define rg_transformer_decoder_cache(m, memory, positions) \
    rg_transformer_decoder_cache(m, memory, RG_WHOLE(positions))

RG_PUBLIC_END
