/*
 * loss.h: functions for all losses: checks of the options, the reduction, and the parts of a row
 * for losses that one kernel computes. The losses themselves are in loss.c (distances),
 * binary_cross_entropy.c, nll.c, cross_entropy.c, embedding_loss.c and likelihood_loss.c.
 */
#pragma once

#include "autograd/op.h"

/* ---- options ------------------------------------------------------------------- */

/* Fails unless all tensors are given and the loss has this reduction. */
bool rgi_loss_check(const char *name, rg_tensor *x, rg_tensor *t, const rg_loss_options *o);

/* Fails unless it is RG_MEAN, RG_SUM or RG_EACH. */
bool rgi_loss_check_reduction(const char *name, rg_reduction how);

/* Requires that the argument `what`, which has no gradient, doesn't require grad. */
bool rgi_loss_constant(const char *name, const char *what, const rg_tensor *t);

/* Returns each element's loss, their sum, or their mean. */
rg_tensor *rgi_loss_reduce(rg_tensor *each, rg_reduction how);

/* ---- losses that the kernel k_loss computes ---------------------------------------
 * The inputs are x, t, and for some losses a weight and a pos_weight, which may be RG_NONE. The
 * kernel computes each element's loss, or its derivative by x, the slope; gx = g weight slope,
 * divided by n for the mean. */

/* c is smooth_l1_loss's beta, huber_loss's delta, or binary_cross_entropy's least denominator. */
struct loss_attr {
    rg_reduction reduction;
    double c;
};

bool rgi_loss_shape(rg_call *c);
bool rgi_loss_forward(rg_call *c, k_loss_kind kind);
bool rgi_loss_fused(const rg_step *s, rg_tensor *gin[], k_loss_kind kind);

/* Returns g weight slope, divided by n for the mean. */
rg_tensor *rgi_loss_gradient(const rg_step *s, rg_tensor *slope, rg_tensor *g);

/* ---- losses over classes (nll.c, cross_entropy.c) ------------------------------ */

/* x has `classes` classes, with `inner` elements for each; a target of `ignore` doesn't count. */
struct nll_loss_attr {
    const char *node;
    int64_t classes, inner, ignore;
    rg_reduction reduction;
};

/* NLL makes a sample. */
#define NLL(inputs_, classes_, inner_, ignore_, reduction_)                              \
    {                                                                                    \
        inputs_, RG_A(nll_loss, .classes = classes_, .inner = inner_, .ignore = ignore_, \
                      .reduction = reduction_)                                           \
    }

/* An rg_nll has the targets for the kernels, and the factor `scale` of g: 1 / (the sum of the
 * targets' weights) for the mean, else 1. */
typedef struct {
    k_nll_targets targets;
    double scale;
} rg_nll;

/* A forward's contiguous x, and the loss of each target, `each`. */
typedef struct {
    rg_nll nll;
    rg_tensor *x, *each;
} rg_nll_forward;

/* Fails if shapes, dtypes or the weight don't fit. */
bool rgi_nll_check(rg_tensor *x, rg_tensor *t, const rg_tensor *weight);
struct nll_loss_attr rgi_nll_attributes(const rg_tensor *x, const rg_loss_options *o);
bool rgi_nll_shape(rg_call *c);

/* rgi_nll_begin fills in *z, and rgi_nll_forward_begin *f. The caller's scope owns the tensors that
 * both make; both return false if they failed. rgi_nll_forward_end computes the output from
 * f->each. */
bool rgi_nll_begin(rg_nll *z, const struct nll_loss_attr *a, rg_tensor *target, rg_tensor *weight);
bool rgi_nll_forward_begin(rg_nll_forward *f, rg_call *c);
void rgi_nll_forward_end(const rg_nll_forward *f, rg_call *c);

rg_tensor *rgi_nll_rule(const rg_step *s, rg_tensor *g);
