/*
 * autocast.h: computing in 16 bits where that is fast, and in float32 where precision matters. The
 * parameters are float32.
 */
#pragma once

#include "../autograd.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* RG_AUTOCAST(RG_BFLOAT16); is torch.autocast("cpu", torch.bfloat16) until the end of the C block:
 *
 *     rg_tensor *loss;
 *     {
 *         RG_AUTOCAST(RG_BFLOAT16);
 *         loss = rg_cross_entropy(rg_call(model, x), target);
 *     }
 *     rg_backward(loss);
 *
 * While autocast is on in a thread, the thread's calls cast their inputs, as torch's do on the CPU:
 *
 *     to autocast's dtype   matmul, mm, bmm, addmm, baddbmm, linear, conv1d, conv2d, prelu,
 *                           scaled_dot_product_attention, joint_attention; and what calls them:
 *                           einsum, tensordot, inner, the layers
 *     to float32            the losses except gaussian_nll_loss; prod, trace, cdist, quantile; pad
 *                           with RG_REFLECT or RG_REPLICATE
 *
 * (In torch, tensordot and inner cast only where they come to a product of matrices, and not for
 * a single element or for sums alone.)
 *
 * Only float32, bfloat16 and float16 are cast. Functions that write in place cast nothing, and all
 * other functions compute in the dtypes that they are given: an addition of bfloat16 and float32 is
 * float32. The results of a function therefore have other dtypes than without autocast, but the
 * gradient of a parameter has the parameter's dtype.
 *
 * A parameter is cast once: its cast is kept until the outermost RG_AUTOCAST ends, unless
 * .cache_enabled is false there or in a block around. If an op has written to the parameter, or
 * autocast's dtype is another, it is cast again. (In torch the old cast is used.)
 *
 * A backward run computes in the dtypes of its graph, whether autocast is on or not. (In torch,
 * autocast also casts products of float32 in backward runs inside it.) Two functions of the program
 * run under the autocast with which the graph was recorded: the backward of an rg_function_class,
 * as with torch's custom_bwd, and the second call of the function of an rg_checkpoint. A step in 16
 * bits can't be recorded (rg_record). A replay computes in the dtypes in which its step was
 * recorded.
 *
 * Gradients of float16 can be too small for it. docs/fast.md shows how a loss is scaled. */
typedef struct RG_OPTIONS rg_autocast_options {
    RG_BY_NAME;
    /* If false, autocast is off until the end of the block. */
    rg_flag enabled RG_DEFAULT(true);
    rg_flag cache_enabled RG_DEFAULT(true);
} rg_autocast_options;

/* A guard has the settings that its end restores. RG_AUTOCAST opens and closes one. If the dtype is
 * neither bfloat16 nor float16, the opening fails, and autocast is off until the closing. */
typedef struct rg_autocast_guard {
    rg_dtype dtype;
    bool enabled, cache_enabled, casting, in_rule;
} rg_autocast_guard;
rg_autocast_guard rg_autocast_guard_open_with(rg_dtype dtype, rg_autocast_options options);
void rg_autocast_guard_close(rg_autocast_guard *guard);
#define RG_AUTOCAST_(...) \
    RG_KEYWORDS(rg_autocast_options, (.enabled = true, .cache_enabled = true), __VA_ARGS__)
#define rg_autocast_guard_open(dtype, ...) \
    rg_autocast_guard_open_with(dtype, RG_AUTOCAST_(__VA_ARGS__))
#define RG_AUTOCAST(dtype, ...)                                     \
    rg_autocast_guard RG_PASTE(rg_autocast_, __COUNTER__)           \
        __attribute__((cleanup(rg_autocast_guard_close), unused)) = \
            rg_autocast_guard_open(dtype, __VA_ARGS__)

/* The thread's settings. The dtype is bfloat16 if autocast was never on. rg_clear_autocast_cache
 * drops the casts of parameters that are kept. */
bool rg_is_autocast_enabled(void);
rg_dtype rg_get_autocast_dtype(void);
bool rg_is_autocast_cache_enabled(void);
void rg_clear_autocast_cache(void);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_autocast_guard_open_with(dtype, options) \
    rg_autocast_guard_open_with(RG_A_DTYPE(dtype), options)

RG_PUBLIC_END
