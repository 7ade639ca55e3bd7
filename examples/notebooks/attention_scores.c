/*
 * attention_scores.c: the notebook that computes attention scores, weights and
 * context vectors by hand, three ways. Read it beside the original.
 */
#include "notebook.h"

/* torch.exp(x) / torch.exp(x).sum(dim=dim) */
static rg_tensor *softmax_naive(rg_tensor *x, int dim) {
    return rg_div(rg_exp(x), rg_sum_dim(rg_exp(x), dim, false));
}

int main(void) {
    rg_on_error(stop_on_error);

    rg_manual_seed(123);
    rg_tensor *inputs = rg_rand(6, 3);

    /* First way: x_2 is called the query, and we do a dot operation */
    rg_tensor *x_2 = rg_index(inputs, 1);
    printf("shape of x_2: %s\n", rg_repr_shape(x_2));
    rg_tensor *attention_scores1 = rg_empty(6);
    for (int i = 0; i < 6; i++)
        rg_set_item_(attention_scores1, rg_matmul(x_2, rg_index(inputs, i)), i);
    rg_print(attention_scores1);

    /* Second way: dot computes the dot product of two 1D tensors */
    x_2 = rg_index(inputs, 1);
    rg_tensor *attention_scores2 = rg_empty(6);
    for (int i = 0; i < 6; i++)
        rg_set_item_(attention_scores2, rg_dot(x_2, rg_index(inputs, i)), i);
    rg_print(attention_scores2);

    /* Third way */
    rg_tensor *attention_scores3 = rg_matmul(inputs, x_2);
    rg_print(attention_scores3);
    rg_print(rg_index(inputs, 0));

    /* dot product between 1d tensors */
    printf("inputs[0]: %s\n", rg_str(rg_index(inputs, 0)));
    printf("x_2: %s\n", rg_str(x_2));
    rg_tensor *res = rg_scalar(0);
    for (int idx = 0; idx < 3; idx++)
        res = rg_add(res, rg_mul(rg_index(inputs, 0, idx), rg_index(x_2, idx)));
    rg_print(res);

    puts(rg_repr_shape(rg_index(inputs, 0)));
    puts(rg_repr_shape(x_2));
    rg_print(rg_matmul(inputs, x_2));
    puts(rg_repr_shape(inputs));

    /* normalisation of attention scores converts them to attention weights */
    rg_tensor *attention_weights = rg_div(attention_scores3, rg_sum(attention_scores3));
    printf("attention scores: %s\n", rg_str(attention_weights));
    printf("attention scores sum to one: %s\n", rg_str(rg_sum(attention_weights)));

    /* this is a full computation of attention scores */
    rg_tensor *attn_scores = rg_matmul(inputs, rg_T(inputs));
    rg_print(attn_scores);

    /* manually calculating softmax */
    rg_print(rg_index(inputs, 0));
    rg_print(rg_div(rg_exp(rg_index(inputs, 0)),
                    rg_sum_dim(rg_exp(rg_index(inputs, 0)), 0, false)));
    rg_print(softmax_naive(attention_scores3, 0));

    rg_tensor *naive_soft_inputs1 = softmax_naive(attn_scores, 1);
    rg_print(naive_soft_inputs1);
    puts(rg_repr_shape(naive_soft_inputs1));
    rg_print(rg_index(naive_soft_inputs1, ":, 0"));
    rg_print(rg_sum(rg_index(naive_soft_inputs1, ":, 0")));

    rg_tensor *naive_soft_inputs2 = softmax_naive(attn_scores, 0);
    rg_print(rg_index(naive_soft_inputs2, ":, 0"));
    rg_print(rg_sum(rg_index(naive_soft_inputs2, ":, 0")));

    rg_print(rg_div(rg_exp(attn_scores), rg_sum_dim(rg_exp(attn_scores), 1, false)));
    rg_print(rg_div(rg_exp(attn_scores), rg_sum_dim(rg_exp(attn_scores), 0, false)));
    rg_print(attn_scores);
    rg_print(rg_sum_dim(rg_exp(attn_scores), 1, false));
    rg_print(rg_sum_dim(rg_exp(attn_scores), 0, false));

    /* the attention weight for the first index, at the more fundamental level */
    rg_print(rg_exp(attn_scores));
    printf("%.4f\n", 1.5187 / 8.688);
    printf("%.4f\n", 1.5844 / 8.6883);
    printf("%.4f\n", 1.5844 / 13.4997);

    /* the softmax of the library is numerically stable */
    rg_tensor *attention_weights1 = rg_softmax(attention_scores3, 0);
    rg_print(attention_weights1);
    rg_tensor *attention_weights2 = rg_softmax(attn_scores, 0);
    rg_print(attention_weights2);

    /* context vectors, from the inputs and the attention weights */
    puts(rg_repr_shape(attention_weights2));
    puts(rg_repr_shape(inputs));
    rg_print(rg_matmul(attention_weights2, inputs));
    rg_print(rg_matmul(attention_weights1, inputs));

    /* in a loop */
    rg_tensor *context_vec = rg_zeros(3);
    for (int idx = 0; idx < 6; idx++)
        rg_add_(context_vec, rg_mul(rg_index(attention_weights1, idx), rg_index(inputs, idx)));
    rg_print(context_vec);
}
