/*
 * bits.c: trains a small GPT, a convolution with a norm, and an LSTM, and prints each weight in
 * full. It must print the same whether it is built with the library or with regard.c.
 */
#include "regard.h"

#include <stdio.h>

/* Makes a step of the optimizer with the gradients of the loss. Returns whether it succeeded. */
static bool train_on(rg_optim *optimizer, rg_tensor *loss) {
    rg_optim_zero_grad(optimizer);
    return rg_backward(loss) && rg_optim_step(optimizer);
}

static bool print_weights(rg_module *m) {
    rg_list all = rg_parameters(m);
    for (int i = 0; i < all.n; i++) {
        const float *w = (const float *)rg_data(all.v[i]);
        if (!w)
            return false;
        for (int64_t k = 0; k < rg_numel(all.v[i]); k++)
            printf("%a\n", (double)w[k]);
    }
    return all.n > 0;
}

static bool train_gpt(void) {
    rg_gpt *model = rg_nn_gpt(.block_size = 16, .vocab_size = 21, .n_layer = 2, .n_head = 2,
                              .n_embd = 32, .bias = true);
    rg_optim *optimizer = rg_optim_adamw(rg_parameters(model), .lr = 1e-2);
    bool ok = true;
    RG_FOR (int i = 0; i < 5; i++) {
        rg_tensor *idx = rg_randint(0, 21, 4, 16);
        rg_tensor *targets = rg_randint(0, 21, 4, 16);
        ok = ok && train_on(optimizer, rg_gpt_forward(model, idx, targets).loss);
    }
    ok = ok && print_weights((rg_module *)model);
    rg_optim_free(optimizer);
    rg_module_free(model);
    return ok;
}

static bool train_conv(void) {
    rg_sequential *model = rg_nn_sequential(rg_nn_conv2d(3, 8, 3, .padding = 1),
                                            rg_nn_batch_norm2d(8), rg_nn_gelu(),
                                            rg_nn_max_pool2d(2), rg_nn_flatten(1, -1),
                                            rg_nn_linear(8 * 7 * 7, 10), rg_nn_log_softmax(1));
    rg_optim *optimizer = rg_optim_sgd(rg_parameters(model), .lr = 0.1, .momentum = 0.9);
    bool ok = true;
    RG_FOR (int i = 0; i < 5; i++) {
        rg_tensor *x = rg_randn(6, 3, 14, 14);
        rg_tensor *target = rg_randint(0, 10, 6);
        ok = ok && train_on(optimizer, rg_nll_loss(rg_call(model, x), target));
    }
    ok = ok && print_weights((rg_module *)model);
    rg_optim_free(optimizer);
    rg_module_free(model);
    return ok;
}

static bool train_lstm(void) {
    rg_rnn_module *model = rg_nn_lstm(9, 13, .num_layers = 2);
    rg_optim *optimizer = rg_optim_adam(rg_parameters(model), .lr = 1e-2);
    bool ok = true;
    RG_FOR (int i = 0; i < 5; i++) {
        rg_tensor *y = rg_rnn_forward(model, rg_randn(7, 3, 9)).output;
        ok = ok && train_on(optimizer, rg_mean(rg_square(rg_sin(y))));
    }
    ok = ok && print_weights((rg_module *)model);
    rg_optim_free(optimizer);
    rg_module_free(model);
    return ok;
}

int main(void) {
    rg_manual_seed(3);
    if (train_gpt() && train_conv() && train_lstm())
        return 0;
    fprintf(stderr, "bits: %s\n", rg_error());
    return 1;
}
