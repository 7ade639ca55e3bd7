/* The second dim of x isn't the first one of the weight, which should be transposed. */
#include "regard.h"

int main(void) {
    rg_tensor *x = rg_ones(6, 3), *weight = rg_ones(4, 2);
    rg_tensor *y = rg_matmul(x, weight); /* here */
    rg_print(rg_softmax(y, -1));
}
