/*
 * steps.c: steps that tests/export/run compiles as C. `steps FOLDER NAME N` writes the step NAME to
 * FOLDER/NAME.c, and prints the losses of N repetitions, which the file must print, too. A fourth
 * argument is a number of the enum rg_weights_place. `steps` alone prints the names.
 */
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 16, MOST_INPUTS = 3 };

/* A model has parameters of its own, or those of a module. */
typedef struct model model;
struct model {
    rg_tensor *p[MOST_PARAMETERS], *input[MOST_INPUTS], *loss;
    int n, inputs;
    rg_module *module;
    rg_optim *optimizer;
    rg_tensor *(*forward)(model *m);
    /* What the step does to the gradients before the optimizer reads them, or NULL. */
    void (*clip)(model *m);
    /* Set if a schedule changes the learning rate before the recorded step is written. */
    bool scheduled;
};

static rg_tensor *parameter(model *m, rg_dims shape, double scale) {
    rg_tensor *t = rg_mul(rg_randn_dims(shape, RG_FLOAT32, rg_default_generator()), scale);
    m->p[m->n++] = rg_keep(rg_requires_grad_(t, true));
    return t;
}

static void input(model *m, rg_tensor *t) { m->input[m->inputs++] = rg_keep(t); }

static void step(void *context) {
    model *m = context;
    rg_optim_zero_grad(m->optimizer);
    rg_tensor *loss = m->forward(m);
    rg_backward(loss);
    if (m->clip)
        m->clip(m);
    rg_optim_step(m->optimizer);
    if (!m->loss)
        m->loss = rg_keep(rg_detach(loss));
}

/* ---- the notebook's layer -------------------------------------------------------------- */

static rg_tensor *attention_forward(model *m) {
    rg_tensor *x = m->input[0];
    rg_tensor *scores = rg_matmul(rg_matmul(x, m->p[0]), rg_T(rg_matmul(x, m->p[1])));
    rg_tensor *weights = rg_softmax(rg_div(scores, 1.4142135), -1);
    return rg_mse_loss(rg_matmul(weights, rg_matmul(x, m->p[2])), m->input[1]);
}

static void attention(model *m) {
    parameter(m, RG_DIMS(3, 2), 1);
    parameter(m, RG_DIMS(3, 2), 1);
    parameter(m, RG_DIMS(3, 4), 1);
    input(m, rg_randn(6, 3));
    input(m, rg_randn(6, 4));
    m->forward = attention_forward;
}

/* ---- clipped gradients -------------------------------------------------------------------- */

static void clip(model *m) {
    const rg_list first = { 2, m->p }, last = { m->n - 2, m->p + 2 };
    rg_clip_grad_norm_(first, 0.1);
    rg_clip_grad_norm_(last, 0.2, .norm_type = INFINITY);
    rg_clip_grad_value_(last, 0.05);
}

static void clipped(model *m) {
    attention(m);
    m->clip = clip;
}

/* ---- another learning rate ---------------------------------------------------------------- */

static void scheduled(model *m) {
    attention(m);
    m->scheduled = true;
}

/* ---- an embedding, two layers, and a loss of classes -------------------------------------- */

static rg_tensor *mlp_forward(model *m) {
    rg_tensor *x = rg_flatten(rg_embedding(m->input[0], m->p[0]), 1, -1);
    rg_tensor *hidden = rg_relu(rg_linear(x, m->p[1], m->p[2]));
    return rg_cross_entropy(rg_linear(hidden, m->p[3], m->p[4]), m->input[1]);
}

static void mlp(model *m) {
    parameter(m, RG_DIMS(27, 10), 1);
    parameter(m, RG_DIMS(64, 30), 0.2);
    parameter(m, RG_DIMS(64), 0.1);
    parameter(m, RG_DIMS(27, 64), 0.2);
    parameter(m, RG_DIMS(27), 0.1);
    input(m, rg_randint(0, 27, 32, 3));
    input(m, rg_randint(0, 27, 32));
    m->forward = mlp_forward;
}

/* ---- elementwise functions, sums over dims, means, a clamp, a product of thin matrices ------- */

static rg_tensor *mixed_forward(model *m) {
    rg_tensor *x = rg_tanh(rg_matmul(m->input[0], m->p[0]));
    rg_tensor *y = rg_gelu(rg_add(x, rg_mean_dim(x, 1, true)));
    rg_tensor *z = rg_mul(rg_sigmoid(y), rg_exp(rg_mul(x, -0.5)));
    z = rg_div(rg_sum_dim(z, 0, false), rg_add(rg_square(m->p[1]), 1));
    return rg_add(rg_mean(rg_clamp(z, -2, 30)), rg_sum(rg_square(m->p[1])));
}

static void mixed(model *m) {
    parameter(m, RG_DIMS(5, 40), 0.5);
    parameter(m, RG_DIMS(40), 0.5);
    input(m, rg_randn(70, 5));
    m->forward = mixed_forward;
}

/* ---- the norms -------------------------------------------------------------------------- */

static rg_tensor *norms_forward(model *m) {
    rg_tensor *x = rg_mul(m->input[0], m->p[0]);
    rg_batch_norm_options batch = {
        .weight = m->p[1], .bias = m->p[2], .training = true, .momentum = 0.1, .eps = 1e-5
    };
    x = rg_batch_norm_with(x, m->input[1], m->input[2], batch);
    x = rg_group_norm(rg_add(x, m->input[0]), 3, m->p[1], m->p[2], 1e-5);
    x = rg_layer_norm(rg_add(rg_tanh(x), m->p[0]), RG_DIMS(40), m->p[3], m->p[4], 1e-5);
    return rg_mean(rg_square(rg_sub(rg_rms_norm(x, RG_DIMS(40), m->p[3], RG_OWN_EPS), 0.5)));
}

static void norms(model *m) {
    parameter(m, RG_DIMS(40), 1);
    for (int i = 0; i < 2; i++)
        parameter(m, RG_DIMS(6), 1);
    for (int i = 0; i < 2; i++)
        parameter(m, RG_DIMS(40), 1);
    input(m, rg_randn(5, 6, 40));
    input(m, rg_zeros(6));
    input(m, rg_ones(6));
    m->forward = norms_forward;
}

/* ---- attention: short heads and long ones, with masks -------------------------------------- */

static rg_tensor *heads_forward(model *m) {
    rg_tensor *short_heads = rg_scaled_dot_product_attention(m->p[0], m->p[1], m->p[2],
                                                             .is_causal = true);
    rg_tensor *masked = rg_scaled_dot_product_attention(m->p[0], m->p[1], m->p[2],
                                                        .attn_mask = m->input[0]);
    rg_tensor *long_heads = rg_scaled_dot_product_attention(m->p[3], m->p[4], m->p[5],
                                                            .is_causal = true);
    rg_tensor *all = rg_scaled_dot_product_attention(m->p[3], m->p[4], m->p[5],
                                                     .attn_mask = m->input[1]);
    rg_tensor *narrow = rg_mean(rg_square(rg_sub(rg_add(short_heads, masked), 1)));
    return rg_add(narrow, rg_mean(rg_square(rg_sub(rg_add(long_heads, all), 1))));
}

static void heads(model *m) {
    for (int i = 0; i < 3; i++)
        parameter(m, RG_DIMS(3, 2, 5, 4), 1);
    for (int i = 0; i < 3; i++)
        parameter(m, RG_DIMS(1, 1, 70, 30), 1);
    input(m, rg_randn(5, 5));
    input(m, rg_randn(70, 70));
    m->forward = heads_forward;
}

/* ---- microgpt: the model of examples/microgpt.c -------------------------------------------- */

static rg_tensor *unit(rg_tensor *x) { return rg_rms_norm(x, RG_DIMS(16), RG_NONE, 1e-5); }

static rg_tensor *microgpt_forward(model *m) {
    rg_tensor *x = unit(rg_add(rg_embedding(m->input[0], m->p[0]), m->p[1]));
    rg_tensor *qkv = rg_unsqueeze(rg_linear(unit(x), m->p[3], RG_NONE), 0);
    rg_tensor *out = rg_squeeze_dim(rg_joint_attention(qkv, 4, true), 0);
    x = rg_add(x, rg_linear(out, m->p[4], RG_NONE));
    rg_tensor *hidden = rg_relu(rg_linear(unit(x), m->p[5], RG_NONE));
    x = rg_add(x, rg_linear(hidden, m->p[6], RG_NONE));
    return rg_cross_entropy(rg_linear(x, m->p[2], RG_NONE), m->input[1]);
}

static void microgpt(model *m) {
    parameter(m, RG_DIMS(27, 16), 0.08);
    parameter(m, RG_DIMS(16, 16), 0.08);
    parameter(m, RG_DIMS(27, 16), 0.08);
    parameter(m, RG_DIMS(48, 16), 0.08);
    parameter(m, RG_DIMS(16, 16), 0.08);
    parameter(m, RG_DIMS(64, 16), 0.08);
    parameter(m, RG_DIMS(16, 64), 0.08);
    input(m, rg_randint(0, 27, 16));
    input(m, rg_randint(0, 27, 16));
    m->forward = microgpt_forward;
}

/* ---- modules ------------------------------------------------------------------------------- */

static rg_tensor *gpt_forward(model *m) {
    return rg_gpt_forward((rg_gpt *)m->module, m->input[0], m->input[1]).loss;
}

static void gpt(model *m) {
    m->module = &rg_nn_gpt(.block_size = 24, .vocab_size = 27, .n_layer = 2, .n_head = 4,
                           .n_embd = 32)
                     ->base;
    input(m, rg_randint(0, 27, 2, 24));
    input(m, rg_randint(0, 27, 2, 24));
    m->forward = gpt_forward;
}

static rg_tensor *lenet_forward(model *m) {
    return rg_cross_entropy(rg_call(m->module, m->input[0]), m->input[1]);
}

static void lenet(model *m) {
    m->module = (rg_module *)rg_nn_sequential(
        rg_nn_conv2d(1, 6, 5, .padding = 2), rg_nn_relu(), rg_nn_max_pool2d(2),
        rg_nn_conv2d(6, 16, 5, .stride = 2), rg_nn_relu(), rg_nn_avg_pool2d(2),
        rg_nn_flatten(1, -1), rg_nn_linear(64, 20), rg_nn_relu(), rg_nn_linear(20, 10));
    input(m, rg_randn(3, 1, 28, 28));
    input(m, rg_randint(0, 10, 3));
    m->forward = lenet_forward;
}

static rg_tensor *lstm_forward(model *m) {
    rg_rnn_module *lstm = (rg_rnn_module *)m->module;
    return rg_mse_loss(rg_lstm_forward(lstm, m->input[0]).output, m->input[1]);
}

static void lstm(model *m) {
    m->module = &rg_nn_lstm(8, 16, .num_layers = 2)->base;
    input(m, rg_randn(12, 4, 8));
    input(m, rg_randn(12, 4, 16));
    m->forward = lstm_forward;
}

static rg_tensor *gru_forward(model *m) {
    rg_rnn_module *gru = (rg_rnn_module *)m->module;
    return rg_mse_loss(rg_gru_forward(gru, m->input[0]).output, m->input[1]);
}

static void gru(model *m) {
    m->module = &rg_nn_gru(5, 9, .bidirectional = true)->base;
    input(m, rg_randn(7, 3, 5));
    input(m, rg_randn(7, 3, 18));
    m->forward = gru_forward;
}

static rg_tensor *encoder_forward(model *m) {
    return rg_mse_loss(rg_call(m->module, m->input[0]), m->input[1]);
}

static void encoder_with(model *m, double dropout) {
    rg_transformer_encoder_layer *layer =
        rg_nn_transformer_encoder_layer(16, 4, .dim_feedforward = 32, .dropout = dropout);
    m->module = &rg_nn_transformer_encoder(layer, 2)->base;
    input(m, rg_randn(10, 4, 16));
    input(m, rg_randn(10, 4, 16));
    m->forward = encoder_forward;
}

static void encoder(model *m) { encoder_with(m, 0); }
static void encoder_dropout(model *m) { encoder_with(m, 0.1); }

/* ---- tensors that the step makes, and operands with other strides ------------------------- */

static rg_tensor *made_forward(model *m) {
    rg_tensor *x = rg_add(rg_matmul(m->input[0], m->p[0]), rg_div(rg_arange(12), 12));
    rg_tensor *lines = rg_outer(rg_linspace(-1, 1, 12, RG_FLOAT32), rg_ones(12));
    x = rg_matmul(x, rg_add(rg_add(lines, rg_eye(12, 12)), rg_full(RG_DIMS(12, 12), 0.25)));
    rg_tensor *sums = rg_add(rg_zeros(6, 12), x);
    return rg_mean(rg_square(rg_sub(rg_div(sums, rg_arange_step(1, 13, 1)), rg_ones(6, 12))));
}

static void made(model *m) {
    parameter(m, RG_DIMS(5, 12), 0.1);
    input(m, rg_randn(6, 5));
    m->forward = made_forward;
}

static rg_tensor *turned_forward(model *m) {
    rg_tensor *x = rg_matmul(rg_T(m->input[0]), rg_T(m->p[0]));
    rg_tensor *y = rg_matmul(rg_permute(m->input[1], 2, 0, 1), rg_T(x));
    y = rg_mul(y, rg_expand(rg_unsqueeze(m->p[1], -1), 3, 4, 7));
    rg_tensor *z = rg_softmax(rg_flip(rg_transpose(y, 1, 2), 0, 2), 1);
    return rg_sum(rg_square(rg_sub(rg_sum_dim(z, 0, false), rg_narrow(x, 1, 1, 4))));
}

static void turned(model *m) {
    parameter(m, RG_DIMS(9, 5), 0.3);
    parameter(m, RG_DIMS(3, 4), 1);
    input(m, rg_randn(5, 7));
    input(m, rg_randn(4, 9, 3));
    m->forward = turned_forward;
}

/* ---- operands of more than 16 MB, which are written past the caches -------------------------- */

static rg_tensor *large_forward(model *m) {
    rg_tensor *x = rg_mul(rg_unsqueeze(m->p[0], 1), m->p[1]);
    rg_tensor *y = rg_add(rg_sigmoid(x), rg_mul(rg_T(x), 0.5));
    rg_tensor *z = rg_matmul(m->input[0], rg_softmax(y, -1));
    rg_tensor *spread = rg_exp(rg_expand(rg_mean(m->p[1]), 2048, 2048));
    return rg_add(rg_mean(rg_square(rg_sub(y, spread))), rg_mean(rg_square(z)));
}

static void large(model *m) {
    parameter(m, RG_DIMS(2048), 1);
    parameter(m, RG_DIMS(2048), 1);
    input(m, rg_randn(3, 2048));
    m->forward = large_forward;
}

/* ---- an op of the program, whose loops have a text -------------------------------------- */

/* y[i] = x[i]^2 + decay y[i-1], along the last dim of x. */
RG_FUNCTION_LOOP(echo, (double, float), {
    double *y = (double *)p[0];
    const float *at = (const float *)p[1];
    for (int64_t i = 0; i < n[0]; i++) {
        const double square = (double)at[i] * (double)at[i];
        y[i] = square + (i % n[1] ? x[0] * y[i - 1] : 0);
    }
})

/* gx[i] = 2 x[i] s[i], where s[i] = g[i] + decay s[i+1]. */
RG_FUNCTION_LOOP(echo_back, (float, double, float), {
    float *gx = (float *)p[0];
    const double *g = (const double *)p[1];
    const float *at = (const float *)p[2];
    double sum = 0;
    for (int64_t i = n[0] - 1; i >= 0; i--) {
        sum = g[i] + ((i + 1) % n[1] ? x[0] * sum : 0);
        gx[i] = (float)(2 * (double)at[i] * sum);
    }
})

static const double decay = 0.5;

static bool echo_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    rg_tensor *x = rg_contiguous(in[0]);
    out[0] = rg_double(rg_empty_like(x));
    return rg_run_function_loop(&echo, RG_LIST(out[0], x), RG_DIMS(rg_numel(x), rg_size(x, -1)), 1,
                                &decay)
           && rg_save_for_backward(ctx, in[0]);
}

static bool echo_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *x = rg_contiguous(rg_saved_tensor(ctx, 0));
    gin[0] = rg_empty_like(x);
    return rg_run_function_loop(&echo_back, RG_LIST(gin[0], rg_contiguous(g[0]), x),
                                RG_DIMS(rg_numel(x), rg_size(x, -1)), 1, &decay);
}

static rg_function_class echo_class = { .name = "Echo",
                                        .forward = echo_forward,
                                        .backward = echo_backward,
                                        .once_differentiable = true };

static rg_tensor *own_forward(model *m) {
    rg_tensor *x = rg_matmul(m->input[0], m->p[0]);
    return rg_mean(rg_square(rg_function_apply(&echo_class, NULL, rg_T(x))));
}

static void own(model *m) {
    parameter(m, RG_DIMS(3, 4), 1);
    input(m, rg_randn(6, 3));
    m->forward = own_forward;
}

/* ---- ops that look for elements, and running sums ------------------------------------------- */

static rg_tensor *places_forward(model *m) {
    rg_tensor *x = rg_mul(m->input[0], m->p[0]);
    rg_tensor *sorted = rg_sort(x, 1, false).values;
    rg_tensor *top = rg_topk(x, 3, 1, true, true).values;
    rg_tensor *most = rg_max_dim(x, 0, false).values;
    rg_tensor *third = rg_kthvalue(x, 3, 1, false).values;
    rg_tensor *sums = rg_logcumsumexp(rg_cumsum(rg_tril(x, 1), 1), 0);
    rg_tensor *padded = rg_pad(rg_mul(sorted, m->input[0]), 1, 2);
    rg_tensor *spread = rg_add(rg_std(padded), rg_norm(x));
    rg_tensor *apart = rg_mean(rg_cdist(x, sums));
    rg_tensor *all = rg_add(rg_add(rg_mean(top), rg_mean(most)), rg_add(rg_mean(third), spread));
    return rg_add(rg_add(rg_mean(rg_square(sums)), rg_logsumexp(rg_flatten(x, 0, -1), 0, false)),
                  rg_add(all, apart));
}

static void places(model *m) {
    parameter(m, RG_DIMS(9), 1);
    input(m, rg_randn(7, 9));
    m->forward = places_forward;
}

/* ---- chains of elementwise calls of many elements, some of them on views that overlap ------- */

static rg_tensor *chains_forward(model *m) {
    rg_tensor *x = m->input[0], *w = m->p[0];
    rg_tensor *h = rg_relu(rg_add(rg_mul(x, w), m->p[1]));
    h = rg_sub(rg_mul(h, w), rg_div(x, 3));
    rg_tensor *all = rg_flatten(h, 0, -1);
    rg_tensor *first = rg_narrow(all, 0, 0, 1000), *last = rg_narrow(all, 0, 500, 1000);
    rg_tensor *products = rg_tanh(rg_add(rg_mul(first, last), first));
    rg_add_(rg_mul_(m->input[1], 0.99), rg_mul(rg_detach(h), 0.01));
    return rg_add(rg_mean(rg_square(rg_sub(products, 0.5))), rg_mean(rg_square(h)));
}

static void chains(model *m) {
    parameter(m, RG_DIMS(30, 50), 1);
    parameter(m, RG_DIMS(1), 1);
    input(m, rg_randn(30, 50));
    input(m, rg_zeros(30, 50));
    m->forward = chains_forward;
}

/* ---- random numbers: dropout, noise in pairs and in blocks, uniform numbers, a mask --- */

static rg_tensor *drawn_forward(model *m) {
    rg_tensor *x = rg_dropout(rg_tanh(rg_matmul(m->input[0], m->p[0])), 0.3, true);
    x = rg_add(x, rg_mul(rg_randn(7, 5), 0.1));
    x = rg_add(x, rg_mul(rg_add(rg_randn(5), rg_rand(7, 5)), 0.1));
    rg_tensor *shifts = rg_uniform_(rg_empty(7, 5), -0.1, 0.2);
    rg_tensor *mask = rg_bernoulli_(rg_empty(7, 5), 0.9);
    return rg_mse_loss(rg_mul(rg_add(x, shifts), mask), m->input[1]);
}

static void drawn(model *m) {
    parameter(m, RG_DIMS(3, 5), 1);
    input(m, rg_randn(7, 3));
    input(m, rg_randn(7, 5));
    m->forward = drawn_forward;
}

/* ---- optimizers ---------------------------------------------------------------------- */

static rg_optim *sgd(rg_list p) { return rg_optim_sgd(p, .lr = 0.05); }
static rg_optim *momentum(rg_list p) {
    return rg_optim_sgd(p, .lr = 0.01, .momentum = 0.9, .dampening = 0.1, .weight_decay = 1e-3);
}
static rg_optim *nesterov(rg_list p) {
    return rg_optim_sgd(p, .lr = 0.01, .momentum = 0.9, .nesterov = true);
}
static rg_optim *adam(rg_list p) { return rg_optim_adam(p, .lr = 0.01); }
static rg_optim *adam_maximized(rg_list p) {
    return rg_optim_adam(p, .lr = 1e-3, .betas = { 0.8, 0.95 }, .weight_decay = 0.1,
                         .amsgrad = true, .maximize = true);
}
static rg_optim *adamw(rg_list p) { return rg_optim_adamw(p, .lr = 0.01); }
static rg_optim *rmsprop(rg_list p) { return rg_optim_rmsprop(p, .lr = 1e-3); }
static rg_optim *rmsprop_centered(rg_list p) {
    return rg_optim_rmsprop(p, .lr = 1e-3, .momentum = 0.5, .centered = true);
}
static rg_optim *adagrad(rg_list p) { return rg_optim_adagrad(p, .lr = 0.1, .lr_decay = 0.01); }
static rg_optim *lion(rg_list p) { return rg_optim_lion(p, .lr = 1e-3, .weight_decay = 0.1); }
static rg_optim *nadam(rg_list p) { return rg_optim_nadam(p, .lr = 0.01); }
static rg_optim *radam(rg_list p) { return rg_optim_radam(p, .lr = 0.01); }

/* Two groups with other options, of which the second one has a momentum. */
static rg_optim *groups(rg_list p) {
    const rg_list first = { p.n - 1, p.v }, last = { 1, p.v + p.n - 1 };
    rg_optim *o = rg_optim_sgd(first, .lr = 0.05);
    rg_optim_add_group(o, last, .lr = 0.01, .momentum = 0.9);
    return o;
}

static rg_optim *decays(rg_list p) {
    const rg_list first = { p.n - 1, p.v }, last = { 1, p.v + p.n - 1 };
    rg_optim *o = rg_optim_adamw(first, .lr = 0.01, .weight_decay = 0.2);
    rg_optim_add_group(o, last, .lr = 0.02, .weight_decay = 0.01, .eps = 1e-3);
    return o;
}

/* ---- the program --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*make)(model *m);
    rg_optim *(*optimizer)(rg_list parameters);
} steps[] = {
    { "attention", attention, sgd },
    { "attention_adam", attention, adam },
    { "mlp", mlp, sgd },
    { "mlp_adamw", mlp, adamw },
    { "mixed", mixed, sgd },
    { "norms", norms, sgd },
    { "heads", heads, sgd },
    { "microgpt", microgpt, adam },
    { "gpt", gpt, adamw },
    { "drawn", drawn, adam },
    { "chains", chains, adam },
    { "momentum", attention, momentum },
    { "nesterov", attention, nesterov },
    { "adam_maximized", attention, adam_maximized },
    { "rmsprop", attention, rmsprop },
    { "rmsprop_centered", attention, rmsprop_centered },
    { "adagrad", attention, adagrad },
    { "lion", attention, lion },
    { "nadam", attention, nadam },
    { "radam", attention, radam },
    { "groups", mlp, groups },
    { "decays", mlp, decays },
    { "lenet", lenet, momentum },
    { "lstm", lstm, adam },
    { "gru", gru, sgd },
    { "encoder", encoder, adamw },
    { "encoder_dropout", encoder_dropout, adamw },
    { "places", places, sgd },
    { "clipped", clipped, adam },
    { "scheduled", scheduled, adam },
    { "made", made, sgd },
    { "turned", turned, adamw },
    { "large", large, sgd },
    { "own", own, sgd },
};

static int write_step(const char *folder, int i, int n, rg_weights_place place) {
    model m = { .n = 0 };
    char path[4096];
    rg_manual_seed(7);
    steps[i].make(&m);
    rg_list parameters = { m.n, m.p }, inputs = { m.inputs, m.input };
    if (m.module)
        parameters = rg_parameters(m.module);
    m.optimizer = steps[i].optimizer(parameters);
    rg_replay *r = rg_record(step, &m);
    if (m.scheduled)
        rg_schedule_step(rg_optim_exponential_lr(m.optimizer, .gamma = 0.3));
    snprintf(path, sizeof path, "%s/%s.c", folder, steps[i].name);
    if (!r
        || !rg_replay_to_c(r, path, .name = steps[i].name, .inputs = inputs,
                           .parameters = parameters, .output = m.loss, .weights = place)) {
        fprintf(stderr, "%s\n", rg_error());
        return EXIT_FAILURE;
    }
    for (int k = 0; k < n && rg_replay_run(r); k++)
        printf("%a\n", rg_item(m.loss));
    rg_replay_free(r);
    rg_optim_free(m.optimizer);
    if (m.module)
        rg_module_free(m.module);
    for (int k = 0; k < m.n; k++)
        rg_drop(m.p[k]);
    for (int k = 0; k < m.inputs; k++)
        rg_drop(m.input[k]);
    rg_drop(m.loss);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i++) {
        if (argc < 4)
            puts(steps[i].name);
        else if (strcmp(steps[i].name, argv[2]) == 0)
            return write_step(argv[1], i, atoi(argv[3]),
                              argc > 4 ? (rg_weights_place)atoi(argv[4]) : RG_IN_FILE);
    }
    return argc < 4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
