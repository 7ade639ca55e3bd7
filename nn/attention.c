/*
 * attention.c: SelfAttention, as the notebook writes it, and MultiheadAttention,
 * as torch has it.
 */
#include "transformer.h"
#include "init.h"
#include "tensor/internal.h"

#include <math.h>
#include <stdio.h>

/* ---- SelfAttention ----------------------------------------------------------------- */

rg_tensor *rg_self_attention_weights(rg_self_attention *self, rg_tensor *x) {
    if (!rgi_given(self, "self_attention_weights", "a module"))
        return NULL;
    RG_SCOPE();
    rg_tensor *queries = rg_matmul(x, self->w_query), *keys = rg_matmul(x, self->w_key);
    rg_tensor *attn_scores = rg_matmul(queries, rg_mT(keys));
    rg_tensor *attn_weights = rg_softmax(rg_div(attn_scores, sqrt((double)self->d_out_kq)), -1);
    return attn_weights ? rg_escape(attn_weights) : NULL;
}

static rg_tensor *self_attention_forward(rg_module *m, rg_tensor *x) {
    rg_self_attention *self = (rg_self_attention *)m;
    rg_tensor *attn_weights = rg_self_attention_weights(self, x);
    return rg_matmul(attn_weights, rg_matmul(x, self->w_value));
}

static const rg_module_class self_attention_class = { .name = "SelfAttention",
                                                      .forward = self_attention_forward };

rg_self_attention *rg_nn_self_attention(int64_t d_in, int64_t d_out_kq, int64_t d_out_v) {
    RG_AS("SelfAttention");
    RG_SCOPE();
    rg_self_attention *self = RG_MODULE(rg_self_attention, &self_attention_class,
                                        .d_out_kq = d_out_kq);
    RG_PARAMETER(self, w_query, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_key, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_value, rg_randn(d_in, d_out_v));
    return RG_READY(self);
}

/* ---- MultiheadAttention: what its arguments must be ------------------------------ */

#define MHA_REFUSE(condition, ...) RG_FAIL_IF(condition, "multihead_attention", __VA_ARGS__)

/* As (length, batch, ..), of which torch speaks. */
static rg_tensor *mha_length_first(rg_multihead_attention *self, rg_tensor *x) {
    if (!x || x->ndim == 2)
        return x ? rg_unsqueeze(x, 1) : NULL;
    return self->o.batch_first ? rg_transpose(x, 0, 1) : x;
}

static bool mha_check(rg_multihead_attention *self, rg_tensor *const in[3],
                      const rg_multihead_options *o) {
    rg_tensor *q = in[0], *k = in[1], *v = in[2], *masks[] = { o->attn_mask, o->key_padding_mask };
    const char *names[] = { "attn_mask", "key_padding_mask" };
    bool alike = true;
    for (int i = 0; i < 3; i++)
        if (!rgi_given(self, "multihead_attention", "a module")
            || !rgi_check(in[i], "multihead_attention"))
            return false;
    const char *kind = q->ndim == 3 ? "batched (3-D)" : "unbatched (2-D)";
    MHA_REFUSE(q->ndim != 2 && q->ndim != 3,
               "query should be unbatched 2D or batched 3D tensor but received %d-D query tensor",
               q->ndim);
    MHA_REFUSE(
        k->ndim != q->ndim || v->ndim != q->ndim,
        "For %s `query`, expected `key` and `value` to be %d-D but found %d-D and %d-D tensors "
        "respectively",
        kind, q->ndim, k->ndim, v->ndim);
    for (int i = 0; i < 2; i++) {
        if (masks[i] == RG_NONE)
            continue;
        if (!rgi_check(masks[i], "multihead_attention"))
            return false;
        int dims = masks[i]->ndim;
        MHA_REFUSE(
            i ? dims != q->ndim - 1 : dims != 2 && dims != 3,
            "For %s `query`, expected `%s` to be `None`%s %d-D but found %d-D tensor instead", kind,
            names[i], i ? " or" : ", 2-D or", i ? q->ndim - 1 : 3, dims);
        const int64_t *is = masks[i]->size, heads = self->num_heads, *l = q->size, *s = k->size;
        MHA_REFUSE(dims == 3 && q->ndim == 2 && (is[0] != heads || is[1] != *l || is[2] != *s),
                   "Expected `attn_mask` shape to be (%lld, %lld, %lld) but got %s",
                   (long long)heads, (long long)*l, (long long)*s, rg_repr_shape(masks[i]));
        MHA_REFUSE(masks[i]->dtype == RG_INT64, "only bool and floating types of %s are supported",
                   names[i]);
    }
    MHA_REFUSE(
        o->is_causal && masks[0] == RG_NONE,
        "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
        "`generate_square_subsequent_mask` to create this mask.");
    MHA_REFUSE(q->size[q->ndim - 1] != self->embed_dim,
               "was expecting embedding dimension of %lld, but got %lld",
               (long long)self->embed_dim, (long long)q->size[q->ndim - 1]);
    bool packed = self->in_proj_weight != RG_NONE;
    for (int d = 0; d < k->ndim - !packed; d++)
        alike &= k->size[d] == v->size[d];
    if (alike)
        return true;
    k = mha_length_first(self, k), v = mha_length_first(self, v);
    const char *is_k = rg_repr_shape(packed ? k : rg_select(k, 2, 0));
    const char *is_v = rg_repr_shape(packed ? v : rg_select(v, 2, 0));
    MHA_REFUSE(is_k && is_v,
               packed ? "key shape %s does not match value shape %s"
                      : "key's sequence and batch dims %s do not match value's %s",
               is_k, is_v);
    return false;
}

/* A bool mask, whose true is left out, as what is added. */
static rg_tensor *mha_added(rg_tensor *mask, rg_dtype dtype) {
    if (mask == RG_NONE || mask->dtype != RG_BOOL)
        return mask;
    return rg_masked_fill(rg_zeros_dims(rg_shape(mask), dtype), mask, -INFINITY);
}

/* ---- its forward ----------------------------------------------------------------- */

/* (length, batch, embedding) as (batch, heads, length, size of a head); after the last position
 * bias and zeros. */
static rg_tensor *mha_heads(rg_multihead_attention *self, rg_tensor *x, int64_t n, rg_tensor *bias,
                            bool zeros) {
    int64_t embed = self->embed_dim, heads = self->num_heads;
    if (bias != RG_NONE)
        x = rg_cat(RG_LIST(x, rg_repeat(bias, 1, n, 1)), 0);
    if (zeros && x)
        x = rg_cat(RG_LIST(x, rg_zeros_dims(RG_DIMS(1, n, embed), x->dtype)), 0);
    return x ? rg_permute(rg_view(x, x->size[0], n, heads, embed / heads), 1, 2, 0, 3) : NULL;
}

/* What is added to the scores of (batch n, heads, l, s), to which `more` positions came; RG_NONE:
 * nothing. */
static rg_tensor *mha_mask(rg_multihead_attention *self, const rg_multihead_options *o,
                           bool batched, rg_tensor *q, rg_tensor *k, int64_t more) {
    long long l = q->size[0], n = q->size[1], s = k->size[0], heads = self->num_heads;
    rg_tensor *mask = mha_added(o->attn_mask, q->dtype),
              *padding = mha_added(o->key_padding_mask, q->dtype);
    if (!mask || !padding)
        return NULL;
    if (mask != RG_NONE) {
        const int64_t *is = mask->size;
        MHA_REFUSE(mask->ndim == 2 && (is[0] != l || is[1] != s),
                   "The shape of the 2D attn_mask is %s, but should be (%lld, %lld).",
                   rg_repr_shape(mask), l, s);
        MHA_REFUSE(mask->ndim == 3 && (is[0] != n * heads || is[1] != l || is[2] != s),
                   "The shape of the 3D attn_mask is %s, but should be (%lld, %lld, %lld).",
                   rg_repr_shape(mask), n * heads, l, s);
        if (more)
            mask = rg_pad(mask, 0, more);
        if (mask && mask->ndim == 3)
            mask = rg_unflatten(mask, 0, RG_DIMS(n, heads));
    }
    if (padding == RG_NONE || !mask)
        return mask;
    if (more)
        padding = rg_pad(padding, 0, more);
    if (!batched)
        padding = rg_unsqueeze(padding, 0);
    for (int d = 0; d < 2 && padding; d++)
        MHA_REFUSE(padding->size[d] != (d ? s + more : n),
                   "Expected key_padded_mask.shape[%d] to be %lld, but got %lld", d,
                   d ? s + more : n, (long long)padding->size[d]);
    padding = rg_unsqueeze(rg_unsqueeze(padding, 1), 1);
    return mask == RG_NONE ? padding : rg_add(mask, padding);
}

rg_attended rg_multihead_attention_forward_with(rg_multihead_attention *self, rg_tensor *query,
                                                rg_tensor *key, rg_tensor *value,
                                                rg_multihead_options o) {
    const rg_attended failed = { NULL, NULL };
    rg_tensor *in[] = { query, key, value }, *x[3], *weights = RG_NONE, *mask = RG_NONE, *y;
    if (!mha_check(self, in, &o))
        return failed;
    RG_SCOPE();
    bool batched = query->ndim == 3, packed = self->in_proj_weight != RG_NONE;
    int64_t embed = self->embed_dim, more = (self->bias_k != RG_NONE) + self->o.add_zero_attn;
    if (packed && query == key && key == value) { /* one product, in three slices */
        rg_tensor *all =
            mha_length_first(self, rg_linear(query, self->in_proj_weight, self->in_proj_bias));
        for (int i = 0; i < 3; i++)
            x[i] = rg_narrow(all, 2, i * embed, embed);
    } else {
        rg_tensor *own[] = { self->q_proj_weight, self->k_proj_weight, self->v_proj_weight };
        for (int i = 0; i < 3; i++) {
            rg_tensor *w = packed ? rg_narrow(self->in_proj_weight, 0, i * embed, embed) : own[i];
            rg_tensor *b = self->in_proj_bias;
            if (b != RG_NONE)
                b = rg_narrow(b, 0, i * embed, embed);
            x[i] = mha_length_first(self, rg_linear(in[i], w, b));
        }
    }
    if (!x[0] || !x[1] || !x[2])
        return failed;
    int64_t l = x[0]->size[0], n = x[0]->size[1];
    bool causal = o.is_causal && o.key_padding_mask == RG_NONE && !o.need_weights;
    if (!causal)
        mask = mha_mask(self, &o, batched, x[0], x[1], more);
    rg_tensor *q = mha_heads(self, x[0], n, RG_NONE, false);
    rg_tensor *k = mha_heads(self, x[1], n, self->bias_k, self->o.add_zero_attn);
    rg_tensor *v = mha_heads(self, x[2], n, self->bias_v, self->o.add_zero_attn);
    double dropout = self->base.training ? self->o.dropout : 0;
    if (!mask || !q || !k || !v)
        return failed;
    if (o.need_weights) {
        rg_tensor *scores = rg_matmul(rg_mul(q, sqrt(1 / (double)(embed / self->num_heads))),
                                      rg_mT(k));
        weights = rg_softmax(mask == RG_NONE ? scores : rg_add(scores, mask), -1);
        if (dropout > 0)
            weights = rg_dropout(weights, dropout, true);
        y = rg_matmul(weights, v);
        if (o.average_attn_weights)
            weights = rg_mean_dim(weights, 1, false);
        if (!batched)
            weights = rg_squeeze_dim(weights, 0);
    } else {
        y = rg_scaled_dot_product_attention(q, k, v, .attn_mask = mask, .dropout_p = dropout,
                                            .is_causal = causal);
    }
    y = rg_reshape(rg_permute(y, 2, 0, 1, 3), l, n, embed);
    y = rg_linear(y, self->out_proj->weight, self->out_proj->bias);
    y = batched ? mha_length_first(self, y) : rg_squeeze_dim(y, 1);
    return y && weights ? (rg_attended){ rg_escape(y), rg_escape(weights) } : failed;
}

static rg_tensor *mha_forward3(rg_module *m, rg_tensor *q, rg_tensor *k, rg_tensor *v) {
    return rg_multihead_attention_forward((rg_multihead_attention *)m, q, k, v,
                                          .need_weights = false)
        .output;
}

static rg_tensor *mha_forward(rg_module *m, rg_tensor *x) { return mha_forward3(m, x, x, x); }

/* ---- its constructor ------------------------------------------------------------- */

static const rg_module_class mha_class = {
    .name = "MultiheadAttention",
    .forward = mha_forward,
    .forward3 = mha_forward3,
};
extern const rg_module_class rgi_out_proj_class; /* linear.c */

rg_multihead_attention *rg_nn_multihead_attention_with(int64_t embed, int64_t heads,
                                                       rg_multihead_attention_options o) {
    RG_AS("MultiheadAttention");
    RG_SCOPE();
    RG_FAIL_VALUE_IF(
        embed <= 0 || heads <= 0, "MultiheadAttention",
        "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and num_heads=%lld instead",
        (long long)embed, (long long)heads);
    MHA_REFUSE(embed % heads, "embed_dim must be divisible by num_heads");
    rg_multihead_attention *self = RG_MODULE(rg_multihead_attention, &mha_class, .embed_dim = embed,
                                             .num_heads = heads, .o = o);
    int64_t k = o.kdim ? o.kdim : embed, v = o.vdim ? o.vdim : embed;
    int64_t three = embed < INT64_MAX / 3 ? 3 * embed : INT64_MAX;
    bool packed = k == embed && v == embed;
    /* torch draws it first */
    RG_CHILD(self, out_proj, rg_nn_linear(embed, embed, .bias = o.bias));
    if (self && self->out_proj)
        self->out_proj->base.cls = &rgi_out_proj_class;
    if (self && self->out_proj && o.bias)
        rg_nn_init_zeros_(self->out_proj->bias);
    RG_PARAMETER(self, in_proj_weight,
                 packed ? rg_nn_init_xavier_uniform_(rg_empty(three, embed), 1) : RG_NONE);
    RG_PARAMETER(self, q_proj_weight,
                 packed ? RG_NONE : rg_nn_init_xavier_uniform_(rg_empty(embed, embed), 1));
    RG_PARAMETER(self, k_proj_weight,
                 packed ? RG_NONE : rg_nn_init_xavier_uniform_(rg_empty(embed, k), 1));
    RG_PARAMETER(self, v_proj_weight,
                 packed ? RG_NONE : rg_nn_init_xavier_uniform_(rg_empty(embed, v), 1));
    RG_PARAMETER(self, in_proj_bias, o.bias ? rg_zeros(three) : RG_NONE);
    RG_PARAMETER(self, bias_k,
                 o.add_bias_kv ? rg_nn_init_xavier_normal_(rg_empty(1, 1, embed), 1) : RG_NONE);
    RG_PARAMETER(self, bias_v,
                 o.add_bias_kv ? rg_nn_init_xavier_normal_(rg_empty(1, 1, embed), 1) : RG_NONE);
    return RG_READY(self);
}

rg_tensor *rg_generate_square_subsequent_mask(int64_t n) {
    RG_AS("generate_square_subsequent_mask");
    return rg_triu(rg_full_dims(RG_DIMS(n, n), -INFINITY, rg_default_dtype()), 1);
}
