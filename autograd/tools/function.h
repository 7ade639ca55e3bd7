/*
 * function.h: ops of your own, as with torch.autograd.Function. You write a forward and a backward
 * function, and the graph treats them like the ops of ops.h. Hooks, anomaly mode, the profiler,
 * drawings, replay and rg_gradcheck work with them.
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
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* The context of one call of the op. Forward stores in it the values that backward needs. */
typedef struct rg_function_context rg_function_context;

/* A class must exist as long as the program, and all threads share it. The first use of the class
 * copies it; a later use fails if a field has changed since then. The functions forward and
 * backward must not be left by longjmp (see rg_error_handler in tensor.h). If a call inside one of
 * them fails, and the function doesn't read the error, the function counts as failed, even if it
 * returns true. */
typedef struct RG_OPTIONS rg_function_class {
    RG_BY_NAME;
    /* The name of the op in errors and in the profiler. grad_fn is this name followed by
     * "Backward". */
    const char *name RG_DEFAULT(NULL);
    /* Computes out[0], out[1], .. from the inputs. It is called in a scope of its own, and its
     * calls aren't recorded in the graph. An absent input is RG_NONE. Returns false on failure; a
     * NULL output is also a failure. */
    bool (*forward)(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[])
        RG_DEFAULT(NULL);
    /* Computes gin[i], the gradient of input i, from g[k], the gradients of the outputs. Each
     * gin[i] is RG_NONE at first, which stands for zero, and may stay so. gin[i] has the shape of
     * input i, or a shape to which input i broadcasts. In the second case gin[i] is summed to the
     * input's shape. If backward calls regard's functions, its gradients can be differentiated
     * again. If it works on the data directly, they can't, and the class must set
     * `once_differentiable`. */
    bool (*backward)(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[])
        RG_DEFAULT(NULL);
    /* The number of outputs, up to 8. 0 stands for one output. */
    int64_t outputs RG_DEFAULT(0);
    /* The size in bytes of the args that the program passes to rg_function_apply, which copies
     * them. rg_function_args returns the copy. A program passes NULL if its class has no args. */
    size_t args_bytes RG_DEFAULT(0);
    /* The size in bytes of the state that forward leaves for backward. rg_function_state returns
     * the state, which is all zeros at first. Don't store pointers to tensors in it: use
     * rg_save_for_backward. */
    size_t state_bytes RG_DEFAULT(0);
    /* If true, it is an error to differentiate a gradient of this op. */
    rg_flag once_differentiable RG_DEFAULT(false);
    /* If true, an output that got no gradient has RG_NONE as its gradient instead of zeros. */
    rg_flag unmaterialized_grads RG_DEFAULT(false);
    /* Private; leave it out. */
    void *row RG_DEFAULT(NULL);
} rg_function_class;

/* Apply the op to up to 16 tensors. rg_function_apply returns the first output, or NULL on failure.
 * rg_function_apply_many writes all outputs to out[], and returns false on failure. */
rg_tensor *rg_function_apply_list(rg_function_class *cls, const void *args, rg_list inputs);
bool rg_function_apply_many(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_tensor *out[]);
#define rg_function_apply(cls, args, ...) \
    rg_function_apply_list(cls, args, RG_ARGUMENTS_(__VA_ARGS__))

/* ---- for use in forward and backward ------------------------------------------------ */

/* Keeps up to 8 inputs, outputs or intermediate results for backward. (If an op has 16 inputs and a
 * state, only up to 7 may be intermediate results.) If forward writes to a kept tensor after this
 * call, forward fails; if it is written to before backward, backward fails. A second derivative
 * flows through kept inputs and outputs, but not through intermediate results. Call this once, in
 * forward. */
bool rg_save_for_backward_list(rg_function_context *ctx, rg_list tensors);
#define rg_save_for_backward(ctx, ...) rg_save_for_backward_list(ctx, RG_ARGUMENTS_(__VA_ARGS__))
/* In backward, returns tensor number i of the tensors that forward saved. Returns NULL on
 * failure. */
rg_tensor *rg_saved_tensor(rg_function_context *ctx, int i);
/* Returns whether the gradient of input i is wanted. Backward needn't compute a gradient that isn't
 * wanted. */
bool rg_needs_input_grad(rg_function_context *ctx, int i);
/* In forward, marks an output through which no gradient flows. */
bool rg_mark_non_differentiable(rg_function_context *ctx, rg_tensor *output);
/* Return the args and the state (see rg_function_class). Return NULL if the class has none. */
const void *rg_function_args(rg_function_context *ctx);
void *rg_function_state(rg_function_context *ctx);

/* ---- loops that rg_replay_to_c can write ---------------------------------------------
 * A recorded step can be written as C if the text of all its loops is known. RG_FUNCTION_LOOP
 * defines a loop of a program's own op, and keeps its text:
 *
 *     RG_FUNCTION_LOOP(echo_rows, (double, double), {
 *         double *to = (double *)p[0];
 *         const double *from = (const double *)p[1];
 *         for (int64_t i = 0; i < n[0]; i++)
 *             to[i] = from[i] + (i % n[1] ? x[0] * to[i - 1] : 0);
 *     })
 *
 * Forward or backward then runs it on contiguous tensors, whole numbers, and numbers. The loop may
 * write to tensors that this function has made, and to no others, since writes aren't counted. A
 * step that is recorded can't run it outside of an op:
 *
 *     rg_run_function_loop(&echo_rows, RG_LIST(y, from), RG_DIMS(rg_numel(y), rg_size(y, -1)),
 *                          1, &args->decay);
 *
 * In the loop, p[i] is the address of the first element of tensor i, n[] has the whole numbers, and
 * x[] the numbers. The list in parentheses has the types of the tensors' elements: float, double,
 * int64_t or bool. The loop may use nothing else: no variable, function or macro of the program,
 * and no function of the C library. It must do the same each time that it gets the same numbers and
 * elements. */
typedef struct rg_function_loop {
    const char *name, *types, *text;
    void (*run)(char *const p[], const int64_t n[], const double x[]);
} rg_function_loop;
#define RG_FUNCTION_LOOP(NAME, TYPES, ...)                                                    \
    static void NAME##_run(char *const p[], const int64_t n[], const double x[]) {            \
        (void)p;                                                                              \
        (void)n;                                                                              \
        (void)x;                                                                              \
        __VA_ARGS__                                                                           \
    }                                                                                         \
    static const rg_function_loop NAME = { #NAME, #TYPES, #__VA_ARGS__, NAME##_run };
/* Runs the loop on up to 16 tensors and up to 16 numbers. Fails and returns false, without running
 * it, if a tensor isn't contiguous or has another dtype than the loop takes. */
bool rg_run_function_loop(const rg_function_loop *loop, rg_list tensors, rg_dims n, int64_t count,
                          const double x[]);

/* ---- checking an op ------------------------------------------------------------------ */

/* Checks an op as regard's own ops are checked. The op is called with `args` and with copies of the
 * inputs. Gradients are checked for the inputs that require grad or, if none does, for all
 * floating-point inputs. The check compares gradients with finite differences, and checks that they
 * are linear in the gradients of the outputs. It compares second derivatives, too, unless the class
 * is once_differentiable. It tries float32 and float64, and inputs and gradients that are expanded
 * or otherwise not contiguous. It tries runs in which only one input requires grad, or only one
 * output gets a gradient. Backward must not write to the inputs, the outputs or the outputs'
 * gradients. If the inputs are released before backward, backward must compute the right gradients.
 * If they are written to before backward, backward must either fail or compute the right gradients.
 * The op must be replayable, leak no memory, and fail cleanly when an allocation fails. Returns
 * false at the first mistake, which rg_error() describes. No other thread may use regard during the
 * check. */
typedef struct RG_OPTIONS rg_function_check_options {
    RG_BY_NAME;
    /* The step size and the tolerances of finite differences, as in rg_gradcheck. */
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
    /* The largest difference that is allowed between results in float32 and in float64. If the
     * absolute value of a result is above 1, the difference is divided by that value. */
    double float32_tol RG_DEFAULT(1e-3);
} rg_function_check_options;
bool rg_function_check_with(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_function_check_options options);
#define RG_FUNCTION_CHECK_(...)            \
    RG_KEYWORDS(rg_function_check_options, \
                (.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, .float32_tol = 1e-3), __VA_ARGS__)
#define rg_function_check(cls, args, inputs, ...) \
    rg_function_check_with(cls, args, inputs, RG_FUNCTION_CHECK_(__VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_saved_tensor(ctx, i)     rg_saved_tensor(ctx, RG_INT(i))
#define rg_needs_input_grad(ctx, i) rg_needs_input_grad(ctx, RG_INT(i))
#define rg_run_function_loop(loop, tensors, ...) \
    rg_run_function_loop(loop, tensors, RG_CHECKED_3(RG_ANY, RG_INT, RG_ANY, __VA_ARGS__))

RG_PUBLIC_END
