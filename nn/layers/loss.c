/*
 * loss.c: the modules of losses that take x and target, such as MSELoss. Each module calls the
 * function of its loss in ops.h. The options weight and pos_weight become buffers of the module, as
 * in torch.
 */
#include "losses.h"
#include "tensor/error.h"
#include "tensor/scope.h"

static rg_tensor *loss_module_forward(rg_module *m, rg_tensor *x, rg_tensor *target) {
    rg_loss_module *self = (rg_loss_module *)m;
    /* self->o may have old weights: a program can replace the buffers, and a deep copy has its
     * own. */
    rg_loss_options o = self->o;
    o.weight = self->weight;
    o.pos_weight = self->pos_weight;
    return self->f(x, target, o);
}

typedef rg_tensor *loss_function(rg_tensor *x, rg_tensor *target, rg_loss_options o);

static rg_loss_module *loss_new(const rg_module_class *cls, loss_function *f, rg_loss_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    rg_loss_module *self = RG_MODULE(rg_loss_module, cls, .o = o, .f = f);
    /* RG_BUFFER takes over a reference from the scope. The program's scope must keep its reference
     * to the weight, so rgi_lend first adds a second one, to this function's scope. */
    RG_BUFFER(self, weight, rgi_lend(o.weight));
    RG_BUFFER(self, pos_weight, rgi_lend(o.pos_weight));
    return RG_READY(self);
}

#define LOSS(ident, Name, function)                                                   \
    static const rg_module_class ident##_class = { .name = Name,                      \
                                                   .forward2 = loss_module_forward }; \
    rg_loss_module *rg_nn_##ident##_with(rg_loss_options o) {                         \
        return loss_new(&ident##_class, function, o);                                 \
    }
LOSS(mse_loss, "MSELoss", rg_mse_loss_with)
LOSS(l1_loss, "L1Loss", rg_l1_loss_with)
LOSS(smooth_l1_loss, "SmoothL1Loss", rg_smooth_l1_loss_with)
LOSS(huber_loss, "HuberLoss", rg_huber_loss_with)
LOSS(nll_loss, "NLLLoss", rg_nll_loss_with)
LOSS(cross_entropy_loss, "CrossEntropyLoss", rg_cross_entropy_with)
LOSS(bce_loss, "BCELoss", rg_binary_cross_entropy_with)
LOSS(bce_with_logits_loss, "BCEWithLogitsLoss", rg_binary_cross_entropy_with_logits_with)
LOSS(kl_div_loss, "KLDivLoss", rg_kl_div_with)
