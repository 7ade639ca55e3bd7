/*
 * self_attention.c: SelfAttention, an attention with one head and no output projection. The names
 * of its variables and the order of its steps are those of docs/notebook.md.
 */
#include "attention.h"
#include "tensor/error.h"

#include <math.h>

rg_tensor *rg_self_attention_weights(rg_self_attention *self, rg_tensor *x) {
    if (!rgi_given(self, "self_attention_weights", "a module"))
        return NULL;
    RG_SCOPE();
    rg_tensor *queries = rg_matmul(x, self->w_query);
    rg_tensor *keys = rg_matmul(x, self->w_key);
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

rg_self_attention *(rg_nn_self_attention)(int64_t d_in, int64_t d_out_kq, int64_t d_out_v) {
    RG_AS("SelfAttention");
    RG_SCOPE();
    rg_self_attention *self = RG_MODULE(rg_self_attention, &self_attention_class,
                                        .d_out_kq = d_out_kq);
    RG_PARAMETER(self, w_query, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_key, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_value, rg_randn(d_in, d_out_v));
    return RG_READY(self);
}
