/* A tensor is returned from the scope that owns it, and used after that scope's end. */
#include "regard.h"

static rg_tensor *scores(rg_tensor *x) {
    RG_SCOPE();
    return rg_matmul(x, rg_T(x));
}

int main(void) {
    rg_tensor *s = scores(rg_ones(2, 3));
    rg_print(rg_softmax(s, -1)); /* here */
}
