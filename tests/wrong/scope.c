/* The last loss is used after the loop, but each step of the loop owns its tensors and releases
 * them. */
#include "regard.h"

int main(void) {
    rg_tensor *w = rg_requires_grad_(rg_ones(3), true), *last = RG_NONE;
    RG_FOR (int step = 0; step < 3; step++) {
        last = rg_sum(rg_square(w));
        rg_backward(last);
    }
    rg_print(last); /* here */
}
