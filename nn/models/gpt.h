/*
 * gpt.h: GPT with nanoGPT's structure, names and initialization, and generation.
 *
 *     rg_gpt *model = rg_nn_gpt(.block_size = 64, .vocab_size = 65, .n_layer = 4, .n_head = 4,
 *                               .n_embd = 128);
 *     rg_backward(rg_gpt_forward(model, idx, targets).loss);
 *     rg_tensor *more = rg_gpt_generate(model, idx, 100, .top_k = 10);
 *
 * idx is (batch, length). rg_call(m, idx) returns the logits after the last token of each row, as
 * nanoGPT does. rg_call(m, idx, targets) returns the loss. A forward hook of the model gets what
 * rg_call returns; in a call of rg_gpt_forward the hook gets the logits.
 */
#pragma once

#include "../layers/layers.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_gpt_options {
    RG_BY_NAME;
    /* The largest number of tokens in a sequence. */
    int64_t block_size RG_DEFAULT(1024);
    int64_t vocab_size RG_DEFAULT(50304);
    int64_t n_layer RG_DEFAULT(12);
    int64_t n_head RG_DEFAULT(12);
    int64_t n_embd RG_DEFAULT(768);
    double dropout RG_DEFAULT(0);
    rg_flag bias RG_DEFAULT(true);
    /* The options below have nanoGPT's behaviour as their default; models that gpt_folder.h reads
     * may need other values. */
    /* The width of the hidden layer, c_fc. 0 means 4 * n_embd. */
    int64_t n_inner RG_DEFAULT(0);
    rg_flag gelu_tanh RG_DEFAULT(false);     /* Set to use the tanh approximation of GELU. */
    rg_flag untied RG_DEFAULT(false);        /* Set if lm_head doesn't share its weight with wte. */
    double layer_norm_epsilon RG_DEFAULT(0); /* The eps of the LayerNorms. 0 means 1e-5. */
    /* The probabilities of dropout: embd_dropout on the sum of the embeddings, attn_dropout on the
     * attention weights. -1 means the same as `dropout`. */
    double embd_dropout RG_DEFAULT(-1);
    double attn_dropout RG_DEFAULT(-1);
    /* The ids of the tokens that begin a text, end it and pad it. -1 or an empty list means that
     * there is no such token. The model itself doesn't use them, but they are saved with it in a
     * folder. */
    int64_t bos_token_id RG_DEFAULT(-1);
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
} rg_gpt_options;
typedef struct rg_gpt {
    rg_module base;
    /* The module with the children wte, wpe, drop, h and ln_f. */
    struct rg_gpt_transformer *transformer;
    /* The last layer. Its weight is that of wte, unless `untied` is set. */
    rg_linear_module *lm_head;
    const rg_gpt_options config;
    /* The contents of generation_config.json in the folder from which the model was read. NULL if
     * there was no such file, or the model wasn't read from a folder. */
    char *const generation_config;
} rg_gpt;
rg_gpt *rg_nn_gpt_with(rg_gpt_options o);
#define rg_nn_gpt(...)                                                                         \
    rg_nn_gpt_with(RG_KEYWORDS(rg_gpt_options,                                                 \
                               (.block_size = 1024, .vocab_size = 50304, .n_layer = 12,        \
                                .n_head = 12, .n_embd = 768, .bias = true, .embd_dropout = -1, \
                                .attn_dropout = -1, .bos_token_id = -1, .pad_token_id = -1),   \
                               __VA_ARGS__))

/* The result of a forward. Without targets the loss is RG_NONE. On failure both are NULL. */
typedef struct rg_logits_loss {
    rg_tensor *logits, *loss;
} rg_logits_loss;
/* Runs the model on idx, (batch, length). With targets, returns the logits at all positions, and
 * the mean cross-entropy, for which targets of -1 are ignored. If targets is RG_NONE, returns only
 * the logits at the last position, as (batch, 1, vocab_size), and RG_NONE as the loss. */
rg_logits_loss rg_gpt_forward(rg_gpt *m, rg_tensor *idx, rg_tensor *targets);

/* Returns an empty cache for rg_gpt_cached and `batch` sequences. The cache keeps the keys and
 * values of earlier tokens, so that each token runs through the model only once. */
rg_tensor *rg_gpt_cache(rg_gpt *m, int64_t batch);
/* Runs the model on the tokens idx, (batch, length), that follow the tokens in the cache. Returns
 * the logits after the last token as (batch, 1, vocab_size). `position` is the position of idx's
 * first token; the cache must hold the keys and values of all earlier positions. The call writes
 * the keys and values of idx to the cache. It computes no gradients. */
rg_tensor *rg_gpt_cached(rg_gpt *m, rg_tensor *idx, rg_tensor *cache, int64_t position);

typedef struct RG_OPTIONS rg_generate_options {
    RG_BY_NAME;
    /* The ways in which a token is drawn: see rg_sample_options in sampling.h. */
    double temperature RG_DEFAULT(1);
    int64_t top_k RG_DEFAULT(0);
    double top_p RG_DEFAULT(1);
    double min_p RG_DEFAULT(0);
    double repetition_penalty RG_DEFAULT(1);
    /* The source of random numbers. NULL means the default generator. */
    rg_generator *generator RG_DEFAULT(0);
    /* Tokens that end a row, at most 8: for example RG_DIMS(50256), or model->config.eos_token_id
     * of a model from a folder. Generation stops when all rows have ended. A row that has ended
     * earlier is padded with pad_token_id; if that is -1, with the first eos_token_id. */
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
    /* A function that is called whenever each row has got a new token, or NULL. `token` is a tensor
     * (batch, 1) with these tokens. If the function returns false, generation stops. */
    bool (*each)(rg_tensor *token, void *context) RG_DEFAULT(NULL);
    void *context RG_DEFAULT(NULL);
} rg_generate_options;
/* Returns idx, extended by max_new_tokens tokens, or by fewer if generation stops earlier. Each
 * token is drawn by rg_sample_logits. The repetition_penalty concerns all earlier tokens of the
 * row. Call rg_eval first: in training mode dropout applies, with one mask for each token, since
 * the keys and values of earlier tokens are kept. */
rg_tensor *rg_gpt_generate_with(rg_gpt *m, rg_tensor *idx, int64_t max_new_tokens,
                                rg_generate_options o);
#define rg_gpt_generate(m, idx, max_new_tokens, ...)                                             \
    rg_gpt_generate_with(                                                                        \
        m, idx, max_new_tokens,                                                                  \
        RG_KEYWORDS(rg_generate_options,                                                         \
                    (.temperature = 1, .top_p = 1, .repetition_penalty = 1, .pad_token_id = -1), \
                    __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_gpt_forward(m, idx, targets) RG_BEHIND_2(rg_gpt_forward, __COUNTER__, m, idx, targets)
#define rg_gpt_cache(m, batch)          rg_gpt_cache(m, RG_WHOLE(batch))
#define rg_gpt_cached(m, idx, cache, position) \
    RG_BEHIND_2(rg_gpt_cached, __COUNTER__, m, idx, cache, RG_WHOLE(position))
#define rg_gpt_generate_with(m, idx, max_new_tokens, ...) \
    rg_gpt_generate_with(m, idx, RG_WHOLE(max_new_tokens), __VA_ARGS__)

RG_PUBLIC_END
