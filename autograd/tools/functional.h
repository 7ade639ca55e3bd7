/*
 * functional.h: derivatives as functions, with torch.func's names: Jacobians, Hessians, their
 * products with vectors, and vmap. Each takes a function f of tensors, as rg_gradcheck does, the
 * context that is passed to f, and the n inputs of f, which aren't changed:
 *
 *     static rg_tensor *energy(rg_tensor *const in[], void *context) {
 *         return rg_sum(rg_sin(rg_mul(in[0], (Model *)context ...)));
 *     }
 *
 *     rg_tensor *h = rg_hessian(energy, &model, 1, &x);
 *
 * Two inputs are RG_LIST(x, w).v: rg_hessian(energy, &model, 2, RG_LIST(x, w).v). In C an array
 * literal in their place has parentheses around it: ((rg_tensor *[]){ x, w }).
 *
 * The rest of this comment doesn't concern rg_vmap. y is the result of f, and must be floating
 * point. Only floating-point inputs are differentiated. Derivatives, and the y that is returned
 * with them, have no history unless .create_graph is true. With .create_graph, their history leads
 * to the inputs, and to all other tensors that f used.
 *
 * While f runs, grad mode is on and inference mode is off, whatever the program has set. If an
 * input or a vector is an inference tensor, a copy of it is used.
 */
#pragma once

#include "../autograd.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_derivative_options {
    RG_BY_NAME;
    /* The index of the input by which rg_jacrev, rg_jacfwd and rg_hessian differentiate f. */
    int64_t argnum RG_DEFAULT(0);
    rg_flag create_graph RG_DEFAULT(false);
} rg_derivative_options;
#define RG_DERIVATIVE_(...) \
    RG_KEYWORDS(rg_derivative_options, (.argnum = 0, .create_graph = false), __VA_ARGS__)

/* ---- whole matrices ------------------------------------------------------------------
 * y is the result of f, and x is input number .argnum. Element [i.., j..] of the Jacobian is
 * dy[i..] / dx[j..]. The Jacobian's shape consists of the sizes of y and then those of x. rg_jacrev
 * runs backward once for each element of y. rg_jacfwd runs backward once for each element of x,
 * through the graph of a gradient; it is faster than rg_jacrev if y has more than three times as
 * many elements as x. rg_hessian is the Jacobian of the Jacobian. */
rg_tensor *rg_jacrev_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                          rg_derivative_options options);
rg_tensor *rg_jacfwd_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                          rg_derivative_options options);
rg_tensor *rg_hessian_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                           rg_derivative_options options);
#define rg_jacrev(f, context, n, inputs, ...) \
    rg_jacrev_with(f, context, n, inputs, RG_DERIVATIVE_(__VA_ARGS__))
#define rg_jacfwd(f, context, n, inputs, ...) \
    rg_jacfwd_with(f, context, n, inputs, RG_DERIVATIVE_(__VA_ARGS__))
#define rg_jacobian(f, context, n, inputs, ...) \
    rg_jacrev_with(f, context, n, inputs, RG_DERIVATIVE_(__VA_ARGS__))
#define rg_hessian(f, context, n, inputs, ...) \
    rg_hessian_with(f, context, n, inputs, RG_DERIVATIVE_(__VA_ARGS__))

/* ---- products with vectors -------------------------------------------------------------
 * Products of a Jacobian or a Hessian and vectors, computed without the matrix. Each function
 * returns y, or NULL on failure. */

/* Stores results[i] = v^T dy / dx_i, which is what a backward run computes, or RG_NONE if input i
 * isn't floating point. v has y's shape. If y has one element, v may be RG_NONE, which stands for
 * 1. */
rg_tensor *rg_vjp_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_tensor *v, rg_tensor *results[], rg_derivative_options options);
/* Stores *result = sum over i of (dy / dx_i) v_i. This takes two backward runs. v[i] has the shape
 * of input i, or is RG_NONE, which stands for zeros. */
rg_tensor *rg_jvp_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_tensor *const v[], rg_tensor **result, rg_derivative_options options);
/* Stores results[i] = sum over j of d2y / (dx_i dx_j) v_j, the product of y's Hessian and v. y must
 * have one element. v[i] has the shape of input i, or is RG_NONE, which stands for zeros.
 * results[i] is RG_NONE if input i isn't floating point. */
rg_tensor *rg_hvp_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_tensor *const v[], rg_tensor *results[], rg_derivative_options options);
#define rg_vjp(f, context, n, inputs, v, results, ...) \
    rg_vjp_with(f, context, n, inputs, v, results, RG_DERIVATIVE_(__VA_ARGS__))
#define rg_jvp(f, context, n, inputs, v, result, ...) \
    rg_jvp_with(f, context, n, inputs, v, result, RG_DERIVATIVE_(__VA_ARGS__))
#define rg_hvp(f, context, n, inputs, v, results, ...) \
    rg_hvp_with(f, context, n, inputs, v, results, RG_DERIVATIVE_(__VA_ARGS__))

/* ---- vmap: one call of f for each example ------------------------------------------------ */

/* If an element of .in_dims is RG_UNMAPPED, all examples get that whole input (torch's None). */
#define RG_UNMAPPED INT64_MIN
typedef struct RG_OPTIONS rg_vmap_options {
    RG_BY_NAME;
    /* The dim of each input along which the examples lie. An empty list means dim 0 of every
     * input. */
    rg_dims in_dims RG_DEFAULT({});
    /* The dim of the result along which the examples lie. */
    int64_t out_dim RG_DEFAULT(0);
} rg_vmap_options;
/* Calls f once for each example, and stacks the results. Returns NULL on failure. f gets views of
 * the inputs; if it writes to them, it changes the program's tensors, as in torch. rg_vmap is as
 * fast as a loop over the examples, and draws random numbers as a loop does. If speed matters,
 * write an f that takes a batch. */
rg_tensor *rg_vmap_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                        rg_vmap_options options);
#define rg_vmap(f, context, n, inputs, ...) \
    rg_vmap_with(f, context, n, inputs, RG_KEYWORDS(rg_vmap_options, (.out_dim = 0), __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_jacrev_with(f, context, n, ...)  rg_jacrev_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_jacfwd_with(f, context, n, ...)  rg_jacfwd_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_hessian_with(f, context, n, ...) rg_hessian_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_vjp_with(f, context, n, ...)     rg_vjp_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_jvp_with(f, context, n, ...)     rg_jvp_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_hvp_with(f, context, n, ...)     rg_hvp_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_vmap_with(f, context, n, ...)    rg_vmap_with(f, context, RG_INT(n), __VA_ARGS__)

RG_PUBLIC_END
