/*
 * optimizers.c: the rows of optimizers, with their options, their states, and the numbers that
 * their kernels read. The arithmetic is in tensor/kernels/, and Muon's matrix products are in
 * muon.c. LBFGS has no kernel: its step is in lbfgs.c.
 */
#include "optimizer_structs.h"

#include <math.h>

/* The default options of an optimizer's row. Every optimizer that uses this macro has the options
 * weight_decay, maximize and master_weights. The arguments are the defaults of its other options,
 * and may replace these three defaults. */
#define OPTIONS(...)                                                                     \
    .defaults = { RG_NO_OPTIONS_, .weight_decay = 0, .maximize = 0, .master_weights = 0, \
                  __VA_ARGS__ }

static void sgd_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                        const rg_optim_slot *slot) {
    (void)slot;
    z->sgd.momentum = g->momentum;
    z->sgd.entering = 1 - g->dampening;
    z->sgd.nesterov = g->nesterov != 0;
    z->sgd.has_buffer = g->momentum != 0;
}

/* Returns the factor by which the step multiplies the parameter: 1 - lr * weight_decay if the
 * weight decay is decoupled, otherwise 1. If it is decoupled, also sets z->weight_decay to 0: a
 * weight decay in the kernel's numbers would be added to the gradient. */
static double shrink_of(k_optimizer_numbers *z, const rg_param_group *g) {
    if (g->decoupled_weight_decay == 0 || g->weight_decay == 0)
        return 1;
    z->weight_decay = 0;
    return 1 - g->lr * g->weight_decay;
}

static void adam_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                         const rg_optim_slot *slot) {
    (void)slot;
    z->beta1 = g->betas[0];
    z->beta2 = g->betas[1];
    z->adam.mean_entering = 1 - g->betas[0];
    z->adam.square_kept = g->betas[1];
    z->adam.square_entering = 1 - g->betas[1];
    z->adam.eps = g->eps;
    z->adam.shrink = shrink_of(z, g);
    z->adam.amsgrad = g->amsgrad != 0;
}

static void nadam_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                          const rg_optim_slot *slot) {
    (void)slot;
    z->beta1 = g->betas[0];
    z->beta2 = g->betas[1];
    z->decay = g->momentum_decay;
    z->nadam.mean_entering = 1 - g->betas[0];
    z->nadam.square_kept = g->betas[1];
    z->nadam.square_entering = 1 - g->betas[1];
    z->nadam.eps = g->eps;
    z->nadam.shrink = shrink_of(z, g);
}

static void radam_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                          const rg_optim_slot *slot) {
    (void)slot;
    z->beta1 = g->betas[0];
    z->beta2 = g->betas[1];
    z->radam.mean_entering = 1 - g->betas[0];
    z->radam.square_kept = g->betas[1];
    z->radam.square_entering = 1 - g->betas[1];
    z->radam.eps = g->eps;
    z->radam.shrink = shrink_of(z, g);
}

static void rmsprop_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                            const rg_optim_slot *slot) {
    (void)slot;
    z->rmsprop.square_kept = g->alpha;
    z->rmsprop.square_entering = 1 - g->alpha;
    z->rmsprop.momentum = g->momentum;
    z->rmsprop.eps = g->eps;
    z->rmsprop.has_buffer = g->momentum != 0;
    z->rmsprop.centered = g->centered != 0;
}

static void adagrad_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                            const rg_optim_slot *slot) {
    (void)slot;
    z->decay = g->lr_decay;
    z->adagrad.eps = g->eps;
}

static void lion_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                         const rg_optim_slot *slot) {
    (void)slot;
    z->lion.update_kept = g->betas[0];
    z->lion.update_entering = 1 - g->betas[0];
    z->lion.mean_kept = g->betas[1];
    z->lion.mean_entering = 1 - g->betas[1];
}

/* Sets the numbers of Muon's kernel. The learning rate is multiplied by sqrt(max(1, rows /
 * columns)) or, with match_rms_adamw, by 0.2 * sqrt(max(rows, columns)). */
static void muon_numbers(k_optimizer_numbers *z, const rg_param_group *g,
                         const rg_optim_slot *slot) {
    const double rows = (double)rg_size(slot->param, 0);
    const double columns = (double)rg_size(slot->param, 1);
    const double longer = g->match_rms_adamw != 0 ? 0.2 * sqrt(fmax(rows, columns))
                                                  : sqrt(fmax(1, rows / columns));
    z->rate *= longer;
    z->muon.entering = 1 - g->momentum;
    z->muon.momentum = g->momentum;
    z->muon.nesterov = g->nesterov != 0;
    z->muon.shrink = 1 - g->lr * g->weight_decay;
}

/* ---- the rows -------------------------------------------------------------------------------
 * Each row is a variable of its own. Only the function that makes the row's optimizer refers to it,
 * so a program links only the rows of the optimizers that it makes. */

RG_QUIET_
static const rg_optim_row sgd_row = {
    .kind = RG_SGD,
    .name = "SGD",
    .kernel = &k_sgd,
    .steps = &k_sgd_steps,
    .numbers = sgd_numbers,
    OPTIONS(.lr = 1e-3, .momentum = 0, .dampening = 0, .nesterov = 0),
    .states = { { "momentum_buffer", RG_OPTION_momentum } },
};

static const rg_optim_row adam_row = {
    .kind = RG_ADAM,
    .name = "Adam",
    .kernel = &k_adam,
    .steps = &k_adam_steps,
    .numbers = adam_numbers,
    OPTIONS(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .amsgrad = 0,
            .decoupled_weight_decay = 0),
    .states = { { "exp_avg", RG_ALWAYS },
                { "exp_avg_sq", RG_ALWAYS },
                { "max_exp_avg_sq", RG_OPTION_amsgrad } },
    .saves_step = true,
};

static const rg_optim_row adamw_row = {
    .kind = RG_ADAMW,
    .name = "AdamW",
    .kernel = &k_adam,
    .steps = &k_adam_steps,
    .numbers = adam_numbers,
    OPTIONS(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .weight_decay = 0.01, .amsgrad = 0,
            .decoupled_weight_decay = 1),
    .states = { { "exp_avg", RG_ALWAYS },
                { "exp_avg_sq", RG_ALWAYS },
                { "max_exp_avg_sq", RG_OPTION_amsgrad } },
    .saves_step = true,
};

static const rg_optim_row rmsprop_row = {
    .kind = RG_RMSPROP,
    .name = "RMSprop",
    .kernel = &k_rmsprop,
    .steps = &k_rmsprop_steps,
    .numbers = rmsprop_numbers,
    OPTIONS(.lr = 0.01, .alpha = 0.99, .eps = 1e-8, .momentum = 0, .centered = 0),
    .states = { { "square_avg", RG_ALWAYS },
                { "momentum_buffer", RG_OPTION_momentum },
                { "grad_avg", RG_OPTION_centered } },
    .saves_step = true,
};

static const rg_optim_row adagrad_row = {
    .kind = RG_ADAGRAD,
    .name = "Adagrad",
    .kernel = &k_adagrad,
    .steps = &k_adagrad_steps,
    .numbers = adagrad_numbers,
    OPTIONS(.lr = 0.01, .lr_decay = 0, .initial_accumulator_value = 0, .eps = 1e-10),
    .states = { { "sum", RG_ALWAYS } },
    .saves_step = true,
    .has_first_states = true,
};

static const rg_optim_row lion_row = {
    .kind = RG_LION,
    .name = "Lion",
    .kernel = &k_lion,
    .numbers = lion_numbers,
    OPTIONS(.lr = 1e-4, .betas = { 0.9, 0.99 }),
    .states = { { "exp_avg", RG_ALWAYS } },
};

static const rg_optim_row nadam_row = {
    .kind = RG_NADAM,
    .name = "NAdam",
    .kernel = &k_nadam,
    .steps = &k_nadam_steps,
    .numbers = nadam_numbers,
    OPTIONS(.lr = 2e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .momentum_decay = 4e-3,
            .decoupled_weight_decay = 0),
    .states = { { "exp_avg", RG_ALWAYS }, { "exp_avg_sq", RG_ALWAYS } },
    .saves_step = true,
    .has_product = true,
};

static const rg_optim_row radam_row = {
    .kind = RG_RADAM,
    .name = "RAdam",
    .kernel = &k_radam,
    .steps = &k_radam_steps,
    .numbers = radam_numbers,
    OPTIONS(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .decoupled_weight_decay = 0),
    .states = { { "exp_avg", RG_ALWAYS }, { "exp_avg_sq", RG_ALWAYS } },
    .saves_step = true,
};

static const rg_optim_row muon_row = {
    .kind = RG_MUON,
    .name = "Muon",
    .kernel = &k_muon,
    .numbers = muon_numbers,
    .defaults = { RG_NO_OPTIONS_, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.95, .nesterov = 1,
                  .eps = 1e-7, .ns_coefficients = { 3.4445, -4.775, 2.0315 }, .ns_steps = 5,
                  .match_rms_adamw = 0, .master_weights = 0 },
    .states = { { "momentum_buffer", RG_ALWAYS } },
    .update = rgi_muon_update,
};

static const rg_optim_row lbfgs_row = {
    .kind = RG_LBFGS,
    .name = "LBFGS",
    .step_by_closure = rgi_lbfgs_step,
    .defaults = { RG_NO_OPTIONS_, .lr = 1, .max_iter = 20, .max_eval = 25, .tolerance_grad = 1e-7,
                  .tolerance_change = 1e-9, .history_size = 100, .strong_wolfe = 0 },
};
RG_LOUD_

/* ---- making -------------------------------------------------------------------------------- */

rg_optim *rg_optim_sgd_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&sgd_row, params, options);
}

rg_optim *rg_optim_adam_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&adam_row, params, options);
}

rg_optim *rg_optim_adamw_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&adamw_row, params, options);
}

rg_optim *rg_optim_rmsprop_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&rmsprop_row, params, options);
}

rg_optim *rg_optim_adagrad_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&adagrad_row, params, options);
}

rg_optim *rg_optim_lion_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&lion_row, params, options);
}

rg_optim *rg_optim_nadam_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&nadam_row, params, options);
}

rg_optim *rg_optim_radam_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&radam_row, params, options);
}

rg_optim *rg_optim_muon_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&muon_row, params, options);
}

rg_optim *rg_optim_lbfgs_with(rg_list params, rg_param_group options) {
    return rgi_optim_make(&lbfgs_row, params, options);
}
