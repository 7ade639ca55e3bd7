/*
 * half_linear.c: the op linear on elements of 16 bits. Its weight is read as it is, and the result
 * is rounded once.
 */
#include "half_linear.h"
#include "tensor/kernels/half_product.h"

/* Computes y = x w^T + bias in float32, without a float32 copy of the whole w. `bias` may be
 * NULL. */
static bool half_linear_of(rg_tensor *wide, const rg_tensor *input, const rg_tensor *w,
                           rg_tensor *bias) {
    rg_tensor y = rgi_header_of(wide), x = rgi_header_of(input);
    if (x.ndim == 1) {
        rgi_take_part(&x, &(rg_part){ RG_PART_NEW(0) });
        rgi_take_part(&y, &(rg_part){ RG_PART_NEW(0) });
    }
    return k_half_product(&y, &x, w) && (!bias || k_run(k_add, wide, wide, bias));
}

bool rgi_half_linear(const rg_call *c) {
    const bool has_bias = !rgi_is_none(c->in[2]);
    rg_tensor *x = rgi_contiguous_copy(c->in[0], RG_FLOAT32);
    rg_tensor *bias = has_bias ? rgi_contiguous_copy(c->in[2], RG_FLOAT32) : NULL;
    rg_tensor *wide = rgi_new_like(c->out[0], RG_FLOAT32);
    const bool ok = x && wide && (bias || !has_bias) && half_linear_of(wide, x, c->in[1], bias);
    if (ok)
        rgi_copy_elements(c->out[0], wide);
    rgi_release(wide);
    rgi_release(bias);
    rgi_release(x);
    return ok;
}
