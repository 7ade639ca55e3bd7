/*
 * transformer_decoder.c: TransformerDecoderLayer (self-attention, attention to the memory, and a
 * feedforward network), and TransformerDecoder, a stack of such layers.
 */
#include "child.h"
#include "multihead.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/scope.h"
#include "tensor/structs.h"
#include "transformer_parts.h"

/* ---- the forward of TransformerDecoderLayer ------------------------------------ */

/* Computes self-attention over tgt. o->cache is the part of the decoder's cache that belongs to
 * this layer, or NULL if there is no cache. */
static rg_tensor *decoder_attend_self(rg_transformer_decoder_layer *self, rg_tensor *x,
                                      const rg_tgt_options *o) {
    rg_attention_cache seen, *cache = NULL;
    if (o->cache) {
        seen = (rg_attention_cache){ .keys = rg_select(o->cache->tgt, 0, 0),
                                     .values = rg_select(o->cache->tgt, 0, 1),
                                     .length = o->cache->length };
        cache = &seen;
    }
    rg_attended a = rg_multihead_attention_forward(self->self_attn, x, x, x,
                                                   .key_padding_mask = o->tgt_key_padding_mask,
                                                   .need_weights = false, .attn_mask = o->tgt_mask,
                                                   .is_causal = o->tgt_is_causal, .cache = cache);
    return rg_call(self->dropout1, a.output);
}

static rg_tensor *decoder_attend_memory(rg_transformer_decoder_layer *self, rg_tensor *x,
                                        rg_tensor *memory, const rg_tgt_options *o) {
    rg_attention_cache known, *cache = NULL;
    if (o->cache) {
        rg_tensor *keys = rg_select(o->cache->memory, 0, 0);
        if (!keys)
            return NULL;
        known = (rg_attention_cache){ .keys = keys,
                                      .values = rg_select(o->cache->memory, 0, 1),
                                      .length = keys->ndim == 4 ? keys->size[2] : 0,
                                      .complete = true };
        cache = &known;
    }
    rg_attended a = rg_multihead_attention_forward(
        self->multihead_attn, x, memory, memory, .key_padding_mask = o->memory_key_padding_mask,
        .need_weights = false, .attn_mask = o->memory_mask, .is_causal = o->memory_is_causal,
        .cache = cache);
    return rg_call(self->dropout2, a.output);
}

static rg_tensor *decoder_feed_forward(rg_transformer_decoder_layer *self, rg_tensor *x) {
    return rgi_feed_forward(self->linear1, self->o.activation, self->dropout, self->linear2,
                            self->dropout3, x);
}

/* Fails and returns false if a mask is NULL or released. The attention checks the rest. */
static bool decoder_check_masks(const char *op, const rg_tgt_options *o) {
    return rgi_want_tensor_or_none(op, "tgt_mask", o->tgt_mask)
           && rgi_want_tensor_or_none(op, "memory_mask", o->memory_mask)
           && rgi_want_tensor_or_none(op, "tgt_key_padding_mask", o->tgt_key_padding_mask)
           && rgi_want_tensor_or_none(op, "memory_key_padding_mask", o->memory_key_padding_mask);
}

static rg_tensor *decoder_layer_run(rg_module *m, rg_tensor *x, rg_tensor *memory,
                                    const rg_tgt_options *o) {
    rg_transformer_decoder_layer *self = (rg_transformer_decoder_layer *)m;
    if (!decoder_check_masks("transformer_decoder_layer", o))
        return NULL;
    if (self->o.norm_first) {
        x = rg_add(x, decoder_attend_self(self, rg_call(self->norm1, x), o));
        x = rg_add(x, decoder_attend_memory(self, rg_call(self->norm2, x), memory, o));
        return rg_add(x, decoder_feed_forward(self, rg_call(self->norm3, x)));
    }
    x = rg_call(self->norm1, rg_add(x, decoder_attend_self(self, x, o)));
    x = rg_call(self->norm2, rg_add(x, decoder_attend_memory(self, x, memory, o)));
    return rg_call(self->norm3, rg_add(x, decoder_feed_forward(self, x)));
}

static const char *const input_names[] = { "tgt", "memory" };
static const rg_tgt_options no_masks = { .tgt_mask = RG_NONE,
                                         .memory_mask = RG_NONE,
                                         .tgt_key_padding_mask = RG_NONE,
                                         .memory_key_padding_mask = RG_NONE };

static rg_tensor *decoder_layer_forward(rg_module *m, rg_tensor *tgt, rg_tensor *memory) {
    return decoder_layer_run(m, tgt, memory, &no_masks);
}

static rg_tensor *decoder_layer_forward_with(rg_module *m, rg_list in, void *keywords) {
    if (in.n != 2)
        return rgi_fail_for_inputs_of(m->cls, in.n, 2, input_names);
    return decoder_layer_run(m, in.v[0], in.v[1], keywords);
}

rg_tensor *rg_transformer_decoder_layer_forward_with(rg_transformer_decoder_layer *self,
                                                     rg_tensor *tgt, rg_tensor *memory,
                                                     rg_tgt_options o) {
    if (!rgi_module_given((rg_module *)self, "transformer_decoder_layer"))
        return NULL;
    return rg_call_keywords(self, &o, tgt, memory);
}

/* ---- the class and the constructor of TransformerDecoderLayer ------------------ */

static const rg_module_class decoder_layer_class = { .name = "TransformerDecoderLayer",
                                                     .forward2 = decoder_layer_forward,
                                                     .forward_with = decoder_layer_forward_with,
                                                     .keywords_bytes = sizeof(rg_tgt_options) };

static bool is_decoder_layer(const rg_module *m) { return m->cls == &decoder_layer_class; }

/* Makes the children in the order in which torch makes them, so that their weights get the same
 * random numbers. */
rg_transformer_decoder_layer *(rg_nn_transformer_decoder_layer_with)(int64_t d_model, int64_t nhead,
                                                                     rg_transformer_options o) {
    RG_AS("TransformerDecoderLayer");
    if (!rgi_given(o.activation, "TransformerDecoderLayer", "a function as activation"))
        return NULL;
    rg_transformer_decoder_layer *self = RG_MODULE(rg_transformer_decoder_layer,
                                                   &decoder_layer_class, .o = o);
    RG_CHILD(self, self_attn,
             rg_nn_multihead_attention(d_model, nhead, .dropout = o.dropout, .bias = o.bias,
                                       .batch_first = o.batch_first));
    RG_CHILD(self, multihead_attn,
             rg_nn_multihead_attention(d_model, nhead, .dropout = o.dropout, .bias = o.bias,
                                       .batch_first = o.batch_first));
    if (!RG_UNFAILED_(self))
        return RG_READY(self);
    RG_CHILD(self, linear1, rg_nn_linear(d_model, o.dim_feedforward, .bias = o.bias));
    RG_CHILD(self, dropout, rg_nn_dropout(o.dropout));
    RG_CHILD(self, linear2, rg_nn_linear(o.dim_feedforward, d_model, .bias = o.bias));
    RG_CHILD(self, norm1, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, norm2, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, norm3, rg_nn_layer_norm(d_model, .eps = o.layer_norm_eps, .bias = o.bias));
    RG_CHILD(self, dropout1, rg_nn_dropout(o.dropout));
    RG_CHILD(self, dropout2, rg_nn_dropout(o.dropout));
    RG_CHILD(self, dropout3, rg_nn_dropout(o.dropout));
    return RG_READY(self);
}

/* ---- the forward of TransformerDecoder ----------------------------------------- */

/* Fails and returns false unless each layer is a TransformerDecoderLayer with two
 * MultiheadAttentions, because only these can use a cache. */
static bool decoder_check_layers(const char *op, const rg_transformer_decoder *self) {
    if (!rgi_want_layers(op, "layers", self->layers))
        return false;
    for (int i = 0; i < self->layers->n; i++) {
        const rg_module *layer = self->layers->v[i];
        const char *attention = "MultiheadAttention";
        if (!rgi_module_given(layer, op))
            return false;
        RG_FAIL_AS_IF(RG_TYPE_ERROR, !is_decoder_layer(layer), op,
                      "a cache needs layers of TransformerDecoderLayer, but layer %d is a %s", i,
                      layer->cls->name);
        const rg_transformer_decoder_layer *l = (const void *)layer;
        if (!rgi_want_child(op, "self_attn", l->self_attn, rgi_is_multihead, attention)
            || !rgi_want_child(op, "multihead_attn", l->multihead_attn, rgi_is_multihead,
                               attention))
            return false;
    }
    return true;
}

/* Fails and returns false unless each layer can use a cache, and the cache has a part for each of
 * the decoder's layers. */
static bool decoder_check_cache(const rg_transformer_decoder *self, const rg_decoder_cache *c) {
    const char *op = "transformer_decoder";
    if (!rgi_check(c->tgt, op) || !rgi_check(c->memory, op) || !decoder_check_layers(op, self))
        return false;
    int layers = self->layers->n;
    RG_FAIL_IF(c->tgt->ndim != 6 || c->memory->ndim != 6 || c->tgt->size[0] != layers
                   || c->memory->size[0] != layers,
               op, "expected a cache for %d layers, but got %s and %s", layers,
               rg_repr_shape(c->tgt), rg_repr_shape(c->memory));
    RG_FAIL_IF(rgi_overlaps_itself(c->tgt), op,
               "more than one element of the cache's tgt refers to a single memory location");
    return true;
}

/* Fails and returns false unless `memory` has the shape of the memory whose keys are in the
 * cache. */
static bool decoder_check_memory(const rg_transformer_decoder *self, const rg_decoder_cache *c,
                                 rg_tensor *memory) {
    const char *op = "transformer_decoder";
    if (!rgi_check(memory, op))
        return false;
    if (self->layers->n == 0)
        return true;
    const rg_transformer_decoder_layer *layer = (void *)self->layers->v[0];
    const bool batch_first = layer->multihead_attn->o.batch_first;
    const int64_t *kept = c->memory->size; /* layers, 2, batch, heads, positions, head size */
    const int64_t batch = kept[2], positions = kept[4], width = kept[3] * kept[5];
    const bool batched = memory->ndim == 3;
    const bool fits = (batched || (memory->ndim == 2 && batch == 1))
                      && memory->size[memory->ndim - 1] == width
                      && memory->size[batched && batch_first] == positions
                      && (!batched || memory->size[!batch_first] == batch);
    RG_FAIL_IF(!fits, op,
               "the cache holds the keys of %lld positions of %lld memories of width %lld, but the "
               "memory is %s",
               (long long)positions, (long long)batch, (long long)width, rg_repr_shape(memory));
    return true;
}

/* Runs the i-th layer with its part of the cache. Returns the layer's output, or NULL on
 * failure. */
static rg_tensor *decoder_run_cached(rg_transformer_decoder *self, int i, rg_tensor *x,
                                     rg_tensor *memory, const rg_tgt_options *o) {
    rg_decoder_cache part = { .tgt = rg_select(o->cache->tgt, 0, i),
                              .memory = rg_select(o->cache->memory, 0, i),
                              .length = o->cache->length };
    rg_tgt_options each = *o;
    each.cache = &part;
    return rg_call_keywords(self->layers->v[i], &each, x, memory);
}

static rg_tensor *decoder_run(rg_module *m, rg_tensor *tgt, rg_tensor *memory,
                              const rg_tgt_options *o) {
    rg_transformer_decoder *self = (rg_transformer_decoder *)m;
    const char *op = "transformer_decoder";
    if (!rgi_check(tgt, op) || !rgi_want_layers(op, "layers", self->layers))
        return NULL;
    int n = self->layers->n;
    RG_FAIL_INDEX_IF(!n, op, "index 0 is out of range");
    rg_tensor *x = tgt;
    for (int i = 0; i < n && x; i++) {
        rg_tgt_options each = *o;
        x = o->cache ? decoder_run_cached(self, i, x, memory, o)
                     : rg_call_keywords(self->layers->v[i], &each, x, memory);
    }
    return self->norm ? rg_call(self->norm, x) : x;
}

/* Runs the decoder with a cache. Each layer writes its keys and values after the positions that are
 * in the cache already. cache->length grows only after all layers and the norm have succeeded. If
 * one of them fails, the cache therefore holds as many positions as before; the room behind them
 * may be overwritten. */
static rg_tensor *decoder_continue(rg_module *m, rg_tensor *tgt, rg_tensor *memory,
                                   const rg_tgt_options *o) {
    RG_NO_GRAD();
    rg_transformer_decoder *self = (rg_transformer_decoder *)m;
    if (!decoder_check_cache(self, o->cache) || !decoder_check_memory(self, o->cache, memory))
        return NULL;
    rg_tensor *y = decoder_run(m, tgt, memory, o);
    if (y) {
        rg_multihead_attention *attention =
            ((rg_transformer_decoder_layer *)self->layers->v[0])->self_attn;
        bool second = tgt->ndim == 3 && attention->o.batch_first;
        o->cache->length += tgt->size[second];
    }
    return y;
}

static rg_tensor *decoder_forward(rg_module *m, rg_tensor *tgt, rg_tensor *memory) {
    return decoder_run(m, tgt, memory, &no_masks);
}

static rg_tensor *decoder_forward_with(rg_module *m, rg_list in, void *keywords) {
    const rg_tgt_options *o = keywords;
    if (in.n != 2)
        return rgi_fail_for_inputs_of(m->cls, in.n, 2, input_names);
    return o->cache ? decoder_continue(m, in.v[0], in.v[1], o)
                    : decoder_run(m, in.v[0], in.v[1], o);
}

rg_tensor *rg_transformer_decoder_forward_with(rg_transformer_decoder *self, rg_tensor *tgt,
                                               rg_tensor *memory, rg_tgt_options o) {
    if (!rgi_module_given((rg_module *)self, "transformer_decoder"))
        return NULL;
    return rg_call_keywords(self, &o, tgt, memory);
}

/* ---- the cache of TransformerDecoder ------------------------------------------- */

/* Returns the keys and values that each layer computes from the memory, as one tensor (layers, 2,
 * batch, heads, positions, head size). Fails and returns NULL unless each layer can use a cache. */
static rg_tensor *decoder_memory(rg_transformer_decoder *self, rg_tensor *memory) {
    RG_SCOPE();
    if (!decoder_check_layers("transformer_decoder_cache", self))
        return NULL;
    int n = self->layers->n;
    rg_tensor **each = rgi_scope_alloc((size_t)n * sizeof *each);
    for (int i = 0; i < n && each; i++) {
        rg_transformer_decoder_layer *layer = (void *)self->layers->v[i];
        each[i] = rgi_keys_and_values(layer->multihead_attn, memory);
    }
    return rg_escape(rg_stack(rg_list_of(n, each), 0));
}

rg_decoder_cache(rg_transformer_decoder_cache)(rg_transformer_decoder *self, rg_tensor *memory,
                                               int64_t positions) {
    RG_AS("transformer_decoder_cache");
    const rg_decoder_cache failed = { NULL, NULL, 0 };
    if (!rgi_module_given((rg_module *)self, "transformer_decoder_cache"))
        return failed;
    RG_SCOPE();
    rg_tensor *known = decoder_memory(self, memory);
    if (!known)
        return failed;
    rg_dims shape = rg_shape(known);
    shape.v[4] = positions;
    rg_tensor *room = rg_zeros_dims(shape, (rg_dtype)known->dtype);
    return room ? (rg_decoder_cache){ rg_escape(room), rg_escape(known), 0 } : failed;
}

/* ---- the class and the constructor of TransformerDecoder ----------------------- */

static const rg_module_class decoder_class = { .name = "TransformerDecoder",
                                               .forward2 = decoder_forward,
                                               .forward_with = decoder_forward_with,
                                               .keywords_bytes = sizeof(rg_tgt_options) };

rg_transformer_decoder *(rg_nn_transformer_decoder_with)(void *layer, int64_t num_layers,
                                                         rg_decoder_options o) {
    RG_AS("TransformerDecoder");
    rg_transformer_decoder *self = RG_MODULE(rg_transformer_decoder, &decoder_class,
                                             .num_layers = num_layers);
    rg_module_list *layers = rgi_clones("TransformerDecoder", layer, num_layers);
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
