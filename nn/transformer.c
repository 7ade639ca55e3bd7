/*
 * transformer.c: TransformerEncoderLayer: attention and a feedforward network, each beside
 * what it adds to, normalised before or after.
 */
#include "transformer.h"
#include "tensor/internal.h"

rg_tensor *rg_transformer_encoder_layer_forward_with(rg_transformer_encoder_layer *self,
                                                     rg_tensor *x, rg_src_options o) {
    if (!rgi_given(self, "transformer_encoder_layer", "a module"))
        return NULL;
    const rg_tensor *masks[] = { o.src_key_padding_mask, o.src_mask };
    for (int i = 0; i < 2; i++)
        RG_FAIL_IF(masks[i] && masks[i]->state == RG_ALIVE && masks[i]->dtype == RG_INT64,
                   "transformer_encoder_layer", "only bool and floating types of %s are supported",
                   i ? "src_mask" : "src_key_padding_mask");
    RG_SCOPE();
    for (int part = 0; part < 2; part++) {
        rg_norm_module *norm = part ? self->norm2 : self->norm1;
        rg_tensor *y = self->o.norm_first ? rg_call(norm, x) : x;
        if (part == 0) {
            rg_attended a = rg_multihead_attention_forward(
                self->self_attn, y, y, y, .key_padding_mask = o.src_key_padding_mask,
                .need_weights = false, .attn_mask = o.src_mask, .is_causal = o.is_causal);
            y = a.output;
        } else {
            y = rg_call(self->linear1, y);
            y = rg_call(self->linear2, rg_call(self->dropout, y ? self->o.activation(y) : NULL));
        }
        x = rg_add(x, rg_call(part ? self->dropout2 : self->dropout1, y));
        if (!self->o.norm_first)
            x = rg_call(norm, x);
    }
    return x ? rg_escape(x) : NULL;
}

static rg_tensor *encoder_layer_forward(rg_module *m, rg_tensor *x) {
    return rg_transformer_encoder_layer_forward((rg_transformer_encoder_layer *)m, x);
}

static const rg_module_class encoder_layer_class = { .name = "TransformerEncoderLayer",
                                                     .forward = encoder_layer_forward };

rg_transformer_encoder_layer *rg_nn_transformer_encoder_layer_with(int64_t d_model, int64_t nhead,
                                                                   rg_transformer_options o) {
    RG_AS("TransformerEncoderLayer");
    if (!rgi_given(o.activation, "TransformerEncoderLayer", "a function as activation"))
        return NULL;
    rg_transformer_encoder_layer *self = RG_MODULE(rg_transformer_encoder_layer,
                                                   &encoder_layer_class, .o = o);
    RG_CHILD(self, self_attn,
             rg_nn_multihead_attention(d_model, nhead, .dropout = o.dropout, .bias = o.bias,
                                       .batch_first = o.batch_first));
    RG_CHILD(self, linear1, rg_nn_linear(d_model, o.dim_feedforward, .bias = o.bias));
    RG_CHILD(self, dropout, rg_nn_dropout(o.dropout));
    RG_CHILD(self, linear2, rg_nn_linear(o.dim_feedforward, d_model, .bias = o.bias));
    RG_CHILD(self, norm1, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, norm2, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, dropout1, rg_nn_dropout(o.dropout));
    RG_CHILD(self, dropout2, rg_nn_dropout(o.dropout));
    return RG_READY(self);
}
