/*
 * transformer.c: TransformerEncoderLayer: attention, and then a feedforward network. The input of
 * each of the two is added to its result, as a residual connection. If norm_first is true, a norm
 * is applied to what attention and the network read. Otherwise a norm is applied to each of the two
 * sums.
 */
#include "nn/registry.h"
#include "tensor/dtype.h"
#include "tensor/messages/callback.h"
#include "tensor/structs.h"
#include "transformer_parts.h"

/* ---- the forward of TransformerEncoderLayer ------------------------------------ */

rg_tensor *rgi_feed_forward(rg_linear_module *linear1, rg_tensor *(*activation)(rg_tensor *x),
                            rg_plain_module *inner, rg_linear_module *linear2,
                            rg_plain_module *outer, rg_tensor *x) {
    rg_tensor *hidden = rg_call(linear1, x);
    if (!hidden)
        return NULL;
    const int64_t before = rgi_failures();
    hidden = activation(hidden);
    if (!rgi_called(hidden, before, RG_TYPE_ERROR, "activation", "expected a tensor but got NULL"))
        return NULL;
    hidden = rg_call(inner, hidden);
    return rg_call(outer, rg_call(linear2, hidden));
}

static rg_tensor *encoder_attend(rg_transformer_encoder_layer *self, rg_tensor *x,
                                 const rg_src_options *o) {
    rg_attended a = rg_multihead_attention_forward(
        self->self_attn, x, x, x, .key_padding_mask = o->src_key_padding_mask,
        .need_weights = false, .attn_mask = o->src_mask, .is_causal = o->is_causal);
    return rg_call(self->dropout1, a.output);
}

static rg_tensor *encoder_feed_forward(rg_transformer_encoder_layer *self, rg_tensor *x) {
    return rgi_feed_forward(self->linear1, self->o.activation, self->dropout, self->linear2,
                            self->dropout2, x);
}

static rg_tensor *encoder_run(rg_module *m, rg_tensor *x, const rg_src_options *o) {
    rg_transformer_encoder_layer *self = (rg_transformer_encoder_layer *)m;
    const char *op = "transformer_encoder_layer";
    if (!rgi_want_mask(op, "src_key_padding_mask", o->src_key_padding_mask)
        || !rgi_want_mask(op, "src_mask", o->src_mask))
        return NULL;
    if (self->o.norm_first) {
        x = rg_add(x, encoder_attend(self, rg_call(self->norm1, x), o));
        return rg_add(x, encoder_feed_forward(self, rg_call(self->norm2, x)));
    }
    x = rg_call(self->norm1, rg_add(x, encoder_attend(self, x, o)));
    return rg_call(self->norm2, rg_add(x, encoder_feed_forward(self, x)));
}

static rg_tensor *encoder_layer_forward(rg_module *m, rg_tensor *x) {
    return encoder_run(m, x,
                       &(rg_src_options){ .src_mask = RG_NONE, .src_key_padding_mask = RG_NONE });
}

static rg_tensor *encoder_layer_forward_with(rg_module *m, rg_list in, void *keywords) {
    static const char *const name = "src";
    return in.n == 1 ? encoder_run(m, in.v[0], keywords)
                     : rgi_fail_for_inputs_of(m->cls, in.n, 1, &name);
}

rg_tensor *rg_transformer_encoder_layer_forward_with(rg_transformer_encoder_layer *self,
                                                     rg_tensor *x, rg_src_options o) {
    if (!rgi_module_given((rg_module *)self, "transformer_encoder_layer"))
        return NULL;
    return rg_call_keywords(self, &o, x);
}

/* ---- the class and the constructor --------------------------------------------- */

static const rg_module_class encoder_layer_class = { .name = "TransformerEncoderLayer",
                                                     .forward = encoder_layer_forward,
                                                     .forward_with = encoder_layer_forward_with,
                                                     .keywords_bytes = sizeof(rg_src_options) };

bool rgi_is_encoder_layer(const rg_module *m) { return m->cls == &encoder_layer_class; }

rg_transformer_encoder_layer *(rg_nn_transformer_encoder_layer_with)(int64_t d_model, int64_t nhead,
                                                                     rg_transformer_options o) {
    RG_AS("TransformerEncoderLayer");
    if (!rgi_given(o.activation, "TransformerEncoderLayer", "a function as activation"))
        return NULL;
    rg_transformer_encoder_layer *self = RG_MODULE(rg_transformer_encoder_layer,
                                                   &encoder_layer_class, .o = o);
    RG_CHILD(self, self_attn,
             rg_nn_multihead_attention(d_model, nhead, .dropout = o.dropout, .bias = o.bias,
                                       .batch_first = o.batch_first));
    if (!RG_UNFAILED_(self))
        return RG_READY(self);
    RG_CHILD(self, linear1, rg_nn_linear(d_model, o.dim_feedforward, .bias = o.bias));
    RG_CHILD(self, dropout, rg_nn_dropout(o.dropout));
    RG_CHILD(self, linear2, rg_nn_linear(o.dim_feedforward, d_model, .bias = o.bias));
    RG_CHILD(self, norm1, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, norm2, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, dropout1, rg_nn_dropout(o.dropout));
    RG_CHILD(self, dropout2, rg_nn_dropout(o.dropout));
    return RG_READY(self);
}
