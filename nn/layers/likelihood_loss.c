/*
 * likelihood_loss.c: GaussianNLLLoss and PoissonNLLLoss, the modules of negative log likelihoods.
 */
#include "losses.h"

/* ---- GaussianNLLLoss of x, target and var -------------------------------------- */

static rg_tensor *gaussian_nll_loss_forward(rg_module *m, rg_tensor *x, rg_tensor *target,
                                            rg_tensor *var) {
    return rg_gaussian_nll_loss_with(x, target, var, ((rg_gaussian_nll_loss_module *)m)->o);
}

static const rg_module_class gaussian_nll_loss_class = { .name = "GaussianNLLLoss",
                                                         .forward3 = gaussian_nll_loss_forward };

rg_gaussian_nll_loss_module *rg_nn_gaussian_nll_loss_with(rg_gaussian_nll_options o) {
    return RG_MODULE(rg_gaussian_nll_loss_module, &gaussian_nll_loss_class, .o = o);
}

/* ---- PoissonNLLLoss of x and target -------------------------------------------- */

static rg_tensor *poisson_nll_loss_forward(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_poisson_nll_loss_with(x, target, ((rg_poisson_nll_loss_module *)m)->o);
}

static const rg_module_class poisson_nll_loss_class = { .name = "PoissonNLLLoss",
                                                        .forward2 = poisson_nll_loss_forward };

rg_poisson_nll_loss_module *rg_nn_poisson_nll_loss_with(rg_poisson_nll_options o) {
    return RG_MODULE(rg_poisson_nll_loss_module, &poisson_nll_loss_class, .o = o);
}
