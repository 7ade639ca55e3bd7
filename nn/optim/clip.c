/*
 * clip.c: clips gradients. All memory is requested before the first gradient is written to, so that
 * a failure leaves all gradients as they were.
 */
#include "clip.h"
#include "tensor/error.h"
#include "tensor/text/python_text.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"

#include <math.h>

/* Returns the norm of order norm_type of all gradients together, as if they were one tensor. The
 * norm is a tensor with one element, which is 0 if there are no gradients. Returns NULL on
 * failure. */
static rg_tensor *norm_of_grads(rg_list params, double norm_type) {
    rg_tensor **norms = rgi_scope_alloc((size_t)params.n * sizeof *norms);
    if (!norms)
        return NULL;
    int n = 0;
    for (int i = 0; i < params.n; i++) {
        rg_tensor *grad = rg_grad_of(params.v[i]);
        if (grad == RG_NONE)
            continue;
        if (!rgi_may_overwrite(grad, "clip_grad_norm_"))
            return NULL;
        norms[n++] = rg_norm_p(grad, norm_type);
    }
    if (n == 0)
        return rg_scalar_dtype(0, rg_default_dtype());
    return rg_norm_p(rg_stack((rg_list){ n, norms }, 0), norm_type);
}

/* Stores in scales[i] the scale in the dtype of the i-th gradient. With it, scaling requests no
 * memory. Returns false on failure. */
static bool convert_scale(rg_list params, rg_tensor *scale, rg_tensor **scales) {
    for (int i = 0; i < params.n; i++) {
        rg_tensor *grad = rg_grad_of(params.v[i]);
        scales[i] = grad == RG_NONE ? scale : rg_to(scale, (rg_dtype)rg_dtype_of(grad));
        if (!scales[i])
            return false;
    }
    return true;
}

static rg_tensor *clip_norm(rg_list params, double max_norm, rg_clip_options o) {
    if (!rgi_check_list(params, "clip_grad_norm_"))
        return NULL;
    RG_AS("clip_grad_norm_");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *total = norm_of_grads(params, o.norm_type);
    RG_FAIL_IF(total && o.error_if_nonfinite && !isfinite(rg_item(total)), "clip_grad_norm_",
               "The total norm of order %s for gradients from `parameters` is non-finite, so it "
               "cannot be clipped. To disable this error and scale the gradients by the "
               "non-finite norm anyway, set `error_if_nonfinite=False`",
               rgi_python_float(o.norm_type));
    /* torch divides a number by a tensor in two roundings: the reciprocal, then the product. */
    rg_tensor *scale = rg_mul(rg_reciprocal(rg_add(total, 1e-6)), max_norm);
    scale = rg_clamp_max(scale, 1.0);
    rg_tensor **scales = rgi_scope_alloc((size_t)params.n * sizeof *scales);
    if (!scale || !scales || !convert_scale(params, scale, scales))
        return NULL;
    for (int i = 0; i < params.n; i++) {
        rg_tensor *grad = rg_grad_of(params.v[i]);
        if (grad == RG_NONE)
            continue;
        if (!rg_mul_(grad, scales[i]))
            return NULL;
        rgi_gradient_was_scaled(grad);
    }
    return rg_escape(total);
}

rg_tensor *(rg_clip_grad_norm_with_)(rg_list params, double max_norm, rg_clip_options o) {
    return RG_TENSOR_UNLESS_HALTED(clip_norm(params, max_norm, o));
}

/* Stores in bounds[2 * i] and bounds[2 * i + 1] the numbers -clip_value and clip_value, as tensors
 * of the dtype of the i-th gradient. With them, clamping requests no memory. Returns false on
 * failure. */
static bool make_bounds(rg_list params, double clip_value, rg_tensor **bounds) {
    for (int i = 0; i < params.n; i++) {
        rg_tensor *grad = rg_grad_of(params.v[i]), **own = bounds + 2 * i;
        if (grad == RG_NONE)
            continue;
        const int dtype = rg_dtype_of(grad);
        own[0] = rg_scalar_dtype(-clip_value, (rg_dtype)dtype);
        own[1] = rg_scalar_dtype(clip_value, (rg_dtype)dtype);
        if (!own[0] || !own[1] || !rgi_may_overwrite(grad, "clip_grad_value_"))
            return false;
    }
    return true;
}

static bool clip_values(rg_list params, double clip_value) {
    if (!rgi_check_list(params, "clip_grad_value_"))
        return false;
    RG_AS("clip_grad_value_");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor **bounds = rgi_scope_alloc(2 * (size_t)params.n * sizeof *bounds);
    if (!bounds || !make_bounds(params, clip_value, bounds))
        return false;
    for (int i = 0; i < params.n; i++) {
        rg_tensor *grad = rg_grad_of(params.v[i]);
        if (grad == RG_NONE)
            continue;
        if (!rg_clamp_(grad, bounds[2 * i], bounds[2 * i + 1]))
            return false;
        rgi_gradient_was_scaled(grad);
    }
    return true;
}

bool(rg_clip_grad_value_)(rg_list params, double clip_value) {
    return RG_UNLESS_HALTED(clip_values(params, clip_value));
}
