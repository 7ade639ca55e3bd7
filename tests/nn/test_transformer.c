/* test_transformer.c: TransformerEncoderLayer computes what PyTorch's does. */
#define TWIN_DATA "transformer"
#include "twin.h"

#define HOW(...)                                                                           \
    {                                                                                      \
        .dim_feedforward = 6, .activation = rg_relu, .layer_norm_eps = 1e-5, .bias = true, \
        __VA_ARGS__                                                                        \
    }
#define CASE(name_, how_, ...) \
    { .name = name_, .how = how_, __VA_ARGS__ }
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct layer_case {
    const char *name;
    rg_transformer_options how;
    /* If `added`, the padding mask has floats, which are added to the scores. */
    bool masked, padded, added, causal, eval;
} layers[] = {
    CASE("post", HOW(), ),
    CASE("pre", HOW(.norm_first = true), ),
    CASE("post_gelu", HOW(.activation = rg_gelu, .batch_first = true, .layer_norm_eps = 1e-3), ),
    CASE("pre_causal", HOW(.norm_first = true, .activation = rg_gelu, .bias = false),
         .masked = true, .causal = true),
    CASE("post_masked", HOW(.batch_first = true), .masked = true, .padded = true, .added = true,
         .eval = true),
    CASE("pre_padded", HOW(.norm_first = true), .padded = true, .eval = true),
    CASE("post_dropout", HOW(.dropout = 0.3), ),
    CASE("pre_dropout",
         HOW(.dropout = 0.3, .norm_first = true, .batch_first = true, .activation = rg_gelu),
         .masked = true),
};

START_TEST(test_layers) {
    const rg_dtype dtypes[] = { RG_FLOAT64, RG_FLOAT32 };
    rg_set_default_dtype(RG_FLOAT64);
    for (size_t i = 0; i < 2 * sizeof layers / sizeof *layers; i++) {
        RG_SCOPE();
        const struct layer_case *c = &layers[i / 2];
        rg_dtype dtype = dtypes[i % 2];
        rg_manual_seed(1);
        rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer_with(4, 2, c->how);
        twin_keys(c->name, m);
        rg_module_to(m, dtype);
        rg_train(m, !c->eval);
        rg_manual_seed(2);
        rg_tensor *x = twin_drawn(c->how.batch_first ? RG_DIMS(2, 3, 4) : RG_DIMS(3, 2, 4), dtype);
        rg_tensor *mask = c->masked ? rg_to(rg_generate_square_subsequent_mask(3), dtype) : RG_NONE;
        rg_tensor *padding = c->padded ? rg_parse("[[False, False, False], [False, False, True]]")
                                       : RG_NONE;
        if (c->added)
            padding = rg_to(rg_mul(padding, -1e3), dtype);
        rg_manual_seed(3);
        rg_tensor *y = rg_transformer_encoder_layer_forward(
            m, x, .src_mask = mask, .src_key_padding_mask = padding, .is_causal = c->causal);
        twin_compare(c->name, dtype, m, 1, &x, 1, &y);
        rg_module_free(m);
    }
}
END_TEST

START_TEST(test_repr) {
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 6);
    ck_assert_str_eq(
        rg_module_repr(m),
        "TransformerEncoderLayer(\n"
        "  (self_attn): MultiheadAttention(\n"
        "    (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, "
        "bias=True)\n"
        "  )\n"
        "  (linear1): Linear(in_features=4, out_features=6, bias=True)\n"
        "  (dropout): Dropout(p=0.1, inplace=False)\n"
        "  (linear2): Linear(in_features=6, out_features=4, bias=True)\n"
        "  (norm1): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "  (norm2): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "  (dropout1): Dropout(p=0.1, inplace=False)\n"
        "  (dropout2): Dropout(p=0.1, inplace=False)\n"
        ")");
    rg_module_free(m);
}
END_TEST

static rg_tensor *call(rg_tensor *const in[], void *m) { return rg_call(m, in[0]); }

START_TEST(test_second_order) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    for (int first = 0; first < 2; first++) {
        RG_SCOPE();
        rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(
            4, 2, .dim_feedforward = 3, .dropout = 0, .activation = rg_gelu, .norm_first = first);
        twin_gradcheck(call, m, twin_drawn(RG_DIMS(2, 1, 4), RG_FLOAT64));
        rg_module_free(m);
    }
}
END_TEST

START_TEST(test_bad_arguments) {
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(4, 2);
    ck_fails(rg_call(m, rg_zeros(3)), RG_RUNTIME_ERROR,
             "query should be unbatched 2D or batched 3D tensor but received 1-D");
    ck_fails(rg_transformer_encoder_layer_forward(m, rg_zeros(3, 4), .src_mask = rg_zeros(2, 2)),
             RG_RUNTIME_ERROR, "2D attn_mask");
    ck_assert(!rg_transformer_encoder_layer_forward(NULL, rg_zeros(3, 4)) && !rg_call(m, RG_NONE)
              && !rg_call(m, (rg_tensor *)NULL));
    ck_fails(rg_transformer_encoder_layer_forward(m, rg_zeros(3, 4),
                                                  .src_mask = rg_long(rg_zeros(3, 3))),
             RG_RUNTIME_ERROR, "types of src_mask are");
    ck_fails(rg_transformer_encoder_layer_forward(m, rg_zeros(3, 4),
                                                  .src_key_padding_mask = rg_long(rg_zeros(3))),
             RG_RUNTIME_ERROR,
             "transformer_encoder_layer: only bool and floating types of src_key_padding_mask are");
    rg_module_free(m);
}
END_TEST

static bool use(void) {
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3);
    bool ok = rg_backward(rg_sum(rg_call(m, rg_ones(3, 2, 4))));
    rg_module_free(m);
    return ok;
}

START_TEST(test_out_of_memory) { twin_out_of_memory(use); }
END_TEST

RG_TESTS(transformer, test_layers, test_repr, test_second_order, test_bad_arguments,
         test_out_of_memory)
