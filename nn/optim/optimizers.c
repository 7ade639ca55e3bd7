/*
 * optimizers.c: SGD, Adam, AdamW, RMSprop, Adagrad and Lion: for each a row with its options and
 * its state, and the numbers that its kernel reads. The arithmetic is in tensor/kernels/.
 */
#include "optimizer_structs.h"

#include <math.h>

/* Every optimizer has weight_decay and maximize; `...` lists its other options. */
#define OPTIONS(...) .defaults = { RG_NO_OPTIONS_, .weight_decay = 0, .maximize = 0, __VA_ARGS__ }

/* Returns 1 - beta^step, by which a mean that began as zero is divided. From some step on that is
 * 1: beta^step < e^(step (beta - 1)), and e^-38 is below half of 1's last bit. */
static double correction(double beta, double step) {
    return step * (1 - fabs(beta)) > 38 ? 1 : 1 - pow(beta, step);
}

static void sgd_numbers(k_optimizer_numbers *z, const rg_param_group *g, double step) {
    z->sgd.momentum = g->momentum;
    z->sgd.entering = 1 - g->dampening;
    z->sgd.first = step == 1;
    z->sgd.nesterov = g->nesterov != 0;
    z->sgd.has_buffer = g->momentum != 0;
}

/* Decoupled, weights decay by themselves, not through the gradient. */
static void adam_numbers(k_optimizer_numbers *z, const rg_param_group *g, double step) {
    double root = correction(g->betas[1], step);
    z->rate /= correction(g->betas[0], step);
    z->adam.mean_entering = 1 - g->betas[0];
    z->adam.square_kept = g->betas[1];
    z->adam.square_entering = 1 - g->betas[1];
    z->adam.root_correction = root == 1 ? 1 : pow(root, 0.5);
    z->adam.eps = g->eps;
    z->adam.shrink = 1;
    z->adam.amsgrad = g->amsgrad != 0;
    if (g->decoupled_weight_decay != 0) {
        z->adam.shrink = 1 - g->lr * g->weight_decay;
        z->weight_decay = 0;
    }
}

static void rmsprop_numbers(k_optimizer_numbers *z, const rg_param_group *g, double step) {
    (void)step;
    z->rmsprop.square_kept = g->alpha;
    z->rmsprop.square_entering = 1 - g->alpha;
    z->rmsprop.momentum = g->momentum;
    z->rmsprop.eps = g->eps;
    z->rmsprop.has_buffer = g->momentum != 0;
    z->rmsprop.centered = g->centered != 0;
}

static void adagrad_numbers(k_optimizer_numbers *z, const rg_param_group *g, double step) {
    z->rate /= 1 + (step - 1) * g->lr_decay;
    z->adagrad.eps = g->eps;
}

static void lion_numbers(k_optimizer_numbers *z, const rg_param_group *g, double step) {
    (void)step;
    z->lion.update_kept = g->betas[0];
    z->lion.update_entering = 1 - g->betas[0];
    z->lion.mean_kept = g->betas[1];
    z->lion.mean_entering = 1 - g->betas[1];
}

RG_QUIET_
const rg_optim_row rgi_optim_rows[] = {
    [RG_SGD] = {
        .name = "SGD",
        .kernel = K_SGD,
        .numbers = sgd_numbers,
        OPTIONS(.lr = 1e-3, .momentum = 0, .dampening = 0, .nesterov = 0),
        .states = { { "momentum_buffer", RG_OPTION_momentum } },
    },
    [RG_ADAM] = {
        .name = "Adam",
        .kernel = K_ADAM,
        .numbers = adam_numbers,
        OPTIONS(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .amsgrad = 0,
                .decoupled_weight_decay = 0),
        .states = { { "exp_avg", RG_ALWAYS },
                    { "exp_avg_sq", RG_ALWAYS },
                    { "max_exp_avg_sq", RG_OPTION_amsgrad } },
        .saves_step = true,
    },
    [RG_ADAMW] = {
        .name = "AdamW",
        .kernel = K_ADAM,
        .numbers = adam_numbers,
        OPTIONS(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .weight_decay = 0.01,
                .amsgrad = 0, .decoupled_weight_decay = 1),
        .states = { { "exp_avg", RG_ALWAYS },
                    { "exp_avg_sq", RG_ALWAYS },
                    { "max_exp_avg_sq", RG_OPTION_amsgrad } },
        .saves_step = true,
    },
    [RG_RMSPROP] = {
        .name = "RMSprop",
        .kernel = K_RMSPROP,
        .numbers = rmsprop_numbers,
        OPTIONS(.lr = 0.01, .alpha = 0.99, .eps = 1e-8, .momentum = 0, .centered = 0),
        .states = { { "square_avg", RG_ALWAYS },
                    { "momentum_buffer", RG_OPTION_momentum },
                    { "grad_avg", RG_OPTION_centered } },
        .saves_step = true,
    },
    [RG_ADAGRAD] = {
        .name = "Adagrad",
        .kernel = K_ADAGRAD,
        .numbers = adagrad_numbers,
        OPTIONS(.lr = 0.01, .lr_decay = 0, .initial_accumulator_value = 0, .eps = 1e-10),
        .states = { { "sum", RG_ALWAYS } },
        .saves_step = true,
    },
    [RG_LION] = {
        .name = "Lion",
        .kernel = K_LION,
        .numbers = lion_numbers,
        OPTIONS(.lr = 1e-4, .betas = { 0.9, 0.99 }),
        .states = { { "exp_avg", RG_ALWAYS } },
    },
};
RG_LOUD_
