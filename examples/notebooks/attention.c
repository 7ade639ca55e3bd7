/*
 * attention.c: the notebook of three small examples: (1) softmax scores; (2) the keys of words;
 * (3) queries, keys and values. Read it beside the original.
 */
#include "notebook.h"

/* v = torch.stack([*vs]); w = torch.stack([*ws], dim=1); return v@w */
static rg_tensor *compute_keys(rg_list vs, rg_list ws) {
    rg_tensor *v = rg_stack(vs, 0);
    rg_tensor *w = rg_stack(ws, 1);
    return rg_matmul(v, w);
}

int main(void) {
    rg_on_error(stop_on_error);

    /* Example 1 */
    rg_tensor *encoder_hidden_states = rg_literal([
                            [0.21, 0.51, 1.25],
                            [4.13, -41.3, 0.31],
                            [3.2, 0.02, 9.44]]);
    rg_print(encoder_hidden_states);
    rg_tensor *scores = rg_literal_as(RG_FLOAT32, [13, 9, 9]);
    rg_tensor *softmax_scores = rg_softmax(scores, 0);
    rg_tensor *output = rg_mul(softmax_scores, encoder_hidden_states);
    rg_print(output);
    rg_print(rg_sum_dim(output, -1, false));

    /* Example 2: compute keys */
    rg_tensor *v_1 = rg_literal([1, 0, 1, 0]);
    rg_tensor *v_2 = rg_literal([0, 2, 0, 2]);
    rg_tensor *v_3 = rg_literal([1, 1, 1, 1]);
    rg_tensor *W_k1 = rg_literal([0, 1, 0, 1]);
    rg_tensor *W_k2 = rg_literal([0, 1, 1, 1]);
    rg_tensor *W_k3 = rg_literal([1, 0, 0, 0]);
    rg_tensor *W_k = rg_literal([[0, 0, 1],
                                 [1, 1, 0],
                                 [0, 1, 0],
                                 [1, 1, 0]]);
    rg_print(W_k);
    PRINT_TUPLE(rg_repr(v_1), rg_repr(v_2), rg_repr(v_3));
    PRINT_TUPLE(rg_repr(W_k1), rg_repr(W_k2), rg_repr(W_k3));
    rg_tensor *keys = compute_keys(RG_LIST(v_1, v_2, v_3), RG_LIST(W_k1, W_k2, W_k3));
    rg_print(keys);
    rg_print(rg_index(keys, 0));

    /* Example 3 */
    keys = compute_keys(RG_LIST(v_1, v_2, v_3), RG_LIST(W_k1, W_k2, W_k3));
    rg_tensor *v = rg_stack(RG_LIST(v_1, v_2, v_3), 0);
    rg_tensor *W_q = rg_literal([[1, 0, 1],
                                 [1, 0, 0],
                                 [0, 0, 1],
                                 [0, 1, 1]]);
    rg_tensor *W_v = rg_literal([[0, 2, 0],
                                 [0, 3, 0],
                                 [1, 0, 3],
                                 [1, 1, 0]]);
    keys = rg_matmul(v, W_k);
    rg_print(keys);
    rg_tensor *queries = rg_matmul(v, W_q);
    rg_print(queries);
    rg_tensor *values = rg_matmul(v, W_v);
    rg_print(values);
    rg_print(rg_mul(rg_index(queries, 0), rg_t(keys)));
    rg_print(queries);
    rg_print(rg_t(keys));
    rg_print(rg_mul(rg_index(queries, 0, 1), rg_index(keys, 0)));
    rg_tensor *attention_score = rg_matmul(rg_index(queries, 0), rg_t(keys));
    rg_print(attention_score);
    rg_print(rg_matmul(rg_index(queries, 0), rg_t(keys)));
    rg_print(rg_softmax(rg_float(attention_score), 0));

    /* Example 2 again, in floats */
    v = rg_literal_as(RG_FLOAT32, [[1, 0, 1, 0],
                                   [0, 2, 0, 2],
                                   [1, 1, 1, 1]]);
    rg_print(v);
    rg_print(rg_index(v, 0));
    rg_tensor *w_key = rg_float(W_k);
    rg_tensor *w_query = rg_float(W_q);
    keys = rg_matmul(v, w_key);
    queries = rg_matmul(v, w_query);
    rg_print(queries);
    rg_print(keys);
    rg_print(rg_matmul(queries, keys));
}
