/* The logarithm of a negative number makes the loss nan, and all weights after a step. */
#include "regard.h"

int main(void) {
    rg_tensor *w = rg_requires_grad_(rg_full(RG_DIMS(3), -0.5), true);
    rg_optim *sgd = rg_optim_sgd(RG_LIST(w), .lr = 0.1);
    rg_tensor *loss = rg_mean(rg_log(w));
    rg_backward(loss); /* here */
    rg_optim_step(sgd);
    rg_optim_free(sgd);
}
