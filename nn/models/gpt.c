/*
 * gpt.c: GPT, a decoder with nanoGPT's structure: its blocks, its forward and its constructor.
 * Generation is in gpt_generate.c.
 */
#include "gpt.h"
#include "gpt_points.h"
#include "tensor/error.h"
#include "nn/containers.h"
#include "nn/layers/child.h"
#include "nn/layers/init.h"
#include "nn/layers/multihead.h"
#include "nn/given.h"
#include "tensor/text/text.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

/* The modules of a GPT. Their fields have nanoGPT's names. In attention, c_attn computes queries,
 * keys and values. In the MLP, c_fc computes the hidden layer. In both, c_proj computes the output,
 * of size n_embd. wte and wpe are the embeddings of tokens and of positions, h is the list of
 * blocks, and ln_f the last norm. */
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

/* The arguments that the forward of a block or of attention takes beside x (its keywords).
 * `position` is the position of x's first token. `cache` has the keys and values of the tokens
 * before that position; a block gets only its own part of the model's cache. If `cache` is RG_NONE,
 * x is the whole sequence. */
typedef struct {
    rg_tensor *cache;
    int64_t position;
} cached_keywords;
/* The keywords of the model's forward. `loss` is a result: the forward stores the loss there if it
 * is given targets. */
typedef struct {
    cached_keywords cached;
    rg_tensor *loss;
} gpt_keywords;
static const cached_keywords from_the_start = { RG_NONE, 0 };

struct rg_gpt_transformer {
    rg_module base;
    rg_embedding_module *wte, *wpe;
    rg_plain_module *drop;
    rg_module_list *h;
    rg_norm_module *ln_f;
};

static const rg_module_class gpt_class, gpt_transformer_class;

static bool is_gpt_transformer(const rg_module *m) { return m->cls == &gpt_transformer_class; }

/* Calls the hooks of the point `name` (a named value inside the model, see points.h) with x.
 * Returns x, or the tensor by which a hook replaced it. */
static inline rg_tensor *gpt_point(rg_module *m, const char *name, rg_tensor *x) {
    return rgi_has_hook_scope() ? rgi_gpt_point(&gpt_class, m, name, x) : x;
}

static rg_tensor *gpt_normalized(rg_norm_module *norm, rg_tensor *x) {
    return gpt_point(&norm->base, "hook_normalized", rg_call(norm, x));
}

/* ---- the forward of a block ---------------------------------------------------- */

/* Writes the keys or values x of t tokens, (batch, heads, t, head size), into the cache, (batch,
 * heads, block_size, head size), from `position` on. Returns a view of the part of the cache that
 * is filled now: positions 0 to position + t - 1. Returns NULL on failure. */
static rg_tensor *gpt_remember(rg_tensor *cache, rg_tensor *x, int64_t position, int64_t t) {
    if (!rg_copy_(rg_narrow(cache, 2, position, t), x))
        return NULL;
    return rg_narrow(cache, 2, 0, position + t);
}

/* Computes causal attention in several ops, so that hooks can see the values in between. qkv has
 * the queries of t tokens from `position` on, and the keys and values of these and all earlier
 * tokens. */
static rg_tensor *gpt_attend_by_steps(gpt_attention *self, rg_tensor *const qkv[3], double dropout,
                                      int64_t t, int64_t position) {
    rg_tensor *causal = rg_full_dims(RG_DIMS(t, position + t), -INFINITY, rg_dtype_of(qkv[0]));
    causal = rg_triu(causal, (int)position + 1);
    return rgi_attend_by_steps(&self->base, gpt_point, qkv[0], qkv[1], qkv[2], causal, dropout)
        .output;
}

/* Computes attention for t tokens from `position` on. `all`, of shape (batch, t, 3 * n_embd), has
 * their queries, keys and values. The cache, of shape (2, batch, heads, block_size, head size), has
 * the keys and then the values of the earlier tokens. The keys and values of the t tokens are
 * written to it. If `cache` is RG_NONE, there are no earlier tokens. */
static rg_tensor *gpt_attend_to(gpt_attention *self, rg_tensor *all, double dropout,
                                rg_tensor *cache, int64_t position, bool by_steps) {
    int64_t t = rg_size(all, 1);
    /* Reshape `all` to (3, batch, heads, t, head size). */
    all = rg_permute(rg_unflatten(all, 2, RG_DIMS(3, self->n_head, -1)), 2, 0, 3, 1, 4);
    rg_tensor *q = rg_select(all, 0, 0), *k = rg_select(all, 0, 1), *v = rg_select(all, 0, 2);
    if (cache != RG_NONE) {
        k = gpt_remember(rg_select(cache, 0, 0), k, position, t);
        v = gpt_remember(rg_select(cache, 0, 1), v, position, t);
    }
    if (!q || !k || !v)
        return NULL;
    rg_tensor *mask = RG_NONE, *y;
    if (position > 0 && t > 1)
        mask = rg_tril(rg_ones_dims(RG_DIMS(t, position + t), RG_BOOL), position);
    if (by_steps)
        y = gpt_attend_by_steps(self, (rg_tensor *[]){ q, k, v }, dropout, t, position);
    else
        y = rg_scaled_dot_product_attention(q, k, v, .attn_mask = mask, .is_causal = position == 0,
                                            .dropout_p = dropout);
    return rg_flatten(rg_transpose(y, 1, 2), 2, 3);
}

/* Returns whether a hook is registered for a value inside attention. If there is one, attention
 * must run in several ops, because a single op doesn't show such values. */
static bool gpt_is_awaited(gpt_attention *self) {
    return rgi_has_hook_scope()
           && rgi_gpt_is_awaited(&gpt_class, &self->base, rgi_attention_points);
}

/* Applies c_proj to y, (batch, t, n_embd). If a hook is registered for hook_result, computes each
 * head's contribution to the result separately, calls the hook with the contributions, and returns
 * their sum plus the bias. */
static rg_tensor *gpt_project(gpt_attention *self, rg_tensor *y) {
    static const char *const names[] = { "hook_result", NULL };
    const rg_linear_module *c = self->c_proj;
    if (!rgi_has_hook_scope() || !rgi_gpt_is_awaited(&gpt_class, &self->base, names))
        return rg_call(self->c_proj, y);
    if (!rgi_want_linear("gpt", "c_proj", c))
        return NULL;
    rg_tensor *z = rg_transpose(rg_unflatten(y, 2, RG_DIMS(self->n_head, -1)), 1, 2);
    rg_tensor *weight = rg_unflatten(c->weight, 1, RG_DIMS(self->n_head, -1));
    rg_tensor *each = rg_matmul(z, rg_permute(weight, 1, 2, 0));
    each = gpt_point(&self->base, "hook_result", rg_transpose(each, 1, 2));
    rg_tensor *sum = rg_sum_dim(each, 2, false);
    return c->bias == RG_NONE ? sum : rg_add(sum, c->bias);
}

/* Runs attention on x, (batch, t, n_embd). */
static rg_tensor *gpt_attend(rg_module *m, rg_tensor *x, const cached_keywords *k) {
    gpt_attention *self = (gpt_attention *)m;
    rg_tensor *all = rg_call(self->c_attn, x);
    if (!all)
        return NULL;
    double dropout = rgi_dropout_of("gpt", "attn_dropout", self->attn_dropout);
    if (isnan(dropout))
        return NULL;
    if (!self->base.training)
        dropout = 0;
    bool by_steps = gpt_is_awaited(self);
    rg_tensor *y = k->cache == RG_NONE && dropout == 0 && !by_steps
                       ? rg_joint_attention(all, self->n_head, true)
                       : gpt_attend_to(self, all, dropout, k->cache, k->position, by_steps);
    return rg_call(self->resid_dropout, gpt_project(self, y));
}

static rg_tensor *gpt_attention_forward(rg_module *m, rg_tensor *x) {
    return gpt_attend(m, x, &from_the_start);
}

static rg_tensor *gpt_attention_forward_with(rg_module *m, rg_list in, void *keywords) {
    return in.n == 1 ? gpt_attend(m, in.v[0], keywords) : rgi_fail_for_inputs(m->cls, in.n);
}

static rg_tensor *gpt_mlp_forward(rg_module *m, rg_tensor *x) {
    gpt_mlp *self = (gpt_mlp *)m;
    rg_tensor *hidden = gpt_point(m, "hook_pre", rg_call(self->c_fc, x));
    hidden = gpt_point(m, "hook_post", rg_call(self->gelu, hidden));
    return rg_call(self->dropout, rg_call(self->c_proj, hidden));
}

static rg_tensor *gpt_block_run(rg_module *m, rg_tensor *x, const cached_keywords *k) {
    gpt_block *self = (gpt_block *)m;
    cached_keywords own = *k;
    x = gpt_point(m, "hook_resid_pre", x);
    rg_tensor *y = gpt_normalized(self->ln_1, x);
    y = own.cache == RG_NONE ? rg_call(self->attn, y) : rg_call_keywords(self->attn, &own, y);
    x = gpt_point(m, "hook_resid_mid", rg_add(x, gpt_point(m, "hook_attn_out", y)));
    y = gpt_point(m, "hook_mlp_out", rg_call(self->mlp, gpt_normalized(self->ln_2, x)));
    return gpt_point(m, "hook_resid_post", rg_add(x, y));
}

static rg_tensor *gpt_block_forward(rg_module *m, rg_tensor *x) {
    return gpt_block_run(m, x, &from_the_start);
}

static rg_tensor *gpt_block_forward_with(rg_module *m, rg_list in, void *keywords) {
    return in.n == 1 ? gpt_block_run(m, in.v[0], keywords) : rgi_fail_for_inputs(m->cls, in.n);
}

/* ---- the forward of the model -------------------------------------------------- */

/* Fails and returns false unless idx is (batch, length) with length > 0, `position` isn't negative,
 * and position + length is at most block_size. */
static bool gpt_check_idx(const rg_gpt *self, rg_tensor *idx, int64_t position) {
    if (!rg_check_tensor(idx, "gpt"))
        return false;
    RG_FAIL_IF(rg_ndim(idx) != 2 || rg_size(idx, 1) == 0, "gpt",
               "expected idx of (batch, length), with a length of at least 1, but got %s",
               rg_repr_shape(idx));
    int64_t t = rg_size(idx, 1);
    RG_FAIL_IF(position < 0, "gpt", "the position %lld is negative", (long long)position);
    RG_FAIL_IF(position > self->config.block_size - t, "gpt",
               "Cannot forward sequence of length %llu, block size is only %lld",
               (unsigned long long)t + (unsigned long long)position,
               (long long)self->config.block_size);
    return true;
}

/* Returns the sum of the token embeddings of idx and the position embeddings of `where`, which has
 * the positions of idx's tokens. */
static rg_tensor *gpt_embed(rg_gpt *self, rg_tensor *idx, rg_tensor *where) {
    const struct rg_gpt_transformer *g = self->transformer;
    rg_tensor *tokens = gpt_point(&self->base, "hook_embed", rg_call(g->wte, idx));
    rg_tensor *places = rg_call(g->wpe, where);
    if (rgi_has_hook_scope())
        places = gpt_point(&self->base, "hook_pos_embed", rg_expand_as(places, tokens));
    return rg_add(tokens, places);
}

/* Returns the logits after each token of idx or, if `last` is true, only those after the last
 * token. Returns NULL on failure. */
static rg_tensor *gpt_logits(rg_gpt *self, rg_tensor *idx, const cached_keywords *k, bool last) {
    const struct rg_gpt_transformer *g = self->transformer;
    if (!gpt_check_idx(self, idx, k->position)
        || !rgi_want_child("gpt", "transformer", g, is_gpt_transformer, "ModuleDict of GPT")
        || !rgi_want_layers("gpt", "h", g->h))
        return NULL;
    int64_t t = rg_size(idx, 1);
    rg_tensor *where = rg_arange_step(k->position, k->position + t, 1);
    rg_tensor *x = rg_call(g->drop, gpt_embed(self, idx, where));
    for (int i = 0; i < g->h->n && x; i++) {
        if (k->cache == RG_NONE) {
            x = rg_call(g->h->v[i], x);
            continue;
        }
        cached_keywords own = { rg_select(k->cache, 0, i), k->position };
        x = rg_call_keywords(g->h->v[i], &own, x);
    }
    x = gpt_normalized(g->ln_f, x);
    return rg_call(self->lm_head, last ? rg_narrow(x, 1, t - 1, 1) : x);
}

static rg_tensor *gpt_run(rg_module *m, rg_tensor *idx, rg_tensor *targets, gpt_keywords *k) {
    bool trains = targets != RG_NONE;
    rg_tensor *logits = gpt_logits((rg_gpt *)m, idx, &k->cached, !trains);
    if (!logits || !trains)
        return logits;
    rg_tensor *loss = rg_cross_entropy(rg_flatten(logits, 0, 1), rg_reshape(targets, -1),
                                       .ignore_index = -1);
    if (!loss)
        return NULL;
    k->loss = rg_escape(loss);
    return logits;
}

static rg_tensor *gpt_forward(rg_module *m, rg_tensor *idx) {
    return gpt_logits((rg_gpt *)m, idx, &from_the_start, true);
}

static rg_tensor *gpt_forward_loss(rg_module *m, rg_tensor *idx, rg_tensor *targets) {
    RG_SCOPE();
    gpt_keywords k = { from_the_start, RG_NONE };
    return gpt_run(m, idx, targets, &k) ? k.loss : NULL;
}

static rg_tensor *gpt_forward_with(rg_module *m, rg_list in, void *keywords) {
    if (in.n != 1 && in.n != 2)
        return rgi_fail_for_inputs(m->cls, in.n);
    return gpt_run(m, in.v[0], in.n == 2 ? in.v[1] : RG_NONE, keywords);
}

rg_logits_loss(rg_gpt_forward)(rg_gpt *self, rg_tensor *idx, rg_tensor *targets) {
    const rg_logits_loss failed = { NULL, NULL };
    if (!rgi_module_given((rg_module *)self, "gpt"))
        return failed;
    gpt_keywords k = { from_the_start, RG_NONE };
    rg_tensor *logits = targets == RG_NONE ? rg_call_keywords(self, &k, idx)
                                           : rg_call_keywords(self, &k, idx, targets);
    return logits ? (rg_logits_loss){ logits, k.loss } : failed;
}

static rg_dims gpt_cache_shape(const rg_gpt *self, int64_t batch) {
    const rg_gpt_options *o = &self->config;
    return RG_DIMS(o->n_layer, 2, batch, o->n_head, o->block_size, o->n_embd / o->n_head);
}

rg_tensor *(rg_gpt_cache)(rg_gpt *self, int64_t batch) {
    if (!rgi_given(self, "gpt_cache", "a module"))
        return NULL;
    RG_AS("gpt_cache");
    /* The dtype is that of the first parameter, whichever it is: a program may replace any
     * layer. */
    RG_SCOPE();
    const rg_list all = rg_parameters(self);
    if (all.n < 0)
        return NULL;
    const rg_dtype dtype = all.n ? rg_dtype_of(all.v[0]) : rg_default_dtype();
    return rg_escape(rg_zeros_dims(gpt_cache_shape(self, batch), dtype));
}

/* Fails and returns false unless the cache has the shape that rg_gpt_cache gives it for the batch
 * of idx. */
static bool gpt_check_cache(rg_gpt *self, rg_tensor *idx, rg_tensor *cache) {
    const int64_t batch = rg_size(idx, 0);
    const rg_dims shape = gpt_cache_shape(self, batch);
    bool alike = rg_ndim(cache) == shape.n;
    for (int d = 0; d < shape.n && alike; d++)
        alike = rg_size(cache, d) == shape.v[d];
    RG_FAIL_IF(!alike, "gpt_cached",
               "expected a cache that rg_gpt_cache made for a batch of %lld, but got a tensor of "
               "shape %s",
               (long long)batch, rg_repr_shape(cache));
    for (int d = 0; d < shape.n; d++)
        RG_FAIL_IF(shape.v[d] > 1 && rg_stride(cache, d) == 0, "gpt_cached",
                   "more than one element of the cache refers to a single memory location");
    return true;
}

rg_tensor *(rg_gpt_cached)(rg_gpt *self, rg_tensor *idx, rg_tensor *cache, int64_t position) {
    RG_NO_GRAD();
    if (!rgi_module_given((rg_module *)self, "gpt_cached")
        || !rg_check_tensor(cache, "gpt_cached") || !gpt_check_idx(self, idx, position)
        || !gpt_check_cache(self, idx, cache))
        return NULL;
    gpt_keywords k = { { cache, position }, RG_NONE };
    return rg_call_keywords(self, &k, idx);
}

/* ---- constructors: they make the layers in nanoGPT's order, to draw the same weights ---- */

static const rg_module_class gpt_attention_class = { .name = "CausalSelfAttention",
                                                     .forward = gpt_attention_forward,
                                                     .forward_with = gpt_attention_forward_with,
                                                     .keywords_bytes = sizeof(cached_keywords) };
static const rg_module_class gpt_mlp_class = { .name = "MLP", .forward = gpt_mlp_forward };
static const rg_module_class gpt_block_class = { .name = "Block",
                                                 .forward = gpt_block_forward,
                                                 .forward_with = gpt_block_forward_with,
                                                 .keywords_bytes = sizeof(cached_keywords) };
static const rg_module_class gpt_transformer_class = { .name = "ModuleDict" };

static char **gpt_own_text(rg_module *m) { return (char **)&((rg_gpt *)m)->generation_config; }

static void gpt_destroy(rg_module *m) { rgi_rename(gpt_own_text(m), NULL); }

static bool gpt_copy(rg_module *m, const rg_module *from) {
    char **own = gpt_own_text(m);
    *own = NULL;
    return rgi_rename(own, ((const rg_gpt *)from)->generation_config);
}

static const rg_module_class gpt_class = { .name = "GPT",
                                           .destroy = gpt_destroy,
                                           .copy = gpt_copy,
                                           .forward = gpt_forward,
                                           .forward2 = gpt_forward_loss,
                                           .forward_with = gpt_forward_with,
                                           .keywords_bytes = sizeof(gpt_keywords) };

/* Returns the probability `other`, unless it is -1: then returns the option `dropout`. */
static double gpt_dropout(const rg_gpt_options *o, double other) {
    return other == -1 ? o->dropout : other;
}

static rg_norm_module *gpt_norm_new(const rg_gpt_options *o) {
    double eps = o->layer_norm_epsilon ? o->layer_norm_epsilon : RG_OWN_EPS;
    return rg_nn_layer_norm(o->n_embd, .bias = o->bias, .eps = eps);
}

static gpt_attention *gpt_attention_new(const rg_gpt_options *o) {
    gpt_attention *self = RG_MODULE(gpt_attention, &gpt_attention_class, .n_head = o->n_head);
    RG_CHILD(self, c_attn, rg_nn_linear(o->n_embd, 3 * o->n_embd, .bias = o->bias));
    RG_CHILD(self, c_proj, rg_nn_linear(o->n_embd, o->n_embd, .bias = o->bias));
    RG_CHILD(self, attn_dropout, rg_nn_dropout(gpt_dropout(o, o->attn_dropout)));
    RG_CHILD(self, resid_dropout, rg_nn_dropout(o->dropout));
    return RG_READY(self);
}

static gpt_mlp *gpt_mlp_new(const rg_gpt_options *o) {
    gpt_mlp *self = RG_MODULE(gpt_mlp, &gpt_mlp_class);
    int64_t inner = o->n_inner ? o->n_inner : 4 * o->n_embd;
    RG_CHILD(self, c_fc, rg_nn_linear(o->n_embd, inner, .bias = o->bias));
    RG_CHILD(self, gelu, o->gelu_tanh ? rg_nn_gelu_tanh() : rg_nn_gelu());
    RG_CHILD(self, c_proj, rg_nn_linear(inner, o->n_embd, .bias = o->bias));
    RG_CHILD(self, dropout, rg_nn_dropout(o->dropout));
    return RG_READY(self);
}

static rg_module *gpt_block_new(const rg_gpt_options *o) {
    gpt_block *self = RG_MODULE(gpt_block, &gpt_block_class);
    RG_CHILD(self, ln_1, gpt_norm_new(o));
    RG_CHILD(self, attn, gpt_attention_new(o));
    RG_CHILD(self, ln_2, gpt_norm_new(o));
    RG_CHILD(self, mlp, gpt_mlp_new(o));
    return rg_module_ready(self);
}

static rg_module_list *gpt_blocks_new(const rg_gpt_options *o) {
    size_t n = (size_t)o->n_layer;
    rg_module **blocks = rgi_scope_alloc(n * sizeof *blocks);
    if (!blocks)
        return NULL;
    for (size_t i = 0; i < n; i++)
        blocks[i] = gpt_block_new(o);
    return rg_nn_module_list_of((int)n, blocks);
}

static struct rg_gpt_transformer *gpt_transformer_new(const rg_gpt_options *o) {
    struct rg_gpt_transformer *self = RG_MODULE(struct rg_gpt_transformer, &gpt_transformer_class);
    RG_CHILD(self, wte, rg_nn_embedding(o->vocab_size, o->n_embd));
    RG_CHILD(self, wpe, rg_nn_embedding(o->block_size, o->n_embd));
    RG_CHILD(self, drop, rg_nn_dropout(gpt_dropout(o, o->embd_dropout)));
    RG_CHILD(self, h, gpt_blocks_new(o));
    RG_CHILD(self, ln_f, gpt_norm_new(o));
    return RG_READY(self);
}

/* Initializes the weights as nanoGPT does: matrices from N(0, 0.02^2), and biases with zeros. A
 * matrix that two layers share (a tied one) is drawn twice, because it has two names. Then the
 * weights of all c_proj layers are drawn again, with a smaller standard deviation, because their
 * results are added to the residual stream. */
static bool gpt_draw_weights(rg_gpt *self) {
    rg_named_list all = rg_state_dict(self);
    for (int i = 0; i < all.n; i++) {
        rg_tensor *t = all.v[i].tensor;
        bool matrix = rg_ndim(t) == 2, bias = strstr(all.v[i].name, ".bias");
        if (matrix && !rg_nn_init_normal_(t, 0, 0.02))
            return false;
        if (bias && !rg_nn_init_zeros_(t))
            return false;
    }
    double std = 0.02 / sqrt(2 * (double)self->config.n_layer);
    for (int i = 0; i < all.n; i++)
        if (strstr(all.v[i].name, "c_proj.weight") && !rg_nn_init_normal_(all.v[i].tensor, 0, std))
            return false;
    return all.n > 0;
}

static bool gpt_check(const rg_gpt_options *o) {
    RG_FAIL_VALUE_IF(o->n_embd <= 0 || o->n_embd > INT32_MAX, "gpt", "n_embd can't be %lld",
                     (long long)o->n_embd);
    RG_FAIL_VALUE_IF(o->n_layer < 0 || o->n_layer > INT16_MAX, "gpt", "n_layer can't be %lld",
                     (long long)o->n_layer);
    RG_FAIL_VALUE_IF(o->n_head <= 0 || o->n_embd % o->n_head, "gpt",
                     "n_embd %lld must be divisible by n_head %lld", (long long)o->n_embd,
                     (long long)o->n_head);
    RG_FAIL_VALUE_IF(o->n_inner < 0 || o->n_inner > INT32_MAX, "gpt", "n_inner can't be %lld",
                     (long long)o->n_inner);
    return true;
}

rg_gpt *rg_nn_gpt_with(rg_gpt_options o) {
    RG_AS("gpt");
    if (!gpt_check(&o))
        return NULL;
    RG_SCOPE();
    rg_gpt *self = RG_MODULE(rg_gpt, &gpt_class, .config = o);
    RG_CHILD(self, transformer, gpt_transformer_new(&o));
    RG_CHILD(self, lm_head, rg_nn_linear(o.n_embd, o.vocab_size, .bias = false));
    self = RG_READY(self);
    if (!self)
        return NULL;
    if ((o.untied || rg_tie(&self->transformer->wte->weight, self->lm_head->weight))
        && gpt_draw_weights(self))
        return self;
    rg_module_free(self);
    return NULL;
}
