/*
 * gpt_generate.c: generates tokens with a GPT. The keys and values of earlier tokens are kept in a
 * cache.
 */
#include "gpt.h"
#include "sampling_given.h"
#include "nn/given.h"
#include "tensor/dtype.h"
#include "tensor/messages/callback.h"
#include "tensor/text/digits.h"

#include <math.h>

static rg_sample_options sampling_of(const rg_generate_options *o) {
    return (rg_sample_options){ .temperature = o->temperature,
                                .top_k = o->top_k,
                                .top_p = o->top_p,
                                .min_p = o->min_p,
                                .repetition_penalty = o->repetition_penalty,
                                .previous = RG_NONE,
                                .generator = o->generator };
}

static bool generate_check(rg_gpt *self, rg_tensor *idx, int64_t max_new_tokens,
                           const rg_generate_options *o) {
    if (!rgi_given(self, "gpt_generate", "a module") || !rg_check_tensor(idx, "gpt_generate"))
        return false;
    RG_FAIL_IF(rg_ndim(idx) != 2 || !rgi_is_index(rg_dtype_of(idx)), "gpt_generate",
               "expected idx of (batch, length) and dtype torch.int64, but got %s and %s",
               rg_repr_shape(idx), rg_dtype_name(rg_dtype_of(idx)));
    RG_FAIL_IF(max_new_tokens < 0, "gpt_generate", "max_new_tokens %lld is negative",
               (long long)max_new_tokens);
    RG_FAIL_IF(max_new_tokens > INT64_MAX - rg_size(idx, 1), "gpt_generate",
               "max_new_tokens %lld is too large", (long long)max_new_tokens);
    const rg_sample_options sampling = sampling_of(o);
    if (!rgi_sampling_given("gpt_generate", &sampling))
        return false;
    RG_FAIL_VALUE_IF(o->eos_token_id.n < 0 || o->eos_token_id.n > RG_MAX_DIMS, "gpt_generate",
                     "expected up to %d tokens as eos_token_id, but got %d", RG_MAX_DIMS,
                     o->eos_token_id.n);
    const int64_t vocabulary = self->config.vocab_size;
    for (int i = 0; i < o->eos_token_id.n; i++)
        RG_FAIL_VALUE_IF(o->eos_token_id.v[i] < 0 || o->eos_token_id.v[i] >= vocabulary,
                         "gpt_generate", "eos_token_id %lld is not from 0 to %lld",
                         (long long)o->eos_token_id.v[i], (long long)vocabulary - 1);
    RG_FAIL_VALUE_IF(o->pad_token_id < -1 || o->pad_token_id >= vocabulary, "gpt_generate",
                     "pad_token_id %lld is not from 0 to %lld", (long long)o->pad_token_id,
                     (long long)vocabulary - 1);
    return true;
}

/* Returns the logits for the token at position t, as (batch, 1, vocab_size). The first t positions
 * of `all` hold tokens, and the cache holds the keys and values of the tokens before position
 * `read`. If t is larger than block_size, the model can only read the last block_size tokens. Then
 * every token has another position than in the call before, so the cache can't be used. */
static rg_tensor *generate_logits(rg_gpt *self, rg_tensor *all, rg_tensor *cache, int64_t read,
                                  int64_t t) {
    int64_t block = self->config.block_size;
    if (t > block)
        return rg_call(self, rg_narrow(all, 1, t - block, block));
    return rg_gpt_cached(self, rg_narrow(all, 1, read, t - read), cache, read);
}

/* Returns the new tokens `next`, with the padding token in the rows that have ended already. Marks
 * the rows whose token is one of eos_token_id in `ended`. If eos_token_id is empty, no row ends,
 * and `next` is returned unchanged. Returns NULL on failure. */
static rg_tensor *generate_fill(rg_tensor *next, rg_tensor *ended, const rg_generate_options *o) {
    const rg_dims *eos = &o->eos_token_id;
    if (eos->n == 0)
        return next;
    next = rg_masked_fill(next, ended, o->pad_token_id < 0 ? eos->v[0] : o->pad_token_id);
    rg_tensor *ends = ended;
    for (int i = 0; i < eos->n; i++)
        ends = rg_logical_or(ends, rg_eq(next, eos->v[i]));
    return rg_copy_(ended, ends) ? next : NULL;
}

/* Sets *all to true if all rows have ended, and to false if not or if there are no rows. Returns
 * false if memory runs out. */
static bool have_ended(rg_tensor *ended, bool *all) {
    RG_SCOPE();
    const double each = rg_item(rg_all(ended));
    *all = rg_numel(ended) > 0 && each == 1;
    return !isnan(each);
}

rg_tensor *(rg_gpt_generate_with)(rg_gpt *self, rg_tensor *idx, int64_t max_new_tokens,
                                  rg_generate_options o) {
    if (!generate_check(self, idx, max_new_tokens, &o))
        return NULL;
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t length = rg_size(idx, 1), read = 0;
    rg_sample_options sampling = sampling_of(&o);
    rg_tensor *cache = rg_gpt_cache(self, rg_size(idx, 0)), *all = rg_pad(idx, 0, max_new_tokens);
    rg_tensor *ended = rg_zeros_dims(RG_DIMS(rg_size(idx, 0), 1), RG_BOOL);
    bool ok = cache && all && ended;
    int64_t end = ok ? rg_size(all, 1) : 0;
    const char *user = rgi_module_begin_use(&self->base, "gpt_generate");
    RG_FOR (int64_t t = length; ok && t < end; t++) {
        rg_tensor *logits = generate_logits(self, all, cache, read, t);
        sampling.previous = rg_narrow(all, 1, 0, t);
        rg_tensor *drawn = rg_sample_logits_with(rg_select(logits, 1, -1), sampling);
        rg_tensor *next = generate_fill(drawn, ended, &o);
        bool over = false;
        ok = rg_copy_(rg_narrow(all, 1, t, 1), next) && have_ended(ended, &over);
        read = t;
        const int64_t before = rgi_failures();
        if (ok && ((o.each && !o.each(next, o.context)) || over))
            end = t + 1;
        ok = ok && rgi_left_no_failure(before, "gpt_generate");
    }
    rgi_module_end_use(&self->base, user);
    if (ok && end < rg_size(all, 1))
        all = rg_clone(rg_narrow(all, 1, 0, end));
    return ok ? rg_escape(all) : NULL;
}
