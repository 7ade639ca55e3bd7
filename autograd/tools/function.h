/*
 * function.h: ops of your own, as torch.autograd.Function: a forward and a backward, which the
 * graph treats as it treats the ops of ops.h. Hooks, anomaly mode, the profiler, drawings, replay
 * and rg_gradcheck know them.
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
 * rg_function_check tells whether such an op keeps the promises that regard's own ops keep.
 */
#pragma once

#include "../autograd.h"
#include "../ops/ops.h"

RG_PUBLIC_BEGIN

/* A context is one application: forward leaves in it what backward needs. */
typedef struct rg_function_context rg_function_context;

/* A class lasts as long as the program, and is the same for all threads. Neither of its functions
 * may be left by longjmp (see rg_error_handler in tensor.h). */
typedef struct RG_OPTIONS rg_function_class {
    RG_BY_NAME;
    /* Errors and the profiler call the op so; grad_fn is the name with "Backward" behind it. */
    const char *name RG_DEFAULT(NULL);
    /* Makes out[0], out[1], .. from the inputs, in a scope of its own and without recording. An
     * absent input is RG_NONE. Returns false where it failed; a result that is NULL is a failure,
     * too. */
    bool (*forward)(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[])
        RG_DEFAULT(NULL);
    /* Makes gin[i], the gradient of input i, from g[k], those of the outputs. It may leave gin[i]
     * as RG_NONE, which stands for zero and is there at first. If it is written in regard's
     * functions, second derivatives follow; where it works on the data instead, the class says
     * `once_differentiable`. */
    bool (*backward)(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[])
        RG_DEFAULT(NULL);
    /* The number of outputs, up to 8; 0 stands for one. */
    int outputs RG_DEFAULT(0);
    /* The bytes of the args, which rg_function_apply copies and rg_function_args returns. */
    size_t args_bytes RG_DEFAULT(0);
    /* The bytes that forward leaves for backward, where rg_function_state says; they are 0 at
     * first. Pointers to tensors don't belong there: see rg_save_for_backward. */
    size_t state_bytes RG_DEFAULT(0);
    /* Differentiating a gradient of this op is an error. */
    bool once_differentiable RG_DEFAULT(false);
    /* The gradient of an output that got none is RG_NONE, and not zeros. */
    bool unmaterialized_grads RG_DEFAULT(false);
    /* The library's own; leave it out. */
    void *row RG_DEFAULT(NULL);
} rg_function_class;

/* Applies the op to up to 16 tensors. rg_function_apply returns the first output, and
 * rg_function_apply_many puts all of them into out[]. */
rg_tensor *rg_function_apply_list(rg_function_class *cls, const void *args, rg_list inputs);
bool rg_function_apply_many(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_tensor *out[]);
#define rg_function_apply(cls, args, ...) \
    rg_function_apply_list(cls, args, RG_ARGUMENTS_(__VA_ARGS__))

/* ---- in forward and backward -------------------------------------------------------- */

/* Keeps inputs, outputs or intermediate results for backward, up to 8; beside 16 inputs and a state
 * up to 7 of these may be intermediate results. What they are worth then is
 * what they are now: a write to one in between makes backward fail. Only what is an input or an
 * output leads a second derivative on. To be called once, in forward. */
bool rg_save_for_backward_list(rg_function_context *ctx, rg_list tensors);
#define rg_save_for_backward(ctx, ...) rg_save_for_backward_list(ctx, RG_ARGUMENTS_(__VA_ARGS__))
/* In backward, returns what was saved as number i. */
rg_tensor *rg_saved_tensor(rg_function_context *ctx, int i);
/* Returns whether the gradient of input i is wanted: backward need not make any other. */
bool rg_needs_input_grad(rg_function_context *ctx, int i);
/* In forward, says that no gradient flows through this output. */
bool rg_mark_non_differentiable(rg_function_context *ctx, rg_tensor *output);
/* Return the bytes that rg_function_class describes, NULL where there are none. */
const void *rg_function_args(rg_function_context *ctx);
void *rg_function_state(rg_function_context *ctx);

/* ---- checking an op ------------------------------------------------------------------ */

/* Checks, with these args and inputs as a sample, what regard's own ops are checked for: values and
 * gradients by finite differences, to second order unless the class is once_differentiable; the
 * same for inputs and gradients that aren't contiguous, or are expanded; in float32 as in float64;
 * with each gradient wanted alone; without a write to what isn't its own; replayed; with inputs
 * that are gone or were written to before backward; without a leak, and with each request for
 * memory denied in turn. Inputs are copied; those that require grad are differentiated, or all of
 * floating point where none does. Returns false at the first thing that is wrong, and rg_error()
 * says what it is. No other thread may use regard meanwhile. */
typedef struct RG_OPTIONS rg_function_check_options {
    RG_BY_NAME;
    /* For finite differences, as in rg_gradcheck. */
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
    /* Float32 may differ from float64 by so much, relative to what is larger than 1. */
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
