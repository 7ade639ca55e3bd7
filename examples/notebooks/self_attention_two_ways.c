/*
 * self_attention_two_ways.c: the notebook that does one self-attention in PyTorch
 * and again in TensorFlow. Read it beside the original.
 */
#include "notebook.h"

/* print("text \n", x): Python puts a space between the two */
#define PRINT_UNDER(text, repr) printf(text ": \n %s\n", repr)

/* tf.nn.softmax multiplies by the reciprocal of the sum: e * (1 / sum) */
static rg_tensor *tf_softmax(rg_tensor *x) {
    rg_tensor *e = rg_exp(rg_sub(x, rg_amax_dim(x, -1, true)));
    return rg_mul(e, rg_reciprocal(rg_sum_dim(e, -1, true)));
}

int main(void) {
    rg_on_error(stop_on_error);

    /* PyTorch */

    /* 0. define input */
    rg_tensor *x = rg_literal_as(RG_FLOAT32, [
      [1, 0, 1, 0],
      [0, 2, 0, 2],
      [1, 1, 1, 1]
    ]);
    rg_print(x);

    /* 0. define weight matrix for key, query, value */
    rg_tensor *w_key = rg_literal_as(RG_FLOAT32, [
      [0, 0, 1],
      [1, 1, 0],
      [0, 1, 0],
      [1, 1, 0]
    ]);
    rg_tensor *w_query = rg_literal_as(RG_FLOAT32, [
      [1, 0, 1],
      [1, 0, 0],
      [0, 0, 1],
      [0, 1, 1]
    ]);
    rg_tensor *w_value = rg_literal_as(RG_FLOAT32, [
      [0, 2, 0],
      [0, 3, 0],
      [1, 0, 3],
      [1, 1, 0]
    ]);
    PRINT_UNDER("Weights for key", rg_repr(w_key));
    PRINT_UNDER("Weights for query", rg_repr(w_query));
    PRINT_UNDER("Weights for value", rg_repr(w_value));

    /* 1. project inputs onto weight matrix to get respective key, query, value */
    rg_tensor *keys = rg_matmul(x, w_key);
    rg_tensor *querys = rg_matmul(x, w_query);
    rg_tensor *values = rg_matmul(x, w_value);
    PRINT_UNDER("Keys", rg_repr(keys));
    PRINT_UNDER("Querys", rg_repr(querys));
    PRINT_UNDER("Values", rg_repr(values));

    /* 2. calculate attention score */
    rg_tensor *attn_scores = rg_matmul(querys, rg_T(keys));
    rg_print(attn_scores);

    /* 3. apply softmax on attention score to normalize the weight */
    rg_tensor *attn_scores_softmax = rg_softmax(attn_scores, -1);
    rg_print(attn_scores_softmax);

    /* For readability, approximate the above as follows */
    attn_scores_softmax = rg_literal([
      [0.0, 0.5, 0.5],
      [0.0, 1.0, 0.0],
      [0.0, 0.9, 0.1]
    ]);
    rg_print(attn_scores_softmax);

    /* 4. contextualised embedding from weighted values */
    rg_tensor *outputs = rg_matmul(attn_scores_softmax, values);
    rg_print(outputs);

    /* TensorFlow */

    puts(rg_repr_tf(x));
    PRINT_UNDER("Weights for key", rg_repr_tf(w_key));
    PRINT_UNDER("Weights for query", rg_repr_tf(w_query));
    PRINT_UNDER("Weights for value", rg_repr_tf(w_value));

    attn_scores = rg_matmul(querys, rg_T(keys));
    puts(rg_repr_tf(attn_scores));
    attn_scores_softmax = tf_softmax(attn_scores);
    puts(rg_repr_tf(attn_scores_softmax));
    attn_scores_softmax = rg_literal([
      [0.0, 0.5, 0.5],
      [0.0, 1.0, 0.0],
      [0.0, 0.9, 0.1]
    ]);
    puts(rg_repr_tf(attn_scores_softmax));
    outputs = rg_matmul(attn_scores_softmax, values);
    puts(rg_repr_tf(outputs));
}
