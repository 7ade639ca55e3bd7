/* No step begins with rg_optim_zero_grad, so gradients of all steps are added up. */
#include "regard.h"

int main(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true);
    rg_optim *sgd = rg_optim_sgd(RG_LIST(w), .lr = 0.1);
    RG_FOR (int step = 0; step < 4; step++) {
        rg_backward(rg_sum(rg_square(w)));
        rg_optim_step(sgd); /* here */
    }
    rg_optim_free(sgd);
}
