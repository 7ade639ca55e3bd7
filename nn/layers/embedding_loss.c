/*
 * embedding_loss.c: the modules of losses that compare vectors by their distance or angle, or
 * numbers by their order.
 */
#include "losses.h"
#include "tensor/text/python_text.h"
#include "tensor/error.h"

/* ---- CosineEmbeddingLoss and MarginRankingLoss of `a`, `b` and target ---------- */

static rg_tensor *margin_loss_forward(rg_module *m, rg_tensor *a, rg_tensor *b, rg_tensor *target) {
    rg_margin_loss_module *self = (rg_margin_loss_module *)m;
    return self->f(a, b, target, self->o);
}

static const rg_module_class cosine_embedding_loss_class = { .name = "CosineEmbeddingLoss",
                                                             .forward3 = margin_loss_forward };
static const rg_module_class margin_ranking_loss_class = { .name = "MarginRankingLoss",
                                                           .forward3 = margin_loss_forward };

rg_margin_loss_module *rg_nn_cosine_embedding_loss_with(rg_margin_options o) {
    return RG_MODULE(rg_margin_loss_module, &cosine_embedding_loss_class, .o = o,
                     .f = rg_cosine_embedding_loss_with);
}

rg_margin_loss_module *rg_nn_margin_ranking_loss_with(rg_margin_options o) {
    return RG_MODULE(rg_margin_loss_module, &margin_ranking_loss_class, .o = o,
                     .f = rg_margin_ranking_loss_with);
}

/* ---- HingeEmbeddingLoss of `x` and target -------------------------------------- */

static rg_tensor *hinge_loss_forward(rg_module *m, rg_tensor *x, rg_tensor *target) {
    return rg_hinge_embedding_loss_with(x, target, ((rg_hinge_loss_module *)m)->o);
}

static const rg_module_class hinge_embedding_loss_class = { .name = "HingeEmbeddingLoss",
                                                            .forward2 = hinge_loss_forward };

rg_hinge_loss_module *rg_nn_hinge_embedding_loss_with(rg_hinge_options o) {
    return RG_MODULE(rg_hinge_loss_module, &hinge_embedding_loss_class, .o = o);
}

/* ---- TripletMarginLoss of anchor, positive and negative ------------------------ */

static rg_tensor *triplet_loss_forward(rg_module *m, rg_tensor *anchor, rg_tensor *positive,
                                       rg_tensor *negative) {
    return rg_triplet_margin_loss_with(anchor, positive, negative,
                                       ((rg_triplet_loss_module *)m)->o);
}

static const rg_module_class triplet_margin_loss_class = { .name = "TripletMarginLoss",
                                                           .forward3 = triplet_loss_forward };

rg_triplet_loss_module *rg_nn_triplet_margin_loss_with(rg_triplet_options o) {
    RG_FAIL_VALUE_IF(o.margin <= 0, "TripletMarginLoss",
                     "TripletMarginLoss: expected margin to be greater than 0, got %s instead",
                     rgi_python_float(o.margin));
    return RG_MODULE(rg_triplet_loss_module, &triplet_margin_loss_class, .o = o);
}
