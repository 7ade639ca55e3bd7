/*
 * loss.h: what losses share: checks of their options, their reduction, and the parts of a row that
 * one kernel serves. The losses themselves are in loss.c (distances), binary_cross_entropy.c,
 * nll.c, cross_entropy.c, embedding_loss.c and likelihood_loss.c.
 */
#pragma once

#include "autograd/op.h"

/* ---- options ------------------------------------------------------------------- */

/* Fails unless all tensors are there and the reduction is one that the loss
 * knows. */
bool rgi_loss_check(const char *name, rg_tensor *x, rg_tensor *t, const rg_loss_options *o);

/* Fails unless the reduction is one that every loss knows. */
bool rgi_loss_check_reduction(const char *name, rg_reduction how);

/* Requires that nobody wants the gradient of the argument `what`, which has none. */
bool rgi_loss_constant(const char *name, const char *what, const rg_tensor *t);

/* Returns each element's loss, their sum, or their mean. */
rg_tensor *rgi_loss_reduce(rg_tensor *each, rg_reduction how);

/* ---- losses that the kernel k_loss computes ---------------------------------------
 * Inputs are x, t, and for some a weight and a pos_weight, which may be RG_NONE. The kernel makes
 * each element's loss, or the loss's slope by x; gx = g weight slope, over n for the mean. */

/* c is smooth_l1_loss's beta, huber_loss's delta, or binary_cross_entropy's least denominator. */
struct loss_attr {
    rg_reduction reduction;
    double c;
};

bool rgi_loss_shape(rg_call *c);
bool rgi_loss_forward(rg_call *c, k_loss_kind kind);
bool rgi_loss_fused(const rg_step *s, rg_tensor *gin[], k_loss_kind kind);

/* Returns g weight slope, over n for the mean. */
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

/* An rg_nll holds the targets as the kernels take them. g counts `scale` times, which is 1 / (the
 * sum of the targets' weights) for the mean, else 1. */
typedef struct {
    k_nll_targets targets;
    double scale;
} rg_nll;

/* A forward works on a contiguous x, and writes each target's loss into `each`. */
typedef struct {
    rg_nll nll;
    rg_tensor *x, *each;
} rg_nll_forward;

/* Fails where shapes, dtypes or the weight don't fit. */
bool rgi_nll_check(rg_tensor *x, rg_tensor *t, const rg_tensor *weight);
struct nll_loss_attr rgi_nll_attributes(const rg_tensor *x, const rg_loss_options *o);
bool rgi_nll_shape(rg_call *c);

/* rgi_nll_begin fills in *z, and rgi_nll_forward_begin *f. Both give what they make to the caller's
 * scope, and return false if they failed. rgi_nll_forward_end makes the output of f->each. */
bool rgi_nll_begin(rg_nll *z, const struct nll_loss_attr *a, rg_tensor *target, rg_tensor *weight);
bool rgi_nll_forward_begin(rg_nll_forward *f, rg_call *c);
void rgi_nll_forward_end(const rg_nll_forward *f, rg_call *c);

rg_tensor *rgi_nll_rule(const rg_step *s, rg_tensor *g);
