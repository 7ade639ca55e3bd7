/*
 * loss.h: functions for all losses: checks of the options, the reduction, and functions for the ops
 * whose losses the kernel k_loss computes. The losses themselves are in loss.c (distances),
 * binary_cross_entropy.c, nll.c, cross_entropy.c, embedding_loss.c and likelihood_loss.c.
 */
#pragma once

#include "autocast.h"

/* ---- checks of the options, and the reduction ---------------------------------- */

/* Fails unless x, t and the tensors in *o are valid (those in *o may be RG_NONE), and the loss
 * `name` allows the reduction o->reduction. */
bool rgi_loss_check(const char *name, rg_tensor *x, rg_tensor *t, const rg_loss_options *o);

/* Fails unless `how` is RG_MEAN, RG_SUM or RG_EACH. */
bool rgi_loss_check_reduction(const char *name, rg_reduction how);

/* Fails if t requires grad while grad mode is on. t is the argument named `what`, for which the
 * loss computes no gradient. */
bool rgi_loss_constant(const char *name, const char *what, const rg_tensor *t);

/* Reduces the losses of all elements: returns their mean or sum, or for RG_EACH the losses
 * themselves. */
rg_tensor *rgi_loss_reduce(rg_tensor *each, rg_reduction how);

/* The first line of a loss that takes rg_loss_options: under autocast its inputs are cast to
 * float32. rgi_loss_of_casts calls the loss with casts of x, t, o.weight and o.pos_weight. */
typedef rg_tensor *rg_loss_function(rg_tensor *x, rg_tensor *t, rg_loss_options o);
rg_tensor *rgi_loss_of_casts(rg_loss_function *loss, rg_tensor *const in[], rg_loss_options o);
#define RG_LOSS_AUTOCASTS(loss, x, t, o) \
    RG_AUTOCASTS(RG_WIDER, rgi_loss_of_casts(loss, in, o), x, t, o.weight, o.pos_weight)

/* ---- losses that the kernel k_loss computes ---------------------------------------
 * The inputs are x, t, and for some losses a weight and a pos_weight, which may be RG_NONE. The
 * kernel computes each element's loss or its slope: the derivative of the loss with respect to x,
 * without the weight. gx = g * weight * slope, divided by the number of elements if the reduction
 * is the mean. */

/* The attributes of these losses. `c` is smooth_l1_loss's beta, huber_loss's delta, or the smallest
 * denominator in the gradient of binary_cross_entropy. */
struct loss_attr {
    rg_reduction reduction;
    double c;
};

bool rgi_loss_shape(rg_call *c);
bool rgi_loss_forward(rg_call *c, k_loss_kind kind);
bool rgi_loss_fused(const rg_step *s, rg_tensor *gin[], k_loss_kind kind);

/* Returns g * weight * slope, divided by the number of elements if the reduction is the mean. */
rg_tensor *rgi_loss_gradient(const rg_step *s, rg_tensor *slope, rg_tensor *g);

/* ---- losses over classes (nll.c, cross_entropy.c) ------------------------------ */

/* The attributes of nll_loss and cross_entropy. x has `classes` classes along its class dim, and
 * `inner` is the product of the sizes of the dims after it. A target equal to `ignore` doesn't
 * count. */
struct nll_loss_attr {
    const char *node;
    int64_t classes, inner, ignore;
    rg_reduction reduction;
};

/* NLL expands to the initializer of a test sample (rg_sample). */
#define NLL(inputs_, classes_, inner_, ignore_, reduction_)                              \
    {                                                                                    \
        inputs_, RG_A(nll_loss, .classes = classes_, .inner = inner_, .ignore = ignore_, \
                      .reduction = reduction_)                                           \
    }

/* The arguments of nll_loss's kernels: `targets`, the targets and their classes' weights, and
 * `total`, the sum of the targets' weights, to which targets.total points if the reduction is the
 * mean. */
typedef struct {
    k_nll_targets targets;
    double total;
} rg_nll;

/* The state of the forward functions of nll_loss and cross_entropy: the arguments of the kernel, a
 * contiguous x, and `each`, the tensor for the loss of each target. */
typedef struct {
    rg_nll nll;
    rg_tensor *x, *each;
} rg_nll_forward;

/* Fails unless the shapes and dtypes of x, t and the weight are allowed. The weight may be RG_NONE.
 * Also fails if the weight requires grad while grad mode is on. */
bool rgi_nll_check(rg_tensor *x, rg_tensor *t, const rg_tensor *weight);
struct nll_loss_attr rgi_nll_attributes(const rg_tensor *x, const rg_loss_options *o);
bool rgi_nll_shape(rg_call *c);

/* rgi_nll_begin fills in *z, and rgi_nll_forward_begin fills in *f. Both return false on failure.
 * The caller's scope owns the tensors that they allocate. rgi_nll_forward_end computes the call's
 * output from f->each, the losses. */
bool rgi_nll_begin(rg_nll *z, const struct nll_loss_attr *a, rg_dtype dtype, rg_tensor *target,
                   rg_tensor *weight);
bool rgi_nll_forward_begin(rg_nll_forward *f, rg_call *c);
void rgi_nll_forward_end(const rg_nll_forward *f, rg_call *c);

rg_tensor *rgi_nll_rule(const rg_step *s, rg_tensor *g);
