/*
 * losses.h: losses as modules: rg_call(loss, x, target). Their options are those of the
 * functions in autograd/ops.h.
 *
 *     rg_loss_module *loss = rg_nn_cross_entropy_loss(.label_smoothing = 0.1);
 *     rg_backward(rg_call(loss, logits, target));
 */
#pragma once

#include "module.h"

RG_PUBLIC_BEGIN

typedef struct rg_loss_module {
    rg_module base;
    rg_tensor *weight, *pos_weight;
    rg_loss_options o;
    /* f computes the loss. */
    rg_tensor *(*f)(rg_tensor *x, rg_tensor *target, rg_loss_options o);
} rg_loss_module;
rg_loss_module *rg_nn_mse_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_l1_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_smooth_l1_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_huber_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_nll_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_cross_entropy_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_bce_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_bce_with_logits_loss_with(rg_loss_options o);
rg_loss_module *rg_nn_kl_div_loss_with(rg_loss_options o);
#define rg_nn_mse_loss(...)           rg_nn_mse_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_l1_loss(...)            rg_nn_l1_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_smooth_l1_loss(...)     rg_nn_smooth_l1_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_huber_loss(...)         rg_nn_huber_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_nll_loss(...)           rg_nn_nll_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_cross_entropy_loss(...) rg_nn_cross_entropy_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_bce_loss(...)           rg_nn_bce_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_bce_with_logits_loss(...) \
    rg_nn_bce_with_logits_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))
#define rg_nn_kl_div_loss(...) rg_nn_kl_div_loss_with(RG_LOSS_OPTIONS_(__VA_ARGS__))

RG_PUBLIC_END
