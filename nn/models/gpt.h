/*
 * gpt.h: GPT with nanoGPT's structure, names and initialization, and generation.
 *
 *     rg_gpt *model = rg_nn_gpt(.block_size = 64, .vocab_size = 65, .n_layer = 4, .n_head = 4,
 *                               .n_embd = 128);
 *     rg_backward(rg_gpt_forward(model, idx, targets).loss);
 *     rg_tensor *more = rg_gpt_generate(model, idx, 100, .top_k = 10);
 *
 * rg_call(m, idx) returns the logits after the last token of idx (batch, length), as nanoGPT does,
 * and rg_call(m, idx, targets) returns the loss. A forward hook of the model gets the result of
 * rg_call, or the logits if the program calls rg_gpt_forward.
 */
#pragma once

#include "../layers/layers.h"

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_gpt_options {
    RG_BY_NAME;
    /* The maximum length of a sequence. */
    int64_t block_size RG_DEFAULT(1024);
    int64_t vocab_size RG_DEFAULT(50304);
    int64_t n_layer RG_DEFAULT(12);
    int64_t n_head RG_DEFAULT(12);
    int64_t n_embd RG_DEFAULT(768);
    double dropout RG_DEFAULT(0);
    bool bias RG_DEFAULT(true);
    /* Defaults are nanoGPT's; models of gpt_folder.h may differ. */
    int64_t n_inner RG_DEFAULT(0);           /* The width of c_fc; 0 stands for 4 n_embd. */
    bool gelu_tanh RG_DEFAULT(false);        /* Use the tanh approximation of GELU. */
    bool untied RG_DEFAULT(false);           /* Untie wte's and lm_head's weights. */
    double layer_norm_epsilon RG_DEFAULT(0); /* 0 stands for 1e-5. */
    /* The dropout of the sum of embeddings, and of attention weights; -1 stands for `dropout`. */
    double embd_dropout RG_DEFAULT(-1);
    double attn_dropout RG_DEFAULT(-1);
    /* The tokens that begin, end and pad a text; -1 or an empty list means none. The model doesn't
     * use them, but folders save them. */
    int64_t bos_token_id RG_DEFAULT(-1);
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
} rg_gpt_options;
typedef struct rg_gpt {
    rg_module base;
    struct rg_gpt_transformer *transformer; /* Has the fields wte, wpe, drop, h, ln_f. */
    rg_linear_module *lm_head;              /* Shares wte's weight, unless untied. */
    rg_gpt_options config;
    char *generation_config; /* The text of its folder's generation_config.json, or NULL. */
} rg_gpt;
rg_gpt *rg_nn_gpt_with(rg_gpt_options o);
#define rg_nn_gpt(...)                                                                         \
    rg_nn_gpt_with(RG_KEYWORDS(rg_gpt_options,                                                 \
                               (.block_size = 1024, .vocab_size = 50304, .n_layer = 12,        \
                                .n_head = 12, .n_embd = 768, .bias = true, .embd_dropout = -1, \
                                .attn_dropout = -1, .bos_token_id = -1, .pad_token_id = -1),   \
                               __VA_ARGS__))

/* A pair of results. On failure both tensors are NULL. Without targets the loss is RG_NONE. */
typedef struct rg_logits_loss {
    rg_tensor *logits, *loss;
} rg_logits_loss;
/* With targets, returns the logits of all positions and the mean cross-entropy, which ignores
 * targets of -1. Without targets (RG_NONE), returns the last position's logits, and RG_NONE as the
 * loss. */
rg_logits_loss rg_gpt_forward(rg_gpt *m, rg_tensor *idx, rg_tensor *targets);

/* Returns a cache for the keys and values of tokens, so that each token is read once. */
rg_tensor *rg_gpt_cache(rg_gpt *m, int64_t batch);
/* Returns the logits after the last token of idx, whose first token has this position. The cache
 * must hold all earlier positions, and then holds those of idx, too. No gradient flows. */
rg_tensor *rg_gpt_cached(rg_gpt *m, rg_tensor *idx, rg_tensor *cache, int64_t position);

typedef struct RG_OPTIONS rg_generate_options {
    RG_BY_NAME;
    double temperature RG_DEFAULT(1);      /* 0 takes the most likely token. */
    int64_t top_k RG_DEFAULT(0);           /* Keep the top_k most likely tokens; 0 keeps all. */
    double top_p RG_DEFAULT(1);            /* Keep tokens up to this total probability. */
    rg_generator *generator RG_DEFAULT(0); /* NULL stands for the default generator. */
    /* Tokens that end a row, 8 at most: RG_DIMS(50256), or a folder's model->config.eos_token_id.
     * Generation stops when all rows have ended; ended rows are padded with pad_token_id, where -1
     * stands for the first eos_token_id. */
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
    /* If this isn't NULL, it is called with each new token, (batch, 1). If it returns false,
     * generation stops. */
    bool (*each)(rg_tensor *token, void *context) RG_DEFAULT(NULL);
    void *context RG_DEFAULT(NULL);
} rg_generate_options;
/* Returns idx with max_new_tokens more tokens, or fewer if all rows end earlier. Logits are divided
 * by the temperature and filtered by top_k and then top_p, as in Hugging Face's transformers; then
 * a token is drawn. */
rg_tensor *rg_gpt_generate_with(rg_gpt *m, rg_tensor *idx, int64_t max_new_tokens,
                                rg_generate_options o);
#define rg_gpt_generate(m, idx, max_new_tokens, ...)                                     \
    rg_gpt_generate_with(m, idx, max_new_tokens,                                         \
                         RG_KEYWORDS(rg_generate_options,                                \
                                     (.temperature = 1, .top_p = 1, .pad_token_id = -1), \
                                     __VA_ARGS__))

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_gpt_cache(m, batch)                 rg_gpt_cache(m, RG_WHOLE(batch))
#define rg_gpt_cached(m, idx, cache, position) rg_gpt_cached(m, idx, cache, RG_WHOLE(position))
#define rg_gpt_generate_with(m, idx, max_new_tokens, ...) \
    rg_gpt_generate_with(m, idx, RG_WHOLE(max_new_tokens), __VA_ARGS__)

RG_PUBLIC_END
