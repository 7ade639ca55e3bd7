/*
 * autograd.h: derivatives of the functions in ops.h.
 *
 *   recording     requires_grad_, detach, no_grad
 *   backward      gradients into leaves, or returned
 *   hooks         functions that see or change a gradient on its way
 *   checking      gradcheck, gradgradcheck, anomaly mode, profiling
 *   drawing       the graph in Graphviz's language
 *
 * A training step that is repeated often can be recorded once and then replayed: see replay.h.
 */
#pragma once

#include "../tensor/tensor.h"
#include "replay/replay.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- recording ----------------------------------------------------------------
 * Operations are recorded while grad mode is on and an input requires grad. rg_detach returns a
 * tensor without history that shares the storage of t. rg_set_data is torch's t.data = data: the
 * leaf t stays the same tensor, and takes over the storage and dtype of data. If a graph has saved
 * t, rg_set_data counts as an in-place write to t, and a backward run through that graph fails.
 * rg_grad_fn returns the name of the node that computed t, such as "MulBackward0", or "" for a
 * leaf. A function that returns bool also returns false on failure.
 *
 * A write to a view is also a write to its base, and the base's history records it ("CopySlices").
 * Each other view of the base gets a new history ("AsStridedBackward0") when it is next used. As in
 * torch, a recorded write to a view is refused if its base is a leaf that requires grad, if a
 * function that returns a list made the view (rg_split, rg_unbind), or if the view was made while
 * grad mode was off. */

/* Sets whether the leaf t requires grad, and returns t. As in torch, a leaf that no longer requires
 * grad keeps its .grad and its hooks: optimizers still use the gradient, but backward runs don't
 * add to it until the leaf requires grad again. */
rg_tensor *rg_requires_grad_(rg_tensor *t, bool on);
/* rg_requires_grad also returns true for a view that isn't recorded, if its base requires grad.
 * Such a view was made in no_grad or before its base required grad. Its results have no history. */
bool rg_requires_grad(rg_tensor *t);
bool rg_is_leaf(rg_tensor *t);
rg_tensor *rg_detach(rg_tensor *t);
/* Makes t a leaf that doesn't require grad. t keeps its .grad. If t was a leaf, it also keeps its
 * hooks; otherwise its hooks are removed. Fails if t is a view. Results that were computed from t
 * keep their histories. (In torch, a backward run through them may fail if it needs t's value.) */
rg_tensor *rg_detach_(rg_tensor *t);
bool rg_set_data(rg_tensor *t, rg_tensor *data);
const char *rg_grad_fn(rg_tensor *t);

/* Each thread has its own grad mode. rg_set_grad_enabled returns the mode before the call.
 * RG_NO_GRAD(); and RG_ENABLE_GRAD(); set the mode until the end of the C block. */
bool rg_is_grad_enabled(void);
bool rg_set_grad_enabled(bool on);
typedef struct rg_grad_guard {
    bool before;
} rg_grad_guard;
rg_grad_guard rg_grad_guard_open(bool on);
void rg_grad_guard_close(rg_grad_guard *guard);
#define RG_GRAD_GUARD_(on)                        \
    rg_grad_guard RG_PASTE(rg_grad_, __COUNTER__) \
        __attribute__((cleanup(rg_grad_guard_close), unused)) = rg_grad_guard_open(on)
#define RG_NO_GRAD()     RG_GRAD_GUARD_(false)
#define RG_ENABLE_GRAD() RG_GRAD_GUARD_(true)

/* Each thread also has its own inference mode. RG_INFERENCE_MODE(); is torch.inference_mode until
 * the end of the C block. In inference mode nothing is recorded, whatever grad mode is. Every new
 * tensor is an inference tensor, and so is a view of an inference tensor. Outside of inference
 * mode, ops that aren't recorded take an inference tensor like any other. But an inference tensor
 * can't be saved for backward, written to, or made to require grad. rg_clone returns a normal copy.
 * rg_inference_guard_open(false) sets the normal mode, with grad mode on, until the guard is
 * closed. */
bool rg_is_inference_mode_enabled(void);
bool rg_is_inference(rg_tensor *t);
typedef struct rg_inference_guard {
    bool inference, grad; /* The modes before the guard, which are restored when it is closed. */
} rg_inference_guard;
rg_inference_guard rg_inference_guard_open(bool on);
void rg_inference_guard_close(rg_inference_guard *guard);
#define RG_INFERENCE_MODE()                                 \
    rg_inference_guard RG_PASTE(rg_inference_, __COUNTER__) \
        __attribute__((cleanup(rg_inference_guard_close), unused)) = rg_inference_guard_open(true)

/* ---- backward ------------------------------------------------------------------
 * rg_backward(loss) adds the loss's gradients to .grad of every leaf on which the loss depends, and
 * frees the values that the graph saved. It returns false on failure. A failed run has changed no
 * leaf's .grad, unless a post-accumulate-grad hook has failed. rg_backward warns if the loss is
 * NaN. rg_grad(y, x) returns the gradient dy/dx, and adds nothing to .grad. */
typedef struct RG_OPTIONS rg_backward_options {
    RG_BY_NAME;
    /* The gradient of y. If it is left out, it is 1, and y must have one element. */
    rg_tensor *gradient RG_DEFAULT(RG_NONE);
    rg_flag retain_graph RG_DEFAULT(false);
    /* If true, the backward run itself is recorded, so that its gradients can be differentiated.
     * The graph is retained as well. */
    rg_flag create_graph RG_DEFAULT(false);
    /* If y doesn't depend on x, rg_grad returns RG_NONE if this is true, and fails if it is
     * false. */
    rg_flag allow_unused RG_DEFAULT(false);
    /* If a list is given, such as RG_LIST(w, b), rg_backward visits only these tensors and those
     * that lead from y to them, and calls no hooks of others. It adds to the .grad of the tensors
     * in the list. One that isn't a leaf gets a .grad, as by rg_retain_grad. */
    rg_list inputs RG_DEFAULT({});
} rg_backward_options;

bool rg_backward_with(rg_tensor *y, rg_backward_options options);
rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options);
#define RG_BACKWARD_(...)   RG_KEYWORDS(rg_backward_options, (.gradient = RG_NONE), __VA_ARGS__)
#define rg_backward(y, ...) rg_backward_with(y, RG_BACKWARD_(__VA_ARGS__))
#define rg_grad(y, x, ...) RG_IN_ORDER_2(rg_grad_with, __COUNTER__, y, x, RG_BACKWARD_(__VA_ARGS__))
/* rg_backward_many and rg_grad_many are rg_backward and rg_grad for several outputs y and inputs x.
 * `gradients` is NULL, or has the gradient of each y; RG_NONE stands for 1 if that y has one
 * element. options.gradient is ignored. */
bool rg_backward_many(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                      rg_backward_options options);
bool rg_grad_many(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                  rg_tensor *const x[], rg_tensor *results[], rg_backward_options options);

/* rg_grad_of returns t.grad, or RG_NONE if t has no gradient: no backward run has added to it yet,
 * or it was removed (rg_optim_zero_grad), or t isn't a leaf and doesn't retain its grad.
 * rg_set_grad sets it. t must be a leaf, which needn't require grad, or must retain its grad;
 * otherwise rg_set_grad fails. rg_set_grad(t, RG_NONE) removes the gradient. rg_retain_grad makes a
 * tensor that isn't a leaf keep its .grad, and rg_retains_grad returns whether t is such a tensor.
 * For a leaf, rg_retains_grad returns false. */
rg_tensor *rg_grad_of(rg_tensor *t);
bool rg_set_grad(rg_tensor *t, rg_tensor *grad);
bool rg_retain_grad(rg_tensor *t);
bool rg_retains_grad(rg_tensor *t);

/* ---- hooks -----------------------------------------------------------------------
 * A hook is a function that is called with the gradient of the tensor t for which it was
 * registered. It returns a replacement of the same shape and dtype, or RG_NONE to keep the
 * gradient. A hook is called as soon as the gradient is complete, and before the backward run goes
 * on from t; t may also be a leaf. A hook must not be left by longjmp (see rg_error_handler).
 * rg_register_hook returns the hook's id, or -1 on failure. */
typedef rg_tensor *rg_hook_function(rg_tensor *grad, void *context);
int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context);
bool rg_remove_hook(rg_tensor *t, int id);
/* A post-accumulate-grad hook is called with a leaf after each backward run that added to the
 * leaf's gradient. For example, the hook may call an optimizer's step and remove the gradient. If a
 * hook returns false, the backward run fails, although all gradients were added. These hooks are
 * called at the end of the run, in the order in which the gradients of their leaves became
 * complete. The function that registers the hook returns its id, or -1 on failure. */
typedef bool rg_post_accumulate_grad_hook(rg_tensor *leaf, void *context);
int rg_register_post_accumulate_grad_hook(rg_tensor *t, rg_post_accumulate_grad_hook *hook,
                                          void *context);

/* ---- checking --------------------------------------------------------------------
 * rg_gradcheck compares the gradients of a function with finite differences, in float64.
 * rg_gradgradcheck compares the gradients of these gradients. If values differ, the check returns
 * false, and rg_error() names the worst element, both values, and the likely cause: a detached
 * path, a write in place, or dropout. The parameters of a module may be among the inputs: they are
 * changed in place, and restored. The checks whose names contain _list take a function that returns
 * up to 64 outputs, in an array that must outlive the function's call. Outputs that don't require
 * grad, such as integers, aren't checked. If no output requires grad, all finite differences must
 * be 0. Two inputs are RG_LIST(x, w).v, or an array literal in parentheses:
 * ((rg_tensor *[]){ x, w }). The function must not be left by longjmp (see rg_error_handler). The
 * library puts 16 NULLs after the inputs: a function that reads too many inputs gets a NULL, and
 * fails. */
typedef rg_tensor *rg_function(rg_tensor *const inputs[], void *context);
typedef rg_list rg_list_function(rg_tensor *const inputs[], void *context);
typedef struct RG_OPTIONS rg_gradcheck_options {
    RG_BY_NAME;
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
    /* The largest difference that is allowed between two backward runs. */
    double nondet_tol RG_DEFAULT(0);
} rg_gradcheck_options;
bool rg_gradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_gradcheck_options options);
bool rg_gradgradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                           rg_gradcheck_options options);
bool rg_gradcheck_list_with(rg_list_function *f, void *context, int n, rg_tensor *const inputs[],
                            rg_gradcheck_options options);
bool rg_gradgradcheck_list_with(rg_list_function *f, void *context, int n,
                                rg_tensor *const inputs[], rg_gradcheck_options options);
#define RG_GRADCHECK_(...) \
    RG_KEYWORDS(rg_gradcheck_options, (.eps = 1e-6, .atol = 1e-5, .rtol = 1e-3), __VA_ARGS__)
#define rg_gradcheck(f, context, n, inputs, ...) \
    rg_gradcheck_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))
#define rg_gradgradcheck(f, context, n, inputs, ...) \
    rg_gradgradcheck_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))
#define rg_gradcheck_list(f, context, n, inputs, ...) \
    rg_gradcheck_list_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))
#define rg_gradgradcheck_list(f, context, n, inputs, ...) \
    rg_gradgradcheck_list_with(f, context, n, inputs, RG_GRADCHECK_(__VA_ARGS__))

/* In anomaly mode, an op fails if it computes a NaN from inputs without NaN, or an infinity from
 * finite inputs, in forward or backward. The error names the op, its shapes, and the functions that
 * made the forward call (by name if the program is linked with -rdynamic, otherwise by addresses
 * for addr2line). rg_set_detect_anomaly returns whether the mode was on before. */
bool rg_set_detect_anomaly(bool on);
bool rg_is_anomaly_enabled(void);

/* The profiler counts each op's calls, time, bytes and floating point operations. If the
 * environment has REGARD_PROFILE=1, a table of these numbers is printed when the program ends.
 * REGARD_PROFILE=FILE.json also writes each call to that file, for chrome://tracing; %p in the
 * file's name stands for the process ID. After a fork, the child writes nothing to the file.
 * rg_set_profiling returns whether the profiler was on before. rg_profile_table returns the table
 * of all calls up to now. rg_profile_cost returns the sum of the table's rows whose name is `row`,
 * such as "matmul" or "matmul, backward". If `row` is NULL, it returns the sum of all rows, except
 * those that rg_profile_end made. */
bool rg_set_profiling(bool on);
const char *rg_profile_table(void);
typedef struct rg_cost {
    int64_t calls;
    double ns, bytes, flops;
} rg_cost;
rg_cost rg_profile_cost(const char *row);

/* The profile can also have rows for work other than ops. RG_RECORD_FUNCTION("read a batch"); is
 * torch's record_function: the row gets the time until the end of the C block. The time of ops
 * inside the block isn't included, nor that of other such blocks, since these have rows of their
 * own. The name is UTF-8; its first 63 bytes count, and it must exist until the end of the block.
 * Work that begins while the profiler is off isn't counted. */
typedef struct rg_profile_guard {
    const char *name;
    double began, outer;
} rg_profile_guard;
rg_profile_guard rg_profile_open(const char *name);
void rg_profile_close(rg_profile_guard *g);
#define RG_RECORD_FUNCTION(name)                        \
    rg_profile_guard RG_PASTE(rg_profile_, __COUNTER__) \
        __attribute__((cleanup(rg_profile_close), unused)) = rg_profile_open(name)
/* rg_profile_begin and rg_profile_end measure work that goes on while the thread does something
 * else, such as the sending of a message. double began = rg_profile_begin(); begins the
 * measurement, and rg_profile_end("send", began, bytes); ends it. Several measurements may end in
 * any order and on any thread. Such work has a line of its own in the file of REGARD_PROFILE, and
 * isn't part of the total time. */
double rg_profile_begin(void);
void rg_profile_end(const char *name, double began, double bytes);

/* ---- drawing ----------------------------------------------------------------------
 * rg_graph_dot returns a description, in Graphviz's language, of the graph that computed y. The
 * description shows the names given by rg_set_name. rg_graph_save writes the description to a
 * file. */
const char *rg_graph_dot(rg_tensor *y);
bool rg_graph_save(rg_tensor *y, const char *path);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_requires_grad_(t, on)    rg_requires_grad_(t, RG_FLAG(on))
#define rg_set_data(t, data)        RG_IN_ORDER_2(rg_set_data, __COUNTER__, t, data)
#define rg_set_grad_enabled(on)     rg_set_grad_enabled(RG_FLAG(on))
#define rg_grad_guard_open(on)      rg_grad_guard_open(RG_FLAG(on))
#define rg_inference_guard_open(on) rg_inference_guard_open(RG_FLAG(on))
#define rg_backward_many(n, ...)    rg_backward_many(RG_INT(n), __VA_ARGS__)
#define rg_set_grad(t, grad)        RG_IN_ORDER_2(rg_set_grad, __COUNTER__, t, grad)
#define rg_grad_many(n, ...) \
    rg_grad_many(RG_INT(n),  \
                 RG_CHECKED_6(RG_ANY, RG_ANY, RG_INT, RG_ANY, RG_ANY, RG_ANY, __VA_ARGS__))
#define rg_remove_hook(t, id)                 rg_remove_hook(t, RG_INT(id))
#define rg_gradcheck_with(f, context, n, ...) rg_gradcheck_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_gradgradcheck_with(f, context, n, ...) \
    rg_gradgradcheck_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_gradcheck_list_with(f, context, n, ...) \
    rg_gradcheck_list_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_gradgradcheck_list_with(f, context, n, ...) \
    rg_gradgradcheck_list_with(f, context, RG_INT(n), __VA_ARGS__)
#define rg_set_detect_anomaly(on)          rg_set_detect_anomaly(RG_FLAG(on))
#define rg_set_profiling(on)               rg_set_profiling(RG_FLAG(on))
#define rg_profile_end(name, began, bytes) rg_profile_end(name, RG_REAL(began), RG_REAL(bytes))

RG_PUBLIC_END
