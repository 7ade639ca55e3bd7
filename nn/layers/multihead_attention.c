/*
 * multihead_attention.c: the module MultiheadAttention. This file is long because attention with a
 * cache and attention without one share their checks, masks and projections.
 */
#include "attention.h"
#include "child.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "init.h"
#include "linear.h"
#include "multihead.h"
#include "nn/registry.h"
#include "sequence_checks.h"
#include "tensor/structs.h"

#include <math.h>

#define MHA_FAIL_IF(condition, ...) RG_FAIL_IF(condition, "multihead_attention", __VA_ARGS__)

/* ---- checks of the arguments --------------------------------------------------- */

/* Returns x, which may be unbatched or batch_first, as (length, batch, ..). torch computes in this
 * layout, and its error messages show shapes in it. */
static rg_tensor *mha_length_first(rg_multihead_attention *self, rg_tensor *x) {
    if (!x)
        return NULL;
    if (x->ndim == 2)
        return rg_unsqueeze(x, 1);
    return self->o.batch_first ? rg_transpose(x, 0, 1) : x;
}

static const char *mha_kind(const rg_tensor *query) {
    return query->ndim == 3 ? "batched (3-D)" : "unbatched (2-D)";
}

static bool mha_check_ranks(rg_tensor *const in[3]) {
    int q = in[0]->ndim, k = in[1]->ndim, v = in[2]->ndim;
    MHA_FAIL_IF(q != 2 && q != 3,
                "query should be unbatched 2D or batched 3D tensor but received %d-D query tensor",
                q);
    MHA_FAIL_IF(k != q || v != q,
                "For %s `query`, expected `key` and `value` to be %d-D but found %d-D and %d-D "
                "tensors respectively",
                mha_kind(in[0]), q, k, v);
    return true;
}

/* Checks the dtypes of the masks and their numbers of dims. The sizes of the masks are checked
 * later, when the sizes of the scores are known. */
static bool mha_check_masks(const rg_tensor *query, const rg_multihead_options *o) {
    const char *op = "multihead_attention";
    const int padding_dims = query->ndim - 1;
    return rgi_want_mask_beside(op, "attn_mask", o->attn_mask, query, 2, 3)
           && rgi_want_mask_beside(op, "key_padding_mask", o->key_padding_mask, query, padding_dims,
                                   padding_dims);
}

/* Fails unless keys and values have the same length and batch. If one weight projects query, keys
 * and values (in_proj_weight), the widths of keys and values must be equal as well. */
static bool mha_check_keys_and_values(rg_multihead_attention *self, rg_tensor *k, rg_tensor *v) {
    bool packed = self->in_proj_weight != RG_NONE, alike = true;
    int dims = packed ? k->ndim : k->ndim - 1;
    for (int d = 0; d < dims; d++)
        alike &= k->size[d] == v->size[d];
    if (alike)
        return true;
    k = mha_length_first(self, k);
    v = mha_length_first(self, v);
    const char *shape_k = rg_repr_shape(packed ? k : rg_select(k, 2, 0));
    const char *shape_v = rg_repr_shape(packed ? v : rg_select(v, 2, 0));
    if (!shape_k || !shape_v)
        return false;
    MHA_FAIL_IF(packed, "key shape %s does not match value shape %s", shape_k, shape_v);
    return rgi_fail(RG_RUNTIME_ERROR, "multihead_attention",
                    "key's sequence and batch dims %s do not match value's %s", shape_k, shape_v);
}

static bool mha_check_width(rg_multihead_attention *self, rg_tensor *query) {
    int64_t embed = query->size[query->ndim - 1];
    MHA_FAIL_IF(embed != self->embed_dim, "was expecting embedding dimension of %lld, but got %lld",
                (long long)self->embed_dim, (long long)embed);
    return true;
}

static bool mha_check(rg_multihead_attention *self, rg_tensor *const in[3],
                      const rg_multihead_options *o) {
    for (int i = 0; i < 3; i++)
        if (!rgi_check(in[i], "multihead_attention"))
            return false;
    if (!mha_check_ranks(in) || !mha_check_masks(in[0], o))
        return false;
    MHA_FAIL_IF(o->is_causal && o->attn_mask == RG_NONE,
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer "
                "module method `generate_square_subsequent_mask` to create this mask.");
    return mha_check_width(self, in[0]) && mha_check_keys_and_values(self, in[1], in[2]);
}

/* ---- masks that are added to the scores ---------------------------------------- */

/* Turns a bool mask into a mask that can be added to the scores: -inf where the mask is true, and 0
 * elsewhere. Any other mask, and RG_NONE, is returned as it is. */
static rg_tensor *mha_as_added(rg_tensor *mask, rg_dtype dtype) {
    if (mask == RG_NONE || !rgi_is_bool(mask->dtype))
        return mask;
    return rg_masked_fill(rg_zeros_dims(rg_shape(mask), dtype), mask, -INFINITY);
}

/* The sizes of the scores: l queries and s keys, in each of `heads` heads, in a batch of n. `more`
 * positions are appended to the keys: one if add_bias_kv is set, and one if add_zero_attn is
 * set. */
typedef struct mha_sizes {
    long long l, n, s, heads, more;
} mha_sizes;

/* Checks the sizes of attn_mask, and returns it as (l, s + more) or, if it has three dims, as (n,
 * heads, l, s + more). The mask is 0 for the appended positions. */
static rg_tensor *mha_attn_mask(rg_tensor *mask, const mha_sizes *is) {
    const int64_t *size = mask->size;
    MHA_FAIL_IF(mask->ndim == 2 && (size[0] != is->l || size[1] != is->s),
                "The shape of the 2D attn_mask is %s, but should be (%lld, %lld).",
                rg_repr_shape(mask), is->l, is->s);
    long long rows = is->n * is->heads;
    MHA_FAIL_IF(mask->ndim == 3 && (size[0] != rows || size[1] != is->l || size[2] != is->s),
                "The shape of the 3D attn_mask is %s, but should be (%lld, %lld, %lld).",
                rg_repr_shape(mask), rows, is->l, is->s);
    if (is->more)
        mask = rg_pad(mask, 0, is->more);
    if (mask && mask->ndim == 3)
        mask = rg_unflatten(mask, 0, RG_DIMS(is->n, is->heads));
    return mask;
}

/* Checks the sizes of key_padding_mask, and returns it as (n, 1, 1, s + more), with 0 for the
 * appended positions. */
static rg_tensor *mha_padding_mask(rg_tensor *mask, const mha_sizes *is, bool batched) {
    if (is->more)
        mask = rg_pad(mask, 0, is->more);
    if (!batched)
        mask = rg_unsqueeze(mask, 0);
    if (!mask)
        return NULL;
    long long expected[] = { is->n, is->s + is->more };
    for (int d = 0; d < 2; d++)
        MHA_FAIL_IF(mask->size[d] != expected[d],
                    "Expected key_padded_mask.shape[%d] to be %lld, but got %lld", d, expected[d],
                    (long long)mask->size[d]);
    return rg_unsqueeze(rg_unsqueeze(mask, 1), 1);
}

/* Returns the sum of both masks, which can be added to scores of (n, heads, l, s + more). Returns
 * RG_NONE if neither mask is given, and NULL on failure. */
static rg_tensor *mha_mask(const rg_multihead_options *o, const mha_sizes *is, bool batched,
                           rg_dtype dtype) {
    rg_tensor *mask = mha_as_added(o->attn_mask, dtype);
    rg_tensor *padding = mha_as_added(o->key_padding_mask, dtype);
    if (!mask || !padding)
        return NULL;
    if (mask != RG_NONE)
        mask = mha_attn_mask(mask, is);
    if (padding == RG_NONE || !mask)
        return mask;
    padding = mha_padding_mask(padding, is, batched);
    return mask == RG_NONE ? padding : rg_add(mask, padding);
}

/* ---- projections, heads and attention ------------------------------------------ */

/* Projects in[i]: the query (i = 0), the key (1) or the value (2). Returns the projection as
 * (length, batch, embedding). */
static rg_tensor *mha_project_one(rg_multihead_attention *self, rg_tensor *const in[3], int i) {
    int64_t embed = self->embed_dim;
    bool packed = self->in_proj_weight != RG_NONE;
    rg_tensor *own[] = { self->q_proj_weight, self->k_proj_weight, self->v_proj_weight };
    rg_tensor *weight = packed ? rg_narrow(self->in_proj_weight, 0, i * embed, embed) : own[i];
    rg_tensor *bias = self->in_proj_bias;
    if (bias != RG_NONE)
        bias = rg_narrow(bias, 0, i * embed, embed);
    return mha_length_first(self, rg_linear(in[i], weight, bias));
}

/* Projects the query, the key and the value, and stores the projections in x[] as (length, batch,
 * embedding). */
static bool mha_project(rg_multihead_attention *self, rg_tensor *const in[3], rg_tensor *x[3]) {
    int64_t embed = self->embed_dim;
    bool packed = self->in_proj_weight != RG_NONE;
    if (packed && in[0] == in[1] && in[1] == in[2]) {
        /* If query, key and value are one tensor, one matrix product projects all three. */
        rg_tensor *all = rg_linear(in[0], self->in_proj_weight, self->in_proj_bias);
        all = mha_length_first(self, all);
        for (int i = 0; i < 3; i++)
            x[i] = rg_narrow(all, 2, i * embed, embed);
        return x[0] && x[1] && x[2];
    }
    for (int i = 0; i < 3; i++)
        x[i] = mha_project_one(self, in, i);
    return x[0] && x[1] && x[2];
}

/* Splits x, of shape (length, n, embedding), into heads: returns (n, heads, length, head size).
 * First appends a position that holds `bias`, unless `bias` is RG_NONE. Then appends a position
 * that holds zeros, if `zeros` is true. */
static rg_tensor *mha_heads(rg_multihead_attention *self, rg_tensor *x, int64_t n, rg_tensor *bias,
                            bool zeros) {
    int64_t embed = self->embed_dim, heads = self->num_heads;
    if (bias != RG_NONE)
        x = rg_cat(RG_LIST(x, rg_repeat(bias, 1, n, 1)), 0);
    if (zeros && x)
        x = rg_cat(RG_LIST(x, rg_zeros_dims(RG_DIMS(1, n, embed), x->dtype)), 0);
    MHA_FAIL_IF(x && x->size[1] != n,
                "shape '[%lld, %lld, %lld]' is invalid for input of size %lld",
                (long long)x->size[0], (long long)(n * heads), (long long)(embed / heads),
                (long long)x->numel);
    return x ? rg_permute(rg_view(x, x->size[0], n, heads, embed / heads), 1, 2, 0, 3) : NULL;
}

/* Calls the hooks of the point `name` (a value inside attention that hooks can see) with x. x is
 * (n, heads, length, head size), but hooks see it as (n, length, heads, head size). Returns x, or
 * the tensor by which a hook replaced it. */
static rg_tensor *mha_by_position(rg_module *m, rg_point_of *point, const char *name,
                                  rg_tensor *x) {
    if (!rgi_has_hook_scope())
        return x;
    return rg_transpose(point(m, name, rg_transpose(x, 1, 2)), 1, 2);
}

const char *const rgi_attention_points[] = { "hook_q",       "hook_k", "hook_v", "hook_attn_scores",
                                             "hook_pattern", "hook_z", NULL };

rg_attended rgi_attend_by_steps(rg_module *m, rg_point_of *point, rg_tensor *q, rg_tensor *k,
                                rg_tensor *v, rg_tensor *mask, double dropout) {
    const rg_attended failed = { NULL, NULL };
    q = mha_by_position(m, point, "hook_q", q);
    k = mha_by_position(m, point, "hook_k", k);
    v = mha_by_position(m, point, "hook_v", v);
    if (!q || !k || !v)
        return failed;
    double scale = sqrt(1 / (double)q->size[3]);
    rg_tensor *scores = rg_matmul(rg_mul(q, scale), rg_mT(k));
    scores = mask == RG_NONE ? scores : rg_add(scores, mask);
    if (rgi_has_hook_scope())
        scores = point(m, "hook_attn_scores", scores);
    rg_tensor *weights = rg_softmax(scores, -1);
    if (rgi_has_hook_scope())
        weights = point(m, "hook_pattern", weights);
    if (dropout > 0)
        weights = rg_dropout(weights, dropout, true);
    rg_tensor *z = mha_by_position(m, point, "hook_z", rg_matmul(weights, v));
    return (rg_attended){ .output = z, .weights = weights };
}

static rg_tensor *mha_point(rg_module *m, const char *name, rg_tensor *x) {
    return rgi_point(m, name, x);
}

/* Returns whether a hook in force matches a value inside this module's attention. Then attention
 * must be computed by several ops, because a single op doesn't show such values. */
static bool mha_is_awaited(rg_multihead_attention *self) {
    for (int i = 0; rgi_attention_points[i] && rgi_has_hook_scope(); i++)
        if (rgi_is_awaited(&self->base, rgi_attention_points[i]))
            return true;
    return false;
}

/* Computes attention of queries, keys and values, each of shape (n, heads, length, head size).
 * Returns the heads' outputs. If `by_steps` is true, also returns each head's weights; otherwise
 * the weights are RG_NONE. `causal` stands for a causal mask. It must be false if by_steps is true,
 * since rgi_attend_by_steps ignores it. */
static rg_attended mha_attend_heads(rg_multihead_attention *self, rg_tensor *const heads[3],
                                    rg_tensor *mask, bool causal, bool by_steps) {
    rg_tensor *q = heads[0], *k = heads[1], *v = heads[2];
    double dropout = self->base.training ? self->o.dropout : 0;
    if (by_steps)
        return rgi_attend_by_steps(&self->base, mha_point, q, k, v, mask, dropout);
    rg_tensor *y = rg_scaled_dot_product_attention(q, k, v, .attn_mask = mask, .dropout_p = dropout,
                                                   .is_causal = causal);
    return (rg_attended){ y, RG_NONE };
}

/* Returns the mask that is added to the scores of the projected query x[0] and the projected key
 * x[1]. Returns RG_NONE if the options have no mask. */
static rg_tensor *mha_mask_for(rg_multihead_attention *self, rg_tensor *const x[3],
                               const rg_multihead_options *o, bool batched) {
    int64_t more = (self->bias_k != RG_NONE) + (self->o.add_zero_attn ? 1 : 0);
    mha_sizes sizes = { x[0]->size[0], x[0]->size[1], x[1]->size[0], self->num_heads, more };
    return mha_mask(o, &sizes, batched, x[0]->dtype);
}

/* Computes attention of the projected query x[0], key x[1] and value x[2]. Returns the heads'
 * outputs. Also returns each head's weights if need_weights is true or a hook sees values inside
 * attention; otherwise the weights are RG_NONE. */
static rg_attended mha_attend(rg_multihead_attention *self, rg_tensor *const x[3],
                              const rg_multihead_options *o, bool batched) {
    bool by_steps = o->need_weights || mha_is_awaited(self);
    bool causal = o->is_causal && o->key_padding_mask == RG_NONE && !by_steps;
    rg_tensor *mask = causal ? RG_NONE : mha_mask_for(self, x, o, batched);
    int64_t n = x[0]->size[1];
    rg_tensor *heads[] = {
        mha_heads(self, x[0], n, RG_NONE, false),
        mha_heads(self, x[1], n, self->bias_k, self->o.add_zero_attn),
        mha_heads(self, x[2], n, self->bias_v, self->o.add_zero_attn),
    };
    return mha_attend_heads(self, heads, mask, causal, by_steps);
}

/* Returns the heads' weights in the form that the options ask for: RG_NONE, averaged over the
 * heads, or for each head. If the query is unbatched, so are the weights. */
static rg_tensor *mha_wanted_weights(rg_tensor *weights, const rg_multihead_options *o,
                                     bool batched) {
    if (!o->need_weights)
        return RG_NONE;
    if (o->average_attn_weights)
        weights = rg_mean_dim(weights, 1, false);
    return batched ? weights : rg_squeeze_dim(weights, 0);
}

/* Concatenates the heads' outputs, (batch, heads, length, head size), and applies out_proj. Returns
 * the output in the layout of the query. */
static rg_tensor *mha_join(rg_multihead_attention *self, rg_tensor *y, int64_t l, int64_t n,
                           bool batched) {
    y = rg_reshape(rg_permute(y, 2, 0, 1, 3), l, n, self->embed_dim);
    y = rg_linear(y, self->out_proj->weight, self->out_proj->bias);
    return batched ? mha_length_first(self, y) : rg_squeeze_dim(y, 1);
}

/* Makes the results of the layer from `a`, the outputs and weights of the heads. Returns the
 * output, and stores the weights in the keywords. Only the sizes of q, the projected query, are
 * used. Returns NULL on failure. */
static rg_tensor *mha_results(rg_multihead_attention *self, rg_attended a, const rg_tensor *q,
                              bool batched, rg_multihead_keywords *k) {
    a.weights = mha_wanted_weights(a.weights, &k->options, batched);
    a.output = mha_join(self, a.output, q->size[0], q->size[1], batched);
    if (!a.output || !a.weights)
        return NULL;
    k->weights = rg_escape(a.weights);
    return a.output;
}

/* ---- attention with a cache of keys and values --------------------------------- */

static bool cache_check(rg_multihead_attention *self, rg_tensor *const in[3],
                        const rg_multihead_options *o) {
    rg_attention_cache *c = o->cache;
    int inputs = c->complete ? 1 : 3;
    for (int i = 0; i < inputs; i++)
        if (!rgi_check(in[i], "multihead_attention"))
            return false;
    rg_tensor *const alone[] = { in[0], in[0], in[0] };
    rg_tensor *both[] = { c->keys, c->values };
    if (!mha_check_ranks(c->complete ? alone : in) || !mha_check_width(self, in[0])
        || (!c->complete && !mha_check_keys_and_values(self, in[1], in[2])))
        return false;
    MHA_FAIL_IF(self->bias_k != RG_NONE || self->o.add_zero_attn,
                "a cache can't stand beside add_bias_kv or add_zero_attn");
    int batch_dim = self->o.batch_first ? 0 : 1;
    int64_t n = in[0]->ndim == 3 ? in[0]->size[batch_dim] : 1;
    int64_t heads = self->num_heads, head = self->embed_dim / heads;
    for (int i = 0; i < 2; i++) {
        rg_tensor *t = both[i];
        if (!rgi_check(t, "multihead_attention"))
            return false;
        MHA_FAIL_IF(t->ndim != 4 || t->size[0] != n || t->size[1] != heads || t->size[3] != head
                        || t->size[2] != both[0]->size[2],
                    "expected a cache of (%lld, %lld, positions, %lld), but got %s", (long long)n,
                    (long long)heads, (long long)head, rg_repr_shape(t));
    }
    MHA_FAIL_IF(!c->complete && c->keys->data == c->values->data && c->keys->numel,
                "the cache's keys and values lie in the same memory");
    return true;
}

/* Appends the projected keys or values x to the tensor `room` of the cache, after its first
 * `length` positions. Fails if there is no room for them. */
static bool cache_write(rg_multihead_attention *self, rg_tensor *room, int64_t length,
                        rg_tensor *x) {
    if (!x)
        return false;
    int64_t all = room->size[2], t = x->size[0];
    MHA_FAIL_IF(length < 0, "the length %lld of the cache is negative", (long long)length);
    MHA_FAIL_IF(t > all - length, "the cache has room for %lld positions, but %llu are needed",
                (long long)all, (unsigned long long)length + (unsigned long long)t);
    rg_tensor *heads = mha_heads(self, x, room->size[0], RG_NONE, false);
    return rg_copy_(rg_narrow(room, 2, length, t), heads);
}

/* Returns the mask with -inf added wherever a key comes after the query. The l queries are the last
 * l of the s positions. RG_NONE stands for a mask of zeros. A single query is at the last position,
 * so nothing is added for it. */
static rg_tensor *cache_causal(rg_tensor *mask, int64_t l, int64_t s, rg_dtype dtype) {
    if (l == 1)
        return mask;
    rg_tensor *causal = rg_triu(rg_full_dims(RG_DIMS(l, s), -INFINITY, dtype), s - l + 1);
    return mask == RG_NONE ? causal : rg_add(mask, causal);
}

/* Runs forward with a cache, as mha_run does without one. If c->complete is set, the cache is only
 * read. Otherwise this call's keys and values are first appended to it. Then the query attends to
 * the keys and values in the cache, as far as the masks allow. Unless the cache is complete, no
 * query attends to later positions. */
static rg_tensor *mha_run_cached(rg_multihead_attention *self, rg_tensor *const in[3],
                                 rg_multihead_keywords *k) {
    RG_NO_GRAD();
    const rg_multihead_options *o = &k->options;
    rg_attention_cache *c = o->cache;
    if (!cache_check(self, in, o))
        return NULL;
    bool batched = in[0]->ndim == 3;
    rg_tensor *q = mha_project_one(self, in, 0);
    if (!q)
        return NULL;
    int64_t l = q->size[0], n = q->size[1], s = c->length;
    if (!c->complete) {
        rg_tensor *key = mha_project_one(self, in, 1), *value = mha_project_one(self, in, 2);
        if (!cache_write(self, c->keys, s, key) || !cache_write(self, c->values, s, value))
            return NULL;
        s += key->size[0];
    }
    mha_sizes sizes = { l, n, s, self->num_heads, 0 };
    if (!mha_check_masks(in[0], o))
        return NULL;
    rg_tensor *mask = mha_mask(o, &sizes, batched, (rg_dtype)q->dtype);
    bool by_steps = o->need_weights || mha_is_awaited(self);
    bool causal = !c->complete && mask == RG_NONE && l == s && !by_steps;
    if (!c->complete && !causal)
        mask = cache_causal(mask, l, s, (rg_dtype)q->dtype);
    rg_tensor *heads[] = { mha_heads(self, q, n, RG_NONE, false), rg_narrow(c->keys, 2, 0, s),
                           rg_narrow(c->values, 2, 0, s) };
    rg_attended a = mha_attend_heads(self, heads, mask, causal, by_steps);
    rg_tensor *y = mha_results(self, a, q, batched, k);
    if (y)
        c->length = s;
    return y;
}

rg_tensor *rgi_keys_and_values(rg_multihead_attention *self, rg_tensor *memory) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *const in[] = { memory, memory, memory };
    if (!rgi_module_given((rg_module *)self, "multihead_attention")
        || !rgi_check(memory, "multihead_attention") || !mha_check_ranks(in))
        return NULL;
    MHA_FAIL_IF(!rgi_is_multihead(&self->base),
                "a cache needs MultiheadAttention, but this is a %s", self->base.cls->name);
    rg_tensor *both[2];
    for (int i = 0; i < 2; i++) {
        rg_tensor *x = mha_project_one(self, in, 1 + i);
        both[i] = x ? mha_heads(self, x, x->size[1], RG_NONE, false) : NULL;
    }
    return rg_escape(rg_stack(RG_LIST(both[0], both[1]), 0));
}

/* ---- forward, and the function for programs ------------------------------------ */

/* Runs forward. Returns the output, and stores the weights in the keywords, or RG_NONE if
 * need_weights is false. */
static rg_tensor *mha_run(rg_multihead_attention *self, rg_tensor *const in[3],
                          rg_multihead_keywords *k) {
    const rg_multihead_options *o = &k->options;
    rg_tensor *x[3];
    if (!rgi_want_linear("multihead_attention", "out_proj", self->out_proj))
        return NULL;
    if (o->cache)
        return mha_run_cached(self, in, k);
    if (!mha_check(self, in, o))
        return NULL;
    bool batched = in[0]->ndim == 3;
    if (!mha_project(self, in, x))
        return NULL;
    return mha_results(self, mha_attend(self, x, o, batched), x[0], batched, k);
}

static rg_tensor *mha_forward_with(rg_module *m, rg_list in, void *keywords) {
    static const char *const names[] = { "query", "key", "value" };
    if (in.n != 3)
        return rgi_fail_for_inputs_of(m->cls, in.n, 3, names);
    return mha_run((rg_multihead_attention *)m, in.v, keywords);
}

static rg_tensor *mha_forward3(rg_module *m, rg_tensor *q, rg_tensor *k, rg_tensor *v) {
    rg_tensor *in[] = { q, k, v };
    rg_multihead_keywords plain = { .options = { .key_padding_mask = RG_NONE,
                                                 .attn_mask = RG_NONE } };
    return mha_run((rg_multihead_attention *)m, in, &plain);
}

static rg_tensor *mha_forward(rg_module *m, rg_tensor *x) { return mha_forward3(m, x, x, x); }

rg_attended rg_multihead_attention_forward_with(rg_multihead_attention *self, rg_tensor *query,
                                                rg_tensor *key, rg_tensor *value,
                                                rg_multihead_options o) {
    const rg_attended failed = { NULL, NULL };
    if (!rgi_module_given((rg_module *)self, "multihead_attention"))
        return failed;
    rg_multihead_keywords k = { .options = o, .weights = RG_NONE };
    rg_tensor *y = rg_call_keywords(self, &k, query, key, value);
    return y && k.weights ? (rg_attended){ y, k.weights } : failed;
}

/* ---- the class and the constructor --------------------------------------------- */

static const rg_module_class mha_class = {
    .name = "MultiheadAttention",
    .forward = mha_forward,
    .forward3 = mha_forward3,
    .forward_with = mha_forward_with,
    .keywords_bytes = sizeof(rg_multihead_keywords),
};

bool rgi_is_multihead(const rg_module *m) { return m->cls == &mha_class; }

static rg_tensor *mha_weight(bool there, int64_t out, int64_t in) {
    return there ? rg_nn_init_xavier_uniform_(rg_empty(out, in), 1) : RG_NONE;
}

static rg_tensor *mha_added_bias(bool there, int64_t embed) {
    return there ? rg_nn_init_xavier_normal_(rg_empty(1, 1, embed), 1) : RG_NONE;
}

/* Makes out_proj, whose bias is 0. The constructor calls this first, because torch draws the weight
 * of out_proj before the other weights. */
static rg_linear_module *mha_out_proj(int64_t embed, bool bias) {
    rg_linear_module *linear = rg_nn_linear(embed, embed, .bias = bias);
    if (!linear)
        return NULL;
    linear->base.cls = &rgi_out_proj_class;
    if (!bias || rg_nn_init_zeros_(linear->bias))
        return linear;
    rg_module_free(linear);
    return NULL;
}

rg_multihead_attention *(rg_nn_multihead_attention_with)(int64_t embed, int64_t heads,
                                                         rg_multihead_attention_options o) {
    RG_AS("MultiheadAttention");
    RG_SCOPE();
    RG_FAIL_VALUE_IF(embed <= 0 || heads <= 0, "MultiheadAttention",
                     "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and "
                     "num_heads=%lld instead",
                     (long long)embed, (long long)heads);
    MHA_FAIL_IF(embed % heads, "embed_dim must be divisible by num_heads");
    rg_multihead_attention *self = RG_MODULE(rg_multihead_attention, &mha_class, .embed_dim = embed,
                                             .num_heads = heads, .o = o);
    int64_t k = o.kdim ? o.kdim : embed;
    int64_t v = o.vdim ? o.vdim : embed;
    int64_t three = embed < INT64_MAX / 3 ? 3 * embed : INT64_MAX;
    bool packed = k == embed && v == embed;
    RG_CHILD(self, out_proj, mha_out_proj(embed, o.bias));
    RG_PARAMETER(self, in_proj_weight, mha_weight(packed, three, embed));
    RG_PARAMETER(self, q_proj_weight, mha_weight(!packed, embed, embed));
    RG_PARAMETER(self, k_proj_weight, mha_weight(!packed, embed, k));
    RG_PARAMETER(self, v_proj_weight, mha_weight(!packed, embed, v));
    RG_PARAMETER(self, in_proj_bias, o.bias ? rg_zeros(three) : RG_NONE);
    RG_PARAMETER(self, bias_k, mha_added_bias(o.add_bias_kv, embed));
    RG_PARAMETER(self, bias_v, mha_added_bias(o.add_bias_kv, embed));
    return RG_READY(self);
}

rg_tensor *(rg_generate_square_subsequent_mask)(int64_t n) {
    RG_AS("generate_square_subsequent_mask");
    RG_SCOPE();
    return rg_escape(rg_triu(rg_full_dims(RG_DIMS(n, n), -INFINITY, rg_default_dtype()), 1));
}
