/*
 * gpt_generate.c: tokens that a GPT puts after those it is given. Keys and values of what was read
 * stay in a cache.
 */
#include "gpt.h"
#include "tensor/error.h"
#include "tensor/structs.h"

#include <math.h>

rg_tensor *rg_gpt_cache(rg_gpt *self, int64_t batch) {
    if (!rgi_given(self, "gpt_cache", "a module"))
        return NULL;
    RG_AS("gpt_cache");
    const rg_gpt_options *o = &self->config;
    rg_dims shape = RG_DIMS(o->n_layer, 2, batch, o->n_head, o->block_size, o->n_embd / o->n_head);
    return rg_zeros_dims(shape, self->lm_head->weight->dtype);
}

static bool generate_check(rg_gpt *self, rg_tensor *idx, int64_t max_new_tokens,
                           const rg_generate_options *o) {
    if (!rgi_given(self, "gpt_generate", "a module") || !rgi_check(idx, "gpt_generate"))
        return false;
    RG_FAIL_IF(idx->ndim != 2 || idx->dtype != RG_INT64, "gpt_generate",
               "expected idx of (batch, length) and dtype torch.int64, but got %s and %s",
               rg_repr_shape(idx), rg_dtype_name(idx->dtype));
    RG_FAIL_IF(max_new_tokens < 0, "gpt_generate", "max_new_tokens %lld is negative",
               (long long)max_new_tokens);
    RG_FAIL_IF(o->top_k < 0, "gpt_generate", "top_k %lld is negative", (long long)o->top_k);
    return true;
}

/* Returns the logits (batch, 1, vocabulary) of the token at t; the cache holds the tokens before
 * `read`. Once more than block_size tokens stand before t, the window moves: each token's position
 * changes, and the cache is of no more use. */
static rg_tensor *generate_logits(rg_gpt *self, rg_tensor *all, rg_tensor *cache, int64_t read,
                                  int64_t t) {
    int64_t block = self->config.block_size;
    if (t > block)
        return rg_call(self, rg_narrow(all, 1, t - block, block));
    return rg_gpt_cached(self, rg_narrow(all, 1, read, t - read), cache, read);
}

/* Draws a token (batch, 1), of the top_k likeliest ones if that isn't 0. */
static rg_tensor *generate_draw(rg_tensor *logits, double temperature, int64_t top_k,
                                rg_generator *generator) {
    logits = rg_div(rg_select(logits, 1, -1), temperature);
    if (top_k) {
        rg_tensor *top = rg_topk(logits, top_k, -1, true, true).values;
        rg_tensor *least = rg_narrow(top, 1, top_k - 1, 1);
        logits = rg_masked_fill(logits, rg_lt(logits, least), -INFINITY);
    }
    return rg_multinomial_with(rg_softmax(logits, -1), 1, false, generator);
}

rg_tensor *rg_gpt_generate_with(rg_gpt *self, rg_tensor *idx, int64_t max_new_tokens,
                                rg_generate_options o) {
    if (!generate_check(self, idx, max_new_tokens, &o))
        return NULL;
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t length = idx->size[1], read = 0;
    int64_t top_k = RG_MIN(o.top_k, self->config.vocab_size);
    rg_generator *generator = o.generator ? o.generator : rg_default_generator();
    rg_tensor *cache = rg_gpt_cache(self, idx->size[0]), *all = rg_pad(idx, 0, max_new_tokens);
    bool ok = cache && all;
    RG_FOR (int64_t t = length; ok && t < length + max_new_tokens; t++) {
        rg_tensor *logits = generate_logits(self, all, cache, read, t);
        rg_tensor *next = generate_draw(logits, o.temperature, top_k, generator);
        ok = rg_copy_(rg_narrow(all, 1, t, 1), next);
        read = t;
    }
    return ok ? rg_escape(all) : NULL;
}
