/* The file with the weights doesn't exist. */
#include "regard.h"

int main(void) {
    rg_linear_module *m = rg_nn_linear(2, 3);
    rg_named_list weights = rg_load_file("absent/model.safetensors"); /* here */
    rg_load_state_dict(m, weights, true);
    rg_module_free(m);
}
