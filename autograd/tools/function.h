/*
 * function.h: ops of your own, as torch.autograd.Function: a forward and a backward function, which
 * the graph treats like the ops of ops.h. Hooks, anomaly mode, the profiler, drawings, replay and
 * rg_gradcheck support them.
 *
 *     static bool cube_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
 *         out[0] = rg_pow(in[0], 3);
 *         return rg_save_for_backward(ctx, in[0]);
 *     }
 *
 *     static bool cube_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
 *         rg_tensor *x = rg_saved_tensor(ctx, 0);
 *         gin[0] = rg_mul(g[0], rg_mul(3, rg_square(x)));
 *         return true;
 *     }
 *
 *     static rg_function_class cube = {
 *         .name = "Cube", .forward = cube_forward, .backward = cube_backward
 *     };
 *
 *     rg_tensor *y = rg_function_apply(&cube, NULL, x);
 *
 * rg_function_check checks such an op as thoroughly as regard's own ops are checked.
 */
#pragma once

#include "../autograd.h"
#include "../ops/ops.h"

RG_PUBLIC_BEGIN

/* A context is one call of the op. Forward stores in it the values that backward needs. */
typedef struct rg_function_context rg_function_context;

/* A class has to last as long as the program, and is shared by all threads. Neither of its
 * functions may be left by longjmp (see rg_error_handler in tensor.h). */
typedef struct RG_OPTIONS rg_function_class {
    RG_BY_NAME;
    /* The name in errors and in the profiler. grad_fn is this name followed by "Backward". */
    const char *name RG_DEFAULT(NULL);
    /* Makes out[0], out[1], .. from the inputs, in a scope of its own and without recording. An
     * absent input is RG_NONE. Returns false if it failed; a NULL output is a failure, too. */
    bool (*forward)(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[])
        RG_DEFAULT(NULL);
    /* Makes gin[i], the gradient of input i, from g[k], the gradients of the outputs. Each gin[i]
     * is RG_NONE at first, and may stay so; RG_NONE stands for zero. A backward of regard's
     * functions can be differentiated itself. A backward that works on the data can't, and its
     * class has to set `once_differentiable`. */
    bool (*backward)(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[])
        RG_DEFAULT(NULL);
    /* The number of outputs, up to 8; 0 stands for one. */
    int outputs RG_DEFAULT(0);
    /* The size of the args, which rg_function_apply copies and rg_function_args returns. */
    size_t args_bytes RG_DEFAULT(0);
    /* The size of the state that forward leaves for backward, all 0 at first; rg_function_state
     * returns it. Don't store pointers to tensors there: use rg_save_for_backward. */
    size_t state_bytes RG_DEFAULT(0);
    /* If true, differentiating a gradient of this op is an error. */
    bool once_differentiable RG_DEFAULT(false);
    /* If true, an output that got no gradient has RG_NONE as its gradient, not zeros. */
    bool unmaterialized_grads RG_DEFAULT(false);
    /* Private; leave it out. */
    void *row RG_DEFAULT(NULL);
} rg_function_class;

/* Applies the op to up to 16 tensors. rg_function_apply returns the first output;
 * rg_function_apply_many writes all outputs to out[]. */
rg_tensor *rg_function_apply_list(rg_function_class *cls, const void *args, rg_list inputs);
bool rg_function_apply_many(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_tensor *out[]);
#define rg_function_apply(cls, args, ...) \
    rg_function_apply_list(cls, args, RG_ARGUMENTS_(__VA_ARGS__))

/* ---- in forward and backward -------------------------------------------------------- */

/* Keeps up to 8 inputs, outputs or intermediate results for backward. An op with 16 inputs and a
 * state may keep up to 7 intermediate results. If a kept tensor is written to before backward,
 * backward fails. A second derivative flows through kept inputs and outputs, but not through
 * intermediate results. Call it once, in forward. */
bool rg_save_for_backward_list(rg_function_context *ctx, rg_list tensors);
#define rg_save_for_backward(ctx, ...) rg_save_for_backward_list(ctx, RG_ARGUMENTS_(__VA_ARGS__))
/* In backward, returns the saved tensor number i. */
rg_tensor *rg_saved_tensor(rg_function_context *ctx, int i);
/* Returns whether the gradient of input i is wanted. Backward needn't make any other gradient. */
bool rg_needs_input_grad(rg_function_context *ctx, int i);
/* In forward, marks an output through which no gradient flows. */
bool rg_mark_non_differentiable(rg_function_context *ctx, rg_tensor *output);
/* Return the args and the state (see rg_function_class), or NULL if the class has none. */
const void *rg_function_args(rg_function_context *ctx);
void *rg_function_state(rg_function_context *ctx);

/* ---- checking an op ------------------------------------------------------------------ */

/* Checks an op as regard's own ops are checked, with these args and inputs as a sample. It compares
 * values and gradients with finite differences, to second order unless the class is
 * once_differentiable; with inputs and gradients that aren't contiguous, or are expanded; in
 * float32 and float64; with each gradient wanted alone. It checks that the op writes to no tensor
 * of others, can be replayed, works or fails cleanly if inputs are released or written to before
 * backward, leaks no memory, and survives the failure of each request for memory. Inputs are
 * copied. Inputs that require grad are differentiated, or all floating-point inputs if none
 * requires grad. Returns false at the first mistake, and rg_error() describes it. No other thread
 * may use regard meanwhile. */
typedef struct RG_OPTIONS rg_function_check_options {
    RG_BY_NAME;
    /* The step of finite differences, as in rg_gradcheck. */
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
    /* The largest difference between float32 and float64, relative to values larger than 1. */
    double float32_tol RG_DEFAULT(1e-3);
} rg_function_check_options;
bool rg_function_check_with(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_function_check_options options);
#define RG_FUNCTION_CHECK_(...)            \
    RG_KEYWORDS(rg_function_check_options, \
                (.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, .float32_tol = 1e-3), __VA_ARGS__)
#define rg_function_check(cls, args, inputs, ...) \
    rg_function_check_with(cls, args, inputs, RG_FUNCTION_CHECK_(__VA_ARGS__))

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_saved_tensor(ctx, i)     rg_saved_tensor(ctx, RG_WHOLE(i))
#define rg_needs_input_grad(ctx, i) rg_needs_input_grad(ctx, RG_WHOLE(i))

RG_PUBLIC_END
