/* An option is given without its name. */
#include "regard.h"

int main(void) {
    rg_linear_module *m = rg_nn_linear(2, 3, false); /* here */
    rg_module_free(m);
}
