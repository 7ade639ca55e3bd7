/*
 * scaled_dot_product.c: the notebook of scaled dot-product attention, which returns
 * its weights. Read it beside the original.
 */
#include "notebook.h"

/* Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V */
static rg_tensor *scaled_dot_product_attention(rg_tensor *Q, rg_tensor *K, rg_tensor *V, double d_k,
                                               rg_tensor **attention_weights) {
    rg_tensor *QK = rg_matmul(Q, rg_T(K));
    rg_tensor *matmul_scaled = rg_div(QK, sqrt(d_k));
    *attention_weights = rg_softmax(matmul_scaled, -1);
    return rg_matmul(*attention_weights, V);
}

int main(void) {
    rg_on_error(stop_on_error);

    rg_tensor *temp_k = rg_literal_as(RG_FLOAT32, [[10, 0, 0],
                                                   [0, 10, 0],
                                                   [0, 0, 10],
                                                   [0, 0, 10]]);    /* (4, 3) */
    rg_tensor *temp_v = rg_literal_as(RG_FLOAT32, [[   1, 0, 1],
                                                   [  10, 0, 2],
                                                   [ 100, 5, 0],
                                                   [1000, 6, 0]]);  /* (4, 3) */
    rg_tensor *temp_q = rg_literal_as(RG_FLOAT32, [[0, 10, 0]]);    /* (1, 3) */
    PRINT_TUPLE(rg_repr(temp_q), rg_repr(temp_k), rg_repr(temp_v));

    rg_tensor *attention_weights;
    rg_tensor *output =
        scaled_dot_product_attention(temp_q, temp_k, temp_v, 4, &attention_weights);
    PRINT_TUPLE(rg_repr(rg_round_decimals(attention_weights, 3)), rg_repr_shape(attention_weights));

    rg_print(rg_round_decimals(output, 3));
    puts(rg_repr_shape(output));
}
