/*
 * transformer_model.c: the module Transformer. Its encoder reads src, and its decoder computes the
 * output from tgt, with the encoder's output as its memory.
 */
#include "init.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/structs.h"
#include "transformer_parts.h"

/* ---- the forward of Transformer ------------------------------------------------ */

static bool transformer_check(const rg_transformer *self, rg_tensor *src, rg_tensor *tgt) {
    const char *op = "transformer";
    if (!rgi_check(src, op) || !rgi_check(tgt, op))
        return false;
    int batch_dim = self->batch_first ? 0 : 1;
    const rg_tensor *both[] = { src, tgt };
    for (int i = 0; i < 2; i++) {
        int n = both[i]->ndim;
        RG_FAIL_INDEX_IF(n <= batch_dim && n, op,
                         "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
        RG_FAIL_INDEX_IF(!n, op, "Dimension specified as %d but tensor has no dimensions",
                         batch_dim);
    }
    RG_FAIL_IF(src->ndim == 3 && src->size[batch_dim] != tgt->size[batch_dim], op,
               "the batch number of src and tgt must be equal");
    RG_FAIL_IF(src->size[src->ndim - 1] != self->d_model
                   || tgt->size[tgt->ndim - 1] != self->d_model,
               op, "the feature number of src and tgt must be equal to d_model");
    return true;
}

static rg_tensor *transformer_run(rg_module *m, rg_tensor *src, rg_tensor *tgt,
                                  const rg_src_tgt_options *o) {
    rg_transformer *self = (rg_transformer *)m;
    if (!transformer_check(self, src, tgt)
        || !rgi_want_tensor_or_none("transformer", "src_mask", o->src_mask))
        return NULL;
    rg_mask_options reads = { .mask = o->src_mask,
                              .src_key_padding_mask = o->src_key_padding_mask,
                              .is_causal = o->src_is_causal };
    rg_tgt_options writes = { .tgt_mask = o->tgt_mask,
                              .memory_mask = o->memory_mask,
                              .tgt_key_padding_mask = o->tgt_key_padding_mask,
                              .memory_key_padding_mask = o->memory_key_padding_mask,
                              .tgt_is_causal = o->tgt_is_causal,
                              .memory_is_causal = o->memory_is_causal };
    rg_tensor *memory = rg_call_keywords(self->encoder, &reads, src);
    return rg_call_keywords(self->decoder, &writes, tgt, memory);
}

static rg_tensor *transformer_forward(rg_module *m, rg_tensor *src, rg_tensor *tgt) {
    rg_src_tgt_options none = { .src_mask = RG_NONE,
                                .tgt_mask = RG_NONE,
                                .memory_mask = RG_NONE,
                                .src_key_padding_mask = RG_NONE,
                                .tgt_key_padding_mask = RG_NONE,
                                .memory_key_padding_mask = RG_NONE };
    return transformer_run(m, src, tgt, &none);
}

static rg_tensor *transformer_forward_with(rg_module *m, rg_list in, void *keywords) {
    static const char *const names[] = { "src", "tgt" };
    return in.n == 2 ? transformer_run(m, in.v[0], in.v[1], keywords)
                     : rgi_fail_for_inputs_of(m->cls, in.n, 2, names);
}

rg_tensor *rg_transformer_forward_with(rg_transformer *self, rg_tensor *src, rg_tensor *tgt,
                                       rg_src_tgt_options o) {
    if (!rgi_module_given((rg_module *)self, "transformer"))
        return NULL;
    return rg_call_keywords(self, &o, src, tgt);
}

/* ---- the class and the constructor --------------------------------------------- */

static const rg_module_class transformer_class = { .name = "Transformer",
                                                   .forward2 = transformer_forward,
                                                   .forward_with = transformer_forward_with,
                                                   .keywords_bytes = sizeof(rg_src_tgt_options) };

static rg_transformer_options layer_options(const rg_nn_transformer_options *o) {
    return (rg_transformer_options){ .dim_feedforward = o->dim_feedforward,
                                     .dropout = o->dropout,
                                     .activation = o->activation,
                                     .layer_norm_eps = o->layer_norm_eps,
                                     .batch_first = o->batch_first,
                                     .norm_first = o->norm_first,
                                     .bias = o->bias };
}

static rg_norm_module *norm_of(const rg_nn_transformer_options *o) {
    return rg_nn_layer_norm(o->d_model, .eps = o->layer_norm_eps, .bias = o->bias);
}

static void *encoder_of(const rg_nn_transformer_options *o) {
    if (o->custom_encoder != RG_NONE)
        return o->custom_encoder;
    void *layer = rg_nn_transformer_encoder_layer_with(o->d_model, o->nhead, layer_options(o));
    if (!layer)
        return NULL;
    return rg_nn_transformer_encoder(layer, o->num_encoder_layers, .norm = norm_of(o));
}

static void *decoder_of(const rg_nn_transformer_options *o) {
    if (o->custom_decoder != RG_NONE)
        return o->custom_decoder;
    void *layer = rg_nn_transformer_decoder_layer_with(o->d_model, o->nhead, layer_options(o));
    if (!layer)
        return NULL;
    return rg_nn_transformer_decoder(layer, o->num_decoder_layers, .norm = norm_of(o));
}

/* Draws all parameters of two or more dims again, now from the Xavier uniform distribution. torch's
 * Transformer also does this after it has made its parts. Returns false on failure. */
static bool draw_again(rg_transformer *self) {
    RG_SCOPE();
    rg_list all = rg_parameters(self);
    for (int i = 0; i < all.n; i++)
        if (rg_ndim(all.v[i]) > 1 && !rg_nn_init_xavier_uniform_(all.v[i], 1))
            return false;
    return all.n >= 0;
}

rg_transformer *rg_nn_transformer_with(rg_nn_transformer_options o) {
    RG_AS("Transformer");
    rg_transformer *self = RG_MODULE(rg_transformer, &transformer_class, .d_model = o.d_model,
                                     .nhead = o.nhead, .batch_first = o.batch_first);
    if (!self) {
        rgi_drop_module(o.custom_encoder);
        rgi_drop_module(o.custom_decoder);
        return NULL;
    }
    RG_CHILD(self, encoder, encoder_of(&o));
    RG_CHILD(self, decoder, decoder_of(&o));
    if (RG_UNFAILED_(self))
        self->base.failed = !draw_again(self);
    return RG_READY(self);
}
