/*
 * averaged_model.h: averages of a model's weights: torch.optim.swa_utils.AveragedModel.
 *
 *     rg_averaged_model *ema =
 *         rg_optim_averaged_model(model, .multi_avg_fn = rg_get_ema_multi_avg_fn(0.999));
 *     ...
 *         rg_optim_step(optimizer);
 *         rg_averaged_model_update_parameters(ema, model);
 *     ...
 *     rg_tensor *y = rg_call(ema, x);
 *
 * Only one thread at a time may update an averaged model, and no other thread may call it
 * meanwhile.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Says how the average is computed. If `ema` is set, each update keeps the fraction `decay` of the
 * average, and adds 1 - decay times the model's weights. Otherwise, and by default, the average is
 * the mean over all updates. An update of weights in 16 bits is rounded once, as torch's
 * get_swa_multi_avg_fn rounds it; torch's default rounds three times. `failed` is set if
 * rg_get_ema_multi_avg_fn was given a decay that isn't from 0 to 1; rg_optim_averaged_model then
 * returns NULL. */
typedef struct rg_multi_avg_fn {
    bool ema, failed;
    double decay;
} rg_multi_avg_fn;
rg_multi_avg_fn rg_get_ema_multi_avg_fn(double decay);
rg_multi_avg_fn rg_get_swa_multi_avg_fn(void);

typedef struct rg_averaged_model {
    rg_module base;
    /* A model with the averaged weights. At first it is a deep copy of the program's model. */
    rg_module *module;
    rg_tensor *n_averaged; /* The number of updates that were made, as an int64 tensor. */
    const rg_multi_avg_fn multi_avg_fn;
    const bool use_buffers;
} rg_averaged_model;

typedef struct RG_OPTIONS rg_averaged_model_options {
    RG_BY_NAME;
    rg_multi_avg_fn multi_avg_fn RG_DEFAULT({});
    /* If true, buffers are averaged as well. If false, they are copied from the model. As in torch,
     * an average of integers is truncated to an integer at each update. So the average of a count,
     * such as BatchNorm's num_batches_tracked, hardly changes. */
    rg_flag use_buffers RG_DEFAULT(false);
} rg_averaged_model_options;
rg_averaged_model *rg_optim_averaged_model_with(void *model, rg_averaged_model_options o);
#define rg_optim_averaged_model(model, ...) \
    rg_optim_averaged_model_with(           \
        model, RG_KEYWORDS(rg_averaged_model_options, (.use_buffers = false), __VA_ARGS__))
/* Updates the average with the model's weights. The first update copies the weights. Fails unless
 * the model's parameters and buffers have the number, shapes and dtypes of those in the average.
 * Returns false on failure; then nothing has changed. */
bool rg_averaged_model_update_parameters(rg_averaged_model *m, void *model);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_get_ema_multi_avg_fn(decay) rg_get_ema_multi_avg_fn(RG_REAL(decay))
#define rg_optim_averaged_model_with(model, ...) \
    rg_optim_averaged_model_with(RG_A_MODULE_(model), __VA_ARGS__)
#define rg_averaged_model_update_parameters(m, model) \
    rg_averaged_model_update_parameters(m, RG_A_MODULE_(model))

RG_PUBLIC_END
