/* The derivative of x^3 is 3 x^2, and not 2 x^2. */
#include "regard.h"

static bool cube_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    out[0] = rg_mul(in[0], rg_mul(in[0], in[0]));
    return rg_save_for_backward(ctx, in[0]);
}

static bool cube_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    rg_tensor *x = rg_saved_tensor(ctx, 0);
    gin[0] = rg_mul(g[0], rg_mul(2, rg_mul(x, x)));
    return true;
}

static rg_function_class cube = { .name = "Cube",
                                  .forward = cube_forward,
                                  .backward = cube_backward };

int main(void) {
    rg_tensor *x = rg_sub(rg_arange(5.), 2.5);
    rg_function_check(&cube, NULL, RG_LIST(x)); /* here */
}
