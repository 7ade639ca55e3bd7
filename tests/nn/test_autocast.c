/*
 * test_autocast.c: modules and training under autocast, compared with PyTorch: the dtypes of the
 * results, values, and the gradients of parameters.
 */
#include "nn/nn.h"
#include "regard.h"
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/kernels/limits.h"

#include <math.h>
#include <string.h>

enum { MOST_RESULTS = 3 };

/* Makes the module of this name, as autocast.py does. */
static void *module(const char *name) {
    rg_manual_seed(3);
    if (strcmp(name, "linear") == 0)
        return rg_nn_linear(4, 3);
    if (strcmp(name, "linear_norm") == 0)
        return rg_nn_sequential(rg_nn_linear(4, 4), rg_nn_layer_norm(4), rg_nn_gelu());
    if (strcmp(name, "norm") == 0)
        return rg_nn_layer_norm(4);
    if (strcmp(name, "rms_norm") == 0)
        return rg_nn_rms_norm(4);
    if (strcmp(name, "group_norm") == 0)
        return rg_nn_group_norm(1, 2);
    if (strcmp(name, "batch_norm") == 0)
        return rg_nn_batch_norm1d(2);
    if (strcmp(name, "conv") == 0)
        return rg_nn_conv1d(2, 3, 3);
    if (strcmp(name, "prelu") == 0)
        return rg_nn_prelu();
    if (strcmp(name, "lstm") == 0)
        return rg_nn_lstm(4, 3);
    if (strcmp(name, "lstm_two") == 0)
        return rg_nn_lstm(4, 3, .num_layers = 2, .bidirectional = true);
    if (strcmp(name, "lstm_proj") == 0)
        return rg_nn_lstm(4, 3, .proj_size = 2);
    if (strcmp(name, "gru") == 0)
        return rg_nn_gru(4, 3, .num_layers = 2);
    if (strcmp(name, "rnn") == 0)
        return rg_nn_rnn(4, 3);
    if (strcmp(name, "lstm_cell") == 0)
        return rg_nn_lstm_cell(4, 3);
    if (strcmp(name, "gru_cell") == 0)
        return rg_nn_gru_cell(4, 3);
    if (strcmp(name, "rnn_cell") == 0)
        return rg_nn_rnn_cell(4, 3);
    if (strcmp(name, "attention") == 0)
        return rg_nn_multihead_attention(4, 2);
    if (strcmp(name, "decoder") == 0)
        return rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 8, .dropout = 0);
    void *m = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8, .dropout = 0);
    if (strcmp(name, "encoder_eval") == 0)
        rg_eval(m);
    return m;
}

typedef struct {
    int n;
    rg_tensor *v[MOST_RESULTS];
} results;

static results of_rnn(rg_module *m, rg_tensor *x) {
    rg_rnn_keywords k = { .states = { .h_0 = RG_NONE, .c_0 = RG_NONE },
                          .batch_sizes = RG_NONE,
                          .c_n = RG_NONE };
    rg_tensor *y = rg_call_keywords(m, &k, x);
    return (results){ k.c_n == RG_NONE ? 2 : 3, { y, k.h_n, k.c_n } };
}

static results of_cell(rg_module *m, rg_tensor *x) {
    rg_rnn_cell_keywords k = { .states = { .h_0 = RG_NONE, .c_0 = RG_NONE }, .c = RG_NONE };
    rg_tensor *y = rg_call_keywords(m, &k, rg_select(x, 0, 0));
    return (results){ k.c == RG_NONE ? 1 : 2, { y, k.c } };
}

static results of_attention(rg_module *m, rg_tensor *x) {
    const rg_attended all = rg_multihead_attention_forward((rg_multihead_attention *)m, x, x, x);
    return (results){ 2, { all.output, all.weights } };
}

static results results_of(const char *name, rg_module *m, rg_tensor *x) {
    if (strstr(name, "_cell"))
        return of_cell(m, x);
    if (strncmp(name, "lstm", 4) == 0 || strcmp(name, "gru") == 0 || strcmp(name, "rnn") == 0)
        return of_rnn(m, x);
    if (strcmp(name, "attention") == 0)
        return of_attention(m, x);
    return (results){ 1, { strcmp(name, "decoder") ? rg_call(m, x) : rg_call(m, x, x) } };
}

/* Requires that a number differs from PyTorch's by few roundings of the dtype. */
static void check_near(const char *what, double is, double wanted, double scale, rg_dtype dtype) {
    const double most = 6 * rgi_epsilon(dtype) * (scale + fabs(wanted));
    ck_each(fabs(is - wanted) <= most, "%s in %s: %g, not %g", what, rg_dtype_name(dtype), is,
            wanted);
}

static void check_module(golden_file *f, char *words) {
    const char *name = golden_word(&words);
    const rg_dtype dtype = golden_dtype(golden_word(&words));
    const rg_dtype given = golden_dtype(golden_word(&words));
    void *m = module(name);
    rg_tensor *x = rg_to(rg_randn(5, 2, 4), given);
    results r;
    {
        RG_AUTOCAST(dtype);
        r = results_of(name, m, x);
    }
    ck_each(r.v[0] != NULL, "%s: %s", name, rg_error_peek());
    char *dtypes = golden_field(f, '>'), *values = golden_field(f, ':');
    for (int k = 0; k < r.n; k++)
        ck_each(rg_dtype_of(r.v[k]) == (int)golden_dtype(golden_word(&dtypes)),
                "%s in %s: result %d is %s", name, rg_dtype_name(dtype), k,
                rg_dtype_name((rg_dtype)rg_dtype_of(r.v[k])));
    ck_each(golden_at_end(dtypes), "%s has %d results", name, r.n);
    rg_tensor *y = rg_reshape(rg_detach(r.v[0]), -1);
    for (int64_t i = 0; i < rg_numel(y); i++)
        check_near(name, rg_at(y, i), golden_number(&values), 1, dtype);
    ck_ok(rg_backward(r.v[0], .gradient = rg_ones_like(rg_detach(r.v[0]))));
    values = golden_field(f, ':');
    const rg_list p = rg_parameters(m);
    for (int i = 0; i < p.n; i++) {
        rg_tensor *g = rg_grad_of(p.v[i]);
        ck_each(g != RG_NONE && rg_dtype_of(g) == RG_FLOAT32, "%s, parameter %d", name, i);
        /* The sum of a gradient's elements has their roundings. */
        const double scale = rg_item(rg_sum(rg_abs(g))) + 1;
        check_near(name, rg_item(rg_sum(g)), golden_number(&values), scale, dtype);
    }
    rg_module_free(m);
}

/* Trains as autocast.py does. */
static void check_training(golden_file *f, char *words) {
    const rg_dtype dtype = golden_dtype(golden_word(&words));
    rg_manual_seed(7);
    void *m = rg_nn_sequential(rg_nn_linear(4, 8), rg_nn_layer_norm(8), rg_nn_tanh(),
                               rg_nn_linear(8, 3));
    rg_tensor *x = rg_randn(6, 4);
    rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 0.01);
    char *numbers = golden_field(f, ':');
    for (int i = 0; i < 20; i++) {
        RG_SCOPE();
        rg_tensor *loss;
        {
            RG_AUTOCAST(dtype);
            loss = rg_cross_entropy(rg_call(m, x), rg_literal([ 0, 1, 2, 0, 1, 2 ]));
        }
        ck_assert_int_eq(rg_dtype_of(loss), RG_FLOAT32);
        rg_optim_zero_grad(o);
        ck_ok(rg_backward(loss) && rg_optim_step(o));
        check_near("a loss", rg_item(loss), golden_number(&numbers), 0.5, dtype);
    }
    numbers = golden_field(f, ':');
    const rg_list p = rg_parameters(m);
    for (int i = 0; i < p.n; i++) {
        rg_tensor *flat = rg_reshape(rg_detach(p.v[i]), -1);
        ck_assert_int_eq(rg_dtype_of(flat), RG_FLOAT32);
        for (int64_t k = 0; k < rg_numel(flat); k++)
            check_near("a weight", rg_at(flat, k), golden_number(&numbers), 1, dtype);
    }
    rg_optim_free(o);
    rg_module_free(m);
}

START_TEST(test_golden) {
    golden_file f = golden_open("autocast");
    for (char *words; (words = golden_case(&f));) {
        RG_SCOPE();
        if (strncmp(words, "train ", 6) == 0) {
            golden_word(&words);
            check_training(&f, words);
        } else {
            check_module(&f, words);
        }
    }
    golden_close(&f);
}
END_TEST

/* torch's LSTM refuses a float32 input under autocast in float16; here it is cast. */
START_TEST(test_lstm_in_float16) {
    RG_SCOPE();
    void *m = module("lstm");
    RG_AUTOCAST(RG_FLOAT16);
    const results r = of_rnn(m, rg_randn(5, 2, 4));
    for (int k = 0; k < r.n; k++)
        ck_assert(r.v[k] && rg_dtype_of(r.v[k]) == RG_FLOAT16);
    rg_module_free(m);
}
END_TEST

/* The dtype of a packed LSTM's results depends on whether the batch size changes, as in torch. */
START_TEST(test_packed_lstm) {
    RG_SCOPE();
    void *m = module("lstm");
    RG_AUTOCAST(RG_BFLOAT16);
    for (int shorter = 0; shorter < 2; shorter++) {
        const rg_packed_sequence packed = rg_pack_padded_sequence(
            rg_randn(5, 2, 4), shorter ? rg_literal([ 5, 3 ]) : rg_literal([ 5, 5 ]));
        const rg_rnn_packed_result r = rg_lstm_forward_packed(m, packed);
        ck_ok(r.output.data);
        const rg_dtype dtype = shorter ? RG_FLOAT32 : RG_BFLOAT16;
        ck_assert(rg_dtype_of(r.output.data) == dtype && rg_dtype_of(r.h_n) == dtype
                  && rg_dtype_of(r.c_n) == dtype);
    }
    rg_module_free(m);
}
END_TEST

/* A GPT trains under autocast about as it does in float32. */
START_TEST(test_gpt) {
    double last[2];
    for (int cast = 0; cast < 2; cast++) {
        RG_SCOPE();
        rg_manual_seed(1);
        rg_gpt *m = rg_nn_gpt(.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2,
                              .n_embd = 16);
        rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 0.01);
        rg_tensor *ids = rg_randint(0, 11, 3, 9);
        for (int i = 0; i < 30; i++) {
            RG_SCOPE();
            rg_tensor *loss;
            {
                RG_AUTOCAST(RG_BFLOAT16, .enabled = cast);
                const rg_logits_loss made = rg_gpt_forward(m, rg_narrow(ids, 1, 0, 8),
                                                           rg_narrow(ids, 1, 1, 8));
                ck_each(made.logits
                            && rg_dtype_of(made.logits) == (cast ? RG_BFLOAT16 : RG_FLOAT32),
                        "logits: %s", rg_error_peek());
                loss = made.loss;
            }
            rg_optim_zero_grad(o);
            ck_ok(rg_backward(loss) && rg_optim_step(o));
            last[cast] = rg_item(loss);
        }
        rg_optim_free(o);
        rg_module_free(m);
    }
    ck_assert(last[0] < 1 && fabs(last[1] - last[0]) < 0.1 * (last[0] + 0.5));
}
END_TEST

RG_TESTS(autocast, test_golden, test_lstm_in_float16, test_packed_lstm, test_gpt)
