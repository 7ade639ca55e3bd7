/* The last loss is kept for after the loop, whose steps own their tensors. */
#include "regard.h"

int main(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true), *last = RG_NONE;
    RG_FOR (int step = 0; step < 3; step++) {
        last = rg_sum(rg_square(w));
        rg_backward(last);
    }
    rg_print(last); /* here */
}
