/*
 * losses.h: losses as modules: rg_call(loss, x, target). A module has the options of the function
 * in autograd/ops/ops.h that computes the loss.
 *
 *     rg_loss_module *loss = rg_nn_cross_entropy_loss(.label_smoothing = 0.1);
 *     rg_backward(rg_call(loss, logits, target));
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_loss_module {
    rg_module base;
    rg_tensor *weight, *pos_weight;
    rg_loss_options o;
    /* The function that computes the loss, such as rg_mse_loss_with. */
    rg_tensor *(*const f)(rg_tensor *x, rg_tensor *target, rg_loss_options o);
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

/* ---- losses with options of their own ------------------------------------------
 * CosineEmbeddingLoss and MarginRankingLoss are called with (a, b, target), HingeEmbeddingLoss and
 * PoissonNLLLoss with (x, target), TripletMarginLoss with (anchor, positive, negative), and
 * GaussianNLLLoss with (x, target, var). */
typedef struct rg_margin_loss_module {
    rg_module base;
    rg_margin_options o;
    /* The function that computes the loss. */
    rg_tensor *(*const f)(rg_tensor *a, rg_tensor *b, rg_tensor *target, rg_margin_options o);
} rg_margin_loss_module;
typedef struct rg_hinge_loss_module {
    rg_module base;
    rg_hinge_options o;
} rg_hinge_loss_module;
typedef struct rg_triplet_loss_module {
    rg_module base;
    rg_triplet_options o;
} rg_triplet_loss_module;
typedef struct rg_gaussian_nll_loss_module {
    rg_module base;
    rg_gaussian_nll_options o;
} rg_gaussian_nll_loss_module;
typedef struct rg_poisson_nll_loss_module {
    rg_module base;
    rg_poisson_nll_options o;
} rg_poisson_nll_loss_module;
rg_margin_loss_module *rg_nn_cosine_embedding_loss_with(rg_margin_options o);
rg_margin_loss_module *rg_nn_margin_ranking_loss_with(rg_margin_options o);
rg_hinge_loss_module *rg_nn_hinge_embedding_loss_with(rg_hinge_options o);
rg_triplet_loss_module *rg_nn_triplet_margin_loss_with(rg_triplet_options o);
rg_gaussian_nll_loss_module *rg_nn_gaussian_nll_loss_with(rg_gaussian_nll_options o);
rg_poisson_nll_loss_module *rg_nn_poisson_nll_loss_with(rg_poisson_nll_options o);
#define rg_nn_cosine_embedding_loss(...) rg_nn_cosine_embedding_loss_with(RG_MARGIN_(__VA_ARGS__))
#define rg_nn_margin_ranking_loss(...)   rg_nn_margin_ranking_loss_with(RG_MARGIN_(__VA_ARGS__))
#define rg_nn_hinge_embedding_loss(...)  rg_nn_hinge_embedding_loss_with(RG_HINGE_(__VA_ARGS__))
#define rg_nn_triplet_margin_loss(...)   rg_nn_triplet_margin_loss_with(RG_TRIPLET_(__VA_ARGS__))
#define rg_nn_gaussian_nll_loss(...)     rg_nn_gaussian_nll_loss_with(RG_GAUSSIAN_NLL_(__VA_ARGS__))
#define rg_nn_poisson_nll_loss(...)      rg_nn_poisson_nll_loss_with(RG_POISSON_NLL_(__VA_ARGS__))

RG_PUBLIC_END
