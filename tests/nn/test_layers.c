/* test_layers.c: layers and losses have PyTorch's weights, values, gradients, keys and text, and
 * refuse what PyTorch refuses. */
#define TWIN_DATA "layers"
#include "twin.h"
#include "tests/scratch.h"

#define DRAW(...) rg_from_dims((double[]){ __VA_ARGS__ }, RG_FLOAT64, RG_DIMS(3))

/* A row has the name, the constructor and the inputs of a layer, as in layers.py. */
#define LAYERS(F)                                                                                  \
    F(linear, rg_nn_linear(4, 3), "n(5,4)")                                                        \
    F(linear_no_bias, rg_nn_linear(4, 3, .bias = false), "n(2,3,4)")                               \
    F(linear_one, rg_nn_linear(1, 1), "n(1)")                                                      \
    F(embedding, rg_nn_embedding(5, 3), "i5(2,4)")                                                 \
    F(embedding_padded, rg_nn_embedding(5, 4, .padding_idx = -2), "i5(7)")                         \
    F(embedding_bounded,                                                                           \
      rg_nn_embedding(5, 4, .padding_idx = 1, .max_norm = 1.5, .norm_type = 1,                     \
                      .scale_grad_by_freq = true),                                                 \
      "i5(7)")                                                                                     \
    F(layer_norm, rg_nn_layer_norm(4), "n(2,3,4)")                                                 \
    F(layer_norm_two, rg_nn_layer_norm_dims(RG_DIMS(3, 4), .eps = 0.1, .bias = false), "n(2,3,4)") \
    F(layer_norm_bare, rg_nn_layer_norm(4, .elementwise_affine = false), "n(3,4)")                 \
    F(rms_norm, rg_nn_rms_norm(4, .eps = 1e-6), "n(2,3,4)")                                        \
    F(rms_norm_bare, rg_nn_rms_norm_dims(RG_DIMS(3, 4), .eps = 0.5, .elementwise_affine = false),  \
      "n(2,3,4)")                                                                                  \
    F(group_norm, rg_nn_group_norm(2, 4), "n(2,4,3)")                                              \
    F(group_norm_bare, rg_nn_group_norm(1, 3, .eps = 0.1, .elementwise_affine = false),            \
      "n(2,3,2)")                                                                                  \
    F(conv1d, rg_nn_conv1d(2, 4, 3), "n(2,2,7)")                                                   \
    F(conv1d_all,                                                                                  \
      rg_nn_conv1d(4, 6, 2, .stride = 2, .padding = 3, .dilation = 2, .groups = 2, .bias = false), \
      "n(2,4,5)")                                                                                  \
    F(conv1d_same, rg_nn_conv1d(2, 3, 4, .padding = RG_SAME), "n(2,5)")                            \
    F(conv1d_circular, rg_nn_conv1d(2, 3, 3, .padding = 2, .padding_mode = RG_CIRCULAR),           \
      "n(1,2,5)")                                                                                  \
    F(conv2d, rg_nn_conv2d(3, 4, 3), "n(2,3,5,4)")                                                 \
    F(conv2d_all,                                                                                  \
      rg_nn_conv2d(2, 4, RG_DIMS(2, 3), .strides = RG_DIMS(2, 1), .paddings = RG_DIMS(1, 2),       \
                   .dilation = 2, .groups = 2),                                                    \
      "n(2,2,4,5)")                                                                                \
    F(conv2d_valid, rg_nn_conv2d(1, 2, 2, .padding = RG_VALID), "n(1,3,3)")                        \
    F(conv2d_reflect,                                                                              \
      rg_nn_conv2d(1, 2, RG_DIMS(3, 2), .padding = RG_SAME, .padding_mode = RG_REFLECT),           \
      "n(2,1,4,3)")                                                                                \
    F(conv2d_replicate,                                                                            \
      rg_nn_conv2d(1, 2, 2, .paddings = RG_DIMS(1, 0), .padding_mode = RG_REPLICATE),              \
      "n(1,1,3,3)")                                                                                \
    F(max_pool1d, rg_nn_max_pool1d(3, .stride = 2, .padding = 1), "n(2,2,7)")                      \
    F(max_pool2d, rg_nn_max_pool2d(2), "n(2,2,4,5)")                                               \
    F(max_pool2d_all,                                                                              \
      rg_nn_max_pool2d(RG_DIMS(3, 2), .strides = RG_DIMS(2, 1), .padding = 1, .dilation = 2,       \
                       .ceil_mode = true),                                                         \
      "n(2,6,5)")                                                                                  \
    F(avg_pool1d,                                                                                  \
      rg_nn_avg_pool1d(3, .stride = 2, .padding = 1, .ceil_mode = true,                            \
                       .count_include_pad = false),                                                \
      "n(2,2,6)")                                                                                  \
    F(avg_pool2d, rg_nn_avg_pool2d(2), "n(2,2,4,5)")                                               \
    F(avg_pool2d_all,                                                                              \
      rg_nn_avg_pool2d(RG_DIMS(3, 2), .stride = 2, .paddings = RG_DIMS(1, 0), .ceil_mode = true,   \
                       .divisor_override = 5),                                                     \
      "n(2,6,5)")                                                                                  \
    F(adaptive_avg_pool1d, rg_nn_adaptive_avg_pool1d(3), "n(2,2,7)")                               \
    F(adaptive_avg_pool2d, rg_nn_adaptive_avg_pool2d(RG_DIMS(3, RG_AS_IT_IS)), "n(2,2,4,5)")       \
    F(adaptive_max_pool1d, rg_nn_adaptive_max_pool1d(3), "n(2,2,7)")                               \
    F(adaptive_max_pool2d, rg_nn_adaptive_max_pool2d(2), "n(2,4,5)")                               \
    F(batch_norm1d, rg_nn_batch_norm1d(3), "n(4,3)")                                               \
    F(batch_norm1d_none, rg_nn_batch_norm1d(3, .eps = 1e-3, .momentum = NAN, .bias = false),       \
      "n(2,3,4)")                                                                                  \
    F(batch_norm2d, rg_nn_batch_norm2d(3, .momentum = 0.25), "n(2,3,4,5)")                         \
    F(batch_norm2d_bare, rg_nn_batch_norm2d(2, .affine = false, .track_running_stats = false),     \
      "n(2,2,3,3)")                                                                                \
    F(conv_net,                                                                                    \
      rg_nn_sequential(rg_nn_conv2d(1, 2, 3, .padding = 1), rg_nn_batch_norm2d(2), rg_nn_relu(),   \
                       rg_nn_max_pool2d(2), rg_nn_flatten(1, -1), rg_nn_linear(8, 3)),             \
      "n(3,1,4,4)")                                                                                \
    F(dropout, rg_nn_dropout(0.3), "n(3,5)")                                                       \
    F(identity, rg_nn_identity(), "n(2,3)")                                                        \
    F(relu, rg_nn_relu(), "n(2,5)")                                                                \
    F(relu6, rg_nn_relu6(), "n(2,5)")                                                              \
    F(gelu, rg_nn_gelu(), "n(2,5)")                                                                \
    F(gelu_tanh, rg_nn_gelu_tanh(), "n(2,5)")                                                      \
    F(silu, rg_nn_silu(), "n(2,5)")                                                                \
    F(mish, rg_nn_mish(), "n(2,5)")                                                                \
    F(selu, rg_nn_selu(), "n(2,5)")                                                                \
    F(tanh, rg_nn_tanh(), "n(2,5)")                                                                \
    F(sigmoid, rg_nn_sigmoid(), "n(2,5)")                                                          \
    F(logsigmoid, rg_nn_logsigmoid(), "n(2,5)")                                                    \
    F(softsign, rg_nn_softsign(), "n(2,5)")                                                        \
    F(hardswish, rg_nn_hardswish(), "n(2,5)")                                                      \
    F(hardsigmoid, rg_nn_hardsigmoid(), "n(2,5)")                                                  \
    F(leaky_relu, rg_nn_leaky_relu(0.02), "n(2,5)")                                                \
    F(elu, rg_nn_elu(1.5), "n(2,5)")                                                               \
    F(celu, rg_nn_celu(0.5), "n(2,5)")                                                             \
    F(softplus, rg_nn_softplus(2, 1), "n(2,5)")                                                    \
    F(hardtanh, rg_nn_hardtanh(-0.5, 0.75), "n(2,5)")                                              \
    F(tanhshrink, rg_nn_tanhshrink(), "n(2,5)")                                                    \
    F(hardshrink, rg_nn_hardshrink(0.4), "n(2,5)")                                                 \
    F(softshrink, rg_nn_softshrink(0.4), "n(2,5)")                                                 \
    F(threshold, rg_nn_threshold(0.1, 20), "n(2,5)")                                               \
    F(glu, rg_nn_glu(0), "n(4,3)")                                                                 \
    F(prelu, rg_nn_prelu(), "n(2,5)")                                                              \
    F(prelu_channels, rg_nn_prelu(.num_parameters = 3, .init = 0.1), "n(2,3,2)")                   \
    F(softmin, rg_nn_softmin(1), "n(2,5)")                                                         \
    F(softmax, rg_nn_softmax(0), "n(2,5)")                                                         \
    F(log_softmax, rg_nn_log_softmax(-1), "n(2,5)")                                                \
    F(flatten, rg_nn_flatten(1, -1), "n(2,3,2)")                                                   \
    F(mse_loss, rg_nn_mse_loss(), "n(2,3)", "n(2,3)")                                              \
    F(mse_loss_sum, rg_nn_mse_loss(.reduction = RG_SUM), "n(2,3)", "n(2,3)")                       \
    F(l1_loss, rg_nn_l1_loss(.reduction = RG_EACH), "n(2,3)", "n(2,3)")                            \
    F(smooth_l1_loss, rg_nn_smooth_l1_loss(.beta = 0.5), "n(2,3)", "n(2,3)")                       \
    F(huber_loss, rg_nn_huber_loss(.delta = 0.5), "n(2,3)", "n(2,3)")                              \
    F(nll_loss, rg_nn_nll_loss(.weight = DRAW(1, 2, 0.5)), "l(4,3)", "i3(4)")                      \
    F(cross_entropy_loss, rg_nn_cross_entropy_loss(), "n(4,3)", "i3(4)")                           \
    F(cross_entropy_loss_all,                                                                      \
      rg_nn_cross_entropy_loss(.weight = DRAW(1, 2, 0.5), .ignore_index = 1,                       \
                               .label_smoothing = 0.1),                                            \
      "n(4,3)", "i3(4)")                                                                           \
    F(bce_loss, rg_nn_bce_loss(.weight = DRAW(1, 2, 0.5)), "p(2,3)", "p(2,3)")                     \
    F(bce_with_logits_loss, rg_nn_bce_with_logits_loss(.pos_weight = DRAW(1, 2, 0.5)), "n(2,3)",   \
      "p(2,3)")                                                                                    \
    F(kl_div_loss, rg_nn_kl_div_loss(.reduction = RG_BATCHMEAN), "l(2,3)", "p(2,3)")               \
    F(kl_div_loss_log, rg_nn_kl_div_loss(.reduction = RG_SUM, .log_target = true), "l(2,3)",       \
      "l(2,3)")                                                                                    \
    F(cosine_embedding_loss, rg_nn_cosine_embedding_loss(.margin = 0.1, .reduction = RG_EACH),     \
      "n(4,3)", "n(4,3)", "t(4)")                                                                  \
    F(margin_ranking_loss, rg_nn_margin_ranking_loss(.margin = 0.5), "n(5)", "n(5)", "t(5)")       \
    F(hinge_embedding_loss, rg_nn_hinge_embedding_loss(.margin = 0.5, .reduction = RG_SUM),        \
      "p(2,3)", "t(2,3)")                                                                          \
    F(triplet_margin_loss, rg_nn_triplet_margin_loss(), "n(4,3)", "n(4,3)", "n(4,3)")              \
    F(triplet_margin_loss_all,                                                                     \
      rg_nn_triplet_margin_loss(.margin = 2, .p = 3, .eps = 1e-3, .swap = true,                    \
                                .reduction = RG_SUM),                                              \
      "n(4,3)", "n(4,3)", "n(4,3)")                                                                \
    F(gaussian_nll_loss, rg_nn_gaussian_nll_loss(), "n(2,3)", "n(2,3)", "p(2,3)")                  \
    F(gaussian_nll_loss_all,                                                                       \
      rg_nn_gaussian_nll_loss(.full = true, .eps = 0.3, .reduction = RG_EACH), "n(2,3)", "n(2,3)", \
      "p(2)")                                                                                      \
    F(poisson_nll_loss, rg_nn_poisson_nll_loss(), "n(2,3)", "i5(2,3)")                             \
    F(poisson_nll_loss_all,                                                                        \
      rg_nn_poisson_nll_loss(.log_input = false, .full = true, .eps = 0.1, .reduction = RG_EACH),  \
      "p(2,3)", "n(2,3)")                                                                          \
    F(net,                                                                                         \
      rg_nn_sequential(rg_nn_linear(4, 3), rg_nn_layer_norm(3), rg_nn_gelu(),                      \
                       rg_nn_sequential(rg_nn_dropout(0.5), rg_nn_linear(3, 2))),                  \
      "n(5,4)")

#define MAKE(name, constructor, ...) \
    static void *make_##name(void) { return constructor; }
LAYERS(MAKE)
#define ROW(name, constructor, ...) { #name, make_##name, { __VA_ARGS__ } },
static const struct layer {
    const char *name;
    void *(*make)(void);
    const char *inputs[3];
} layers[] = { LAYERS(ROW) };
enum { N_LAYERS = sizeof layers / sizeof *layers };

static rg_tensor *drawn(const char *spec) {
    long below = 0;
    rg_dims shape = { 0 };
    char *at = (char *)spec + 1;
    if (*at != '(')
        below = strtol(at, &at, 10);
    while (*at && *at != ')' && at[1] != ')')
        shape.v[shape.n++] = strtol(at + 1, &at, 10);
    if (*spec == 't') {
        rg_tensor *bits = rg_randint_dims(0, 2, shape, RG_INT64, rg_default_generator());
        return rg_sub(rg_mul(bits, 2), 1);
    }
    if (*spec == 'i')
        return rg_randint_dims(0, below, shape, RG_INT64, rg_default_generator());
    if (*spec == 'p')
        return rg_add(rg_mul(rg_rand_dims(shape, RG_FLOAT64, rg_default_generator()), 0.9), 0.05);
    rg_tensor *x = rg_randn_dims(shape, RG_FLOAT64, rg_default_generator());
    return *spec == 'l' ? rg_log_softmax(x, -1) : x;
}

static int number_of_inputs(const struct layer *l) {
    if (!l->inputs[1])
        return 1;
    return l->inputs[2] ? 3 : 2;
}

static rg_list inputs_of(const struct layer *l, rg_dtype dtype, rg_tensor *x[3]) {
    int n = number_of_inputs(l);
    rg_manual_seed(2);
    for (int i = 0; i < n; i++) {
        x[i] = drawn(l->inputs[i]);
        if (!strchr("it", *l->inputs[i]))
            x[i] = rg_requires_grad_(rg_to(x[i], dtype), i == 0);
    }
    return (rg_list){ n, x };
}

START_TEST(test_values_and_gradients) {
    rg_set_default_dtype(RG_FLOAT64);
    for (int i = 0; i < 2 * N_LAYERS; i++) {
        RG_SCOPE();
        const struct layer *l = &layers[i / 2];
        rg_dtype dtype = i % 2 ? RG_FLOAT32 : RG_FLOAT64;
        rg_tensor *x[3];
        rg_manual_seed(1);
        rg_module *m = l->make();
        ck_assert_msg(m != NULL, "%s: %s", l->name, rg_error());
        ck_assert(rg_module_to(m, dtype));
        rg_list in = inputs_of(l, dtype, x);
        rg_manual_seed(3);
        rg_tensor *y = rg_call_list(m, in);
        ck_assert_msg(y && rg_dtype_of(y) == (int)dtype, "%s: %s", l->name, rg_error());
        twin_compare(l->name, dtype, m, *l->inputs[0] != 'i', x, 1, &y);
        twin_keys(l->name, m);
        ck_assert_str_eq(rg_module_repr(m), twin_text(l->name, ".repr"));
        rg_module_free(m);
    }
}
END_TEST

/* Uniform and constant weights have torch's bits. Normal weights are within 3e-6. */
START_TEST(test_constructors_draw_torchs_numbers) {
    rg_tensor *weights[16];
    rg_set_default_dtype(RG_FLOAT32);
    for (int i = 0; i < N_LAYERS; i++) {
        RG_SCOPE();
        rg_manual_seed(1);
        rg_module *m = layers[i].make();
        rg_list own = rg_parameters(m);
        for (int k = 0; k < own.n; k++)
            weights[k] = own.v[k];
        double far = own.n ? twin_distance(layers[i].name, ".w", own.n, weights) : 0;
        ck_assert_msg(far <= (strncmp(layers[i].name, "embedding", 9) ? 0 : 3e-6),
                      "%s is off by %g", layers[i].name, far);
        rg_module_free(m);
    }
}
END_TEST

static const struct layer *checked;
static rg_tensor *call(rg_tensor *const in[], void *m) {
    rg_tensor *x[3];
    rg_list given = inputs_of(checked, RG_FLOAT64, x);
    /* Dropout must be the same in each call. */
    rg_manual_seed(3);
    if (*checked->inputs[0] != 'i')
        x[0] = in[0];
    return rg_call_list(m, given);
}

START_TEST(test_second_order) {
    rg_set_default_dtype(RG_FLOAT64);
    for (int i = 0; i < N_LAYERS; i++) {
        RG_SCOPE();
        rg_tensor *x[8];
        checked = &layers[i];
        /* The gradients of these embeddings aren't derivatives. The gradient of one row is left
         * out, or is divided by the count of the row's index. */
        if (strncmp(checked->name, "embedding_", 10) == 0)
            continue;
        rg_manual_seed(1);
        rg_module *m = checked->make();
        rg_list in = inputs_of(checked, RG_FLOAT64, x), own = rg_parameters(m);
        int n = *checked->inputs[0] != 'i';
        for (int k = 0; k < own.n && n < 8; k++)
            x[n++] = own.v[k];
        ck_assert_msg(rg_gradcheck(call, m, n, x, .atol = 1e-7, .rtol = 1e-6), "%s: %s",
                      checked->name, rg_error());
        ck_assert_msg(rg_gradgradcheck(call, m, n, x, .atol = 1e-6, .rtol = 1e-5), "%s: %s",
                      checked->name, rg_error());
        rg_module_free(m);
        (void)in;
    }
}
END_TEST

/* Makes the layer, calls it, differentiates it, loads its state and converts it. Returns whether
 * all of this succeeded. */
static bool whole_life(void) {
    rg_tensor *x[3];
    rg_manual_seed(1);
    rg_module *m = checked->make();
    rg_tensor *y = m ? rg_call_list(m, inputs_of(checked, RG_FLOAT64, x)) : NULL;
    bool ok = y && rg_module_repr(m) && (!rg_requires_grad(y) || rg_backward(rg_sum(y)));
    ok = ok && rg_load_state_dict(m, rg_state_dict(m), true) && rg_module_to(m, RG_FLOAT32);
    rg_module_free(m);
    return ok;
}

START_TEST(test_out_of_memory) {
    rg_set_default_dtype(RG_FLOAT64);
    for (checked = layers; checked < layers + N_LAYERS; checked++)
        twin_out_of_memory(whole_life);
}
END_TEST

static void is_written(void *m, const char *text) {
    ck_ok(m);
    ck_assert_str_eq(rg_module_repr(m), text);
    rg_module_free(m);
}

START_TEST(test_texts) {
    is_written(rg_nn_rms_norm(4, .eps = 0), "RMSNorm((4,), eps=0.0, elementwise_affine=True)");
    is_written(rg_nn_rms_norm(4), "RMSNorm((4,), eps=None, elementwise_affine=True)");
    is_written(rg_nn_adaptive_avg_pool1d(RG_AS_IT_IS), "AdaptiveAvgPool1d(output_size=None)");
    is_written(rg_nn_adaptive_max_pool2d(RG_AS_IT_IS), "AdaptiveMaxPool2d(output_size=None)");
    is_written(rg_nn_adaptive_max_pool2d(RG_DIMS(RG_AS_IT_IS, 3)),
               "AdaptiveMaxPool2d(output_size=(None, 3))");
    is_written(rg_nn_avg_pool1d(3), "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))");
}
END_TEST

/* The longest text that a layer can have is written in full. */
START_TEST(test_long_text) {
    const int64_t most = INT64_MAX, kernel = 1 << 29;
    is_written(rg_nn_conv2d(most, 0, RG_DIMS(kernel, kernel), .strides = RG_DIMS(most, most),
                            .paddings = RG_DIMS(-most, -most), .dilations = RG_DIMS(most, most),
                            .groups = most, .bias = false, .padding_mode = RG_REPLICATE),
               "Conv2d(9223372036854775807, 0, kernel_size=(536870912, 536870912), "
               "stride=(9223372036854775807, 9223372036854775807), "
               "padding=(-9223372036854775807, -9223372036854775807), "
               "dilation=(9223372036854775807, 9223372036854775807), "
               "groups=9223372036854775807, bias=False, padding_mode=replicate)");
}
END_TEST

/* torch writes bounds as ints or floats, as they were given; ours are always floats. */
START_TEST(test_hardtanh_is_written_with_floats) {
    is_written(rg_nn_hardtanh(-2, 1e20), "Hardtanh(min_val=-2.0, max_val=1e+20)");
}
END_TEST

/* With these options torch makes a module, but each of its calls fails. Here nothing is made. */
static void cannot_be_called(void) {
#define NEVER(make, text) ck_fails(make, RG_RUNTIME_ERROR, text)
    NEVER(rg_nn_conv1d(4, 4, 0), "Conv1d: kernel_size should be greater than zero, but got 0");
    NEVER(rg_nn_conv1d(4, 4, 2, .stride = 0), "Conv1d: stride should be greater than zero");
    NEVER(rg_nn_conv2d(4, 4, 2, .dilation = -1),
          "Conv2d: dilation should be greater than zero, but got [-1, -1]");
    NEVER(rg_nn_conv2d(4, 4, 2, .padding = -1), "Conv2d: padding must be non-negative");
    NEVER(rg_nn_max_pool1d(0), "MaxPool1d: kernel_size should be greater than zero, but got 0");
    NEVER(rg_nn_max_pool2d(2, .stride = -2), "MaxPool2d: stride should be greater than zero");
    NEVER(rg_nn_max_pool2d(2, .dilation = 0), "MaxPool2d: dilation should be greater than zero");
    NEVER(rg_nn_avg_pool1d(2, .padding = -1), "AvgPool1d: padding must be non-negative");
    NEVER(rg_nn_avg_pool2d(2, .padding = 2),
          "AvgPool2d: pad should be at most half of kernel size");
    NEVER(rg_nn_avg_pool2d(2, .divisor_override = 0), "AvgPool2d: divisor must be not zero");
    NEVER(rg_nn_adaptive_avg_pool1d(-1), "AdaptiveAvgPool1d: output_size must be non-negative");
    ck_fails(rg_nn_celu(0), RG_VALUE_ERROR, "CELU: ZeroDivisionError: alpha cannot be 0");
    ck_fails(rg_nn_softshrink(-1), RG_VALUE_ERROR,
             "Softshrink: lambda must be greater or equal to 0, but found to be -1");
}

START_TEST(test_bad_constructors) {
    ck_fails(rg_nn_layer_norm_with((rg_dims){ .n = 9 }, (rg_norm_options){ .eps = -1 }),
             RG_RUNTIME_ERROR, "dim");
    ck_fails(rg_nn_group_norm(0, 4), RG_RUNTIME_ERROR,
             "GroupNorm: num_groups should be greater than zero, but got 0");
    ck_fails(rg_nn_group_norm(-1, 4), RG_RUNTIME_ERROR, "should be greater than zero");
    ck_fails(rg_nn_dropout(NAN), RG_VALUE_ERROR, "has to be between 0 and 1, but got nan");
    ck_fails(rg_nn_gpt(.dropout = NAN), RG_VALUE_ERROR, "has to be between 0 and 1, but got nan");
    cannot_be_called();
    void *empty[] = { rg_nn_linear(0, 3), rg_nn_linear(3, 0) };
    for (int i = 0; i < 2; i++) {
        ck_ok(empty[i]);
        /* As in torch, the bias of a layer without inputs is 0, not -0. */
        const rg_linear_module *linear = empty[i];
        for (int k = 0; k < rg_size(linear->bias, 0); k++)
            ck_assert(i == 1 || !signbit(rg_at(linear->bias, k)));
        rg_module_free(empty[i]);
    }
}
END_TEST

/* If the batch is empty, x may be empty along its other dims, too, as in torch. */
START_TEST(test_convolutions_of_nothing) {
    rg_tensor *w = rg_requires_grad_(rg_randn(4, 3, 3), true);
    const int64_t sizes[][2] = { { 0, 5 }, { 0, 0 }, { 2, 5 }, { 2, 0 } };
    for (int i = 0; i < 4; i++) {
        const int64_t batch = sizes[i][0], length = sizes[i][1];
        rg_tensor *x = rg_zeros(batch, 3, length);
        if (batch && !length) {
            ck_fails(rg_conv1d(x, w, RG_NONE, .padding = 3), RG_RUNTIME_ERROR,
                     "non-zero size for non-batch dimensions, but got shape [2, 3, 0]");
            continue;
        }
        rg_tensor *y = rg_conv1d(x, w, RG_NONE, .padding = 3);
        ck_ok(y && rg_equal(y, rg_zeros(batch, 4, length + 4)));
        ck_ok(rg_equal(rg_grad(rg_sum(y), w), rg_zeros(4, 3, 3)));
    }
}
END_TEST

/* With valid padding nothing is padded, so the padding mode doesn't matter. */
START_TEST(test_valid_padding_of_all_modes) {
    rg_tensor *x = rg_randn(2, 2, 7);
    rg_conv_module *zeros = rg_nn_conv1d(2, 3, 2);
    for (rg_pad_mode mode = RG_CONSTANT; mode <= RG_CIRCULAR; mode++) {
        rg_conv_module *m = rg_nn_conv1d(2, 3, 2, .padding = RG_VALID, .padding_mode = mode);
        ck_ok(rg_load_state_dict(m, rg_state_dict(zeros), true));
        ck_assert(rg_equal(rg_call(m, x), rg_call(zeros, x)));
        rg_module_free(m);
    }
    rg_module_free(zeros);
}
END_TEST

/* mean_of and variance_of return the mean and the variance of each channel of x, which is (batch,
 * channels, length). */
static rg_tensor *mean_of(rg_tensor *x) {
    return rg_mean_dim(rg_flatten(rg_transpose(x, 0, 1), 1, -1), 1, false);
}
static rg_tensor *variance_of(rg_tensor *x) {
    return rg_var_dim(rg_flatten(rg_transpose(x, 0, 1), 1, -1), 1, 1, false);
}

/* The running statistics of a batch norm move towards those of a batch by the momentum. With a
 * momentum of NaN, they are the average over all batches. */
START_TEST(test_what_a_batch_norm_remembers) {
    rg_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = rg_add(rg_mul(rg_randn(4, 2, 5), 1 + i), 3 * i);
    for (int average = 0; average < 2; average++) {
        rg_batch_norm_module *m = rg_nn_batch_norm1d(2, .momentum = average ? NAN : 0.25);
        rg_tensor *mean = rg_zeros(2), *variance = rg_ones(2);
        for (int i = 0; i < 3; i++) {
            const double part = average ? 1.0 / (i + 1) : 0.25;
            ck_ok(rg_call(m, x[i]));
            mean = rg_lerp(mean, mean_of(x[i]), part);
            variance = rg_lerp(variance, variance_of(x[i]), part);
            ck_assert(rg_item(m->num_batches_tracked) == i + 1);
            ck_assert(rg_allclose(m->running_mean, mean, 1e-5, 1e-5));
            ck_assert(rg_allclose(m->running_var, variance, 1e-5, 1e-5));
        }
        rg_eval(m);
        ck_ok(rg_call(m, x[0]));
        ck_assert(rg_item(m->num_batches_tracked) == 3);
        ck_assert(rg_allclose(m->running_mean, mean, 1e-5, 1e-5));
        rg_module_free(m);
    }
}
END_TEST

/* As in torch, a BatchNorm keeps its num_batches_tracked if a state doesn't have it. */
START_TEST(test_a_state_without_batches) {
    RG_SCOPE();
    rg_batch_norm_module *bn = rg_nn_batch_norm1d(2);
    rg_sequential *s = rg_nn_sequential(bn, rg_nn_linear(2, 2));
    rg_named some[8];
    int n = 0;
    rg_named_list all = rg_state_dict(s);
    for (int i = 0; i < all.n; i++)
        if (!strstr(all.v[i].name, "num_batches_tracked"))
            some[n++] = (rg_named){ all.v[i].name, rg_mul(all.v[i].tensor, 2) };
    ck_assert_int_eq(n, all.n - 1);
    rg_fill_(bn->num_batches_tracked, 7);
    const double var = rg_at(bn->running_var, 0);
    rg_incompatible_keys keys = rg_load_state_dict_keys(s, (rg_named_list){ n, some }, true);
    ck_ok(keys.missing_keys.n == 0 && keys.unexpected_keys.n == 0);
    scratch_begin();
    ck_ok(rg_save_file(((rg_named_list){ n, some }), scratch("old.safetensors")));
    ck_ok(rg_module_load(s, scratch("old.safetensors")));
    scratch_end();
    ck_assert(rg_item(bn->num_batches_tracked) == 7 && rg_at(bn->running_var, 0) == 2 * var);
    /* A state that lacks any other value is refused. */
    ck_fails(rg_load_state_dict(s, (rg_named_list){ n - 1, some }, true), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"1.bias\". ");
    rg_batch_norm_module *copy = rg_deepcopy(bn);
    const rg_named only[] = { { "weight", bn->weight },
                              { "bias", bn->bias },
                              { "running_mean", bn->running_mean },
                              { "running_var", bn->running_var } };
    ck_ok(rg_load_state_dict(copy, (rg_named_list){ 4, only }, true));
    rg_module_free(copy);
    rg_module_free(s);
}
END_TEST

/* A running mean or variance that is infinite stays so, as in torch, and gives infinities and zeros
 * in evaluation: none becomes NaN. */
START_TEST(test_infinite_running_statistics) {
    rg_batch_norm_module *m = rg_nn_batch_norm1d(2, .momentum = 0.25);
    rg_copy_(m->running_mean, rg_literal_as(RG_FLOAT32, [ inf, 0 ]));
    rg_copy_(m->running_var, rg_literal_as(RG_FLOAT32, [ 1, inf ]));
    ck_ok(rg_call(m, rg_randn(5, 2)));
    ck_assert(rg_at(m->running_mean, 0) == INFINITY && isfinite(rg_at(m->running_mean, 1)));
    ck_assert(rg_at(m->running_var, 1) == INFINITY && isfinite(rg_at(m->running_var, 0)));
    rg_eval(m);
    rg_tensor *y = rg_detach(rg_call(m, rg_ones(1, 2)));
    ck_ok(rg_equal(y, rg_literal_as(RG_FLOAT32, [[ -inf, 0 ]])));
    /* With momentum 1 the batch's infinite variance takes the place of the running one. */
    rg_batch_norm_module *n = rg_nn_batch_norm1d(1, .momentum = 1);
    ck_ok(rg_call(n, rg_literal([ [1e20], [-1e20] ])));
    ck_assert_double_eq(rg_at(n->running_var, 0), INFINITY);
    rg_module_free(m);
    rg_module_free(n);
}
END_TEST

/* Without running statistics, a batch norm uses those of the batch, even in evaluation. */
START_TEST(test_a_batch_norm_without_memory) {
    rg_tensor *x = rg_randn(4, 2, 5);
    rg_batch_norm_module *m = rg_nn_batch_norm1d(2, .track_running_stats = false);
    rg_tensor *y = rg_call(m, x);
    rg_eval(m);
    ck_assert(y && rg_equal(rg_call(m, x), y));
    ck_assert(rg_allclose(mean_of(rg_detach(y)), rg_zeros(2), 0, 1e-5));
    rg_module_free(m);
}
END_TEST

/* If modules of max pooling are called with keywords, they also return the indices of the maxima.
 */
START_TEST(test_places_of_the_greatest) {
    rg_tensor *x = rg_reshape(rg_sin(rg_arange(2 * 3 * 4 * 6)), 2, 3, 4, 6);
    rg_tensor *row = rg_select(x, 2, 1);
    void *m[] = { rg_nn_max_pool1d(2), rg_nn_max_pool2d(2), rg_nn_adaptive_max_pool1d(3),
                  rg_nn_adaptive_max_pool2d(2) };
    const rg_values_indices want[] = { rg_max_pool1d_with_indices(row, RG_DIMS(2)),
                                       rg_max_pool2d_with_indices(x, 2),
                                       rg_adaptive_max_pool1d_with_indices(row, 3),
                                       rg_adaptive_max_pool2d_with_indices(x, 2) };
    for (int i = 0; i < 4; i++) {
        rg_pool_keywords k = { 0 };
        rg_tensor *in = i % 2 ? x : row, *y = rg_call_keywords(m[i], &k, in);
        ck_ok(y);
        ck_assert(rg_equal(y, want[i].values) && rg_equal(k.indices, want[i].indices));
        ck_assert(rg_equal(rg_call(m[i], in), want[i].values));
        rg_tensor *two[] = { in, in };
        ck_fails(rg_call_with(m[i], rg_list_of(2, two), &k, sizeof k), RG_TYPE_ERROR,
                 "positional arguments but 3 were given");
        ck_fails(rg_call_with(m[i], rg_list_of(0, two), &k, sizeof k), RG_TYPE_ERROR,
                 ".forward() missing 1 required positional argument: 'input'");
        rg_module_free(m[i]);
    }
}
END_TEST

/* Returns the first tap inside the plane of the window with this number along one dim. */
static int first_tap(int window, int stride, int padding, int dilation) {
    int at = window * stride - padding;
    while (at < 0)
        at += dilation;
    return at;
}

/* If all elements of a window are -inf, its first one is the greatest, also where padding is before
 * it. */
START_TEST(test_places_where_all_is_least) {
    static const rg_dtype dtypes[] = { RG_FLOAT32, RG_FLOAT64, RG_BFLOAT16 };
    enum { HIGH = 7, WIDE = 37 };
    for (int i = 0; i < 3 * 3 * 2 * 2 * 3; i++) {
        RG_SCOPE();
        const int kernel = 2 + i % 3, stride = 1 + i / 3 % 3, dilation = 1 + i / 9 % 2;
        const int padding = i / 18 % 2 ? kernel / 2 : 0;
        rg_tensor *x = rg_full_dims(RG_DIMS(1, HIGH, WIDE), rg_wrap_float(-INFINITY),
                                    dtypes[i / 36]);
        rg_tensor *at = rg_max_pool2d_with_indices(x, kernel, .stride = stride, .padding = padding,
                                                   .dilation = dilation)
                            .indices;
        ck_ok(at);
        for (int row = 0; row < rg_size(at, 1); row++)
            for (int column = 0; column < rg_size(at, 2); column++)
                ck_assert_int_eq((int)rg_at(at, 0, row, column),
                                 first_tap(row, stride, padding, dilation) * WIDE
                                     + first_tap(column, stride, padding, dilation));
    }
}
END_TEST

/* A module refuses wrong inputs in torch's words. If an input is NULL, the error of the call that
 * returned NULL stays. */
START_TEST(test_bad_inputs) {
    rg_set_default_dtype(RG_FLOAT32);
    rg_tensor *x = rg_ones(2, 3);
    void *loss = rg_nn_mse_loss(), *list = rg_nn_module_list(), *linear = rg_nn_linear(3, 2),
         *embedding = rg_nn_embedding(3, 2), *norm = rg_nn_layer_norm(3),
         *group = rg_nn_group_norm(2, 4);
    ck_fails(rg_call(linear, rg_ones(2, 4)), RG_RUNTIME_ERROR,
             "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x2)");
    ck_fails(rg_call(linear, rg_long(rg_ones(2, 3))), RG_RUNTIME_ERROR, "dtype");
    ck_fails(rg_call(linear, rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64)), RG_RUNTIME_ERROR, "dtype");
    ck_fails(rg_call(embedding, rg_literal([ 0, 3 ])), RG_INDEX_ERROR,
             "index 3 is out of bounds for dimension 0 with size 3");
    ck_fails(rg_call(embedding, rg_ones(2)), RG_RUNTIME_ERROR, "indices");
    ck_fails(rg_call(norm, rg_ones(2)), RG_RUNTIME_ERROR,
             "Given normalized_shape=[3], expected input with shape [*, 3]");
    ck_fails(rg_call(group, rg_ones(2, 6)), RG_RUNTIME_ERROR,
             "Expected weight to have shape [6], but got [4]");
    ck_fails(rg_call(loss, rg_ones(2)), RG_TYPE_ERROR,
             "MSELoss.forward() missing 1 required positional argument");
    ck_fails(rg_call(linear, rg_ones(3), rg_ones(3)), RG_TYPE_ERROR,
             "Linear.forward() takes 2 positional arguments but 3 were given");
    ck_fails(rg_call(list, rg_ones(3)), RG_NOT_IMPLEMENTED,
             "Module [ModuleList] is missing the required \"forward\" function");
    void *wide = rg_nn_max_pool1d(7);
    rg_pool_keywords indices = { 0 };
    ck_fails(rg_call(wide, rg_ones(1, 5)), RG_RUNTIME_ERROR,
             "calculated output size [0]. Output size is too small");
    ck_fails(rg_call_keywords(wide, &indices, rg_ones(1, 5)), RG_RUNTIME_ERROR,
             "calculated output size [0]. Output size is too small");
    rg_module_free(wide);
    for (int i = 0; i < N_LAYERS; i++) {
        rg_module *m = layers[i].make();
        rg_tensor *none[] = { NULL, rg_ones(2, 3), rg_ones(2) };
        rg_tensor *absent[] = { RG_NONE, RG_NONE, RG_NONE };
        int n = number_of_inputs(&layers[i]);
        ck_fails(rg_call_list(m, (rg_list){ n, none }), RG_TYPE_ERROR,
                 "expected a tensor but got NULL");
        if (strcmp(layers[i].name, "identity"))
            ck_fails(rg_call_list(m, (rg_list){ n, absent }), RG_TYPE_ERROR,
                     "expected a tensor but got RG_NONE");
        rg_tensor *many[] = { x, x, x, x, x, x, x, x };
        ck_fails(rg_call_list(m, (rg_list){ 8, many }), RG_TYPE_ERROR,
                 "positional arguments but 9 were given");
        ck_fails(rg_call_list(m, (rg_list){ 0, many }), RG_TYPE_ERROR, ".forward() missing ");
        rg_matmul(rg_ones(2), rg_ones(3));
        /* The error is still the first failure. */
        ck_assert(!rg_call_list(m, (rg_list){ n, none }) && strstr(rg_error(), "matmul"));
        rg_error_clear();
        rg_module_free(m);
    }
    void *all[] = { loss, list, linear, embedding, norm, group };
    for (int i = 0; i < 6; i++)
        rg_module_free(all[i]);
}
END_TEST

/* With max_norm, rows that are asked for are shortened in the table, in one write for each call.
 * Other rows stay as they are. The shortening has no part in the gradient. */
START_TEST(test_embedding_shortens_rows_of_its_table) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    rg_embedding_module *m = rg_nn_embedding(4, 3, .max_norm = 0.5);
    rg_tensor *before = rg_clone(rg_detach(m->weight)), *asked = rg_literal([ [ 0, 2 ], [ 2, 0 ] ]);
    int64_t version = rg_version(m->weight);
    rg_tensor *y = rg_call(m, asked);
    ck_ok(y);
    ck_assert_int_eq(rg_version(m->weight), version + 1);
    ck_assert(rg_equal(y, rg_index(m->weight, asked)));
    rg_tensor *norm = rg_norm_dim(rg_detach(m->weight), 2, 1, false);
    for (int row = 0; row < 4; row++) {
        bool bounded = row % 2 == 0;
        bool same = rg_equal(rg_index(rg_detach(m->weight), row), rg_index(before, row));
        ck_assert_msg(same != bounded, "row %d", row);
        ck_assert(!bounded || fabs(rg_at(norm, row) - 0.5) < 1e-6);
    }
    ck_ok(rg_backward(rg_sum(y)));
    ck_assert(rg_equal(
        rg_grad_of(m->weight),
        rg_literal_as(RG_FLOAT64, [ [ 2, 2, 2 ], [ 0, 0, 0 ], [ 2, 2, 2 ], [ 0, 0, 0 ] ])));
    rg_module_free(m);
}
END_TEST

/* The gradient is divided by the counts of the indices. As in torch, the gradient of that gradient
 * isn't divided again. */
START_TEST(test_embedding_by_frequency_twice) {
    rg_tensor *w = rg_requires_grad_(rg_reshape(rg_arange_as(12, RG_FLOAT64), 4, 3), true);
    rg_tensor *y = rg_embedding(rg_literal([ [ 0, 2 ], [ 2, 1 ] ]), w, .scale_grad_by_freq = true);
    rg_tensor *g = rg_grad(rg_sum(rg_square(y)), w, .create_graph = true);
    rg_tensor *h = rg_grad(rg_sum(rg_square(g)), w);
    ck_ok(h);
    rg_tensor *rows = rg_literal_as(RG_FLOAT64,
                                    [ [ 0, 1, 2 ], [ 3, 4, 5 ], [ 6, 7, 8 ], [ 0, 0, 0 ] ]);
    ck_assert(rg_equal(g, rg_mul(rows, 2)));
    ck_assert(rg_equal(h, rg_mul(rows, 8)));
}
END_TEST

RG_TESTS_UNGUARDED(layers, test_embedding_shortens_rows_of_its_table,
                   test_embedding_by_frequency_twice, test_values_and_gradients,
                   test_constructors_draw_torchs_numbers, test_second_order, test_out_of_memory,
                   test_texts, test_long_text, test_hardtanh_is_written_with_floats,
                   test_bad_constructors, test_bad_inputs, test_convolutions_of_nothing,
                   test_valid_padding_of_all_modes, test_what_a_batch_norm_remembers,
                   test_infinite_running_statistics, test_a_batch_norm_without_memory,
                   test_a_state_without_batches, test_places_of_the_greatest,
                   test_places_where_all_is_least)
