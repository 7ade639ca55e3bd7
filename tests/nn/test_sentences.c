/*
 * test_sentences.c: whole error messages of modules, optimizers and data. The numbers in a message
 * are all different where possible, so that a wrong one is noticed.
 */
#include "regard.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

#define T(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), RG_FLOAT32)
#define I(...) rg_zeros_dims(RG_DIMS(__VA_ARGS__), RG_INT64)

START_TEST(test_layers) {
    rg_batch_norm_module *bn1 = rg_nn_batch_norm1d(4), *bn2 = rg_nn_batch_norm2d(4);
    rg_linear_module *lin = rg_nn_linear(3, 4);
    ck_says(rg_nn_conv2d(3, 4, RG_DIMS(1, 2, 3)),
            "Conv2d: expected a single integer value or a list of 2 values");
    ck_says(rg_call(bn1, T(3, 4, 5, 6)), "expected 2D or 3D input (got 4D input)");
    ck_says(rg_call(bn2, T(3, 4)), "expected 4D input (got 2D input)");
    ck_says(rg_remove_forward_hook(&bn1->base, 17),
            "remove_forward_hook: the module has no hook 17");
    ck_says(rg_call(lin, T(2, 5)),
            "linear: mat1 and mat2 shapes cannot be multiplied (2x5 and 3x4)");
    rg_module_free(bn1);
    rg_module_free(bn2);
    rg_module_free(lin);
}
END_TEST

START_TEST(test_attention) {
    rg_multihead_attention *mha = rg_nn_multihead_attention(4, 2, .batch_first = true);
    ck_says(rg_multihead_attention_forward(mha, T(4), T(4), T(4)).output,
            "multihead_attention: query should be unbatched 2D or batched 3D tensor but "
            "received 1-D query tensor");
    ck_says(rg_multihead_attention_forward(mha, T(3, 4), T(2, 3, 4), T(3, 4)).output,
            "multihead_attention: For unbatched (2-D) `query`, expected `key` and `value` "
            "to be 2-D but found 3-D and 2-D tensors respectively");
    ck_says(rg_multihead_attention_forward(mha, T(3, 4), T(3, 4), T(2, 3, 4)).output,
            "multihead_attention: For unbatched (2-D) `query`, expected `key` and `value` "
            "to be 2-D but found 2-D and 3-D tensors respectively");
    ck_says(rg_multihead_attention_forward(mha, T(2, 3, 4), T(3, 4), T(3, 4)).output,
            "multihead_attention: For batched (3-D) `query`, expected `key` and `value` to "
            "be 3-D but found 2-D and 2-D tensors respectively");
    ck_says(
        rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .attn_mask = T(5)).output,
        "multihead_attention: For unbatched (2-D) `query`, expected `attn_mask` to be "
        "`None`, 2-D or 3-D but found 1-D tensor instead");
    ck_says(
        rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .attn_mask = T(5, 3)).output,
        "multihead_attention: The shape of the 2D attn_mask is torch.Size([5, 3]), but "
        "should be (3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .attn_mask = T(7, 3, 5))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([7, 3, 5]), "
            "but should be (2, 3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .attn_mask = T(2, 6, 5))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([2, 6, 5]), "
            "but should be (2, 3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .attn_mask = T(2, 3, 6))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([2, 3, 6]), "
            "but should be (2, 3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(6, 3, 4), T(6, 5, 4), T(6, 5, 4),
                                           .attn_mask = T(2, 3, 5))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([2, 3, 5]), "
            "but should be (12, 3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(6, 3, 4), T(6, 5, 4), T(6, 5, 4),
                                           .attn_mask = T(12, 7, 5))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([12, 7, 5]), "
            "but should be (12, 3, 5).");
    ck_says(rg_multihead_attention_forward(mha, T(6, 3, 4), T(6, 5, 4), T(6, 5, 4),
                                           .attn_mask = T(12, 3, 7))
                .output,
            "multihead_attention: The shape of the 3D attn_mask is torch.Size([12, 3, 7]), "
            "but should be (12, 3, 5).");
    ck_says(
        rg_multihead_attention_forward(mha, T(3, 4), T(5, 4), T(5, 4), .key_padding_mask = T(1, 5))
            .output,
        "multihead_attention: For unbatched (2-D) `query`, expected `key_padding_mask` "
        "to be `None` or 1-D but found 2-D tensor instead");
    ck_says(rg_multihead_attention_forward(mha, T(6, 3, 4), T(6, 5, 4), T(6, 5, 4),
                                           .key_padding_mask = T(5))
                .output,
            "multihead_attention: For batched (3-D) `query`, expected `key_padding_mask` "
            "to be `None` or 2-D but found 1-D tensor instead");
    ck_says(rg_multihead_attention_forward(mha, T(6, 3, 4), T(6, 5, 4), T(6, 5, 4),
                                           .key_padding_mask = T(6, 7))
                .output,
            "multihead_attention: Expected key_padded_mask.shape[1] to be 5, but got 7");
    ck_says(rg_multihead_attention_forward(mha, T(3, 7), T(5, 7), T(5, 7)).output,
            "multihead_attention: was expecting embedding dimension of 4, but got 7");
    rg_module_free(mha);
}
END_TEST

START_TEST(test_others) {
    rg_batch_norm_module *bn1 = rg_nn_batch_norm1d(4);
    rg_vocabulary *words = rg_vocabulary_new("a b c");
    rg_gpt *gpt = rg_nn_gpt(.vocab_size = 11, .block_size = 8, .n_layer = 1, .n_head = 1,
                            .n_embd = 4);
    ck_says(rg_split_text(rg_arange(10), 1.5).first,
            "split_text: the fraction 1.5 is not from 0 to 1");
    ck_says(rg_split_text(rg_arange(10), -0.25).first,
            "split_text: the fraction -0.25 is not from 0 to 1");
    ck_says(rg_vocabulary_index(words, "zebra"),
            "vocabulary_index: KeyError: 'zebra' is none of the 3 tokens");
    ck_says(rg_gpt_forward(gpt, I(1, 9), RG_NONE).logits,
            "gpt: Cannot forward sequence of length 9, block size is only 8");
    ck_says(rg_call(gpt, I(1, 9)),
            "gpt: Cannot forward sequence of length 9, block size is only 8");
    ck_says(rg_optim_sgd(rg_parameters(bn1), .momentum = -0.25),
            "SGD: Invalid momentum value: -0.25");
    ck_says(rg_optim_adam(rg_parameters(bn1), .eps = -2), "Adam: Invalid epsilon value: -2.0");
    ck_says(rg_optim_adam(rg_parameters(bn1), .weight_decay = -3),
            "Adam: Invalid weight_decay value: -3.0");
    rg_module_free(bn1);
    rg_module_free(gpt);
    rg_vocabulary_free(words);
}
END_TEST

START_TEST(test_groups) {
    rg_tensor *w = rg_requires_grad_(T(2), true), *none = NULL;
    rg_optim *o = rg_optim_sgd(RG_LIST(w));
    ck_says(rg_optim_add_group(o, rg_list_of(1, &none)),
            "add_group: expected a tensor but got NULL");
    ck_fails(rg_optim_add_group(o, RG_LIST(w)), RG_VALUE_ERROR, "add_group: ");
    ck_assert_int_eq(rg_optim_n_groups(o), 1);
    rg_optim_free(o);
}
END_TEST

/* Errors that only a mistake in the program can cause. */
START_TEST(test_rare_refusals) {
    RG_SCOPE();
    rg_rnn_cell_module *cell = rg_nn_gru_cell(2, 3);
    ck_fails(rg_call(cell, T(4, 2), T(3)), RG_RUNTIME_ERROR,
             "For batched 2-D input, hx should also be 2-D");
    ck_fails(rg_call(cell, T(2), T(4, 3)), RG_RUNTIME_ERROR,
             "For unbatched 1-D input, hx should also be 1-D");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    rg_sequential *all = rg_nn_sequential(rg_nn_linear(2, 3));
    rg_tensor *buffer = NULL;
    ck_fails(rg_register_buffer(&all->base, name, &buffer, T(2),
                                (rg_buffer_options){ .persistent = true }),
             RG_VALUE_ERROR, "is too long");
    ck_fails(rg_run_with_hooks_list(all, (rg_hooks_at){ -2, NULL }, RG_LIST(T(1, 2))),
             RG_VALUE_ERROR, "expected hooks but got -2");
    rg_optim *o = rg_optim_sgd(rg_parameters(all));
    rg_schedule *s = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3);
    ck_fails(rg_schedule_step_to(s, -4), RG_VALUE_ERROR, "Expected non-negative epoch, but got -4");
    rg_optim_free(o);
    rg_module_free(all);
    rg_module_free(cell);
}
END_TEST

/* A missing input is reported as such, before the module checks shapes. */
START_TEST(test_no_input) {
    RG_SCOPE();
    const struct {
        void *m;
        const char *name;
        int takes;
    } all[] = {
        { rg_nn_linear(2, 3), "linear", 1 },
        { rg_nn_embedding(3, 2), "embedding", 1 },
        { rg_nn_layer_norm(2), "layer_norm", 1 },
        { rg_nn_rms_norm(2), "rms_norm", 1 },
        { rg_nn_group_norm(1, 2), "group_norm", 1 },
        { rg_nn_batch_norm1d(2), "BatchNorm1d", 1 },
        { rg_nn_batch_norm2d(2), "BatchNorm2d", 1 },
        { rg_nn_conv1d(2, 3, 1), "conv1d", 1 },
        { rg_nn_conv2d(2, 3, 1), "conv2d", 1 },
        { rg_nn_max_pool1d(2), "max_pool1d", 1 },
        { rg_nn_avg_pool2d(2), "avg_pool2d", 1 },
        { rg_nn_dropout(0.5), "dropout", 1 },
        { rg_nn_flatten(1, -1), "flatten", 1 },
        { rg_nn_relu(), "relu", 1 },
        { rg_nn_learned_positions(3, 2), "positions_forward", 1 },
        { rg_nn_sinusoidal_positions(3, 2), "positions_forward", 1 },
        { rg_nn_rotary_positions(3, 2, 10), "positions_forward", 1 },
        { rg_nn_multihead_attention(2, 1), "multihead_attention", 1 },
        { rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(2, 1), 1),
          "transformer_decoder", 2 },
        { rg_nn_transformer(.d_model = 2, .nhead = 1, .dim_feedforward = 2), "transformer", 2 },
        { rg_nn_rnn(2, 3), "RNN", 1 },
        { rg_nn_lstm(2, 3), "LSTM", 1 },
        { rg_nn_gru(2, 3), "GRU", 1 },
        { rg_nn_rnn_cell(2, 3), "RNNCell", 1 },
        { rg_nn_lstm_cell(2, 3), "LSTMCell", 1 },
        { rg_nn_gru_cell(2, 3), "GRUCell", 1 },
        { rg_nn_mse_loss(), "mse_loss", 2 },
        { rg_nn_cross_entropy_loss(), "cross_entropy", 2 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rg_tensor *in[] = { RG_NONE, T(2, 2, 2) };
        char sentence[100];
        snprintf(sentence, sizeof sentence, "%s: expected a tensor but got RG_NONE", all[i].name);
        ck_says(rg_call_list(all[i].m, (rg_list){ all[i].takes, in }), sentence);
        ck_assert(!rg_call_list(all[i].m, (rg_list){ all[i].takes, in }));
        rg_error_clear();
        rg_module_free(all[i].m);
    }
}
END_TEST

/* Freeing or closing NULL is no error, whether or not the thread has an error. */
START_TEST(test_nothing_to_free) {
    for (int fails = 0; fails < 2; fails++) {
        rg_error_clear();
        if (fails)
            rg_fail(RG_VALUE_ERROR, "test", "what stands");
        rg_module_free(NULL);
        rg_tokenizer_free(NULL);
        rg_vocabulary_free(NULL);
        rg_tokens_close(NULL);
        rg_data_loader_free(NULL);
        rg_optim_free(NULL);
        rg_replay_free(NULL);
        rg_replays_free(NULL);
        rg_safe_close(NULL);
        rg_generator_free(NULL);
        ck_assert_str_eq(rg_error(), fails ? "test: what stands" : "");
    }
    rg_error_clear();
}
END_TEST

/* An option and its list can't both be given, since one of them would have no effect. */
START_TEST(test_options_are_given_once) {
    rg_tensor *x = rg_ones(1, 1, 8, 8), *w = rg_ones(1, 1, 2, 2);
    const rg_dims two = RG_DIMS(2, 1);
    rg_optim *o = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_ones(2), true)), .momentum = 0.9);
#define TWICE(call, what)                                             \
    ck_fails(call, RG_VALUE_ERROR, what " and " what "s can't both be given")
    TWICE(rg_conv2d(x, w, RG_NONE, .stride = 2, .strides = two), "stride");
    TWICE(rg_conv2d(x, w, RG_NONE, .padding = 2, .paddings = two), "padding");
    TWICE(rg_conv2d(x, w, RG_NONE, .padding = RG_SAME, .paddings = two), "padding");
    TWICE(rg_conv2d(x, w, RG_NONE, .padding = RG_VALID, .paddings = two), "padding");
    TWICE(rg_conv2d(x, w, RG_NONE, .dilation = 2, .dilations = two), "dilation");
    TWICE(rg_max_pool2d(x, 2, .stride = 2, .strides = two), "stride");
    TWICE(rg_max_pool2d(x, 2, .padding = 1, .paddings = RG_DIMS(1, 1)), "padding");
    TWICE(rg_max_pool2d(x, 2, .dilation = 2, .dilations = two), "dilation");
    TWICE(rg_avg_pool2d(x, 2, .stride = 2, .strides = two), "stride");
    TWICE(rg_avg_pool2d(x, 2, .padding = 1, .paddings = RG_DIMS(1, 1)), "padding");
    TWICE(rg_nn_conv2d(1, 1, 2, .stride = 2, .strides = two), "stride");
    TWICE(rg_nn_conv2d(1, 1, 2, .padding = 2, .paddings = two), "padding");
    TWICE(rg_nn_conv2d(1, 1, 2, .padding = RG_SAME, .paddings = two), "padding");
    TWICE(rg_nn_conv2d(1, 1, 2, .dilation = 2, .dilations = two), "dilation");
    TWICE(rg_nn_max_pool2d(2, .stride = 2, .strides = two), "stride");
    TWICE(rg_nn_max_pool2d(2, .padding = 1, .paddings = two), "padding");
    TWICE(rg_nn_max_pool2d(2, .dilation = 2, .dilations = two), "dilation");
    TWICE(rg_nn_avg_pool2d(2, .stride = 2, .strides = two), "stride");
    TWICE(rg_nn_avg_pool2d(2, .padding = 1, .paddings = two), "padding");
    TWICE(rg_optim_cyclic_lr(o, .base_lr = 1, .base_lrs = RG_BY_GROUP(1)), "base_lr");
    TWICE(rg_optim_cyclic_lr(o, .max_lr = 1, .max_lrs = RG_BY_GROUP(1)), "max_lr");
    TWICE(rg_optim_one_cycle_lr(o, .base_momentum = 1, .base_momentums = RG_BY_GROUP(1)),
          "base_momentum");
    TWICE(rg_optim_one_cycle_lr(o, .max_momentum = 1, .max_momentums = RG_BY_GROUP(1)),
          "max_momentum");
    TWICE(rg_optim_reduce_lr_on_plateau(o, .min_lr = 1, .min_lrs = RG_BY_GROUP(1)), "min_lr");
#undef TWICE
    ck_ok(rg_conv2d(x, w, RG_NONE, .strides = two, .paddings = two, .dilations = two));
    rg_max_pool_module *pool = rg_nn_max_pool2d(2, .strides = two);
    ck_ok(rg_call(pool, x));
    rg_module_free(pool);
    rg_optim_free(o);
}
END_TEST

RG_TESTS(nn_sentences, test_options_are_given_once, test_no_input, test_nothing_to_free,
         test_layers, test_attention, test_others, test_groups, test_rare_refusals)
