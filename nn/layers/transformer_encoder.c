/*
 * transformer_encoder.c: TransformerEncoder, a stack of encoder layers with an optional norm.
 */
#include "child.h"
#include "multihead.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/structs.h"
#include "transformer_parts.h"

/* ---- copies of a layer --------------------------------------------------------- */

rg_module_list *rgi_clones(const char *op, void *layer, int64_t n) {
    if (!rgi_module_given(layer, op))
        return NULL;
    rg_module_list *list = rg_nn_module_list();
    for (int64_t i = 0; i < n; i++)
        if (!rg_module_list_append(list, rg_deepcopy(layer))) {
            rg_module_free(list);
            list = NULL;
            break;
        }
    rg_module_free(layer);
    return list;
}

void rgi_drop_module(void *m) {
    if (m != RG_NONE)
        rg_module_free(m);
}

/* ---- the padding that torch's fast path cuts off ------------------------------- */

/* Returns whether the layer's options allow torch's encoder to take its fast path. Other conditions
 * are checked by cut_off. */
static bool layer_is_fast(const rg_transformer_encoder_layer *l) {
    bool activation = l->o.activation == rg_relu || l->o.activation == rg_gelu;
    return !l->o.norm_first && l->o.batch_first && l->o.bias && activation && l->self_attn
           && rgi_is_multihead(&l->self_attn->base) && l->self_attn->num_heads % 2 == 0;
}

/* Returns whether any tensor of the list requires grad. */
static bool one_requires_grad(rg_list all) {
    for (int i = 0; i < all.n; i++)
        if (rg_requires_grad(all.v[i]))
            return true;
    return false;
}

/* torch's fast path cuts the padding off, and puts zeros in its place after the last layer. If
 * torch would take that path, returns a bool tensor (batch, length) that is true at the padded
 * positions of src, (batch, length, d_model). If torch wouldn't, returns RG_NONE. Returns NULL on
 * failure. */
static rg_tensor *cut_off(rg_transformer_encoder *self, rg_tensor *src, const rg_mask_options *o) {
    rg_module *first = self->layers->v[0];
    rg_tensor *padding = o->src_key_padding_mask;
    if (!rgi_module_given(first, "transformer_encoder"))
        return NULL;
    if (padding == RG_NONE || o->mask != RG_NONE || !self->enable_nested_tensor || first->training
        || !rgi_is_encoder_layer(first) || src->ndim != 3)
        return RG_NONE;
    if (!layer_is_fast((rg_transformer_encoder_layer *)first) || padding->ndim != 2
        || padding->size[0] != src->size[0] || padding->size[1] != src->size[1] || !src->numel)
        return RG_NONE;
    rg_list weights = rg_parameters(first);
    if (weights.n < 0 || !rgi_may_do_once("transformer_encoder"))
        return NULL;
    if (rg_is_grad_enabled() && (rg_requires_grad(src) || one_requires_grad(weights)))
        return RG_NONE;
    /* The fast path requires that all padding is at the ends of rows, that is, that no padded
     * position is followed by one that isn't padded. */
    rg_tensor *padded = rg_ne(padding, 0);
    rg_tensor *before = rg_narrow(padded, 1, 0, src->size[1] - 1);
    rg_tensor *after = rg_narrow(padded, 1, 1, src->size[1] - 1);
    rg_tensor *gap = rg_any(rg_gt(before, after));
    if (!gap)
        return NULL;
    return rg_item(gap) ? RG_NONE : padded;
}

/* ---- the forward of TransformerEncoder ----------------------------------------- */

static rg_tensor *transformer_encoder_run(rg_module *m, rg_tensor *src, const rg_mask_options *o) {
    rg_transformer_encoder *self = (rg_transformer_encoder *)m;
    const char *op = "transformer_encoder";
    if (!rgi_check(src, op) || !rgi_want_mask(op, "src_key_padding_mask", o->src_key_padding_mask)
        || !rgi_want_mask(op, "mask", o->mask)
        || !rgi_want_layers(op, "layers", self->layers))
        return NULL;
    RG_FAIL_INDEX_IF(!self->layers->n, op, "index 0 is out of range");
    rg_tensor *padded = cut_off(self, src, o);
    rg_tensor *x = padded ? src : NULL;
    for (int i = 0; i < self->layers->n && x; i++) {
        rg_src_options each = { .src_mask = o->mask,
                                .src_key_padding_mask = o->src_key_padding_mask,
                                .is_causal = o->is_causal };
        x = rg_call_keywords(self->layers->v[i], &each, x);
    }
    if (padded != RG_NONE)
        x = rg_masked_fill(x, rg_unsqueeze(padded, 2), 0);
    return self->norm ? rg_call(self->norm, x) : x;
}

static rg_tensor *transformer_encoder_forward(rg_module *m, rg_tensor *src) {
    rg_mask_options none = { .mask = RG_NONE, .src_key_padding_mask = RG_NONE };
    return transformer_encoder_run(m, src, &none);
}

static rg_tensor *transformer_encoder_forward_with(rg_module *m, rg_list in, void *keywords) {
    static const char *const name = "src";
    return in.n == 1 ? transformer_encoder_run(m, in.v[0], keywords)
                     : rgi_fail_for_inputs_of(m->cls, in.n, 1, &name);
}

rg_tensor *rg_transformer_encoder_forward_with(rg_transformer_encoder *self, rg_tensor *src,
                                               rg_mask_options o) {
    if (!rgi_module_given((rg_module *)self, "transformer_encoder"))
        return NULL;
    return rg_call_keywords(self, &o, src);
}

/* ---- the class and the constructor --------------------------------------------- */

static const rg_module_class transformer_encoder_class = {
    .name = "TransformerEncoder",
    .forward = transformer_encoder_forward,
    .forward_with = transformer_encoder_forward_with,
    .keywords_bytes = sizeof(rg_mask_options),
};

rg_transformer_encoder *(rg_nn_transformer_encoder_with)(void *layer, int64_t num_layers,
                                                         rg_encoder_options o) {
    RG_AS("TransformerEncoder");
    rg_transformer_encoder *self = RG_MODULE(rg_transformer_encoder, &transformer_encoder_class,
                                             .num_layers = num_layers,
                                             .enable_nested_tensor = o.enable_nested_tensor);
    rg_module_list *layers = rgi_clones("TransformerEncoder", layer, num_layers);
    if (!self) {
        rg_module_free(layers);
        rgi_drop_module(o.norm);
        return NULL;
    }
    RG_CHILD(self, layers, layers);
    if (o.norm != RG_NONE)
        RG_CHILD(self, norm, o.norm);
    return RG_READY(self);
}
