/*
 * self_attention_module.c: the notebook that embeds a sentence, computes attention
 * with learned weights, and makes a module of it. Read it beside the original.
 */
#include "notebook.h"

typedef struct {
    rg_module  base;
    rg_tensor *w_query, *w_key, *w_value;
    int        d_out_kq;
} SelfAttention;

static rg_tensor *self_attention_forward(rg_module *m, rg_tensor *x) {
    SelfAttention *self = (SelfAttention *)m;
    rg_tensor *queries = rg_matmul(x, self->w_query);
    rg_tensor *keyes = rg_matmul(x, self->w_key);
    rg_tensor *values = rg_matmul(x, self->w_value);

    rg_tensor *attn_scores = rg_matmul(queries, rg_T(keyes));

    rg_tensor *attn_weights = rg_softmax(rg_div(attn_scores, sqrt(self->d_out_kq)), -1);

    return rg_matmul(attn_weights, values);
}

static const rg_module_class self_attention_class = {
    .name = "SelfAttention",
    .forward = self_attention_forward,
};

static SelfAttention *self_attention(int d_in, int d_out_kq, int d_out_v) {
    SelfAttention *self = RG_MODULE(SelfAttention, &self_attention_class, .d_out_kq = d_out_kq);
    RG_PARAMETER(self, w_query, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_key, rg_randn(d_in, d_out_kq));
    RG_PARAMETER(self, w_value, rg_randn(d_in, d_out_v));
    return RG_READY(self);
}

int main(void) {
    rg_on_error(stop_on_error);
    rg_manual_seed(123);

    /* Embedding an input sentence */
    const char *sentence = "Life is short, eat dessert first";
    rg_vocabulary *word_to_idx = rg_vocabulary_new(sentence);
    rg_tensor *sentence_int = rg_encode(word_to_idx, sentence);

    int vocab_size = 50000;
    rg_embedding_module *embed = rg_nn_embedding(vocab_size, 3);
    rg_tensor *embedded_sentence = rg_call(embed, sentence_int);
    rg_print(embedded_sentence);
    puts(rg_repr_shape(embedded_sentence));

    /* Defining weight matrices */
    int d_q = 2, d_k = 2, d_v = 4;
    int d = (int)rg_size(embedded_sentence, 1);
    rg_tensor *w_query = rg_requires_grad_(rg_randn(d, d_q), true);
    rg_tensor *w_key = rg_requires_grad_(rg_randn(d, d_k), true);
    rg_tensor *w_value = rg_requires_grad_(rg_randn(d, d_v), true);
    rg_tensor *keys = rg_matmul(embedded_sentence, w_key);
    rg_tensor *values = rg_matmul(embedded_sentence, w_value);

    /* the attention weights for one single example */
    rg_tensor *x_1 = rg_index(embedded_sentence, 1);
    rg_tensor *query_1 = rg_matmul(rg_index(x_1, "None, :"), w_query);
    rg_tensor *omega_1 = rg_matmul(query_1, rg_T(keys));
    rg_print(omega_1);
    rg_tensor *attention_weights = rg_softmax(rg_div(omega_1, sqrt(d_k)), -1);
    puts(rg_repr_shape(attention_weights));
    puts(rg_repr_shape(values));
    rg_tensor *context_vector_1 = rg_matmul(attention_weights, values);
    puts(rg_repr_shape(context_vector_1));

    /* Self Attention */
    SelfAttention *self_attn = self_attention(3, 2, 4);
    rg_tensor *sa_out = rg_call(self_attn, embedded_sentence);
    puts(rg_repr_shape(sa_out));

    rg_module_free(self_attn);
    rg_module_free(embed);
    rg_vocabulary_free(word_to_idx);
}
