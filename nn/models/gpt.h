/*
 * gpt.h: GPT of nanoGPT's shape, names and first weights, and generation from it.
 *
 *     rg_gpt *model = rg_nn_gpt(.block_size = 64, .vocab_size = 65, .n_layer = 4, .n_head = 4,
 *                               .n_embd = 128);
 *     rg_backward(rg_gpt_forward(model, idx, targets).loss);
 *     rg_tensor *more = rg_gpt_generate(model, idx, 100, .top_k = 10);
 *
 * rg_call(m, idx) returns the logits after the last of idx (batch, length), as nanoGPT does, and
 * rg_call(m, idx, targets) the loss. A forward hook of the model sees what rg_call returns, and the
 * logits where rg_gpt_forward is called.
 */
#pragma once

#include "../layers/layers.h"

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_gpt_options {
    RG_BY_NAME;
    /* A sequence has at most block_size tokens. */
    int64_t block_size RG_DEFAULT(1024);
    int64_t vocab_size RG_DEFAULT(50304);
    int64_t n_layer RG_DEFAULT(12);
    int64_t n_head RG_DEFAULT(12);
    int64_t n_embd RG_DEFAULT(768);
    double dropout RG_DEFAULT(0);
    bool bias RG_DEFAULT(true);
    /* The defaults of these are nanoGPT's; models of gpt_folder.h may have others. */
    int64_t n_inner RG_DEFAULT(0);           /* The width of c_fc; 0 stands for 4 n_embd. */
    bool gelu_tanh RG_DEFAULT(false);        /* The GELU is the one by way of tanh. */
    bool untied RG_DEFAULT(false);           /* wte and lm_head have weights of their own. */
    double layer_norm_epsilon RG_DEFAULT(0); /* 0 stands for 1e-5. */
    /* The dropout of the embeddings' sum and of attention's weights; -1 stands for `dropout`. */
    double embd_dropout RG_DEFAULT(-1);
    double attn_dropout RG_DEFAULT(-1);
    /* These tokens begin, end and fill up a text; -1, or a list of none, stands for no such token.
     * Nothing is done with them here, but folders keep them. */
    int64_t bos_token_id RG_DEFAULT(-1);
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
} rg_gpt_options;
typedef struct rg_gpt {
    rg_module base;
    struct rg_gpt_transformer *transformer; /* The fields are wte, wpe, drop, h, ln_f. */
    rg_linear_module *lm_head;              /* wte shares this weight, unless untied. */
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

/* Both tensors are NULL on failure. The loss is RG_NONE if no targets were given. */
typedef struct rg_logits_loss {
    rg_tensor *logits, *loss;
} rg_logits_loss;
/* With targets, returns the logits of all positions and the mean cross-entropy, in which a target
 * of -1 doesn't count. Without them (RG_NONE) returns the last logits, and RG_NONE as the loss. */
rg_logits_loss rg_gpt_forward(rg_gpt *m, rg_tensor *idx, rg_tensor *targets);

/* Returns a cache: room for the keys and values of what was read, so that it need not be read
 * again. */
rg_tensor *rg_gpt_cache(rg_gpt *m, int64_t batch);
/* Returns the logits after the last token of idx. idx begins at this position; the cache must hold
 * all positions before it, and holds those of idx afterwards. No gradient flows. */
rg_tensor *rg_gpt_cached(rg_gpt *m, rg_tensor *idx, rg_tensor *cache, int64_t position);

typedef struct RG_OPTIONS rg_generate_options {
    RG_BY_NAME;
    double temperature RG_DEFAULT(1);      /* At 0 the likeliest token is taken. */
    int64_t top_k RG_DEFAULT(0);           /* 0 stands for all tokens. */
    double top_p RG_DEFAULT(1);            /* The likeliest ones count that have this share. */
    rg_generator *generator RG_DEFAULT(0); /* NULL stands for the default one. */
    /* After one of these tokens, up to 8, a row ends: RG_DIMS(50256), or what a folder says,
     * model->config.eos_token_id. Generation ends with the last row; the others are filled up with
     * pad_token_id, where -1 stands for the first of eos_token_id. */
    rg_dims eos_token_id RG_DEFAULT({});
    int64_t pad_token_id RG_DEFAULT(-1);
    /* Each new token, (batch, 1), is shown to this function, if there is one, as it comes; where it
     * returns false, that token is the last. */
    bool (*each)(rg_tensor *token, void *context) RG_DEFAULT(NULL);
    void *context RG_DEFAULT(NULL);
} rg_generate_options;
/* Returns idx with max_new_tokens more tokens behind it, or with fewer, where all rows end before.
 * Logits are divided by the temperature, of
 * the top_k likeliest those are kept that make up top_p, as Hugging Face's transformers have it,
 * and one of them is drawn. */
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
