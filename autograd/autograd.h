/*
 * autograd.h: derivatives of the functions in ops.h.
 *
 *   recording     requires_grad_, detach, no_grad
 *   backward      gradients into leaves, or returned
 *   hooks         functions that see or change a gradient on its way
 *   checking      gradcheck, gradgradcheck, anomaly mode, profiling
 *   drawing the graph in Graphviz's language
 *
 * A step that runs often can be recorded and replayed: see replay.h.
 */
#pragma once

#include "../tensor/tensor.h"
#include "replay/replay.h"

RG_PUBLIC_BEGIN

/* ---- recording ----------------------------------------------------------------
 * Operations are recorded while grad mode is on and an input requires grad. rg_detach returns a
 * tensor on the same storage without history. rg_set_data is t.data = data: the leaf stays the same
 * and takes over the storage and dtype of data. rg_grad_fn returns "MulBackward0" or the like, and
 * "" for a leaf. A function that returns bool returns false on failure, too.
 *
 * A write to a view is also a write to its base, whose history records it ("CopySlices"); each
 * other view of the base gets a new history ("AsStridedBackward0") when it is next used. As in
 * torch, a write is refused if the view's base is a leaf, or if a function that returns a list made
 * the view (rg_split, rg_unbind), or if it was made without grad mode. */
rg_tensor *rg_requires_grad_(rg_tensor *t, bool on);
/* Returns true also for an unrecorded view of a base that requires grad: a view that was made
 * without grad mode, or before its base required grad. */
bool rg_requires_grad(rg_tensor *t);
bool rg_is_leaf(rg_tensor *t);
rg_tensor *rg_detach(rg_tensor *t);
/* Makes t a leaf. Results computed from t before keep their history. (torch may refuse to use a
 * value that was saved before it was detached.) */
rg_tensor *rg_detach_(rg_tensor *t);
bool rg_set_data(rg_tensor *t, rg_tensor *data);
const char *rg_grad_fn(rg_tensor *t);

/* Each thread has its own grad mode. rg_set_grad_enabled returns the previous mode. RG_NO_GRAD();
 * and RG_ENABLE_GRAD(); set it until the end of the C block. */
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

/* Each thread has its own inference mode, too: RG_INFERENCE_MODE(); is torch.inference_mode until
 * the end of the C block. In it nothing is recorded, whatever grad mode is, and every new tensor is
 * an inference tensor, as are views of inference tensors. Outside, ops that aren't recorded take an
 * inference tensor as they take any other; but it can't be saved for backward, written to, or made
 * to require grad. rg_clone returns a normal copy of it. A guard that is opened with false restores
 * the normal mode, with grad mode on, until it is closed. */
bool rg_is_inference_mode_enabled(void);
bool rg_is_inference(rg_tensor *t);
typedef struct rg_inference_guard {
    bool inference, grad; /* The modes before the guard, which its end restores. */
} rg_inference_guard;
rg_inference_guard rg_inference_guard_open(bool on);
void rg_inference_guard_close(rg_inference_guard *guard);
#define RG_INFERENCE_MODE()                                 \
    rg_inference_guard RG_PASTE(rg_inference_, __COUNTER__) \
        __attribute__((cleanup(rg_inference_guard_close), unused)) = rg_inference_guard_open(true)

/* ---- backward ------------------------------------------------------------------
 * rg_backward(loss) adds the loss's gradients to .grad of every leaf that the loss depends on, and
 * frees the values that the graph saved; it returns false on failure, and then every .grad is as it
 * was. rg_grad(y, x) returns dy/dx instead. */
typedef struct RG_OPTIONS rg_backward_options {
    RG_BY_NAME;
    /* The gradient of y. It may be left out if y has one element. */
    rg_tensor *gradient RG_DEFAULT(RG_NONE);
    bool retain_graph RG_DEFAULT(false);
    /* Records the backward run itself, so that its gradients can be differentiated. Also retains
     * the graph. */
    bool create_graph RG_DEFAULT(false);
    /* If true, rg_grad returns RG_NONE for an x that y doesn't depend on; if false, it fails. */
    bool allow_unused RG_DEFAULT(false);
    /* rg_backward computes and adds only the gradients of these tensors: RG_LIST(w, b). A tensor
     * among them that isn't a leaf keeps its .grad, as after rg_retain_grad. */
    rg_list inputs RG_DEFAULT({});
} rg_backward_options;

bool rg_backward_with(rg_tensor *y, rg_backward_options options);
rg_tensor *rg_grad_with(rg_tensor *y, rg_tensor *x, rg_backward_options options);
#define RG_BACKWARD_(...) RG_KEYWORDS(rg_backward_options, (.gradient = RG_NONE), __VA_ARGS__)
#define rg_backward(y, ...) rg_backward_with(y, RG_BACKWARD_(__VA_ARGS__))
#define rg_grad(y, x, ...)  rg_grad_with(y, x, RG_BACKWARD_(__VA_ARGS__))
/* The same for several outputs and inputs. `gradients` is NULL or has one element for each y,
 * RG_NONE if that y has one element. options.gradient is ignored. */
bool rg_backward_many(int n, rg_tensor *const y[], rg_tensor *const gradients[],
                      rg_backward_options options);
bool rg_grad_many(int n, rg_tensor *const y[], rg_tensor *const gradients[], int m,
                  rg_tensor *const x[], rg_tensor *results[], rg_backward_options options);

/* rg_grad_of returns t.grad, or RG_NONE if t has none. rg_set_grad(t, RG_NONE) removes the
 * gradient. rg_retain_grad makes a tensor that isn't a leaf keep its .grad, and rg_retains_grad
 * returns whether rg_retain_grad was called for it. */
rg_tensor *rg_grad_of(rg_tensor *t);
bool rg_set_grad(rg_tensor *t, rg_tensor *grad);
bool rg_retain_grad(rg_tensor *t);
bool rg_retains_grad(rg_tensor *t);

/* ---- hooks -----------------------------------------------------------------------
 * A hook is called with the gradient of t, and returns its replacement, of the same size and dtype,
 * or RG_NONE to keep it. It is called as soon as the gradient is complete, before the backward run
 * goes on from t; also if t is a leaf. It must not be left by longjmp (see rg_error_handler).
 * rg_register_hook returns the hook's id, or -1 on failure. */
typedef rg_tensor *rg_hook_function(rg_tensor *grad, void *context);
int rg_register_hook(rg_tensor *t, rg_hook_function *function, void *context);
bool rg_remove_hook(rg_tensor *t, int id);
/* A post-accumulate-grad hook is called with a leaf after each backward run that added to its
 * gradient; it may step an optimizer and remove the gradient. It returns false on failure, and the
 * run then fails, though all gradients were added. These hooks are called at the end of the run, in
 * the order in which the leaves' gradients became complete. The function returns the hook's id, or
 * -1 on failure.
 */
typedef bool rg_post_accumulate_grad_hook(rg_tensor *leaf, void *context);
int rg_register_post_accumulate_grad_hook(rg_tensor *t, rg_post_accumulate_grad_hook *hook,
                                          void *context);

/* ---- checking --------------------------------------------------------------------
 * rg_gradcheck compares the gradients of a function with finite differences, in float64, and
 * rg_gradgradcheck compares the gradients of these gradients. If they differ, both return false,
 * and rg_error() names the worst element, both values, and the likely cause: a detached path, a
 * write in place, dropout. A module's parameters may be among the inputs: they are changed in
 * place, and restored. The function of a check with _list returns up to 64 outputs, in an array
 * that outlives the call; outputs that don't require grad, such as integers, are left out, unless
 * no output requires grad: then all must stay the same. The function must not be left by longjmp
 * (see rg_error_handler). The library always puts 16 NULLs behind the inputs, so that a function
 * that reads too many inputs fails. */
typedef rg_tensor *rg_function(rg_tensor *const inputs[], void *context);
typedef rg_list rg_list_function(rg_tensor *const inputs[], void *context);
typedef struct RG_OPTIONS rg_gradcheck_options {
    RG_BY_NAME;
    double eps RG_DEFAULT(1e-6);
    double atol RG_DEFAULT(1e-5);
    double rtol RG_DEFAULT(1e-3);
    /* The largest difference between two backward runs. */
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

/* In anomaly mode the first op that computes a NaN or an infinity from finite numbers, forward or
 * backward, fails, and the error names the op, its shapes, and the functions that made the forward
 * call (by name if the program is linked with -rdynamic, else by addresses for addr2line).
 * rg_set_detect_anomaly returns whether the mode was on before. */
bool rg_set_detect_anomaly(bool on);
bool rg_is_anomaly_enabled(void);

/* The profiler counts each op's calls, time, bytes and floating point operations. REGARD_PROFILE=1
 * in the environment prints the table when the program ends; REGARD_PROFILE=FILE.json also writes
 * each call to that file, for chrome://tracing, and %p in its name stands for the process's number.
 * After a fork, the child writes nothing to the file. rg_set_profiling returns whether the profiler
 * was on before. rg_profile_table returns the table of all calls until now. rg_profile_cost returns
 * the sum of the table's rows with this name, "matmul" or "matmul, backward", or, for NULL, of all
 * rows but those of rg_profile_end. */
bool rg_set_profiling(bool on);
const char *rg_profile_table(void);
typedef struct rg_cost {
    int64_t calls;
    double ns, bytes, flops;
} rg_cost;
rg_cost rg_profile_cost(const char *row);

/* Rows of the profile for work other than ops. RG_RECORD_FUNCTION("read a batch"); is torch's
 * record_function: it counts the time until the end of the C block. The name is UTF-8, of which the
 * first 63 bytes count, and must live that long. Ops that are called inside count their time in
 * their own rows. Work that begins while the profiler is off isn't counted. */
typedef struct rg_profile_guard {
    const char *name;
    double began, outer;
} rg_profile_guard;
rg_profile_guard rg_profile_open(const char *name);
void rg_profile_close(rg_profile_guard *g);
#define RG_RECORD_FUNCTION(name)                        \
    rg_profile_guard RG_PASTE(rg_profile_, __COUNTER__) \
        __attribute__((cleanup(rg_profile_close), unused)) = rg_profile_open(name)
/* Begin and end a span of work that goes on while the thread does something else, such as sending a
 * message: double began = rg_profile_begin(); begins it, and rg_profile_end("send", began, bytes);
 * ends it, in any order and on any thread. Such work has a line of its own in the file, and doesn't
 * count in the total time. */
double rg_profile_begin(void);
void rg_profile_end(const char *name, double began, double bytes);

/* ---- drawing ----------------------------------------------------------------------
 * rg_graph_dot returns the graph behind y in Graphviz's language, with the names of
 * rg_set_name; rg_graph_save writes it to a file. */
const char *rg_graph_dot(rg_tensor *y);
bool rg_graph_save(rg_tensor *y, const char *path);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_backward_many(n, ...) rg_backward_many(RG_WHOLE(n), __VA_ARGS__)
#define rg_grad_many(n, y, gradients, m, ...) \
    rg_grad_many(RG_WHOLE(n), y, gradients, RG_WHOLE(m), __VA_ARGS__)
#define rg_remove_hook(t, id) rg_remove_hook(t, RG_WHOLE(id))
#define rg_gradcheck_with(f, context, n, ...) \
    rg_gradcheck_with(f, context, RG_WHOLE(n), __VA_ARGS__)
#define rg_gradgradcheck_with(f, context, n, ...) \
    rg_gradgradcheck_with(f, context, RG_WHOLE(n), __VA_ARGS__)
#define rg_gradcheck_list_with(f, context, n, ...) \
    rg_gradcheck_list_with(f, context, RG_WHOLE(n), __VA_ARGS__)
#define rg_gradgradcheck_list_with(f, context, n, ...) \
    rg_gradgradcheck_list_with(f, context, RG_WHOLE(n), __VA_ARGS__)

RG_PUBLIC_END
