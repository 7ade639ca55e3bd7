/*
 * likelihood_loss.c: losses that measure how likely a target is under a distribution whose mean is
 * the prediction. They are composed of other functions, as in torch.
 */
#include "elementwise.h"
#include "loss.h"
#include "value_check.h"

/* ---- gaussian_nll_loss: (ln v + (x - t)^2 / v) / 2 with v = max(var, eps); with `full`, ln(2
 *      pi) / 2 is added. var gets its gradient as if v were var, even where v is eps. ---- */

/* Fails if an element of var is below 0. NaN is allowed, as in torch. */
static bool gaussian_check_signs(rg_tensor *var) {
    RG_SCOPE();
    rg_tensor *negative = rg_any(rg_lt(rg_detach(var), 0));
    return rgi_check_values(&(rg_value_check){ negative, false, RG_VALUE_ERROR, "gaussian_nll_loss",
                                              "var has negative entry/entries" });
}

/* Returns the result of torch's test whether var has size 1 along one dim, and otherwise x's shape.
 * The test adds up var's sizes in the dims where var's size differs from x's. The sum must be 1. */
static bool gaussian_one_dim_differs(const rg_tensor *x, const rg_tensor *var) {
    int64_t sum = 0;
    if (x->ndim != var->ndim)
        return false;
    for (int d = 0; d < x->ndim; d++)
        if (x->size[d] != var->size[d])
            sum += var->size[d];
    return sum == 1;
}

/* Returns var in a shape that broadcasts to x's shape. If var lacks only x's last dim, a last dim
 * of size 1 is added. As in torch, fails for other shapes of var, even for some that would
 * broadcast. */
static rg_tensor *gaussian_fitted(rg_tensor *x, rg_tensor *var) {
    if (rgi_same_shape(x, var) || gaussian_one_dim_differs(x, var))
        return var;
    bool short_of_one = var->ndim == x->ndim - 1;
    for (int d = 0; short_of_one && d < var->ndim; d++)
        short_of_one = var->size[d] == x->size[d];
    RG_FAIL_VALUE_IF(!short_of_one, "gaussian_nll_loss", "var is of incorrect size");
    return rg_unsqueeze(var, -1);
}

/* Returns max(var, eps). Its gradient passes to var unchanged, since the maximum is written over a
 * clone of var without being recorded. */
static rg_tensor *gaussian_raised(rg_tensor *var, double eps) {
    rg_tensor *raised = rg_clone(var);
    RG_NO_GRAD();
    return rg_clamp_min_(raised, eps);
}

rg_tensor *rg_gaussian_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_tensor *var,
                                     rg_gaussian_nll_options o) {
    RG_AS("gaussian_nll_loss");
    if (!rgi_check(x, NULL) || !rgi_check(target, NULL) || !rgi_check(var, NULL)
        || !gaussian_check_signs(var))
        return NULL;
    RG_SCOPE();
    if (elementwise_is_number(var))
        var = rg_mul(rg_ones_like(x), var);
    else
        var = gaussian_fitted(x, var);
    if (!var)
        return NULL;
    RG_FAIL_VALUE_IF(o.reduction == RG_BATCHMEAN, "gaussian_nll_loss", "batchmean is not valid");
    if (!rgi_loss_check_reduction("gaussian_nll_loss", o.reduction))
        return NULL;
    var = gaussian_raised(var, o.eps);
    if (!var)
        return NULL;
    rg_tensor *far = rg_div(rg_pow(rg_sub(x, target), 2), var);
    rg_tensor *each = rg_mul(rg_add(rg_log(var), far), 0.5);
    if (o.full)
        each = rg_add(each, 0.5 * log(2 * M_PI));
    return rg_escape(rgi_loss_reduce(each, o.reduction));
}

/* ---- poisson_nll_loss: e^x - t x or, without log_input, x - t ln(x + eps). With `full`, where
 *      t > 1, Stirling's formula for ln t! is added: t ln t - t + ln(2 pi t) / 2 ---- */

static rg_tensor *poisson_stirling(rg_tensor *t) {
    rg_tensor *root = rg_mul(rg_log(rg_mul(t, 2 * M_PI)), 0.5);
    rg_tensor *term = rg_add(rg_sub(rg_mul(t, rg_log(t)), t), root);
    return rg_masked_fill(term, rg_le(t, 1), 0);
}

rg_tensor *rg_poisson_nll_loss_with(rg_tensor *x, rg_tensor *target, rg_poisson_nll_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_poisson_nll_loss_with(in[0], in[1], o), x, target);
    if (!rgi_check(x, "poisson_nll_loss") || !rgi_check(target, "poisson_nll_loss")
        || !rgi_loss_check_reduction("poisson_nll_loss", o.reduction))
        return NULL;
    RG_AS("poisson_nll_loss");
    RG_SCOPE();
    rg_tensor *each;
    if (o.log_input)
        each = rg_sub(rg_exp(x), rg_mul(target, x));
    else
        each = rg_sub(x, rg_mul(target, rg_log(rg_add(x, o.eps))));
    /* The term is added in place, so that the loss keeps its dtype if the term's is wider. */
    if (o.full)
        each = rg_add_(each, poisson_stirling(target));
    return rg_escape(rgi_loss_reduce(each, o.reduction));
}
