/*
 * clip.h: clips gradients, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
 */
#pragma once

#include "../../autograd/autograd.h"
#include "../../autograd/ops/ops.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_clip_options {
    RG_BY_NAME;
    double norm_type RG_DEFAULT(2);
    rg_flag error_if_nonfinite RG_DEFAULT(false);
} rg_clip_options;
/* Multiplies the gradients of the parameters by min(1, max_norm / (norm + 1e-6)), so that their
 * total norm is at most max_norm. `norm` is their total norm before that: the norm, of order
 * norm_type, of all gradients taken as one vector. Returns `norm`, or NULL on failure. */
rg_tensor *rg_clip_grad_norm_with_(rg_list params, double max_norm, rg_clip_options o);
#define rg_clip_grad_norm_(params, max_norm, ...) \
    rg_clip_grad_norm_with_(params, max_norm,     \
                            RG_KEYWORDS(rg_clip_options, (.norm_type = 2), __VA_ARGS__))
/* Clamps each element of each gradient to the range from -clip_value to clip_value. Returns false
 * on failure. */
bool rg_clip_grad_value_(rg_list params, double clip_value);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_clip_grad_norm_with_(...) \
    rg_clip_grad_norm_with_(RG_CHECKED_3(RG_ANY, RG_REAL, RG_ANY, __VA_ARGS__))
#define rg_clip_grad_value_(...) rg_clip_grad_value_(RG_CHECKED_2(RG_ANY, RG_REAL, __VA_ARGS__))

RG_PUBLIC_END
