/*
 * gpt.c: GPT: a decoder of nanoGPT's shape, and generation from it.
 */
#include "transformer.h"
#include "init.h"
#include "tensor/internal.h"

#include <math.h>

typedef struct {
    rg_module base;
    rg_linear_module *c_attn, *c_proj;
    rg_plain_module *attn_dropout, *resid_dropout;
    int64_t n_head;
} gpt_attention;
typedef struct {
    rg_module base;
    rg_linear_module *c_fc, *c_proj;
    rg_plain_module *gelu, *dropout;
} gpt_mlp;
typedef struct {
    rg_module base;
    rg_norm_module *ln_1, *ln_2;
    gpt_attention *attn;
    gpt_mlp *mlp;
} gpt_block;
struct rg_gpt_transformer {
    rg_module base;
    rg_embedding_module *wte, *wpe;
    rg_plain_module *drop;
    rg_module_list *h;
    rg_norm_module *ln_f;
};

/* ---- forward --------------------------------------------------------------------- */

/* x: (batch, t, embd), at this position. The cache, keys and values: (2, batch, heads, block, size
 * of a head); or RG_NONE. */
static rg_tensor *gpt_attend(gpt_attention *self, rg_tensor *x, rg_tensor *cache,
                             int64_t position) {
    rg_tensor *all = rg_call(self->c_attn, x), *part[3], *mask = RG_NONE, *y;
    if (!all)
        return NULL;
    int64_t t = all->size[1], heads = self->n_head;
    double dropout = self->base.training ? self->attn_dropout->a : 0;
    if (cache == RG_NONE && dropout == 0)
        y = rg_joint_attention(all, heads, true);
    else {
        /* (3, batch, heads, t, size) */
        all = rg_permute(rg_unflatten(all, 2, RG_DIMS(3, heads, -1)), 2, 0, 3, 1, 4);
        for (int i = 0; i < 3; i++) {
            part[i] = rg_select(all, 0, i);
            if (i == 0 || cache == RG_NONE)
                continue;
            rg_tensor *own = rg_select(cache, 0, i - 1);
            part[i] = rg_copy_(rg_narrow(own, 2, position, t), part[i])
                          ? rg_narrow(own, 2, 0, position + t)
                          : NULL;
        }
        if (position > 0 && t > 1)
            mask = rg_tril(rg_ones_dims(RG_DIMS(t, position + t), RG_BOOL), position);
        y = rg_scaled_dot_product_attention(part[0], part[1], part[2], .attn_mask = mask,
                                            .is_causal = position == 0, .dropout_p = dropout);
        y = rg_flatten(rg_transpose(y, 1, 2), 2, 3);
    }
    return rg_call(self->resid_dropout, rg_call(self->c_proj, y));
}

static rg_tensor *gpt_attention_forward(rg_module *m, rg_tensor *x) {
    return gpt_attend((gpt_attention *)m, x, RG_NONE, 0);
}

static rg_tensor *gpt_mlp_forward(rg_module *m, rg_tensor *x) {
    gpt_mlp *self = (gpt_mlp *)m;
    return rg_call(self->dropout,
                   rg_call(self->c_proj, rg_call(self->gelu, rg_call(self->c_fc, x))));
}

static rg_tensor *gpt_block_cached(gpt_block *self, rg_tensor *x, rg_tensor *cache,
                                   int64_t position) {
    rg_tensor *y = rg_call(self->ln_1, x);
    x = rg_add(x, cache == RG_NONE ? rg_call(self->attn, y)
                                   : gpt_attend(self->attn, y, cache, position));
    return rg_add(x, rg_call(self->mlp, rg_call(self->ln_2, x)));
}

static rg_tensor *gpt_block_forward(rg_module *m, rg_tensor *x) {
    return gpt_block_cached((gpt_block *)m, x, RG_NONE, 0);
}

/* The logits after each of idx, or only after the last. */
static rg_tensor *gpt_logits(rg_gpt *self, rg_tensor *idx, rg_tensor *cache, int64_t position,
                             bool last) {
    if (!rgi_given(self, "gpt", "a module") || !rgi_check(idx, "gpt"))
        return NULL;
    const struct rg_gpt_transformer *g = self->transformer;
    RG_FAIL_IF(idx->ndim != 2 || idx->size[1] == 0, "gpt",
               "expected idx of (batch, length), but got %s", rg_repr_shape(idx));
    int64_t t = idx->size[1];
    RG_FAIL_IF(position < 0 || position > self->config.block_size - t, "gpt",
               "Cannot forward sequence of length %lld, block size is only %lld",
               (long long)t + position, (long long)self->config.block_size);
    rg_tensor *x = rg_call(g->drop,
                           rg_add(rg_call(g->wte, idx), rg_narrow(g->wpe->weight, 0, position, t)));
    for (int i = 0; i < g->h->n && x; i++) {
        if (cache == RG_NONE)
            x = rg_call(g->h->v[i], x);
        else
            x = gpt_block_cached((gpt_block *)g->h->v[i], x, rg_select(cache, 0, i), position);
    }
    x = rg_call(g->ln_f, x);
    return rg_call(self->lm_head, last ? rg_narrow(x, 1, t - 1, 1) : x);
}

rg_logits_loss rg_gpt_forward(rg_gpt *self, rg_tensor *idx, rg_tensor *targets) {
    RG_SCOPE();
    rg_tensor *logits = gpt_logits(self, idx, RG_NONE, 0, targets == RG_NONE), *loss = RG_NONE;
    if (logits && targets != RG_NONE)
        loss = rg_cross_entropy(rg_flatten(logits, 0, 1), rg_reshape(targets, -1),
                                .ignore_index = -1);
    if (!logits || !loss)
        return (rg_logits_loss){ NULL, NULL };
    return (rg_logits_loss){ rg_escape(logits), rg_escape(loss) };
}

static rg_tensor *gpt_forward(rg_module *m, rg_tensor *idx) {
    return rg_gpt_forward((rg_gpt *)m, idx, RG_NONE).logits;
}
static rg_tensor *gpt_loss(rg_module *m, rg_tensor *idx, rg_tensor *targets) {
    return rg_gpt_forward((rg_gpt *)m, idx, targets).loss;
}

/* ---- generation ------------------------------------------------------------------ */

rg_tensor *rg_gpt_cache(rg_gpt *self, int64_t batch) {
    if (!rgi_given(self, "gpt_cache", "a module"))
        return NULL;
    RG_AS("gpt_cache");
    const rg_gpt_options *o = &self->config;
    return rg_zeros_dims(
        RG_DIMS(o->n_layer, 2, batch, o->n_head, o->block_size, o->n_embd / o->n_head),
        self->lm_head->weight->dtype);
}

rg_tensor *rg_gpt_cached(rg_gpt *self, rg_tensor *idx, rg_tensor *cache, int64_t position) {
    RG_SCOPE();
    RG_NO_GRAD();
    if (!rgi_given(self, "gpt_cached", "a module") || !rgi_check(cache, "gpt_cached"))
        return NULL;
    return rg_escape(gpt_logits(self, idx, cache, position, true));
}

rg_tensor *rg_gpt_generate_with(rg_gpt *self, rg_tensor *idx, int64_t max_new_tokens,
                                rg_generate_options o) {
    if (!rgi_given(self, "gpt_generate", "a module") || !rgi_check(idx, "gpt_generate"))
        return NULL;
    RG_FAIL_IF(idx->ndim != 2 || idx->dtype != RG_INT64, "gpt_generate",
               "expected idx of (batch, length) and dtype torch.int64, but got %s and %s",
               rg_repr_shape(idx), rg_dtype_name(idx->dtype));
    RG_FAIL_IF(max_new_tokens < 0, "gpt_generate", "max_new_tokens %lld is negative",
               (long long)max_new_tokens);
    RG_FAIL_IF(o.top_k < 0, "gpt_generate", "top_k %lld is negative", (long long)o.top_k);
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t length = idx->size[1], block = self->config.block_size, read = 0;
    int64_t k = RG_MIN(o.top_k, self->config.vocab_size);
    rg_generator *generator = o.generator ? o.generator : rg_default_generator();
    rg_tensor *cache = rg_gpt_cache(self, idx->size[0]), *all = rg_pad(idx, 0, max_new_tokens);
    bool ok = cache && all;
    RG_FOR (int64_t t = length; ok && t < length + max_new_tokens; t++) {
        /* all positions are others now: the cache no longer counts */
        bool whole = t > block;
        rg_tensor *logits =
            whole ? gpt_logits(self, rg_narrow(all, 1, t - block, block), RG_NONE, 0, true)
                  : rg_gpt_cached(self, rg_narrow(all, 1, read, t - read), cache, read);
        read = t;
        logits = rg_div(rg_select(logits, 1, -1), o.temperature);
        if (k) {
            rg_tensor *least = rg_narrow(rg_topk(logits, k, -1, true, true).values, 1, k - 1, 1);
            logits = rg_masked_fill(logits, rg_lt(logits, least), -INFINITY);
        }
        rg_tensor *next = rg_multinomial_with(rg_softmax(logits, -1), 1, false, generator);
        ok = rg_copy_(rg_narrow(all, 1, t, 1), next);
    }
    return ok ? rg_escape(all) : NULL;
}

/* ---- constructors, in the order in which nanoGPT draws --------------------------- */

static const rg_module_class gpt_attention_class = { .name = "CausalSelfAttention",
                                                     .forward = gpt_attention_forward };
static const rg_module_class gpt_mlp_class = { .name = "MLP", .forward = gpt_mlp_forward };
static const rg_module_class gpt_block_class = { .name = "Block", .forward = gpt_block_forward };
static const rg_module_class gpt_transformer_class = { .name = "ModuleDict" };
static const rg_module_class gpt_class = { .name = "GPT",
                                           .forward = gpt_forward,
                                           .forward2 = gpt_loss };

static rg_module *gpt_block_new(const rg_gpt_options *o) {
    gpt_block *self = RG_MODULE(gpt_block, &gpt_block_class);
    if (!self)
        return NULL;
    gpt_attention *attn = RG_MODULE(gpt_attention, &gpt_attention_class, .n_head = o->n_head);
    RG_CHILD(attn, c_attn, rg_nn_linear(o->n_embd, 3 * o->n_embd, .bias = o->bias));
    RG_CHILD(attn, c_proj, rg_nn_linear(o->n_embd, o->n_embd, .bias = o->bias));
    RG_CHILD(attn, attn_dropout, rg_nn_dropout(o->dropout));
    RG_CHILD(attn, resid_dropout, rg_nn_dropout(o->dropout));
    gpt_mlp *mlp = RG_MODULE(gpt_mlp, &gpt_mlp_class);
    RG_CHILD(mlp, c_fc, rg_nn_linear(o->n_embd, 4 * o->n_embd, .bias = o->bias));
    RG_CHILD(mlp, gelu, rg_nn_gelu());
    RG_CHILD(mlp, c_proj, rg_nn_linear(4 * o->n_embd, o->n_embd, .bias = o->bias));
    RG_CHILD(mlp, dropout, rg_nn_dropout(o->dropout));
    RG_CHILD(self, ln_1, rg_nn_layer_norm(o->n_embd, .bias = o->bias));
    RG_CHILD(self, attn, RG_READY(attn));
    RG_CHILD(self, ln_2, rg_nn_layer_norm(o->n_embd, .bias = o->bias));
    RG_CHILD(self, mlp, RG_READY(mlp));
    return rg_module_ready(self);
}

rg_gpt *rg_nn_gpt_with(rg_gpt_options o) {
    RG_AS("gpt");
    RG_FAIL_VALUE_IF(o.n_embd <= 0 || o.n_embd > INT32_MAX, "gpt", "n_embd can't be %lld",
                     (long long)o.n_embd);
    RG_FAIL_VALUE_IF(o.n_layer < 0 || o.n_layer > INT16_MAX, "gpt", "n_layer can't be %lld",
                     (long long)o.n_layer);
    RG_FAIL_VALUE_IF(o.n_head <= 0 || o.n_embd % o.n_head, "gpt",
                     "n_embd %lld must be divisible by n_head %lld", (long long)o.n_embd,
                     (long long)o.n_head);
    RG_SCOPE();
    rg_gpt *self = RG_MODULE(rg_gpt, &gpt_class, .config = o);
    if (!self)
        return NULL;
    struct rg_gpt_transformer *g = RG_MODULE(struct rg_gpt_transformer, &gpt_transformer_class);
    RG_CHILD(g, wte, rg_nn_embedding(o.vocab_size, o.n_embd));
    RG_CHILD(g, wpe, rg_nn_embedding(o.block_size, o.n_embd));
    RG_CHILD(g, drop, rg_nn_dropout(o.dropout));
    rg_module **blocks =
        (rg_module **)(void *)rgi_own_string((size_t)o.n_layer * sizeof *blocks + 1);
    for (int64_t i = 0; g && blocks && i < o.n_layer; i++)
        blocks[i] = gpt_block_new(&o);
    RG_CHILD(g, h, blocks ? rg_nn_module_list_of((int)o.n_layer, blocks) : NULL);
    RG_CHILD(g, ln_f, rg_nn_layer_norm(o.n_embd, .bias = o.bias));
    RG_CHILD(self, transformer, RG_READY(g));
    RG_CHILD(self, lm_head, rg_nn_linear(o.n_embd, o.vocab_size, .bias = false));
    if (!(self = RG_READY(self)))
        return NULL;
    bool ok = rg_tie(&g->wte->weight, self->lm_head->weight);
    rg_named_list all = rg_state_dict(self);
    /* N(0, 0.02), the tied weight twice; then less where x is added to */
    for (int i = 0; i < 2 * all.n && ok; i++) {
        rg_named p = all.v[i % all.n];
        if (i >= all.n && strstr(p.name, "c_proj.weight"))
            ok = rg_nn_init_normal_(p.tensor, 0, 0.02 / sqrt(2 * (double)o.n_layer));
        else if (i < all.n && p.tensor->ndim == 2)
            ok = rg_nn_init_normal_(p.tensor, 0, 0.02);
        else if (i < all.n && strstr(p.name, ".bias"))
            ok = rg_nn_init_zeros_(p.tensor);
    }
    if (ok && all.n > 0)
        return self;
    rg_module_free(self);
    return NULL;
}
