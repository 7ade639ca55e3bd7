/*
 * embedding_loss.c: losses that pull pairs of vectors together or push them apart, up to a margin.
 * Each loss is composed of other functions, as in torch.
 */
#include "loss.h"
#include "tensor/text/digits.h"

/* Checks the tensors and the reduction. Each loss calls this first. */
static bool embedding_loss_check(const char *name, rg_tensor *a, rg_tensor *b, rg_tensor *c,
                                 rg_reduction how) {
    return rgi_check(a, name) && rgi_check(b, name) && rgi_check(c, name)
           && rgi_loss_check_reduction(name, how);
}

/* ---- cosine_embedding_loss: t == 1 ? 1 - c : t == -1 ? max(c - margin, 0) : 0, where c is
 *      the cosine of the angle between a and b ---------------------------------- */

static bool cosine_embedding_shapes(const rg_tensor *a, const rg_tensor *b, const rg_tensor *t) {
    RG_FAIL_IF(t->ndim > 1, "cosine_embedding_loss",
               "0D or 1D target tensor expected, multi-target not supported");
    RG_FAIL_IF(a->ndim != t->ndim + 1 || b->ndim != t->ndim + 1, "cosine_embedding_loss",
               "%dD target tensor expects %dD input tensors, but found inputs with sizes %s and "
               "%s.",
               t->ndim, t->ndim + 1, RG_SHAPE_TEXT(a), RG_SHAPE_TEXT(b));
    return true;
}

rg_tensor *rg_cosine_embedding_loss_with(rg_tensor *a, rg_tensor *b, rg_tensor *target,
                                         rg_margin_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_cosine_embedding_loss_with(in[0], in[1], in[2], o), a, b, target);
    /* torch uses this number rounded to a float, even for tensors of doubles. */
    const double epsilon = 1e-12f;
    if (!embedding_loss_check("cosine_embedding_loss", a, b, target, o.reduction)
        || !cosine_embedding_shapes(a, b, target))
        return NULL;
    RG_AS("cosine_embedding_loss");
    RG_SCOPE();
    int dim = target->ndim;
    rg_tensor *aa = rg_add(rg_sum_dim(rg_mul(a, a), dim, false), epsilon);
    rg_tensor *bb = rg_add(rg_sum_dim(rg_mul(b, b), dim, false), epsilon);
    rg_tensor *ab = rg_sum_dim(rg_mul(a, b), dim, false);
    rg_tensor *cosine = rg_div(ab, rg_sqrt(rg_mul(aa, bb)));
    rg_tensor *apart = rg_clamp_min(rg_sub(cosine, o.margin), 0);
    rg_tensor *alike = rg_where(rg_eq(target, 1), rg_sub(1, cosine), 0);
    rg_tensor *each = rg_add(alike, rg_where(rg_eq(target, -1), apart, 0));
    return rg_escape(rgi_loss_reduce(each, o.reduction));
}

/* ---- margin_ranking_loss: max(-t (a - b) + margin, 0) -------------------------- */

rg_tensor *rg_margin_ranking_loss_with(rg_tensor *a, rg_tensor *b, rg_tensor *target,
                                       rg_margin_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_margin_ranking_loss_with(in[0], in[1], in[2], o), a, b, target);
    if (!embedding_loss_check("margin_ranking_loss", a, b, target, o.reduction))
        return NULL;
    RG_FAIL_IF(a->ndim != b->ndim || a->ndim != target->ndim, "margin_ranking_loss",
               "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
               "input1: torch.Size(%s), input2: torch.Size(%s), target: torch.Size(%s) ",
               RG_SHAPE_TEXT(a), RG_SHAPE_TEXT(b), RG_SHAPE_TEXT(target));
    RG_AS("margin_ranking_loss");
    RG_SCOPE();
    rg_tensor *apart = rg_sub(a, b);
    rg_tensor *wrong = rg_mul(rg_neg(target), apart);
    rg_tensor *each = rg_clamp_min(rg_add(wrong, o.margin), 0);
    return rg_escape(rgi_loss_reduce(each, o.reduction));
}

/* ---- hinge_embedding_loss: t == 1 ? x : t == -1 ? h : x + h, with h = max(margin - x, 0) ---- */

/* The margin is converted to x's dtype first, as in torch. */
rg_tensor *rg_hinge_embedding_loss_with(rg_tensor *x, rg_tensor *target, rg_hinge_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_hinge_embedding_loss_with(in[0], in[1], o), x, target);
    if (!embedding_loss_check("hinge_embedding_loss", x, target, x, o.reduction))
        return NULL;
    RG_AS("hinge_embedding_loss");
    RG_SCOPE();
    rg_tensor *margin = rg_scalar_dtype(o.margin, (rg_dtype)x->dtype);
    rg_tensor *apart = rg_clamp_min(rg_sub(margin, x), 0);
    rg_tensor *unlike = rg_where(rg_ne(target, 1), apart, rg_zeros_like(x));
    rg_tensor *alike = rg_where(rg_ne(target, -1), x, rg_zeros_like(x));
    return rg_escape(rgi_loss_reduce(rg_add(unlike, alike), o.reduction));
}

/* ---- triplet_margin_loss: max(margin + d(anchor, positive) - d(anchor, negative), 0), where
 *      d is rg_pairwise_distance. With swap, d(positive, negative) is used in place of d(anchor,
 *      negative) if it is smaller. ---------------------------------------------- */

rg_tensor *rg_triplet_margin_loss_with(rg_tensor *anchor, rg_tensor *positive, rg_tensor *negative,
                                       rg_triplet_options o) {
    RG_AUTOCASTS(RG_WIDER, rg_triplet_margin_loss_with(in[0], in[1], in[2], o), anchor, positive,
                 negative);
    if (!embedding_loss_check("triplet_margin_loss", anchor, positive, negative, o.reduction))
        return NULL;
    RG_FAIL_VALUE_IF(o.margin <= 0, "triplet_margin_loss", "margin must be greater than 0, got %s",
                     rgi_python_float(o.margin));
    RG_FAIL_IF(anchor->ndim != positive->ndim || anchor->ndim != negative->ndim,
               "triplet_margin_loss",
               "The anchor, positive, and negative tensors are expected to have the same number of "
               "dimensions, but got: anchor %dD, positive %dD, and negative %dD inputs",
               anchor->ndim, positive->ndim, negative->ndim);
    RG_AS("triplet_margin_loss");
    RG_SCOPE();
    rg_tensor *near = rg_pairwise_distance(anchor, positive, o.p, o.eps, false);
    rg_tensor *far = rg_pairwise_distance(anchor, negative, o.p, o.eps, false);
    if (!near || !far)
        return NULL;
    if (o.swap)
        far = rg_minimum(far, rg_pairwise_distance(positive, negative, o.p, o.eps, false));
    rg_tensor *each = rg_clamp_min(rg_sub(rg_add(near, o.margin), far), 0);
    return rg_escape(rgi_loss_reduce(each, o.reduction));
}
