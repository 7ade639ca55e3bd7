/*
 * attention.h: attention as modules: SelfAttention, as in docs/notebook.md, and torch's
 * MultiheadAttention. MultiheadAttention calls rg_scaled_dot_product_attention of
 * autograd/ops/ops.h, unless the weights are needed or hooks are set on values inside attention.
 */
#pragma once

#include "layers.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- SelfAttention: softmax(q k^T / sqrt(d_out_kq)) v with q = x w_query and so on - */
typedef struct rg_self_attention {
    rg_module base;
    rg_tensor *w_query, *w_key, *w_value;
    const int64_t d_out_kq;
} rg_self_attention;
rg_self_attention *rg_nn_self_attention(int64_t d_in, int64_t d_out_kq, int64_t d_out_v);
/* Returns only the attention weights: softmax(q k^T / sqrt(d_out_kq)). */
rg_tensor *rg_self_attention_weights(rg_self_attention *m, rg_tensor *x);

/* ---- MultiheadAttention -----------------------------------------------------------
 * rg_call(m, query, key, value) returns only the output. rg_call(m, x) takes x as query, key and
 * value. */
typedef struct RG_OPTIONS rg_multihead_attention_options {
    RG_BY_NAME;
    double dropout RG_DEFAULT(0);
    rg_flag bias RG_DEFAULT(true);
    rg_flag add_bias_kv RG_DEFAULT(false);
    rg_flag add_zero_attn RG_DEFAULT(false);
    /* The widths of the keys and of the values. 0 means embed_dim. */
    int64_t kdim RG_DEFAULT(0);
    int64_t vdim RG_DEFAULT(0);
    /* If true, query, key, value and output are (batch, length, embedding); otherwise (length,
     * batch, embedding). */
    rg_flag batch_first RG_DEFAULT(false);
} rg_multihead_attention_options;
typedef struct rg_multihead_attention {
    rg_module base;
    /* in_proj_weight projects query, key and value if kdim and vdim equal embed_dim. Otherwise
     * q_proj_weight, k_proj_weight and v_proj_weight do. The weights that aren't used are
     * RG_NONE. */
    rg_tensor *in_proj_weight, *q_proj_weight, *k_proj_weight, *v_proj_weight;
    /* in_proj_bias holds the biases of all three projections, or is RG_NONE. If add_bias_kv is set,
     * bias_k is appended to the keys as one more position, and bias_v to the values. Otherwise
     * bias_k and bias_v are RG_NONE. */
    rg_tensor *in_proj_bias, *bias_k, *bias_v;
    rg_linear_module *out_proj;
    const int64_t embed_dim, num_heads;
    const rg_multihead_attention_options o;
} rg_multihead_attention;
rg_multihead_attention *rg_nn_multihead_attention_with(int64_t embed_dim, int64_t num_heads,
                                                       rg_multihead_attention_options o);
#define rg_nn_multihead_attention(embed_dim, num_heads, ...) \
    rg_nn_multihead_attention_with(                          \
        embed_dim, num_heads,                                \
        RG_KEYWORDS(rg_multihead_attention_options, (.bias = true), __VA_ARGS__))

/* The projected keys and values of earlier positions. Both tensors are (batch, heads, room, head
 * size), and the program allocates them with room for all positions. The first `length` positions
 * are filled. */
typedef struct rg_attention_cache {
    rg_tensor *keys RG_EMPTY;
    rg_tensor *values RG_EMPTY;
    int64_t length RG_EMPTY;
    /* If true, the cache is only read: queries attend to its keys and values, and the arguments key
     * and value are ignored. Otherwise key and value are projected and appended to the cache, and
     * `length` grows. */
    rg_flag complete RG_EMPTY;
} rg_attention_cache;

typedef struct RG_OPTIONS rg_multihead_options {
    RG_BY_NAME;
    /* A mask of shape (batch, keys), or (keys) if the query is unbatched. If it is bool, queries
     * don't attend to the keys where it is true; if it is float, it is added to the scores. */
    rg_tensor *key_padding_mask RG_DEFAULT(RG_NONE);
    rg_flag need_weights RG_DEFAULT(true);
    /* A mask of shape (queries, keys) or (batch * num_heads, queries, keys), bool or float, with
     * the same meanings as in key_padding_mask. */
    rg_tensor *attn_mask RG_DEFAULT(RG_NONE);
    rg_flag average_attn_weights RG_DEFAULT(true);
    /* Says that attn_mask is causal. Then a faster kernel may be used, which doesn't read
     * attn_mask. Nevertheless attn_mask must be given. */
    rg_flag is_causal RG_DEFAULT(false);
    /* If a cache is given, queries attend to the keys and values in it. Unless the cache is
     * complete, each query attends to its own and to earlier positions only, so that attn_mask
     * isn't needed. No gradient flows through such a call. */
    rg_attention_cache *cache RG_DEFAULT(NULL);
} rg_multihead_options;
/* The results of attention. `weights` is RG_NONE if need_weights is false. On failure both fields
 * are NULL. */
typedef struct rg_attended {
    rg_tensor *output, *weights;
} rg_attended;
/* The keywords for rg_call_keywords of a MultiheadAttention. The call stores the attention weights
 * in `weights`. If a layer has a module of another class in the place of its
 * rg_multihead_attention, that module is called with these keywords as well. In C, an option that
 * isn't written is 0 or NULL, and NULL as a mask is an error:
 *
 *     rg_multihead_keywords k = { .options = { .key_padding_mask = RG_NONE,
 *                                              .need_weights = true,
 *                                              .attn_mask = RG_NONE,
 *                                              .average_attn_weights = true } };
 *     rg_tensor *output = rg_call_keywords(attention, &k, query, key, value);
 */
typedef struct rg_multihead_keywords {
    rg_multihead_options options RG_EMPTY;
    rg_tensor *weights RG_DEFAULT(RG_NONE);
} rg_multihead_keywords;
rg_attended rg_multihead_attention_forward_with(rg_multihead_attention *m, rg_tensor *query,
                                                rg_tensor *key, rg_tensor *value,
                                                rg_multihead_options o);
#define RG_MULTIHEAD_(...)                                                                \
    RG_KEYWORDS(rg_multihead_options,                                                     \
                (.key_padding_mask = RG_NONE, .need_weights = true, .attn_mask = RG_NONE, \
                 .average_attn_weights = true),                                           \
                __VA_ARGS__)
static inline rg_attended rgi_multihead_attention_forward(rg_multihead_attention *m,
                                                          rg_tensors_in_order t,
                                                          rg_multihead_options o) {
    return rg_multihead_attention_forward_with(m, t.a, t.b, t.c, o);
}
#define rg_multihead_attention_forward(m, query, key, value, ...)                 \
    rgi_multihead_attention_forward(m, RG_TRIPLE(__COUNTER__, query, key, value), \
                                    RG_MULTIHEAD_(__VA_ARGS__))
/* Returns an n * n mask: -inf above the diagonal, and 0 elsewhere. With it as attn_mask, no query
 * attends to later positions. */
rg_tensor *rg_generate_square_subsequent_mask(int64_t n);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_self_attention(d_in, d_out_kq, d_out_v) \
    rg_nn_self_attention(RG_WHOLE(d_in), RG_WHOLE(d_out_kq), RG_WHOLE(d_out_v))
#define rg_nn_multihead_attention_with(embed_dim, num_heads, ...) \
    rg_nn_multihead_attention_with(RG_WHOLE(embed_dim), RG_WHOLE(num_heads), __VA_ARGS__)
#define rg_generate_square_subsequent_mask(n) rg_generate_square_subsequent_mask(RG_WHOLE(n))

RG_PUBLIC_END
